//! Where rows are encoded that become a record as they stand.

use bytes::Bytes;
use freshet_base::{Result, err};

use crate::record::PART_HEAD_BYTES;

/// Capacity above which a buffer that rests gives its memory back.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// Where one connection encodes a load: the head of its part, then its rows. Used again for
/// every load, so a small INSERT allocates nothing.
#[derive(Default)]
pub struct LoadBuffer {
    /// A record's payload, with place for its head once it is begun.
    pub(crate) payload: Vec<u8>,
    rows: u32,
}

impl LoadBuffer {
    /// Empties the buffer and gives the place that rows are appended to. What stands before
    /// is the head; whoever appends leaves it alone, and counts its rows.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        self.rows = 0;
        self.payload.clear();
        self.payload.resize(PART_HEAD_BYTES, 0);
        &mut self.payload
    }

    /// The same place, to go on where the last rows end.
    pub fn resume(&mut self) -> &mut Vec<u8> {
        assert!(self.payload.len() >= PART_HEAD_BYTES, "rows follow the head of their part");
        &mut self.payload
    }

    /// So many rows more were appended.
    ///
    /// # Errors
    /// `OutOfRoom` for more than a load may have.
    pub fn count(&mut self, rows: usize) -> Result<()> {
        self.rows = u32::try_from(rows)
            .ok()
            .and_then(|rows| self.rows.checked_add(rows))
            .ok_or_else(too_many_rows)?;
        Ok(())
    }

    /// Empties the buffer, and gives back what few loads need.
    pub fn rest(&mut self) {
        self.rows = 0;
        self.payload.clear();
        if self.payload.capacity() > BUFFER_BYTES_KEPT {
            self.payload = Vec::new();
        }
    }

    /// How many rows stand in it.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The encoded rows.
    pub fn row_bytes(&self) -> &[u8] {
        &self.payload[PART_HEAD_BYTES.min(self.payload.len())..]
    }

    /// Bytes of the record's payload so far, without a label.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Takes the rows out and leaves the buffer begun.
    pub fn take(&mut self) -> (Bytes, u32) {
        let rows = self.rows;
        let has_head = self.payload.len() >= PART_HEAD_BYTES;
        assert!(rows == 0 || has_head, "rows follow the head of their part");
        let head = PART_HEAD_BYTES.min(self.payload.len());
        let payload = self.take_payload();
        self.begin();
        (payload.slice(head..), rows)
    }

    /// Takes the payload to be shared: it may be kept for long, so hardly more than its bytes are.
    pub(crate) fn take_payload(&mut self) -> Bytes {
        let mut payload = std::mem::take(&mut self.payload);
        if payload.capacity() - payload.len() > payload.len() / 4 {
            payload.shrink_to_fit();
        }
        Bytes::from(payload)
    }
}

pub(crate) fn too_many_rows() -> freshet_base::Error {
    err!(OutOfRoom, "a load may have at most {} rows; send it in parts", u32::MAX)
}
