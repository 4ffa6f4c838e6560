//! Mark files: the rows of segments that have died between two flushes of a table
//! (`docs/rfc/0011-keys-on-disk.md`, "The mark file"). Numbers are little-endian, checksums are
//! CRC-32C.
//!
//! ```text
//! FRSHMARK, u8 1                     magic number and version
//! u64 u64 u64                        table, first and last LSN
//! u32                                the number of sections
//! then of each section
//!   u64 u64 u32                      tablet, rowset, segment
//!   u32 u32                          the rows of the segment, and how many of them are marked
//!   u8 u32 u32                       form, length and checksum of its bytes
//! u32                                checksum of everything before
//! the bytes of the sections
//! ```
//!
//! A file is written whole and never changed.

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_base::{Lsn, RowsetId, SegmentId, TableId, TabletId};
use freshet_meta::MarkFileMeta;

use super::section;
use crate::error::{Error, Result};
use crate::segment::checksum::crc32c;

const MAGIC: &[u8; 8] = b"FRSHMARK";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 8 + 1 + 3 * 8 + 4;
const SECTION_HEAD_BYTES: usize = 8 + 8 + 4 + 4 + 4 + 1 + 4 + 4;
const CHECKSUM_BYTES: usize = 4;

/// A segment of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentPlace {
    pub tablet: TabletId,
    pub rowset: RowsetId,
    pub segment: SegmentId,
}

/// The rows of one segment that have died.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkSection {
    pub place: SegmentPlace,
    /// The number of rows of the segment.
    pub rows: u32,
    /// The rows that have died, ascending.
    pub dead: Vec<u32>,
}

/// Writes a mark file and makes it and its name durable. The directory is made if it is missing.
///
/// # Errors
/// [`Error::Io`]; what was written is then left to the sweep.
///
/// # Panics
/// When a segment has two sections, or a section has no rows, or rows that do not ascend.
pub fn write_mark_file(
    fs: &dyn Fs,
    path: &Path,
    table: TableId,
    number: RowsetId,
    lsns: (Lsn, Lsn),
    sections: &[MarkSection],
) -> Result<MarkFileMeta> {
    assert!(lsns.0 < lsns.1, "marks of a file are of some LSNs");
    let in_order = sections.is_sorted_by(|a, b| a.place < b.place);
    assert!(in_order, "each segment has one section");
    let (mut head, mut bodies) = (Vec::new(), Vec::new());
    head.put_slice(MAGIC);
    head.put_u8(VERSION);
    head.put_u64_le(table.get());
    head.put_u64_le(lsns.0.get());
    head.put_u64_le(lsns.1.get());
    head.put_u32_le(short(sections.len()));
    for MarkSection { place, rows, dead } in sections {
        assert!(!dead.is_empty(), "a section has rows that died");
        let (form, bytes) = section::encode(*rows, dead);
        head.put_u64_le(place.tablet.get());
        head.put_u64_le(place.rowset.get());
        head.put_u32_le(place.segment.get());
        head.put_u32_le(*rows);
        head.put_u32_le(short(dead.len()));
        head.put_u8(form);
        head.put_u32_le(short(bytes.len()));
        head.put_u32_le(crc32c(&bytes));
        bodies.extend_from_slice(&bytes);
    }
    let head_checksum = crc32c(&head);
    head.put_u32_le(head_checksum);
    let marks = sections.iter().map(|section| section.dead.len() as u64).sum();
    let bytes = (head.len() + bodies.len()) as u64;
    head.extend_from_slice(&bodies);
    let failed = |error| Error::io("write", path, error);
    let dir = path.parent().expect("a file is in a directory");
    fs.make_dir(dir).map_err(failed)?;
    let file = fs.open(path, Mode::CreateNew).map_err(failed)?;
    file.write_all_at(&head, 0).map_err(failed)?;
    file.sync().map_err(failed)?;
    fs.sync_dir(dir).map_err(failed)?;
    Ok(MarkFileMeta { number, lsns, bytes, head_checksum, marks })
}

fn short(count: usize) -> u32 {
    u32::try_from(count).expect("a table has fewer segments, and a segment fewer rows, than 2^32")
}

/// A mark file whose head is in memory.
pub struct MarkFile {
    file: FileRef,
    path: PathBuf,
    sections: Vec<SectionHead>,
}

#[derive(Clone, Copy)]
struct SectionHead {
    place: SegmentPlace,
    rows: u32,
    marks: u32,
    form: u8,
    /// Where its bytes begin in the file.
    start: u64,
    bytes: u32,
    checksum: u32,
}

impl MarkFile {
    /// Reads and checks the head of a mark file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] when it is not the file that metadata names.
    pub fn open(fs: &dyn Fs, path: &Path, table: TableId, meta: &MarkFileMeta) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let damaged = |what: &str| Error::corruption(path, 0, what);
        let file = fs.open(path, Mode::Read).map_err(failed)?;
        let bytes = file.len_bytes().map_err(failed)?;
        if bytes != meta.bytes {
            let what = format!("it is {bytes} bytes long and was written with {}", meta.bytes);
            return Err(damaged(&what));
        }
        if bytes < (HEAD_BYTES + CHECKSUM_BYTES) as u64 {
            return Err(damaged("it is shorter than a file of marks"));
        }
        let mut fixed = [0; HEAD_BYTES];
        file.read_exact_at(&mut fixed, 0).map_err(failed)?;
        let count = u64::from((&fixed[HEAD_BYTES - 4..]).get_u32_le());
        let head_bytes = HEAD_BYTES as u64 + count * SECTION_HEAD_BYTES as u64;
        if head_bytes + CHECKSUM_BYTES as u64 > bytes {
            return Err(damaged("it is shorter than its head says"));
        }
        let mut head = vec![0; head_bytes as usize + CHECKSUM_BYTES];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        let (head, mut checksum) = head.split_at(head_bytes as usize);
        if crc32c(head) != meta.head_checksum || checksum.get_u32_le() != meta.head_checksum {
            return Err(damaged("the checksum of its head differs"));
        }
        let Some(sections) = parse_head(head, table, meta) else {
            return Err(damaged("its head is not that of the file that metadata names"));
        };
        Ok(Self { file, path: path.to_path_buf(), sections })
    }

    /// The segments that have marks in it, with their number of rows, in their order.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentPlace, u32)> + '_ {
        self.sections.iter().map(|section| (section.place, section.rows))
    }

    /// The rows of a segment that died, ascending; empty if the file has no marks of it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] for any changed byte, and when the segment has another
    /// number of rows.
    pub fn dead(&self, place: SegmentPlace, rows: u32) -> Result<Vec<u32>> {
        let Ok(at) = self.sections.binary_search_by_key(&place, |section| section.place) else {
            return Ok(Vec::new());
        };
        let section = self.sections[at];
        let damaged = |what: &str| Error::corruption(&self.path, section.start, what);
        if section.rows != rows {
            let of = section.rows;
            return Err(damaged(&format!("it marks rows of {of}, and the segment has {rows}")));
        }
        let mut bytes = vec![0; section.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, section.start);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        if crc32c(&bytes) != section.checksum {
            return Err(damaged("the checksum of the marks of a segment differs"));
        }
        let dead = section::decode(section.form, &bytes, rows);
        dead.filter(|dead| dead.len() == section.marks as usize)
            .ok_or_else(|| damaged("the marks of a segment are not what they say"))
    }
}

/// The sections that a head names; `None` unless it is the head of this file.
fn parse_head(mut head: &[u8], table: TableId, meta: &MarkFileMeta) -> Option<Vec<SectionHead>> {
    let mut start = (head.len() + CHECKSUM_BYTES) as u64;
    let magic = head.split_off(..MAGIC.len())?;
    let is_ours = magic == MAGIC
        && head.get_u8() == VERSION
        && head.get_u64_le() == table.get()
        && (Lsn(head.get_u64_le()), Lsn(head.get_u64_le())) == meta.lsns;
    if !is_ours {
        return None;
    }
    let count = head.get_u32_le();
    let mut sections = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let place = SegmentPlace {
            tablet: TabletId(head.get_u64_le()),
            rowset: RowsetId(head.get_u64_le()),
            segment: SegmentId(head.get_u32_le()),
        };
        let section = SectionHead {
            place,
            rows: head.get_u32_le(),
            marks: head.get_u32_le(),
            form: head.get_u8(),
            start,
            bytes: head.get_u32_le(),
            checksum: head.get_u32_le(),
        };
        start = start.checked_add(section.bytes.into())?;
        sections.push(section);
    }
    let marks = sections.iter().map(|section| u64::from(section.marks)).sum::<u64>();
    let in_order = sections.is_sorted_by(|a, b| a.place < b.place);
    (in_order && start == meta.bytes && marks == meta.marks).then_some(sections)
}
