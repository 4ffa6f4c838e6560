//! What a transaction has changed in tables with a primary key: the last row of each key, or that
//! it is removed (keys.md K9, K23). The transaction holds these keys until its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use freshet_base::{Lsn, Result, TableId, err};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, history};
use freshet_storage::resolver::{KeyedRows, Latch, Place};

use crate::admit::HeldMemory;
use crate::append::{LookedUp, PartBody, PartLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::keyed::{KeyRules, decide, duplicate_entry, outcome, seen};
use crate::target::{KeyOutcome, LoadTarget};

/// Memory of a changed key besides its bytes and those of its row.
const CHANGE_BYTES: usize = 96;

/// The changes of one table.
pub(crate) struct KeyedTable {
    target: LoadTarget,
    schema: Arc<TableSchema>,
    changes: BTreeMap<Box<[u8]>, Change>,
    /// The end of the log when a stored row was first looked at.
    looked_from: Option<Lsn>,
    bytes: usize,
    held: Option<HeldMemory>,
}

/// The last change of a key.
#[derive(Clone)]
struct Change {
    /// The encoded row; `None` if the key is removed.
    row: Option<Box<[u8]>>,
    /// Whether a stored row has the key.
    in_base: bool,
}

/// What a statement of a transaction changes, once it is known that it may.
pub(crate) struct Step {
    changes: Vec<(Box<[u8]>, Change)>,
    pub outcome: KeyOutcome,
    /// The LSN up to which stored rows were seen that the reply tells of.
    pub seen: Lsn,
    /// The end of the log when they were.
    end: Lsn,
    pub bytes: usize,
}

impl KeyedTable {
    pub fn new(target: &LoadTarget) -> Self {
        Self {
            target: target.clone(),
            schema: Arc::clone(target.schema()),
            changes: BTreeMap::new(),
            looked_from: None,
            bytes: 0,
            held: None,
        }
    }

    pub fn id(&self) -> TableId {
        self.target.id()
    }

    /// The number of changed keys.
    pub fn rows(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Upper bound of its bytes in a record.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys of rows that it has changed, whose stored rows it does not see any more.
    pub fn hidden(&self) -> impl Iterator<Item = &[u8]> {
        self.changes.iter().filter(|(_, change)| change.in_base).map(|(key, _)| &**key)
    }

    /// Its rows, with the columns of `schema`.
    pub fn overlay(&self, schema: &TableSchema) -> Option<RecordBatch> {
        let rows = self.changes.values().filter_map(|change| change.row.as_deref());
        let rows = rows.collect::<Vec<_>>();
        if rows.is_empty() {
            return None;
        }
        let mut columns = ColumnsBuilder::new(&self.schema, rows.len());
        rows.iter().for_each(|row| columns.append(row, 1));
        Some(history::adapt(&columns.finish(), &self.schema, schema))
    }

    /// The row of a key after the changes; `Err` if it is as stored.
    pub fn own(&self, key: &[u8]) -> std::result::Result<Option<&[u8]>, ()> {
        self.changes.get(key).map(|change| change.row.as_deref()).ok_or(())
    }

    /// Adds what a statement changes, with its memory.
    pub fn apply(&mut self, step: Step, held: HeldMemory) {
        self.bytes += step.bytes;
        match &mut self.held {
            Some(before) => before.merge(held),
            none => *none = Some(held),
        }
        // What was left out because of a stored row is derived from it as well (keys.md K8).
        if step.outcome.skipped > 0 || step.changes.iter().any(|(_, change)| change.in_base) {
            self.looked_from.get_or_insert(step.end);
        }
        self.changes.extend(step.changes);
    }

    /// A copy of the changes, whose memory is the caller's to count.
    pub fn copy(&self) -> Self {
        let Self { target, schema, changes, looked_from, bytes, held: _ } = self;
        Self {
            target: target.clone(),
            schema: Arc::clone(schema),
            changes: changes.clone(),
            looked_from: *looked_from,
            bytes: *bytes,
            held: None,
        }
    }

    /// Goes back to earlier changes. What was looked at since was looked at.
    pub fn go_back(&mut self, saved: &Self) {
        let (held, looked_from) = (self.held.take(), self.looked_from);
        *self = Self { held, looked_from, ..saved.copy() };
        let bytes = self.bytes as u64;
        self.held.iter_mut().for_each(|held| held.shrink_to(bytes));
    }

    /// Converts its rows to newer columns of the table.
    pub fn follow(&mut self, target: &LoadTarget) {
        let (from, to) = (Arc::clone(&self.schema), target.schema());
        if from.version >= to.version {
            return;
        }
        for change in self.changes.values_mut() {
            let Some(row) = &mut change.row else { continue };
            let mut columns = ColumnsBuilder::new(&from, 1);
            columns.append(row, 1);
            let mut bytes = Vec::new();
            let batch = history::adapt(&columns.finish(), &from, to);
            freshet_schema::encode(&batch, to, &mut bytes);
            *row = bytes.into();
        }
        (self.target, self.schema) = (target.clone(), Arc::clone(to));
    }

    /// The part of the record of the COMMIT, and the keys that are in it; `None` if there is
    /// nothing to write.
    pub fn into_part(self) -> Result<Option<(PartLoad, LoadTarget, KeyedRows)>> {
        let codec = KeyCodec::of_sort_key(&self.schema);
        let mut buffer = LoadBuffer::default();
        let is_removed = |change: &&Change| change.row.is_none() && change.in_base;
        let removed = self.changes.iter().filter(|(_, change)| is_removed(change));
        let mut removals = 0;
        buffer.begin();
        for (key, _) in removed {
            let put = codec.put_row(&self.schema, key, buffer.resume());
            put.map_err(|what| err!(Internal, "the key of a changed row is {what}"))?;
            removals += 1;
        }
        buffer.count(removals)?;
        buffer.removes_so_far();
        let mut rows = 0;
        for row in self.changes.values().filter_map(|change| change.row.as_deref()) {
            buffer.resume().extend_from_slice(row);
            rows += 1;
        }
        buffer.count(rows)?;
        if buffer.rows() == 0 {
            return Ok(None);
        }
        let (table, schema) = (self.target.table(), &self.schema);
        let keyed = KeyedRows::of_encoded(buffer.row_bytes(), buffer.rows(), table, schema);
        let held = self.held.ok_or_else(|| err!(Internal, "changes have their memory"))?;
        let mut permit = held.memory;
        permit.resize_over(permit.bytes().max(buffer.payload_bytes() as u64));
        let end = self.looked_from;
        let part = PartLoad {
            table: Arc::clone(&self.target.state),
            schema: Arc::clone(schema),
            began_in: self.target.state.incarnation(),
            rows: buffer.rows(),
            removals: buffer.removals(),
            body: PartBody::Rows { bytes: Bytes::copy_from_slice(buffer.row_bytes()), permit },
            ids: None,
            looked_up: end.map(|end| LookedUp { end, is_derived: true, is_last: false }),
        };
        Ok(Some((part, self.target, keyed)))
    }
}

impl Step {
    /// What INSERT, INSERT IGNORE or REPLACE of the rows in `buffer` changes, whose keys are
    /// locked;
    /// `own` says whether a key exists that the transaction has changed.
    ///
    /// # Errors
    /// 1062 for a key that exists, once what it tells of is durable.
    pub async fn insert(
        engine: &Engine,
        target: &LoadTarget,
        own: impl Fn(&[u8]) -> Option<bool>,
        (buffer, rows): (&LoadBuffer, &KeyedRows),
        (latch, places): (Latch, Vec<Option<Place>>),
        rules: KeyRules,
    ) -> Result<Self> {
        let exists = |at: u32| own(rows.key(at)).unwrap_or_else(|| places[at as usize].is_some());
        let decided = decide(rows, exists, rules.on_existing);
        let (seen, end) = (seen(&latch, &places), latch.end());
        drop(latch);
        if let Some(at) = decided.refused {
            engine.horizon().wait(seen).await;
            return Err(duplicate_entry(target, rows.key(at)));
        }
        let in_base = |at: u32| places[at as usize].is_some();
        let encoded = rows_of(target.schema(), buffer);
        let changes = decided.kept.iter().map(|&at| {
            let row = Some(Box::from(encoded[at as usize]));
            (Box::from(rows.key(at)), Change { row, in_base: in_base(at) })
        });
        let outcome = outcome(target, rows, &decided);
        Ok(Self::new(changes.collect(), outcome, (seen, end)))
    }

    /// What a statement changes that writes the rows in `buffer` and removes keys; `in_base` says
    /// of the removed keys and then of the rows whether a stored row has the key.
    pub fn change(
        target: &LoadTarget,
        (buffer, rows): (&LoadBuffer, &KeyedRows),
        removed: &[&[u8]],
        in_base: &[bool],
        (seen, end): (Lsn, Lsn),
    ) -> Self {
        let encoded = rows_of(target.schema(), buffer);
        let new = encoded.iter().zip(0..).map(|(row, at)| (rows.key(at), Some(Box::from(*row))));
        let all = removed.iter().map(|key| (*key, None)).chain(new);
        let changes = all.zip(in_base);
        let changes =
            changes.map(|((key, row), &in_base)| (Box::from(key), Change { row, in_base }));
        Self::new(changes.collect(), KeyOutcome::default(), (seen, end))
    }

    fn new(
        changes: Vec<(Box<[u8]>, Change)>,
        outcome: KeyOutcome,
        (seen, end): (Lsn, Lsn),
    ) -> Self {
        let bytes = changes.iter().map(|(key, change): &(Box<[u8]>, Change)| {
            key.len() + change.row.as_ref().map_or(0, |row| row.len()) + CHANGE_BYTES
        });
        let bytes = bytes.sum();
        Self { changes, outcome, seen, end, bytes }
    }
}

fn rows_of<'a>(schema: &TableSchema, buffer: &'a LoadBuffer) -> Vec<&'a [u8]> {
    let (cells, mut rest) = (RowCells::new(schema), buffer.row_bytes());
    let mut rows = Vec::with_capacity(buffer.rows() as usize);
    while !rest.is_empty() {
        let (row, behind) = rest.split_at(cells.row_bytes(rest));
        rows.push(row);
        rest = behind;
    }
    rows
}
