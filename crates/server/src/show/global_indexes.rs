//! SHOW GLOBAL INDEX, in the columns of PolarDB-X.

use std::sync::Arc;

use freshet_base::{ColumnId, Result};
use freshet_meta::is_reserved_database;
use freshet_query::parser::TableName;
use freshet_schema::{ClauseDivision, DeclaredKey, Table};

use super::catalog::{stored, visible};
use super::listing::{Listing, some};
use crate::session::Session;

/// The global indexes of a table, or of all tables of the current database.
pub fn listing(session: &Session, name: Option<&TableName>) -> Result<Listing> {
    let mut listing = Listing::new(&[
        "SCHEMA",
        "TABLE",
        "NON_UNIQUE",
        "KEY_NAME",
        "INDEX_NAMES",
        "COVERING_NAMES",
        "INDEX_TYPE",
        "DB_PARTITION_KEY",
        "DB_PARTITION_POLICY",
        "DB_PARTITION_COUNT",
        "TB_PARTITION_KEY",
        "TB_PARTITION_POLICY",
        "TB_PARTITION_COUNT",
        "STATUS",
    ]);
    let database = session.database_of(name.and_then(|name| name.database.as_deref()))?;
    if is_reserved_database(database) {
        return Ok(listing);
    }
    let mut tables = match name {
        Some(name) => vec![stored(session, name)?],
        None => visible(session, database)?,
    };
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    for table in &tables {
        for key in table.declared_keys.iter().filter(|key| key.global.is_some()) {
            add(&mut listing, database, table, key);
        }
    }
    Ok(listing)
}

fn add(listing: &mut Listing, database: &str, table: &Arc<Table>, key: &DeclaredKey) {
    let columns = &table.schema().columns;
    let names = |ids: &[ColumnId]| {
        let name = |id: &ColumnId| columns.iter().find(|column| column.id == *id);
        let names = ids.iter().filter_map(name).map(|column| column.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let (first, second) = match key.placement() {
        Some(clause) => (clause.first_division(), clause.second_division()),
        None => (None, None),
    };
    let mut row = vec![
        some(database),
        some(&table.name),
        some(u8::from(!key.kind.is_unique())),
        some(&key.name),
        some(names(&key.columns)),
        some(names(&table.covered_by(key))),
        some("BTREE"),
    ];
    for division in [first, second] {
        let of = |text: fn(&ClauseDivision) -> String| division.as_ref().map(text);
        row.push(of(|division| division.by.clone()));
        row.push(of(|division| division.policy.clone()));
        row.push(division.as_ref().and_then(|division| division.count.map(|n| n.to_string())));
    }
    // Which other servers have while rows are filled in: here files get the index later, and are
    // scanned until then.
    row.push(some("PUBLIC"));
    listing.push(row);
}
