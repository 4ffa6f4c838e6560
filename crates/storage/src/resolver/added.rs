//! Unique keys that a table gets or loses while it has rows (keys.md K32, RFC 0026).
//!
//! A key is enforced once each file has its index and no two living rows share a value. Files are
//! compared while others write, and what came since then is looked up with the latch in hand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::task::yield_core;
use freshet_base::{ColumnId, Lsn};
use freshet_schema::key::KeyCodec;
use freshet_schema::{Table, TableSchema};

use super::key_table::Version;
use super::latch::Latch;
use super::values::ValueTable;
use super::{KeyedRows, State};
use crate::delta::{EntryRows, Step};
use crate::error::{Error, Result};
use crate::marks::SegmentMarks;
use crate::segment::key_part::KeyPart;
use crate::segment::{Segment, WaitMode, at_once};

/// Values that are compared before others have their turn.
const VALUES_AT_ONCE: usize = 1024;

/// A unique key that a table is to have.
#[derive(Clone)]
pub struct NewUnique {
    pub columns: Vec<ColumnId>,
    /// Has these columns.
    pub schema: Arc<TableSchema>,
}

/// The values of a unique key in rows that are not in files yet, of which no other row has one.
pub struct AddedValues(ValueTable);

/// A value that two rows have.
pub struct Taken {
    pub value: Vec<u8>,
    /// One of them, encoded with the columns of the key; `None` if it is gone meanwhile.
    pub row: Option<Vec<u8>>,
}

/// The files of a table, all with an index.
#[derive(Clone)]
pub struct IndexedFiles(Vec<IndexedFile>);

#[derive(Clone)]
struct IndexedFile {
    segment: Arc<Segment>,
    marks: Arc<SegmentMarks>,
}

impl NewUnique {
    /// Whether files of this segment can be looked up by the key; blocking.
    ///
    /// # Errors
    /// Those of [`Segment::read_indexed`].
    pub fn is_in(&self, segment: &Segment) -> Result<bool> {
        let is_same = segment.schema().has_same(&self.schema, &self.columns);
        Ok(is_same && segment.read_indexed()?.contains(&self.columns))
    }

    fn codec(&self) -> KeyCodec {
        KeyCodec::of_index(&self.schema, &self.columns).expect("a key has its columns")
    }
}

impl IndexedFiles {
    /// Whether these are the same files.
    pub fn are(&self, others: &Self) -> bool {
        let pairs = self.0.iter().zip(&others.0);
        self.0.len() == others.0.len()
            && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(&a.segment, &b.segment))
    }

    /// A row that has a value, encoded with the columns of the key.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of a segment.
    pub async fn row_with(&self, unique: &NewUnique, value: &[u8]) -> Result<Option<Vec<u8>>> {
        for IndexedFile { segment, .. } in &self.0 {
            let row = segment.row_with(Some(&unique.columns), value, &unique.schema).await?;
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }

    /// The least value that two rows have which live when they are looked at; blocking. `pace` may
    /// give it up: then there is none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of an index.
    pub fn first_duplicate(
        &self,
        unique: &NewUnique,
        pace: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Vec<u8>>> {
        let codec = unique.codec();
        let mut cursors = Vec::with_capacity(self.0.len());
        let mut next = BinaryHeap::new();
        for file in &self.0 {
            let mut cursor = Cursor::new(file, unique)?;
            next.extend(cursor.next(&codec)?.map(|value| Reverse((value, cursors.len()))));
            cursors.push(cursor);
        }
        let (mut last, mut compared) = (None, 0_usize);
        while let Some(Reverse((value, at))) = next.pop() {
            if last.as_ref() == Some(&value) {
                return Ok(Some(value));
            }
            next.extend(cursors[at].next(&codec)?.map(|value| Reverse((value, at))));
            last = Some(value);
            compared += 1;
            if compared.is_multiple_of(VALUES_AT_ONCE) {
                yield_core();
                if pace().is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }
}

/// Goes through the values of living rows in one index.
struct Cursor<'a> {
    file: &'a IndexedFile,
    index: Arc<KeyPart>,
    /// The next block.
    block: usize,
    values: std::vec::IntoIter<(Vec<u8>, u32)>,
}

impl<'a> Cursor<'a> {
    fn new(file: &'a IndexedFile, unique: &NewUnique) -> Result<Self> {
        let segment = &file.segment;
        let index = at_once(segment.index(&unique.columns, WaitMode::Blocking))?;
        let what = "a segment lacks the index of a unique key";
        let index = index.ok_or_else(|| Error::corruption(segment.path(), 0, what))?;
        Ok(Self { file, index, block: 0, values: Vec::new().into_iter() })
    }

    /// The next value, in the order of values; those with NULL are equal to no other.
    fn next(&mut self, codec: &KeyCodec) -> Result<Option<Vec<u8>>> {
        loop {
            for (value, row) in self.values.by_ref() {
                let has_null = codec.has_null(&value);
                let has_null = has_null
                    .map_err(|what| Error::corruption(self.file.segment.path(), 0, what))?;
                if !has_null && !self.file.marks.is_dead(row) {
                    return Ok(Some(value));
                }
            }
            if self.block == self.index.blocks() {
                return Ok(None);
            }
            let values = at_once(self.index.block_values(self.block, WaitMode::Blocking))?;
            self.values = values.into_iter();
            self.block += 1;
        }
    }
}

impl Latch {
    /// Whether these are the enforced unique keys of the table, by their columns.
    pub fn has_unique_keys_of(&self, table: &Table) -> bool {
        let known = self.state.values.iter().map(|values| &values.columns);
        table.unique_keys().map(|key| &key.columns).eq(known)
    }

    /// The files of the table; `None` if one of them lacks the index of a new key, or has a column
    /// of it in another form.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of a segment's keys.
    pub async fn indexed_files(&mut self, unique: &NewUnique) -> Result<Option<IndexedFiles>> {
        let state = &mut *self.state;
        let all = 0..state.runs.len();
        if state.runs.lacks_index(all, &unique.columns, &unique.schema).await? {
            return Ok(None);
        }
        let runs = (0..state.runs.len()).map(|at| state.runs.run(at));
        let files = runs.map(|run| IndexedFile {
            segment: Arc::clone(run.segment()),
            marks: Arc::clone(run.marks()),
        });
        Ok(Some(IndexedFiles(files.collect())))
    }

    /// Looks up the rows that are not in files yet. `Err` has the least value of theirs that two
    /// living rows have, and one of these.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of a segment's index.
    pub async fn check_memory(
        &mut self,
        unique: &NewUnique,
    ) -> Result<std::result::Result<AddedValues, Taken>> {
        let state = &mut *self.state;
        let mut values = ValueTable::new(unique.columns.clone(), &unique.schema);
        let living = state.living_values(&values)?;
        let rows = KeyedRows::of_keys(living.iter().map(|(value, _)| value.as_slice()));
        let twice = rows.groups().find(|group| group.len() > 1).map(|group| group[0]);
        let wanted = rows.groups().map(|group| rows.wanted(group[0], state.resolved)).collect();
        let (all, mode) = (0..state.runs.len(), WaitMode::Awaiting);
        let stored =
            state.runs.look_up_values(&unique.columns, wanted, all, &|_, _| false, mode).await?;
        let stored = stored.iter().map(|found| found.at);
        if let Some(at) = twice.into_iter().chain(stored).min_by_key(|at| rows.key(*at)) {
            let row = state.delta.encoded_row(living[at as usize].1, &unique.schema);
            return Ok(Err(Taken { value: rows.key(at).to_vec(), row }));
        }
        living.iter().for_each(|(value, row)| values.enter_row(value, *row));
        Ok(Ok(AddedValues(values)))
    }

    /// Goes on with the unique keys of `table`, of which those that are new have these values.
    ///
    /// # Panics
    /// When a key was neither enforced before nor looked at.
    pub fn set_unique_keys(&mut self, table: &Table, added: Vec<AddedValues>) {
        let state = &mut *self.state;
        let mut known = std::mem::take(&mut state.values);
        known.extend(added.into_iter().map(|values| values.0));
        let values = table.indexed().into_iter().map(|columns| {
            let at = known.iter().position(|values| values.columns == columns);
            known.remove(at.expect("a unique key is enforced once its rows were looked at"))
        });
        state.values = values.collect();
        state.account();
    }
}

impl State {
    /// The values of the living rows of the delta, with their numbers; without those with NULL.
    fn living_values(&self, values: &ValueTable) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut living = Vec::new();
        for chunk in self.delta.chunks(&self.delta.head()) {
            for step in chunk.steps(Lsn::ZERO, self.resolved) {
                let Step::Rows(entries) = step else { continue };
                let EntryRows { first, is_removal, batches, .. } = chunk.rows_of(entries)?;
                let mut from = 0;
                for (schema, batch) in batches {
                    let is_removal = &is_removal[from..from + batch.num_rows()];
                    let keyed = KeyedRows::of_batch(&batch, is_removal, &schema, self.divides());
                    let rows = (&keyed, &values.of_batch(&batch, &schema));
                    self.living_values_of(rows, first + from as u64, &mut living);
                    from += batch.num_rows();
                    yield_core();
                }
            }
        }
        Ok(living)
    }

    /// A row of the delta lives if it is the last one of its key there: what was flushed or
    /// truncated, or has lost its partition, is in no key table.
    fn living_values_of(
        &self,
        (keyed, of_rows): (&KeyedRows, &KeyedRows),
        first: u64,
        living: &mut Vec<(Vec<u8>, u64)>,
    ) {
        let known = self.keys.read();
        for &at in of_rows.groups().flatten() {
            let row = first + u64::from(at);
            if known.find(keyed.key(at)) == Some(Version { row, is_removal: false }) {
                living.push((of_rows.key(at).to_vec(), row));
            }
        }
    }

    /// The first unique key of which a run from `before` on lacks the index.
    pub(super) async fn lacks_index(&mut self, before: usize) -> Result<Option<usize>> {
        for (at, values) in self.values.iter().enumerate() {
            let range = before..self.runs.len();
            if self.runs.lacks_index(range, &values.columns, &values.schema).await? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
