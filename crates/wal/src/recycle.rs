//! The files of the log: those ready to be written, those with records, and their reuse.

use std::collections::VecDeque;

use freshet_base::Lsn;

use crate::file::{LogFile, OpenFile};

/// A file with records that were not recycled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveFile {
    /// The file.
    pub file: LogFile,
    /// Its first record.
    pub first: Lsn,
    /// Its last record.
    pub last: Lsn,
    /// Bytes from its start to behind its last record, in whole blocks.
    pub used_bytes: u64,
}

/// The file that the writer stands in.
struct Current {
    file: OpenFile,
    position: u64,
    /// First and last record, as soon as there is one.
    records: Option<(Lsn, Lsn)>,
}

impl Current {
    fn live(&self) -> Option<LiveFile> {
        let (first, last) = self.records?;
        let file = self.file.log_file.clone();
        Some(LiveFile { file, first, last, used_bytes: self.position })
    }
}

/// All files of the log.
pub(crate) struct Files {
    file_bytes: u64,
    /// Zeroed or recycled; used from the front.
    ready: VecDeque<OpenFile>,
    current: Option<Current>,
    /// Left behind by the writer, in the order of their records.
    full: VecDeque<(OpenFile, LiveFile)>,
}

/// Where a piece goes, and whether the writer left its file for another.
pub(crate) struct Slot {
    pub file: OpenFile,
    pub offset: u64,
    pub switched: bool,
}

impl Files {
    pub(crate) fn new(file_bytes: u64) -> Self {
        Self { file_bytes, ready: VecDeque::new(), current: None, full: VecDeque::new() }
    }

    pub(crate) fn add_ready(&mut self, file: OpenFile) {
        self.ready.push_back(file);
    }

    /// Adds a file with records of earlier runs, in the order of the records.
    pub(crate) fn add_full(&mut self, file: OpenFile, live: LiveFile) {
        let in_order = self.full.back().is_none_or(|(_, before)| before.last < live.last);
        assert!(in_order, "files follow each other as their records do");
        self.full.push_back((file, live));
    }

    /// Goes on behind the last record of the last full file; returns the bytes left there.
    pub(crate) fn resume_last(&mut self) -> u64 {
        let Some((file, live)) = self.full.pop_back() else { return 0 };
        let records = Some((live.first, live.last));
        self.current = Some(Current { file, position: live.used_bytes, records });
        self.file_bytes - live.used_bytes
    }

    /// The place of the next piece.
    ///
    /// # Panics
    /// When no file is ready: whoever appended held room, and room is counted in ready files.
    pub(crate) fn place(&mut self, block_bytes: u64) -> Slot {
        let fits = |current: &Current| current.position + block_bytes <= self.file_bytes;
        let switched = !self.current.as_ref().is_some_and(fits);
        if switched {
            let file = self.ready.pop_front().expect("room is promised only in ready files");
            let left = self.current.replace(Current { file, position: 0, records: None });
            if let Some(left) = left {
                self.leave(left);
            }
        }
        let current = self.current.as_ref().expect("set above where there was none");
        Slot { file: current.file.clone(), offset: current.position, switched }
    }

    fn leave(&mut self, current: Current) {
        match current.live() {
            Some(live) => self.full.push_back((current.file, live)),
            None => self.ready.push_back(current.file),
        }
    }

    /// Records `first` to `last` were written where [`Files::place`] said.
    pub(crate) fn wrote(&mut self, first: Lsn, last: Lsn, block_bytes: u64) {
        let current = self.current.as_mut().expect("a piece was placed before it was written");
        let first = current.records.map_or(first, |(first, _)| first);
        current.records = Some((first, last));
        current.position += block_bytes;
    }

    /// Makes files ready again whose records are all at or below `up_to`; returns how many.
    pub(crate) fn recycle(&mut self, up_to: Lsn) -> u64 {
        let mut recycled = 0;
        while self.full.front().is_some_and(|(_, live)| live.last <= up_to) {
            self.ready.extend(self.full.pop_front().map(|(file, _)| file));
            recycled += 1;
        }
        recycled
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn total(&self) -> usize {
        self.ready.len() + self.full.len() + usize::from(self.current.is_some())
    }

    /// The files with records, in the order of the records.
    pub(crate) fn live(&self) -> Vec<LiveFile> {
        let full = self.full.iter().map(|(_, live)| live.clone());
        full.chain(self.current.as_ref().and_then(Current::live)).collect()
    }
}
