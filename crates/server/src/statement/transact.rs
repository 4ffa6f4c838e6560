//! BEGIN, COMMIT and ROLLBACK with their options, and savepoints.

use freshet_base::{Result, bail};
use freshet_query::parser::Statement;

use crate::reply::Reply;
use crate::session::Session;
use crate::transaction::{Begin, NextTransaction};

/// Runs a statement that begins or ends a transaction or a part of one.
///
/// # Errors
/// Those of a commit; 1305 for an unknown savepoint.
pub async fn run(session: &mut Session, statement: &Statement) -> Result<Reply> {
    match statement {
        Statement::Begin { label, read_only } => {
            let begin = Begin { label: label.clone(), read_only: *read_only };
            session.begin(&begin).await?;
        }
        Statement::Commit { chain } => {
            let next = session.transactions.chained();
            session.commit().await?;
            chained(session, next, *chain).await?;
        }
        Statement::Rollback { chain } => {
            let next = session.transactions.chained();
            session.transactions.roll_back();
            chained(session, next, *chain).await?;
        }
        Statement::Savepoint(name) => session.savepoint(name).await?,
        Statement::RollbackTo(name) => session.roll_back_to(name)?,
        Statement::ReleaseSavepoint(name) => session.transactions.release(name)?,
        _ => bail!(NotSupported, "this is no statement about transactions"),
    }
    Ok(Reply::done())
}

/// AND CHAIN: begins a transaction like the one that has ended.
async fn chained(session: &mut Session, next: NextTransaction, chains: bool) -> Result<()> {
    if !chains {
        return Ok(());
    }
    let info = session.info.clone();
    session.transactions.next = next;
    session.begin(&Begin::default()).await?;
    // That of the commit is what the client is told.
    session.info = info;
    Ok(())
}
