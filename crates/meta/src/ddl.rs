//! DDL: each statement changes store and catalog atomically.
//!
//! Statements that remove or convert rows (DROP, TRUNCATE, ALTER of columns) begin with a barrier
//! in the log; the caller has appended it before these functions are called. They refer to objects
//! by id.

use std::sync::Arc;

use freshet_base::{ColumnId, DbId, Incarnation, Result, TableId, bail, err};
use freshet_schema::{KeyModel, Partition, SchemaHistory, Table};

use crate::catalog::{Catalog, Database, is_reserved_database};
use crate::create::{Planned, check_comment};
use crate::fold::Fold;
use crate::meta::{Change, Meta};
use crate::spec::TableSpec;
use crate::{names, properties};

/// Maximum number of databases on a server.
const DATABASES_MAX: usize = 10_000;
/// Maximum number of tables on a server.
const TABLES_MAX: usize = 100_000;

/// The result of a CREATE.
#[derive(Clone, PartialEq, Debug)]
pub struct Created<T> {
    /// The new or existing object.
    pub object: Arc<T>,
    /// Whether it existed before (IF NOT EXISTS).
    pub existed: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A dropped database with its tables.
#[derive(Clone, PartialEq, Debug)]
pub struct DroppedDatabase {
    pub database: Arc<Database>,
    /// Its tables, whose files can be deleted once older snapshots are gone.
    pub tables: Vec<Arc<Table>>,
}

impl Meta {
    ///
    /// # Errors
    /// 1007 if it exists, 1102 for an invalid name.
    pub fn create_database(&self, name: &str, if_not_exists: bool) -> Result<Created<Database>> {
        self.change(|catalog| {
            let exists = format!("Can't create database '{name}'; database exists");
            if let Some(database) = catalog.database(name)
                && if_not_exists
            {
                let object = database.clone();
                return Ok((None, Created { object, existed: true, warnings: vec![exists] }));
            }
            if catalog.database(name).is_some() || is_reserved_database(name) {
                bail!(DatabaseExists, "{exists}");
            }
            names::check_database(name)?;
            if catalog.databases().count() >= DATABASES_MAX {
                bail!(Unknown, "there are {DATABASES_MAX} databases, which is the limit");
            }
            let database = Database {
                id: self.ids().database()?,
                name: name.to_owned(),
                created_micros: self.clock.0.wall_micros(),
                tables: imbl::OrdMap::new(),
            };
            let object = Arc::new(database.clone());
            let change = Change::of_catalog(move |catalog| catalog.put_database(database.clone()));
            Ok((Some(change), Created { object, existed: false, warnings: Vec::new() }))
        })
    }

    /// Removes a database with all its tables; `None` if it does not exist any more.
    ///
    /// # Errors
    /// When the disk is full. The log already contains the drop, so it must be retried.
    pub fn drop_database(&self, id: DbId) -> Result<Option<DroppedDatabase>> {
        let dropped = self.change(|catalog| {
            let Some(database) = catalog.database_by_id(id).cloned() else {
                return Ok((None, None));
            };
            let tables = catalog.tables_of(id);
            let dropped = DroppedDatabase { database, tables };
            let (database, tables) = (dropped.database.clone(), dropped.tables.clone());
            let edit = move |fold: &mut Fold| {
                tables.iter().for_each(|table| fold.remove_table(table.id));
                fold.changes += 1;
                Arc::make_mut(&mut fold.catalog).remove_database(&database);
            };
            Ok((Some(Change::of_fold(edit)), Some(dropped)))
        })?;
        self.labels().forget(id);
        Ok(dropped)
    }

    ///
    /// # Errors
    /// 1049, 1050, and all errors in the specification.
    pub fn create_table(
        &self,
        database: &str,
        spec: &TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        self.create(database, spec, if_not_exists, false)
    }

    /// CREATE TABLE of a table that has no name until [`Self::list_table`].
    ///
    /// # Errors
    /// Those of [`Self::create_table`].
    pub fn create_unlisted(
        &self,
        database: &str,
        spec: &TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        self.create(database, spec, if_not_exists, true)
    }

    /// Makes an unlisted table visible under its name.
    ///
    /// # Errors
    /// 1050 if another table has the name, 1146 if the database was dropped.
    pub fn list_table(&self, id: TableId) -> Result<Arc<Table>> {
        self.change_table(id, |catalog, table| {
            let home = catalog.database_by_id(table.db).expect("a table has a database");
            if home.tables.contains_key(&table.name) {
                bail!(TableExists, "Table '{}' already exists", table.name);
            }
            table.unlisted = false;
            Ok(Vec::new())
        })
        .map(|(table, _)| table)
    }

    fn create(
        &self,
        database: &str,
        spec: &TableSpec,
        if_not_exists: bool,
        unlisted: bool,
    ) -> Result<Created<Table>> {
        self.change(|catalog| {
            if is_reserved_database(database) {
                bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
            }
            let home = catalog.require_database(database)?;
            if let Some(table) = home.tables.get(&spec.name) {
                let exists = format!("Table '{}' already exists", spec.name);
                if !if_not_exists {
                    bail!(TableExists, "{exists}");
                }
                let object = table.clone();
                return Ok((None, Created { object, existed: true, warnings: vec![exists] }));
            }
            let mut planned = Planned::check(spec)?;
            if catalog.tables().count() >= TABLES_MAX {
                bail!(Unknown, "there are {TABLES_MAX} tables, which is the limit");
            }
            let warnings = std::mem::take(&mut planned.warnings);
            let table = self.table_of(home.id, spec, planned)?;
            let object = Arc::new(Table { unlisted, ..table });
            let change = put_table(&object);
            Ok((Some(change), Created { object, existed: false, warnings }))
        })
    }

    /// The planned table with new ids.
    fn table_of(&self, db: DbId, spec: &TableSpec, planned: Planned) -> Result<Table> {
        let tablets = (0..planned.buckets).map(|_| self.ids().tablet());
        let partition = Partition {
            id: self.ids().partition()?,
            name: spec.name.clone(),
            incarnation: Incarnation(1),
            tablets: tablets.collect::<Result<_>>()?,
        };
        let last = planned.schema.columns.iter().map(|column| column.id).max();
        Ok(Table {
            id: self.ids().table()?,
            db,
            name: spec.name.clone(),
            form: spec.form,
            key_model: KeyModel::Duplicate,
            key_columns: planned.key_columns,
            declared_keys: planned.declared_keys,
            history: SchemaHistory::new(planned.schema),
            next_column: last.map_or(ColumnId(1), ColumnId::next),
            partitions: vec![partition],
            distribution: planned.distribution,
            buckets_auto: planned.buckets_auto,
            properties: planned.properties,
            comment: spec.comment.clone(),
            created_micros: self.clock.0.wall_micros(),
            unlisted: false,
        })
    }

    /// Removes a table and the metadata of its files; `None` if it does not exist any more.
    ///
    /// # Errors
    /// When the disk is full. The log already contains the barrier, so it must be retried.
    pub fn drop_table(&self, id: TableId) -> Result<Option<Arc<Table>>> {
        self.change(|catalog| {
            let Some(table) = catalog.table_by_id(id).cloned() else {
                return Ok((None, None));
            };
            Ok((Some(Change::of_fold(move |fold| fold.remove_table(id))), Some(table)))
        })
    }

    /// ALTER TABLE .. RENAME within the database.
    ///
    /// # Errors
    /// 1146 if the table does not exist, 1050 if the name is taken.
    pub fn rename_table(&self, id: TableId, name: &str) -> Result<Arc<Table>> {
        self.change_table(id, |catalog, table| {
            names::check_table(name, table.form)?;
            let home = catalog.database_by_id(table.db).expect("a table has a database");
            if home.tables.contains_key(name) {
                bail!(TableExists, "Table '{name}' already exists");
            }
            // The single partition has the name of its table.
            for partition in &mut table.partitions {
                name.clone_into(&mut partition.name);
            }
            name.clone_into(&mut table.name);
            Ok(Vec::new())
        })
        .map(|(table, _)| table)
    }

    /// ALTER TABLE .. SET; returns warnings.
    ///
    /// # Errors
    /// 1146 if the table does not exist; an unknown property or an invalid value.
    pub fn set_properties(
        &self,
        id: TableId,
        pairs: &[(String, String)],
    ) -> Result<(Arc<Table>, Vec<String>)> {
        self.change_table(id, |_, table| {
            let taken = properties::set(&table.properties, pairs)?;
            table.properties = taken.properties;
            Ok(taken.warnings)
        })
    }

    ///
    /// # Errors
    /// 1146 if the table does not exist; a comment that is too long.
    pub fn set_comment(&self, id: TableId, comment: &str) -> Result<Arc<Table>> {
        self.change_table(id, |_, table| {
            check_comment(comment, &format!("table '{}'", table.name))?;
            comment.clone_into(&mut table.comment);
            Ok(Vec::new())
        })
        .map(|(table, _)| table)
    }

    pub(crate) fn change_table(
        &self,
        id: TableId,
        edit: impl FnOnce(&Catalog, &mut Table) -> Result<Vec<String>>,
    ) -> Result<(Arc<Table>, Vec<String>)> {
        self.change(|catalog| {
            let mut table = require(catalog, id)?.as_ref().clone();
            let warnings = edit(catalog, &mut table)?;
            let table = Arc::new(table);
            Ok((Some(put_table(&table)), (table, warnings)))
        })
    }
}

impl Catalog {
    /// The tables of a database, listed or not.
    pub fn tables_of(&self, database: DbId) -> Vec<Arc<Table>> {
        let mut tables: Vec<_> =
            self.tables().filter(|table| table.db == database).cloned().collect();
        tables.sort_unstable_by_key(|table| table.id);
        tables
    }

    /// The database with this name, for DROP DATABASE; `None` if it does not exist and `if_exists`
    /// is set.
    ///
    /// # Errors
    /// 1008 if it does not exist and `if_exists` is not set; 1044 for a reserved database.
    pub fn database_to_drop(&self, name: &str, if_exists: bool) -> Result<Option<&Arc<Database>>> {
        if is_reserved_database(name) {
            bail!(AccessDeniedDatabase, "Access denied: database '{name}' cannot be dropped");
        }
        match self.database(name) {
            None if !if_exists => Err(err!(
                DatabaseDropMissing,
                "Can't drop database '{name}'; database doesn't exist"
            )),
            found => Ok(found),
        }
    }
}

/// The table with this id, or error 1146.
pub(crate) fn require(catalog: &Catalog, id: TableId) -> Result<&Arc<Table>> {
    catalog.table_by_id(id).ok_or_else(|| err!(NoSuchTable, "Table {id} was dropped"))
}

/// The change that stores a definition.
pub(crate) fn put_table(table: &Arc<Table>) -> Change {
    let table = Arc::clone(table);
    Change::of_fold(move |fold| fold.put_table(&table))
}

#[cfg(test)]
mod tests;
