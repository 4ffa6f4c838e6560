//! What a transaction has appended to one table: rows in memory, and before them rows in a file
//! without a name, when all of them are more than memory may hold (RFC 0042).

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use freshet_base::io::FileRef;
use freshet_base::{Incarnation, Result};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, history};

use crate::admit::HeldMemory;
use crate::append::{PartBody, PartLoad};
use crate::engine::Engine;
use crate::keyed_own::RowsByKey;
use crate::ranks::Ranks;
use crate::spool;
use crate::state::TableState;
use crate::target::LoadTarget;
use crate::unkeyed_own::OwnPart;

/// Rows of a file are written and read so many bytes at a time, and one row more.
const PIECE_BYTES: usize = 4 << 20;

/// What a transaction has written to one table.
pub(crate) struct TableRows {
    pub table: Arc<TableState>,
    /// Of the rows in memory.
    pub schema: Arc<TableSchema>,
    pub incarnation: Incarnation,
    pub held: HeldMemory,
    spool: Option<Spool>,
    /// Encoded rows, of which the first bytes are in the file by now.
    bytes: Vec<u8>,
    gone: usize,
    /// Those in memory.
    rows: u32,
}

/// Rows in a file.
struct Spool {
    file: FileRef,
    /// Where the next bytes go. No place is used twice: who was interrupted may still write there.
    end: u64,
    pieces: Vec<Piece>,
    /// Of the statement that runs, and perhaps of one that has failed.
    pending: Vec<Piece>,
}

/// Some rows in a file.
#[derive(Clone)]
pub(crate) struct Piece {
    file: FileRef,
    at: u64,
    bytes: usize,
    checksum: u32,
    /// The first ones of them; a savepoint may have taken others back.
    rows: u32,
    schema: Arc<TableSchema>,
}

impl Piece {
    /// Where the rows are.
    pub fn place(&self) -> (FileRef, u64) {
        (Arc::clone(&self.file), self.at)
    }

    /// Reads the rows, with the columns of `schema`.
    ///
    /// # Errors
    /// When the file cannot be read, or has other bytes than were written.
    pub async fn read(&self, engine: &Engine, schema: &TableSchema) -> Result<(Bytes, u32)> {
        let place = (self.at, self.bytes);
        let mut bytes = spool::read(engine, Arc::clone(&self.file), place, self.checksum).await?;
        let cells = RowCells::new(&self.schema);
        let end = cells.rows(&bytes).take(self.rows as usize).map(<[u8]>::len).sum();
        bytes.truncate(end);
        if self.schema.version != schema.version {
            let batch = ColumnsBuilder::batch_of(&self.schema, &bytes, self.rows as usize);
            let adapted = history::adapt(&batch, &self.schema, schema);
            assert_eq!(adapted.num_rows(), self.rows as usize, "an ALTER keeps every row");
            bytes.clear();
            freshet_schema::encode(&adapted, schema, &mut bytes);
        }
        Ok((bytes.into(), self.rows))
    }
}

/// Divides rows into pieces for a file.
pub(crate) fn pieces<'a>(
    schema: &TableSchema,
    mut rest: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], u32)> {
    let cells = RowCells::new(schema);
    std::iter::from_fn(move || {
        let (mut end, mut rows) = (0, 0);
        while end < PIECE_BYTES.min(rest.len()) {
            end += cells.row_bytes(&rest[end..]);
            rows += 1;
        }
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (rows > 0).then_some((piece, rows))
    })
}

impl TableRows {
    pub fn new(target: &LoadTarget, held: HeldMemory) -> Self {
        Self {
            table: Arc::clone(&target.state),
            schema: Arc::clone(target.schema()),
            incarnation: target.state.incarnation(),
            held,
            spool: None,
            bytes: Vec::new(),
            gone: 0,
            rows: 0,
        }
    }

    /// All rows.
    pub fn rows(&self) -> u64 {
        let of = |piece: &Piece| u64::from(piece.rows);
        self.pieces().iter().map(of).sum::<u64>() + u64::from(self.rows)
    }

    /// Those of a statement that has not ended, and perhaps of one that has failed.
    pub fn pending_rows(&self) -> u64 {
        let pending = self.spool.iter().flat_map(|spool| &spool.pending);
        pending.map(|piece| u64::from(piece.rows)).sum()
    }

    /// The rows in memory.
    pub fn encoded(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    /// The rows in the file, which come before those in memory.
    pub fn pieces(&self) -> &[Piece] {
        self.spool.as_ref().map_or(&[], |spool| &spool.pieces)
    }

    /// The rows in memory.
    pub fn batch(&self) -> RecordBatch {
        ColumnsBuilder::batch_of(&self.schema, self.encoded(), self.rows as usize)
    }

    /// The row of each key that stays of those in memory, in a table with a UNIQUE KEY.
    pub fn by_key(&self) -> RowsByKey {
        let codec = KeyCodec::of_sort_key(&self.schema);
        let keyed = |row| {
            let mut key = Vec::new();
            codec.put(row, &mut key);
            (Box::from(key), row)
        };
        let cells = RowCells::new(&self.schema);
        let last = Ranks::of(&self.schema).last(cells.rows(self.encoded()).map(keyed));
        last.into_iter().map(|(key, row)| (key, Box::from(row))).collect()
    }

    pub fn append(&mut self, schema: &Arc<TableSchema>, encoded: &[u8], rows: u32) {
        if self.schema.version == schema.version {
            self.bytes.extend_from_slice(encoded);
        } else {
            // The table was altered meanwhile: all rows are converted to the newer schema version.
            let newer = self.schema.version.max(schema.version);
            let adapted = if newer == schema.version { schema } else { &self.schema };
            let adapted = Arc::clone(adapted);
            let mut bytes = Vec::new();
            let before = (&self.schema, self.encoded(), self.rows);
            for (from, encoded, count) in [before, (schema, encoded, rows)] {
                let batch = ColumnsBuilder::batch_of(from, encoded, count as usize);
                let batch = history::adapt(&batch, from, &adapted);
                assert_eq!(batch.num_rows(), count as usize, "an ALTER keeps every row");
                freshet_schema::encode(&batch, &adapted, &mut bytes);
            }
            (self.bytes, self.gone) = (bytes, 0);
            self.schema = adapted;
        }
        self.rows += rows;
    }

    /// Removes all rows but the first ones.
    pub fn cut(&mut self, rows: u32) {
        let mut left = rows;
        if let Some(spool) = &mut self.spool {
            spool.pieces.retain_mut(|piece| {
                piece.rows = piece.rows.min(left);
                left -= piece.rows;
                piece.rows > 0
            });
        }
        let kept = left.min(self.rows);
        let cells = RowCells::new(&self.schema);
        let end = cells.rows(self.encoded()).take(kept as usize).map(<[u8]>::len).sum::<usize>();
        self.bytes.truncate(self.gone + end);
        self.rows = kept;
        self.held.shrink_to(self.bytes.len() as u64);
    }

    /// How long its file is.
    pub fn file_bytes(&self) -> u64 {
        self.spool.as_ref().map_or(0, |spool| spool.end)
    }

    /// The file, if it has one.
    pub fn file(&self) -> Option<FileRef> {
        self.spool.as_ref().map(|spool| Arc::clone(&spool.file))
    }

    pub fn set_file(&mut self, file: FileRef) {
        assert!(self.spool.is_none(), "a transaction has one file for a table");
        self.spool = Some(Spool { file, end: 0, pieces: Vec::new(), pending: Vec::new() });
    }

    /// The first rows in memory, for the file.
    pub fn first_piece(&self) -> Option<(Vec<u8>, u32)> {
        let first = pieces(&self.schema, self.encoded()).next();
        first.map(|(bytes, rows)| (bytes.to_vec(), rows))
    }

    /// A place in the file for rows.
    pub fn place(&mut self, schema: &Arc<TableSchema>, bytes: &[u8], rows: u32) -> Piece {
        let spool = self.spool.as_mut().expect("rows go to a file that is there");
        let at = spool.end;
        spool.end += bytes.len() as u64;
        Piece {
            file: Arc::clone(&spool.file),
            at,
            bytes: bytes.len(),
            checksum: spool::checksum(bytes),
            rows,
            schema: Arc::clone(schema),
        }
    }

    /// The first rows in memory are in the file now.
    pub fn moved(&mut self, piece: Piece) {
        let spool = self.spool.as_mut().expect("rows have gone to a file that is there");
        assert!(piece.bytes <= self.bytes.len() - self.gone, "rows go to a file once");
        self.gone += piece.bytes;
        self.rows -= piece.rows;
        spool.pieces.push(piece);
        if self.gone == self.bytes.len() {
            assert_eq!(self.rows, 0, "rows have bytes");
            (self.bytes, self.gone) = (Vec::new(), 0);
            self.held.shrink_to(0);
        }
    }

    /// Rows of a statement are in the file, which count once it ends.
    pub fn pend(&mut self, piece: Piece) {
        assert!(self.encoded().is_empty(), "rows in memory are behind those in the file");
        self.spool.as_mut().expect("rows have gone to a file that is there").pending.push(piece);
    }

    /// A statement begins to write to the file: another one has failed.
    pub fn forget_pending(&mut self) {
        if let Some(spool) = &mut self.spool {
            spool.pending.clear();
        }
    }

    /// A statement has ended.
    pub fn keep_pending(&mut self) {
        if let Some(spool) = &mut self.spool {
            spool.pieces.append(&mut spool.pending);
        }
    }

    /// Its part of the record of the COMMIT.
    ///
    /// # Panics
    /// When rows are in a file.
    pub fn into_load(self) -> PartLoad {
        assert!(self.pieces().is_empty(), "a record has no rows of a file");
        let mut bytes = self.bytes;
        bytes.drain(..self.gone);
        PartLoad {
            table: self.table,
            schema: self.schema,
            began_in: self.incarnation,
            rows: self.rows,
            removals: 0,
            looked_up: None,
            ids: None,
            body: PartBody::Rows { bytes: Bytes::from(bytes), permit: self.held.memory },
        }
    }

    /// Beside changes of stored rows.
    ///
    /// # Panics
    /// When rows are in a file.
    pub fn into_own(self) -> OwnPart {
        assert!(self.pieces().is_empty(), "changes of stored rows are a record");
        OwnPart { schema: self.schema, bytes: self.bytes[self.gone..].to_vec(), held: self.held }
    }

    /// The rows in memory, with their memory.
    pub fn into_rest(self) -> (Bytes, u32, HeldMemory) {
        (Bytes::from(self.bytes).slice(self.gone..), self.rows, self.held)
    }
}
