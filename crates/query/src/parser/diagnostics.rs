//! SIGNAL and GET DIAGNOSTICS.

use freshet_base::{Result, bail};
use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::prepare::user_variable;
use crate::syntax::Scalar;

/// SIGNAL: the condition that the statement has.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    /// Five characters.
    pub sqlstate: String,
    /// SET.
    pub items: Vec<(SignalItem, Scalar)>,
}

/// What SET of SIGNAL gives to its condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalItem {
    MessageText,
    MysqlErrno,
    /// CLASS_ORIGIN, TABLE_NAME and their like: they are not kept.
    Other,
}

/// GET DIAGNOSTICS: user variables, in lower case, get what is known of the previous statement.
#[derive(Clone, PartialEq, Debug)]
pub struct GetDiagnostics {
    /// CONDITION: the number of one of its conditions, from 1; `None`: of the statement itself.
    pub condition: Option<Scalar>,
    pub items: Vec<(String, DiagnosticsItem)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiagnosticsItem {
    /// The number of conditions.
    Number,
    RowCount,
    ReturnedSqlstate,
    MessageText,
    MysqlErrno,
    /// CLASS_ORIGIN and SUBCLASS_ORIGIN.
    Origin,
    /// TABLE_NAME and its like: nothing.
    Other,
}

const OTHERS: [&str; 9] = [
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "CATALOG_NAME",
    "SCHEMA_NAME",
    "TABLE_NAME",
    "COLUMN_NAME",
    "CURSOR_NAME",
    "CONNECTION_NAME",
];
const ORIGINS: [&str; 2] = ["CLASS_ORIGIN", "SUBCLASS_ORIGIN"];

/// Parses the part after SIGNAL.
///
/// # Errors
/// 1407 for what is no SQLSTATE of a condition.
pub fn signal(cursor: &mut Cursor<'_>) -> Result<Signal> {
    cursor.expect_words("SQLSTATE")?;
    cursor.words("VALUE");
    let sqlstate = cursor.text()?;
    let is_one = sqlstate.len() == 5
        && sqlstate.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if !is_one || sqlstate.starts_with("00") {
        bail!(BadSqlstate, "Bad SQLSTATE: '{sqlstate}'");
    }
    let items = match cursor.words("SET") {
        true => cursor.list(signal_item)?,
        false => Vec::new(),
    };
    Ok(Signal { sqlstate, items })
}

fn signal_item(cursor: &mut Cursor<'_>) -> Result<(SignalItem, Scalar)> {
    let item = if cursor.words("MESSAGE_TEXT") {
        SignalItem::MessageText
    } else if cursor.words("MYSQL_ERRNO") {
        SignalItem::MysqlErrno
    } else if cursor.one_of(&OTHERS).or_else(|| cursor.one_of(&ORIGINS)).is_some() {
        SignalItem::Other
    } else {
        return Err(cursor.error());
    };
    cursor.expect(&Token::Eq)?;
    Ok((item, cursor.expr()?))
}

/// Parses the part after GET.
pub fn get(cursor: &mut Cursor<'_>) -> Result<GetDiagnostics> {
    cursor.words("CURRENT");
    cursor.expect_words("DIAGNOSTICS")?;
    let condition = cursor.words("CONDITION").then(|| cursor.expr()).transpose()?;
    let items = cursor.list(|cursor| {
        let variable = user_variable(cursor)?.ok_or_else(|| cursor.error())?;
        cursor.expect(&Token::Eq)?;
        let item = match condition {
            None => of_statement(cursor),
            Some(_) => of_condition(cursor),
        };
        Ok((variable, item.ok_or_else(|| cursor.error())?))
    })?;
    Ok(GetDiagnostics { condition, items })
}

fn of_statement(cursor: &mut Cursor<'_>) -> Option<DiagnosticsItem> {
    Some(match cursor.one_of(&["NUMBER", "ROW_COUNT"])? {
        "NUMBER" => DiagnosticsItem::Number,
        _ => DiagnosticsItem::RowCount,
    })
}

fn of_condition(cursor: &mut Cursor<'_>) -> Option<DiagnosticsItem> {
    const KNOWN: [&str; 3] = ["RETURNED_SQLSTATE", "MESSAGE_TEXT", "MYSQL_ERRNO"];
    match cursor.one_of(&KNOWN) {
        Some("RETURNED_SQLSTATE") => Some(DiagnosticsItem::ReturnedSqlstate),
        Some("MESSAGE_TEXT") => Some(DiagnosticsItem::MessageText),
        Some(_) => Some(DiagnosticsItem::MysqlErrno),
        None if cursor.one_of(&ORIGINS).is_some() => Some(DiagnosticsItem::Origin),
        None => cursor.one_of(&OTHERS).map(|_| DiagnosticsItem::Other),
    }
}
