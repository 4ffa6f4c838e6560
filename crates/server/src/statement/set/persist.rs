//! SET PERSIST, SET PERSIST_ONLY and RESET PERSIST.

use std::sync::Arc;

use freshet_base::{ErrorCode, Result, bail};
use freshet_meta::{Object, Privilege};
use freshet_query::syntax::Scalar;

use super::super::{shield, values};
use super::{check_reachable, id_of_session, note, only_of_session};
use crate::session::Session;
use crate::variables::{self, Globals, Kept};

/// SET PERSIST of what is set by now.
///
/// # Errors
/// When it cannot be written; it is set then, and not kept.
pub async fn keep(session: &Session, name: &str) -> Result<()> {
    let (id, shared) = (variables::require(name)?, Arc::clone(&session.shared));
    let edit = move |kept: &mut Kept| {
        // Read when it is the turn of this statement: what another one sets and keeps meanwhile is
        // newer, and stays.
        let value = id.of(&shared.globals.load()).clone();
        kept.insert(id.variable().name.to_owned(), value);
    };
    change(session, edit).await
}

/// SET PERSIST_ONLY.
///
/// # Errors
/// Those of SET GLOBAL, and when it cannot be written.
pub async fn keep_only(session: &mut Session, name: &str, value: Option<&Scalar>) -> Result<()> {
    if let Some(name) = id_of_session(name) {
        return Err(only_of_session(name));
    }
    let id = variables::require(name)?;
    session.authorize(Privilege::Super, Object::Server)?;
    let value = match value {
        Some(expr) => Some(values::value(session, expr, Vec::new()).await?),
        None => None,
    };
    check_reachable(session, id, value.as_ref())?;
    let (value, warning) = Globals::accepted(id, value.as_ref())?;
    note(session, warning);
    change(session, move |kept| drop(kept.insert(id.variable().name.to_owned(), value))).await
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
