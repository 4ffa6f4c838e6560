//! TRUNCATE.

use std::sync::Arc;

use freshet_base::{ErrorCode, Result};
use freshet_meta::{Object, Privilege};
use freshet_query::parser::TableName;

use super::table_id;
use crate::reply::Reply;
use crate::session::Session;
use crate::statement::shield;

/// Empties these tables at one position of the log. With IF EXISTS those that do not exist are
/// noted and left out.
///
/// # Errors
/// Missing privileges; 1044, 1049, 1146 and 1347 for what is no table, and then none is emptied.
pub async fn run(session: &mut Session, tables: &[TableName], if_exists: bool) -> Result<Reply> {
    if let [table] = tables
        && is_of_digests(session, table)
    {
        session.authorize(Privilege::Super, Object::Server)?;
        session.shared.digests.forget();
        return Ok(Reply::done());
    }
    let mut ids = Vec::with_capacity(tables.len());
    for table in tables {
        match table_id(session, table, Privilege::Drop) {
            Ok(id) => ids.push(id),
            Err(error) if if_exists && error.code() == ErrorCode::NoSuchTable => {
                let database = session.database_of(table.database.as_deref())?;
                let note = format!("Unknown table '{database}.{}'", table.table);
                session.diagnostics.push("Note", 1051, note);
            }
            Err(error) => return Err(error),
        }
    }
    ids.sort_unstable();
    ids.dedup();
    if !ids.is_empty() {
        let engine = Arc::clone(&session.shared.engine);
        shield(session, async move { engine.ddl().truncate(&ids).await }).await?;
    }
    Ok(Reply::done())
}

/// Whether it is the table of the digests of statements, which counts anew then, as in MySQL.
fn is_of_digests(session: &Session, table: &TableName) -> bool {
    let database = table.database.as_deref().or(session.database.as_deref());
    database.is_some_and(|database| database.eq_ignore_ascii_case("performance_schema"))
        && table.table.eq_ignore_ascii_case("events_statements_summary_by_digest")
}
