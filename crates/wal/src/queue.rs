//! What was appended and is not written yet.

use bytes::Bytes;
use freshet_base::Lsn;

use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;

/// Buffers kept for the next batches; more are made in a burst and freed after it.
const SPARE_BUFFERS_MAX: usize = 4;

/// A row of records that one write, or one row of writes, brings to the device.
pub(crate) struct Piece {
    pub body: Body,
    pub last: Lsn,
    /// The durable LSN that its last record names.
    pub names_durable: Lsn,
    pub records: u64,
    pub charge_bytes: u64,
    /// Whether a record of a caller is in it, and not only the log's own idle record.
    pub of_callers: bool,
}

/// The bytes of a piece.
pub(crate) enum Body {
    /// Small records, copied one behind the other.
    Packed(AlignedBuffer),
    /// One large record: header and stamp, and the payload still where the caller made it.
    Large { head: Vec<u8>, payload: Bytes },
}

impl Piece {
    fn empty(body: Body) -> Self {
        let zero = Lsn::ZERO;
        Self {
            body,
            last: zero,
            names_durable: zero,
            records: 0,
            charge_bytes: 0,
            of_callers: false,
        }
    }

    /// Blocks that it fills.
    pub(crate) fn block_bytes(&self) -> u64 {
        let bytes = match &self.body {
            Body::Packed(buffer) => buffer.len(),
            Body::Large { head, payload } => head.len() + payload.len(),
        };
        (bytes as u64).next_multiple_of(BLOCK_BYTES)
    }

    fn count(&mut self, entry: &Entry) {
        assert!(self.last < entry.lsn, "records queue in the order of their LSNs");
        self.last = entry.lsn;
        self.names_durable = entry.names_durable;
        self.records += 1;
        self.charge_bytes += entry.charge_bytes;
        self.of_callers |= entry.of_callers;
    }
}

/// What the queue keeps of a record beside its bytes.
pub(crate) struct Entry {
    pub lsn: Lsn,
    pub names_durable: Lsn,
    pub charge_bytes: u64,
    pub of_callers: bool,
}

/// The pieces of the next batch, in order; the last one may still be open.
pub(crate) struct Queue {
    piece_bytes: usize,
    pieces: Vec<Piece>,
    spares: Vec<AlignedBuffer>,
}

impl Queue {
    /// An empty queue that packs small records into pieces of `piece_bytes`.
    pub(crate) fn new(piece_bytes: usize) -> Self {
        let spares = (0..SPARE_BUFFERS_MAX).map(|_| AlignedBuffer::new(piece_bytes)).collect();
        Self { piece_bytes, pieces: Vec::new(), spares }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The most that a piece of small records may have.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Copies a record of `bytes` with padding, given in parts, behind the last one.
    pub(crate) fn push_packed(&mut self, entry: &Entry, parts: [&[u8]; 3], bytes: usize) {
        if !self.last_has_room_for(bytes) {
            let buffer = self.spares.pop().unwrap_or_else(|| AlignedBuffer::new(self.piece_bytes));
            self.pieces.push(Piece::empty(Body::Packed(buffer)));
        }
        let piece = self.pieces.last_mut().expect("a piece with room is last");
        let Body::Packed(buffer) = &mut piece.body else { unreachable!("it had room") };
        for part in parts {
            buffer.push(part);
        }
        buffer.pad_to(crate::record::FRAME_ALIGN_BYTES);
        piece.count(entry);
    }

    /// Queues a large record without copying its payload.
    pub(crate) fn push_large(&mut self, entry: &Entry, head: [&[u8]; 2], payload: Bytes) {
        let mut piece = Piece::empty(Body::Large { head: head.concat(), payload });
        piece.count(entry);
        self.pieces.push(piece);
    }

    fn last_has_room_for(&self, bytes: usize) -> bool {
        match self.pieces.last().map(|piece| &piece.body) {
            Some(Body::Packed(buffer)) => bytes <= buffer.left(),
            Some(Body::Large { .. }) | None => false,
        }
    }

    /// Swaps everything queued with `batch`, which must be empty: its memory is used next.
    pub(crate) fn take(&mut self, batch: &mut Vec<Piece>) {
        assert!(batch.is_empty(), "the last batch was written");
        std::mem::swap(&mut self.pieces, batch);
    }

    /// Takes back the buffer of a piece that was written, or returns it where there are enough:
    /// the caller frees it outside the lock.
    #[must_use]
    pub(crate) fn give_back(&mut self, mut buffer: AlignedBuffer) -> Option<AlignedBuffer> {
        if self.spares.len() == SPARE_BUFFERS_MAX {
            return Some(buffer);
        }
        buffer.clear();
        self.spares.push(buffer);
        None
    }
}
