//! The files of prepared loads (RFC 0014, RFC 0045): a note behind its checksum. Where the rows of
//! the load stand behind the note, its length stands between them.

use std::path::Path;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_base::{Error, Result, bail, err};
use freshet_meta::{NotedRows, PreparedNote, disk};
use freshet_schema::TableSchema;
use freshet_schema::row::RowCells;

use crate::stopped::damaged;

/// The extension of a note alone.
pub(crate) const NOTE: &str = "note";
/// The extension of a note with rows behind it.
pub(crate) const NOTE_WITH_ROWS: &str = "load";
/// That of a note with rows of a partial update behind it, which versions that do not know them
/// remove: they would take them for whole rows.
pub(crate) const NOTE_WITH_PARTIAL: &str = "partial";
/// All of them.
pub(crate) const NOTES: [&str; 3] = [NOTE, NOTE_WITH_ROWS, NOTE_WITH_PARTIAL];

/// The extension of a note, by what stands behind it.
pub(crate) fn extension(note: &PreparedNote) -> &'static str {
    match (&note.partial, note.noted) {
        (Some(_), _) => NOTE_WITH_PARTIAL,
        (None, Some(_)) => NOTE_WITH_ROWS,
        (None, None) => NOTE,
    }
}

/// How many bytes of the rows of a partial update are read at a time.
const PART_BYTES: u64 = 8 << 20;

/// The checksum and the length before a note with rows.
const HEAD_BYTES: usize = 8;

/// What a note says of rows behind it.
pub(crate) fn noted(pieces: &[Bytes]) -> NotedRows {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    let checksum = u32::try_from(digest.finalize()).expect("a CRC-32 has 32 bits");
    NotedRows { bytes: pieces.iter().map(|piece| piece.len() as u64).sum(), checksum }
}

/// The file of a note up to its rows, if it has any.
pub(crate) fn written(note: &PreparedNote) -> Vec<u8> {
    let bytes = disk::encode(note);
    let checksum = crc_fast::crc32_iscsi(&bytes).to_le_bytes();
    if note.noted.is_none() {
        return [&checksum[..], &bytes].concat();
    }
    let length = u32::try_from(bytes.len()).expect("a note is short").to_le_bytes();
    [&checksum[..], &length, &bytes].concat()
}

/// Reads a note, without its rows.
///
/// # Errors
/// When it is damaged; the file is named.
pub(crate) fn read(fs: &dyn Fs, path: &Path) -> Result<PreparedNote> {
    let failed = |error| Error::io("read a note", error);
    let has_rows = path.extension().is_none_or(|extension| extension != NOTE);
    let note = match has_rows {
        true => read_before_rows(fs, path)?,
        false => {
            let bytes = fs.read(path).map_err(failed)?;
            bytes
                .split_first_chunk::<4>()
                .ok_or_else(too_short)
                .and_then(|(checksum, bytes)| decode(u32::from_le_bytes(*checksum), bytes))
        }
    };
    note.map_err(|why| {
        damaged(err!(
            Corruption,
            "the note of a prepared load in {} is damaged, or of a newer version of Freshet, \
             which can read it: {why}; without the file its load is aborted",
            path.display()
        ))
    })
}

fn read_before_rows(fs: &dyn Fs, path: &Path) -> Result<Result<PreparedNote, String>> {
    let failed = |error| Error::io("read a note", error);
    let file = fs.open(path, Mode::Read).map_err(failed)?;
    let len = file.len_bytes().map_err(failed)?;
    let mut head = [0; HEAD_BYTES];
    if len < HEAD_BYTES as u64 {
        return Ok(Err(too_short()));
    }
    file.read_exact_at(&mut head, 0).map_err(failed)?;
    let checksum = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
    let note_len = u32::from_le_bytes(head[4..].try_into().expect("four bytes"));
    if u64::from(note_len) > len - HEAD_BYTES as u64 {
        return Ok(Err(too_short()));
    }
    let mut bytes = vec![0; note_len as usize];
    file.read_exact_at(&mut bytes, HEAD_BYTES as u64).map_err(failed)?;
    let behind = len - HEAD_BYTES as u64 - u64::from(note_len);
    Ok(decode(checksum, &bytes).and_then(|note| match note.noted {
        Some(noted) if noted.bytes == behind => Ok(note),
        _ => Err(format!("it does not say that {behind} bytes of rows follow")),
    }))
}

fn too_short() -> String {
    "it is too short".to_owned()
}

fn decode(checksum: u32, bytes: &[u8]) -> Result<PreparedNote, String> {
    if crc_fast::crc32_iscsi(bytes) != checksum {
        return Err("its checksum differs".to_owned());
    }
    disk::decode(bytes).map_err(|error| error.to_string())
}

/// Reads the rows behind a note.
///
/// # Errors
/// When the file cannot be read, or has other bytes than were written.
pub(crate) fn read_rows(fs: &dyn Fs, path: &Path, noted: NotedRows) -> Result<Vec<u8>> {
    let failed = |error| Error::io("read the rows of a prepared load", error);
    let file = fs.open(path, Mode::Read).map_err(failed)?;
    let len = file.len_bytes().map_err(failed)?;
    let bytes = usize::try_from(noted.bytes).expect("a record is far below 4 GiB");
    let mut rows = vec![0; bytes];
    let is_whole = len >= noted.bytes;
    if is_whole {
        file.read_exact_at(&mut rows, len - noted.bytes).map_err(failed)?;
    }
    if !is_whole || crc_fast::crc32_iscsi(&rows) != noted.checksum {
        return Err(damaged_rows(path));
    }
    Ok(rows)
}

/// The rows of a partial update behind a note, of which each may have columns of its own: all rows,
/// and then a byte for each row and column.
pub(crate) struct NotedParts {
    file: FileRef,
    cells: RowCells,
    /// Where the next rows begin, and where the last one ends.
    at: u64,
    rows_end: u64,
    /// How many bytes of a row stand behind all rows.
    width: usize,
    rows: u32,
    /// Those that have been read.
    read: u32,
}

/// Rows that were read.
pub(crate) struct NotedPart {
    pub rows: Vec<u8>,
    pub count: usize,
    pub given: Vec<bool>,
}

impl NotedParts {
    /// Opens the rows behind a note, and looks whether they are what was written.
    ///
    /// # Errors
    /// When the file cannot be read, or has other bytes than were written.
    pub fn open(
        fs: &dyn Fs,
        path: &Path,
        (note, noted): (&PreparedNote, NotedRows),
        (schema, width): (&TableSchema, usize),
    ) -> Result<Self> {
        let failed = |error| Error::io("read the rows of a prepared load", error);
        let file = fs.open(path, Mode::Read).map_err(failed)?;
        let len = file.len_bytes().map_err(failed)?;
        let given = width as u64 * u64::from(note.rows);
        let start = len.checked_sub(noted.bytes).filter(|_| given <= noted.bytes);
        let Some(start) = start else { return Err(damaged_rows(path)) };
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let (mut at, mut bytes) = (start, Vec::new());
        while at < len {
            bytes.resize((len - at).min(PART_BYTES) as usize, 0);
            file.read_exact_at(&mut bytes, at).map_err(failed)?;
            digest.update(&bytes);
            at += bytes.len() as u64;
        }
        if digest.finalize() != u64::from(noted.checksum) {
            return Err(damaged_rows(path));
        }
        let (cells, rows_end) = (RowCells::new(schema), len - given);
        Ok(Self { file, cells, at: start, rows_end, width, rows: note.rows, read: 0 })
    }

    /// The next rows; `None` behind the last one.
    ///
    /// # Errors
    /// When the file cannot be read, or has not the rows that its note says.
    pub fn next(&mut self) -> Result<Option<NotedPart>> {
        let failed = |error| Error::io("read the rows of a prepared load", error);
        let left = self.rows_end - self.at;
        if left == 0 && self.read == self.rows {
            return Ok(None);
        }
        let mut part_bytes = PART_BYTES;
        loop {
            let mut rows = vec![0; left.min(part_bytes) as usize];
            self.file.read_exact_at(&mut rows, self.at).map_err(failed)?;
            let (end, count) = self.cells.whole_rows(&rows);
            if count > 0 && count as u64 <= u64::from(self.rows - self.read) {
                rows.truncate(end);
                let mut given = vec![0; count * self.width];
                let behind = self.rows_end + u64::from(self.read) * self.width as u64;
                self.file.read_exact_at(&mut given, behind).map_err(failed)?;
                self.at += end as u64;
                self.read += count as u32;
                let given = given.into_iter().map(|given| given == 1).collect();
                return Ok(Some(NotedPart { rows, count, given }));
            }
            if part_bytes >= left || count > 0 {
                bail!(Corruption, "the rows of a prepared load are not as many as its note says");
            }
            // One row is longer than that.
            part_bytes *= 2;
        }
    }
}

fn damaged_rows(path: &Path) -> Error {
    err!(
        Corruption,
        "the rows of a prepared load in {} are damaged; abort it and load them again",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use freshet_base::io::RealFs;
    use freshet_base::{DbId, Incarnation, SchemaVersion, TableId, TxnId};

    use super::*;

    #[test]
    fn every_changed_byte_of_a_note_with_rows_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("7.load");
        let noted =
            noted(&[Bytes::from_static(b"some "), Bytes::new(), Bytes::from_static(b"rows")]);
        let note = PreparedNote {
            txn: TxnId(7),
            db: DbId(1),
            label: "l".to_owned(),
            table: TableId(2),
            incarnation: Incarnation(0),
            schema_version: SchemaVersion(1),
            rows: 2,
            rowsets: Vec::new(),
            noted: Some(noted),
            partial: None,
            is_grouped: true,
            highest_id: None,
            expires_micros: 5,
        };
        let whole = [&written(&note)[..], b"some rows"].concat();
        let take = |bytes: &[u8]| {
            RealFs.write_atomic(&path, bytes).unwrap();
            let read = read(&RealFs, &path)?;
            read_rows(&RealFs, &path, read.noted.unwrap()).map(|rows| (read, rows))
        };
        let (read, payload) = take(&whole).unwrap();
        assert_eq!(read, note);
        assert_eq!(&payload[..], b"some rows");
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(take(&changed).is_err(), "byte {at}");
            assert!(take(&whole[..at]).is_err(), "cut at {at}");
        }
    }
}
