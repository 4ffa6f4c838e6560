//! SIGNAL and GET DIAGNOSTICS.

use freshet_base::{Error, ErrorCode, Result, bail};
use freshet_query::parser::{DiagnosticsItem, GetDiagnostics, Signal, SignalItem};
use freshet_query::session::Value;

use super::{act, values};
use crate::reply::Reply;
use crate::session::{Condition, Session};

/// The characters of a message, as in MySQL.
const MESSAGE_CHARS_MAX: usize = 128;
/// A warning without a number of its own.
const WARNING: u16 = 1642;
const UNSET: &str = "can't be set to the value of";

/// SIGNAL: the statement has this condition, by which it fails unless it is a warning.
///
/// # Errors
/// The one that is signalled; 1231 for a value that an item of it cannot have.
pub async fn signal(session: &mut Session, signal: &Signal) -> Result<Reply> {
    let (mut message, mut errno) = (None, None);
    for (item, value) in &signal.items {
        let value = values::value(session, value, Vec::new()).await?;
        match item {
            SignalItem::MessageText => message = Some(message_of(&value)?),
            SignalItem::MysqlErrno => errno = Some(errno_of(&value)?),
            SignalItem::Other => {}
        }
    }
    let state = signal.sqlstate.clone();
    let (code, default) = match &state[..2] {
        "01" => {
            let message = message.unwrap_or_else(|| text("warning"));
            session.diagnostics.push("Warning", errno.unwrap_or(WARNING), message);
            session.diagnostics.name_last(state);
            return Ok(Reply::done());
        }
        "02" => (ErrorCode::SignalledNotFound, "not found"),
        _ => (ErrorCode::Signalled, "exception"),
    };
    session.diagnostics.signal(errno.unwrap_or(code.errno()), state);
    Err(Error::new(code, message.unwrap_or_else(|| text(default))))
}

fn text(kind: &str) -> String {
    format!("Unhandled user-defined {kind} condition")
}

fn message_of(value: &Value) -> Result<String> {
    match value {
        Value::Null => bail!(VariableValue, "Variable 'MESSAGE_TEXT' {UNSET} 'NULL'"),
        value => Ok(act::text(value).chars().take(MESSAGE_CHARS_MAX).collect()),
    }
}

fn errno_of(value: &Value) -> Result<u16> {
    let errno = match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        Value::UInt(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    match errno.filter(|errno| *errno > 0) {
        Some(errno) => Ok(errno),
        None => bail!(VariableValue, "Variable 'MYSQL_ERRNO' {UNSET} '{}'", act::text(value)),
    }
}

/// GET DIAGNOSTICS of the statement before.
///
/// # Errors
/// 1758 for a condition that it did not have, and when there are too many user variables.
pub async fn get(session: &mut Session, wanted: &GetDiagnostics) -> Result<Reply> {
    let condition = match &wanted.condition {
        None => None,
        Some(number) => {
            let number = values::value(session, number, Vec::new()).await?;
            Some(condition(session, &number)?)
        }
    };
    for (variable, item) in &wanted.items {
        let value = match &condition {
            None => of_statement(session, *item),
            Some(condition) => of_condition(condition, *item),
        };
        session.set_user_variable(variable, (value, None))?;
    }
    Ok(Reply::done())
}

fn condition(session: &Session, number: &Value) -> Result<Condition> {
    let at = match number {
        Value::Int(number) => usize::try_from(*number).ok(),
        Value::UInt(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let at = at.and_then(|number| number.checked_sub(1));
    match at.and_then(|at| session.diagnostics.conditions.get(at)) {
        Some(condition) => Ok(condition.clone()),
        None => bail!(NoSuchCondition, "Invalid condition number"),
    }
}

fn of_statement(session: &Session, item: DiagnosticsItem) -> Value {
    match item {
        DiagnosticsItem::RowCount => Value::Int(session.row_count),
        _ => Value::UInt(session.diagnostics.conditions.len() as u64),
    }
}

fn of_condition(condition: &Condition, item: DiagnosticsItem) -> Value {
    let state = condition.state();
    Value::Text(match item {
        DiagnosticsItem::ReturnedSqlstate => state.to_owned(),
        DiagnosticsItem::MessageText => condition.message.clone(),
        DiagnosticsItem::MysqlErrno => return Value::Int(condition.errno.into()),
        // A class that begins with a digit below 5 is one of the standard.
        DiagnosticsItem::Origin if state.starts_with(|c: char| ('0'..'5').contains(&c)) => {
            "ISO 9075".to_owned()
        }
        DiagnosticsItem::Origin => "MySQL".to_owned(),
        _ => String::new(),
    })
}
