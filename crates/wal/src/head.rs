//! The head of a batch: each synced write begins with one.
//!
//! ```text
//! offset  bytes  little endian
//!      0      4  magic, which names the format version
//!      4      4  checksum of the 56 bytes after it
//!      8      8  term
//!     16      8  index: the number of the batch
//!     24      8  term of the previous batch
//!     32      8  LSN of its first record
//!     40      4  records
//!     44      4  bytes of its frames
//!     48      8  durable LSN as the batch was written
//!     56      8  log time, microseconds
//!     64         frames, then zeros up to a whole block
//! ```
//! The checksum is CRC-32C seeded with the salt of the term.

use freshet_base::{BatchIndex, LogPosition, Lsn, Term};

use crate::checksum::Salt;
use crate::file::next_block;
use crate::record::{BATCH_HEAD_BYTES, Frame, KIND_IDLE, Parsed, parse, u32_at, u64_at};
use crate::term::Terms;

const MAGIC: [u8; 4] = *b"FWB\x02";

/// The contents of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub term: Term,
    pub index: BatchIndex,
    /// The term of the previous batch.
    pub previous: Term,
    pub first: Lsn,
    pub records: u32,
    pub frames_bytes: u32,
    pub durable: Lsn,
    pub time_micros: i64,
}

impl Head {
    pub(crate) fn encode(&self, salt: &Salt) -> [u8; BATCH_HEAD_BYTES] {
        assert!(self.records > 0, "a batch has a record");
        assert!(self.durable < self.first, "a head names earlier records only as durable");
        let mut bytes = [0; BATCH_HEAD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.term.get().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.index.get().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.previous.get().to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.get().to_le_bytes());
        bytes[40..44].copy_from_slice(&self.records.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.frames_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.durable.get().to_le_bytes());
        bytes[56..64].copy_from_slice(&self.time_micros.to_le_bytes());
        let checksum = salt.checksum(&[&bytes[8..]]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Parses the head at the start of `bytes`, if it was written in one of `terms`.
    pub(crate) fn read(bytes: &[u8], terms: &Terms) -> Option<(Self, Salt)> {
        let bytes: &[u8; BATCH_HEAD_BYTES] = bytes.first_chunk()?;
        if bytes[..4] != MAGIC {
            return None;
        }
        let salt = terms.salt(Term(u64_at(bytes, 8)))?;
        if salt.checksum(&[&bytes[8..]]) != u32_at(bytes, 4) {
            return None;
        }
        terms.found(Term(u64_at(bytes, 8)), salt);
        let head = Self {
            term: Term(u64_at(bytes, 8)),
            index: BatchIndex(u64_at(bytes, 16)),
            previous: Term(u64_at(bytes, 24)),
            first: Lsn(u64_at(bytes, 32)),
            records: u32_at(bytes, 40),
            frames_bytes: u32_at(bytes, 44),
            durable: Lsn(u64_at(bytes, 48)),
            time_micros: u64_at(bytes, 56).cast_signed(),
        };
        let fits = head.first.get().checked_add(u64::from(head.records)).is_some();
        let is_sound = head.records > 0 && head.durable < head.first && head.previous <= head.term;
        (fits && is_sound && head.index > BatchIndex::ZERO).then_some((head, salt))
    }

    /// The batch's last record.
    pub(crate) fn last(&self) -> Lsn {
        Lsn(self.first.get() + u64::from(self.records) - 1)
    }

    /// The position of the log's end after the batch.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition { lsn: self.last(), index: self.index, term: self.term }
    }

    /// Whether it may follow a batch that ends at `before`.
    pub(crate) fn follows(&self, before: LogPosition) -> bool {
        self.first == before.lsn.next()
            && self.index == before.index.next()
            && self.previous == before.term
            && self.term >= before.term
    }

    /// The index of the previous batch.
    pub(crate) fn previous_index(&self) -> BatchIndex {
        BatchIndex(self.index.get().saturating_sub(1))
    }

    /// Length of the batch without padding.
    pub(crate) fn batch_bytes(&self) -> usize {
        BATCH_HEAD_BYTES + self.frames_bytes as usize
    }

    /// Length of the batch in whole blocks.
    pub(crate) fn block_bytes(&self) -> usize {
        next_block(self.batch_bytes() as u64) as usize
    }

    /// Checks the body of the batch that `bytes` begin with.
    pub(crate) fn body(&self, bytes: &[u8], salt: &Salt) -> Body {
        let Some(frames) = bytes.get(BATCH_HEAD_BYTES..self.batch_bytes()) else {
            return Body::Damaged;
        };
        let mut frames = Frames { bytes: frames, next: self.first, salt };
        let (mut whole, mut is_idle) = (0, true);
        for frame in frames.by_ref().take(self.records as usize) {
            whole += 1;
            is_idle &= frame.header.kind == KIND_IDLE;
        }
        match whole == self.records && frames.bytes.is_empty() {
            true if is_idle => Body::Idle,
            true => Body::Whole,
            false => Body::Damaged,
        }
    }
}

/// The state of a batch's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// All records are valid, and at least one was appended by a caller.
    Whole,
    /// All records are valid, and all are the log's own idle records.
    Idle,
    /// A record is missing or damaged.
    Damaged,
}

/// Iterates over consecutive frames with LSNs from `next`; ends at the first invalid one.
pub(crate) struct Frames<'a, 's> {
    pub bytes: &'a [u8],
    pub next: Lsn,
    pub salt: &'s Salt,
}

impl<'a> Iterator for Frames<'a, '_> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        match parse(self.bytes, self.salt) {
            Parsed::Frame(frame) if frame.header.lsn == self.next => {
                self.bytes = self.bytes.get(frame.header.frame_bytes()..)?;
                self.next = self.next.next();
                Some(frame)
            }
            Parsed::Frame(_) | Parsed::DamagedPayload { .. } | Parsed::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Secret;

    fn head() -> Head {
        Head {
            term: Term(3),
            index: BatchIndex(12),
            previous: Term(2),
            first: Lsn(40),
            records: 2,
            frames_bytes: 88,
            durable: Lsn(39),
            time_micros: -7,
        }
    }

    #[test]
    fn a_head_is_read_back_and_no_flipped_bit_is_accepted() {
        let terms = Terms::new(&[Secret { from: Term(1), key: [5, 6] }]);
        let salt = terms.salt(Term(3)).unwrap();
        let bytes = head().encode(&salt);
        assert_eq!(Head::read(&bytes, &terms).unwrap().0, head());
        for bit in 0..BATCH_HEAD_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::read(&bytes, &terms).is_none(), "bit {bit} went unnoticed");
        }
        let others = Terms::new(&[Secret { from: Term(1), key: [5, 7] }]);
        assert!(Head::read(&bytes, &others).is_none(), "of another store");
        assert!(Head::read(&bytes[..63], &terms).is_none());
    }

    #[test]
    fn a_batch_follows_the_one_before_by_lsn_index_and_term() {
        let before = LogPosition { lsn: Lsn(39), index: BatchIndex(11), term: Term(2) };
        assert!(head().follows(before));
        assert_eq!((head().last(), head().position().index), (Lsn(41), BatchIndex(12)));
        for other in [
            LogPosition { lsn: Lsn(38), ..before },
            LogPosition { index: BatchIndex(12), ..before },
            LogPosition { term: Term(1), ..before },
            LogPosition { term: Term(3), ..before },
        ] {
            assert!(!head().follows(other), "{other:?}");
        }
    }
}
