//! A SELECT that assigns user variables: what comes first is evaluated first, and what each row
//! assigns is taken from the rows on their way to the client ([`Watched`]), or computed row by row.

use freshet_base::{ErrorCode, Result};
use freshet_query::syntax::Select;
use freshet_query::{Parameter, assign};

use super::{lock, query, values};
use crate::reply::Reply;
use crate::session::Session;
use crate::watched::Watched;

/// Runs a SELECT that assigns.
///
/// # Errors
/// 1235 for an assignment in a condition, a key or an aggregate; those of the query.
pub async fn select(
    session: &mut Session,
    select: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let taken = match assign::taken(select, items) {
        Err(error) if error.code() == ErrorCode::NotSupported => assign::for_each_row(select)?,
        taken => taken?,
    };
    for (variable, value) in &taken.before {
        let value = values::variable(session, value, parameters.clone()).await?;
        session.set_user_variable(variable, value)?;
    }
    let reply = match taken.query.locks() {
        true => lock::select(session, &taken.query, items, parameters).await?,
        false => query::select(session, &taken.query, items, parameters).await?,
    };
    match reply {
        Reply::Stream(columns, rows, None) if !taken.columns.is_empty() => {
            let watched = Watched::new(session, taken.columns, &columns)?;
            Ok(Reply::Stream(columns, rows, Some(watched)))
        }
        reply => Ok(reply),
    }
}
