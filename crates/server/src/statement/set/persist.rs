//! SET PERSIST, SET PERSIST_ONLY and RESET PERSIST.

use std::sync::Arc;

use freshet_base::{ErrorCode, Result, bail};
use freshet_meta::{Object, Privilege};
use freshet_query::Parameter;
use freshet_query::session::Value;
use freshet_query::syntax::Scalar;

use super::super::{shield, values};
use super::{
    SERIALIZABLE, check_reachable, id_of_session, note, only_of_session, warn_of_serializable,
};
use crate::session::Session;
use crate::variables::{self, Globals, Kept, VariableId};

/// The value that a SET gives, none for DEFAULT, and the parameters of the statement.
type Given<'a> = (Option<&'a Scalar>, &'a [Parameter]);

/// SET PERSIST: SET GLOBAL, and the value is kept. Both are one step among those of others, so that
/// of two at once the later one is set and kept.
///
/// # Errors
/// Those of SET GLOBAL, and when it cannot be written; it is set then, and not kept.
pub async fn keep(session: &mut Session, name: &str, value: Given<'_>) -> Result<()> {
    let (id, value) = accepted(session, name, value).await?;
    if id == variables::require("transaction_isolation")?
        && matches!(&value, Value::Text(isolation) if isolation == SERIALIZABLE)
    {
        warn_of_serializable(session);
    }
    let shared = Arc::clone(&session.shared);
    let edit = move |kept: &mut Kept| {
        shared.globals.put(id, value.clone());
        kept.insert(id.variable().name.to_owned(), value);
    };
    change(session, edit).await
}

/// SET PERSIST_ONLY.
///
/// # Errors
/// Those of SET GLOBAL, and when it cannot be written.
pub async fn keep_only(session: &mut Session, name: &str, value: Given<'_>) -> Result<()> {
    let (id, value) = accepted(session, name, value).await?;
    change(session, move |kept| drop(kept.insert(id.variable().name.to_owned(), value))).await
}

/// The value that SET GLOBAL would set, which may come with a warning.
async fn accepted(
    session: &mut Session,
    name: &str,
    (value, parameters): Given<'_>,
) -> Result<(VariableId, Value)> {
    if let Some(name) = id_of_session(name) {
        return Err(only_of_session(name));
    }
    let id = variables::require(name)?;
    session.authorize(Privilege::Super, Object::Server)?;
    let value = match value {
        Some(expr) => Some(values::value(session, expr, parameters.to_vec()).await?),
        None => None,
    };
    check_reachable(session, id, value.as_ref())?;
    let (value, warning) = Globals::accepted(id, value.as_ref())?;
    note(session, warning);
    Ok((id, value))
}

/// RESET PERSIST of a variable, or of all; the values of this run stay.
///
/// # Errors
/// 3615 for one that is not kept, unless `if_exists`.
pub async fn forget(session: &mut Session, name: Option<&str>, if_exists: bool) -> Result<()> {
    session.authorize(Privilege::Super, Object::Server)?;
    let Some(name) = name else { return change(session, Kept::clear).await };
    let name = variables::find(name).map_or(name, |id| id.variable().name).to_owned();
    if session.shared.persisted.load().contains_key(&name) {
        return change(session, move |kept| drop(kept.remove(&name))).await;
    }
    let message = format!("Variable {name} does not exist in persisted config file");
    if !if_exists {
        bail!(NotPersisted, "{message}");
    }
    session.diagnostics.push("Warning", ErrorCode::NotPersisted.errno(), message);
    Ok(())
}

async fn change(session: &Session, edit: impl FnOnce(&mut Kept) + Send + 'static) -> Result<()> {
    let shared = Arc::clone(&session.shared);
    shield(session, async move { shared.persisted.change(edit).await }).await
}
