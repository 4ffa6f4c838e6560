//! DROP TABLE and DROP DATABASE: one record, after which nobody reads or writes the tables, then
//! one metadata commit that frees names and files. The record of a database contains only the
//! database, so any number of tables is dropped at one position of the log; after a crash either
//! all of them exist or none. Neither statement waits for a flush: a concurrent flush finds that
//! its table is gone.

use std::sync::Arc;

use freshet_base::{DbId, Error, Lsn, Result, TableId, err, task};
use freshet_storage::fold::{Barrier, Event};

use crate::engine::Engine;
use crate::group::EndedGroup;
use crate::record::{self, BarrierAction, Kind};
use crate::settle::SMALL_RECORD_BYTES;
use crate::state::TableState;

impl Engine {
    /// Drops a database with all its tables. Returns warnings.
    ///
    /// # Errors
    /// `DatabaseDropMissing` without IF EXISTS, and those of the log. A full disk after the record
    /// is only a warning.
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
            // This includes tables that are not listed under a name yet.
            let mut tables = self.table_states();
            tables.retain(|table| table.db == id);
            self.append_database_drop(id, &tables).await?;
        }
        let settled = self.settle_database_drop(id).await;
        Ok(settled.err().map(|error| drop_warning("database", name, &error)).into_iter().collect())
    }

    /// Drops a table. Returns warnings; `None` if it is missing and IF EXISTS was given.
    ///
    /// # Errors
    /// `TableDropMissing`, and those of the log. A full disk after the barrier is only a warning.
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
        let warning = |error| drop_warning("table", &format!("{database}.{name}"), &error);
        Ok(Some(settled.err().map(warning).into_iter().collect()))
    }

    /// Removes a dropped object of this name from metadata if that has failed before; only then can
    /// the name be reused. `table` is `None` for a database.
    ///
    /// # Errors
    /// When metadata cannot be written; the name is not free then.
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

    /// Whether the database is dropped in the log but not yet in metadata.
    pub(crate) fn is_database_dropped(&self, id: DbId) -> bool {
        self.dropped_databases.lock().contains_key(&id)
    }

    /// Databases dropped in the log at or before `up_to` but not yet in metadata.
    pub(crate) fn dropped_databases(&self, up_to: Lsn) -> Vec<DbId> {
        let dropped = self.dropped_databases.lock();
        dropped.iter().filter(|(_, lsn)| **lsn <= up_to).map(|(id, _)| *id).collect()
    }

    /// Applies the DROP of a database to metadata, if the log contains one.
    ///
    /// # Errors
    /// When metadata cannot be written. The database is dropped nevertheless, and metadata is
    /// retried.
    pub(crate) async fn settle_database_drop(self: &Arc<Self>, id: DbId) -> Result<()> {
        let Some(lsn) = self.dropped_databases.lock().get(&id).copied() else { return Ok(()) };
        self.follow_drop(lsn).await?;
        let engine = Arc::clone(self);
        task::run(&**self.pool(), move || engine.remove_database(id)).await?;
        self.dropped_databases.lock().remove(&id);
        Ok(())
    }

    /// Applies the DROP of a table to metadata, if the log contains one of this table alone.
    ///
    /// # Errors
    /// Those of [`Self::settle_database_drop`].
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

    /// Waits until the record is durable: metadata must not contain what a power failure could
    /// undo.
    async fn follow_drop(&self, lsn: Lsn) -> Result<()> {
        self.horizon().wait(lsn).await;
        self.failpoints().pass("barrier-before-publish").map_err(|e| Error::io("DDL", e))
    }

    /// Removes a database and its tables from metadata and the engine. Does nothing if they are
    /// already gone.
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

    /// Removes tables from the view after metadata has removed them. Their files are deleted once
    /// no older snapshot reads them.
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

fn drop_warning(what: &str, name: &str, error: &Error) -> String {
    format!("{what} '{name}' is dropped, but its name and files are not yet free: {error}")
}

/// Drops a table together with its database; called under the append lock.
fn drop_one(state: &TableState, lsn: Lsn, now_micros: i64) -> Option<EndedGroup> {
    let mut table = state.lock();
    // A table that was dropped before keeps its own drop.
    if table.log().is_dropped() {
        return None;
    }
    table.enter_barrier(lsn, Barrier::Drop { with_database: true }, now_micros)
}
