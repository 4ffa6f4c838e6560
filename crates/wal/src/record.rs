//! The format of a frame, which stores one record in a batch.
//!
//! ```text
//! offset  bytes  little endian
//!      0      4  magic, which names the format version
//!      4      1  kind                      (0 is the log's own idle record)
//!      5      1  zero
//!      6      2  header bytes before the stamp
//!      8      4  stamp bytes
//!     12      4  payload bytes
//!     16      8  LSN
//!     24      4  checksum of the payload
//!     28      4  checksum of the 28 bytes before and of the stamp
//!     32         stamp, payload, zeros up to a multiple of 8
//! ```
//! Both checksums are CRC-32C seeded with the salt of the term. A frame can be recognized without
//! the head of its batch, so a damaged head does not lose records.

use bytes::Bytes;
use freshet_base::Lsn;

use crate::checksum::Salt;

/// The first bytes of a frame; the last one is the format version.
pub const MAGIC: [u8; 4] = *b"FWL\x02";
/// The kind of idle records, which the log appends itself.
pub const KIND_IDLE: u8 = 0;
/// Length of the head of a batch, before its first frame.
pub const BATCH_HEAD_BYTES: usize = 64;
/// Length of the header of a frame, before its stamp.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Maximum length of a stamp. It is limited because the reader checksums a stamp before it knows
/// that the header's lengths are valid.
pub const STAMP_BYTES_MAX: usize = 1 << 20;
/// Frames are aligned to this.
pub(crate) const FRAME_ALIGN_BYTES: usize = 8;

/// Length of a frame with padding.
pub(crate) const fn frame_bytes(stamp_bytes: usize, payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + stamp_bytes + payload_bytes).next_multiple_of(FRAME_ALIGN_BYTES)
}

/// The body of a record.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// Copied by the append.
    Slice(&'a [u8]),
    /// Shared with the log until it is written; for payloads too large to be copied under the lock.
    Shared(Bytes),
    /// The same, of bytes that stand in several places.
    Pieces(Vec<Bytes>),
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Slice(bytes)
    }
}

impl From<Bytes> for Payload<'_> {
    fn from(bytes: Bytes) -> Self {
        Self::Shared(bytes)
    }
}

impl Payload<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Slice(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    pub(crate) fn checksum(&self, salt: &Salt) -> u32 {
        match self {
            Self::Slice(bytes) => salt.checksum(&[bytes]),
            Self::Shared(bytes) => salt.checksum(&[bytes]),
            Self::Pieces(pieces) => {
                salt.checksum(&pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>())
            }
        }
    }

    /// Converts a slice larger than `copied_bytes_max` to shared bytes, so that it is not copied
    /// under the lock.
    pub(crate) fn share_large(self, copied_bytes_max: usize) -> Self {
        match self {
            Self::Slice(bytes) if bytes.len() > copied_bytes_max => {
                Self::Shared(Bytes::copy_from_slice(bytes))
            }
            other => other,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub kind: u8,
    pub stamp_bytes: u32,
    pub payload_bytes: u32,
    pub lsn: Lsn,
    pub payload_checksum: u32,
}

impl Header {
    /// Encodes the bytes before the stamp.
    pub(crate) fn encode(&self, stamp: &[u8], salt: &Salt) -> [u8; FRAME_HEADER_BYTES] {
        assert_eq!(self.stamp_bytes as usize, stamp.len(), "a header counts its stamp");
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind;
        bytes[6..8].copy_from_slice(&(FRAME_HEADER_BYTES as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stamp_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.get().to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = salt.checksum(&[&bytes[..28], stamp]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header that is not yet verified: only magic, version and form are checked.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let well_formed = bytes[..4] == MAGIC
            && bytes[5] == 0
            && bytes[6..8] == (FRAME_HEADER_BYTES as u16).to_le_bytes();
        well_formed.then(|| Self {
            kind: bytes[4],
            stamp_bytes: u32_at(bytes, 8),
            payload_bytes: u32_at(bytes, 12),
            lsn: Lsn(u64_at(bytes, 16)),
            payload_checksum: u32_at(bytes, 24),
        })
    }

    /// Length of the frame with padding.
    pub(crate) fn frame_bytes(&self) -> usize {
        frame_bytes(self.stamp_bytes as usize, self.payload_bytes as usize)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within a header"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within a header"))
}

/// A valid frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame<'a> {
    pub header: Header,
    pub stamp: &'a [u8],
    pub payload: &'a [u8],
}

/// What was found at a possible start of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed<'a> {
    Frame(Frame<'a>),
    /// The header is valid, but the payload is not.
    DamagedPayload {
        header: Header,
        stamp: &'a [u8],
    },
    /// No frame of this term.
    Nothing,
}

/// Parses a frame of the term of `salt` at the start of `bytes`.
pub(crate) fn parse<'a>(bytes: &'a [u8], salt: &Salt) -> Parsed<'a> {
    parse_known(bytes, salt).unwrap_or(Parsed::Nothing)
}

fn parse_known<'a>(bytes: &'a [u8], salt: &Salt) -> Option<Parsed<'a>> {
    let header = Header::decode(bytes)?;
    let (stamp_bytes, payload_bytes) = (header.stamp_bytes as usize, header.payload_bytes as usize);
    if stamp_bytes > STAMP_BYTES_MAX {
        return None;
    }
    let stamp = bytes[FRAME_HEADER_BYTES..].get(..stamp_bytes)?;
    if salt.checksum(&[&bytes[..28], stamp]) != u32_at(bytes, 28) {
        return None;
    }
    // The header is verified, so its lengths can be trusted.
    let payload = bytes[FRAME_HEADER_BYTES + stamp_bytes..].get(..payload_bytes)?;
    if salt.checksum(&[payload]) != header.payload_checksum {
        return Some(Parsed::DamagedPayload { header, stamp });
    }
    Some(Parsed::Frame(Frame { header, stamp, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stamp: &[u8], payload: &[u8], salt: &Salt) -> Vec<u8> {
        let header = Header {
            kind: 7,
            stamp_bytes: stamp.len() as u32,
            payload_bytes: payload.len() as u32,
            lsn: Lsn(10),
            payload_checksum: salt.checksum(&[payload]),
        };
        let mut bytes = header.encode(stamp, salt).to_vec();
        bytes.extend_from_slice(stamp);
        bytes.extend_from_slice(payload);
        bytes.resize(header.frame_bytes(), 0);
        bytes
    }

    #[test]
    fn a_frame_is_read_back() {
        let salt = Salt::new(99);
        let bytes = frame(b"tables", b"rows and more rows", &salt);
        assert_eq!(bytes.len() % FRAME_ALIGN_BYTES, 0);
        match parse(&bytes, &salt) {
            Parsed::Frame(Frame { header, stamp, payload }) => {
                assert_eq!((header.lsn, header.kind), (Lsn(10), 7));
                assert_eq!((stamp, payload), (&b"tables"[..], &b"rows and more rows"[..]));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let salt = Salt::new(99);
        let whole = frame(b"tables", b"rows", &salt);
        for bit in 0..(FRAME_HEADER_BYTES + 6 + 4) * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let parsed = parse(&bytes, &salt);
            let in_payload = bit / 8 >= FRAME_HEADER_BYTES + 6;
            match parsed {
                Parsed::Frame(_) => panic!("bit {bit} went unnoticed"),
                Parsed::DamagedPayload { header, .. } => {
                    assert!(in_payload && header.lsn == Lsn(10))
                }
                Parsed::Nothing => assert!(!in_payload),
            }
        }
    }

    #[test]
    fn another_salt_and_a_cut_frame_are_nothing() {
        let salt = Salt::new(99);
        let bytes = frame(b"tables", b"rows", &salt);
        let other = Salt::new(98);
        assert_eq!(parse(&bytes, &other), Parsed::Nothing);
        for len in 0..FRAME_HEADER_BYTES + 10 {
            assert_eq!(parse(&bytes[..len], &salt), Parsed::Nothing);
        }
    }
}
