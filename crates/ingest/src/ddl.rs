//! CREATE, TRUNCATE, ALTER, RENAME and SET: one record of the log each. A statement is answered
//! when its record has settled, which takes one sync. Loads continue meanwhile, and nothing waits
//! for a flush.
//!
//! Statements that assign or free names exclude each other until they have settled, and so do those
//! that change the definition of one table. Databases and users are committed to metadata at once.

mod buckets;
mod groups;
mod renames;

use std::sync::Arc;

use freshet_base::{Error, Lsn, Result, TableId, TabletId, bail, err, task};
use freshet_meta::{
    Catalog, Created, Database, DatabaseMode, Definition, Dynamic, KnownView, Meta, MetaEvent,
    PartitionChange, Repartition, SchemaChange, TableSpec, UserAdmin, View,
};
use freshet_schema::{Collation, RowPolicy, Table};
use freshet_storage::flush::Files;
use freshet_storage::fold::Barrier;
use freshet_wal::Room;
use futures::lock::MutexGuard;

use crate::admit::Admission;
use crate::append::{Signature, loaded_rowsets};
use crate::counter::{Counter, StoppedCounter};
use crate::group::EndedGroup;
use crate::history::History;
use crate::metadata::{SMALL_EVENT_BYTES, Settler, Unsettled};
use crate::partitions::Divided;
use crate::record::{self, BarrierBody, BarrierStamp, Kind, SMALL_RECORD_BYTES};
use crate::state::TableState;
use crate::store::Store;
use crate::target::LoadTarget;
use crate::term::Term;

/// Bytes of one table in the stamp of a barrier.
const BARRIER_STAMP_BYTES: usize = 32;

/// Executes statements that define, empty or remove databases, tables and users.
pub struct Ddl {
    pub(crate) store: Arc<Store>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) history: Arc<History>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) term: Arc<Term>,
    /// Held by statements that assign or free names of databases and tables.
    pub(crate) names: futures::lock::Mutex<()>,
}

impl Ddl {
    /// Waits until no other statement assigns or frees names, and everything has settled that
    /// earlier ones have appended.
    pub(crate) async fn lock_names(&self) -> MutexGuard<'_, ()> {
        let names = self.names.lock().await;
        self.settler.all_settled().await;
        names
    }

    /// # Errors
    /// Those of metadata.
    pub async fn create_database(
        &self,
        name: &str,
        mode: Option<DatabaseMode>,
        collation: Option<Collation>,
        if_not_exists: bool,
    ) -> Result<Created<Database>> {
        let name = name.to_owned();
        self.change_names(move |meta| meta.create_database(&name, mode, collation, if_not_exists))
            .await
    }

    /// ALTER DATABASE: durable on return.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn collate_database(&self, name: &str, collation: Collation) -> Result<()> {
        let name = name.to_owned();
        self.change_names(move |meta| meta.collate_database(&name, collation)).await
    }

    /// Creates a table; it is readable and writable on return.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn create_table(
        &self,
        database: &str,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let created = self.new_table(database, spec, if_not_exists).await?;
        if !created.existed {
            let table = &created.object;
            self.settler.create(Arc::clone(table), room).await?;
            self.follow_clock(table.id).await;
        }
        Ok(created)
    }

    /// The table that a CREATE TABLE would make, or the existing one.
    pub(crate) async fn new_table(
        &self,
        database: &str,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let (store, database) = (Arc::clone(&self.store), database.to_owned());
        // Ids may have to be reserved.
        let make = move || store.meta().new_table(&database, &spec, if_not_exists);
        task::run(self.store.pool(), make).await
    }

    /// Empties tables, all at one position of the log, in time independent of their rows. Their
    /// temporary partitions go, as in Doris, and are emptied at the same position: wherever the
    /// server dies, no row of theirs outlives the ids that begin again.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of the log.
    pub async fn truncate(&self, ids: &[TableId]) -> Result<()> {
        self.term.begun().await?;
        let states = self.states_of(ids)?;
        let _partitions = self.hold_partitions(&states).await;
        let temporary = self.temporaries(ids);
        let beside = self.states_of(&temporary)?;
        // Nobody holds these while waiting for those that they are of.
        let _beside = self.hold_partitions(&beside).await;
        let body = BarrierBody::Truncate(self.new_tablets(&[ids, &temporary].concat()).await?);
        self.barrier(body, &[&states[..], &beside].concat()).await?;
        self.drop_temporaries(ids).await
    }

    /// Deletes all rows of a table as TRUNCATE does, except that generated ids go on.
    ///
    /// # Errors
    /// Those of [`Self::truncate`].
    pub async fn delete_all(&self, id: TableId) -> Result<()> {
        self.term.begun().await?;
        let states = self.states_of(&[id])?;
        let _partitions = self.hold_partitions(&states).await;
        let body = BarrierBody::Empty(self.new_tablets(&[id]).await?);
        self.barrier(body, &states).await
    }

    /// Keeps the partitions of tables as they are, whose tablets a record counts.
    async fn hold_partitions<'s>(
        &self,
        states: &'s [Arc<TableState>],
    ) -> Vec<futures::lock::MutexGuard<'s, ()>> {
        let divided = states.iter().filter(|state| state.layout().is_some());
        let mut divided = divided.collect::<Vec<_>>();
        // In one order, so that nobody waits in a circle.
        divided.sort_unstable_by_key(|state| state.id);
        let mut held = Vec::with_capacity(divided.len());
        for state in divided {
            held.push(state.altering.lock().await);
            self.settler.events_settled(state).await;
        }
        held
    }

    async fn new_tablets(&self, ids: &[TableId]) -> Result<Vec<Vec<TabletId>>> {
        let (store, ids) = (Arc::clone(&self.store), ids.to_vec());
        task::run(self.store.pool(), move || {
            let catalog = store.tables.catalog();
            let tables = ids.iter().map(|id| catalog.require(*id));
            tables.map(|table| store.meta().new_tablets(table?)).collect::<Result<_>>()
        })
        .await
    }

    /// Moves the generated ids of a table: the next one is at least `next` (ALTER TABLE ..
    /// AUTO_INCREMENT). They never go back.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of the log.
    pub async fn move_counter(&self, id: TableId, next: u64) -> Result<()> {
        self.term.begun().await?;
        let state = self.states_of(&[id])?.remove(0);
        let Some(counter) = &state.counter else { return Ok(()) };
        let lsn = counter.move_to(next, &|table, end| self.settler.count(table, end))?;
        self.store.horizon().wait(lsn).await;
        Ok(())
    }

    /// Adds, drops or renames columns. Existing rows are converted when they are read.
    ///
    /// # Errors
    /// Those of metadata for the new columns, and those of the log.
    pub async fn alter_columns(&self, id: TableId, changes: Vec<SchemaChange>) -> Result<()> {
        self.term.begun().await?;
        let states = self.states_of(&[id])?;
        let _one = self.lock_definition(&states[0]).await?;
        let schema = self.store.meta().catalog().altered(id, &changes)?;
        self.barrier(BarrierBody::Alter(schema), &states).await
    }

    /// Changes the partitions of a table, in time independent of their rows. Returns warnings.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn change_partitions(
        &self,
        id: TableId,
        change: PartitionChange,
    ) -> Result<Vec<String>> {
        self.term.begun().await?;
        let states = self.states_of(&[id])?;
        let _one = self.lock_definition(&states[0]).await?;
        let store = Arc::clone(&self.store);
        // Ids may have to be reserved.
        let plan = move || store.meta().change_partitions(id, &change);
        let changed = task::run(self.store.pool(), plan).await?;
        if let Some(change) = changed.record {
            self.barrier(BarrierBody::Divide(vec![change]), &states).await?;
        }
        Ok(changed.notes)
    }

    /// Makes the partitions that rows need, in a table with AUTO PARTITION: they are there before
    /// the record of the rows. Of `rows`, which have the columns of the target, the first
    /// `removals` only remove their key. What others make meanwhile is there as well.
    ///
    /// # Errors
    /// `TooManyPartitions`, and those of [`Self::change_partitions`].
    pub(crate) async fn make_partitions(
        &self,
        target: &LoadTarget,
        rows: &[u8],
        removals: u32,
    ) -> Result<()> {
        let Some(layout) = target.state.layout() else { return Ok(()) };
        let wanted = layout.wanted(target.schema(), rows, removals);
        if wanted.is_empty() {
            return Ok(());
        }
        drop(layout);
        self.change_partitions(target.id(), PartitionChange::Make(wanted)).await.map(drop)
    }

    /// Sets table properties. Returns warnings.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn set_properties(
        &self,
        id: TableId,
        pairs: Vec<(String, String)>,
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let properties = |catalog: &Catalog| {
            let (properties, warned) = catalog.properties_with(id, &pairs)?;
            warnings = warned;
            Ok(Some(Definition::Properties(properties)))
        };
        self.define(id, properties).await?;
        self.follow_clock(id).await;
        Ok(warnings)
    }

    /// Gives a table other row policies: those that `change` says, if any. They hold for every
    /// statement that begins behind it. Returns whether it has changed something.
    ///
    /// # Errors
    /// Those of `change`, and those of the log.
    pub async fn change_policies(
        &self,
        id: TableId,
        change: impl FnOnce(&Catalog) -> Result<Option<Vec<RowPolicy>>>,
    ) -> Result<bool> {
        self.define(id, |catalog| Ok(change(catalog)?.map(Definition::Policies))).await
    }

    /// Gives a table a comment.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn set_comment(&self, id: TableId, comment: String) -> Result<()> {
        let comment = |catalog: &Catalog| {
            catalog.check_comment(id, &comment)?;
            Ok(Some(Definition::Comment(comment)))
        };
        self.define(id, comment).await.map(drop)
    }

    /// Changes the definition of a table, one statement after the other, to what `change` makes of
    /// the catalog. Returns whether it has changed something.
    async fn define(
        &self,
        id: TableId,
        change: impl FnOnce(&Catalog) -> Result<Option<Definition>>,
    ) -> Result<bool> {
        let room = self.room_of_definition().await?;
        let state = self.states_of(&[id])?.remove(0);
        let _one = self.lock_definition(&state).await?;
        let Some(change) = change(&self.store.meta().catalog())? else { return Ok(false) };
        let event = MetaEvent::Define { table: id, change };
        self.settler.define_tables(std::slice::from_ref(&state), event, room).await?;
        Ok(true)
    }

    /// Gives a table the collation of columns that are added without one.
    ///
    /// # Errors
    /// 1146 if the table does not exist, and those of the log.
    pub async fn set_collation(&self, id: TableId, collation: Collation) -> Result<()> {
        self.define(id, |_| Ok(Some(Definition::Collation(collation)))).await.map(drop)
    }

    /// Makes and drops the partitions of a table with properties `dynamic_partition.*` that the
    /// clock says. Where that fails it is tried again later.
    pub(crate) async fn follow_clock(&self, id: TableId) {
        let has_clock = |table: &Arc<Table>| Dynamic::is_named(&table.properties);
        if !self.store.tables.catalog().require(id).is_ok_and(has_clock) {
            return;
        }
        let followed = self.change_partitions(id, PartitionChange::Follow).await;
        if let Some(state) = self.store.tables.state(id) {
            state.note_clock(self.store.clock().wall_micros(), followed.err());
        }
    }

    /// Creates or changes a view.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_view(&self, database: String, view: View, known: KnownView) -> Result<()> {
        self.change_names(move |meta| meta.create_view(&database, view, known)).await
    }

    /// Drops views, given by database and name; returns those that did not exist.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn drop_views(
        &self,
        views: Vec<(String, String)>,
        if_exists: bool,
    ) -> Result<Vec<(String, String)>> {
        self.change_names(move |meta| meta.drop_views(&views, if_exists)).await
    }

    /// Changes databases or views, which are in metadata alone.
    async fn change_names<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Meta) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        let store = Arc::clone(&self.store);
        let changed = task::run(self.store.pool(), move || change(store.meta())).await?;
        self.settler.show_catalog();
        Ok(changed)
    }

    /// Changes users in metadata, on a thread that may block: all that `change` does, or nothing.
    ///
    /// # Errors
    /// Those of `change`, and those of metadata.
    pub async fn change_users<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut UserAdmin) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        let change = move || store.meta().change_users(change);
        let answer = task::run(self.store.pool(), change).await?;
        self.settler.show_catalog();
        Ok(answer)
    }

    /// Reserves log space for a definition. Done before names are locked, so that a DROP, which
    /// frees space, never waits behind it.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full.
    pub(crate) async fn room_of_definition(&self) -> Result<Room> {
        self.admission.room_soon(SMALL_EVENT_BYTES).await
    }

    /// Excludes other statements that change the definition of a table; all that earlier ones have
    /// appended has settled.
    ///
    /// # Errors
    /// `TableChanged` when another table has its name.
    pub(crate) async fn lock_definition<'s>(
        &self,
        state: &'s TableState,
    ) -> Result<MutexGuard<'s, ()>> {
        let one = state.altering.lock().await;
        self.settler.events_settled(state).await;
        match state.gate.is_replaced() {
            true => Err(state.gone()),
            false => Ok(one),
        }
    }

    pub(crate) fn states_of(&self, ids: &[TableId]) -> Result<Vec<Arc<TableState>>> {
        ids.iter()
            .map(|id| {
                self.store.tables.state(*id).ok_or_else(|| err!(NoSuchTable, "Table was dropped"))
            })
            .collect()
    }

    /// Appends one barrier for these tables and waits until it has settled.
    pub(crate) async fn barrier(
        &self,
        body: BarrierBody,
        states: &[Arc<TableState>],
    ) -> Result<()> {
        self.barrier_behind(body, states, &[]).await.map(drop)
    }

    /// As [`Self::barrier`], of what was computed from rows of these tables, up to these places of
    /// the log: no other record of theirs may come before it. Returns the LSN of the record.
    ///
    /// # Errors
    /// 1213 for another record, and those of the log.
    pub(crate) async fn barrier_behind(
        &self,
        body: BarrierBody,
        states: &[Arc<TableState>],
        seen: &[(TableId, Lsn)],
    ) -> Result<Lsn> {
        self.signed_barrier_behind(body, states, seen, &mut Signature::default()).await
    }

    /// As [`Self::barrier_behind`]; it uses up the label of the statement, if it has one.
    pub(crate) async fn signed_barrier_behind(
        &self,
        body: BarrierBody,
        states: &[Arc<TableState>],
        seen: &[(TableId, Lsn)],
        signature: &mut Signature,
    ) -> Result<Lsn> {
        if states.is_empty() {
            return Ok(Lsn::ZERO);
        }
        let payload = signature.signed(body.encode());
        let bytes = SMALL_RECORD_BYTES + states.len() * BARRIER_STAMP_BYTES + payload.len();
        let room = match body {
            BarrierBody::Divide(ref changes) if changes.iter().all(Repartition::only_removes) => {
                self.room_of_removal(bytes)?
            }
            BarrierBody::Alter(_) | BarrierBody::Divide(_) => {
                self.admission.room_soon(bytes).await?
            }
            // These free room.
            BarrierBody::Truncate(_) | BarrierBody::Empty(_) | BarrierBody::Drop => {
                self.room_of_removal(bytes)?
            }
        };
        // Who has looked up places of rows appends before they move, or looks once more: as loads
        // do, it holds the latch, and waits for nothing with it.
        let mut latches = Vec::new();
        let moves = states.iter().filter(|_| !seen.is_empty());
        for resolver in moves.filter_map(|state| state.resolver.as_ref()) {
            latches.push(resolver.latch().await?);
        }
        let unsettled = self.append_barrier(body, &payload, (states, seen), (room, signature))?;
        drop(latches);
        let lsn = unsettled.lsn;
        self.settler.settled_as_told(unsettled).await?;
        Ok(lsn)
    }

    fn append_barrier(
        &self,
        body: BarrierBody,
        payload: &[u8],
        (states, seen): (&[Arc<TableState>], &[(TableId, Lsn)]),
        (room, signature): (Room, &mut Signature),
    ) -> Result<Unsettled> {
        let now = self.store.clock().wall_micros();
        // No row with an id from before gets between the record and the first new id.
        let counters = match &body {
            BarrierBody::Truncate(_) => {
                Counter::stop(states.iter().filter_map(|state| state.counter.as_deref()))
            }
            _ => Vec::new(),
        };
        let catalog = self.store.meta().catalog();
        let mut divided = Vec::new();
        if let BarrierBody::Divide(changes) = &body {
            assert_eq!(changes.len(), states.len(), "each table has partitions of its own");
            for (change, state) in changes.iter().zip(states) {
                let table = catalog.require(state.id)?;
                divided.push(Divided::new(change, table.schema(), Some(&table.partitions)));
            }
        }
        let (lsn, (unsettled, ended)) = self.store.wal.append_timed(
            Kind::Barrier as u8,
            payload,
            room,
            |lsn, time, stamp| {
                check_unchanged(states, seen)?;
                let place = (lsn, now);
                let divided = (&divided[..], &self.store.files);
                let (stamps, ended) = stamp_barrier(&body, divided, states, place, stamp)?;
                let event = body.event(&stamps);
                signature.appended(lsn, time);
                Ok::<_, Error>((self.settler.settle_later(lsn, event, None, None), ended))
            },
        )?;
        counters.iter().for_each(StoppedCounter::restart);
        ended.into_iter().for_each(|group| self.history.push(group, lsn));
        Ok(unsettled)
    }

    /// Reserves log space for a record that removes rows, from what is kept for that.
    pub(crate) fn room_of_removal(&self, bytes: usize) -> Result<Room> {
        self.store.wal.try_reserve_privileged(bytes).ok_or_else(|| {
            err!(OutOfRoom, "the log has no room left even for this statement; retry")
        })
    }
}

/// Checks that these tables have no record above what was seen of them.
fn check_unchanged(states: &[Arc<TableState>], seen: &[(TableId, Lsn)]) -> Result<()> {
    let is_above = |state: &Arc<TableState>| {
        seen.iter().any(|(table, seen)| *table == state.id && state.delta.last() > *seen)
    };
    match states.iter().any(is_above) {
        true => bail!(
            Deadlock,
            "rows were written to the table all the time while its partitions were reorganized; \
             try again when fewer are"
        ),
        false => Ok(()),
    }
}

/// Gives a table other partitions, and the files that come with them.
fn divide(divided: &Divided, (state, files): (&Arc<TableState>, &Files), lsn: Lsn) -> Barrier {
    match &divided.layout {
        Some(layout) => state.set_layout(layout),
        None => state.note_exchange(lsn, divided.tablets.clone()),
    }
    let rowsets = loaded_rowsets(files, state, &divided.schema, divided.files.clone(), lsn);
    Barrier::Divide(Arc::clone(&divided.division), rowsets)
}

/// Writes the stamp of a barrier under the append lock: ends the open group of each table and
/// applies the barrier to its state and delta.
fn stamp_barrier(
    body: &BarrierBody,
    (divided, files): (&[Divided], &Files),
    states: &[Arc<TableState>],
    (lsn, now_micros): (Lsn, i64),
    stamp: &mut Vec<u8>,
) -> Result<(Vec<BarrierStamp>, Vec<EndedGroup>)> {
    for state in states {
        let is_replaced = state.gate.is_replaced() && !matches!(body, BarrierBody::Drop);
        if is_replaced || state.is_dropped() {
            return Err(state.gone());
        }
    }
    let count = u16::try_from(states.len()).expect("a barrier has few tables");
    stamp.extend_from_slice(&count.to_le_bytes());
    let (mut stamps, mut ended) = (Vec::new(), Vec::new());
    for (at, state) in states.iter().enumerate() {
        let mut table = state.lock();
        let barrier = match body {
            BarrierBody::Truncate(tablets) | BarrierBody::Empty(tablets) => {
                state.note_truncate(lsn);
                state.layout().inspect(|layout| state.set_layout(&layout.emptied(&tablets[at])));
                Barrier::Truncate { incarnation: table.log().incarnation().next() }
            }
            BarrierBody::Alter(schema) => Barrier::Alter(Arc::clone(schema)),
            BarrierBody::Divide(_) => divide(&divided[at], (state, files), lsn),
            BarrierBody::Drop => Barrier::Drop,
        };
        let group = table.enter_barrier(lsn, barrier, now_micros);
        assert_eq!(table.log().open(), None, "no group is open behind a barrier");
        state.note_event(lsn);
        let barrier = BarrierStamp {
            table: state.id,
            incarnation: table.log().incarnation(),
            schema_version: table.log().schema_version(),
            ended: group.as_ref().map(|group| group.txn),
            version: table.log().version(),
        };
        record::write_barrier_stamp(stamp, &barrier);
        stamps.push(barrier);
        ended.extend(group);
    }
    assert_eq!(stamps.len(), states.len(), "a barrier has a stamp for each of its tables");
    if let BarrierBody::Alter(schema) = body {
        let is_newest = stamps.iter().all(|stamp| stamp.schema_version == schema.version);
        assert!(is_newest, "the columns of an ALTER are the newest of its table");
    }
    Ok((stamps, ended))
}
