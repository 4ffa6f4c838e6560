//! The side file: what small tables have unflushed, so that the log's files can be used again.
//!
//! It begins with a magic number. Entries follow: a header of fixed length, its checksum, and
//! the rows, with their own; a large load stands in it by the names of its files. The end says how
//! many entries there are, so that a file that was cut short is never taken for a whole one.
//! Numbers are little endian, checksums CRC-32C.

use std::io;
use std::path::Path;

use bytes::{Buf, BufMut};
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_base::{Lsn, SchemaVersion, TableId, TxnId};

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"FRSIDE02";
const ENTRY: u8 = 1;
const END: u8 = 2;
/// Kind, flags, table, LSN, transaction, schema version, rows, length and checksum of the rows.
const HEADER_BYTES: usize = 1 + 1 + 8 + 8 + 8 + 4 + 4 + 4 + 4;
/// The flag of a load whose group is open.
const OPEN: u8 = 1;
/// The flag of a large load.
const FILES: u8 = 2;
/// The checksum behind a header.
const CHECKSUM_BYTES: usize = 4;
/// The file is written in pieces of about this size.
const WRITE_BYTES: usize = 1 << 20;

/// The rows of one record in one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideEntry {
    /// The table.
    pub table: TableId,
    /// The record.
    pub lsn: Lsn,
    /// Its transaction.
    pub txn: TxnId,
    /// Whether its group ends behind what the file holds.
    pub open: bool,
    /// What the rows were encoded under.
    pub schema_version: SchemaVersion,
    /// How many rows.
    pub rows: u32,
    /// The rows.
    pub body: SideBody,
}

/// What a record brought to a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SideBody {
    /// Rows, encoded.
    Rows(Vec<u8>),
    /// The rowsets of a large load, as JSON.
    Rowsets(Vec<u8>),
}

impl SideBody {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Rows(bytes) | Self::Rowsets(bytes) => bytes,
        }
    }
}

/// Writes a side file and makes it and its name durable; until then what stood at `path`
/// stays. Entries of one table come in the order of their LSNs.
///
/// # Errors
/// [`Error::Io`]: nothing stands at `path` that did not before.
pub fn write(fs: &dyn Fs, path: &Path, entries: &[SideEntry]) -> Result<()> {
    let unfinished = path.with_extension("tmp");
    let failed = |error| Error::io("write", path, error);
    if fs.exists(&unfinished) {
        fs.remove_file(&unfinished).map_err(failed)?;
    }
    let file = fs.open(&unfinished, Mode::CreateNew).map_err(failed)?;
    write_entries(&file, entries).map_err(failed)?;
    fs.rename(&unfinished, path).map_err(failed)?;
    let dir = path.parent().expect("a file is in a directory");
    fs.sync_dir(dir).map_err(failed)
}

fn write_entries(file: &FileRef, entries: &[SideEntry]) -> io::Result<()> {
    let mut buffer = MAGIC.to_vec();
    let mut written = 0;
    for entry in entries {
        put_entry(&mut buffer, entry);
        if buffer.len() >= WRITE_BYTES {
            file.write_all_at(&buffer, written)?;
            written += buffer.len() as u64;
            buffer.clear();
        }
    }
    let start = buffer.len();
    buffer.put_u8(END);
    buffer.put_u64_le(entries.len() as u64);
    put_checksum(&mut buffer, start);
    file.write_all_at(&buffer, written)?;
    file.sync()
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
    buffer.put_u32_le(length);
    buffer.put_u32_le(crc_fast::crc32_iscsi(bytes));
    put_checksum(buffer, start);
    buffer.extend_from_slice(bytes);
}

fn put_checksum(buffer: &mut Vec<u8>, start: usize) {
    let checksum = crc_fast::crc32_iscsi(&buffer[start..]);
    buffer.put_u32_le(checksum);
}

/// The entries of a side file, all of them checked.
///
/// # Errors
/// [`Error::Io`]; [`Error::Corruption`] when a single byte is not what was written.
pub fn read(fs: &dyn Fs, path: &Path) -> Result<Vec<SideEntry>> {
    let bytes = fs.read(path).map_err(|error| Error::io("read", path, error))?;
    let mut rest = &bytes[..];
    let damaged =
        |rest: &[u8], what: &str| Error::corruption(path, (bytes.len() - rest.len()) as u64, what);
    let Some(behind) = rest.strip_prefix(MAGIC) else {
        return Err(damaged(rest, "it is not a side file of this version"));
    };
    rest = behind;
    let mut entries = Vec::new();
    loop {
        match parse(&mut rest) {
            Ok(Parsed::Entry(entry)) => entries.push(entry),
            Ok(Parsed::End(count)) if count == entries.len() as u64 && rest.is_empty() => {
                return Ok(entries);
            }
            Ok(Parsed::End(_)) => return Err(damaged(rest, "its end names other entries")),
            Err(what) => return Err(damaged(rest, what)),
        }
    }
}

enum Parsed {
    Entry(SideEntry),
    End(u64),
}

/// Takes one entry from the front; leaves `rest` as it is when it is damaged.
fn parse(rest: &mut &[u8]) -> Result<Parsed, &'static str> {
    let header_bytes = match rest.first() {
        Some(&ENTRY) => HEADER_BYTES,
        Some(&END) => 1 + 8,
        Some(_) => return Err("an entry is of no known kind"),
        None => return Err("it ends early"),
    };
    let Some((mut header, behind)) = rest.split_at_checked(header_bytes) else {
        return Err("it ends inside a header");
    };
    let Some((checksum, _)) = behind.split_first_chunk::<CHECKSUM_BYTES>() else {
        return Err("it ends inside a header");
    };
    if u32::from_le_bytes(*checksum) != crc_fast::crc32_iscsi(header) {
        return Err("the checksum of a header differs");
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
        body: SideBody::Rows(Vec::new()),
    };
    let length = header.get_u32_le() as usize;
    if rest.len() - payload_at < length {
        return Err("it ends inside the rows of an entry");
    }
    let bytes = rest[payload_at..payload_at + length].to_vec();
    if header.get_u32_le() != crc_fast::crc32_iscsi(&bytes) {
        return Err("the checksum of rows differs");
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
            body: match lsn.is_multiple_of(5) {
                true => SideBody::Rowsets(bytes),
                false => SideBody::Rows(bytes),
            },
        }
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
            write(&RealFs, &path, &entries).unwrap();
            prop_assert_eq!(read(&RealFs, &path).unwrap(), entries);
        }
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("side");
        let entries = [entry(1, vec![1, 2, 3]), entry(2, Vec::new()), entry(3, vec![9; 40])];
        write(&RealFs, &path, &entries).unwrap();
        let good = RealFs.read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            RealFs.write_atomic(&path, bytes).unwrap();
            matches!(read(&RealFs, &path), Err(Error::Corruption { .. }))
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
