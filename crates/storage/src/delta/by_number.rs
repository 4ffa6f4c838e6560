//! Single rows of a delta, by their numbers.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::Lsn;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, encode, history};

use super::encoded::{EncodedRows, Place};
use super::node::{Arena, Chunk, Node};
use super::{Delta, Entry};

/// Where a row is.
enum Found {
    /// In a sealed chunk.
    Sealed(Arc<Chunk>),
    /// In the open node: the row itself.
    Open(OldRow),
}

/// Rows that are copied at once: whoever writes or reads beside waits for no more of them.
const ROWS_AT_ONCE: usize = if cfg!(test) { 3 } else { 1 << 12 };

/// A row as it was encoded, with its columns.
type OldRow = (Vec<u8>, Arc<TableSchema>);

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

/// As [`adapted`], of a row that is not needed any more.
fn renewed((row, from): OldRow, to: &TableSchema) -> Vec<u8> {
    match from.version == to.version {
        true => row,
        false => adapted(&row, &from, to),
    }
}

impl Delta {
    /// The row with this number, encoded with the columns of `schema`; `None` if a TRUNCATE has
    /// removed it, which waits for nobody.
    pub(crate) fn encoded_row(&self, number: u64, schema: &TableSchema) -> Option<Vec<u8>> {
        let found = self.find_row(&self.head(), number);
        found.map(|(_, found)| found.encoded(number, schema))
    }

    /// As [`Self::encoded_row`], of several rows, in the order of their numbers: each record is
    /// walked through once, not for each of its rows.
    ///
    /// # Panics
    /// When numbers descend.
    pub(crate) fn encoded_rows(
        &self,
        numbers: &[u64],
        schema: &TableSchema,
    ) -> Vec<Option<Vec<u8>>> {
        assert!(numbers.is_sorted(), "rows are read in the order of their numbers");
        let (head, mut rows) = (self.head(), Vec::with_capacity(numbers.len()));
        for some in numbers.chunks(ROWS_AT_ONCE) {
            let (mut node, mut rest) = (&head, some);
            while !rest.is_empty() {
                let Some(chunk) = node.chunk() else {
                    let tail = self.tail.lock();
                    if !Arc::ptr_eq(&tail.node, node) {
                        continue;
                    }
                    let copied = tail.arena.encoded_rows().copied(tail.arena.first_row, rest);
                    drop(tail);
                    rows.extend(copied.into_iter().map(|row| Some(renewed(row?, schema))));
                    break;
                };
                let end = chunk.first_row + chunk.rows();
                let (inside, behind) = rest.split_at(rest.partition_point(|row| *row < end));
                rows.extend(chunk.encoded_rows(inside, schema));
                (node, rest) = (node.next(), behind);
            }
        }
        assert_eq!(rows.len(), numbers.len(), "each row is looked for");
        rows
    }

    /// As [`Self::encoded_row`], of the rows from `head` on, with the LSN of its record; `None` if
    /// the row is before them.
    pub(crate) fn row_from(
        &self,
        head: &Arc<Node>,
        number: u64,
        schema: &TableSchema,
    ) -> Option<(Lsn, Vec<u8>)> {
        let found = self.find_row(head, number);
        found.map(|(lsn, found)| (lsn, found.encoded(number, schema)))
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
    fn encoded(self, number: u64, schema: &TableSchema) -> Vec<u8> {
        let chunk = match self {
            Self::Sealed(chunk) => chunk,
            Self::Open(row) => return renewed(row, schema),
        };
        let row = chunk.encoded_rows(&[number], schema).pop().flatten();
        row.expect("the chunk was found by the number")
    }
}

impl Chunk {
    /// The rows with these numbers, which ascend; `None` for those before its first one.
    fn encoded_rows(&self, numbers: &[u64], schema: &TableSchema) -> Vec<Option<Vec<u8>>> {
        // Making columns of all its rows would take a reader of a few too long.
        let copied = self.encoded.lock().as_ref().map(|encoded| {
            let rows = NodeRows { entries: &self.entries, schemas: &self.schemas, encoded };
            rows.copied(self.first_row, numbers)
        });
        if let Some(copied) = copied {
            return copied.into_iter().map(|row| Some(renewed(row?, schema))).collect();
        }
        let in_columns = |number: &u64| {
            let at = number.checked_sub(self.first_row)?;
            Some(self.columns().encoded_row(at as usize, schema))
        };
        numbers.iter().map(in_columns).collect()
    }
}

impl Arena {
    fn encoded_rows(&self) -> NodeRows<'_> {
        NodeRows { entries: &self.entries, schemas: &self.schemas, encoded: &self.encoded }
    }

    /// A row with its columns, and the LSN of its record.
    fn row(&self, number: u64) -> Option<(Lsn, Found)> {
        let in_arena = number.checked_sub(self.first_row)?;
        let (_, entry) = entry_of(&self.entries, in_arena);
        let row = self.encoded_rows().row(in_arena, &mut None);
        Some((entry.lsn, Found::Open(row)))
    }
}

/// The rows of a node that are not columns yet.
struct NodeRows<'n> {
    entries: &'n [Entry],
    schemas: &'n [Arc<TableSchema>],
    encoded: &'n EncodedRows,
}

/// A row among those of its record: the later ones are found from there.
struct Walk<'n> {
    /// The index of the record.
    entry: usize,
    /// That of the row.
    row: u64,
    /// The row and what is behind it in its piece.
    rest: &'n [u8],
    /// The pieces behind that.
    pieces: std::slice::Iter<'n, Bytes>,
    cells: RowCells,
}

impl<'n> Walk<'n> {
    /// Takes the row; behind it is the next one.
    fn next(&mut self) -> &'n [u8] {
        while self.rest.is_empty() {
            self.rest = self.pieces.next().expect("an entry has its rows");
        }
        let (row, behind) = self.rest.split_at(self.cells.row_bytes(self.rest));
        self.rest = behind;
        self.row += 1;
        row
    }
}

impl<'n> NodeRows<'n> {
    /// The rows with these numbers, which ascend; `None` for those before `first_row`.
    fn copied(&self, first_row: u64, numbers: &[u64]) -> Vec<Option<OldRow>> {
        let mut walk = None;
        let row = |number: &u64| Some(self.row(number.checked_sub(first_row)?, &mut walk));
        numbers.iter().map(row).collect()
    }

    /// The row with this index, found from where `walk` is, and left behind it.
    fn row(&self, row: u64, walk: &mut Option<Walk<'n>>) -> OldRow {
        let leads_there =
            |walk: &Walk<'_>| walk.row <= row && row < u64::from(self.entries[walk.entry].rows_end);
        let mut here = walk.take().filter(leads_there).unwrap_or_else(|| self.begin(row));
        while here.row < row {
            here.next();
        }
        let bytes = here.next().to_vec();
        let schema = &self.schemas[usize::from(self.entries[here.entry].schema)];
        *walk = Some(here);
        (bytes, Arc::clone(schema))
    }

    /// The first row of the record that has the row with this index.
    fn begin(&self, row: u64) -> Walk<'n> {
        let (at, entry) = entry_of(self.entries, row);
        let (rest, pieces) = match entry.place {
            Place::Shared { first, end } => (&[][..], self.encoded.pieces(first, end).iter()),
            Place::Arena { end } => {
                let mut before = self.entries[..at].iter().rev();
                let before = before.find_map(|entry| match entry.place {
                    Place::Arena { end } => Some(end as usize),
                    Place::Shared { .. } => None,
                });
                let rows = &self.encoded.arena[before.unwrap_or(0)..end as usize];
                (rows, std::slice::Iter::default())
            }
        };
        let first = at.checked_sub(1).map_or(0, |before| self.entries[before].rows_end);
        let cells = RowCells::new(&self.schemas[usize::from(entry.schema)]);
        Walk { entry: at, row: u64::from(first), rest, pieces, cells }
    }
}

/// The entry that has a row, and its index.
fn entry_of(entries: &[Entry], row: u64) -> (usize, &Entry) {
    let at = entries.partition_point(|entry| u64::from(entry.rows_end) <= row);
    (at, entries.get(at).expect("a row of a delta is of one of its records"))
}
