//! CREATE and DROP ROW POLICY (RFC 0028).

use std::sync::Arc;

use freshet_base::{Result, TableId, bail};
use freshet_meta::{Account, Object, PolicySpec, Privilege};
use freshet_query::parser::{PolicyStatement, TableName, parse};

use super::super::{query, shield};
use crate::reply::Reply;
use crate::session::Session;

/// Runs such a statement.
///
/// # Errors
/// 1227; unknown names, and conditions that are none.
pub async fn run(session: &mut Session, statement: &PolicyStatement) -> Result<Reply> {
    session.authorize(Privilege::Super, Object::Server)?;
    match statement {
        PolicyStatement::Create { table, policy, if_not_exists } => {
            create(session, table, policy, *if_not_exists).await
        }
        PolicyStatement::Drop { name, table, holder, if_exists } => {
            let holder = holder.as_ref();
            match drop(session, name, (table.as_ref(), holder)).await? {
                true => Ok(Reply::done()),
                false if *if_exists => {
                    let note = format!("Unknown row policy '{name}'");
                    session.diagnostics.push("Note", 1105, note);
                    Ok(Reply::done())
                }
                false => bail!(NoSuchPolicy, "Unknown row policy '{name}'"),
            }
        }
    }
}

async fn create(
    session: &mut Session,
    table: &TableName,
    policy: &PolicySpec,
    if_not_exists: bool,
) -> Result<Reply> {
    let id = table_id(session, table)?;
    let engine = Arc::clone(&session.shared.engine);
    // Names are checked first, whose errors are clearer.
    let policies = engine.catalog().policies_with(id, policy, if_not_exists)?;
    if policies.is_some() {
        try_out(session, table, (id, policy)).await?;
    }
    let made = policy.clone();
    let create = async move {
        let change =
            |catalog: &freshet_meta::Catalog| catalog.policies_with(id, &made, if_not_exists);
        engine.ddl().change_policies(id, change).await
    };
    if !shield(session, create).await? {
        let note = format!("Row policy '{}' already exists", policy.name);
        session.diagnostics.push("Note", 1105, note);
    }
    Ok(Reply::done())
}

/// The table of this name, which is neither temporary nor a view.
fn table_id(session: &Session, table: &TableName) -> Result<TableId> {
    let database = session.database_of(table.database.as_deref())?;
    if session.temporary.find(database, &table.table).is_some() {
        bail!(
            NotSupported,
            "Table '{}' is temporary: only its session reads it, and no row policy restricts it",
            table.table
        );
    }
    Ok(session.shared.engine.catalog().require_table(database, &table.table)?.id)
}

/// Plans a query of the rows that the policy shows.
async fn try_out(
    session: &mut Session,
    table: &TableName,
    (id, policy): (TableId, &PolicySpec),
) -> Result<()> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let database = session.database_of(table.database.as_deref())?.to_owned();
    let sql = format!("SELECT 1 FROM {}.{}", quoted(&database), quoted(&table.table));
    let parsed = parse(&sql, session.settings.mode)?.remove(0);
    query::try_filter(session, &parsed.statement, id, &policy.text).await
}

/// Drops the policy of this name; returns whether there was one.
async fn drop(
    session: &Session,
    name: &str,
    (table, holder): (Option<&TableName>, Option<&Account>),
) -> Result<bool> {
    let engine = Arc::clone(&session.shared.engine);
    let ids = match table {
        Some(table) => vec![table_id(session, table)?],
        None => with_policy(session, name, holder)?,
    };
    let (id, name, holder) = match ids[..] {
        [] => return Ok(false),
        [id] => (id, name.to_owned(), holder.cloned()),
        _ => bail!(
            WrongArguments,
            "Several tables have a row policy '{name}': say which by ON, as SHOW ROW POLICY lists \
             them"
        ),
    };
    let drop = async move {
        let change =
            |catalog: &freshet_meta::Catalog| catalog.policies_without(id, &name, holder.as_ref());
        engine.ddl().change_policies(id, change).await
    };
    shield(session, drop).await
}

/// The tables that have a policy of this name.
fn with_policy(session: &Session, name: &str, holder: Option<&Account>) -> Result<Vec<TableId>> {
    let catalog = session.shared.engine.catalog();
    let mut ids = Vec::new();
    for table in catalog.tables().filter(|table| !table.unlisted && !table.policies.is_empty()) {
        if catalog.policies_without(table.id, name, holder)?.is_some() {
            ids.push(table.id);
        }
    }
    Ok(ids)
}
