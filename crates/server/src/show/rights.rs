//! What SHOW COLUMNS tells of columns to who has privileges on some of them.

use std::sync::Arc;

use freshet_base::Result;
use freshet_meta::{ColumnRights, Privilege};
use freshet_query::parser::TableName;
use freshet_schema::Table;

use crate::session::Session;

/// A stored table of which the user may read columns.
///
/// # Errors
/// 1142 and 1146.
pub fn listed(session: &Session, name: &TableName) -> Result<Arc<Table>> {
    let database = session.database_of(name.database.as_deref())?;
    session.authorize_columns(Privilege::Select, database, &name.table)?;
    session.definition(database, &name.table)
}

/// What the user may do with a column, as SHOW FULL COLUMNS says it; `None` if nothing.
pub fn privileges_on(
    session: &Session,
    (database, table): (&str, &Table),
    column: &str,
) -> Option<String> {
    let rights = |privilege| session.authorize_columns(privilege, database, &table.name);
    let may = |privilege| rights(privilege).is_ok_and(|rights| rights.has(column));
    if matches!(rights(Privilege::Select), Ok(ColumnRights::All)) {
        return Some("select,insert,update,references".to_owned());
    }
    let named = [
        (Privilege::Select, "select"),
        (Privilege::Insert, "insert"),
        (Privilege::Update, "update"),
    ];
    let named = named.into_iter().filter(|(privilege, _)| may(*privilege)).map(|(_, name)| name);
    let named = named.collect::<Vec<_>>();
    (!named.is_empty()).then(|| named.join(","))
}
