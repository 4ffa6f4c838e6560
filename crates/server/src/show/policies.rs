//! SHOW ROW POLICY.

use freshet_base::Result;
use freshet_meta::{Account, Object, Privilege};
use freshet_schema::RowPolicy;

use super::listing::{Listing, some};
use crate::session::Session;

/// The policies of all tables, or those of an account or role.
///
/// # Errors
/// 1227.
pub fn listing(session: &Session, of: Option<&Account>) -> Result<Listing> {
    session.authorize(Privilege::Super, Object::Server)?;
    let mut listing = Listing::new(&[
        "PolicyName",
        "CatalogName",
        "DbName",
        "TableName",
        "Type",
        "FilterType",
        "WherePredicate",
        "User",
        "Role",
        "OriginStmt",
    ]);
    let catalog = session.shared.engine.catalog();
    let mut tables = catalog
        .tables()
        .filter(|table| !table.unlisted)
        .map(|table| (catalog.database_name(table), &table.name, &table.policies))
        .collect::<Vec<_>>();
    tables.sort_by_key(|(database, table, _)| (*database, *table));
    for (database, table, policies) in tables {
        for policy in policies {
            let holder = account(policy);
            if of.is_some_and(|of| *of != holder) {
                continue;
            }
            let shown = some(&holder);
            let (user, role) = if policy.holder.is_role { (None, shown) } else { (shown, None) };
            listing.push([
                some(&policy.name),
                some("internal"),
                some(database),
                some(table),
                some("ROW"),
                some(kind(policy)),
                some(&policy.text),
                user,
                role,
                some(statement(policy, database, table)),
            ]);
        }
    }
    Ok(listing)
}

fn account(policy: &RowPolicy) -> Account {
    Account { name: policy.holder.name.clone(), host: policy.holder.host.clone() }
}

fn kind(policy: &RowPolicy) -> &'static str {
    if policy.is_restrictive { "RESTRICTIVE" } else { "PERMISSIVE" }
}

/// The statement that creates it.
fn statement(policy: &RowPolicy, database: &str, table: &str) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let role = if policy.holder.is_role { "ROLE " } else { "" };
    format!(
        "CREATE ROW POLICY {} ON {}.{} AS {} TO {role}{} USING ({})",
        quoted(&policy.name),
        quoted(database),
        quoted(table),
        kind(policy),
        account(policy).quoted(),
        policy.text
    )
}
