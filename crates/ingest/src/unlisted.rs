//! A table that is created with its rows: it gets its name only once they are durable. If its
//! creation is interrupted by an error, a lost connection or a crash, nothing remains.

use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, task};
use freshet_meta::{Created, TableSpec};

use crate::ddl::database_of;
use crate::engine::Engine;
use crate::open::StoppedStore;
use crate::record::BarrierAction;
use crate::target::LoadTarget;

/// The result of [`Engine::create_unlisted`].
pub enum Making {
    /// The name exists, and IF NOT EXISTS was given.
    Exists,
    /// A table to be filled, with warnings for the user.
    Begun(UnpublishedTable, Vec<String>),
}

/// A table that has no name yet; dropping this removes it with its rows.
pub struct UnpublishedTable {
    engine: Arc<Engine>,
    target: LoadTarget,
    listed: bool,
}

impl UnpublishedTable {
    /// The table to load into.
    pub fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// Makes the table visible under its name, once the log is durable up to its rows at `lsn`.
    ///
    /// # Errors
    /// 1050 when another table has the name, 1146 when its database was dropped; the table is then
    /// removed.
    pub async fn list(mut self, lsn: Lsn) -> Result<()> {
        self.engine.horizon().wait(lsn).await;
        let _names = self.engine.names().lock().await;
        let database = database_of(&self.engine.catalog(), self.target.id());
        self.engine.free_name(&database, Some(&self.target.table().name)).await?;
        let (engine, id) = (Arc::clone(&self.engine), self.target.id());
        task::run(&**self.engine.pool(), move || engine.meta().list_table(id)).await?;
        self.listed = true;
        self.engine.show_table(id);
        Ok(())
    }
}

impl Drop for UnpublishedTable {
    fn drop(&mut self) {
        // During shutdown this is left to the next start.
        if self.listed || self.engine.keeper().is_stopping() {
            return;
        }
        let (engine, appends) = (Arc::clone(&self.engine), self.engine.appends());
        let id = self.target.id();
        let gone = async move {
            let _appends = appends;
            if let Err(error) = engine.drop_unlisted(id).await {
                tracing::warn!(%error, "a table that was not filled goes with the next start");
            }
        };
        self.engine.pool().spawn("drop-unlisted", Box::pin(gone));
    }
}

impl Engine {
    /// Creates a table that has no name yet, to be filled with its first rows.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_unlisted(
        self: &Arc<Self>,
        database: &str,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<Making> {
        let _names = self.names().lock().await;
        self.free_name(database, Some(&spec.name)).await?;
        let (engine, name) = (Arc::clone(self), database.to_owned());
        let created = task::run(&**self.pool(), move || {
            engine.meta().create_unlisted(&name, &spec, if_not_exists)
        })
        .await?;
        let Created { object: table, existed, warnings } = created;
        if existed {
            return Ok(Making::Exists);
        }
        self.add_table(&table);
        let state = self.table_state(table.id).expect("it was just added");
        let target = LoadTarget::new(state, table);
        let unlisted = UnpublishedTable { engine: Arc::clone(self), target, listed: false };
        Ok(Making::Begun(unlisted, warnings))
    }

    async fn drop_unlisted(self: &Arc<Self>, id: TableId) -> Result<()> {
        let _names = self.names().lock().await;
        let Some(state) = self.table_state(id) else { return Ok(()) };
        if !state.is_dropped() {
            self.barrier(BarrierAction::Drop, &[Arc::clone(&state)], None).await?;
        }
        self.settle_drop(&state).await
    }
}

impl StoppedStore {
    /// Removes tables that a crash left without a name; their creation was never acknowledged.
    pub(crate) fn drop_unlisted(&self) -> Result<()> {
        for table in self.meta.catalog().tables().filter(|table| table.unlisted) {
            self.meta.drop_table(table.id)?;
        }
        Ok(())
    }
}
