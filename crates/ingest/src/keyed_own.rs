//! What a transaction has changed in tables with a primary key: the last row of each key, or that
//! it is removed (keys.md K9, K23). The transaction holds these keys until its end.
//!
//! In a table with a UNIQUE KEY loads pass by locks. What the transaction has read of stored rows
//! is compared with them again at its COMMIT (RFC 0052).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{Lsn, Result, TableId, err};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::key::{KeyCodec, KeyRows};
use freshet_schema::row::RowCells;
use freshet_schema::{KeyModel, TableSchema, history};
use freshet_storage::resolver::{KeyedRows, Place, Values};

use crate::admit::HeldMemory;
use crate::append::PartLoad;
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::key_rules::{KeyRules, OnExisting};
use crate::keyed::{decide, outcome};
use crate::removals::put_removals;
use crate::target::{KeyOutcome, LoadTarget};
use crate::uniques::{Holders, duplicate_row};

/// Memory of a changed key besides its bytes and those of its row, in each key of the table.
const CHANGE_BYTES: usize = 96;

/// The primary key of the row that has a value.
type PrimaryKeys = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Encoded rows by key.
pub(crate) type RowsByKey = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The changes of one table.
pub(crate) struct KeyedTable {
    target: LoadTarget,
    schema: Arc<TableSchema>,
    changes: BTreeMap<Box<[u8]>, Change>,
    /// What it has inserted before the first change, in a table with a UNIQUE KEY.
    before: Arc<RowsByKey>,
    /// The stored rows that its changes follow from, in such a table.
    read: RowsByKey,
    /// Of each unique key, the values of its rows with their primary keys.
    values: Vec<PrimaryKeys>,
    /// The end of the log when a stored row was first looked at.
    looked_from: Option<Lsn>,
    /// Upper bound of its bytes in a record.
    record_bytes: usize,
    /// Those, and those of what it has read.
    bytes: usize,
    held: Option<HeldMemory>,
}

/// The last change of a key.
#[derive(Clone)]
struct Change {
    /// The encoded row; `None` if the key is removed.
    row: Option<Box<[u8]>>,
    /// Whether a stored row had the key when the transaction first changed it.
    in_base: bool,
    /// If none had it then, what is told if one has it at COMMIT: what brings rows without locks,
    /// as partitions that are exchanged, may have come between. `None`: it is replaced.
    free: Option<Told>,
    /// What is told if another row has a value of the new one in a unique key then.
    values: Told,
}

/// What the client of a COMMIT is told of a row that came between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// 1062: the statement would have been refused.
    Duplicate,
    /// 1213: it would have skipped, replaced or changed the row, and will where it runs again.
    Again,
}

/// What a transaction has changed of the keys of a table.
pub trait OwnKeys: Sync {
    /// The row that a key has after its changes, if it has changed that.
    fn changed(&self, target: &LoadTarget, key: &[u8]) -> Option<Option<Vec<u8>>>;

    /// Whether a stored row has a key that it has changed.
    fn in_base(&self, table: TableId, key: &[u8]) -> Option<bool>;
}

/// What a statement of a transaction changes, once it is known that it may.
pub(crate) struct Step {
    changes: Vec<(Box<[u8]>, Change)>,
    pub outcome: KeyOutcome,
    /// The stored rows that the changes follow from, in a table with a UNIQUE KEY.
    read: RowsByKey,
    /// The LSN up to which stored rows were seen that the reply tells of.
    pub seen: Lsn,
    /// The end of the log when they were.
    end: Lsn,
    /// Upper bound of its bytes in a record.
    pub record_bytes: usize,
    /// Those, and those of what it has read.
    pub bytes: usize,
}

impl Step {
    /// The encoded rows that it writes.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.changes.iter().filter_map(|(_, change)| change.row.as_deref())
    }
}

impl KeyedTable {
    pub fn new(target: &LoadTarget) -> Self {
        Self {
            target: target.clone(),
            schema: Arc::clone(target.schema()),
            changes: BTreeMap::new(),
            before: Arc::default(),
            read: BTreeMap::new(),
            values: vec![BTreeMap::new(); target.table().unique_keys().count()],
            looked_from: None,
            record_bytes: 0,
            bytes: 0,
            held: None,
        }
    }

    /// No changes yet, behind rows that it has inserted into a table with a UNIQUE KEY, and those
    /// that are stored and stay before other ones.
    pub fn behind(
        target: &LoadTarget,
        (before, read): (RowsByKey, RowsByKey),
        held: HeldMemory,
    ) -> Self {
        let record_bytes = bytes_of(&before);
        let bytes = record_bytes + bytes_of(&read);
        let (before, held) = (Arc::new(before), Some(held));
        Self { before, read, record_bytes, bytes, held, ..Self::new(target) }
    }

    pub fn id(&self) -> TableId {
        self.target.id()
    }

    /// Whether loads pass by who holds keys of the table.
    pub fn is_unlocked(&self) -> bool {
        self.target.table().key_model == KeyModel::Unique
    }

    /// What it has inserted before the first change and not changed since.
    fn inserted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let before = self.before.iter().map(|(key, row)| (&**key, &**row));
        before.filter(|(key, _)| !self.changes.contains_key(*key))
    }

    /// The number of changed keys.
    pub fn rows(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Upper bound of its bytes in a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// The memory of what it holds, with what it has read.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys of rows that it has changed, whose stored rows it does not see any more.
    pub fn hidden(&self) -> impl Iterator<Item = &[u8]> {
        let changed = self.changes.iter().filter(|(_, change)| change.in_base);
        changed.map(|(key, _)| &**key).chain(self.before.keys().map(|key| &**key))
    }

    /// Its rows, with the columns of `schema`.
    pub fn overlay(&self, schema: &TableSchema) -> Option<RecordBatch> {
        let rows = self.changes.values().filter_map(|change| change.row.as_deref());
        let rows = rows.chain(self.inserted().map(|(_, row)| row));
        let rows = rows.filter(|row| !self.schema.is_deleted(row)).collect::<Vec<_>>();
        if rows.is_empty() {
            return None;
        }
        let mut columns = ColumnsBuilder::new(&self.schema, rows.len());
        rows.iter().for_each(|row| columns.append(row, 1));
        Some(history::adapt(&columns.finish(), &self.schema, schema))
    }

    /// The row of a key after the changes; `Err` if it is as stored.
    pub fn own(&self, key: &[u8]) -> std::result::Result<Option<&[u8]>, ()> {
        let changed = self.changes.get(key).map(|change| change.row.as_deref());
        changed.or_else(|| self.before.get(key).map(|row| Some(&**row))).ok_or(())
    }

    /// The primary key of its row that has a value in the unique key with this number.
    pub fn holder(&self, index: usize, value: &[u8]) -> Option<&[u8]> {
        self.values[index].get(value).map(|key| &**key)
    }

    /// Whether a stored row has a key, if it has changed that.
    pub fn in_base(&self, key: &[u8]) -> Option<bool> {
        self.changes.get(key).map(|change| change.in_base)
    }

    /// Adds what a statement changes, with its memory.
    pub fn apply(&mut self, step: Step, held: HeldMemory) {
        self.record_bytes += step.record_bytes;
        self.bytes += step.bytes;
        match &mut self.held {
            Some(before) => before.merge(held),
            none => *none = Some(held),
        }
        // What was left out because of a stored row is derived from it as well (keys.md K8).
        if step.outcome.skipped > 0 || step.changes.iter().any(|(_, change)| change.in_base) {
            self.looked_from.get_or_insert(step.end);
        }
        for (key, row) in step.read {
            self.read.entry(key).or_insert(row);
        }
        let codecs = self.codecs();
        // What the statement removes comes first: others of its rows may take the values.
        for (key, _) in &step.changes {
            let before = self.changes.get(key).and_then(|change| change.row.as_deref());
            for (index, value) in before.map_or_else(Vec::new, |row| values_of(&codecs, row)) {
                self.values[index].remove(&*value);
            }
        }
        for (key, change) in &step.changes {
            for (index, value) in
                change.row.as_deref().map_or_else(Vec::new, |row| values_of(&codecs, row))
            {
                self.values[index].insert(value, key.clone());
            }
        }
        for (key, change) in step.changes {
            // It has held the key since: what others have brought there without locks, by
            // partitions that they exchange, is not what it changes.
            let first = self.changes.get(&key).unwrap_or(&change);
            let (in_base, free) = (first.in_base, first.free);
            self.changes.insert(key, Change { in_base, free, ..change });
        }
    }

    /// A copy of the changes, whose memory is the caller's to count.
    pub fn copy(&self) -> Self {
        let Self { target, schema, changes, before, read, .. } = self;
        let Self { values, looked_from, record_bytes, bytes, .. } = self;
        Self {
            target: target.clone(),
            schema: Arc::clone(schema),
            changes: changes.clone(),
            before: Arc::clone(before),
            read: read.clone(),
            values: values.clone(),
            looked_from: *looked_from,
            record_bytes: *record_bytes,
            bytes: *bytes,
            held: None,
        }
    }

    /// Goes back to earlier changes. What was looked at since was looked at.
    pub fn go_back(&mut self, saved: &Self) {
        // What it has read since has the columns of now.
        let mut back = saved.copy();
        back.follow(&self.target);
        let now = std::mem::replace(self, Self::new(&back.target));
        *self = back.with_read_of(now);
    }

    /// Goes back to where it had changed nothing: what it has read of stored rows was read. `None`
    /// if that is nothing.
    pub fn only_read(self) -> Option<Self> {
        let unchanged = Self { schema: Arc::clone(&self.schema), ..Self::new(&self.target) };
        let back = unchanged.with_read_of(self);
        (back.held.is_some() && !back.read.is_empty()).then_some(back)
    }

    /// These changes with all that `now` has read of stored rows, and with its memory.
    fn with_read_of(self, now: Self) -> Self {
        let Self { read, looked_from, mut held, .. } = now;
        let bytes = self.bytes - bytes_of(&self.read) + bytes_of(&read);
        held.iter_mut().for_each(|held| held.shrink_to(bytes as u64));
        Self { read, looked_from, bytes, held, ..self }
    }

    /// With what was read of stored rows before.
    pub fn behind_read(&mut self, mut before: Self) {
        before.follow(&self.target);
        self.read.append(&mut before.read);
        self.looked_from = before.looked_from.or(self.looked_from);
        self.record_bytes += before.record_bytes;
        self.bytes += before.bytes;
        match (&mut self.held, before.held) {
            (Some(held), Some(before)) => held.merge(before),
            (none, before) => *none = none.take().or(before),
        }
    }

    /// Goes on with the unique keys of a target, and with its columns if they are newer.
    pub fn follow(&mut self, target: &LoadTarget) {
        self.follow_columns(target);
        let (own, now) = (self.target.table(), target.table());
        if own.unique_keys().map(|key| &key.columns).eq(now.unique_keys().map(|key| &key.columns)) {
            return;
        }
        self.target = self.target.with_unique_keys_of(now);
        let codecs = self.codecs();
        self.values = vec![BTreeMap::new(); codecs.len()];
        for (key, change) in &self.changes {
            let values = change.row.as_deref().map(|row| values_of(&codecs, row));
            for (index, value) in values.into_iter().flatten() {
                self.values[index].insert(value, key.clone());
            }
        }
    }

    /// Of each unique key.
    fn codecs(&self) -> Vec<KeyCodec> {
        let codec = |columns: &Vec<_>| KeyCodec::of_index(&self.schema, columns);
        let codecs = self.target.table().indexed().iter().map(codec).collect::<Option<_>>();
        codecs.expect("columns of a key are never dropped")
    }

    fn follow_columns(&mut self, target: &LoadTarget) {
        let (from, to) = (Arc::clone(&self.schema), target.schema());
        if from.version >= to.version {
            return;
        }
        let adapt = |row: &mut Box<[u8]>| {
            let mut columns = ColumnsBuilder::new(&from, 1);
            columns.append(row, 1);
            let mut bytes = Vec::new();
            let batch = history::adapt(&columns.finish(), &from, to);
            freshet_schema::encode(&batch, to, &mut bytes);
            *row = bytes.into();
        };
        self.changes.values_mut().filter_map(|change| change.row.as_mut()).for_each(adapt);
        self.read.values_mut().for_each(adapt);
        Arc::make_mut(&mut self.before).values_mut().for_each(adapt);
        self.target = target.with_unique_keys_of(self.target.table());
        self.schema = Arc::clone(to);
    }

    /// The stored rows that its changes follow from, in a table with a UNIQUE KEY; `None` if it has
    /// changed nothing there.
    pub fn take_read(&mut self) -> Option<RowsByKey> {
        (!self.changes.is_empty()).then(|| std::mem::take(&mut self.read))
    }

    /// The part of the record of the COMMIT; `None` if there is nothing to write.
    pub fn into_part(self) -> Result<Option<KeyedPart>> {
        let mut buffer = LoadBuffer::default();
        let is_removed = |change: &&Change| change.row.is_none() && change.in_base;
        let removed = self.changes.iter().filter(|(_, change)| is_removed(change));
        let removed = removed.map(|(key, _)| &**key).collect::<Vec<_>>();
        put_removals(&self.schema, removed.into_iter(), &mut buffer)?;
        let mut rows = 0;
        let inserted = self.inserted().map(|(_, row)| row);
        for row in inserted {
            buffer.resume().extend_from_slice(row);
            rows += 1;
        }
        let before = buffer.removals() as usize;
        let (mut free, mut again) = (Vec::new(), Vec::new());
        for change in self.changes.values() {
            let Some(row) = change.row.as_deref() else { continue };
            buffer.resume().extend_from_slice(row);
            free.extend(change.free.map(|told| (before + rows, told)));
            again.extend((change.values == Told::Again).then_some(before + rows));
            rows += 1;
        }
        buffer.count(rows)?;
        if buffer.rows() == 0 {
            return Ok(None);
        }
        let (table, schema) = (self.target.table(), &self.schema);
        let counts = (buffer.rows(), buffer.removals());
        let rows = KeyedRows::of_encoded(buffer.row_bytes(), counts, table, schema);
        let held = self.held.ok_or_else(|| err!(Internal, "changes have their memory"))?;
        let state = &self.target.state;
        let part = PartLoad::of_changes(state, schema, buffer, held, self.looked_from);
        Ok(Some(KeyedPart { part, target: self.target, rows, free, again }))
    }
}

/// What a transaction writes to a table by its keys.
pub(crate) struct KeyedPart {
    pub part: PartLoad,
    pub target: LoadTarget,
    /// The keys of its rows.
    pub rows: KeyedRows,
    /// The rows whose keys no stored row had, and what is told where one has.
    pub free: Vec<(usize, Told)>,
    /// The rows of which others may have values, so that the transaction is to begin again.
    pub again: Vec<usize>,
}

/// The rows of an INSERT of a transaction, whose keys are locked, and what they meet.
pub(crate) struct Inserted<'a> {
    pub buffer: &'a LoadBuffer,
    pub rows: &'a KeyedRows,
    pub values: &'a Values,
    /// The stored rows with their keys.
    pub places: &'a [Option<Place>],
    /// As the transaction sees them.
    pub holders: &'a Holders,
    /// The LSN up to which stored rows were seen, and the end of the log when they were.
    pub seen: (Lsn, Lsn),
}

impl Step {
    /// What INSERT, INSERT IGNORE or REPLACE changes; `own` is what the transaction has changed.
    ///
    /// # Errors
    /// 1062 for a key that exists, once what it tells of is durable.
    pub async fn insert(
        engine: &Engine,
        target: &LoadTarget,
        own: &impl OwnKeys,
        inserted: Inserted<'_>,
        rules: KeyRules,
    ) -> Result<Self> {
        let Inserted { buffer, rows, values, places, holders, seen } = inserted;
        let exists = |at: u32| {
            let changed = own.changed(target, rows.key(at)).map(|row| row.is_some());
            changed.unwrap_or_else(|| places[at as usize].is_some())
        };
        let decided = decide(rows, (values, holders), exists, rules.on_existing);
        let last = || match rules.on_existing {
            OnExisting::Overwrite => holders.last_conflict(rows, values, |_| false),
            _ => None,
        };
        if let Some(conflict) = decided.refused.or_else(last) {
            engine.horizon().wait(seen.0).await;
            return Err(duplicate_row(target, buffer, (rows, values), conflict));
        }
        let cells = RowCells::new(target.schema());
        let encoded = cells.rows(buffer.row_bytes()).collect::<Vec<_>>();
        let replaces = matches!(rules.on_existing, OnExisting::Replace | OnExisting::Overwrite);
        let told = match rules.on_existing {
            OnExisting::Refuse | OnExisting::Overwrite => Told::Duplicate,
            OnExisting::Skip | OnExisting::Replace => Told::Again,
        };
        let kept = decided.kept.iter().map(|&at| {
            let row = Some(Box::from(encoded[at as usize]));
            let in_base = places[at as usize].is_some();
            let free = (!in_base && !replaces).then_some(told);
            (Box::from(rows.key(at)), Change { row, in_base, free, values: told })
        });
        let removed = decided.removed.iter().map(|key| {
            let in_base = own.in_base(target.id(), key).unwrap_or(true);
            (Box::from(key.as_slice()), Change { row: None, in_base, free: None, values: told })
        });
        let outcome = outcome(target, buffer, (rows, values), &decided);
        Ok(Self::new(target, kept.chain(removed).collect(), outcome, seen))
    }

    /// What a statement changes that writes the rows in `buffer` and removes keys; `in_base` says
    /// of the removed keys and then of the rows whether a stored row has the key, and `told` what
    /// is told of rows that come in their way.
    pub fn change(
        target: &LoadTarget,
        (buffer, rows): (&LoadBuffer, &KeyedRows),
        removed: &[&[u8]],
        (in_base, told): (&[bool], Told),
        (seen, end): (Lsn, Lsn),
    ) -> Self {
        let cells = RowCells::new(target.schema());
        let encoded = cells.rows(buffer.row_bytes());
        let new = encoded.zip(0..).map(|(row, at)| (rows.key(at), Some(Box::from(row))));
        let all = removed.iter().map(|key| (*key, None)).chain(new);
        let changes = all.zip(in_base);
        let changes = changes.map(|((key, row), &in_base)| {
            let free = (!in_base && row.is_some()).then_some(told);
            (Box::from(key), Change { row, in_base, free, values: told })
        });
        Self::new(target, changes.collect(), KeyOutcome::default(), (seen, end))
    }

    fn new(
        target: &LoadTarget,
        changes: Vec<(Box<[u8]>, Change)>,
        outcome: KeyOutcome,
        (seen, end): (Lsn, Lsn),
    ) -> Self {
        let keys = 1 + target.table().unique_keys().count();
        let bytes = changes.iter().map(|(key, change): &(Box<[u8]>, Change)| {
            let row = change.row.as_ref().map_or(0, |row| row.len());
            row + keys * (key.len() + CHANGE_BYTES)
        });
        let bytes = bytes.sum();
        let codec = KeyCodec::of_sort_key(target.schema());
        let (beside, times) = KeyRows::new(&codec, target.schema()).bytes_max();
        let in_record = changes.iter().map(|(key, change)| match &change.row {
            Some(row) => row.len(),
            None => beside + times * key.len(),
        });
        let record_bytes = in_record.sum();
        Self { changes, outcome, read: BTreeMap::new(), seen, end, record_bytes, bytes }
    }

    /// With the stored rows that the changes follow from.
    #[must_use]
    pub fn of_read(mut self, read: RowsByKey) -> Self {
        self.bytes += bytes_of(&read);
        Self { read, ..self }
    }

    /// The rows of an INSERT into a table with a UNIQUE KEY.
    pub fn upsert(target: &LoadTarget, rows: RowsByKey) -> Self {
        let rows = rows.into_iter();
        let (in_base, free, values) = (true, None, Told::Duplicate);
        let change = |row| Change { row: Some(row), in_base, free, values };
        let changes = rows.map(|(key, row)| (key, change(row)));
        Self::new(target, changes.collect(), KeyOutcome::default(), (Lsn::ZERO, Lsn::ZERO))
    }
}

/// Upper bound of the memory of rows.
pub(crate) fn bytes_of(rows: &RowsByKey) -> usize {
    rows.iter().map(|(key, row)| key.len() + row.len() + CHANGE_BYTES).sum()
}

/// The values of a row in each unique key, but for those with NULL.
fn values_of(codecs: &[KeyCodec], row: &[u8]) -> Vec<(usize, Box<[u8]>)> {
    let value = |(index, codec): (usize, &KeyCodec)| {
        let (values, nulls) = codec.values_of_rows(row);
        (!nulls[0]).then(|| (index, Box::from(values.key(0))))
    };
    codecs.iter().enumerate().filter_map(value).collect()
}
