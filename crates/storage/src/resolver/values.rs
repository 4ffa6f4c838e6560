//! Unique indexes beside the primary key: which living row has a value (keys.md K14, RFC 0018).
//!
//! Marks follow from the primary key alone. So the last row of the delta that has a value may be
//! dead, as rows in files may be: a value is taken if a row lives that has it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::ColumnId;
use freshet_base::task::yield_core;
use freshet_schema::key::KeyCodec;
use freshet_schema::{Table, TableSchema, history};

use super::key_table::{KeyTable, Version};
use super::latch::{Latch, Place};
use super::load::Found;
use super::runs::Wanted;
use super::{KeyedRows, Met, State};
use crate::error::{Error, Result};
use crate::rowset::Rowset;
use crate::segment::WaitMode;

/// The values of the unique indexes in the rows of a record.
#[derive(Default)]
pub struct Values(Vec<KeyedRows>);

impl Values {
    /// Those of `rows` encoded rows of a table, of which the first `removals` have none.
    ///
    /// # Panics
    /// When `bytes` are not so many rows, or `schema` lacks a column of an index.
    pub fn of_encoded(
        bytes: &[u8],
        (rows, removals): (u32, u32),
        table: &Table,
        schema: &TableSchema,
    ) -> Self {
        let values = table.indexed().into_iter().map(|columns| {
            let values = KeyedRows::of_index(bytes, (rows, removals), schema, &columns);
            values.expect("columns of a key are never dropped")
        });
        Self(values.collect())
    }

    /// Whether the table has no unique index.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of each index, in the order of the table's keys.
    pub fn all(&self) -> &[KeyedRows] {
        &self.0
    }
}

/// The rows of the delta by the values of an index: the last one that has each.
pub(super) struct ValueTable {
    pub columns: Vec<ColumnId>,
    /// Has these columns as they are for the life of the key.
    pub schema: Arc<TableSchema>,
    rows: KeyTable,
}

impl ValueTable {
    pub fn new(columns: Vec<ColumnId>, schema: &Arc<TableSchema>) -> Self {
        Self { columns, schema: Arc::clone(schema), rows: KeyTable::default() }
    }

    /// The values in the rows of a batch, which may be from before a column of the index.
    pub fn of_batch(&self, batch: &RecordBatch, schema: &TableSchema) -> KeyedRows {
        let values = match schema.has_same(&self.schema, &self.columns) {
            true => KeyedRows::of_index_of_batch(batch, schema, &self.columns),
            false => {
                let adapted = history::adapt(batch, schema, &self.schema);
                KeyedRows::of_index_of_batch(&adapted, &self.schema, &self.columns)
            }
        };
        values.expect("columns of a key are never dropped")
    }

    /// Enters rows that follow each other from `first` on.
    pub fn enter(&mut self, values: &KeyedRows, first: u64, is_row: impl Fn(u32) -> bool) {
        let lasts = values.groups().filter_map(|group| group.iter().rfind(|at| is_row(**at)));
        self.rows.enter_all(lasts.map(|&last| {
            let version = Version { row: first + u64::from(last), is_removal: false };
            (values.key(last), version)
        }));
    }

    pub fn enter_row(&mut self, value: &[u8], row: u64) {
        self.rows.enter(value, Version { row, is_removal: false });
    }

    /// See [`KeyTable::begin_generation`].
    pub fn begin_generation(&mut self) {
        self.rows.begin_generation();
    }

    pub fn keep_from(&mut self, row: u64) {
        self.rows.keep_from(row);
    }

    /// Forgets the values of rows that do not live any more.
    pub fn forget(&mut self, gone: &HashSet<u64>) {
        self.rows.forget(|_, version| gone.contains(&version.row));
    }

    pub fn clear(&mut self) {
        self.rows = KeyTable::default();
    }

    pub fn memory_bytes(&self) -> u64 {
        self.rows.memory_bytes()
    }
}

impl Latch {
    /// The living row that has each value of the index with this number, by the index of a row with
    /// that value; rows with a value that an earlier one has get that one's place.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of a segment's index.
    pub async fn find_values(
        &mut self,
        index: usize,
        rows: &KeyedRows,
    ) -> Result<Vec<Option<Place>>> {
        let state = &mut *self.state;
        let mut places = vec![None; rows.len() as usize];
        let mut wanted = Vec::new();
        for group in rows.groups() {
            match state.living_row(index, rows.key(group[0])) {
                Some(row) => places[group[0] as usize] = Some(Place::Delta(row)),
                None => wanted.push(rows.wanted(group[0], state.resolved)),
            }
        }
        let columns = state.values[index].columns.clone();
        let all = 0..state.runs.len();
        let look_up =
            state.runs.look_up_values(&columns, wanted, all, &|_, _| false, WaitMode::Awaiting);
        for found in look_up.await? {
            let file = Arc::clone(state.runs.run(found.run).file());
            places[found.at as usize] = Some(Place::File { file, row: found.row, stored: None });
        }
        for group in rows.groups() {
            let (first, others) = group.split_first().expect("a value has a row");
            others.iter().for_each(|&at| places[at as usize] = places[*first as usize].clone());
        }
        Ok(places)
    }

    /// The first value in the files of a large load that others hold, or that a row has which the
    /// load does not replace, one of its own or a stored one; with the number of the index.
    ///
    /// # Errors
    /// Those of [`Self::find`].
    pub async fn meets_values(
        &mut self,
        rowsets: &[Arc<Rowset>],
        schema: &TableSchema,
        is_held: impl Fn(usize, &KeyedRows) -> bool,
    ) -> Result<Option<(usize, Met)>> {
        let state = &mut *self.state;
        if state.values.is_empty() {
            return Ok(None);
        }
        let before = state.runs.len();
        rowsets.iter().for_each(|rowset| state.runs.add(rowset));
        let met = match state.lacks_index(before).await {
            Ok(Some(index)) => Ok(Some((index, Met::Unindexed))),
            Ok(None) => state.meets_values(before, schema, is_held).await,
            Err(error) => Err(error),
        };
        state.runs.truncate(before);
        met
    }
}

/// What the rows of a large load would replace.
struct Replaced {
    in_files: HashSet<(usize, u32)>,
    in_delta: HashSet<u64>,
}

impl Replaced {
    fn new(found: &Found, before: usize) -> Self {
        let own = found.marks.iter().zip(before..);
        let own = own.flat_map(|(marks, run)| marks.rows().map(move |row| (run, row)));
        let others = found.rows.iter().map(|row| (row.run, row.row));
        Self {
            in_files: own.chain(others).collect(),
            in_delta: found.died.iter().map(|mark| mark.row).collect(),
        }
    }
}

impl State {
    /// The row of the delta that has a value and lives.
    fn living_row(&self, index: usize, value: &[u8]) -> Option<u64> {
        let found = self.values[index].rows.find(value);
        found.map(|version| version.row).filter(|row| !self.marks.is_dead(*row))
    }

    async fn meets_values(
        &mut self,
        before: usize,
        schema: &TableSchema,
        is_held: impl Fn(usize, &KeyedRows) -> bool,
    ) -> Result<Option<(usize, Met)>> {
        let (seen, wait_mode) = (self.resolved, WaitMode::Awaiting);
        let found = self.load_versions(seen, before, wait_mode).await?;
        let replaced = Replaced::new(&found, before);
        for index in 0..self.values.len() {
            let columns = self.values[index].columns.clone();
            let codec = KeyCodec::of_index(schema, &columns).expect("an index has its columns");
            for at in before..self.runs.len() {
                // Of the block before, since the same value may go on.
                let mut last = None;
                for block in 0..self.runs.index_of(at, &columns, wait_mode).await?.blocks() {
                    let part = self.runs.index_of(at, &columns, wait_mode).await?;
                    let mut values = part.block_values(block, wait_mode).await?;
                    values.retain(|(_, row)| !replaced.in_files.contains(&(at, *row)));
                    let mut living = Vec::with_capacity(values.len());
                    for (value, _) in values {
                        let has_null = codec.has_null(&value).map_err(|what| {
                            Error::corruption(self.runs.run(at).segment().path(), 0, what)
                        })?;
                        if has_null {
                            continue;
                        }
                        if last.as_ref() == Some(&value) {
                            return Ok(Some((index, Met::Existing(value, seen))));
                        }
                        last = Some(value.clone());
                        living.push(value);
                    }
                    let rows = KeyedRows::of_keys(living.iter().map(Vec::as_slice));
                    if is_held(index, &rows) {
                        return Ok(Some((index, Met::Held(rows))));
                    }
                    if let Some(value) = self.meets_living(index, at, &rows, &replaced).await? {
                        return Ok(Some((index, Met::Existing(value, seen))));
                    }
                    yield_core();
                }
            }
        }
        Ok(None)
    }

    /// Which of these values, of rows in the run `at` of a load, another row has.
    async fn meets_living(
        &mut self,
        index: usize,
        at: usize,
        rows: &KeyedRows,
        replaced: &Replaced,
    ) -> Result<Option<Vec<u8>>> {
        let in_delta = |at: &u32| {
            let row = self.living_row(index, rows.key(*at));
            row.is_some_and(|row| !replaced.in_delta.contains(&row))
        };
        if let Some(found) = (0..rows.len()).find(in_delta) {
            return Ok(Some(rows.key(found).to_vec()));
        }
        let wanted = (0..rows.len()).map(|at| rows.wanted(at, self.resolved));
        let wanted = wanted.collect::<Vec<Wanted<'_>>>();
        let columns = self.values[index].columns.clone();
        let is_dead = |run: usize, row: u32| replaced.in_files.contains(&(run, row));
        let look_up =
            self.runs.look_up_values(&columns, wanted, 0..at, &is_dead, WaitMode::Awaiting);
        let found = look_up.await?;
        Ok(found.first().map(|row| rows.key(row.at).to_vec()))
    }
}
