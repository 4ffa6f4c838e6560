//! A table that is made with its rows: no name leads to it until they are durable. Whatever ends
//! its making before, an error, a lost connection or a crash, leaves nothing behind.

use std::sync::Arc;

use freshet_base::{Lsn, Result, TableId, task};
use freshet_meta::{Created, TableSpec};

use crate::ddl::database_of;
use crate::engine::Engine;
use crate::open::StoppedStore;
use crate::record::BarrierAction;
use crate::target::LoadTarget;

/// What [`Engine::create_unlisted`] did.
pub enum Making {
    /// The name is taken, and may be (IF NOT EXISTS).
    Exists,
    /// A table to be filled, and what the user should be told.
    Begun(Unlisted, Vec<String>),
}

/// A table that no name leads to; dropped, it goes with its rows.
pub struct Unlisted {
    engine: Arc<Engine>,
    target: LoadTarget,
    listed: bool,
}

impl Unlisted {
    /// The table, to load into.
    pub fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// Lets its name lead to it, once the log is durable up to its rows at `lsn`.
    ///
    /// # Errors
    /// 1050 where another table has taken the name, 1146 where its database was dropped: it is
    /// gone then.
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

impl Drop for Unlisted {
    fn drop(&mut self) {
        // A server that stops need not hurry: the next start finds it.
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
    /// Creates a table that no name leads to yet, to be filled with its first rows.
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
        let unlisted = Unlisted { engine: Arc::clone(self), target, listed: false };
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
    /// Lets go of tables that a crash left without a name: nobody was told of them.
    pub(crate) fn drop_unlisted(&self) -> Result<()> {
        for table in self.meta.catalog().tables().filter(|table| table.unlisted) {
            self.meta.drop_table(table.id)?;
        }
        Ok(())
    }
}
