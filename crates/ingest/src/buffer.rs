//! A reusable buffer that encodes rows directly as the payload of a log record.

use bytes::Bytes;
use freshet_base::{Result, err};

use crate::counter::UsedIds;
use crate::record::PART_HEAD_BYTES;

/// Above this capacity an idle buffer is deallocated.
const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// The encoding buffer of a connection: the head of a part, then its rows. It is reused for every
/// load, so that a small INSERT allocates nothing.
#[derive(Default)]
pub struct LoadBuffer {
    /// The payload of a record; it starts with space for the part's head.
    pub(crate) payload: Vec<u8>,
    rows: u32,
    /// How many of the rows, the first ones, only remove their key.
    removals: u32,
    /// The ids in the rows, of an AUTO_INCREMENT column.
    ids: Option<UsedIds>,
    /// Where rows say so, which of them delete their key.
    deletes: Vec<bool>,
}

impl LoadBuffer {
    /// Empties the buffer and returns it to append rows to. It already contains space for the head,
    /// which the caller must not modify; the caller also counts the rows.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        (self.rows, self.removals, self.ids) = (0, 0, None);
        self.deletes.clear();
        self.payload.clear();
        self.payload.resize(PART_HEAD_BYTES, 0);
        &mut self.payload
    }

    /// Returns the buffer to append further rows.
    pub fn resume(&mut self) -> &mut Vec<u8> {
        assert!(self.payload.len() >= PART_HEAD_BYTES, "rows follow the head of their part");
        &mut self.payload
    }

    /// Adds `rows` to the number of rows.
    ///
    /// # Errors
    /// `OutOfRoom` above the maximum of a load, `u32::MAX`.
    pub fn count(&mut self, rows: usize) -> Result<()> {
        self.rows = u32::try_from(rows)
            .ok()
            .and_then(|rows| self.rows.checked_add(rows))
            .ok_or_else(too_many_rows)?;
        Ok(())
    }

    /// Says which ids further rows have.
    pub fn use_ids(&mut self, ids: Option<UsedIds>) {
        self.ids = UsedIds::join(self.ids, ids);
    }

    /// The encoded rows, to write other ids of the same size.
    pub(crate) fn rows_mut(&mut self) -> &mut [u8] {
        let head = PART_HEAD_BYTES.min(self.payload.len());
        &mut self.payload[head..]
    }

    /// Says that the rows have these ids instead.
    pub(crate) fn replace_ids(&mut self, ids: UsedIds) {
        self.ids = Some(ids);
    }

    /// The ids in the rows.
    pub fn ids(&self) -> Option<UsedIds> {
        self.ids
    }

    /// Says that the rows so far only remove their key (keys.md K24).
    pub fn removes_so_far(&mut self) {
        self.removals = self.rows;
    }

    /// Says which of further rows delete their key, where each says so; [`crate::Load`] brings
    /// them in order.
    pub fn mark(&mut self, deletes: &[bool]) {
        self.deletes.extend_from_slice(deletes);
    }

    /// Whether each row says whether it deletes its key.
    pub(crate) fn is_signed(&self) -> bool {
        !self.deletes.is_empty()
    }

    /// Whether there are rows that delete their key, among others.
    pub(crate) fn is_marked(&self) -> bool {
        self.deletes.contains(&true)
    }

    /// Takes which of the rows delete their key; empty where none does.
    pub fn take_marks(&mut self) -> Vec<bool> {
        let marks = std::mem::take(&mut self.deletes);
        if !marks.contains(&true) {
            return Vec::new();
        }
        assert_eq!(marks.len(), self.rows as usize, "each row is told whether it deletes");
        marks
    }

    /// How many of the rows, the first ones, only remove their key.
    pub fn removals(&self) -> u32 {
        self.removals
    }

    /// Empties the buffer and frees its memory if it is unusually large.
    pub fn rest(&mut self) {
        (self.rows, self.removals, self.ids) = (0, 0, None);
        self.deletes = Vec::new();
        self.payload.clear();
        if self.payload.capacity() > BUFFER_BYTES_KEPT {
            self.payload = Vec::new();
        }
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn row_bytes(&self) -> &[u8] {
        &self.payload[PART_HEAD_BYTES.min(self.payload.len())..]
    }

    /// Size of the payload so far, without a label.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Takes the rows and their number, and leaves the buffer empty and ready for more.
    pub fn take(&mut self) -> (Bytes, u32) {
        assert_eq!(self.removals, 0, "a load with removals is a small one");
        let rows = self.rows;
        let has_head = self.payload.len() >= PART_HEAD_BYTES;
        assert!(rows == 0 || has_head, "rows follow the head of their part");
        let head = PART_HEAD_BYTES.min(self.payload.len());
        let payload = self.take_payload();
        self.begin();
        (payload.slice(head..), rows)
    }

    /// Takes the payload for sharing.
    pub(crate) fn take_payload(&mut self) -> Bytes {
        Bytes::from(self.take_bytes())
    }

    /// Takes the payload. It may be kept for long, so excess capacity is freed.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut payload = std::mem::take(&mut self.payload);
        if payload.capacity() - payload.len() > payload.len() / 4 {
            payload.shrink_to_fit();
        }
        payload
    }
}

/// The number of rows of a load.
///
/// # Errors
/// `OutOfRoom` above the maximum.
pub(crate) fn row_count(rows: usize) -> Result<u32> {
    u32::try_from(rows).map_err(|_| too_many_rows())
}

pub(crate) fn too_many_rows() -> freshet_base::Error {
    err!(OutOfRoom, "a load may have at most {} rows; send it in parts", u32::MAX)
}
