//! Recovery: finds the end of the log, and checks that nothing before it is missing.

use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::{LogPosition, Lsn, Term};

use crate::damage::{Hole, Place, ScanError};
use crate::file::LogFile;
use crate::reader::{Extent, FileReader, Records};
use crate::recycle::LiveFile;
use crate::term::{Secret, Terms};

mod chain;
mod index;
mod salvage;
mod tail;

/// Input of recovery, all of it from metadata.
pub struct ScanInput<'a> {
    pub fs: FsRef,
    /// All log files.
    pub files: &'a [LogFile],
    /// The secrets of the store.
    pub secrets: &'a [Secret],
    /// Batches up to this position are stored elsewhere.
    pub recycled: LogPosition,
    /// The highest LSN that metadata refers to.
    pub durable_known: Lsn,
    /// Holes that an operator has accepted.
    pub accepted_holes: &'a [Hole],
}

/// The state after the last record of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Nothing follows the last record.
    Clean,
    /// The last record is followed by remains of batches that were never acknowledged.
    Torn {
        /// The end of the log, if it has any record.
        place: Option<Place>,
        /// The first missing LSN, which the next term will assign again.
        first: Lsn,
    },
}

/// The live contents of a log file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRecords {
    /// The first record.
    pub first: Lsn,
    /// The last batch.
    pub last: LogPosition,
    /// Bytes from the start of the file to the end of the last batch.
    pub used_bytes: u64,
}

impl LiveRecords {
    pub(crate) fn of(self, file: LogFile) -> LiveFile {
        let Self { first, last, used_bytes } = self;
        LiveFile { file, first, last, used_bytes }
    }
}

/// The state of a log file, as input of [`crate::Wal::start`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileState {
    pub file: LogFile,
    /// Its records; `None` if it can be written from its start.
    pub live: Option<LiveRecords>,
    /// Whether it must not be written any more: it is read until its records are recycled, and then
    /// handed back.
    pub leaving: bool,
}

/// The result of reading an intact log.
pub struct Scan {
    /// The last batch, after which the next term begins.
    pub end: LogPosition,
    /// The highest LSN that was known to be durable before the scan.
    pub durable_lsn: Lsn,
    /// The highest LSN recorded as durable after [`Scan::secure`].
    pub durable_recorded: Lsn,
    /// The log time of the last batch, if there is any.
    pub time_micros: Option<i64>,
    /// The highest term in any batch head; the next term is above it.
    pub highest_term: Term,
    /// What follows the last record.
    pub tail: Tail,
    /// Records that were read although the head of their batch is damaged.
    pub without_head: Vec<Hole>,
    /// All files, for [`crate::Wal::start`].
    pub files: Vec<FileState>,
    log_files: Arc<[LogFile]>,
    terms: Arc<Terms>,
    extents: Vec<Extent>,
    accepted_holes: Vec<Hole>,
    remains: Vec<tail::Remains>,
    /// The last batch if nothing confirms that it was durable: its file, start and end.
    unsure: Option<(usize, usize, usize)>,
    fs: FsRef,
}

/// Reads all files of a log and finds its end, the last batch before the first missing one. Missing
/// records at or below the durable LSN are an error. Writes nothing, and holds one file at a time
/// in memory.
///
/// # Errors
/// [`ScanError`].
pub fn scan(input: ScanInput<'_>) -> Result<Scan, ScanError> {
    let terms = Arc::new(Terms::new(input.secrets));
    let mut reader = FileReader::new(Arc::clone(&input.fs), input.files);
    let index = index::Index::read(&input, &terms, &mut reader)?;
    let log = chain::assemble(&input, &index, &terms, &mut reader)?;
    let remains = tail::remains(&input, &index, log.end.lsn, &terms, &mut reader)?;
    let tail = match remains.is_empty() {
        true => Tail::Clean,
        false => Tail::Torn { place: log.place(input.files), first: log.end.lsn.next() },
    };
    Ok(Scan {
        end: log.end,
        durable_lsn: log.durable,
        durable_recorded: log.durable_recorded,
        time_micros: log.time_micros,
        highest_term: index.highest_term,
        tail,
        files: log.file_states(input.files),
        without_head: log.without_head,
        log_files: input.files.into(),
        terms,
        extents: log.extents,
        accepted_holes: input.accepted_holes.to_vec(),
        remains,
        unsure: log.unsure,
        fs: input.fs,
    })
}

/// The highest term in any batch head of the log, including heads of incomplete batches.
///
/// # Errors
/// A file that is missing or cannot be read.
pub fn highest_term(input: &ScanInput<'_>) -> Result<Term, ScanError> {
    let mut reader = FileReader::new(Arc::clone(&input.fs), input.files);
    Ok(index::Index::read(input, &Terms::new(input.secrets), &mut reader)?.highest_term)
}

impl Scan {
    /// Prepares the log for writing after its end: overwrites the heads of remains with zeros, and
    /// rewrites the last batch if nothing confirms that it was durable. So everything that was read
    /// is durable, and what was not read never reappears.
    ///
    /// # Errors
    /// A file that cannot be written; it can be retried.
    pub fn secure(&self) -> Result<(), ScanError> {
        let mut reader = FileReader::new(Arc::clone(&self.fs), &self.log_files);
        tail::cut_off(&self.log_files, &self.remains, &reader)?;
        tail::write_again(&self.log_files, self.unsure, &mut reader)
    }

    /// The records of the log in LSN order. Holds one file at a time in memory.
    pub fn records(&self) -> Records {
        self.records_above(Lsn::ZERO)
    }

    /// Like [`Self::records`], from the first file that contains an LSN above `lsn`.
    pub fn records_above(&self, lsn: Lsn) -> Records {
        let reader = FileReader::new(Arc::clone(&self.fs), &self.log_files);
        let (files, terms) = (Arc::clone(&self.log_files), Arc::clone(&self.terms));
        let above = self.extents.iter().filter(|extent| extent.last.lsn > lsn);
        let extents = above.copied().collect();
        Records::new(reader, files, terms, extents, self.accepted_holes.clone())
    }
}

#[cfg(test)]
mod tests;
