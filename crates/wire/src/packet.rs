//! Received bytes to packets.

use crate::{Error, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, Result};

/// `max_allowed_packet` of MySQL 8.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 64 << 20;

/// The size at which a buffer starts and to which it returns.
const BUFFER_BYTES_MIN: usize = 16 << 10;
/// Room that a read is always offered; a smaller rest makes the buffer move or grow.
const SPARE_BYTES_MIN: usize = 4 << 10;
/// Up to this size the buffer grows at once to the size that a frame header announces; beyond it
/// only as bytes arrive, so that a header alone cannot make the server allocate.
const BUFFER_BYTES_TRUSTED: usize = 1 << 20;

/// One packet as the peer sent it, its frames joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The packet without frame headers.
    pub payload: &'a [u8],
    /// Sequence id of the last frame.
    pub sequence: u8,
}

impl Packet<'_> {
    /// The sequence id that the first frame of the answer carries.
    pub fn reply_sequence(&self) -> u8 {
        self.sequence.wrapping_add(1)
    }
}

/// A receive buffer that hands out packets in place.
///
/// Bytes come in by [`PacketReader::feed`], or without a copy by reading into
/// [`PacketReader::spare`] and calling [`PacketReader::filled`]. Several packets may be in the
/// buffer at once: call [`PacketReader::next_packet`] until it returns `None`.
#[derive(Debug)]
pub struct PacketReader {
    /// Initialised to its full length; received and unread bytes are `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    payload_bytes_max: usize,
    /// Size of recent packets, fading, from which the resting size of the buffer follows.
    recent_bytes: usize,
    /// The frame of which not everything that is to be thrown away has come.
    skipped: Option<Skipped>,
}

/// A frame that is thrown away as it comes.
#[derive(Debug)]
struct Skipped {
    bytes_left: usize,
    sequence: u8,
    last: bool,
}

/// A complete packet found in the buffer.
struct Found {
    payload_bytes: usize,
    end: usize,
    sequence: u8,
}

impl PacketReader {
    /// A reader that refuses packets of more than `payload_bytes_max` bytes.
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

    /// Changes the limit for packets, from the next one on.
    pub fn set_payload_bytes_max(&mut self, bytes: usize) {
        self.payload_bytes_max = bytes;
    }

    /// Bytes of memory that the buffer holds.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of memory that the buffer will hold while the next read waits; an empty buffer gives
    /// back here what recent packets did not need.
    pub fn next_buffer_bytes(&mut self) -> usize {
        if self.start == self.end {
            self.rest();
        }
        match self.wanted_bytes() {
            wanted if wanted > self.buffer.len() => wanted.next_power_of_two(),
            _ => self.buffer.len(),
        }
    }

    /// Bytes received and not yet handed out.
    pub fn unread_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Copies received bytes in.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let count = bytes.len().min(spare.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// Room for the next read; never empty. Call [`PacketReader::filled`] with what was read.
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

    /// Says that the first `count` bytes of [`PacketReader::spare`] were filled.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.end, "more bytes filled than there was room");
        self.end += count;
    }

    /// The next complete packet, or `None` when more bytes are needed.
    ///
    /// `expected_sequence` is 0 for a command, and the sequence of the [`PacketWriter`] for an
    /// answer to something that the server sent (handshake, LOCAL INFILE). After an error the
    /// connection has to be closed.
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

    /// Throws away what has come of the packet at the front. Gives the sequence id of its last
    /// frame once all of it is gone; until then to be called after every read.
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

    /// Looks for a whole packet and checks size and sequence as early as the headers show them.
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

    /// Moves the payloads of all frames of the packet at `start` behind its first header.
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

    /// The buffer size that takes the unread bytes and a useful read behind them.
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
            // Doubling keeps the copies of a packet that arrives in pieces linear in its size.
            at_least.max(2 * self.buffer.len()).max(BUFFER_BYTES_TRUSTED)
        } else {
            at_least
        }
    }

    /// Rewinds an empty buffer, and gives memory back that recent packets did not need.
    fn rest(&mut self) {
        self.start = 0;
        self.end = 0;
        let resting = resting_bytes(self.buffer.len(), self.recent_bytes);
        if resting < self.buffer.len() {
            self.buffer = vec![0; resting];
        }
    }

    /// Moves the unread bytes to the front of a new buffer. A fresh allocation is zeroed by the
    /// system page by page as it is touched, which growing in place is not.
    fn reallocate(&mut self, bytes: usize) {
        let mut grown = vec![0; bytes.next_power_of_two()];
        let unread = self.unread_bytes();
        grown[..unread].copy_from_slice(&self.buffer[self.start..self.end]);
        self.buffer = grown;
        self.start = 0;
        self.end = unread;
    }
}

/// The size an empty buffer of `buffer_bytes` should have after packets of `recent_bytes`.
fn resting_bytes(buffer_bytes: usize, recent_bytes: usize) -> usize {
    if buffer_bytes > BUFFER_BYTES_TRUSTED {
        return BUFFER_BYTES_MIN;
    }
    let needed = recent_bytes.next_power_of_two().max(BUFFER_BYTES_MIN);
    if needed <= buffer_bytes / 4 { needed } else { buffer_bytes }
}

#[cfg(test)]
mod tests;
