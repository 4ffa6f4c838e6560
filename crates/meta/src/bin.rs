//! The recycle bin: tables that DROP TABLE has taken out of the list, with all they have.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail};
use freshet_schema::Table;

use crate::catalog::Catalog;

impl Catalog {
    /// The tables in the recycle bin, ordered by id.
    pub fn bin(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables().filter(|table| table.dropped_micros.is_some())
    }

    /// The table that RECOVER TABLE brings back: the one with this id, or the one of this name that
    /// was dropped last.
    ///
    /// # Errors
    /// 1049 if the database does not exist, 1051 if the bin has no such table.
    pub fn table_in_bin(
        &self,
        database: &str,
        name: &str,
        id: Option<TableId>,
    ) -> Result<&Arc<Table>> {
        let home = self.require_database(database)?.id;
        let is_it = |table: &&Arc<Table>| {
            table.db == home && table.name == name && id.is_none_or(|id| id == table.id)
        };
        match self.bin().filter(is_it).max_by_key(|table| (table.dropped_micros, table.id)) {
            Some(table) => Ok(table),
            None => bail!(
                TableDropMissing,
                "Unknown table '{database}.{name}' in the recycle bin: SHOW CATALOG RECYCLE BIN \
                 lists what was dropped without FORCE and is kept still"
            ),
        }
    }
}
