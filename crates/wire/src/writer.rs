//! Packets to bytes.

use crate::{Capabilities, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX};

/// Capacity above which an emptied buffer gives its memory back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Frames packets into one buffer of outgoing bytes.
///
/// One writer serves a connection for its whole life. [`PacketWriter::reply_to`] starts an answer;
/// the bytes of any number of answers gather until the owner has sent [`PacketWriter::bytes`] and
/// calls [`PacketWriter::clear`]. Replies are written in the form that the negotiated capabilities
/// ask for; before the handshake there are none.
#[derive(Debug, Default)]
pub struct PacketWriter {
    out: Vec<u8>,
    sequence: u8,
    capabilities: Capabilities,
}

impl PacketWriter {
    /// An empty writer that starts at sequence id 0, as the greeting and commands do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what both sides agreed on.
    pub fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    /// What both sides agreed on.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Starts an answer: the next frame carries `sequence` ([`Packet::reply_sequence`]).
    ///
    /// [`Packet::reply_sequence`]: crate::Packet::reply_sequence
    pub fn reply_to(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// The sequence id of the next frame, and so of the peer's answer to what was written.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// The framed bytes that wait to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Forgets the bytes after they were sent, and the memory of an unusually large answer.
    pub fn clear(&mut self) {
        self.out.clear();
        if self.out.capacity() > BUFFER_BYTES_KEPT {
            self.out = Vec::new();
        }
    }

    /// Hands over the framed bytes that wait to be sent; the sequence goes on behind them.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends bytes that another writer framed, whose next frame would carry `sequence`.
    pub fn append_framed(&mut self, bytes: &[u8], sequence: u8) {
        self.out.extend_from_slice(bytes);
        self.sequence = sequence;
    }

    /// Appends one packet whose payload `fill` appends to the buffer it is given.
    #[inline]
    pub(crate) fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = self.frame();
        fill(frame.payload());
        frame.finish();
    }

    /// Opens a packet whose payload comes piece by piece.
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

    /// Makes room for the headers of the further frames of a payload of 16 MiB - 1 or more.
    #[cold]
    fn split(&mut self, start: usize, payload_bytes: usize) {
        let further = payload_bytes / FRAME_PAYLOAD_MAX;
        let first = start + FRAME_HEADER_BYTES;
        self.out.resize(self.out.len() + further * FRAME_HEADER_BYTES, 0);
        // From the last frame to the first, so that no byte is overwritten before it has moved.
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

/// A packet under construction; dropped before [`Frame::finish`] it leaves no byte behind.
#[derive(Debug)]
pub(crate) struct Frame<'w> {
    writer: &'w mut PacketWriter,
    start: usize,
    finished: bool,
}

impl Frame<'_> {
    /// Where the payload is appended.
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
