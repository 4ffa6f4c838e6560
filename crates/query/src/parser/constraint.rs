//! CONSTRAINT, FOREIGN KEY, CHECK and generated columns, in the list of columns and in ALTER TABLE.

use std::ops::ControlFlow;

use freshet_base::{Result, bail, err};
use freshet_meta::{
    CheckSpec, ColumnSpec, ForeignKeySpec, GeneratedSpec, INVISIBLE_UNIQUE, UnkeptKeySpec,
};
use freshet_schema::{ColumnType, DeclaredKeyKind, ReferenceAction};
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::load::load_condition;
use crate::syntax::{Scalar, TableName};
use crate::visit::{visit_expressions, visit_expressions_mut};

/// Whether a CHECK comes next, with or without its name, or another constraint with one.
pub fn is_next(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.peek_word(0).as_deref(), Some("CHECK" | "CONSTRAINT"))
}

/// Parses CONSTRAINT and its name, if it has one.
pub fn name(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    cursor.words("CONSTRAINT");
    let kinds = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
    let is_kind = |word: Option<String>| word.is_some_and(|word| kinds.contains(&word.as_str()));
    let name = if is_kind(cursor.peek_word(0)) { None } else { Some(cursor.name()?) };
    if is_kind(cursor.peek_word(0)) { Ok(name) } else { Err(cursor.error()) }
}

/// Parses FOREIGN KEY [name] (columns) REFERENCES ...
pub fn foreign_key(cursor: &mut Cursor<'_>) -> Result<ForeignKeySpec> {
    cursor.expect_words("FOREIGN KEY")?;
    let is_named = !matches!(cursor.peek().token, Token::LParen);
    let name = if is_named { Some(cursor.name()?) } else { None };
    let columns = cursor.in_parens(key_part)?;
    let found = references(cursor)?;
    Ok(ForeignKeySpec { name, columns, ..found })
}

/// Parses REFERENCES and what is behind it; the key has no columns of its own then.
pub fn references(cursor: &mut Cursor<'_>) -> Result<ForeignKeySpec> {
    cursor.expect_words("REFERENCES")?;
    let TableName { database, table, .. } = cursor.table()?;
    let is_next = matches!(cursor.peek().token, Token::LParen);
    let referenced = if is_next { cursor.in_parens(key_part)? } else { Vec::new() };
    cursor.one_of(&["MATCH FULL", "MATCH PARTIAL", "MATCH SIMPLE"]);
    let (mut on_delete, mut on_update) = Default::default();
    while let Some(event) = cursor.one_of(&["ON DELETE", "ON UPDATE"]) {
        let action = ReferenceAction::ALL.into_iter().find(|action| cursor.words(action.words()));
        let action = action.ok_or_else(|| cursor.error())?;
        *(if event == "ON DELETE" { &mut on_delete } else { &mut on_update }) = action;
    }
    Ok(ForeignKeySpec {
        is_copied: false,
        name: None,
        columns: Vec::new(),
        database,
        table,
        referenced,
        on_delete,
        on_update,
    })
}

/// Parses `FULLTEXT [KEY] [name] (columns)`, or the same of SPATIAL, if that is next.
pub fn unkept_key(cursor: &mut Cursor<'_>) -> Result<Option<UnkeptKeySpec>> {
    let Some(word) = cursor.one_of(&["FULLTEXT", "SPATIAL"]) else { return Ok(None) };
    cursor.one_of(&["KEY", "INDEX"]);
    let is_named = !matches!(cursor.peek().token, Token::LParen);
    let name = is_named.then(|| cursor.name()).transpose()?;
    Ok(Some(UnkeptKeySpec { word, name, columns: unkept_columns(cursor)? }))
}

/// Parses the columns of such a key, and what may stand behind them.
pub fn unkept_columns(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let columns = cursor.in_parens(key_part)?;
    loop {
        if cursor.words("WITH PARSER") {
            cursor.name()?;
        } else if cursor.words("COMMENT") {
            cursor.text()?;
        } else if cursor.words("KEY_BLOCK_SIZE") {
            cursor.token(&Token::Eq);
            cursor.number()?;
        } else if visibility(cursor).is_none() {
            return Ok(columns);
        }
    }
}

/// Parses a CHECK behind a column, if one is next. One that says nothing more than the type is not
/// kept: `CHECK (c >= 0)` of an unsigned column, which frameworks write, and
/// `CHECK (json_valid(c))`, which makes a LONGTEXT what JSON is in MariaDB.
pub fn of_column(cursor: &mut Cursor<'_>, column: &mut ColumnSpec) -> Result<bool> {
    if !is_next(cursor) {
        return Ok(false);
    }
    let name = name(cursor)?;
    let check = check(cursor, name)?;
    let is = |text: String| check.text.replace('`', "").eq_ignore_ascii_case(&text);
    if column.ty.is_text() && is(format!("json_valid({})", column.name)) {
        column.ty = ColumnType::Json;
    } else if !(column.ty.is_unsigned() && is(format!("{} >= 0", column.name))) {
        column.checks.push(check);
    }
    Ok(true)
}

/// Parses `CHECK (condition) [[NOT] ENFORCED]`.
pub fn check(cursor: &mut Cursor<'_>, name: Option<String>) -> Result<CheckSpec> {
    cursor.expect_words("CHECK")?;
    let found = row_expr(cursor, "CHECK")?.map_err(|_| {
        err!(
            CheckFunction,
            "An expression of a check constraint '{}' contains disallowed function: subqueries \
             and variables have other values for the same row",
            name.as_deref().unwrap_or("")
        )
    })?;
    let is_enforced = !cursor.words("NOT ENFORCED");
    cursor.words("ENFORCED");
    Ok(CheckSpec { name, text: found.text, columns: found.columns, is_enforced })
}

/// Parses `[GENERATED ALWAYS] AS (expression) [VIRTUAL | STORED]` behind a column, if it is next.
pub fn generated(cursor: &mut Cursor<'_>, column: &mut ColumnSpec) -> Result<bool> {
    if cursor.words("GENERATED") {
        cursor.expect_words("ALWAYS AS")?;
    } else if !cursor.words("AS") {
        return Ok(false);
    }
    let name = &column.name;
    let found = row_expr(cursor, "AS")?.map_err(|what| match what {
        NotOfRow::Variable => err!(
            GeneratedVariable,
            "Expression of generated column '{name}' cannot refer user or system variables."
        ),
        NotOfRow::Query => err!(
            GeneratedFunction,
            "Expression of generated column '{name}' contains a disallowed function: a subquery \
             has other values for the same row"
        ),
    })?;
    let RowExpr { text, columns } = found;
    let is_stored = cursor.one_of(&["STORED", "PERSISTENT"]).is_some();
    if !is_stored {
        cursor.words("VIRTUAL");
    }
    column.generated = Some(GeneratedSpec { text, columns, is_stored });
    Ok(true)
}

/// Functions whose values are those of a session, or that do something.
const NO_DEFAULTS: [&str; 21] = [
    "benchmark",
    "charset",
    "connection_id",
    "current_role",
    "current_user",
    "database",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "ps_current_thread_id",
    "release_lock",
    "row_count",
    "schema",
    "session_user",
    "sleep",
    "system_user",
    "user",
    "version",
];

/// Parses an expression in parentheses that is a default, and names no column.
pub fn default(cursor: &mut Cursor<'_>) -> Result<String> {
    let found = row_expr(cursor, "DEFAULT")?.map_err(|what| match what {
        NotOfRow::Variable => {
            err!(DefaultFunction, "Default value expression cannot refer user or system variables.")
        }
        NotOfRow::Query => err!(
            DefaultFunction,
            "Default value expression contains a disallowed function: a subquery"
        ),
    })?;
    if let Some(name) = found.columns.first() {
        return Err(refuse(&format!("DEFAULT (..) that reads another column, as '{name}'")));
    }
    let mut of_session = None;
    let _ = visit_expressions(&load_condition(&found.text)?.0, |expr| {
        if let Expr::Function(call) = expr {
            let name = call.name.to_string().to_ascii_lowercase();
            if NO_DEFAULTS.contains(&name.as_str()) {
                of_session = Some(name);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    if let Some(name) = of_session {
        bail!(
            DefaultFunction,
            "Default value expression contains a disallowed function: `{name}`."
        );
    }
    Ok(found.text)
}

/// An expression over the columns of a row.
struct RowExpr {
    /// Without parentheses around it.
    text: String,
    /// The columns that it names.
    columns: Vec<String>,
}

/// What an expression names that is no column of the row.
enum NotOfRow {
    Query,
    Variable,
}

/// Parses an expression in parentheses, behind a word for messages.
fn row_expr(
    cursor: &mut Cursor<'_>,
    behind: &str,
) -> Result<std::result::Result<RowExpr, NotOfRow>> {
    cursor.expect(&Token::LParen)?;
    let mut expr = cursor.expr()?;
    cursor.expect(&Token::RParen)?;
    let columns = match columns_of(&mut expr) {
        ControlFlow::Continue(columns) => columns,
        ControlFlow::Break(what) => return Ok(Err(what)),
    };
    while let Expr::Nested(inner) = expr.0 {
        expr.0 = *inner;
    }
    let text = expr.0.to_string();
    // It is read again from its text.
    if !load_condition(&text).is_ok_and(|again| again == expr) {
        return Err(refuse(&format!("{behind} ({text})")));
    }
    Ok(Ok(RowExpr { text, columns }))
}

/// The columns that an expression names, in which the name of the table is left out.
fn columns_of(expr: &mut Scalar) -> ControlFlow<NotOfRow, Vec<String>> {
    let mut columns: Vec<String> = Vec::new();
    visit_expressions_mut(&mut expr.0, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(last) = parts.pop()
        {
            *expr = Expr::Identifier(last);
        }
        match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                return ControlFlow::Break(NotOfRow::Query);
            }
            Expr::Identifier(name) if name.quote_style.is_none() && name.value.starts_with('@') => {
                return ControlFlow::Break(NotOfRow::Variable);
            }
            Expr::Identifier(name) => {
                // As ANSI_QUOTES writes it; the text is read without that mode.
                name.quote_style = name.quote_style.map(|_| '`');
                if !columns.iter().any(|known| known.eq_ignore_ascii_case(&name.value)) {
                    columns.push(name.value.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    ControlFlow::Continue(columns)
}

/// Parses a column of a key, with a length or an order, which change nothing.
pub fn key_part(cursor: &mut Cursor<'_>) -> Result<String> {
    sized_key_part(cursor).map(|part| part.column)
}

/// What may stand behind a column in a key.
pub struct KeyPart {
    pub column: String,
    /// The key is one of the beginnings of texts.
    pub length: Option<u32>,
    pub is_descending: bool,
}

/// As [`key_part`], with what stands behind the column.
pub fn sized_key_part(cursor: &mut Cursor<'_>) -> Result<KeyPart> {
    if cursor.peek().token == Token::LParen {
        return Err(refuse("functional key parts"));
    }
    let (column, mut length) = (cursor.name()?, None);
    if cursor.token(&Token::LParen) {
        length = Some(u32::try_from(cursor.number()?).unwrap_or(u32::MAX));
        cursor.expect(&Token::RParen)?;
    }
    let is_descending = !cursor.words("ASC") && cursor.words("DESC");
    Ok(KeyPart { column, length, is_descending })
}

/// Parses VISIBLE or INVISIBLE, in the words of MySQL or MariaDB: whether queries may go by it.
pub fn visibility(cursor: &mut Cursor<'_>) -> Option<bool> {
    let word = cursor.one_of(&["VISIBLE", "NOT IGNORED", "INVISIBLE", "IGNORED"])?;
    Some(matches!(word, "VISIBLE" | "NOT IGNORED"))
}

/// The kind of a key that is visible or not.
pub fn shown(kind: DeclaredKeyKind, visible: bool) -> Result<DeclaredKeyKind> {
    match kind {
        DeclaredKeyKind::Index if !visible => Ok(DeclaredKeyKind::InvisibleIndex),
        DeclaredKeyKind::InvisibleIndex if visible => Ok(DeclaredKeyKind::Index),
        unique if unique.is_unique() && !visible => bail!(NotSupported, "{INVISIBLE_UNIQUE}"),
        other => Ok(other),
    }
}
