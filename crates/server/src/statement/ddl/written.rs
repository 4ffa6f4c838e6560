//! What a CREATE TABLE says of its table, beside what was written.

use freshet_base::{Result, bail};
use freshet_meta::{Privilege, TableSpec, make_global, show_create_table};
use freshet_query::parser::{Statement, TableName, parse};
use freshet_schema::{Table, TableForm};

use crate::session::Session;

/// A table in the syntax of MySQL that names no collation has that of its database.
pub fn collated(session: &Session, mut spec: TableSpec, database: &str) -> TableSpec {
    if spec.form == TableForm::MySql && spec.collation.or(spec.of_charset).is_none() {
        spec.collation = Some(session.collation_of(database));
    }
    spec
}

/// CREATE TABLE .. LIKE: the statement that creates the other table.
pub fn spec_like(
    session: &Session,
    like: &TableName,
    (home, name): (&str, &str),
) -> Result<TableSpec> {
    let database = session.database_of(like.database.as_deref())?;
    if (database, &*like.table) == (home, name) {
        bail!(NotUniqueTable, "Not unique table/alias: '{name}'");
    }
    session.authorize_use(Privilege::Select, database, &like.table)?;
    let spec = spec_of(&*session.definition(database, &like.table)?)?;
    // As in MySQL, which leaves out foreign keys.
    Ok(TableSpec { foreign_keys: Vec::new(), ..spec })
}

/// Makes keys global that lack a column of PARTITION BY, where the database does that; returns a
/// note for each.
pub fn made_global(session: &Session, spec: &mut TableSpec, database: &str) -> Vec<String> {
    let catalog = session.shared.engine.catalog();
    make_global(spec, catalog.database(database).and_then(|home| home.mode))
}

/// The statement that creates a copy of a table, with the keys that it has.
///
/// # Errors
/// When what is shown of it cannot be read.
pub fn spec_of(table: &Table) -> Result<TableSpec> {
    let shown = Table { unlisted: false, ..table.clone() };
    let sql = show_create_table(&shown, None);
    match parse(&sql, Default::default())?.pop().map(|parsed| parsed.statement) {
        Some(Statement::CreateTable(create)) => create.spec.with_keys_of(table),
        _ => bail!(Internal, "table '{}' cannot be described", table.name),
    }
}
