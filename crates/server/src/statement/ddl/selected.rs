//! CREATE TABLE .. AS SELECT: the columns that a query gives a table, and its rows.

use std::sync::Arc;

use freshet_base::Result;
use freshet_ingest::{CreateOutcome, OnExisting, UnpublishedTable};
use freshet_meta::{ColumnSpec, TableSpec};
use freshet_query::origin::flags;
use freshet_query::parser::{CreateTable, OnSameKey};
use freshet_query::result::ResultColumn;
use freshet_query::syntax::Select;
use freshet_schema::{ColumnType, TableForm};

use super::{shield, warn};
use crate::as_of::AsOf;
use crate::insert::{Grouping, Target};
use crate::reply::Reply;
use crate::session::Session;
use crate::statement::insert::{self, Selected};
use crate::statement::result_columns::column_spec;

/// CREATE TABLE .. AS SELECT: the columns follow from the query, and its rows are one load outside
/// of any transaction. The table becomes visible when its rows are durable.
///
/// # Errors
/// Those of the query and of the table; rows that it does not take.
pub async fn create_as(
    session: &mut Session,
    database: String,
    mut spec: TableSpec,
    create: &CreateTable,
    select: &Select,
) -> Result<Reply> {
    let rows = selected(session, &mut spec, select).await?;
    let engine = Arc::clone(&session.shared.engine);
    let (name, if_not_exists) = (spec.name.clone(), create.if_not_exists);
    let home = database.clone();
    let begun = async move { engine.ddl().create_unlisted(&home, spec, if_not_exists).await };
    let table = match shield(session, begun).await? {
        CreateOutcome::Begun(table, warnings) => {
            warn(session, warnings);
            table
        }
        CreateOutcome::Exists => {
            session.diagnostics.push("Note", 1050, format!("Table '{name}' already exists"));
            return Ok(Reply::done());
        }
    };
    let loaded = fill(session, &table, rows, on_existing(create)).await?;
    let lsn = session.acked;
    shield(session, async move { table.list(lsn).await }).await?;
    Ok(loaded)
}

/// The rows of AS SELECT, whose columns become those of a table without any.
///
/// # Errors
/// Those of the query.
pub async fn selected(
    session: &mut Session,
    spec: &mut TableSpec,
    select: &Select,
) -> Result<Selected> {
    let open = session.transactions.open();
    let (was_open, had_read) = (open.is_some(), open.is_some_and(|open| open.snapshot().is_some()));
    session.transactions.writable(&session.shared.engine, &session.settings)?;
    let losses = session.settings.losses(spec.form);
    let rows = Selected::run(session, select, Vec::new(), losses).await?;
    // What planning has opened has a snapshot without the new table.
    match (was_open, had_read) {
        (false, _) => session.transactions.roll_back(),
        (true, false) => session.transactions.forget_snapshot(),
        (true, true) => {}
    }
    if spec.columns.is_empty() || spec.form == TableForm::MySql {
        let own = std::mem::take(&mut spec.columns);
        let of_column = match spec.form {
            TableForm::MySql => stored_spec,
            TableForm::Olap => column_spec,
        };
        spec.columns = with_own(own, rows.columns.iter().map(of_column).collect());
        if spec.form == TableForm::Olap {
            // Tables in the syntax of Doris compare by bytes, whatever their rows come from.
            spec.columns.iter_mut().for_each(|column| column.collation = None);
        }
    }
    Ok(rows)
}

/// The columns of a table, its own and those of AS SELECT: those that are not selected first, and
/// of those that are, its own.
fn with_own(mut own: Vec<ColumnSpec>, selected: Vec<ColumnSpec>) -> Vec<ColumnSpec> {
    let selected = selected.into_iter().map(|column| {
        let is_it = |other: &ColumnSpec| other.name.eq_ignore_ascii_case(&column.name);
        let at = own.iter().position(is_it);
        at.map_or(column, |at| own.remove(at))
    });
    let selected = selected.collect::<Vec<_>>();
    own.into_iter().chain(selected).collect()
}

/// Loads the rows of AS SELECT.
///
/// # Errors
/// Rows that the table does not take.
pub async fn fill(
    session: &mut Session,
    table: &UnpublishedTable,
    rows: Selected,
    on_existing: OnExisting,
) -> Result<Reply> {
    let (shared, into) = (&session.shared, table.target().clone());
    let (as_of, settings) = (AsOf::now(session), &session.settings);
    // In the syntax of Doris the columns stand in the order of the query.
    let names = match into.table().form {
        TableForm::MySql => Some(rows.columns.iter().map(|column| column.name.clone())),
        TableForm::Olap => None,
    };
    let names = names.map(Iterator::collect::<Vec<_>>);
    let names = names.as_deref();
    let target = Target::new(shared, settings, as_of, into, names, on_existing)?;
    insert::from_rows(session, target, Grouping::OfNewTable, rows).await
}

/// What becomes of rows whose key is there.
pub fn on_existing(create: &CreateTable) -> OnExisting {
    match create.on_same_key {
        OnSameKey::Unsaid => OnExisting::Refuse,
        OnSameKey::Ignore => OnExisting::Skip,
        OnSameKey::Replace => OnExisting::Replace,
    }
}

/// The column of a table that has the values of a result column.
fn stored_spec(column: &ResultColumn) -> ColumnSpec {
    let spec = column_spec(column);
    if column.labels.is_empty() {
        return spec;
    }
    let len = column.length / 4;
    let ty = match column.flags & flags::SET {
        0 => ColumnType::Enum { len },
        _ => ColumnType::Set { len },
    };
    ColumnSpec { ty, labels: column.labels.clone(), ..spec }
}
