//! Temporary partitions: they are those of a table without a name, which has a delta, keys and
//! files of its own (RFC 0038). It is there from the first one on.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail, task};
use freshet_meta::PartitionChange;

use crate::ddl::Ddl;
use crate::record::BarrierBody;

impl Ddl {
    /// Adds temporary partitions to a table, as `added` says. Returns warnings.
    ///
    /// # Errors
    /// Those of metadata, and those of the log.
    pub async fn add_temporary_partitions(
        &self,
        id: TableId,
        added: PartitionChange,
    ) -> Result<Vec<String>> {
        let room = self.room_of_definition().await?;
        let names = self.lock_names().await;
        let state = self.states_of(&[id])?.remove(0);
        // Nobody gives the table other columns or keys meanwhile.
        let _one = state.altering.lock().await;
        self.settler.events_settled(&state).await;
        let catalog = self.store.meta().catalog();
        let there = catalog.temporary_partitions(id).map(|table| table.id);
        let temporary = match there.filter(|_| catalog.has_temporary_partitions(id)) {
            Some(temporary) => temporary,
            None => {
                // Without partitions it may have other columns than the table has by now.
                self.drop_temporary(there).await?;
                let store = Arc::clone(&self.store);
                // Ids may have to be reserved.
                let make = move || store.meta().new_temporary_partitions(id);
                let table = task::run(self.store.pool(), make).await?;
                let made = table.id;
                self.settler.create(table, room).await?;
                made
            }
        };
        drop(names);
        self.change_partitions(temporary, added).await
    }

    /// Drops temporary partitions of a table. Returns warnings.
    ///
    /// # Errors
    /// 1507 for partitions that there are none, and those of the log.
    pub async fn drop_temporary_partitions(
        &self,
        id: TableId,
        names: Vec<String>,
        if_exists: bool,
    ) -> Result<Vec<String>> {
        let catalog = self.store.meta().catalog();
        let table = catalog.require(id)?;
        let Some(temporary) = catalog.temporary_partitions(id) else {
            let missing = |name: &String| format!("table '{}' has no '{name}'", table.name);
            return match if_exists {
                true => Ok(names.iter().map(missing).collect()),
                false => bail!(
                    NoSuchPartition,
                    "Wrong partition name or partition list: table '{}' has no temporary partition \
                     '{}'",
                    table.name,
                    names.first().map_or("", String::as_str)
                ),
            };
        };
        let change = PartitionChange::Drop { names, if_exists, force: true };
        self.change_partitions(temporary.id, change).await
    }

    /// The tables that have the temporary partitions of these.
    pub(crate) fn temporaries(&self, of: &[TableId]) -> Vec<TableId> {
        let catalog = self.store.meta().catalog();
        let temporary = of.iter().filter_map(|id| catalog.temporary_partitions(*id));
        temporary.map(|table| table.id).collect()
    }

    /// Drops all temporary partitions of tables.
    pub(crate) async fn drop_temporaries(&self, of: &[TableId]) -> Result<()> {
        for id in self.temporaries(of) {
            self.drop_temporary(Some(id)).await?;
        }
        Ok(())
    }

    async fn drop_temporary(&self, temporary: Option<TableId>) -> Result<()> {
        let Some(state) = temporary.and_then(|id| self.store.tables.state(id)) else {
            return Ok(());
        };
        self.barrier(BarrierBody::Drop, &[state]).await
    }
}
