//! Parsing received bytes into packets.

use crate::{Error, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, Result};

/// `max_allowed_packet` of MySQL 8.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 64 << 20;

/// The initial size of a buffer, to which it shrinks again.
const BUFFER_BYTES_MIN: usize = 16 << 10;
/// The minimum space for a read; with less the buffer is moved or grown.
const SPARE_BYTES_MIN: usize = 4 << 10;
/// Up to this size the buffer grows at once to the size in a frame header; above it only as bytes
/// arrive, so that a header alone cannot cause a large allocation.
const BUFFER_BYTES_TRUSTED: usize = 1 << 20;

/// A packet with its frames joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Without frame headers.
    pub payload: &'a [u8],
    /// The sequence id of the last frame.
    pub sequence: u8,
}

impl Packet<'_> {
    /// The sequence id of the first frame of the reply.
    pub fn reply_sequence(&self) -> u8 {
        self.sequence.wrapping_add(1)
    }
}

/// A receive buffer that returns packets without copying.
///
/// Bytes are added by [`PacketReader::feed`], or without a copy by reading into
/// [`PacketReader::spare`] and calling [`PacketReader::filled`]. The buffer may hold several
/// packets: call [`PacketReader::next_packet`] until it returns `None`.
#[derive(Debug)]
pub struct PacketReader {
    /// Initialised to its full length; `start..end` are received and unread.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    payload_bytes_max: usize,
    /// A decaying average of packet sizes, which determines the size that an empty buffer keeps.
    recent_bytes: usize,
    /// The frame being skipped, if it is not complete.
    skipped: Option<Skipped>,
}

/// A frame that is skipped as it arrives.
#[derive(Debug)]
struct Skipped {
    bytes_left: usize,
    sequence: u8,
    last: bool,
}

/// A complete packet in the buffer.
struct Found {
    payload_bytes: usize,
    end: usize,
    sequence: u8,
}

impl PacketReader {
    /// Packets of more than `payload_bytes_max` bytes are refused.
    pub fn new(payload_bytes_max: usize) -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
            payload_bytes_max,
            recent_bytes: 0,
            skipped: None,
        }
    }

    /// Sets the limit for packets from the next one on.
    pub fn set_payload_bytes_max(&mut self, bytes: usize) {
        self.payload_bytes_max = bytes;
    }

    /// The size of the buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The size of the buffer during the next read. An empty buffer is shrunk here to what recent
    /// packets needed.
    pub fn next_buffer_bytes(&mut self) -> usize {
        if self.start == self.end {
            self.rest();
        }
        match self.wanted_bytes() {
            wanted if wanted > self.buffer.len() => wanted.next_power_of_two(),
            _ => self.buffer.len(),
        }
    }

    /// Bytes received and not yet returned.
    pub fn unread_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Takes the bytes that [`PacketReader::next_packet`] has not returned: those behind a request
    /// to switch to TLS, which are no packets.
    pub fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.buffer[self.start..self.end].to_vec();
        self.rest();
        unread
    }

    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let count = bytes.len().min(spare.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// Space for the next read; never empty. Call [`PacketReader::filled`] afterwards.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.rest();
        }
        let wanted = self.wanted_bytes();
        let unread = self.unread_bytes();
        if self.buffer.len() < wanted {
            self.reallocate(wanted);
        } else if self.start > 0 && self.buffer.len() - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = unread;
        }
        &mut self.buffer[self.end..]
    }

    /// Records that the first `count` bytes of [`PacketReader::spare`] were filled.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.end, "more bytes filled than there was room");
        self.end += count;
    }

    /// The next complete packet, or `None` when more bytes are needed.
    ///
    /// `expected_sequence` is 0 for a command, and the sequence of the [`PacketWriter`] for a
    /// response to the server (handshake, LOCAL INFILE). After an error the connection must be
    /// closed.
    ///
    /// [`PacketWriter`]: crate::PacketWriter
    pub fn next_packet(&mut self, expected_sequence: u8) -> Result<Option<Packet<'_>>> {
        let Some(found) = self.find(expected_sequence)? else { return Ok(None) };
        if found.payload_bytes >= FRAME_PAYLOAD_MAX {
            self.join(found.payload_bytes);
        }
        let first = self.start + FRAME_HEADER_BYTES;
        self.start = found.end;
        let faded = self.recent_bytes - self.recent_bytes / 8;
        self.recent_bytes = faded.max(found.payload_bytes);
        let payload = &self.buffer[first..first + found.payload_bytes];
        Ok(Some(Packet { payload, sequence: found.sequence }))
    }

    /// Discards the received part of the first packet. Returns the sequence id of its last frame
    /// once all of it was discarded; call it after every read until then.
    pub fn skip_packet(&mut self) -> Option<u8> {
        loop {
            let mut frame = match self.skipped.take() {
                Some(frame) => frame,
                None => {
                    let &[a, b, c, sequence] = self.buffer[self.start..self.end].first_chunk()?;
                    self.start += FRAME_HEADER_BYTES;
                    let bytes_left = u32::from_le_bytes([a, b, c, 0]) as usize;
                    Skipped { bytes_left, sequence, last: bytes_left < FRAME_PAYLOAD_MAX }
                }
            };
            let gone = frame.bytes_left.min(self.unread_bytes());
            self.start += gone;
            frame.bytes_left -= gone;
            if frame.bytes_left > 0 {
                self.skipped = Some(frame);
                return None;
            }
            if frame.last {
                return Some(frame.sequence);
            }
        }
    }

    /// Looks for a complete packet; checks size and sequence as soon as headers are received.
    fn find(&self, expected_sequence: u8) -> Result<Option<Found>> {
        let mut at = self.start;
        let mut sequence = expected_sequence;
        let mut payload_bytes = 0;
        loop {
            let Some(&[a, b, c, id]) = self.buffer[at..self.end].first_chunk() else {
                return Ok(None);
            };
            if id != sequence {
                return Err(Error::OutOfOrder { expected: sequence, found: id });
            }
            let frame_bytes = u32::from_le_bytes([a, b, c, 0]) as usize;
            payload_bytes += frame_bytes;
            if payload_bytes > self.payload_bytes_max {
                return Err(Error::PacketTooLarge { bytes_max: self.payload_bytes_max });
            }
            at += FRAME_HEADER_BYTES + frame_bytes;
            if at > self.end {
                return Ok(None);
            }
            if frame_bytes < FRAME_PAYLOAD_MAX {
                return Ok(Some(Found { payload_bytes, end: at, sequence }));
            }
            sequence = sequence.wrapping_add(1);
        }
    }

    /// Moves the payloads of all frames of the packet at `start` together, after its first header.
    fn join(&mut self, payload_bytes: usize) {
        let first = self.start + FRAME_HEADER_BYTES;
        let mut joined = FRAME_PAYLOAD_MAX;
        let mut source = first + FRAME_PAYLOAD_MAX + FRAME_HEADER_BYTES;
        while joined < payload_bytes {
            let count = (payload_bytes - joined).min(FRAME_PAYLOAD_MAX);
            self.buffer.copy_within(source..source + count, first + joined);
            joined += count;
            source += count + FRAME_HEADER_BYTES;
        }
    }

    /// The buffer size for the unread bytes and the next read.
    fn wanted_bytes(&self) -> usize {
        let unread = &self.buffer[self.start..self.end];
        let announced = match unread.first_chunk() {
            Some(&[a, b, c, _]) => FRAME_HEADER_BYTES + u32::from_le_bytes([a, b, c, 0]) as usize,
            None => 0,
        };
        let at_least = unread.len() + SPARE_BYTES_MIN;
        if announced <= BUFFER_BYTES_TRUSTED {
            at_least.max(announced)
        } else if at_least > self.buffer.len() {
            // Doubling keeps the total copying of a packet that arrives in parts linear in its
            // size.
            at_least.max(2 * self.buffer.len()).max(BUFFER_BYTES_TRUSTED)
        } else {
            at_least
        }
    }

    /// Rewinds an empty buffer, and frees memory that recent packets did not need.
    fn rest(&mut self) {
        self.start = 0;
        self.end = 0;
        let resting = resting_bytes(self.buffer.len(), self.recent_bytes);
        if resting < self.buffer.len() {
            self.buffer = vec![0; resting];
        }
    }

    /// Moves the unread bytes to a new buffer. The system zeroes a new allocation page by page on
    /// first use; growing in place would write the zeros.
    fn reallocate(&mut self, bytes: usize) {
        let mut grown = vec![0; bytes.next_power_of_two()];
        let unread = self.unread_bytes();
        grown[..unread].copy_from_slice(&self.buffer[self.start..self.end]);
        self.buffer = grown;
        self.start = 0;
        self.end = unread;
    }
}

/// The size for an empty buffer of `buffer_bytes` after packets of `recent_bytes`.
fn resting_bytes(buffer_bytes: usize, recent_bytes: usize) -> usize {
    if buffer_bytes > BUFFER_BYTES_TRUSTED {
        return BUFFER_BYTES_MIN;
    }
    let needed = recent_bytes.next_power_of_two().max(BUFFER_BYTES_MIN);
    if needed <= buffer_bytes / 4 { needed } else { buffer_bytes }
}

#[cfg(test)]
mod tests;
