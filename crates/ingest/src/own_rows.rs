//! What a transaction has written before COMMIT: buffered in the session, visible only to it.

mod savepoint;
mod to_file;

pub use savepoint::Savepoint;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use freshet_base::{Lsn, Result, TableId, bail};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::row::RowCells;
use freshet_schema::{GroupCommitMode, KeyModel, TableSchema, history};
use freshet_storage::resolver::{EqualRows, Values};
use parking_lot::Mutex;

use crate::admit::{HeldMemory, WaitLimit};
use crate::buffer::LoadBuffer;
use crate::counter::UsedIds;
use crate::engine::Engine;
use crate::gate::Pass;
use crate::key_rules::{KeyRules, resolver};
use crate::keyed::seen;
use crate::keyed_own::{self, Inserted, KeyedTable, OwnKeys, RowsByKey, Step};
use crate::locks::LockOwner;
use crate::names;
use crate::own_part::TableRows;
use crate::ranks::{Ranks, take_late};
use crate::record::TABLES_MAX;
use crate::target::{KeyOutcome, LoadTarget, Loaded};
use crate::uniques::{Found, Holders, keys_of};
use crate::unkeyed::{Affected, Copies, RowChange};
use crate::unkeyed_own::{Seen, UnkeyedStep, UnkeyedTable};

/// What a part of a record, or the record, takes besides its rows, with a margin.
const PART_BYTES: usize = 128;

/// The rows of an open transaction, shared between clones: loads append to them, and statements of
/// the session read them in addition to committed rows.
#[derive(Clone)]
pub struct OwnRows(Arc<Own>);

#[derive(Default)]
struct Own {
    /// That of the client, or one that is generated for the first rows: a transaction that only
    /// reads takes no id, so it can begin before the term has.
    label: OnceLock<Arc<str>>,
    parts: Mutex<Vec<TableRows>>,
    /// Changes of tables with a primary key, and of stored rows of those with a UNIQUE KEY.
    keyed: Mutex<Vec<KeyedTable>>,
    /// What it had read of stored rows of tables with a UNIQUE KEY when it went back to where it
    /// had changed nothing there: it holds these rows, as locks are held over ROLLBACK TO.
    read: Mutex<BTreeMap<TableId, KeyedTable>>,
    /// Changes of stored rows of tables without a unique key; locked behind `parts`.
    unkeyed: Mutex<Vec<UnkeyedTable>>,
    /// Holds the keys of these until the end, once there are any.
    owner: OnceLock<LockOwner>,
    /// Ids of AUTO_INCREMENT columns in the rows of each table.
    ids: Mutex<BTreeMap<TableId, UsedIds>>,
    /// Keep changes of columns of its tables from their end.
    passes: Mutex<BTreeMap<TableId, Arc<Pass>>>,
}

/// All that a transaction has written.
pub(crate) struct Taken {
    pub rows: Vec<TableRows>,
    pub keyed: Vec<KeyedTable>,
    pub unkeyed: Vec<UnkeyedTable>,
    pub ids: BTreeMap<TableId, UsedIds>,
}

impl OwnKeys for OwnRows {
    fn changed(&self, target: &LoadTarget, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut keyed = self.0.keyed.lock();
        let table = keyed.iter_mut().find(|keyed| keyed.id() == target.id())?;
        table.follow(target);
        table.own(key).ok().map(|row| row.map(<[u8]>::to_vec))
    }

    fn in_base(&self, table: TableId, key: &[u8]) -> Option<bool> {
        let keyed = self.0.keyed.lock();
        keyed.iter().find(|keyed| keyed.id() == table)?.in_base(key)
    }
}

impl OwnRows {
    /// No rows yet, under the label that the client gave.
    pub(crate) fn new(label: Option<Arc<str>>) -> Self {
        let label = label.map_or_else(OnceLock::new, OnceLock::from);
        Self(Arc::new(Own { label, ..Own::default() }))
    }

    /// Takes everything that was written.
    pub(crate) fn take(&self) -> Taken {
        self.0.read.lock().clear();
        Taken {
            rows: std::mem::take(&mut *self.0.parts.lock()),
            keyed: std::mem::take(&mut *self.0.keyed.lock()),
            unkeyed: std::mem::take(&mut *self.0.unkeyed.lock()),
            ids: std::mem::take(&mut *self.0.ids.lock()),
        }
    }

    /// Its label; `None` for a transaction without rows to which the client gave none.
    pub fn label(&self) -> Option<&str> {
        self.0.label.get().map(AsRef::as_ref)
    }

    /// Enters a table that it writes to, until its end; `None` where nobody is let in.
    pub(crate) fn pass(&self, target: &LoadTarget) -> Option<Arc<Pass>> {
        let mut passes = self.0.passes.lock();
        if let Some(pass) = passes.get(&target.id()) {
            return Some(Arc::clone(pass));
        }
        let pass = target.pass()?;
        passes.insert(target.id(), Arc::clone(&pass));
        Some(pass)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        let has_parts = rows_of(&self.0.parts.lock()) > 0;
        !has_parts && self.0.keyed.lock().is_empty() && self.0.unkeyed.lock().is_empty()
    }

    /// Whether it has written to a table, also if it has taken that back.
    pub fn has_entered(&self, table: TableId) -> bool {
        self.0.passes.lock().contains_key(&table)
    }

    /// The number of rows in all tables.
    pub fn rows(&self) -> u64 {
        let keyed = self.0.keyed.lock().iter().map(KeyedTable::rows).sum::<u64>();
        let unkeyed = self.0.unkeyed.lock().iter().map(UnkeyedTable::rows).sum::<u64>();
        rows_of(&self.0.parts.lock()) + keyed + unkeyed
    }

    /// The session's uncommitted rows of a table, converted to `schema`.
    pub fn overlay(&self, table: TableId, schema: &TableSchema) -> Option<RecordBatch> {
        if let Some(keyed) = self.0.keyed.lock().iter().find(|keyed| keyed.id() == table) {
            return keyed.overlay(schema);
        }
        let parts = self.0.parts.lock();
        let part = parts.iter().find(|part| part.table.id == table);
        if let Some(unkeyed) = self.0.unkeyed.lock().iter().find(|of| of.id() == table) {
            return unkeyed.overlay(part.map_or(&[], TableRows::encoded), schema);
        }
        let part = part?;
        let batch = match part.table.is_keyed {
            true => {
                let rows = part.by_key();
                let mut columns = ColumnsBuilder::new(&part.schema, rows.len());
                rows.values().for_each(|row| columns.append(row, 1));
                columns.finish()
            }
            false => part.batch(),
        };
        let adapted = history::adapt(&batch, &part.schema, schema);
        assert_eq!(adapted.num_rows(), batch.num_rows(), "an ALTER keeps every row");
        Some(adapted)
    }

    /// The keys of a table whose stored rows the session does not see any more, since it has
    /// changed them.
    pub fn hidden(&self, table: TableId) -> Vec<Box<[u8]>> {
        if let Some(keyed) = self.0.keyed.lock().iter().find(|keyed| keyed.id() == table) {
            return keyed.hidden().map(Box::from).collect();
        }
        let parts = self.0.parts.lock();
        let part = parts.iter().find(|part| part.table.id == table && part.table.is_keyed);
        part.map_or_else(Vec::new, |part| part.by_key().into_keys().collect())
    }

    /// Begins to change stored rows of a table with a UNIQUE KEY: what it has inserted there can be
    /// found by key.
    ///
    /// # Errors
    /// `NotSupported` where these rows are in a file; `OutOfRoom`.
    pub(crate) async fn begin_changes(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        patience: WaitLimit,
    ) -> Result<()> {
        if self.has_changes_of(target.id()) {
            return Ok(());
        }
        self.check_in_memory(target.id())?;
        let by_key = |part: &mut TableRows| {
            part.append(target.schema(), &[], 0);
            (part.schema.version == target.schema().version).then(|| part.by_key())
        };
        let mut before = match self.with_part(target.id(), by_key) {
            None => BTreeMap::new(),
            Some(before) => before.ok_or_else(|| target.state.changed())?,
        };
        let late = take_late(target, &mut before).await?;
        let bytes = keyed_own::bytes_of(&before) + keyed_own::bytes_of(&late);
        self.check_keyed_room(engine, bytes)?;
        let held = engine.admission.hold(bytes as u64, patience.soon(&engine.admission)).await?;
        let mut table = KeyedTable::behind(target, (before, late), held);
        if let Some(read) = self.0.read.lock().remove(&target.id()) {
            table.behind_read(read);
        }
        self.0.keyed.lock().push(table);
        Ok(())
    }

    /// Whether it has read stored rows of a table before it went back, with which others are to be
    /// compared at COMMIT.
    fn has_read(&self, table: TableId) -> bool {
        self.0.read.lock().contains_key(&table)
    }

    /// Whether it has begun to change rows of a table by their keys.
    pub fn has_changes_of(&self, table: TableId) -> bool {
        self.0.keyed.lock().iter().any(|keyed| keyed.id() == table)
    }

    /// Rows of a table without a unique key of which the session sees no stored one any more, with
    /// the columns of `schema`.
    ///
    /// # Errors
    /// 1213 behind an ALTER of the table.
    pub fn hidden_rows(&self, table: TableId, schema: &TableSchema) -> Result<Vec<Vec<u8>>> {
        let unkeyed = self.0.unkeyed.lock();
        let Some(unkeyed) = unkeyed.iter().find(|of| of.id() == table) else {
            return Ok(Vec::new());
        };
        unkeyed.check_columns(schema)?;
        Ok(unkeyed.hidden())
    }

    /// Changes rows of a table without a unique key.
    ///
    /// # Errors
    /// `OutOfRoom`, 1526; nothing was changed then.
    pub(crate) async fn change_rows(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        changes: &[RowChange],
        copies: Copies,
        patience: WaitLimit,
    ) -> Result<Affected> {
        if self.pass(target).is_none() {
            return Err(target.state.changed());
        }
        self.check_in_memory(target.id())?;
        self.check_columns(target)?;
        let mut equal = EqualRows::new(target.schema());
        let ids = equal.add_all(changes.iter().map(|change| change.old.as_slice())).await;
        let mut seen = self.seen(target, &equal);
        let mut end = Lsn::ZERO;
        if seen.iter().any(|seen| seen.stored.is_none()) {
            let mut latch = resolver(target).latch().await?;
            end = latch.end();
            for (seen, found) in seen.iter_mut().zip(latch.find_equal(&equal).await?) {
                seen.stored.get_or_insert(found.len() as u64);
            }
        }
        let step = UnkeyedStep::new(changes, (&equal, &ids), &seen, copies)?;
        let Some(mut step) = step else {
            engine.horizon().wait(end).await;
            return Ok(Affected::Overtaken);
        };
        let (new, rows) = (std::mem::take(&mut step.new), step.rows);
        self.check_room(engine, &new)?;
        self.check_keyed_room(engine, step.bytes + new.row_bytes().len())?;
        engine.ddl.make_partitions(target, new.row_bytes(), 0).await?;
        target.state.check_rows(target.schema().version, new.row_bytes(), 0)?;
        engine.begun().await?;
        let ids = target
            .counter()
            .and_then(|counter| counter.of_rows(target.schema(), new.row_bytes(), new.rows()));
        let reserved = self.use_ids(engine, target, ids)?;
        let until = patience.soon(&engine.admission);
        let held = engine.admission.hold(step.bytes as u64, until).await?;
        let of_new = engine.admission.hold(new.row_bytes().len() as u64, until).await?;
        let loaded = self.loaded(engine, end.max(reserved), KeyOutcome::default())?;
        if new.rows() > 0 {
            self.add(target, &new, of_new);
        }
        let mut unkeyed = self.0.unkeyed.lock();
        if !unkeyed.iter().any(|table| table.id() == target.id()) {
            unkeyed.push(UnkeyedTable::new(target));
        }
        let table = unkeyed.iter_mut().find(|table| table.id() == target.id());
        table.expect("it was just added").apply(step, end, held);
        Ok(Affected::Rows(rows, loaded))
    }

    /// How many of each of these rows it sees.
    fn seen(&self, target: &LoadTarget, equal: &EqualRows) -> Vec<Seen> {
        let parts = self.0.parts.lock();
        let own = parts.iter().find(|part| part.table.id == target.id());
        let own = own.map_or(&[][..], TableRows::encoded);
        let unkeyed = self.0.unkeyed.lock();
        match unkeyed.iter().find(|table| table.id() == target.id()) {
            Some(table) => table.seen(equal, own),
            None => UnkeyedTable::new(target).seen(equal, own),
        }
    }

    /// Checks that a table has the columns that it had when stored rows of it were changed.
    fn check_columns(&self, target: &LoadTarget) -> Result<()> {
        let parts = self.0.parts.lock();
        let unkeyed = self.0.unkeyed.lock();
        let known = unkeyed.iter().find(|table| table.id() == target.id());
        known.map_or(Ok(()), |table| table.check_columns(target.schema()))?;
        let own = parts.iter().find(|part| part.table.id == target.id());
        own.map_or(Ok(()), |own| UnkeyedTable::new(target).check_columns(&own.schema))
    }

    /// The rows that have values, as the transaction sees them: its own, and stored ones that it
    /// has not changed.
    pub(crate) fn sees(&self, target: &LoadTarget, values: &Values, stored: Holders) -> Holders {
        let mut keyed = self.0.keyed.lock();
        let Some(table) = keyed.iter_mut().find(|table| table.id() == target.id()) else {
            return stored;
        };
        table.follow(target);
        let own = |index, value: &[u8]| table.holder(index, value).map(Box::from);
        stored.seen_by(values, own, |key| table.own(key).is_ok())
    }

    /// Who holds its keys: it is of the connection that asks first.
    pub(crate) fn owner(&self, engine: &Engine, connection: u32) -> &LockOwner {
        self.0.owner.get_or_init(|| LockOwner::new(engine.locks(), connection))
    }

    /// Checks that the transaction with these additional rows stays within its limits.
    ///
    /// # Errors
    /// `OutOfRoom`, with advice.
    pub(crate) fn check_room(&self, engine: &Engine, more: &LoadBuffer) -> Result<()> {
        let parts = self.0.parts.lock();
        let limit = engine.config().transaction_bytes_max;
        let bytes = bytes_of(&parts) + more.row_bytes().len();
        if bytes as u64 > limit.bytes() {
            bail!(
                OutOfRoom,
                "the transaction holds {} rows and would pass {limit} with rows that cannot go to \
                 files: those of tables with a primary key, and of tables of which it has changed \
                 rows; COMMIT more often",
                rows_of(&parts)
            );
        }
        drop(parts);
        self.check_count(more)
    }

    /// Checks that the tables and rows of the transaction can be counted.
    fn check_count(&self, more: &LoadBuffer) -> Result<()> {
        let parts = self.0.parts.lock();
        if parts.len() >= TABLES_MAX {
            bail!(OutOfRoom, "a transaction writes at most {TABLES_MAX} tables; COMMIT more often");
        }
        // A record counts rows in 32 bits.
        let pending = parts.iter().map(TableRows::pending_rows).sum::<u64>();
        if rows_of(&parts) + pending + u64::from(more.rows()) > u64::from(u32::MAX) {
            bail!(OutOfRoom, "a transaction writes at most {} rows; COMMIT more often", u32::MAX);
        }
        Ok(())
    }

    /// Adds the rows of `buffer` once memory is reserved for them, behind those that the statement
    /// has brought to a file, if it `spools`.
    ///
    /// # Errors
    /// `OutOfRoom`; no rows were added then.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        buffer: &mut LoadBuffer,
        (patience, spools): (WaitLimit, bool),
        key_rules: KeyRules,
    ) -> Result<Loaded> {
        let ids = buffer.ids();
        let spools =
            self.make_room_for(engine, target, buffer, (!spools, patience)).await? || spools;
        if self.0.unkeyed.lock().iter().any(|table| table.id() == target.id()) {
            self.check_columns(target)?;
            self.check_keyed_room(engine, buffer.row_bytes().len())?;
        }
        let (state, version) = (&target.state, target.schema().version);
        engine.ddl.make_partitions(target, buffer.row_bytes(), buffer.removals()).await?;
        state.check_rows(version, buffer.row_bytes(), buffer.removals())?;
        // Ids are given out once the term has begun; nobody waits for that while holding memory.
        engine.begun().await?;
        let reserved = self.use_ids(engine, target, ids)?;
        if target.table().key_model == KeyModel::Primary {
            let loaded = self.insert(engine, target, buffer, patience, key_rules).await?;
            return Ok(Loaded { lsn: loaded.lsn.max(reserved), ..loaded });
        }
        if self.has_changes_of(target.id()) {
            let step = self.upsert(target, buffer).await?;
            let loaded = self.apply(engine, target, step, patience).await?;
            return Ok(Loaded { lsn: loaded.lsn.max(reserved), ..loaded });
        }
        let bytes = buffer.row_bytes().len() as u64;
        let held = engine.admission.hold(bytes, patience.soon(&engine.admission)).await?;
        if spools {
            self.with_part(target.id(), TableRows::keep_pending);
        }
        self.add(target, buffer, held);
        self.loaded(engine, reserved, KeyOutcome::default())
    }

    /// What an INSERT changes in a table with a UNIQUE KEY of which it has changed rows.
    async fn upsert(&self, target: &LoadTarget, buffer: &LoadBuffer) -> Result<Step> {
        let (rows, ranks) = (keys_of(target, buffer), Ranks::of(target.schema()));
        let cells = RowCells::new(target.schema());
        let keyed =
            cells.rows(buffer.row_bytes()).zip(0..).map(|(row, at)| (Box::from(rows.key(at)), row));
        let is_stored = |key: &[u8]| self.changed(target, key).is_none();
        let (mut new, mut over_own) = (RowsByKey::new(), RowsByKey::new());
        for (key, row) in ranks.last(keyed) {
            match self.changed(target, &key).flatten() {
                Some(own) if !ranks.replaces(row, &own) => {}
                _ if is_stored(&key) => _ = new.insert(key, row.into()),
                _ => _ = over_own.insert(key, row.into()),
            }
        }
        let late = take_late(target, &mut new).await?;
        new.append(&mut over_own);
        Ok(Step::upsert(target, new).of_read(late))
    }

    /// Reserves the ids of rows, which the client is told before they are in the log. Returns the
    /// position that its reply waits for.
    pub(crate) fn use_ids(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        ids: Option<UsedIds>,
    ) -> Result<Lsn> {
        let Some(entered) = engine.appender.enter_ids(&target.state, ids)? else {
            return Ok(Lsn::ZERO);
        };
        let mut all = self.0.ids.lock();
        let joined = UsedIds::join(all.remove(&target.id()), ids);
        all.extend(joined.map(|ids| (target.id(), ids)));
        Ok(entered.reserved)
    }

    /// What a statement of it tells.
    fn loaded(&self, engine: &Engine, lsn: Lsn, keys: KeyOutcome) -> Result<Loaded> {
        if self.0.label.get().is_none() {
            let label = names::transaction_label(engine.meta().ids().txn()?);
            let set = self.0.label.set(Arc::from(label));
            assert!(set.is_ok(), "a session runs one statement at a time");
        }
        let given = self.0.label.get().cloned();
        Ok(Loaded { lsn, txn: None, mode: GroupCommitMode::Off, given, keys })
    }

    /// INSERT, INSERT IGNORE or REPLACE of the rows in `buffer`.
    async fn insert(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        buffer: &LoadBuffer,
        patience: WaitLimit,
        rules: KeyRules,
    ) -> Result<Loaded> {
        let found =
            Found::lock(engine, target, self.owner(engine, rules.connection), buffer, rules);
        let Found { latch, target, rows, values, places, holders } = found.await?;
        let target = &target;
        let seen = (seen(&latch, &places).max(holders.seen), latch.end());
        drop(latch);
        let holders = &self.sees(target, &values, holders);
        let (values, rows, places) = (&values, &rows, &places[..]);
        let inserted = Inserted { buffer, rows, values, places, holders, seen };
        let step = Step::insert(engine, target, self, inserted, rules).await?;
        self.apply(engine, target, step, patience).await
    }

    /// Adds what a statement changes, whose keys are locked.
    ///
    /// # Errors
    /// `OutOfRoom`; nothing was added then.
    pub(crate) async fn apply(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        step: Step,
        patience: WaitLimit,
    ) -> Result<Loaded> {
        let (outcome, seen) = (step.outcome.clone(), step.seen);
        if target.table().partition_by.is_some() {
            let version = target.schema().version;
            if target.table().makes_partitions() {
                let rows = step.rows().flatten().copied().collect::<Vec<_>>();
                engine.ddl.make_partitions(target, &rows, 0).await?;
            }
            step.rows().try_for_each(|row| target.state.check_rows(version, row, 0).map(drop))?;
        }
        self.check_keyed_room(engine, step.record_bytes)?;
        let until = patience.soon(&engine.admission);
        let held = engine.admission.hold(step.bytes as u64, until).await?;
        let loaded = self.loaded(engine, seen, outcome)?;
        let mut keyed = self.0.keyed.lock();
        if !keyed.iter().any(|table| table.id() == target.id()) {
            keyed.push(KeyedTable::new(target));
        }
        let table = keyed.iter_mut().find(|table| table.id() == target.id());
        let table = table.expect("it was just added");
        table.follow(target);
        table.apply(step, held);
        Ok(loaded)
    }

    /// Changes of stored rows are one record, with no files beside it.
    fn check_keyed_room(&self, engine: &Engine, more: usize) -> Result<()> {
        let of_table = |keyed: &KeyedTable| keyed.record_bytes() + PART_BYTES;
        let keyed = self.0.keyed.lock().iter().map(of_table).sum::<usize>() + PART_BYTES;
        let parts = self.0.parts.lock();
        let unkeyed = self.0.unkeyed.lock();
        let removes = |part: &&TableRows| unkeyed.iter().any(|of| of.id() == part.table.id);
        let own = parts.iter().filter(removes).map(|part| part.encoded().len()).sum::<usize>();
        let removed = unkeyed.iter().map(UnkeyedTable::bytes).sum::<usize>();
        let bytes = keyed + own + removed + more;
        if engine.appender.takes_record_of(bytes) {
            return Ok(());
        }
        bail!(
            OutOfRoom,
            "a transaction changes stored rows of at most {} (wal_load_bytes_max); COMMIT more \
             often",
            engine.config().wal_load_bytes_max
        );
    }

    fn add(&self, target: &LoadTarget, buffer: &LoadBuffer, held: HeldMemory) {
        let mut parts = self.0.parts.lock();
        let part = part_of(&mut parts, target, held);
        part.append(target.schema(), buffer.row_bytes(), buffer.rows());
    }
}

fn part_of<'a>(
    parts: &'a mut Vec<TableRows>,
    target: &LoadTarget,
    held: HeldMemory,
) -> &'a mut TableRows {
    match parts.iter().position(|part| part.table.id == target.id()) {
        Some(at) => {
            parts[at].held.merge(held);
            &mut parts[at]
        }
        None => {
            parts.push(TableRows::new(target, held));
            parts.last_mut().expect("just pushed")
        }
    }
}

fn rows_of(parts: &[TableRows]) -> u64 {
    parts.iter().map(TableRows::rows).sum()
}

/// The bytes of rows in memory.
pub(crate) fn bytes_of(parts: &[TableRows]) -> usize {
    parts.iter().map(|part| part.encoded().len()).sum()
}
