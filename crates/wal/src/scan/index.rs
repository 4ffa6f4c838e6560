//! What all files of a log hold, in the order in which it stands.

use freshet_base::Lsn;

use super::{ScanError, ScanInput};
use crate::head::Head;
use crate::reader::{Extent, FileReader, Found, Walk};
use crate::term::Terms;

/// Whole batches that follow each other in one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub file: usize,
    pub offset: usize,
    pub end: usize,
    pub first: Head,
    pub last: Head,
    /// Where the last batch begins.
    pub last_offset: usize,
}

/// A batch of which the head checks out and a record does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub file: usize,
    pub found: Found,
}

impl Broken {
    pub fn holds(&self, lsn: Lsn) -> bool {
        (self.found.head.first..=self.found.head.last()).contains(&lsn)
    }

    /// Whether an extent stands in it.
    pub fn takes(&self, extent: &Extent) -> bool {
        self.file == extent.file && (self.found.offset..self.found.end()).contains(&extent.offset)
    }
}

/// What all files hold, in the order in which it stands.
pub(super) struct Index {
    pub stretches: Vec<Stretch>,
    pub broken: Vec<Broken>,
    /// The highest LSN that a head says is durable.
    durable_named: Lsn,
}

impl Index {
    pub fn read(
        input: &ScanInput<'_>,
        terms: &Terms,
        reader: &mut FileReader,
    ) -> Result<Self, ScanError> {
        let (stretches, broken) = (Vec::new(), Vec::new());
        let mut index = Self { stretches, broken, durable_named: Lsn::ZERO };
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
        let Found { offset, head, is_whole } = found;
        self.durable_named = self.durable_named.max(head.durable);
        if !is_whole {
            self.broken.push(Broken { file, found });
            return;
        }
        let end = found.end();
        match self.stretches.last_mut() {
            Some(last)
                if (last.file, last.end) == (file, offset)
                    && head.follows(last.last.position()) =>
            {
                (last.end, last.last, last.last_offset) = (end, head, offset);
            }
            _ => {
                let (first, last) = (head, head);
                self.stretches.push(Stretch {
                    file,
                    offset,
                    end,
                    first,
                    last,
                    last_offset: offset,
                });
            }
        }
    }

    /// The highest LSN that heads and metadata say is durable.
    pub fn durable(&self, input: &ScanInput<'_>) -> Lsn {
        self.durable_named.max(input.durable_known).max(input.recycled.lsn)
    }

    /// The same where whole batches end at `end`: a batch becomes durable as a whole.
    pub fn durable_behind(&self, end: Lsn, durable: Lsn) -> Lsn {
        let last = self.broken.iter().find(|b| b.found.head.first > end && b.holds(durable));
        last.map_or(durable, |broken| broken.found.head.last())
    }
}
