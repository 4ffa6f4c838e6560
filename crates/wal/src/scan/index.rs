//! An index of the batches in all files, by offset.

use freshet_base::{Lsn, Term};

use super::ScanInput;
use crate::damage::{Hole, ScanError};
use crate::head::{Body, Head};
use crate::reader::{Extent, FileReader, Found, Walk};
use crate::term::Terms;

/// Consecutive valid batches in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRun {
    pub file: usize,
    pub offset: usize,
    pub end: usize,
    pub first: Head,
    pub last: Head,
    /// The offset of the last batch.
    pub last_offset: usize,
    /// Whether the last batch has only idle records.
    pub ends_idle: bool,
}

/// A batch with a valid head and a damaged record.
#[derive(Clone, Copy, Debug)]
pub(super) struct DamagedBatch {
    pub file: usize,
    pub found: Found,
}

impl DamagedBatch {
    pub fn holds(&self, lsn: Lsn) -> bool {
        (self.found.head.first..=self.found.head.last()).contains(&lsn)
    }

    /// Whether an extent is inside of it.
    pub fn takes(&self, extent: &Extent) -> bool {
        self.file == extent.file && (self.found.offset..self.found.end()).contains(&extent.offset)
    }
}

/// The batches in all files, by offset.
pub(super) struct Index {
    pub runs: Vec<BatchRun>,
    pub damaged: Vec<DamagedBatch>,
    /// The highest LSN that a head names as durable.
    durable_named: Lsn,
    /// The highest term of a head.
    pub highest_term: Term,
}

impl Index {
    pub fn read(
        input: &ScanInput<'_>,
        terms: &Terms,
        reader: &mut FileReader,
    ) -> Result<Self, ScanError> {
        let (runs, damaged) = (Vec::new(), Vec::new());
        let (durable_named, highest_term) = (Lsn::ZERO, input.recycled.term);
        let mut index = Self { runs, damaged, durable_named, highest_term };
        for (at, file) in input.files.iter().enumerate() {
            reader.load(file, true)?;
            let (bytes, recycled_to) = (reader.bytes(), input.recycled.lsn);
            for found in (Walk { bytes, at: 0, terms, recycled_to }) {
                index.add(at, found);
            }
        }
        Ok(index)
    }

    fn add(&mut self, file: usize, found: Found) {
        let Found { offset, head, body } = found;
        self.durable_named = self.durable_named.max(head.durable);
        self.highest_term = self.highest_term.max(head.term);
        let ends_idle = body == Body::Idle;
        if body == Body::Damaged {
            self.damaged.push(DamagedBatch { file, found });
            return;
        }
        let end = found.end();
        match self.runs.last_mut() {
            Some(last)
                if (last.file, last.end) == (file, offset)
                    && head.follows(last.last.position()) =>
            {
                (last.end, last.last, last.last_offset) = (end, head, offset);
                last.ends_idle = ends_idle;
            }
            _ => {
                let (first, last) = (head, head);
                self.runs.push(BatchRun {
                    file,
                    offset,
                    end,
                    first,
                    last,
                    last_offset: offset,
                    ends_idle,
                });
            }
        }
    }

    /// The highest LSN that heads or metadata name as durable.
    pub fn durable(&self, input: &ScanInput<'_>) -> Lsn {
        self.durable_named.max(durable_known(input))
    }

    /// The same if valid batches end at `end`: a batch becomes durable as a whole.
    pub fn durable_behind(&self, end: Lsn, durable: Lsn) -> Lsn {
        let last = self.damaged.iter().find(|b| b.found.head.first > end && b.holds(durable));
        last.map_or(durable, |damaged| damaged.found.head.last())
    }
}

/// The highest LSN that metadata names as durable. It includes accepted holes, whose LSNs are not
/// reused.
pub(super) fn durable_known(input: &ScanInput<'_>) -> Lsn {
    let holes = input.accepted_holes.iter().map(|hole: &Hole| hole.last);
    holes.max().unwrap_or(Lsn::ZERO).max(input.durable_known).max(input.recycled.lsn)
}
