//! Writing packets.

use crate::{Capabilities, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX};

/// An empty buffer of a larger capacity is freed.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Writes packets with frame headers into one buffer.
///
/// A connection uses one writer for its whole life. [`PacketWriter::reply_to`] starts a reply;
/// replies are collected until the owner has sent [`PacketWriter::bytes`] and calls
/// [`PacketWriter::clear`]. Replies have the form that the negotiated capabilities require; before
/// the handshake there are none.
#[derive(Debug, Default)]
pub struct PacketWriter {
    out: Vec<u8>,
    sequence: u8,
    capabilities: Capabilities,
}

impl PacketWriter {
    /// Starts at sequence id 0, like the greeting and commands.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the negotiated capabilities.
    pub fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    /// The negotiated capabilities.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Starts a reply: the next frame has this sequence id ([`Packet::reply_sequence`]).
    ///
    /// [`Packet::reply_sequence`]: crate::Packet::reply_sequence
    pub fn reply_to(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// The sequence id of the next frame, and of the peer's response to the written packets.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Removes the bytes after they were sent, and frees an unusually large buffer.
    pub fn clear(&mut self) {
        self.out.clear();
        if self.out.capacity() > BUFFER_BYTES_KEPT {
            self.out = Vec::new();
        }
    }

    /// Takes the bytes to send; the sequence id continues after them.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends bytes framed by another writer, whose next frame would have this sequence id.
    pub fn append_framed(&mut self, bytes: &[u8], sequence: u8) {
        self.out.extend_from_slice(bytes);
        self.sequence = sequence;
    }

    /// Appends a packet; `fill` appends its payload.
    #[inline]
    pub(crate) fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = self.frame();
        fill(frame.payload());
        frame.finish();
    }

    /// Begins a packet whose payload is written in parts.
    #[inline]
    pub(crate) fn frame(&mut self) -> Frame<'_> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        Frame { writer: self, start, finished: false }
    }

    #[inline]
    fn close(&mut self, start: usize) {
        let payload_bytes = self.out.len() - start - FRAME_HEADER_BYTES;
        if payload_bytes < FRAME_PAYLOAD_MAX {
            self.header(start, payload_bytes);
        } else {
            self.split(start, payload_bytes);
        }
    }

    #[inline]
    fn header(&mut self, at: usize, payload_bytes: usize) {
        let [a, b, c, _] = (payload_bytes as u32).to_le_bytes();
        self.out[at..at + FRAME_HEADER_BYTES].copy_from_slice(&[a, b, c, self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Inserts the headers of further frames into a payload of 16 MiB - 1 or more.
    #[cold]
    fn split(&mut self, start: usize, payload_bytes: usize) {
        let further = payload_bytes / FRAME_PAYLOAD_MAX;
        let first = start + FRAME_HEADER_BYTES;
        self.out.resize(self.out.len() + further * FRAME_HEADER_BYTES, 0);
        // From the last frame to the first, so that bytes are moved before they are overwritten.
        for frame in (1..=further).rev() {
            let from = first + frame * FRAME_PAYLOAD_MAX;
            let to = from + frame * FRAME_HEADER_BYTES;
            let count = (payload_bytes - frame * FRAME_PAYLOAD_MAX).min(FRAME_PAYLOAD_MAX);
            self.out.copy_within(from..from + count, to);
        }
        for frame in 0..=further {
            let at = start + frame * (FRAME_PAYLOAD_MAX + FRAME_HEADER_BYTES);
            let count = (payload_bytes - frame * FRAME_PAYLOAD_MAX).min(FRAME_PAYLOAD_MAX);
            self.header(at, count);
        }
    }
}

/// A packet being written; removed if dropped before [`Frame::finish`].
#[derive(Debug)]
pub(crate) struct Frame<'w> {
    writer: &'w mut PacketWriter,
    start: usize,
    finished: bool,
}

impl Frame<'_> {
    /// The buffer to which the payload is appended.
    #[inline]
    pub(crate) fn payload(&mut self) -> &mut Vec<u8> {
        &mut self.writer.out
    }

    /// The payload written so far.
    #[inline]
    pub(crate) fn written(&mut self) -> &mut [u8] {
        &mut self.writer.out[self.start + FRAME_HEADER_BYTES..]
    }

    #[inline]
    pub(crate) fn finish(mut self) {
        self.finished = true;
        self.writer.close(self.start);
    }
}

impl Drop for Frame<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.writer.out.truncate(self.start);
        }
    }
}
