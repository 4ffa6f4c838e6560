//! Reads batches and records in order, with one file at a time in memory.

use std::io;
use std::sync::Arc;

use freshet_base::io::{Fs, FsRef, Mode};
use freshet_base::{LogPosition, Lsn, Term};

use crate::buffer::AlignedBuffer;
use crate::checksum::Salt;
use crate::damage::{Corruption, Hole, Place, ScanError};
use crate::file::{LogFile, next_block};
use crate::head::{Body, Head};
use crate::record::{BATCH_HEAD_BYTES, FRAME_HEADER_BYTES, Header, KIND_IDLE, Parsed, parse};
use crate::term::Terms;

/// A batch with a valid head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub offset: usize,
    pub head: Head,
    pub body: Body,
}

impl Found {
    /// Whether all its records are valid as well.
    pub(crate) fn is_whole(&self) -> bool {
        self.body != Body::Damaged
    }

    /// The offset of the next batch.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.head.block_bytes()
    }
}

/// Iterates over the batches of a file that were not recycled, by offset.
///
/// Batches begin at block boundaries. If there is none at a block, the search continues at the next
/// block, but never inside a batch with a valid head, so that user data is not even examined. Only
/// a damaged recycled batch is searched: newer ones may have overwritten its end.
pub(crate) struct Walk<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    pub terms: &'a Terms,
    /// Batches up to here were recycled.
    pub recycled_to: Lsn,
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        while self.at < self.bytes.len() {
            let offset = self.at;
            let rest = &self.bytes[offset..];
            let Some((head, salt)) = Head::read(rest, self.terms) else {
                self.at = next_block(offset as u64 + 1) as usize;
                continue;
            };
            let found = Found { offset, head, body: head.body(rest, &salt) };
            let is_recycled = head.last() <= self.recycled_to;
            self.at = match found.is_whole() || !is_recycled {
                true => found.end(),
                false => next_block(offset as u64 + 1) as usize,
            };
            if !is_recycled {
                return Some(found);
            }
        }
        None
    }
}

/// Reads whole log files into memory, one at a time.
pub(crate) struct FileReader {
    fs: FsRef,
    buffer: AlignedBuffer,
}

impl FileReader {
    /// A reader with memory for the largest of `files`.
    pub(crate) fn new(fs: FsRef, files: &[LogFile]) -> Self {
        let bytes = files.iter().map(|file| file.bytes).max().unwrap_or(0);
        let capacity = usize::try_from(bytes).expect("a log file fits in memory");
        Self { fs, buffer: AlignedBuffer::new(capacity) }
    }

    pub(crate) fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    /// Reads a whole file; bypasses the page cache if `from_device`.
    pub(crate) fn load(&mut self, log_file: &LogFile, from_device: bool) -> Result<(), ScanError> {
        let failed = |source: io::Error| ScanError::of_io(log_file, source);
        let file = self.fs.open(&log_file.path, Mode::Read).map_err(failed)?;
        if from_device {
            file.drop_cache().map_err(failed)?;
        }
        let len_bytes = file.len_bytes().map_err(failed)?;
        if len_bytes != log_file.bytes {
            return Err(ScanError::WrongLength { file: log_file.clone(), len_bytes });
        }
        let buffer = self.buffer.resize_for_read(len_bytes as usize);
        file.read_exact_at(buffer, 0).map_err(failed)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }
}

/// Consecutive records in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// Index of the file.
    pub file: usize,
    pub offset: usize,
    pub end: usize,
    pub first: Lsn,
    pub last: LogPosition,
    pub form: Form,
}

/// How the records of an extent are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// In valid batches with their heads.
    Batches,
    /// Consecutive frames of the same term as the last one; their batch's head or adjacent frames
    /// are damaged.
    Frames {
        /// The log time of their batch or, if its head is damaged, of the next one.
        time_micros: i64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub lsn: Lsn,
    /// The term in which it was written.
    pub term: Term,
    /// The log time of its batch.
    pub time_micros: i64,
    /// The kind given by the caller; never [`KIND_IDLE`].
    pub kind: u8,
    /// The part written under the append lock.
    pub stamp: &'a [u8],
    /// The part prepared before.
    pub payload: &'a [u8],
}

/// The reader's position in a batch, or in frames without a valid head.
struct Reading {
    salt: Salt,
    term: Term,
    time_micros: i64,
    next: Lsn,
    last: Lsn,
    /// The offset of the next batch.
    end: usize,
}

/// Reads the records of a log that were not recycled, in LSN order. Missing LSNs are those of idle
/// records and accepted holes. Holds one file in memory.
pub struct Records {
    reader: FileReader,
    files: Arc<[LogFile]>,
    terms: Arc<Terms>,
    /// Disjoint, in LSN order.
    extents: Vec<Extent>,
    /// Holes that were accepted: their records are not returned, even if they are readable.
    accepted_holes: Vec<Hole>,
    /// The index of the current extent, and the offset of the next batch.
    extent: usize,
    at: usize,
    reading: Option<Reading>,
    loaded: Option<usize>,
}

impl Records {
    pub(crate) fn new(
        reader: FileReader,
        files: Arc<[LogFile]>,
        terms: Arc<Terms>,
        extents: Vec<Extent>,
        accepted_holes: Vec<Hole>,
    ) -> Self {
        let at = extents.first().map_or(0, |extent| extent.offset);
        let (extent, reading, loaded) = (0, None, None);
        Self { reader, files, terms, extents, accepted_holes, extent, at, reading, loaded }
    }

    /// The next record; `None` at the end of the log.
    ///
    /// # Errors
    /// When a file that was readable during the scan no longer is.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ScanError> {
        let (offset, header, term, time_micros) = loop {
            match self.step()? {
                None => return Ok(None),
                Some((_, header, ..)) if header.kind == KIND_IDLE => {}
                Some((_, header, ..)) if Hole::any(&self.accepted_holes, header.lsn) => {}
                Some(found) => break found,
            }
        };
        let Header { lsn, kind, .. } = header;
        let frame = &self.reader.bytes()[offset + FRAME_HEADER_BYTES..];
        let (stamp, frame) = frame.split_at(header.stamp_bytes as usize);
        let payload = &frame[..header.payload_bytes as usize];
        Ok(Some(Record { lsn, term, time_micros, kind, stamp, payload }))
    }

    /// The next frame, verified again, and its offset in the loaded file.
    fn step(&mut self) -> Result<Option<(usize, Header, Term, i64)>, ScanError> {
        loop {
            let Some(extent) = self.extents.get(self.extent).copied() else { return Ok(None) };
            if self.loaded != Some(extent.file) {
                self.reader.load(&self.files[extent.file], false)?;
                self.loaded = Some(extent.file);
            }
            let Some(reading) = &mut self.reading else {
                if self.at >= extent.end {
                    self.extent += 1;
                    self.at = self.extents.get(self.extent).map_or(0, |extent| extent.offset);
                } else {
                    self.reading = Some(self.begin(&extent)?);
                }
                continue;
            };
            if reading.next > reading.last {
                self.at = reading.end;
                self.reading = None;
                continue;
            }
            let rest = self.reader.bytes().get(self.at..).unwrap_or(&[]);
            let Parsed::Frame(frame) = parse(rest, &reading.salt) else {
                return Err(self.changed_since_scan(&extent));
            };
            if frame.header.lsn != reading.next {
                return Err(self.changed_since_scan(&extent));
            }
            let (header, offset) = (frame.header, self.at);
            reading.next = reading.next.next();
            self.at += header.frame_bytes();
            return Ok(Some((offset, header, reading.term, reading.time_micros)));
        }
    }

    /// Starts to read the batch or frames at the current offset.
    fn begin(&mut self, extent: &Extent) -> Result<Reading, ScanError> {
        match extent.form {
            Form::Frames { time_micros } => {
                let term = extent.last.term;
                let salt = self.terms.salt(term).expect("the scan has read frames of it");
                let (next, last, end) = (extent.first, extent.last.lsn, extent.end);
                Ok(Reading { salt, term, time_micros, next, last, end })
            }
            Form::Batches => {
                let rest = self.reader.bytes().get(self.at..).unwrap_or(&[]);
                let Some((head, salt)) = Head::read(rest, &self.terms) else {
                    return Err(self.changed_since_scan(extent));
                };
                let end = self.at + head.block_bytes();
                self.at += BATCH_HEAD_BYTES;
                let Head { term, time_micros, first: next, .. } = head;
                Ok(Reading { salt, term, time_micros, next, last: head.last(), end })
            }
        }
    }

    fn changed_since_scan(&self, extent: &Extent) -> ScanError {
        let place = Place { file: self.files[extent.file].clone(), offset: self.at as u64 };
        let first = self.reading.as_ref().map_or(extent.first, |reading| reading.next);
        let hole = Hole { first, last: extent.last.lsn };
        ScanError::Corruption(Corruption { place: Some(place), hole, damaged: Vec::new() })
    }
}
