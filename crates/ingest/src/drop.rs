//! DROP TABLE and DROP DATABASE: one record, at which nobody reads or writes the tables any more;
//! names are free when it has settled. The record of a database contains only the database, so any
//! number of tables is dropped at one position of the log; after a crash either all of them exist
//! or none. Neither statement waits for a flush: a concurrent flush finds that its table is gone.

use std::sync::Arc;

use freshet_base::{DbId, Error, Lsn, Result};
use freshet_meta::MetaEvent;
use freshet_storage::fold::Barrier;

use crate::ddl::Ddl;
use crate::group::EndedGroup;
use crate::record::{self, BarrierBody, Kind, SMALL_RECORD_BYTES};
use crate::state::TableState;

impl Ddl {
    /// Drops a database with all its tables. Returns whether it existed; an error if not, unless IF
    /// EXISTS was given.
    ///
    /// # Errors
    /// `DatabaseDropMissing`, and those of the log.
    pub async fn drop_database(&self, name: &str, if_exists: bool) -> Result<bool> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let Some(database) = catalog.database_to_drop(name, if_exists)? else { return Ok(false) };
        self.drop_with_tables(database.id).await?;
        Ok(true)
    }

    /// Drops a database with all its tables, whether they have names or not.
    pub(crate) async fn drop_with_tables(&self, id: DbId) -> Result<()> {
        let mut tables = self.store.tables.states();
        tables.retain(|table| table.db() == id);
        self.append_database_drop(id, &tables).await
    }

    /// Drops a table. Returns whether it existed; an error if not, unless IF EXISTS was given.
    ///
    /// # Errors
    /// `TableDropMissing`, and those of the log.
    pub async fn drop_table(&self, database: &str, name: &str, if_exists: bool) -> Result<bool> {
        self.term.begun().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let Some(table) = catalog.table_to_drop(database, name, if_exists)? else {
            return Ok(false);
        };
        let states = self.states_of(&catalog.with_temporary(table.id))?;
        self.barrier(BarrierBody::Drop, &states).await?;
        Ok(true)
    }

    async fn append_database_drop(&self, id: DbId, states: &[Arc<TableState>]) -> Result<()> {
        let are_own = states.iter().all(|state| state.db() == id);
        assert!(are_own, "a database is dropped with its own tables");
        let room = self.room_of_removal(SMALL_RECORD_BYTES)?;
        let now_micros = self.store.clock().wall_micros();
        let (lsn, (unsettled, ended)) =
            self.store.wal.append(Kind::DatabaseDrop as u8, &[][..], room, |lsn, stamp| {
                record::write_database_stamp(stamp, id);
                let ended = states.iter().filter_map(|state| drop_one(state, lsn, now_micros));
                let ended = ended.collect::<Vec<_>>();
                let event = MetaEvent::DropDatabase(id);
                Ok::<_, Error>((self.settler.settle_later(lsn, event, None, None), ended))
            })?;
        ended.into_iter().for_each(|group| self.history.push(group, lsn));
        self.settler.settled_as_told(unsettled).await
    }
}

/// Drops a table together with its database; called under the append lock.
fn drop_one(state: &TableState, lsn: Lsn, now_micros: i64) -> Option<EndedGroup> {
    let mut table = state.lock();
    // A table whose own DROP has not settled yet keeps that one.
    if table.log().is_dropped() {
        return None;
    }
    state.note_event(lsn);
    table.enter_barrier(lsn, Barrier::Drop, now_micros)
}
