//! Recovery: where the log ends, and whether anything is missing before that.

use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::sync::Arc;

use freshet_base::io::{FsRef, Mode};
use freshet_base::{Lsn, Run};

use crate::BLOCK_BYTES;
use crate::file::{LogFile, next_block};
use crate::reader::{Extent, FileReader, Records, Runs, Walk};
use crate::recycle::LiveFile;

/// How many damaged records are told one by one.
const DAMAGED_TOLD_MAX: usize = 1000;

/// One start of a server, as metadata knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunBounds {
    /// Its number.
    pub run: Run,
    /// Its salt.
    pub salt: u64,
    /// Its first LSN.
    pub first_lsn: Lsn,
    /// Where the next start found the log to end; `None` for the last run.
    pub last_lsn: Option<Lsn>,
}

/// LSNs from first to last, both inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The first one missing.
    pub first: Lsn,
    /// The last one missing.
    pub last: Lsn,
}

/// What recovery starts from; all of it comes from metadata.
pub struct ScanInput<'a> {
    /// Where the files stand.
    pub fs: FsRef,
    /// All log files.
    pub files: &'a [LogFile],
    /// All runs that may have records above `recycled_to`.
    pub runs: &'a [RunBounds],
    /// Records up to here are elsewhere.
    pub recycled_to: Lsn,
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
    /// Behind the last record there are remains of records that nobody was told of.
    Torn {
        /// Where the log ends, if it has a record.
        place: Option<Place>,
        /// The first LSN that is not there; the next run gives it again.
        first: Lsn,
    },
}

/// What stands in a file of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRecords {
    /// The first record.
    pub first: Lsn,
    /// The last record.
    pub last: Lsn,
    /// Bytes from the start of the file to behind the last record, in whole blocks.
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

/// A log that was read, found whole, and brought to the device again.
pub struct Scan {
    /// The last record; the next run begins after it.
    pub end_lsn: Lsn,
    /// The highest LSN that was certain to be durable before.
    pub durable_lsn: Lsn,
    /// How it ends.
    pub tail: Tail,
    /// All files, for [`crate::Wal::start`].
    pub files: Vec<FileState>,
    log_files: Arc<[LogFile]>,
    runs: Arc<Runs>,
    extents: Vec<Extent>,
    fs: FsRef,
}

/// Reads all files of a log and finds its end: the last record before the first one missing.
/// What is missing at or below the durable LSN is an error. Then writes the blocks above the
/// durable LSN once more, so that what was read is on the device. Holds one file in memory.
///
/// # Errors
/// [`ScanError`]; nothing was written then.
pub fn scan(input: ScanInput<'_>) -> Result<Scan, ScanError> {
    let runs = Runs::new(input.runs, input.recycled_to);
    let mut reader = FileReader::new(Arc::clone(&input.fs), input.files);
    let index = Index::read(input.files, &runs, &mut reader)?;
    let durable_lsn = durable_lsn(&input, index.durable_named);
    let log = index.assemble(&input, durable_lsn).map_err(ScanError::Corruption)?;
    let scan = Scan {
        end_lsn: log.end,
        durable_lsn,
        tail: index.tail(&input, &log),
        files: file_states(input.files, &log.extents),
        log_files: input.files.into(),
        runs: Arc::new(runs),
        extents: log.extents,
        fs: input.fs,
    };
    scan.write_tail_again(&mut reader)?;
    Ok(scan)
}

/// The highest LSN that a frame or metadata names: a run begins where the log was durable.
fn durable_lsn(input: &ScanInput<'_>, named: Lsn) -> Lsn {
    let before_runs = input.runs.iter().map(|run| Lsn(run.first_lsn.get().saturating_sub(1)));
    let ends = input.runs.iter().filter_map(|run| run.last_lsn);
    let known = [input.recycled_to, input.durable_known, named];
    before_runs.chain(ends).chain(known).max().unwrap_or(Lsn::ZERO)
}

/// What all files hold, in the order in which it stands.
struct Index {
    extents: Vec<Extent>,
    damaged: Vec<DamagedRecord>,
    durable_named: Lsn,
}

/// The log: extents that follow each other, up to its end.
struct Assembled {
    extents: Vec<Extent>,
    end: Lsn,
}

impl Index {
    fn read(files: &[LogFile], runs: &Runs, reader: &mut FileReader) -> Result<Self, ScanError> {
        let mut index = Self { extents: Vec::new(), damaged: Vec::new(), durable_named: Lsn::ZERO };
        for (at, file) in files.iter().enumerate() {
            reader.load(file, true)?;
            index.add_file(at, file, reader.bytes(), runs);
        }
        Ok(index)
    }

    fn add_file(&mut self, file_index: usize, file: &LogFile, bytes: &[u8], runs: &Runs) {
        let mut open: Option<Extent> = None;
        let mut before = Lsn::ZERO;
        for found in Walk::new(bytes, 0, runs) {
            let lsn = found.header.lsn;
            // A file is written in LSN order: what goes back is a copy of a frame that a user
            // has stored, laid bare because the record around it was torn.
            if lsn <= before {
                continue;
            }
            before = lsn;
            self.durable_named = self.durable_named.max(found.header.durable);
            if found.payload.is_none() {
                if self.damaged.len() < DAMAGED_TOLD_MAX {
                    let place = Place { file: file.clone(), offset: found.offset as u64 };
                    let (kind, stamp) = (found.header.kind, found.stamp.to_vec());
                    self.damaged.push(DamagedRecord { lsn, kind, stamp, place });
                }
                self.extents.extend(open.take());
                continue;
            }
            let end = found.end();
            match &mut open {
                Some(extent) if extent.last.next() == lsn => {
                    extent.last = lsn;
                    extent.end = end;
                }
                _ => {
                    let offset = found.offset;
                    let next = Extent { file: file_index, offset, end, first: lsn, last: lsn };
                    self.extents.extend(open.replace(next));
                }
            }
        }
        self.extents.extend(open);
    }

    /// Puts extents in LSN order, up to the first record that is missing.
    fn assemble(&self, input: &ScanInput<'_>, durable: Lsn) -> Result<Assembled, Corruption> {
        let mut sorted = self.extents.clone();
        sorted.sort_by_key(|extent| (extent.first, Reverse(extent.last), extent.file));
        let mut extents: Vec<Extent> = Vec::new();
        let mut end = input.recycled_to;
        for extent in sorted {
            if extent.last <= end {
                continue;
            }
            match across_hole(end, extent.first, durable, input.accepted_holes) {
                Across::Next => {}
                Across::Torn => break,
                Across::Corrupt(hole) => return Err(self.corruption(hole, &extents, input.files)),
            }
            extents.push(extent);
            end = extent.last;
        }
        // The end of the log may itself be a hole.
        match across_hole(end, durable.next(), durable, input.accepted_holes) {
            Across::Next | Across::Torn => Ok(Assembled { extents, end: end.max(durable) }),
            Across::Corrupt(hole) => Err(self.corruption(hole, &extents, input.files)),
        }
    }

    fn corruption(&self, hole: Hole, before: &[Extent], files: &[LogFile]) -> Corruption {
        let inside = |record: &&DamagedRecord| (hole.first..=hole.last).contains(&record.lsn);
        let damaged: Vec<_> = self.damaged.iter().filter(inside).cloned().collect();
        let of_first = damaged.iter().find(|record| record.lsn == hole.first);
        let place = match of_first {
            Some(record) => Some(record.place.clone()),
            None => end_of(before, files),
        };
        Corruption { place, hole, damaged }
    }

    fn tail(&self, input: &ScanInput<'_>, log: &Assembled) -> Tail {
        let remains = self.extents.iter().any(|extent| extent.last > log.end)
            || self.damaged.iter().any(|record| record.lsn > log.end);
        match remains {
            false => Tail::Clean,
            true => Tail::Torn { place: end_of(&log.extents, input.files), first: log.end.next() },
        }
    }
}

fn end_of(extents: &[Extent], files: &[LogFile]) -> Option<Place> {
    let last = extents.last()?;
    Some(Place { file: files[last.file].clone(), offset: last.end as u64 })
}

/// What it means that the log goes on with `next` after `end`.
enum Across {
    Next,
    Torn,
    Corrupt(Hole),
}

/// Pure. What an operator has accepted is passed; the rest of a hole is the tail if it begins
/// above the durable LSN, else corruption.
fn across_hole(end: Lsn, next: Lsn, durable: Lsn, accepted: &[Hole]) -> Across {
    let mut missing = end.next();
    while missing < next {
        let covers = |hole: &&Hole| (hole.first..=hole.last).contains(&missing);
        match accepted.iter().find(covers) {
            Some(hole) => missing = hole.last.next(),
            None if missing > durable => return Across::Torn,
            None => {
                let last = Lsn(next.get() - 1);
                return Across::Corrupt(Hole { first: missing, last });
            }
        }
    }
    Across::Next
}

fn file_states(files: &[LogFile], extents: &[Extent]) -> Vec<FileState> {
    let state = |(at, file): (usize, &LogFile)| {
        let mut of_file = extents.iter().filter(|extent| extent.file == at);
        let live = of_file.next().map(|extent| {
            let last = of_file.next_back().unwrap_or(extent);
            assert!(last.end >= extent.end, "a file is written in LSN order");
            let used_bytes = next_block(last.end as u64);
            LiveRecords { first: extent.first, last: last.last, used_bytes }
        });
        FileState { file: file.clone(), live, leaving: false }
    };
    files.iter().enumerate().map(state).collect()
}

impl Scan {
    /// The records of the log in LSN order. Holds one file in memory.
    pub fn records(&self) -> Records {
        let reader = FileReader::new(Arc::clone(&self.fs), &self.log_files);
        let (files, runs) = (Arc::clone(&self.log_files), Arc::clone(&self.runs));
        Records::new(reader, files, runs, self.extents.clone())
    }

    /// Writes the blocks above the durable LSN again. A write that was cut off may be readable
    /// and not be on the device; what is replayed and answered from must be.
    fn write_tail_again(&self, reader: &mut FileReader) -> Result<(), ScanError> {
        for (at, extent) in self.extents.iter().enumerate() {
            if extent.last > self.durable_lsn {
                let is_last = at + 1 == self.extents.len();
                self.write_extent_again(extent, is_last, reader)?;
            }
        }
        Ok(())
    }

    fn write_extent_again(
        &self,
        extent: &Extent,
        is_last: bool,
        reader: &mut FileReader,
    ) -> Result<(), ScanError> {
        let log_file = &self.log_files[extent.file];
        reader.load(log_file, false)?;
        let mut walk = Walk::new(reader.bytes(), extent.offset, &self.runs);
        let above = walk.find(|found| found.header.lsn > self.durable_lsn);
        let first = above.map_or(extent.offset, |found| found.offset);
        let begin = first - first % BLOCK_BYTES as usize;
        let end = next_block(extent.end as u64) as usize;
        if is_last {
            // What is left of a torn batch in the last block goes.
            reader.bytes_mut()[extent.end..end].fill(0);
        }
        let failed = |source| ScanError::of_io(log_file, source);
        let file = reader.fs().open(&log_file.path, Mode::Direct).map_err(failed)?;
        file.write_all_at(&reader.bytes()[begin..end], begin as u64).map_err(failed)?;
        file.sync().map_err(failed)
    }
}

#[cfg(test)]
mod tests;
