//! Generated columns that are added to tables: rows that are there get their values some at a time,
//! and until then NULL.

use arrow::array::{Array, Int64Array};
use freshet_base::{ErrorCode, Result, TableId, bail};
use freshet_meta::{ColumnSpec, SchemaChange};
use freshet_query::parser::{Statement, TableName, parse};

use super::super::{change, query};
use super::unverified::Unverified;
use crate::reply::bounded;
use crate::session::Session;

/// Rows that are filled by one record of the log, unless they are too long for it.
const ROWS_AT_ONCE: u64 = 20_000;

/// Whether a change adds a generated column.
pub fn is_added(change: &SchemaChange) -> bool {
    matches!(change, SchemaChange::AddColumn { column, .. } if column.generated.is_some())
}

/// Gives the rows that are there the values of a generated column that was added. New rows have
/// them already. Where a row does not take one, the column goes again.
///
/// # Errors
/// Those of the expression, `NotSupported`.
pub async fn fill(
    session: &mut Session,
    table: &TableName,
    id: TableId,
    added: &SchemaChange,
) -> Result<()> {
    let SchemaChange::AddColumn { column, .. } = added else { return Ok(()) };
    let undo = SchemaChange::DropColumn { name: column.name.clone() };
    let unverified = Unverified::new(session, id, undo);
    session.wait_durable().await;
    match filled(session, table, id, column).await {
        Ok(()) => {
            unverified.keep();
            session.info.clear();
        }
        Err(error) => {
            unverified.take_back(session).await?;
            return Err(error);
        }
    }
    Ok(())
}

async fn filled(
    session: &mut Session,
    table: &TableName,
    id: TableId,
    column: &ColumnSpec,
) -> Result<()> {
    let Some(how) = &column.generated else { return Ok(()) };
    if query::live_rows(session, id).await? == 0 {
        return Ok(());
    }
    check_fillable(session, table, column)?;
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let database = session.database_of(table.database.as_deref())?;
    let (place, name) =
        (format!("{}.{}", quoted(database), quoted(&table.table)), quoted(&column.name));
    let missing = format!("{name} IS NULL AND ({}) IS NOT NULL", how.text);
    let (mut left, mut rows) = (u64::MAX, ROWS_AT_ONCE);
    loop {
        let sql = format!("SELECT COUNT(*) FROM {place} WHERE {missing}");
        let now = count(session, &sql, id).await?;
        if now == 0 {
            return Ok(());
        }
        if now >= left {
            bail!(
                Truncated,
                "column '{}' holds NULL for {now} rows whose expression is not NULL; use a type \
                 that takes its values, or a strict sql_mode, which says which",
                column.name
            );
        }
        left = now;
        let sql = format!("UPDATE {place} SET {name} = DEFAULT WHERE {missing} LIMIT {rows}");
        let Some(Statement::Change(set)) =
            parse(&sql, Default::default())?.pop().map(|parsed| parsed.statement)
        else {
            bail!(Internal, "the text of a generated column is no expression: {}", how.text);
        };
        match change::change(session, &set, Vec::new()).await {
            Ok(_) => {}
            // They do not fit a record.
            Err(error) if error.code() == ErrorCode::OutOfRoom && rows > 1 => {
                rows = (rows / 8).max(1);
                left = u64::MAX;
            }
            Err(error) => return Err(error),
        }
        session.wait_durable().await;
    }
}

fn check_fillable(session: &Session, table: &TableName, column: &ColumnSpec) -> Result<()> {
    const INSTEAD: &str = "create a table like it with the column, copy the rows by INSERT .. \
                           SELECT, and exchange both by ALTER TABLE .. REPLACE WITH TABLE";
    if !column.nullable {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'ALTER TABLE ... ADD COLUMN ... AS ... \
             NOT NULL' of a table with rows ('{}'), which show NULL until they are filled: leave \
             NOT NULL out, or {INSTEAD}",
            table.table
        );
    }
    if !session.settings.autocommit {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'ALTER TABLE ... ADD COLUMN ... AS' of a \
             table with rows ('{}') while autocommit is off: SET autocommit = 1",
            table.table
        );
    }
    Ok(())
}

async fn count(session: &mut Session, sql: &str, id: TableId) -> Result<u64> {
    let Some(Statement::Query(select)) =
        parse(sql, Default::default())?.pop().map(|parsed| parsed.statement)
    else {
        bail!(Internal, "{sql} is no query");
    };
    let mut rows = query::check(session, &select, id).await?;
    while let Some(batch) = bounded(session, rows.next()).await? {
        let counts = batch.column(0).as_any().downcast_ref::<Int64Array>();
        if let Some(counts) = counts.filter(|counts| counts.len() == 1) {
            return Ok(u64::try_from(counts.value(0)).unwrap_or(0));
        }
    }
    bail!(Internal, "{sql} gives no number");
}
