//! Reading: one file at a time in memory, its frames in order.

use std::io;
use std::sync::Arc;

use freshet_base::io::{Fs, FsRef, Mode};
use freshet_base::{Lsn, Run};

use crate::buffer::AlignedBuffer;
use crate::checksum::Salted;
use crate::file::{LogFile, next_block};
use crate::record::{FRAME_HEADER_BYTES, Header, KIND_IDLE, Parsed, parse};
use crate::scan::{Corruption, Hole, Place, RunBounds, ScanError};

/// The runs whose records count, and above which LSN.
pub(crate) struct Runs {
    recycled_to: Lsn,
    runs: Vec<(RunBounds, Salted)>,
}

impl Runs {
    pub(crate) fn new(runs: &[RunBounds], recycled_to: Lsn) -> Self {
        let runs = runs.iter().map(|bounds| (*bounds, Salted::new(bounds.salt))).collect();
        Self { recycled_to, runs }
    }

    /// The checksums of a run, if a record with this LSN is inside its bounds.
    fn bounds(&self, run: Run, lsn: Lsn) -> Option<&Salted> {
        let is_inside = |bounds: &RunBounds| {
            bounds.run == run
                && bounds.first_lsn <= lsn
                && bounds.last_lsn.is_none_or(|last| lsn <= last)
        };
        let found = self.runs.iter().find(|(bounds, _)| is_inside(bounds));
        found.map(|(_, salted)| salted)
    }
}

/// A frame that was found, whole or not.
pub(crate) struct Found<'a> {
    pub offset: usize,
    pub header: Header,
    pub stamp: &'a [u8],
    /// `None` when the payload does not check out.
    pub payload: Option<&'a [u8]>,
}

impl Found<'_> {
    /// Where the next frame of the same batch would stand.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.header.frame_bytes()
    }
}

/// The frames of one file above what was recycled, in the order in which they stand.
///
/// A frame stands at a block boundary or right behind another one. Where there is none the
/// search goes on at the next block: never inside a block, and never inside a frame whose
/// header checks out, so that what users wrote is not even looked at. Only a recycled frame
/// that is damaged is entered: newer records may have been written over its end.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    runs: &'a Runs,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, runs: &'a Runs) -> Self {
        Self { bytes, at, runs }
    }

    fn found_at(&self, offset: usize) -> Option<Found<'a>> {
        let rest = self.bytes.get(offset..)?;
        match parse(rest, |run, lsn| self.runs.bounds(run, lsn)) {
            Parsed::Frame { header, stamp, payload } => {
                Some(Found { offset, header, stamp, payload: Some(payload) })
            }
            Parsed::DamagedPayload { header } => {
                let stamp = &rest[FRAME_HEADER_BYTES..][..header.stamp_bytes as usize];
                Some(Found { offset, header, stamp, payload: None })
            }
            Parsed::Nothing => None,
        }
    }

    /// Where to look after what stands at `found.offset`.
    fn behind(&self, found: &Found<'_>) -> usize {
        let is_recycled = found.header.lsn <= self.runs.recycled_to;
        if found.payload.is_some() || !is_recycled {
            return found.end();
        }
        let next_lsn = found.header.lsn.next();
        match self.found_at(found.end()) {
            Some(next) if next.header.lsn == next_lsn => found.end(),
            Some(_) | None => next_block(found.offset as u64 + 1) as usize,
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        while self.at < self.bytes.len() {
            let Some(found) = self.found_at(self.at) else {
                self.at = next_block(self.at as u64 + 1) as usize;
                continue;
            };
            self.at = self.behind(&found);
            if found.header.lsn > self.runs.recycled_to {
                return Some(found);
            }
        }
        None
    }
}

/// Whole log files, one at a time.
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

    /// Reads a file whole, from the device if `from_device`, else from where it comes faster.
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

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.buffer.len();
        self.buffer.resize_for_read(len)
    }
}

/// Records that follow each other in one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// Which file, as an index.
    pub file: usize,
    pub offset: usize,
    pub end: usize,
    pub first: Lsn,
    pub last: Lsn,
}

/// A record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// What the caller said it is; never [`KIND_IDLE`].
    pub kind: u8,
    /// What was written under the append lock.
    pub stamp: &'a [u8],
    /// What was ready before.
    pub payload: &'a [u8],
}

/// The records of a log above what was recycled, in LSN order. Where LSNs are missing there
/// were idle records or accepted holes. Holds one file in memory.
pub struct Records {
    reader: FileReader,
    files: Arc<[LogFile]>,
    runs: Arc<Runs>,
    /// Disjoint, in LSN order.
    extents: Vec<Extent>,
    /// The extent being read, and where in it.
    extent: usize,
    at: usize,
    loaded: Option<usize>,
    next: Lsn,
}

impl Records {
    pub(crate) fn new(
        reader: FileReader,
        files: Arc<[LogFile]>,
        runs: Arc<Runs>,
        extents: Vec<Extent>,
    ) -> Self {
        let at = extents.first().map_or(0, |extent| extent.offset);
        let next = runs.recycled_to.next();
        Self { reader, files, runs, extents, extent: 0, at, loaded: None, next }
    }

    /// The next record, `None` at the end of the log.
    ///
    /// # Errors
    /// A file that could be read when the log was scanned and now cannot.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ScanError> {
        let (offset, header) = loop {
            match self.step()? {
                None => return Ok(None),
                Some((_, header)) if header.kind == KIND_IDLE => {}
                Some(found) => break found,
            }
        };
        let Header { lsn, kind, .. } = header;
        let frame = &self.reader.bytes()[offset + FRAME_HEADER_BYTES..];
        let (stamp, frame) = frame.split_at(header.stamp_bytes as usize);
        let payload = &frame[..header.payload_bytes as usize];
        Ok(Some(Record { lsn, kind, stamp, payload }))
    }

    /// The next frame, checked again, and where it stands in the file that is loaded.
    fn step(&mut self) -> Result<Option<(usize, Header)>, ScanError> {
        loop {
            let Some(extent) = self.extents.get(self.extent).copied() else { return Ok(None) };
            if self.next > extent.last {
                self.extent += 1;
                self.at = self.extents.get(self.extent).map_or(0, |extent| extent.offset);
                continue;
            }
            // Behind an accepted hole the log goes on with a later LSN.
            self.next = self.next.max(extent.first);
            if self.loaded != Some(extent.file) {
                self.reader.load(&self.files[extent.file], false)?;
                self.loaded = Some(extent.file);
            }
            let found = Walk::new(self.reader.bytes(), self.at, &self.runs).next();
            let Some(found) = found.filter(|found| found.payload.is_some()) else {
                return Err(self.changed_since_scan(&extent));
            };
            self.at = found.end();
            // What another extent has brought before is not brought twice.
            if found.header.lsn >= self.next {
                self.next = found.header.lsn.next();
                return Ok(Some((found.offset, found.header)));
            }
        }
    }

    fn changed_since_scan(&self, extent: &Extent) -> ScanError {
        let place = Place { file: self.files[extent.file].clone(), offset: self.at as u64 };
        let hole = Hole { first: self.next, last: extent.last };
        ScanError::Corruption(Corruption { place: Some(place), hole, damaged: Vec::new() })
    }
}
