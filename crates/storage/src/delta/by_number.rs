//! Single rows of a delta, by their numbers.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, encode, history};

use super::encoded::Place;
use super::node::{Arena, Chunk};
use super::{Delta, Entry};
use crate::error::Result;

/// Where a row is.
enum Found {
    /// In a sealed chunk.
    Sealed(Arc<Chunk>),
    /// In the open node: the row itself, with its columns.
    Open(Vec<u8>, Arc<TableSchema>),
}

impl Delta {
    /// The row with this number, encoded with the columns of `schema`; `None` if a TRUNCATE has
    /// removed it, which waits for nobody.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub(crate) fn encoded_row(&self, number: u64, schema: &TableSchema) -> Result<Option<Vec<u8>>> {
        let chunk = match self.find_row(number) {
            None => return Ok(None),
            Some(Found::Sealed(chunk)) => chunk,
            Some(Found::Open(row, from)) if from.version == schema.version => return Ok(Some(row)),
            Some(Found::Open(encoded, from)) => {
                let mut columns = freshet_schema::columns::ColumnsBuilder::new(&from, 1);
                columns.append(&encoded, 1);
                let mut row = Vec::new();
                encode(&history::adapt(&columns.finish(), &from, schema), schema, &mut row);
                return Ok(Some(row));
            }
        };
        let at = (number - chunk.first_row) as usize;
        let mut batches = Vec::new();
        chunk.columns().select(std::slice::from_ref(&(at..at + 1)), &mut batches)?;
        let (from, batch) = batches.pop().expect("a chunk has its rows");
        let mut row = Vec::new();
        encode(&history::adapt(&batch, &from, schema), schema, &mut row);
        Ok(Some(row))
    }

    /// The LSN of the record that brought a row; `None` as in [`Self::encoded_row`].
    pub(crate) fn lsn_of_row(&self, number: u64) -> Option<Lsn> {
        let mut node = self.head();
        loop {
            if let Some(chunk) = node.chunk() {
                if number < chunk.first_row + chunk.rows() {
                    let in_chunk = number.checked_sub(chunk.first_row)?;
                    return Some(entry_of(&chunk.entries, in_chunk).1.lsn);
                }
                node = Arc::clone(node.next());
                continue;
            }
            let tail = self.tail.lock();
            if Arc::ptr_eq(&tail.node, &node) {
                let in_arena = number.checked_sub(tail.arena.first_row)?;
                return Some(entry_of(&tail.arena.entries, in_arena).1.lsn);
            }
        }
    }

    fn find_row(&self, number: u64) -> Option<Found> {
        let mut node = self.head();
        loop {
            if let Some(chunk) = node.chunk() {
                if number < chunk.first_row {
                    return None;
                }
                if number < chunk.first_row + chunk.rows() {
                    return Some(Found::Sealed(Arc::clone(chunk)));
                }
                node = Arc::clone(node.next());
                continue;
            }
            let tail = self.tail.lock();
            if Arc::ptr_eq(&tail.node, &node) {
                let (row, schema) = tail.arena.row(number)?;
                return Some(Found::Open(row, schema));
            }
        }
    }
}

impl Arena {
    /// A row with its columns.
    fn row(&self, number: u64) -> Option<(Vec<u8>, Arc<TableSchema>)> {
        let in_arena = number.checked_sub(self.first_row)?;
        let (at, entry) = entry_of(&self.entries, in_arena);
        let bytes = match entry.place {
            Place::Shared { index } => &self.encoded.shared[index as usize][..],
            Place::Arena { end } => {
                let before = self.entries[..at].iter().rev().find_map(|entry| match entry.place {
                    Place::Arena { end } => Some(end as usize),
                    Place::Shared { .. } => None,
                });
                &self.encoded.arena[before.unwrap_or(0)..end as usize]
            }
        };
        let schema = &self.schemas[usize::from(entry.schema)];
        let (cells, mut rest) = (RowCells::new(schema), bytes);
        let before = at.checked_sub(1).map_or(0, |before| self.entries[before].rows_end);
        for _ in u64::from(before)..in_arena {
            rest = &rest[cells.row_bytes(rest)..];
        }
        Some((rest[..cells.row_bytes(rest)].to_vec(), Arc::clone(schema)))
    }
}

/// The entry that has a row, and its index.
fn entry_of(entries: &[Entry], row: u64) -> (usize, &Entry) {
    let at = entries.partition_point(|entry| u64::from(entry.rows_end) <= row);
    (at, entries.get(at).expect("a row of a delta is of one of its records"))
}
