//! CREATE, ALTER and DROP WORKLOAD GROUP, and SET PROPERTY.

use std::sync::Arc;

use freshet_base::Result;
use freshet_meta::{Object, Privilege};
use freshet_query::parser::WorkloadStatement;

use super::{commit_first, shield, users};
use crate::reply::Reply;
use crate::session::Session;

/// Runs such a statement.
///
/// # Errors
/// Missing privileges, groups that exist or do not, properties that are wrong.
pub async fn run(session: &mut Session, statement: &WorkloadStatement) -> Result<Reply> {
    commit_first(session).await?;
    let statement = statement.clone();
    if let WorkloadStatement::SetProperty { account, properties } = statement {
        let by = session.client.clone();
        let account = account.unwrap_or_else(|| by.account.clone());
        users::run(session, move |admin| admin.set_properties(by.actor(), &account, &properties))
            .await?;
        return Ok(Reply::done());
    }
    session.authorize(Privilege::Super, Object::Server)?;
    let shared = Arc::clone(&session.shared);
    let change = async move {
        let ddl = shared.engine.ddl();
        let note = match statement {
            WorkloadStatement::Create { name, properties, if_not_exists } => {
                let existed = ddl.create_group(name.clone(), properties, if_not_exists).await?;
                existed.then(|| format!("workload group '{name}' already exists"))
            }
            WorkloadStatement::Alter { name, properties } => {
                ddl.alter_group(name, properties).await?;
                None
            }
            WorkloadStatement::Drop { name, if_exists } => {
                let existed = ddl.drop_group(name.clone(), if_exists).await?;
                (!existed).then(|| format!("workload group '{name}' does not exist"))
            }
            WorkloadStatement::SetProperty { .. } => None,
        };
        shared.workload.adopt(&shared.engine);
        Ok(note)
    };
    if let Some(note) = shield(session, change).await? {
        session.diagnostics.push("Note", 1105, note);
    }
    Ok(Reply::done())
}
