//! Tables without a name. One that is created with its rows gets its name only once they are
//! durable: if its creation is interrupted by an error, a lost connection or a crash, nothing
//! remains. A temporary table never gets it: its session alone knows it, and drops it.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{ErrorCode, Lsn, Result, TableId, task};
use freshet_meta::{Created, Definition, MetaEvent, NewForm, TableSpec};
use freshet_schema::Table;
use freshet_wal::Room;

use crate::ddl::Ddl;
use crate::record::BarrierBody;
use crate::target::LoadTarget;

/// The retry delay of a removal that found no log space.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);

/// The result of [`Ddl::create_unlisted`].
pub enum CreateOutcome {
    /// The name exists, and IF NOT EXISTS was given.
    Exists,
    /// A table to be filled, with warnings for the user.
    Begun(UnpublishedTable, Vec<String>),
}

/// A table that has no name, or none yet; dropping this removes it with its rows.
pub struct UnpublishedTable {
    ddl: Arc<Ddl>,
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
        self.ddl.store.horizon().wait(lsn).await;
        let room = self.ddl.room_of_definition().await?;
        let _names = self.ddl.lock_names().await;
        let (table, name) = (self.target.id(), &self.target.table().name);
        let state = self.ddl.states_of(&[table])?.remove(0);
        self.ddl.store.meta().catalog().check_name(table, name)?;
        let event = MetaEvent::Define { table, change: Definition::Listed };
        self.ddl.settler.define_tables(&[state], event, room).await?;
        let catalog = self.ddl.store.meta().catalog();
        let is_listed = catalog.table_by_id(table).is_some_and(|table| !table.unlisted);
        assert!(is_listed, "a table has its name when its record has settled");
        self.listed = true;
        Ok(())
    }
}

impl UnpublishedTable {
    /// Leaves the table as it is: it has taken the place of another one.
    pub(crate) fn keep(mut self) {
        self.listed = true;
    }
}

impl Drop for UnpublishedTable {
    fn drop(&mut self) {
        // During shutdown this is left to the next start.
        if self.listed || self.ddl.store.keeper.is_stopping() {
            return;
        }
        self.ddl.drop_unlisted_later(self.target.id());
    }
}

impl Ddl {
    /// Drops a table that was never listed, in the background, as soon as the log has room.
    pub(crate) fn drop_unlisted_later(self: &Arc<Self>, id: TableId) {
        let (ddl, appends) = (Arc::clone(self), self.term.appends());
        let gone = async move {
            let _appends = appends;
            loop {
                match ddl.drop_unlisted(id).await {
                    Ok(()) => break,
                    // A turn of the log is running.
                    Err(error)
                        if error.code() == ErrorCode::OutOfRoom
                            && !ddl.store.keeper.is_stopping() =>
                    {
                        ddl.store.clock().sleep(NO_ROOM_PAUSE).await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the next start drops a table that was not filled");
                        break;
                    }
                }
            }
        };
        self.store.pool().spawn("drop-unlisted", Box::pin(gone));
    }

    /// Creates a table that has no name yet, to be filled with its first rows.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_unlisted(
        self: &Arc<Self>,
        database: &str,
        spec: TableSpec,
        if_not_exists: bool,
    ) -> Result<CreateOutcome> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let created = self.new_table(database, spec, if_not_exists).await?;
        let Created { object: table, existed, warnings } = created;
        if existed {
            return Ok(CreateOutcome::Exists);
        }
        Ok(CreateOutcome::Begun(self.begin_unlisted(&table, room).await?, warnings))
    }

    /// Creates a temporary table. Returns warnings, too.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_temporary(
        self: &Arc<Self>,
        database: &str,
        spec: TableSpec,
    ) -> Result<(UnpublishedTable, Vec<String>)> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let (store, database) = (Arc::clone(&self.store), database.to_owned());
        // Ids may have to be reserved.
        let make = move || store.meta().new_temporary(&database, &spec);
        let created = task::run(self.store.pool(), make).await?;
        Ok((self.begin_unlisted(&created.object, room).await?, created.warnings))
    }

    /// Creates the table that the rows of another one are copied to, under the name of that one,
    /// which it does not have yet. Returns warnings, too.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_copy(
        self: &Arc<Self>,
        before: &Table,
        form: &NewForm,
    ) -> Result<(UnpublishedTable, Vec<String>)> {
        self.copy_of(before, form, None).await
    }

    /// Creates the table whose rows take the place of those of some partitions of another one. It
    /// takes its generated ids from that one, so that rows of both never have the same. Returns
    /// warnings, too.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_beside(
        self: &Arc<Self>,
        before: &Table,
        form: &NewForm,
    ) -> Result<(UnpublishedTable, Vec<String>)> {
        self.copy_of(before, form, Some(before.id)).await
    }

    async fn copy_of(
        self: &Arc<Self>,
        before: &Table,
        form: &NewForm,
        owner: Option<TableId>,
    ) -> Result<(UnpublishedTable, Vec<String>)> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        if catalog.require(before.id)?.foreign_keys != before.foreign_keys {
            // Those of the copy would not follow a RENAME that came before it.
            return Err(self.states_of(&[before.id])?.remove(0).changed());
        }
        let database = catalog.database_name(before).to_owned();
        let (store, spec) = (Arc::clone(&self.store), form.spec.clone());
        // Ids may have to be reserved.
        let make = move || store.meta().new_temporary(&database, &spec);
        let Created { object: table, warnings, .. } = task::run(self.store.pool(), make).await?;
        let policies = form.policies(before, &table)?;
        form.check_combined(before, &table)?;
        let properties = before.properties.clone();
        let table = Table { policies, properties, ..Table::clone(&table) };
        let _counting = owner.map(|owner| self.store.tables.count_with(table.id, owner));
        Ok((self.begin_unlisted(&table, room).await?, warnings))
    }

    async fn begin_unlisted(
        self: &Arc<Self>,
        table: &Table,
        room: Room,
    ) -> Result<UnpublishedTable> {
        let table = Arc::new(Table { unlisted: true, ..table.clone() });
        self.settler.create(Arc::clone(&table), room).await?;
        let state = self.states_of(&[table.id])?.remove(0);
        let target = LoadTarget::new(state, table);
        Ok(UnpublishedTable { ddl: Arc::clone(self), target, listed: false })
    }

    async fn drop_unlisted(&self, id: TableId) -> Result<()> {
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        // Its record may have settled after its statement was given up.
        let is_left = catalog.table_by_id(id).is_some_and(|table| catalog.is_left_over(table));
        let Some(state) = self.store.tables.state(id).filter(|_| is_left) else {
            return Ok(());
        };
        self.barrier(BarrierBody::Drop, &[state]).await
    }
}
