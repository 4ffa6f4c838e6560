//! CREATE, TRUNCATE and ALTER: a barrier in the log if rows are affected, followed by a commit of
//! metadata. Loads continue meanwhile.
//!
//! Statements that assign or free names exclude each other until they are in the log and metadata;
//! none of them waits for a flush. TRUNCATE and ALTER of columns wait for the flush of their own
//! table only. Statements that affect only metadata (properties, users) are serialized by metadata
//! itself.

use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, bail, err, task};
use freshet_meta::{Catalog, Created, Database, SchemaChange, TableSpec};
use freshet_schema::{Table, TableSchema};
use freshet_storage::fold::{Barrier, Event};
use freshet_storage::view::TableView;

use crate::engine::Engine;
use crate::group::EndedGroup;
use crate::record::{self, BarrierAction, BarrierStamp, Kind};
use crate::settle::SMALL_RECORD_BYTES;
use crate::state::TableState;

/// Bytes of one table in the stamp of a barrier.
const BARRIER_STAMP_BYTES: usize = 32;

impl Engine {
    /// # Errors
    /// Those of metadata.
    pub async fn create_database(
        self: &Arc<Self>,
        name: &str,
        if_not_exists: bool,
    ) -> Result<Created<Database>> {
        let _names = self.names().lock().await;
        self.free_name(name, None).await?;
        let (engine, name) = (Arc::clone(self), name.to_owned());
        let created =
            task::run(&**self.pool(), move || engine.meta().create_database(&name, if_not_exists))
                .await?;
        self.show_catalog();
        Ok(created)
    }

    /// Creates a table; it is readable and writable on return.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_table(
        self: &Arc<Self>,
        database: &str,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let _names = self.names().lock().await;
        self.free_name(database, Some(&spec.name)).await?;
        let (engine, name) = (Arc::clone(self), database.to_owned());
        let created = task::run(&**self.pool(), move || {
            engine.meta().create_table(&name, &spec, if_not_exists)
        })
        .await?;
        if !created.existed {
            self.add_table(&created.object);
        }
        self.show_catalog();
        Ok(created)
    }

    /// Empties tables, all at one position of the log, in time independent of their rows. Returns
    /// warnings.
    ///
    /// # Errors
    /// `NoSuchTable`, and those of the log. A full disk after the barrier is only a warning.
    pub async fn truncate(self: &Arc<Self>, ids: &[TableId]) -> Result<Vec<String>> {
        let states = self.states_of(ids)?;
        self.barrier(BarrierAction::Truncate, &states, None).await?;
        let mut warnings = Vec::new();
        for state in states {
            if let Err(error) = self.settle_barriers(&state).await {
                warnings.push(format!(
                    "table is empty, but its old files are not yet removed: {error}"
                ));
            }
        }
        self.show_catalog();
        Ok(warnings)
    }

    /// Adds, drops or renames columns. Existing rows are converted when they are read. Returns
    /// warnings.
    ///
    /// # Errors
    /// Those of metadata for the new columns, and those of the log.
    pub async fn alter_columns(
        self: &Arc<Self>,
        id: TableId,
        changes: Vec<SchemaChange>,
    ) -> Result<Vec<String>> {
        let states = self.states_of(&[id])?;
        let state = &states[0];
        let _one = state.altering.lock().await;
        // An ALTER that is in the log but not yet in metadata comes first.
        if state.unsettled_alter().is_some() {
            self.settle_barriers(state).await?;
        }
        let engine = Arc::clone(self);
        let schema = task::run(&**self.pool(), move || {
            // A prepared schema left over here belongs to a statement that never got into the log.
            if engine.meta().prepared_schema(id)?.is_some() {
                engine.meta().discard_prepared(id)?;
            }
            engine.meta().prepare_schema(id, &changes)
        })
        .await?;
        self.barrier(BarrierAction::Alter, &states, Some(&schema)).await?;
        match self.settle_barriers(state).await {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Ok(vec![format!("the change holds, and is written down later: {error}")]),
        }
    }

    /// Sets table properties. Returns warnings.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn set_properties(
        self: &Arc<Self>,
        id: TableId,
        pairs: Vec<(String, String)>,
    ) -> Result<Vec<String>> {
        let engine = Arc::clone(self);
        let (_, warnings) =
            task::run(&**self.pool(), move || engine.meta().set_properties(id, &pairs)).await?;
        self.show_table(id);
        Ok(warnings)
    }

    /// Renames a table inside its database.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn rename_table(self: &Arc<Self>, id: TableId, name: String) -> Result<()> {
        let _names = self.names().lock().await;
        let database = database_of(&self.catalog(), id);
        self.free_name(&database, Some(&name)).await?;
        let engine = Arc::clone(self);
        task::run(&**self.pool(), move || engine.meta().rename_table(id, &name)).await?;
        self.show_table(id);
        Ok(())
    }

    /// Changes users in metadata, on a thread that may block.
    ///
    /// # Errors
    /// Those of `change`.
    pub async fn change_users<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&freshet_meta::Meta) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = Arc::clone(self);
        let answer = task::run(&**self.pool(), move || change(engine.meta())).await?;
        self.show_catalog();
        Ok(answer)
    }

    pub(crate) fn states_of(&self, ids: &[TableId]) -> Result<Vec<Arc<TableState>>> {
        ids.iter()
            .map(|id| self.table_state(*id).ok_or_else(|| err!(NoSuchTable, "Table was dropped")))
            .collect()
    }

    /// Appends one barrier for these tables and waits until it is durable. `schema` is that of an
    /// ALTER.
    pub(crate) async fn barrier(
        &self,
        action: BarrierAction,
        states: &[Arc<TableState>],
        schema: Option<&Arc<TableSchema>>,
    ) -> Result<Lsn> {
        if states.is_empty() {
            return Ok(self.wal().horizon().get());
        }
        let bytes = SMALL_RECORD_BYTES + states.len() * BARRIER_STAMP_BYTES;
        let room = self.wal().try_reserve_privileged(bytes).ok_or_else(|| {
            err!(OutOfRoom, "the log has no room left even for this statement; retry")
        })?;
        let payload = [action as u8];
        let now = self.clock().wall_micros();
        let (lsn, ended) =
            self.wal().append(Kind::Barrier as u8, &payload[..], room, |lsn, stamp| {
                stamp_barrier(action, states, lsn, now, stamp, schema)
            })?;
        for group in ended {
            self.group_ended(group);
        }
        self.wal().horizon().wait(lsn).await;
        self.failpoints()
            .pass("barrier-durable")
            .map_err(|error| freshet_base::Error::io("barrier", error))?;
        Ok(lsn)
    }

    /// Makes a table that was just added to metadata visible to readers and writers.
    pub(crate) fn add_table(&self, table: &Arc<Table>) {
        let view = TableView::created(table);
        let db = database_name(&self.meta().catalog(), table);
        self.put_state(Arc::new(TableState::new(&view, &db, view.flushed)));
        self.views().add(view, || self.meta().catalog());
        self.catalog_changed();
    }

    /// Publishes the current definition of a table in metadata.
    pub(crate) fn show_table(&self, id: TableId) {
        self.show(self.horizon().get(), id, Event::Define);
    }

    /// Publishes the current catalog of metadata.
    pub(crate) fn show_catalog(&self) {
        self.views().show(|| self.meta().catalog());
        self.catalog_changed();
    }
}

/// The name of the database of `table`, for messages.
pub(crate) fn database_name(catalog: &Catalog, table: &Table) -> String {
    catalog.database_by_id(table.db).map_or_else(String::new, |db| db.name.clone())
}

/// The name of a table's database; empty if it no longer exists.
pub(crate) fn database_of(catalog: &Catalog, id: TableId) -> String {
    catalog.table_by_id(id).map_or_else(String::new, |table| database_name(catalog, table))
}

/// Writes the stamp of a barrier under the append lock: ends the open group of each table and
/// applies the barrier to its state and delta.
fn stamp_barrier(
    action: BarrierAction,
    states: &[Arc<TableState>],
    lsn: Lsn,
    now_micros: i64,
    stamp: &mut Vec<u8>,
    schema: Option<&Arc<TableSchema>>,
) -> Result<Vec<EndedGroup>> {
    for state in states {
        if state.is_dropped() {
            bail!(NoSuchTable, "Table '{}' doesn't exist", state.name());
        }
    }
    let count = u16::try_from(states.len()).expect("a barrier has few tables");
    stamp.extend_from_slice(&count.to_le_bytes());
    let mut ended = Vec::new();
    for state in states {
        let mut table = state.lock();
        let barrier = match action {
            BarrierAction::Truncate => {
                Barrier::Truncate { incarnation: table.log().incarnation().next() }
            }
            BarrierAction::Alter => {
                Barrier::Alter(Arc::clone(schema.expect("an ALTER has a schema")))
            }
            BarrierAction::Drop => Barrier::Drop { with_database: false },
        };
        let group = table.enter_barrier(lsn, barrier, now_micros);
        let barrier = BarrierStamp {
            table: state.id,
            incarnation: table.log().incarnation(),
            schema_version: table.log().schema_version(),
            ended: group.as_ref().map(|group| (group.txn, group.version)),
        };
        record::write_barrier_stamp(stamp, &barrier);
        ended.extend(group);
    }
    Ok(ended)
}
