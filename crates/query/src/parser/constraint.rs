//! CONSTRAINT, FOREIGN KEY and CHECK, in the list of columns and in ALTER TABLE.

use freshet_base::{Result, bail};
use freshet_meta::{ColumnSpec, ForeignKeySpec, INVISIBLE_UNIQUE};
use freshet_schema::{ColumnType, DeclaredKeyKind};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};

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
    cursor.expect_words("REFERENCES")?;
    Ok(ForeignKeySpec { name, columns, references: references(cursor)? })
}

/// Parses the part behind REFERENCES; returns the table.
pub fn references(cursor: &mut Cursor<'_>) -> Result<String> {
    let table = cursor.table()?.table;
    if matches!(cursor.peek().token, Token::LParen) {
        cursor.in_parens(key_part)?;
    }
    cursor.one_of(&["MATCH FULL", "MATCH PARTIAL", "MATCH SIMPLE"]);
    while cursor.one_of(&["ON DELETE", "ON UPDATE"]).is_some() {
        let actions = ["RESTRICT", "CASCADE", "SET NULL", "NO ACTION", "SET DEFAULT"];
        if cursor.one_of(&actions).is_none() {
            return Err(cursor.error());
        }
    }
    Ok(table)
}

/// Parses `CHECK (c >= 0)` of an unsigned column, which is always true; frameworks write it. Any
/// other CHECK is refused.
pub fn tautology(cursor: &mut Cursor<'_>, column: &ColumnSpec) -> Result<bool> {
    if !cursor.words("CHECK") {
        return Ok(false);
    }
    let is_unsigned = matches!(
        column.ty,
        ColumnType::TinyInt { unsigned: true }
            | ColumnType::SmallInt { unsigned: true }
            | ColumnType::MediumInt { unsigned: true }
            | ColumnType::Int { unsigned: true }
            | ColumnType::BigInt { unsigned: true }
    );
    let same = cursor.token(&Token::LParen)
        && cursor.name().is_ok_and(|name| name.eq_ignore_ascii_case(&column.name))
        && cursor.token(&Token::GtEq)
        && cursor.number().is_ok_and(|number: u64| number == 0)
        && cursor.token(&Token::RParen);
    if is_unsigned && same { Ok(true) } else { Err(refuse("CHECK")) }
}

/// Parses a column of a key, with a length or an order, which change nothing.
pub fn key_part(cursor: &mut Cursor<'_>) -> Result<String> {
    let column = cursor.name()?;
    if cursor.token(&Token::LParen) {
        cursor.number()?;
        cursor.expect(&Token::RParen)?;
    }
    let _ = cursor.words("ASC") || cursor.words("DESC");
    Ok(column)
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
