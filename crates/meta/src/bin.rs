//! The recycle bin: tables that DROP TABLE has taken out of the list, with all they have.

use std::sync::Arc;

use freshet_base::{DbId, Result, TableId, bail};
use freshet_schema::Table;

use crate::catalog::{Catalog, Database, is_reserved_database};
use crate::names;

impl Catalog {
    /// The tables in the recycle bin, ordered by id.
    pub fn bin(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables().filter(|table| table.dropped_micros.is_some())
    }

    /// The database that RECOVER DATABASE brings back: the one with this id, or the one of this
    /// name that was dropped last.
    ///
    /// # Errors
    /// 1008 if the bin has no such database.
    pub fn database_in_bin(&self, name: &str, id: Option<DbId>) -> Result<&Arc<Database>> {
        let is_it = |one: &&Arc<Database>| one.name == name && id.is_none_or(|id| id == one.id);
        match self.dropped_databases().filter(is_it).max_by_key(|one| (one.dropped_micros, one.id))
        {
            Some(database) => Ok(database),
            None => bail!(
                DatabaseDropMissing,
                "Unknown database '{name}' in the recycle bin: SHOW CATALOG RECYCLE BIN lists what \
                 was dropped without FORCE and is kept still"
            ),
        }
    }

    /// Checks that a database can get this name.
    ///
    /// # Errors
    /// 1007 if it is taken, 1102 if it is invalid.
    pub fn check_database_name(&self, name: &str) -> Result<()> {
        if self.database(name).is_some() || is_reserved_database(name) {
            bail!(DatabaseExists, "Can't create database '{name}'; database exists");
        }
        names::check_database(name)
    }

    /// Whether a table, or its database, is in the recycle bin.
    pub fn is_in_bin(&self, table: &Table) -> bool {
        let home = self.database_by_id(table.db);
        table.dropped_micros.is_some() || home.is_some_and(|home| home.dropped_micros.is_some())
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
