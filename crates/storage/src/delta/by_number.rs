//! Single rows of a delta, by their numbers.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, encode, history};

use super::encoded::{EncodedRows, Place};
use super::node::{Arena, Chunk, Node};
use super::{Delta, Entry};
use crate::error::Result;

/// Where a row is.
enum Found {
    /// In a sealed chunk.
    Sealed(Arc<Chunk>),
    /// In the open node: the row itself, with its columns.
    Open(Vec<u8>, Arc<TableSchema>),
}

/// A row of `from`, encoded with the columns of `to`.
pub(crate) fn adapted(row: &[u8], from: &TableSchema, to: &TableSchema) -> Vec<u8> {
    if from.version == to.version {
        return row.to_vec();
    }
    let mut adapted = Vec::new();
    let columns = ColumnsBuilder::batch_of(from, row, 1);
    encode(&history::adapt(&columns, from, to), to, &mut adapted);
    adapted
}

impl Delta {
    /// The row with this number, encoded with the columns of `schema`; `None` if a TRUNCATE has
    /// removed it, which waits for nobody.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub(crate) fn encoded_row(&self, number: u64, schema: &TableSchema) -> Result<Option<Vec<u8>>> {
        let found = self.find_row(&self.head(), number);
        found.map(|(_, found)| found.encoded(number, schema)).transpose()
    }

    /// As [`Self::encoded_row`], of the rows from `head` on, with the LSN of its record; `None` if
    /// the row is before them.
    ///
    /// # Errors
    /// Those of [`Self::encoded_row`].
    pub(crate) fn row_from(
        &self,
        head: &Arc<Node>,
        number: u64,
        schema: &TableSchema,
    ) -> Result<Option<(Lsn, Vec<u8>)>> {
        let found = self.find_row(head, number);
        found.map(|(lsn, found)| Ok((lsn, found.encoded(number, schema)?))).transpose()
    }

    /// The LSN of the record that brought a row; `None` as in [`Self::encoded_row`].
    pub(crate) fn lsn_of_row(&self, number: u64) -> Option<Lsn> {
        Some(self.find_row(&self.head(), number)?.0)
    }

    fn find_row(&self, head: &Arc<Node>, number: u64) -> Option<(Lsn, Found)> {
        let mut node = head;
        loop {
            if let Some(chunk) = node.chunk() {
                if number < chunk.first_row + chunk.rows() {
                    let in_chunk = number.checked_sub(chunk.first_row)?;
                    let lsn = entry_of(&chunk.entries, in_chunk).1.lsn;
                    return Some((lsn, Found::Sealed(Arc::clone(chunk))));
                }
                node = node.next();
                continue;
            }
            let tail = self.tail.lock();
            if Arc::ptr_eq(&tail.node, node) {
                return tail.arena.row(number);
            }
        }
    }
}

impl Found {
    fn encoded(self, number: u64, schema: &TableSchema) -> Result<Vec<u8>> {
        let chunk = match self {
            Self::Sealed(chunk) => chunk,
            Self::Open(row, from) => return Ok(adapted(&row, &from, schema)),
        };
        // Making columns of all its rows would take a reader of one row too long.
        if let Some((row, from)) = chunk.unconverted_row(number) {
            return Ok(adapted(&row, &from, schema));
        }
        let at = (number - chunk.first_row) as usize;
        Ok(chunk.columns().encoded_row(at, schema))
    }
}

impl Chunk {
    /// A row with its columns' definition, as long as the rows are not converted.
    fn unconverted_row(&self, number: u64) -> Option<(Vec<u8>, Arc<TableSchema>)> {
        let encoded = self.encoded.lock();
        let in_chunk = number - self.first_row;
        let (at, entry) = entry_of(&self.entries, in_chunk);
        let schema = &self.schemas[usize::from(entry.schema)];
        let row = row_of(&self.entries, encoded.as_ref()?, at, in_chunk, schema);
        Some((row, Arc::clone(schema)))
    }
}

impl Arena {
    /// A row with its columns, and the LSN of its record.
    fn row(&self, number: u64) -> Option<(Lsn, Found)> {
        let in_arena = number.checked_sub(self.first_row)?;
        let (at, entry) = entry_of(&self.entries, in_arena);
        let schema = &self.schemas[usize::from(entry.schema)];
        let row = row_of(&self.entries, &self.encoded, at, in_arena, schema);
        Some((entry.lsn, Found::Open(row, Arc::clone(schema))))
    }
}

/// The row with this index among those of `entries`, which is of the entry at `at`.
fn row_of(
    entries: &[Entry],
    encoded: &EncodedRows,
    at: usize,
    row: u64,
    schema: &TableSchema,
) -> Vec<u8> {
    let (mut rest, mut pieces) = match entries[at].place {
        Place::Shared { first, end } => (&[][..], encoded.pieces(first, end).iter()),
        Place::Arena { end } => {
            let before = entries[..at].iter().rev().find_map(|entry| match entry.place {
                Place::Arena { end } => Some(end as usize),
                Place::Shared { .. } => None,
            });
            (&encoded.arena[before.unwrap_or(0)..end as usize], std::slice::Iter::default())
        }
    };
    let cells = RowCells::new(schema);
    let mut next = || {
        while rest.is_empty() {
            rest = pieces.next().expect("an entry has its rows");
        }
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rest = behind;
        row
    };
    let before = at.checked_sub(1).map_or(0, |before| entries[before].rows_end);
    for _ in u64::from(before)..row {
        next();
    }
    next().to_vec()
}

/// The entry that has a row, and its index.
fn entry_of(entries: &[Entry], row: u64) -> (usize, &Entry) {
    let at = entries.partition_point(|entry| u64::from(entry.rows_end) <= row);
    (at, entries.get(at).expect("a row of a delta is of one of its records"))
}
