//! DROP TABLE and DROP DATABASE: one record, behind which nobody reads or writes the tables, and
//! one commit of metadata, which frees names and files. A database goes by its own name, so one
//! of any number of tables is gone at one place of the log, and after a crash either all there or
//! all gone. Neither waits for a flush: one that runs meanwhile finds that its table is gone.

use std::sync::Arc;

use freshet_base::{DbId, Error, Lsn, Result, TableId, err, task};
use freshet_storage::fold::{Barrier, Event};

use crate::engine::Engine;
use crate::group::EndedGroup;
use crate::record::{self, BarrierAction, Kind};
use crate::settle::SMALL_RECORD_BYTES;
use crate::state::TableState;

impl Engine {
    /// Drops a database with its tables, however many. Returns warnings.
    ///
    /// # Errors
    /// `DatabaseDropMissing` without IF EXISTS, and those of the log; a full disk behind the
    /// record is a warning.
    pub async fn drop_database(
        self: &Arc<Self>,
        name: &str,
        if_exists: bool,
    ) -> Result<Vec<String>> {
        let _names = self.names().lock().await;
        let catalog = self.catalog();
        let Some(database) = catalog.database_to_drop(name, if_exists)? else {
            return Ok(Vec::new());
        };
        let id = database.id;
        if !self.is_database_dropped(id) {
            // Those that no name leads to yet go as well.
            let mut tables = self.table_states();
            tables.retain(|table| table.db == id);
            self.append_database_drop(id, &tables).await?;
        }
        let settled = self.settle_database_drop(id).await;
        Ok(settled
            .err()
            .map(|error| behind_the_drop("database", name, &error))
            .into_iter()
            .collect())
    }

    /// Drops a table. Returns warnings; `None` when it is missing and may be.
    ///
    /// # Errors
    /// `TableDropMissing`, and those of the log; a full disk behind the barrier is a warning.
    pub async fn drop_table(
        self: &Arc<Self>,
        database: &str,
        name: &str,
        if_exists: bool,
    ) -> Result<Option<Vec<String>>> {
        let _names = self.names().lock().await;
        let catalog = self.catalog();
        let Some(table) = catalog.table_to_drop(database, name, if_exists)? else {
            return Ok(None);
        };
        let states = self.states_of(&[table.id])?;
        self.barrier(BarrierAction::Drop, &states, None).await?;
        let settled = self.settle_drop(&states[0]).await;
        let warning = |error| behind_the_drop("table", &format!("{database}.{name}"), &error);
        Ok(Some(settled.err().map(warning).into_iter().collect()))
    }

    /// Lets metadata forget what had this name and is dropped, where it could not so far: the
    /// name is free for another only then. `table` is `None` for a database.
    ///
    /// # Errors
    /// When metadata cannot be written; the name is not free.
    pub(crate) async fn free_name(
        self: &Arc<Self>,
        database: &str,
        table: Option<&str>,
    ) -> Result<()> {
        let catalog = self.catalog();
        let Some(database) = catalog.database(database) else { return Ok(()) };
        self.settle_database_drop(database.id).await?;
        let table = table.and_then(|name| database.tables.get(name));
        match table.and_then(|table| self.table_state(table.id)) {
            Some(state) => self.settle_drop(&state).await,
            None => Ok(()),
        }
    }

    async fn append_database_drop(&self, id: DbId, states: &[Arc<TableState>]) -> Result<()> {
        let room = self.wal().try_reserve_privileged(SMALL_RECORD_BYTES).ok_or_else(|| {
            err!(OutOfRoom, "the log has no room left even for this statement; retry")
        })?;
        let now_micros = self.clock().wall_micros();
        let (lsn, ended) =
            self.wal().append(Kind::DatabaseDrop as u8, &[][..], room, |lsn, stamp| {
                record::write_database_drop_stamp(stamp, id);
                self.dropped_databases.lock().insert(id, lsn);
                let ended = states.iter().filter_map(|state| drop_one(state, lsn, now_micros));
                Ok::<_, Error>(ended.collect::<Vec<_>>())
            })?;
        ended.into_iter().for_each(|group| self.group_ended(group));
        self.horizon().wait(lsn).await;
        self.failpoints().pass("barrier-durable").map_err(|error| Error::io("barrier", error))
    }

    /// Whether the log has dropped a database that metadata still has.
    pub(crate) fn is_database_dropped(&self, id: DbId) -> bool {
        self.dropped_databases.lock().contains_key(&id)
    }

    /// Databases up to this place of the log that metadata still has though they are dropped.
    pub(crate) fn dropped_databases(&self, up_to: Lsn) -> Vec<DbId> {
        let dropped = self.dropped_databases.lock();
        dropped.iter().filter(|(_, lsn)| **lsn <= up_to).map(|(id, _)| *id).collect()
    }

    /// Brings the DROP of a database into metadata, if the log has one.
    ///
    /// # Errors
    /// When metadata cannot be written; it has happened all the same, and is tried again.
    pub(crate) async fn settle_database_drop(self: &Arc<Self>, id: DbId) -> Result<()> {
        let Some(lsn) = self.dropped_databases.lock().get(&id).copied() else { return Ok(()) };
        self.follow_drop(lsn).await?;
        let engine = Arc::clone(self);
        task::run(&**self.pool(), move || engine.remove_database(id)).await?;
        self.dropped_databases.lock().remove(&id);
        Ok(())
    }

    /// Brings the DROP of a table into metadata, if the log has one of the table alone.
    ///
    /// # Errors
    /// As above.
    pub(crate) async fn settle_drop(self: &Arc<Self>, table: &TableState) -> Result<()> {
        let Some(lsn) = table.lock().log().own_drop() else { return Ok(()) };
        if self.table_state(table.id).is_none() {
            return Ok(());
        }
        self.follow_drop(lsn).await?;
        let (engine, id) = (Arc::clone(self), table.id);
        task::run(&**self.pool(), move || engine.meta().drop_table(id)).await?;
        self.remove_tables(&[id]);
        Ok(())
    }

    /// Metadata follows the log: it tells of nothing that a power cut could undo.
    async fn follow_drop(&self, lsn: Lsn) -> Result<()> {
        self.horizon().wait(lsn).await;
        self.failpoints().pass("barrier-before-publish").map_err(|e| Error::io("DDL", e))
    }

    /// Forgets a database with its tables, in metadata and then here. Where they are gone
    /// already it does nothing.
    ///
    /// # Errors
    /// When metadata cannot be written.
    pub(crate) fn remove_database(&self, id: DbId) -> Result<()> {
        self.meta().drop_database(id)?;
        let of_it = |state: &Arc<TableState>| (state.db == id).then_some(state.id);
        let tables = self.table_states().iter().filter_map(of_it).collect::<Vec<_>>();
        self.remove_tables(&tables);
        Ok(())
    }

    /// Shows tables no more that metadata has forgotten. Their files go when no snapshot of
    /// before reads them any more.
    pub(crate) fn remove_tables(&self, ids: &[TableId]) {
        let event = |state: Arc<TableState>| {
            let (barrier, version) = (Barrier::Drop { with_database: false }, state.version());
            (state.id, Event::Barrier { barrier, ended: None, version })
        };
        let events = ids.iter().filter_map(|id| self.table_state(*id)).map(event).collect();
        let at = self.horizon().get();
        self.sweeper.retire(Lsn::ZERO, &self.views().settle(at, events, || self.meta().catalog()));
        self.remove_states(ids);
        self.catalog_changed();
    }
}

fn behind_the_drop(what: &str, name: &str, error: &Error) -> String {
    format!("{what} '{name}' is dropped, but its name and files are not yet free: {error}")
}

/// Drops a table with its database; called under the log's lock.
fn drop_one(state: &TableState, lsn: Lsn, now_micros: i64) -> Option<EndedGroup> {
    let mut table = state.lock();
    // One that was dropped before stays so.
    if table.log().is_dropped() {
        return None;
    }
    table.enter_barrier(lsn, Barrier::Drop { with_database: true }, now_micros)
}
