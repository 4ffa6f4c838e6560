//! The queue of appended records that are not yet written.

use bytes::Bytes;
use freshet_base::Lsn;

use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;
use crate::record::{BATCH_HEAD_BYTES, Payload};

/// Buffers kept for the next batches; more are allocated in a burst and freed after it.
const SPARE_BUFFERS_MAX: usize = 4;

/// A batch: records that are written together. It consists of a head, frames, and zeros up to a
/// whole block.
pub(crate) struct Batch {
    /// The head, complete small records, and large ones without their payloads.
    copied: AlignedBuffer,
    /// Payloads that are not copied, or their pieces, each with the number of copied bytes before
    /// it.
    shared: Vec<(usize, Bytes)>,
    bytes: usize,
    pub last: Lsn,
    pub records: u32,
    /// The log time of its records.
    pub time_micros: i64,
    pub charge_bytes: u64,
    /// Whether it contains a record appended by a caller, and not only the log's own idle record.
    pub of_callers: bool,
}

impl Batch {
    fn empty(mut copied: AlignedBuffer, time_micros: i64) -> Self {
        copied.push_zeros(BATCH_HEAD_BYTES);
        Self {
            copied,
            shared: Vec::new(),
            bytes: BATCH_HEAD_BYTES,
            last: Lsn::ZERO,
            records: 0,
            time_micros,
            charge_bytes: 0,
            of_callers: false,
        }
    }

    /// Length in whole blocks.
    pub(crate) fn block_bytes(&self) -> u64 {
        (self.bytes as u64).next_multiple_of(BLOCK_BYTES)
    }

    /// The first record.
    pub(crate) fn first(&self) -> Lsn {
        assert!(self.records > 0, "a batch has a record");
        Lsn(self.last.get() + 1 - u64::from(self.records))
    }

    /// Total length of its frames.
    pub(crate) fn frames_bytes(&self) -> u32 {
        u32::try_from(self.bytes - BATCH_HEAD_BYTES).expect("a batch is below 4 GiB")
    }

    /// Writes the head and pads the last block with zeros; nothing can be added any more.
    pub(crate) fn close(&mut self, head: &[u8; BATCH_HEAD_BYTES]) {
        self.copied.overwrite(head);
        let padding = self.block_bytes() as usize - self.bytes;
        self.copied.push_zeros(padding);
        self.bytes += padding;
    }

    /// The contents if they are contiguous, which means that all were copied.
    pub(crate) fn contiguous(&self) -> Option<&[u8]> {
        self.shared.is_empty().then(|| self.copied.bytes())
    }

    /// The contents in order, in several parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let rest = self.shared.last().map_or(0, |(before, _)| *before);
        let pairs = self.shared.iter().flat_map(move |(before, payload)| {
            let copied = &self.copied.bytes()[std::mem::replace(&mut from, *before)..*before];
            [copied, &payload[..]]
        });
        pairs.chain([&self.copied.bytes()[rest..]])
    }

    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> AlignedBuffer {
        self.copied
    }

    fn count(&mut self, entry: &Entry) {
        let is_next = self.records == 0 || self.last.next() == entry.lsn;
        assert!(is_next, "records queue in the order of their LSNs");
        self.last = entry.lsn;
        self.records += 1;
        self.charge_bytes += entry.charge_bytes;
        self.of_callers |= entry.of_callers;
    }
}

/// Properties of a record in the queue.
pub(crate) struct Entry {
    pub lsn: Lsn,
    /// The log time of the records that are queued together.
    pub time_micros: i64,
    pub charge_bytes: u64,
    pub of_callers: bool,
}

/// The parts of a record's frame.
pub(crate) struct Frame<'a> {
    pub header: &'a [u8],
    pub stamp: &'a [u8],
    pub payload: Payload<'a>,
    /// The number of zeros after the payload.
    pub padding: usize,
}

impl Frame<'_> {
    fn bytes(&self) -> usize {
        self.header.len() + self.stamp.len() + self.payload.len() + self.padding
    }
}

/// The batches to be written next, in order; the last one may still be open.
pub(crate) struct Queue {
    batch_bytes: usize,
    /// Larger payloads are not copied under the lock.
    copied_bytes_max: usize,
    batches: Vec<Batch>,
    spares: Vec<AlignedBuffer>,
}

impl Queue {
    /// An empty queue for batches of up to `batch_bytes`.
    pub(crate) fn new(batch_bytes: usize, copied_bytes_max: usize) -> Self {
        assert!(copied_bytes_max <= batch_bytes / 2, "a batch takes several copied records");
        let spares = (0..SPARE_BUFFERS_MAX).map(|_| AlignedBuffer::new(batch_bytes)).collect();
        Self { batch_bytes, copied_bytes_max, batches: Vec::new(), spares }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Appends a frame. A record larger than a batch gets a batch of its own.
    pub(crate) fn push(&mut self, entry: &Entry, frame: Frame<'_>) {
        let bytes = frame.bytes();
        let has_room = |batch: &Batch| batch.bytes + bytes <= self.batch_bytes;
        if !self.batches.last().is_some_and(has_room) {
            let buffer = self.spares.pop().unwrap_or_else(|| AlignedBuffer::new(self.batch_bytes));
            self.batches.push(Batch::empty(buffer, entry.time_micros));
        }
        let batch = self.batches.last_mut().expect("a batch with room is last");
        batch.copied.push(frame.header);
        batch.copied.push(frame.stamp);
        match frame.payload {
            Payload::Shared(payload) if payload.len() > self.copied_bytes_max => {
                batch.shared.push((batch.copied.len(), payload));
            }
            Payload::Shared(small) => batch.copied.push(&small),
            Payload::Slice(small) => batch.copied.push(small),
            // However short they are: together they may be longer than the buffer.
            Payload::Pieces(pieces) => {
                let at = batch.copied.len();
                batch.shared.extend(pieces.into_iter().map(|piece| (at, piece)));
            }
        }
        batch.copied.push_zeros(frame.padding);
        batch.bytes += bytes;
        batch.count(entry);
    }

    /// Moves all queued batches to `batches`, which must be empty; its memory is reused.
    pub(crate) fn take(&mut self, batches: &mut Vec<Batch>) {
        assert!(batches.is_empty(), "the last batches were written");
        std::mem::swap(&mut self.batches, batches);
    }

    /// Takes back the buffer of a written batch, or returns it if there are enough, to be freed by
    /// the caller outside the lock.
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
