//! The temporary tables of a session.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::{Result, TableId, bail};
use freshet_ingest::{LoadTarget, UnpublishedTable};
use freshet_meta::{
    ColumnRights, Object, Privilege, authorize_columns, column_denied, seen_columns,
};
use freshet_schema::Table;

use super::Session;

/// How many temporary tables a session may have.
const TABLES_MAX: usize = 64;

/// The name under which a session knows a temporary table.
pub struct TemporaryName {
    pub database: String,
    pub name: String,
    pub table: TableId,
}

/// Temporary tables, which are dropped with this.
#[derive(Default)]
pub struct TemporaryTables {
    /// Shared with the statements that read.
    names: Arc<Vec<TemporaryName>>,
    tables: HashMap<TableId, UnpublishedTable>,
}

impl TemporaryTables {
    pub fn names(&self) -> &Arc<Vec<TemporaryName>> {
        &self.names
    }

    /// The table of this name.
    pub fn find(&self, database: &str, name: &str) -> Option<TableId> {
        let named = |one: &&TemporaryName| one.database == database && one.name == name;
        self.names.iter().find(named).map(|one| one.table)
    }

    /// Refuses one more than there may be.
    ///
    /// # Errors
    /// 1041.
    pub fn check_room(&self) -> Result<()> {
        if self.tables.len() >= TABLES_MAX {
            bail!(
                OutOfRoom,
                "the session has {TABLES_MAX} temporary tables, which is the limit; drop one first"
            );
        }
        Ok(())
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Vec<TemporaryName>)) {
        let mut names = std::mem::take(&mut self.names);
        match Arc::get_mut(&mut names) {
            Some(names) => edit(names),
            None => {
                let copy = |one: &TemporaryName| TemporaryName {
                    database: one.database.clone(),
                    name: one.name.clone(),
                    table: one.table,
                };
                let mut copied = names.iter().map(copy).collect();
                edit(&mut copied);
                names = Arc::new(copied);
            }
        }
        self.names = names;
    }
}

impl Session {
    /// Keeps a temporary table under a name until the session ends.
    pub fn keep_temporary(&mut self, database: String, table: UnpublishedTable) {
        let (id, name) = (table.target().id(), table.target().table().name.clone());
        self.temporary.edit(|names| names.push(TemporaryName { database, name, table: id }));
        self.temporary.tables.insert(id, table);
        // The name means another table now: what was resolved is stale.
        self.settings.version += 1;
    }

    /// Drops the temporary table of this name; returns whether there was one.
    pub fn drop_temporary(&mut self, database: &str, name: &str) -> bool {
        let Some(id) = self.temporary.find(database, name) else { return false };
        self.temporary.edit(|names| names.retain(|one| one.table != id));
        self.temporary.tables.remove(&id);
        self.settings.version += 1;
        true
    }

    /// Gives the name of a temporary table to another one, and drops the first.
    pub fn replace_temporary(&mut self, before: TableId, table: UnpublishedTable) {
        let id = table.target().id();
        let rename = |names: &mut Vec<TemporaryName>| {
            let mut named = names.iter_mut().filter(|one| one.table == before);
            named.next().expect("a temporary table has a name").table = id;
        };
        self.temporary.edit(rename);
        self.temporary.tables.remove(&before);
        self.temporary.tables.insert(id, table);
        self.settings.version += 1;
    }

    /// Gives a temporary table another name, which no other one of the session has.
    pub fn rename_temporary(&mut self, table: TableId, name: String) {
        let rename = |names: &mut Vec<TemporaryName>| {
            let mut named = names.iter_mut().filter(|one| one.table == table);
            named.next().expect("a temporary table has a name").name = name;
        };
        self.temporary.edit(rename);
        self.settings.version += 1;
    }

    /// As [`Self::authorize`] of a statement that uses a table: a session may do anything with its
    /// temporary tables.
    ///
    /// # Errors
    /// 1142.
    pub fn authorize_use(&self, privilege: Privilege, database: &str, table: &str) -> Result<()> {
        match self.temporary.find(database, table) {
            Some(_) => Ok(()),
            None => self.authorize(privilege, Object::Table(database, table)),
        }
    }

    /// On which columns of a table the user has a privilege.
    ///
    /// # Errors
    /// 1142 where it has it on none.
    pub fn authorize_columns(
        &self,
        privilege: Privilege,
        database: &str,
        table: &str,
    ) -> Result<ColumnRights> {
        if self.temporary.find(database, table).is_some() {
            return Ok(ColumnRights::All);
        }
        let catalog = self.shared.engine.catalog();
        authorize_columns(&catalog, self.client.actor(), privilege, (database, table))
    }

    /// Checks that the user has a privilege on these columns of a table.
    ///
    /// # Errors
    /// 1142, and 1143 for a column.
    pub fn check_columns<'a>(
        &self,
        privilege: Privilege,
        (database, table): (&str, &str),
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        let rights = self.authorize_columns(privilege, database, table)?;
        match columns.into_iter().find(|column| !rights.has(column)) {
            None => Ok(()),
            Some(column) => Err(column_denied(&self.client.account, privilege, column, table)),
        }
    }

    /// Checks that the user has any privilege on a column of a stored table.
    ///
    /// # Errors
    /// 1143 if not.
    pub fn check_seen(&self, table: &Table, column: &str) -> Result<()> {
        let catalog = self.shared.engine.catalog();
        let database = catalog.database_name(table);
        let is_own = self.temporary.find(database, &table.name).is_some();
        let seen = || seen_columns(&catalog, self.client.actor(), (database, &table.name));
        if is_own || seen().is_some_and(|seen| seen.has(column)) {
            return Ok(());
        }
        Err(column_denied(&self.client.account, Privilege::Select, column, &table.name))
    }

    /// The table of this name to load into.
    ///
    /// # Errors
    /// 1049 and 1146.
    pub fn target(&self, database: &str, table: &str) -> Result<LoadTarget> {
        match self.temporary.find(database, table) {
            Some(id) => self.shared.engine.target_of(id),
            None => self.shared.engine.target(database, table),
        }
    }

    /// The definition of the table of this name.
    ///
    /// # Errors
    /// 1049, 1146 and 1347.
    pub fn definition(&self, database: &str, table: &str) -> Result<Arc<Table>> {
        let catalog = self.shared.engine.catalog();
        match self.temporary.find(database, table) {
            Some(id) => catalog.require(id).cloned(),
            None => catalog.require_table(database, table).cloned(),
        }
    }
}
