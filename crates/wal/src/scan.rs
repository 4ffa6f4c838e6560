//! Recovery: where the log ends, and whether anything is missing before that.

use std::fmt;
use std::io;
use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::{LogPosition, Lsn, Term};

use crate::file::LogFile;
use crate::reader::{Extent, FileReader, Records};
use crate::recycle::LiveFile;
use crate::term::{Secret, Terms};

mod chain;
mod index;
mod salvage;
mod tail;

/// LSNs from first to last, both inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The first one missing.
    pub first: Lsn,
    /// The last one missing.
    pub last: Lsn,
}

impl Hole {
    /// Whether `lsn` is in it.
    pub fn contains(&self, lsn: Lsn) -> bool {
        (self.first..=self.last).contains(&lsn)
    }

    /// Whether `lsn` is in one of `holes`.
    pub(crate) fn any(holes: &[Self], lsn: Lsn) -> bool {
        holes.iter().any(|hole| hole.contains(lsn))
    }
}

/// What recovery starts from; all of it comes from metadata.
pub struct ScanInput<'a> {
    /// Where the files stand.
    pub fs: FsRef,
    /// All log files.
    pub files: &'a [LogFile],
    /// The secrets of the store.
    pub secrets: &'a [Secret],
    /// Batches up to this one are elsewhere.
    pub recycled: LogPosition,
    /// The highest LSN that anything in metadata names.
    pub durable_known: Lsn,
    /// Holes that an operator has accepted.
    pub accepted_holes: &'a [Hole],
}

/// A place in a log file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file.
    pub file: LogFile,
    /// Bytes from its start.
    pub offset: u64,
}

/// A record whose payload is damaged and whose header is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Its kind.
    pub kind: u8,
    /// Its stamp, which may tell whose it is.
    pub stamp: Vec<u8>,
    /// Where it stands.
    pub place: Place,
}

/// Durable records that are missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corruption {
    /// Where the first of them stands or, if nothing of it can be read, where the record before
    /// it ends. `None` when there is no such record.
    pub place: Option<Place>,
    /// Which are missing.
    pub hole: Hole,
    /// Those of them whose headers can be read, a thousand at most.
    pub damaged: Vec<DamagedRecord>,
}

/// Why a log cannot be read.
#[derive(Debug)]
pub enum ScanError {
    /// A file that metadata lists is missing.
    Missing {
        /// The file.
        file: LogFile,
    },
    /// A file has another length than metadata says.
    WrongLength {
        /// The file.
        file: LogFile,
        /// Its length.
        len_bytes: u64,
    },
    /// A file cannot be read, or its tail cannot be written again.
    Io {
        /// The file.
        file: LogFile,
        /// What the file system says.
        source: io::Error,
    },
    /// Durable records are missing.
    Corruption(Corruption),
}

impl ScanError {
    pub(crate) fn of_io(file: &LogFile, source: io::Error) -> Self {
        let file = file.clone();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { file },
            _ => Self::Io { file, source },
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file } => {
                write!(f, "log file {} is missing; put it back", file.path.display())
            }
            Self::WrongLength { file, len_bytes } => {
                let (path, expected) = (file.path.display(), file.bytes);
                write!(f, "log file {path} has {len_bytes} bytes instead of {expected}")
            }
            Self::Io { file, source } => {
                write!(f, "log file {} cannot be used: {source}", file.path.display())
            }
            Self::Corruption(corruption) => corruption.fmt(f),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hole { first, last } = self.hole;
        write!(f, "the log is corrupt: durable records LSN {first} to {last} cannot be read")?;
        if let Some(Place { file, offset }) = &self.place {
            write!(f, ", at or after byte {offset} of {}", file.path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for ScanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Missing { .. } | Self::WrongLength { .. } | Self::Corruption(_) => None,
        }
    }
}

/// How a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Behind the last record there is nothing of it.
    Clean,
    /// Behind the last record there are remains of batches that nobody was told of.
    Torn {
        /// Where the log ends, if it has a record.
        place: Option<Place>,
        /// The first LSN that is not there; the next term gives it again.
        first: Lsn,
    },
}

/// What stands in a file of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRecords {
    /// The first record.
    pub first: Lsn,
    /// The last batch.
    pub last: LogPosition,
    /// Bytes from the start of the file to behind the last batch.
    pub used_bytes: u64,
}

impl LiveRecords {
    pub(crate) fn of(self, file: LogFile) -> LiveFile {
        let Self { first, last, used_bytes } = self;
        LiveFile { file, first, last, used_bytes }
    }
}

/// A log file as [`crate::Wal::start`] wants to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileState {
    /// The file.
    pub file: LogFile,
    /// Its records; `None` if it is ready to be written from its start.
    pub live: Option<LiveRecords>,
    /// Set for a file that is not to be written any more: it is read until its records are
    /// recycled, and then handed back.
    pub leaving: bool,
}

/// A log that was read and found whole.
pub struct Scan {
    /// The last batch; the next term begins after it.
    pub end: LogPosition,
    /// The highest LSN that was certain to be durable before.
    pub durable_lsn: Lsn,
    /// Up to where something still says so once [`Scan::secure`] is done.
    pub covered: Lsn,
    /// The log time of the last batch, if there is one.
    pub time_micros: Option<i64>,
    /// The highest term of which there is a head: the next one is above it.
    pub highest_term: Term,
    /// How it ends.
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
    /// The last batch, where nothing says that it was durable: its file, begin and end.
    unsure: Option<(usize, usize, usize)>,
    fs: FsRef,
}

/// Reads all files of a log and finds its end: the last batch before the first one missing. What
/// is missing at or below the durable LSN is an error. Writes nothing, and holds one file in
/// memory.
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
        covered: log.covered,
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

/// The highest term that wrote a head of the log, also of one that cannot be read whole.
///
/// # Errors
/// A file that is missing, or cannot be read.
pub fn highest_term(input: &ScanInput<'_>) -> Result<Term, ScanError> {
    let mut reader = FileReader::new(Arc::clone(&input.fs), input.files);
    Ok(index::Index::read(input, &Terms::new(input.secrets), &mut reader)?.highest_term)
}

impl Scan {
    /// Does what must be done before anything is written behind the end of the log: makes zeros of
    /// the heads of what stands there, and writes the last batch again where nothing says that it
    /// was durable. So what was read is on the device, and what was not is never read.
    ///
    /// # Errors
    /// A file that cannot be written; it may be tried again.
    pub fn secure(&self) -> Result<(), ScanError> {
        let mut reader = FileReader::new(Arc::clone(&self.fs), &self.log_files);
        tail::cut_off(&self.log_files, &self.remains, &reader)?;
        tail::write_again(&self.log_files, self.unsure, &mut reader)
    }

    /// The records of the log in LSN order. Holds one file in memory.
    pub fn records(&self) -> Records {
        self.records_above(Lsn::ZERO)
    }

    /// The same from the first file on that has one above `lsn`.
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
