//! The side file: unflushed rows of small tables, moved out of the log so that its files can be
//! reused.
//!
//! It begins with a magic number, followed by entries: a header of fixed length, its checksum, and
//! the rows, whose checksum is in the header. The entry of a large load contains the metadata of
//! its rowsets instead of rows. The end of the file contains the number of entries, so that a
//! truncated file is detected. Numbers are little-endian, checksums are CRC-32C.

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_base::{Lsn, SchemaVersion, TableId, TxnId};

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"FRSIDE03";
/// The extension of an incomplete side file.
pub const UNFINISHED: &str = "tmp";
const ENTRY: u8 = 1;
const END: u8 = 2;
/// Kind, flags, table, LSN, transaction, schema version, rows, removals, length and checksum of the
/// rows.
const HEADER_BYTES: usize = 1 + 1 + 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4;
/// The flag of a load whose group is open.
const OPEN: u8 = 1;
/// The flag of a large load.
const FILES: u8 = 2;
/// The checksum after a header.
const CHECKSUM_BYTES: usize = 4;
/// The approximate size of reads and writes, which bounds memory: a side file may have an eighth of
/// the size of the log, and its rows are already in memory once.
const PIECE_BYTES: usize = 1 << 20;

/// The rows of one record in one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideEntry {
    pub table: TableId,
    /// The LSN of the record.
    pub lsn: Lsn,
    pub txn: TxnId,
    /// Whether its group was still open at the end of this file.
    pub open: bool,
    /// The schema version that the rows are encoded with.
    pub schema_version: SchemaVersion,
    pub rows: u32,
    /// How many of the rows, the first ones, only remove their key (keys.md K24).
    pub removals: u32,
    pub body: SideBody,
}

/// The rows of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SideBody {
    /// Encoded rows.
    Rows(Vec<u8>),
    /// Metadata of the rowsets of a large load, as [`freshet_meta::disk`] encodes it.
    Rowsets(Vec<u8>),
}

impl SideBody {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Rows(bytes) | Self::Rowsets(bytes) => bytes,
        }
    }
}

/// Writes a side file entry by entry.
pub struct SideWriter {
    file: FileRef,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    entries: u64,
    /// Table and LSN of the last entry.
    last: Option<(TableId, Lsn)>,
}

impl SideWriter {
    /// Creates a side file under a temporary name; an existing file at `path` remains until
    /// [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let unfinished = unfinished(path);
        let failed = |error| Error::io("write", path, error);
        if fs.exists(&unfinished) {
            fs.remove_file(&unfinished).map_err(failed)?;
        }
        let file = fs.open(&unfinished, Mode::CreateNew).map_err(failed)?;
        let (path, buffer) = (path.to_path_buf(), MAGIC.to_vec());
        Ok(Self { file, path, buffer, written: 0, entries: 0, last: None })
    }

    /// Appends an entry; entries of the same table must be in LSN order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn push(&mut self, entry: &SideEntry) -> Result<()> {
        let SideEntry { table, lsn, .. } = *entry;
        let is_next = self.last.is_none_or(|(of, before)| of != table || before < lsn);
        assert!(is_next, "entries of a table come in the order of the log");
        self.last = Some((table, lsn));
        put_entry(&mut self.buffer, entry);
        self.entries += 1;
        if self.buffer.len() >= PIECE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|error| Error::io("write", &self.path, error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file durable under its name, and returns the number of entries.
    ///
    /// # Errors
    /// [`Error::Io`]; `path` is unchanged, unless only the sync of the directory failed.
    pub fn finish(mut self, fs: &dyn Fs) -> Result<u64> {
        let start = self.buffer.len();
        self.buffer.put_u8(END);
        self.buffer.put_u64_le(self.entries);
        put_checksum(&mut self.buffer, start);
        self.write()?;
        let failed = |error| Error::io("write", &self.path, error);
        self.file.sync().map_err(failed)?;
        fs.rename(&unfinished(&self.path), &self.path).map_err(failed)?;
        let dir = self.path.parent().expect("a file is in a directory");
        fs.sync_dir(dir).map_err(failed)?;
        Ok(self.entries)
    }
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_extension(UNFINISHED)
}

fn put_entry(buffer: &mut Vec<u8>, entry: &SideEntry) {
    let bytes = entry.body.bytes();
    let length = u32::try_from(bytes.len()).expect("a record is far below 4 GiB");
    let files = if matches!(entry.body, SideBody::Rowsets(_)) { FILES } else { 0 };
    let start = buffer.len();
    buffer.put_u8(ENTRY);
    buffer.put_u8(files | if entry.open { OPEN } else { 0 });
    buffer.put_u64_le(entry.table.get());
    buffer.put_u64_le(entry.lsn.get());
    buffer.put_u64_le(entry.txn.get());
    buffer.put_u32_le(entry.schema_version.get());
    buffer.put_u32_le(entry.rows);
    buffer.put_u32_le(entry.removals);
    buffer.put_u32_le(length);
    buffer.put_u32_le(crc_fast::crc32_iscsi(bytes));
    assert_eq!(buffer.len() - start, HEADER_BYTES, "the header of an entry has one length");
    put_checksum(buffer, start);
    buffer.extend_from_slice(bytes);
}

fn put_checksum(buffer: &mut Vec<u8>, start: usize) {
    let checksum = crc_fast::crc32_iscsi(&buffer[start..]);
    buffer.put_u32_le(checksum);
}

/// Reads a side file, with one piece at a time in memory.
pub struct SideReader {
    file: FileRef,
    path: PathBuf,
    file_bytes: u64,
    /// The unconsumed input starts at offset `at` of the buffer and ends at offset `read` of the
    /// file.
    buffer: Vec<u8>,
    at: usize,
    read: u64,
    entries: u64,
}

impl SideReader {
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] when it is not a side file.
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = fs.open(path, Mode::Read).map_err(failed)?;
        let file_bytes = file.len_bytes().map_err(failed)?;
        let path = path.to_path_buf();
        let buffer = Vec::new();
        let mut reader = Self { file, path, file_bytes, buffer, at: 0, read: 0, entries: 0 };
        reader.fill()?;
        if !reader.buffer.starts_with(MAGIC) {
            return Err(reader.damaged("it is not a side file of this version"));
        }
        reader.at = MAGIC.len();
        Ok(reader)
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] for any modified byte.
    pub fn next_entry(&mut self) -> Result<Option<SideEntry>> {
        loop {
            let mut rest = &self.buffer[self.at..];
            let parsed = parse(&mut rest);
            let (left, is_all) = (rest.len(), self.read == self.file_bytes);
            match parsed {
                Ok(Parsed::Entry(entry)) => {
                    self.at = self.buffer.len() - left;
                    self.entries += 1;
                    return Ok(Some(entry));
                }
                Ok(Parsed::End(count)) if count == self.entries && left == 0 && is_all => {
                    return Ok(None);
                }
                Ok(Parsed::End(_)) => return Err(self.damaged("its end names other entries")),
                Err(Bad::Short(_)) if !is_all => self.fill()?,
                Err(Bad::Short(what) | Bad::Wrong(what)) => return Err(self.damaged(what)),
            }
        }
    }

    /// Reads another piece.
    fn fill(&mut self) -> Result<()> {
        assert!(self.read < self.file_bytes || self.read == 0, "no more is read than there is");
        self.buffer.drain(..self.at);
        self.at = 0;
        let have = self.buffer.len();
        let more = (self.file_bytes - self.read).min(PIECE_BYTES as u64) as usize;
        self.buffer.resize(have + more, 0);
        let read = self.file.read_exact_at(&mut self.buffer[have..], self.read);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        self.read += more as u64;
        Ok(())
    }

    fn damaged(&self, what: &str) -> Error {
        let at = self.read - (self.buffer.len() - self.at) as u64;
        Error::corruption(&self.path, at, what)
    }
}

/// Verifies a side file by reading all of it.
///
/// # Errors
/// Those of [`SideReader::next_entry`].
pub fn check(fs: &dyn Fs, path: &Path) -> Result<()> {
    let mut reader = SideReader::open(fs, path)?;
    while reader.next_entry()?.is_some() {}
    Ok(())
}

enum Parsed {
    Entry(SideEntry),
    End(u64),
}

/// Why no entry could be parsed.
enum Bad {
    /// More input is needed.
    Short(&'static str),
    Wrong(&'static str),
}

/// Parses and consumes an entry; `rest` is unchanged on error.
fn parse(rest: &mut &[u8]) -> Result<Parsed, Bad> {
    let header_bytes = match rest.first() {
        Some(&ENTRY) => HEADER_BYTES,
        Some(&END) => 1 + 8,
        Some(_) => return Err(Bad::Wrong("an entry is of no known kind")),
        None => return Err(Bad::Short("it ends early")),
    };
    let short = || Bad::Short("it ends inside a header");
    let (mut header, behind) = rest.split_at_checked(header_bytes).ok_or_else(short)?;
    let (checksum, _) = behind.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(short)?;
    if u32::from_le_bytes(*checksum) != crc_fast::crc32_iscsi(header) {
        return Err(Bad::Wrong("the checksum of a header differs"));
    }
    let payload_at = header_bytes + CHECKSUM_BYTES;
    if header.get_u8() == END {
        let count = header.get_u64_le();
        rest.advance(payload_at);
        return Ok(Parsed::End(count));
    }
    let flags = header.get_u8();
    let mut entry = SideEntry {
        open: flags & OPEN != 0,
        table: TableId(header.get_u64_le()),
        lsn: Lsn(header.get_u64_le()),
        txn: TxnId(header.get_u64_le()),
        schema_version: SchemaVersion(header.get_u32_le()),
        rows: header.get_u32_le(),
        removals: header.get_u32_le(),
        body: SideBody::Rows(Vec::new()),
    };
    let length = header.get_u32_le() as usize;
    if rest.len() - payload_at < length {
        return Err(Bad::Short("it ends inside the rows of an entry"));
    }
    let bytes = rest[payload_at..payload_at + length].to_vec();
    if header.get_u32_le() != crc_fast::crc32_iscsi(&bytes) {
        return Err(Bad::Wrong("the checksum of rows differs"));
    }
    entry.body = if flags & FILES != 0 { SideBody::Rowsets(bytes) } else { SideBody::Rows(bytes) };
    rest.advance(payload_at + length);
    Ok(Parsed::Entry(entry))
}

#[cfg(test)]
mod tests {
    use freshet_base::io::RealFs;
    use proptest::prelude::*;

    use super::*;

    fn entry(lsn: u64, bytes: Vec<u8>) -> SideEntry {
        SideEntry {
            table: TableId(lsn % 3),
            lsn: Lsn(lsn),
            txn: TxnId(lsn + 1000),
            schema_version: SchemaVersion(1),
            open: lsn.is_multiple_of(2),
            rows: lsn as u32 * 2,
            removals: lsn as u32 % 3,
            body: match lsn.is_multiple_of(5) {
                true => SideBody::Rowsets(bytes),
                false => SideBody::Rows(bytes),
            },
        }
    }

    fn write(path: &Path, entries: &[SideEntry]) {
        let mut writer = SideWriter::create(&RealFs, path).unwrap();
        entries.iter().for_each(|entry| writer.push(entry).unwrap());
        assert_eq!(writer.finish(&RealFs).unwrap(), entries.len() as u64);
    }

    fn read(path: &Path) -> Result<Vec<SideEntry>> {
        let mut reader = SideReader::open(&RealFs, path)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_written_is_read(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..40),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("side");
            let entries = (1..).zip(payloads).map(|(lsn, bytes)| entry(lsn, bytes));
            let entries = entries.collect::<Vec<_>>();
            write(&path, &entries);
            prop_assert_eq!(read(&path).unwrap(), entries);
        }
    }

    #[test]
    fn entries_longer_than_a_piece_are_read_and_their_cuts_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("side");
        let sizes = [10, PIECE_BYTES - 60, 3 * PIECE_BYTES, 0, PIECE_BYTES, 7];
        let entries = (1..).zip(sizes).map(|(lsn, bytes)| entry(lsn, vec![lsn as u8; bytes]));
        let entries = entries.collect::<Vec<_>>();
        write(&path, &entries);
        assert_eq!(read(&path).unwrap(), entries);
        let good = RealFs.read(&path).unwrap();
        for at in [PIECE_BYTES, 2 * PIECE_BYTES, good.len() - 13, good.len() - 1] {
            RealFs.write_atomic(&path, &good[..at]).unwrap();
            assert!(matches!(read(&path), Err(Error::Corruption { .. })), "cut at {at}");
        }
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("side");
        let entries = [entry(1, vec![1, 2, 3]), entry(2, Vec::new()), entry(3, vec![9; 40])];
        write(&path, &entries);
        let good = RealFs.read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            RealFs.write_atomic(&path, bytes).unwrap();
            matches!(read(&path), Err(Error::Corruption { .. }))
        };
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(refused(&bad), "flipped at {at}");
            assert!(refused(&good[..at]), "cut at {at}");
        }
        assert!(refused(&[good.as_slice(), &[0]].concat()));
    }
}
