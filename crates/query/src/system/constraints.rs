//! Rows of the system tables about constraints: keys, foreign keys and CHECKs.

use freshet_meta::Database;
use freshet_schema::{DeclaredKeyKind, ForeignKey, Table};

use super::catalog::{CATALOG, KeyPart, key_parts, stored};
use super::wanted::Wanted;
use super::{Cell, SystemTables};

/// The columns of unique keys, and those of foreign keys with what they reference.
pub fn key_columns(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        let mut add = |name: &str, column: &str, place: u64, references: Option<[&str; 3]>| {
            let mut row = vec![
                CATALOG.into(),
                database.name.as_str().into(),
                name.into(),
                CATALOG.into(),
                database.name.as_str().into(),
                table.name.as_str().into(),
                column.into(),
                place.into(),
            ];
            match references {
                Some(named) => {
                    row.push(place.into());
                    row.extend(named.map(Cell::from));
                }
                None => row.resize(12, Cell::Null),
            }
            rows.push(row);
        };
        for key in table.declared_keys.iter().filter(|key| key.kind.is_unique()) {
            for KeyPart { place, column, .. } in key_parts(table, key) {
                add(&key.name, &column, place, None);
            }
        }
        for key in &table.foreign_keys {
            let home = home_of(key, database);
            for ((id, referenced), place) in key.columns.iter().zip(&key.referenced).zip(1_u64..) {
                let Some(at) = table.schema().position_of(*id) else { continue };
                let column = &table.schema().columns[at].name;
                add(&key.name, column, place, Some([home, &key.table, referenced]));
            }
        }
    }
    rows
}

/// The database of the table that is referenced.
fn home_of<'a>(key: &'a ForeignKey, database: &'a Database) -> &'a str {
    key.database.as_deref().unwrap_or(&database.name)
}

/// Foreign keys, and the unique key that each references, if it is there.
pub fn references(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, &Wanted::ALL) {
        for key in &table.foreign_keys {
            let home = home_of(key, database);
            let catalog = &system.snapshot.catalog;
            let other = catalog.database(home).and_then(|home| home.tables.get(&key.table));
            // Anybody may name a table in REFERENCES; what it has is for who may see it.
            let other = other.filter(|_| system.source.may_see_table(home, &key.table));
            rows.push(vec![
                CATALOG.into(),
                database.name.as_str().into(),
                key.name.as_str().into(),
                CATALOG.into(),
                home.into(),
                other.and_then(|other| referenced_key(key, other)).map_or(Cell::Null, Cell::from),
                "NONE".into(),
                key.on_update.words().into(),
                key.on_delete.words().into(),
                table.name.as_str().into(),
                key.table.as_str().into(),
            ]);
        }
    }
    rows
}

/// The name of the unique key of `other` that has the columns which are referenced.
fn referenced_key<'a>(key: &ForeignKey, other: &'a Table) -> Option<&'a str> {
    let mut unique = other.declared_keys.iter().filter(|key| key.kind.is_unique());
    let found = unique.find(|unique| {
        let parts = key_parts(other, unique);
        let same = |(part, name): (&KeyPart, &String)| part.column.eq_ignore_ascii_case(name);
        parts.len() == key.referenced.len() && parts.iter().zip(&key.referenced).all(same)
    });
    found.map(|key| key.name.as_str())
}

/// Keys, foreign keys, which nothing enforces, and CHECKs.
pub fn constraints(system: &SystemTables, wanted: &Wanted) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, wanted) {
        let mut add = |name: &str, kind: &'static str, is_enforced: bool| {
            rows.push(vec![
                CATALOG.into(),
                database.name.as_str().into(),
                name.into(),
                database.name.as_str().into(),
                table.name.as_str().into(),
                kind.into(),
                (if is_enforced { "YES" } else { "NO" }).into(),
            ]);
        };
        for key in &table.declared_keys {
            let kind = match key.kind {
                DeclaredKeyKind::Primary => "PRIMARY KEY",
                DeclaredKeyKind::Unique | DeclaredKeyKind::UniqueHint => "UNIQUE",
                DeclaredKeyKind::Index | DeclaredKeyKind::InvisibleIndex => continue,
            };
            add(&key.name, kind, table.enforces(key));
        }
        table.foreign_keys.iter().for_each(|key| add(&key.name, "FOREIGN KEY", false));
        let checks = &table.schema().checks;
        checks.iter().for_each(|check| add(&check.name, "CHECK", check.is_enforced));
    }
    rows
}

/// The conditions of CHECKs.
pub fn checks(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (database, table) in stored(system, &Wanted::ALL) {
        for check in &table.schema().checks {
            rows.push(vec![
                CATALOG.into(),
                database.name.as_str().into(),
                check.name.as_str().into(),
                format!("({})", check.text).into(),
            ]);
        }
    }
    rows
}
