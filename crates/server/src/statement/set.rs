//! SET.

mod persist;

use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};
use freshet_meta::{Account, AuthData, Object, Privilege, SecondPassword, UserAdmin};
use freshet_query::Parameter;
use freshet_query::parser::{Assignment, Persists, SetTarget};
use freshet_query::session::{Scope, Value};
use freshet_query::syntax::Scalar;

use super::act::id_of;
use super::values;
use crate::auth;
use crate::reply::Reply;
use crate::session::{Session, seconds};
use crate::settings::keeps_snapshot;
use crate::variables;

/// The variable with the time of the session's statements.
const TIMESTAMP: &str = "timestamp";
/// The latest value of it, in seconds since 1970, as in MySQL.
const TIMESTAMP_MAX: f64 = 32_536_771_199.0;

/// Accepted and treated as REPEATABLE READ.
const SERIALIZABLE: &str = "SERIALIZABLE";

/// Runs the assignments of a SET in order; one that fails does not undo earlier ones.
///
/// # Errors
/// Unknown variables, invalid values, missing privileges.
pub async fn set(
    session: &mut Session,
    assignments: &[Assignment],
    parameters: &[Parameter],
) -> Result<Reply> {
    let mut result = Ok(());
    for assignment in assignments {
        result = assign(session, assignment, parameters).await;
        if result.is_err() {
            break;
        }
    }
    session.settings_changed();
    if session.settings.autocommit && session.transactions.is_implicit() {
        // Enabling autocommit commits the transaction that was opened while it was off.
        session.commit().await?;
    }
    result.map(|()| Reply::done())
}

async fn assign(
    session: &mut Session,
    assignment: &Assignment,
    parameters: &[Parameter],
) -> Result<()> {
    match &assignment.target {
        SetTarget::System { scope, name, persists } => {
            let value = (assignment.value.as_ref(), parameters);
            match persists {
                Persists::Only => persist::keep_only(session, name, value).await,
                Persists::Too => persist::keep(session, name, value).await,
                Persists::No => system(session, *scope, name, value).await,
            }
        }
        SetTarget::ResetPersist { name, if_exists } => {
            persist::forget(session, name.as_deref(), *if_exists).await
        }
        SetTarget::User(name) => {
            let value = match &assignment.value {
                Some(expr) => values::variable(session, expr, parameters.to_vec()).await?,
                None => (Value::Null, None),
            };
            session.set_user_variable(name, value)
        }
        SetTarget::Names { charset, collation } => {
            names(session, charset.as_deref(), collation.as_deref())
        }
        SetTarget::Charset(charset) => charset_only(session, charset.as_deref()),
        SetTarget::Password { account, password, replaces, retains } => {
            let how = (replaces.as_deref(), *retains);
            set_password(session, account.as_ref(), password, how).await
        }
        SetTarget::Transaction { scope, isolation, read_only } => {
            set_transaction(session, *scope, isolation.as_deref(), *read_only)
        }
    }
}

async fn system(
    session: &mut Session,
    scope: Scope,
    name: &str,
    (value, parameters): (Option<&Scalar>, &[Parameter]),
) -> Result<()> {
    if let Some(name) = id_of_session(name) {
        if name == TIMESTAMP {
            return set_timestamp(session, scope, (value, parameters)).await;
        }
        return set_id(session, scope, name, (value, parameters)).await;
    }
    let id = variables::require(name)?;
    let value = match value {
        Some(expr) => Some(values::value(session, expr, parameters.to_vec()).await?),
        None => None,
    };
    put(session, scope, id, value.as_ref())
}

/// The name of a variable that is an id or the time of the session, and none of the registry.
fn id_of_session(name: &str) -> Option<&'static str> {
    let ids = ["last_insert_id", "identity", "insert_id", TIMESTAMP];
    ids.into_iter().find(|id| name.eq_ignore_ascii_case(id))
}

/// The error of what sets such an id for all sessions.
fn only_of_session(name: &str) -> Error {
    err!(VariableScope, "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL")
}

/// SET of a variable that is an id of the session.
async fn set_id(
    session: &mut Session,
    scope: Scope,
    name: &str,
    (value, parameters): (Option<&Scalar>, &[Parameter]),
) -> Result<()> {
    if scope == Scope::Global {
        return Err(only_of_session(name));
    }
    let id = match value {
        None => 0,
        Some(expr) => match values::value(session, expr, parameters.to_vec()).await? {
            Value::Text(_) | Value::Decimal(_) | Value::Double(_) | Value::Null => {
                bail!(VariableType, "Incorrect argument type to variable '{name}'")
            }
            value => id_of(&value).unwrap_or(0),
        },
    };
    match name {
        "insert_id" => session.forced_id = (id > 0).then_some(id),
        _ => session.last_insert_id = id,
    }
    Ok(())
}

/// SET of the time of the statements that follow: 0 and DEFAULT are that of the clock.
async fn set_timestamp(
    session: &mut Session,
    scope: Scope,
    (value, parameters): (Option<&Scalar>, &[Parameter]),
) -> Result<()> {
    if scope == Scope::Global {
        return Err(only_of_session(TIMESTAMP));
    }
    let value = match value {
        Some(expr) => values::value(session, expr, parameters.to_vec()).await?,
        None => Value::Int(0),
    };
    let given = match &value {
        Value::Int(seconds) => Some(*seconds as f64),
        Value::UInt(seconds) => Some(*seconds as f64),
        Value::Double(seconds) => Some(*seconds),
        Value::Decimal(digits) => digits.parse::<f64>().ok(),
        Value::Text(_) | Value::Null => None,
    };
    let Some(given) = given else {
        bail!(VariableType, "Incorrect argument type to variable '{TIMESTAMP}'")
    };
    let seconds = given.clamp(0.0, TIMESTAMP_MAX);
    let is_cut = seconds != given;
    note(session, is_cut.then(|| format!("Truncated incorrect {TIMESTAMP} value: '{given}'")));
    session.timestamp_micros = (seconds > 0.0).then_some((seconds * 1e6).round() as i64);
    Ok(())
}

fn put(
    session: &mut Session,
    scope: Scope,
    id: variables::VariableId,
    value: Option<&Value>,
) -> Result<()> {
    let warning = match scope {
        Scope::Global => {
            session.authorize(Privilege::Super, Object::Server)?;
            check_reachable(session, id, value)?;
            session.shared.globals.set(id, value)?
        }
        Scope::Session | Scope::Any => {
            let globals = &session.shared.globals;
            let warning = variables::set_session(&mut session.variables, id, value, globals)?;
            if id.variable().name == "group_commit" {
                session.sets_group_commit = value.is_some();
            }
            warning
        }
    };
    note(session, warning);
    if id == variables::require("transaction_isolation")? {
        let values = match scope {
            Scope::Global => session.shared.globals.load(),
            Scope::Session | Scope::Any => session.variables.clone(),
        };
        if matches!(id.of(&values), Value::Text(isolation) if isolation == SERIALIZABLE) {
            warn_of_serializable(session);
        }
    }
    Ok(())
}

fn note(session: &mut Session, warning: variables::Warning) {
    if let Some(message) = warning {
        session.diagnostics.push("Warning", 1292, message);
    }
}

/// Refuses `require_secure_transport` where nobody could connect any more.
fn check_reachable(
    session: &Session,
    id: variables::VariableId,
    value: Option<&Value>,
) -> Result<()> {
    if id != variables::require("require_secure_transport")? || session.shared.tls.is_some() {
        return Ok(());
    }
    match value.map(|value| id.variable().accept(value)).transpose()? {
        None | Some((Value::Int(0), _)) => Ok(()),
        Some(_) => Err(err!(
            NoSecureTransport,
            "No secure transports (SSL or Shared Memory) are configured, unable to set \
             --require_secure_transport=ON; start the server with tls = true"
        )),
    }
}

fn warn_of_serializable(session: &mut Session) {
    session.diagnostics.push(
        "Warning",
        1235,
        "SERIALIZABLE means REPEATABLE READ here: a transaction reads one snapshot, and is not \
         checked against what others commit meanwhile"
            .to_owned(),
    );
}

fn put_text(session: &mut Session, name: &str, value: Option<&str>) -> Result<()> {
    let id = variables::require(name)?;
    let value = value.map(|text| Value::Text(text.to_owned()));
    put(session, Scope::Session, id, value.as_ref())
}

/// SET NAMES.
fn names(session: &mut Session, charset: Option<&str>, collation: Option<&str>) -> Result<()> {
    let charset = charset.map(variables::charset_name).transpose()?;
    for name in ["character_set_client", "character_set_connection", "character_set_results"] {
        put_text(session, name, charset)?;
    }
    let default = match charset {
        Some("utf8mb4") => Some("utf8mb4_0900_ai_ci"),
        Some("utf8mb3") => Some("utf8mb3_general_ci"),
        Some("latin1") => Some("latin1_swedish_ci"),
        Some("ascii") => Some("ascii_general_ci"),
        Some("binary") => Some("binary"),
        _ => None,
    };
    put_text(session, "collation_connection", collation.or(default))?;
    warn_of_charset(session, charset);
    Ok(())
}

/// SET CHARACTER SET.
fn charset_only(session: &mut Session, charset: Option<&str>) -> Result<()> {
    let charset = charset.map(variables::charset_name).transpose()?;
    put_text(session, "character_set_client", charset)?;
    put_text(session, "character_set_results", charset)?;
    warn_of_charset(session, charset);
    Ok(())
}

/// Says that texts are not converted, where a client asks for what is not UTF-8.
fn warn_of_charset(session: &mut Session, charset: Option<&str>) {
    let known = ["utf8mb4", "utf8mb3", "utf8", "ascii", "binary"];
    if let Some(name) = charset.filter(|name| !known.contains(name)) {
        let said = format!(
            "statements and results are UTF-8, and are not converted to character set '{name}': \
             use utf8mb4"
        );
        session.diagnostics.push("Warning", 1235, said);
    }
}

async fn set_password(
    session: &mut Session,
    account: Option<&Account>,
    password: &str,
    (replaces, retains): (Option<&str>, bool),
) -> Result<()> {
    let own = session.client.clone();
    let account = account.cloned().unwrap_or_else(|| own.account.clone());
    let is_own = account == own.account;
    if !is_own || retains {
        // Nobody keeps a password that has expired.
        session.require_password()?;
    }
    if !is_own {
        // Before the password is hashed, which is slow.
        session.authorize(Privilege::CreateUser, Object::Server)?;
    }
    let catalog = session.shared.engine.catalog();
    if let Some(user) = catalog.user(&account) {
        auth::current::check(session, user, replaces)?;
    }
    auth::strength::check(&session.shared.globals, &account, &own.account, password)?;
    let changed_seconds = seconds(&**session.shared.engine.clock());
    let of = (&*session.shared.globals, &*catalog);
    let remembered = auth::reuse::remembered(of, &account, &[], changed_seconds);
    auth::reuse::check(&catalog, &account, remembered, password)?;
    let data = auth::auth_data(password.as_bytes(), None, session.shared.scramble())?;
    let data = AuthData { changed_seconds, ..data };
    let second = match catalog.user(&account) {
        Some(user) => auth::second::behind(user, &data, None, retains)?,
        None => SecondPassword::Kept,
    };
    let engine = Arc::clone(&session.shared.engine);
    let set = move |admin: &mut UserAdmin| {
        admin.set_password(own.actor(), &account, data, remembered, second)
    };
    let change = async move { engine.ddl().change_users(set).await };
    super::shield(session, change).await?;
    session.must_change_password &= !is_own;
    Ok(())
}

fn set_transaction(
    session: &mut Session,
    scope: Scope,
    isolation: Option<&str>,
    read_only: Option<bool>,
) -> Result<()> {
    if scope == Scope::Any && session.transactions.open().is_some() {
        bail!(
            TransactionOpen,
            "Transaction characteristics can't be changed while a transaction is in progress"
        );
    }
    if scope == Scope::Any {
        let next = &mut session.transactions.next;
        if let Some(isolation) = isolation {
            next.repeatable_read = Some(keeps_snapshot(isolation));
        }
        next.read_only = read_only.or(next.read_only);
        if isolation == Some(SERIALIZABLE) {
            warn_of_serializable(session);
        }
        return Ok(());
    }
    if let Some(isolation) = isolation {
        let id = variables::require("transaction_isolation")?;
        put(session, scope, id, Some(&Value::Text(isolation.to_owned())))?;
    }
    if let Some(read_only) = read_only {
        let id = variables::require("transaction_read_only")?;
        put(session, scope, id, Some(&Value::Int(read_only.into())))?;
    }
    Ok(())
}
