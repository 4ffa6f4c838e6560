//! DDL: checks a statement against the catalog, and says what its record will be.
//!
//! Nothing changes until that record has settled. The caller sees to it that meanwhile no other
//! statement decides about the same name or the same definition. CREATE and ALTER DATABASE are no
//! records: they are committed at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use freshet_base::{ColumnId, DbId, Error, Incarnation, Result, TableId, TabletId, bail, err};
use freshet_schema::{Collation, Partition, Properties, SchemaHistory, Table};

use crate::catalog::{Catalog, Database, DatabaseMode, is_reserved_database};
use crate::create::{NewPartition, Planned};
use crate::dynamic::Dynamic;
use crate::fold::{MetaEvent, Moved};
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

/// A pair of RENAME TABLE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renaming {
    pub database: String,
    pub from: String,
    /// The database of the new name.
    pub to_database: String,
    pub to: String,
}

impl Renaming {
    /// Another name in the same database.
    pub fn within(database: &str, from: &str, to: &str) -> Self {
        Self {
            database: database.to_owned(),
            from: from.to_owned(),
            to_database: database.to_owned(),
            to: to.to_owned(),
        }
    }
}

impl Meta {
    ///
    /// # Errors
    /// 1007 if it exists, 1102 for an invalid name.
    pub fn create_database(
        &self,
        name: &str,
        mode: Option<DatabaseMode>,
        collation: Option<Collation>,
        if_not_exists: bool,
    ) -> Result<Created<Database>> {
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
                mode,
                collation,
                dropped_micros: None,
                tables: imbl::OrdMap::new(),
                sequences: imbl::OrdMap::new(),
            };
            let object = Arc::new(database.clone());
            let change = Change::of_catalog(move |catalog| catalog.put_database(database.clone()));
            Ok((Some(change), Created { object, existed: false, warnings: Vec::new() }))
        })
    }

    /// ALTER DATABASE: new tables that name no collation have this one.
    ///
    /// # Errors
    /// 1049 if it does not exist, 1044 for a reserved database.
    pub fn collate_database(&self, name: &str, collation: Collation) -> Result<()> {
        self.change(|catalog| {
            if is_reserved_database(name) {
                bail!(AccessDeniedDatabase, "Access denied to database '{name}': read only");
            }
            let id = catalog.require_database(name)?.id;
            let edit = move |catalog: &mut Catalog| catalog.collate_database(id, collation);
            Ok((Some(Change::of_catalog(edit)), ()))
        })
    }

    /// The table that a CREATE TABLE would make, with new ids, or the existing one.
    ///
    /// # Errors
    /// 1049, 1050, and all errors in the specification.
    pub fn new_table(
        &self,
        database: &str,
        spec: &TableSpec,
        if_not_exists: bool,
    ) -> Result<Created<Table>> {
        let catalog = self.catalog();
        if is_reserved_database(database) {
            bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
        }
        let home = catalog.require_database(database)?;
        if let Some(table) = home.tables.get(&spec.name) {
            if !if_not_exists {
                bail!(TableExists, "Table '{}' already exists", spec.name);
            }
            let object = table.clone();
            return Ok(Created { object, existed: true, warnings: Vec::new() });
        }
        if catalog.view(database, &spec.name).is_some() {
            bail!(TableExists, "Table '{}' already exists", spec.name);
        }
        self.planned_table(&catalog, home.id, spec)
    }

    /// As [`Self::new_table`], of a table that never gets its name, which may be that of another.
    ///
    /// # Errors
    /// 1049, and all errors in the specification.
    pub fn new_temporary(&self, database: &str, spec: &TableSpec) -> Result<Created<Table>> {
        let catalog = self.catalog();
        if is_reserved_database(database) {
            bail!(AccessDeniedDatabase, "Access denied to database '{database}': read only");
        }
        self.planned_table(&catalog, catalog.require_database(database)?.id, spec)
    }

    fn planned_table(
        &self,
        catalog: &Catalog,
        db: DbId,
        spec: &TableSpec,
    ) -> Result<Created<Table>> {
        let mut planned = Planned::check(spec)?;
        Self::check_table_count(catalog)?;
        let warnings = std::mem::take(&mut planned.warnings);
        let object = Arc::new(self.table_of(db, spec, planned)?);
        Ok(Created { object, existed: false, warnings })
    }

    /// Checks the limit of tables, sequences among them.
    pub(crate) fn check_table_count(catalog: &Catalog) -> Result<()> {
        if catalog.tables().count() >= TABLES_MAX {
            bail!(Unknown, "there are {TABLES_MAX} tables and sequences, which is the limit");
        }
        Ok(())
    }

    /// The planned table with new ids.
    pub(crate) fn table_of(&self, db: DbId, spec: &TableSpec, planned: Planned) -> Result<Table> {
        let whole = NewPartition { name: spec.name.clone(), values: None };
        let new = match planned.partition_by {
            Some(_) => planned.partitions,
            None => vec![whole],
        };
        let partition = |new| self.partition_of(new, planned.buckets, Incarnation(1));
        let partitions = new.into_iter().map(partition).collect::<Result<_>>()?;
        let last = planned.schema.columns.iter().map(|column| column.id).max();
        Ok(Table {
            id: self.ids().table()?,
            db,
            name: spec.name.clone(),
            form: spec.form,
            key_model: planned.key_model,
            key_columns: planned.key_columns,
            declared_keys: planned.declared_keys,
            foreign_keys: planned.foreign_keys,
            history: SchemaHistory::new(planned.schema),
            next_column: last.map_or(ColumnId(1), ColumnId::next),
            partition_by: planned.partition_by,
            partitions,
            buckets: planned.buckets,
            distribution: planned.distribution,
            placement: planned.placement,
            buckets_auto: planned.buckets_auto,
            properties: planned.properties,
            comment: spec.comment.clone(),
            created_micros: self.clock.0.wall_micros(),
            collation: planned.collation,
            unlisted: false,
            dropped_micros: None,
            temporary_of: None,
            sequence: None,
            policies: Vec::new(),
        })
    }

    /// A new partition with new ids.
    pub(crate) fn partition_of(
        &self,
        new: NewPartition,
        buckets: u32,
        incarnation: Incarnation,
    ) -> Result<Partition> {
        let NewPartition { name, values } = new;
        let tablets = (0..buckets).map(|_| self.ids().tablet()).collect::<Result<_>>()?;
        Ok(Partition { id: self.ids().partition()?, name, incarnation, tablets, values })
    }

    /// New tablets for all partitions of a table.
    ///
    /// # Errors
    /// When ids cannot be reserved because the disk is full.
    pub fn new_tablets(&self, table: &Table) -> Result<Vec<TabletId>> {
        table.tablets().map(|_| self.ids().tablet()).collect()
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

    /// Checks that a table can get this name, by RENAME or because it appears under it.
    ///
    /// # Errors
    /// 1146 if the table does not exist, 1050 if the name is taken, 1103 if it is invalid.
    pub fn check_name(&self, id: TableId, name: &str) -> Result<()> {
        let table = self.require(id)?;
        names::check_table(name, table.form)?;
        let home = self.database_by_id(table.db).expect("a table has a database");
        if home.tables.contains_key(name) || self.view(&home.name, name).is_some() {
            bail!(TableExists, "Table '{name}' already exists");
        }
        Ok(())
    }

    /// The record of a RENAME TABLE; `None` if all tables have behind it the names that they have.
    /// Its pairs are taken from left to right, so that `a TO x, b TO a, x TO b` exchanges two
    /// tables. With a table go its temporary partitions.
    ///
    /// # Errors
    /// 1049 and 1146 for what does not exist, 1050 if a name is taken, 1103 if it is invalid.
    pub fn renamed(&self, pairs: &[Renaming]) -> Result<Option<MetaEvent>> {
        let mut names: BTreeMap<(DbId, &str), Option<&Arc<Table>>> = BTreeMap::new();
        for Renaming { database, from, to_database, to } in pairs {
            let home = self.require_database(database)?;
            let new_home = self.require_database(to_database)?;
            let known = |home: &Arc<Database>, name: &str| match names.get(&(home.id, name)) {
                Some(table) => *table,
                None => self.database_by_id(home.id)?.tables.get(name),
            };
            if self.view(database, from).is_some() {
                return Err(views_beside_tables());
            }
            let table = known(home, from)
                .ok_or_else(|| err!(NoSuchTable, "Table '{database}.{from}' doesn't exist"))?;
            names::check_table(to, table.form)?;
            if known(new_home, to).is_some() || self.view(to_database, to).is_some() {
                bail!(TableExists, "Table '{to}' already exists");
            }
            names.insert((home.id, from), None);
            names.insert((new_home.id, to), Some(table));
        }
        let moved = names.into_iter().filter_map(|((database, name), table)| {
            let table =
                table.filter(|table| (table.db, table.name.as_str()) != (database, name))?;
            Some((table, Moved { table: table.id, database, name: name.to_owned() }))
        });
        let moved = moved.collect::<Vec<_>>();
        if moved.is_empty() {
            return Ok(None);
        }
        if moved.iter().all(|(table, moved)| table.db == moved.database) {
            let renamed = moved.into_iter().map(|(_, moved)| (moved.table, moved.name));
            return Ok(Some(MetaEvent::Rename(renamed.collect())));
        }
        let temporary = |(table, moved): &(&Arc<Table>, Moved)| {
            let beside = self.temporary_partitions(table.id)?;
            Some(Moved { table: beside.id, database: moved.database, name: beside.name.clone() })
        };
        let temporary = moved.iter().filter_map(temporary).collect::<Vec<_>>();
        let all = moved.into_iter().map(|(_, moved)| moved).chain(temporary);
        Ok(Some(MetaEvent::Move(all.collect())))
    }

    /// As [`Self::renamed`], of a table that is not listed: it may have the name of another one.
    ///
    /// # Errors
    /// 1103 for a name that no table can have, and 1146.
    pub fn renamed_unlisted(&self, id: TableId, to: &str) -> Result<MetaEvent> {
        let table = self.require(id)?;
        assert!(table.unlisted, "a listed table is renamed where no other one has the name");
        names::check_table(to, table.form)?;
        Ok(MetaEvent::Rename(vec![(id, to.to_owned())]))
    }

    /// The properties of a table after ALTER TABLE .. SET, with warnings.
    ///
    /// # Errors
    /// 1146 if the table does not exist; an unknown property or an invalid value.
    pub fn properties_with(
        &self,
        id: TableId,
        pairs: &[(String, String)],
    ) -> Result<(Properties, Vec<String>)> {
        let table = self.require(id)?;
        properties::check_columns(pairs, &table.schema().columns)?;
        let taken = properties::set(table.key_model, &table.properties, pairs)?;
        if let Some(dynamic) = Dynamic::of(&taken.properties)? {
            dynamic.check(table.partition_by.as_ref(), &table.schema().columns)?;
        }
        Ok((taken.properties, taken.warnings))
    }

    /// The table with this id.
    ///
    /// # Errors
    /// 1146 if it does not exist.
    pub fn require(&self, id: TableId) -> Result<&Arc<Table>> {
        self.table_by_id(id).ok_or_else(|| err!(NoSuchTable, "Table {id} was dropped"))
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

/// Tables are renamed by the log, views in metadata alone: no one step does both.
pub(crate) fn views_beside_tables() -> Error {
    err!(
        NotSupported,
        "This version of Freshet doesn't yet support 'RENAME of tables and views at once'"
    )
}

#[cfg(test)]
mod tests;
