//! CHECK constraints of new tables, and of tables that have rows.

use std::sync::Arc;

use freshet_base::{Result, TableId, bail, err};
use freshet_meta::{Planned, SchemaChange, TableSpec};
use freshet_query::parser::{Statement, TableName, parse};
use freshet_schema::Check;

use super::super::{query, shield};
use crate::session::Session;

/// Checks that the constraints of a new table can be evaluated.
pub fn of_table(session: &Session, spec: &TableSpec) -> Result<()> {
    let behind = spec.columns.iter().any(|column| !column.checks.is_empty());
    if behind || !spec.checks.is_empty() {
        session.shared.compile_checks(&Planned::check(spec)?.schema)?;
    }
    Ok(())
}

/// Checks that the constraints that an ALTER TABLE adds can be evaluated, and that it does nothing
/// else: what else it did would stay where rows violate them.
pub fn of_changes(session: &Session, id: TableId, changes: &[SchemaChange]) -> Result<()> {
    if !changes.iter().any(is_of_checks) {
        return Ok(());
    }
    if changes.len() > 1 {
        refuse_beside(changes)?;
    }
    let engine = &session.shared.engine;
    session.shared.compile_checks(&*engine.catalog().altered(id, changes)?)?;
    Ok(())
}

fn is_of_checks(change: &SchemaChange) -> bool {
    matches!(change, SchemaChange::AddCheck(_) | SchemaChange::EnforceCheck { .. })
}

/// Refuses constraints that are added beside other clauses.
///
/// # Errors
/// `NotSupported`.
pub fn refuse_beside(changes: &[SchemaChange]) -> Result<()> {
    if changes.iter().any(is_of_checks) {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'ALTER TABLE ... ADD CHECK with other \
             clauses'; a statement for each"
        );
    }
    Ok(())
}

/// The constraints of a table.
///
/// # Errors
/// 1146 when it was dropped.
pub fn known(session: &Session, id: TableId) -> Result<Vec<Check>> {
    let catalog = session.shared.engine.catalog();
    let table = catalog.table_by_id(id).ok_or_else(|| err!(NoSuchTable, "it was dropped"))?;
    Ok(table.schema().checks.clone())
}

/// Looks at the rows that are there by constraints that were not enforced `before`. New rows have
/// to satisfy them already. Where a row does not, all is as before.
///
/// # Errors
/// 3819, and those of reading the table.
pub async fn verify(
    session: &mut Session,
    table: &TableName,
    id: TableId,
    before: &[Check],
) -> Result<()> {
    for check in known(session, id)? {
        if !check.is_enforced || before.contains(&check) {
            continue;
        }
        let Err(error) = satisfied(session, table, &check).await else { continue };
        let engine = Arc::clone(&session.shared.engine);
        let was_there = before.iter().any(|old| old.name == check.name);
        let name = check.name;
        let undo = match was_there {
            true => SchemaChange::EnforceCheck { name, is_enforced: false },
            false => SchemaChange::DropCheck { name },
        };
        shield(session, async move { engine.ddl().alter_columns(id, vec![undo]).await }).await?;
        return Err(error);
    }
    Ok(())
}

async fn satisfied(session: &mut Session, table: &TableName, check: &Check) -> Result<()> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let database = session.database_of(table.database.as_deref())?;
    let sql = format!(
        "SELECT 1 FROM {}.{} WHERE ({}) IS FALSE LIMIT 1",
        quoted(database),
        quoted(&table.table),
        check.text
    );
    let Some(Statement::Query(select)) =
        parse(&sql, Default::default())?.pop().map(|parsed| parsed.statement)
    else {
        bail!(Internal, "the text of a constraint is no condition: {}", check.text);
    };
    let (_, mut rows) = query::run(session, &select, Vec::new(), Default::default()).await?;
    while let Some(batch) = rows.next().await? {
        if batch.num_rows() > 0 {
            bail!(CheckViolated, "Check constraint '{}' is violated.", check.name);
        }
    }
    Ok(())
}
