//! RENAME TABLE, also into other databases, and of views.

use freshet_base::{Result, TableId};
use freshet_meta::{MetaEvent, Moved, Renaming};

use super::Ddl;

impl Ddl {
    /// Renames tables, also into other databases, or views, all or none of them. `bind` is asked
    /// for those that go to another database, and what it gives is kept until they are there.
    ///
    /// # Errors
    /// Those of metadata, of the log, and of `bind`.
    pub(crate) async fn rename_tables<T: Send>(
        &self,
        pairs: &[Renaming],
        bind: impl FnOnce(Vec<TableId>) -> Result<T> + Send,
    ) -> Result<()> {
        let catalog = self.store.meta().catalog();
        if pairs.first().is_some_and(|pair| catalog.view(&pair.database, &pair.from).is_some()) {
            let pairs = pairs.to_vec();
            return self.change_names(move |meta| meta.rename_views(&pairs)).await;
        }
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let catalog = self.store.meta().catalog();
        let Some(event) = catalog.renamed(pairs)? else { return Ok(()) };
        let leaves = |moved: &&Moved| {
            let table = catalog.table_by_id(moved.table);
            table.is_some_and(|table| table.db != moved.database)
        };
        let _bound = match &event {
            MetaEvent::Move(moved) => {
                Some(bind(moved.iter().filter(leaves).map(|moved| moved.table).collect())?)
            }
            _ => None,
        };
        let states = self.states_of(&event.renames())?;
        self.settler.define_tables(&states, event, room).await
    }

    /// Renames a table that is not listed, as a temporary one.
    ///
    /// # Errors
    /// 1103 for a name that no table can have, 1146, and those of the log.
    pub async fn rename_unlisted(&self, id: TableId, to: &str) -> Result<()> {
        let room = self.room_of_definition().await?;
        let _names = self.lock_names().await;
        let event = self.store.meta().catalog().renamed_unlisted(id, to)?;
        self.settler.define_tables(&self.states_of(&[id])?, event, room).await
    }
}
