//! The files of the log: ready for writing, with records, and recycling.

use std::collections::VecDeque;

use freshet_base::{LogPosition, Lsn};

use crate::file::{LogFile, OpenFile};

/// A file with records that were not recycled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveFile {
    pub file: LogFile,
    pub first: Lsn,
    /// The end of its last batch.
    pub last: LogPosition,
    /// The used length, in whole blocks.
    pub used_bytes: u64,
}

/// The file that is being written.
struct Current {
    file: OpenFile,
    position: u64,
    /// The first record and the last batch; `None` if it is empty.
    records: Option<(Lsn, LogPosition)>,
}

impl Current {
    fn live(&self) -> Option<LiveFile> {
        let (first, last) = self.records?;
        let file = self.file.log_file.clone();
        Some(LiveFile { file, first, last, used_bytes: self.position })
    }
}

/// A file that the writer has finished.
struct Full {
    file: OpenFile,
    live: LiveFile,
    /// Whether it is returned instead of being reused.
    leaving: bool,
}

/// All files of the log.
pub(crate) struct Files {
    file_bytes: u64,
    /// Zeroed or recycled files, used from the front.
    ready: VecDeque<OpenFile>,
    current: Option<Current>,
    /// In the order of their records.
    full: VecDeque<Full>,
}

/// The result of recycling.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recycled {
    /// The number of files that will be reused.
    pub used_again: u64,
    /// Files that the log no longer uses.
    pub left: Vec<LogFile>,
}

/// The place of a batch, and whether the writer switched to another file for it.
pub(crate) struct Slot {
    pub file: OpenFile,
    pub offset: u64,
    pub switched: bool,
}

impl Files {
    pub(crate) fn new(file_bytes: u64) -> Self {
        Self { file_bytes, ready: VecDeque::new(), current: None, full: VecDeque::new() }
    }

    /// Adds a file to write to.
    pub(crate) fn add_ready(&mut self, file: OpenFile) {
        assert_eq!(file.log_file.bytes, self.file_bytes, "the log writes files of one size");
        self.ready.push_back(file);
    }

    /// Adds a file with records of earlier terms, in the order of the records.
    pub(crate) fn add_full(&mut self, file: OpenFile, live: LiveFile, leaving: bool) {
        let in_order = self.full.back().is_none_or(|before| before.live.last.lsn < live.last.lsn);
        assert!(in_order, "files follow each other as their records do");
        assert!(leaving || live.file.bytes == self.file_bytes, "the log writes files of one size");
        self.full.push_back(Full { file, live, leaving });
    }

    /// Resumes writing after the last record of the last full file, unless that is leaving; returns
    /// the bytes left in it.
    pub(crate) fn resume_last(&mut self) -> u64 {
        if self.full.back().is_none_or(|last| last.leaving) {
            return 0;
        }
        let Some(Full { file, live, .. }) = self.full.pop_back() else { return 0 };
        let records = Some((live.first, live.last));
        self.current = Some(Current { file, position: live.used_bytes, records });
        self.file_bytes - live.used_bytes
    }

    /// The place of the next batch.
    ///
    /// # Panics
    /// When no file is ready: every append holds room, which only counts ready files.
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
            Some(live) => self.full.push_back(Full { file: current.file, live, leaving: false }),
            None => self.ready.push_back(current.file),
        }
    }

    /// Records that a batch from `first` to `last` was written at the place from [`Files::place`].
    pub(crate) fn wrote(&mut self, first: Lsn, last: LogPosition, block_bytes: u64) {
        let current = self.current.as_mut().expect("a batch was placed before it was written");
        let first = current.records.map_or(first, |(first, _)| first);
        current.records = Some((first, last));
        current.position += block_bytes;
    }

    /// Makes files whose batches all end at or before `up_to` ready again, except leaving ones.
    pub(crate) fn recycle(&mut self, up_to: LogPosition) -> Recycled {
        let mut recycled = Recycled::default();
        while self.full.front().is_some_and(|full| full.live.last.lsn <= up_to.lsn) {
            match self.full.pop_front() {
                Some(Full { leaving: true, live, .. }) => recycled.left.push(live.file),
                Some(Full { file, .. }) => {
                    self.ready.push_back(file);
                    recycled.used_again += 1;
                }
                None => {}
            }
        }
        recycled
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of files, without leaving ones.
    pub(crate) fn total(&self) -> usize {
        let full = self.full.iter().filter(|full| !full.leaving).count();
        self.ready.len() + full + usize::from(self.current.is_some())
    }

    /// The end of the last finished file.
    pub(crate) fn full_to(&self) -> Option<LogPosition> {
        self.full.back().map(|full| full.live.last)
    }

    /// The files with records, in the order of the records.
    pub(crate) fn live(&self) -> Vec<LiveFile> {
        let full = self.full.iter().map(|full| full.live.clone());
        full.chain(self.current.as_ref().and_then(Current::live)).collect()
    }
}
