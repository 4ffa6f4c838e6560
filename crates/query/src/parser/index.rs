//! CREATE INDEX, DROP INDEX, and the clauses of ALTER TABLE for keys.

use freshet_base::Result;
use freshet_meta::{DeclaredKeySpec, KeyChange, TableSpec, UnkeptKeySpec};
use freshet_schema::{DeclaredKeyKind, TableForm};
use sqlparser::tokenizer::Token;

use super::AlterAction;
use super::constraint::{unkept_columns, visibility};
use super::create::{element, key_options, using};
use super::cursor::Cursor;
use super::global;
use crate::syntax::TableName;

/// Parses CREATE [UNIQUE] INDEX behind CREATE; `None` if it is another statement.
pub fn create_index(cursor: &mut Cursor<'_>) -> Result<Option<(TableName, AlterAction)>> {
    if let Some(created) = create_unkept(cursor)? {
        return Ok(Some(created));
    }
    let words = [
        "UNIQUE INDEX",
        "UNIQUE GLOBAL INDEX",
        "UNIQUE CLUSTERED INDEX",
        "UNIQUE LOCAL INDEX",
        "INDEX",
        "GLOBAL INDEX",
        "CLUSTERED INDEX",
        "LOCAL INDEX",
    ];
    let Some(words) = cursor.one_of(&words) else { return Ok(None) };
    let kind = match words.starts_with("UNIQUE") {
        true => DeclaredKeyKind::Unique,
        false => DeclaredKeyKind::Index,
    };
    let is_scope = |word: &&str| ["GLOBAL", "CLUSTERED"].contains(word);
    let mut key = DeclaredKeySpec::new(kind, Vec::new());
    key.global = words.split(' ').find(is_scope).and_then(global::index);
    let if_needed = cursor.words("IF NOT EXISTS");
    key.name = Some(cursor.name()?);
    using(cursor, &mut key)?;
    cursor.expect_words("ON")?;
    let table = cursor.table()?;
    global::key_columns(cursor, &mut key)?;
    loop {
        key_options(cursor, &mut key)?;
        if !how(cursor)? {
            break;
        }
    }
    let key = KeyChange::Add(Box::new(key));
    Ok(Some((table, AlterAction::Index { key, if_needed })))
}

/// Parses FULLTEXT INDEX or SPATIAL INDEX behind CREATE, if that is next.
fn create_unkept(cursor: &mut Cursor<'_>) -> Result<Option<(TableName, AlterAction)>> {
    let word = match cursor.one_of(&["FULLTEXT INDEX", "SPATIAL INDEX"]) {
        Some("FULLTEXT INDEX") => "FULLTEXT",
        Some(_) => "SPATIAL",
        None => return Ok(None),
    };
    let name = Some(cursor.name()?);
    cursor.expect_words("ON")?;
    let table = cursor.table()?;
    let columns = unkept_columns(cursor)?;
    while how(cursor)? {}
    let key = KeyChange::AddUnkept(UnkeptKeySpec { word, name, columns });
    Ok(Some((table, AlterAction::Index { key, if_needed: false })))
}

/// Parses the part behind DROP INDEX.
pub fn drop_index(cursor: &mut Cursor<'_>) -> Result<(TableName, AlterAction)> {
    let if_needed = cursor.words("IF EXISTS");
    let name = cursor.name()?;
    cursor.expect_words("ON")?;
    let table = cursor.table()?;
    while how(cursor)? {}
    Ok((table, AlterAction::Index { key: KeyChange::Drop { name }, if_needed }))
}

/// Parses a clause of ALTER TABLE for keys; `None` if it is another clause. ALGORITHM and LOCK
/// change nothing, since no change of a table waits for its rows.
pub fn change(cursor: &mut Cursor<'_>) -> Result<Option<Vec<KeyChange>>> {
    if how(cursor)? {
        return Ok(Some(Vec::new()));
    }
    if cursor.one_of(&["DROP INDEX", "DROP KEY"]).is_some() {
        return Ok(Some(vec![KeyChange::Drop { name: cursor.name()? }]));
    }
    if cursor.words("DROP FOREIGN KEY") {
        return Ok(Some(vec![KeyChange::DropForeign { name: cursor.name()? }]));
    }
    if cursor.one_of(&["RENAME INDEX", "RENAME KEY"]).is_some() {
        let from = cursor.name()?;
        cursor.expect_words("TO")?;
        return Ok(Some(vec![KeyChange::Rename { from, to: cursor.name()? }]));
    }
    if cursor.one_of(&["ALTER INDEX", "ALTER KEY"]).is_some() {
        let name = cursor.name()?;
        let visible = visibility(cursor).ok_or_else(|| cursor.error())?;
        return Ok(Some(vec![KeyChange::Show { name, visible }]));
    }
    let keys = [
        "INDEX",
        "KEY",
        "UNIQUE",
        "PRIMARY KEY",
        "FOREIGN KEY",
        "FULLTEXT",
        "SPATIAL",
        "GLOBAL INDEX",
        "GLOBAL KEY",
        "CLUSTERED INDEX",
        "CLUSTERED KEY",
        "LOCAL INDEX",
        "LOCAL KEY",
    ];
    let is_key = |words: &&str| {
        let mut words = words.split(' ').enumerate();
        words.all(|(at, word)| cursor.peek_word(at + 1).as_deref() == Some(word))
    };
    // CONSTRAINT may have a name, and be one of a CHECK.
    let constrains = |kind: &str| (2..=3).any(|at| cursor.peek_word(at).as_deref() == Some(kind));
    let of_key = ["PRIMARY", "UNIQUE", "FOREIGN"].into_iter().any(constrains);
    let is_constraint = is_key(&"CONSTRAINT") && of_key;
    let is_added = keys.iter().any(is_key) || is_constraint;
    if cursor.peek_word(0).as_deref() != Some("ADD") || !is_added {
        return Ok(None);
    }
    cursor.words("ADD");
    let mut parsed = TableSpec::new("", TableForm::MySql, Vec::new());
    let mut marked = Vec::new();
    element(cursor, &mut parsed, &mut marked)?;
    let added = parsed.declared_keys.into_iter().map(|key| KeyChange::Add(Box::new(key)));
    let foreign = parsed.foreign_keys.into_iter().map(KeyChange::AddForeign);
    let unkept = parsed.unkept_keys.into_iter().map(KeyChange::AddUnkept);
    Ok(Some(added.chain(foreign).chain(unkept).collect()))
}

/// Parses ALGORITHM = x or LOCK = x.
fn how(cursor: &mut Cursor<'_>) -> Result<bool> {
    let found = cursor.one_of(&["ALGORITHM", "LOCK"]).is_some();
    if found {
        cursor.token(&Token::Eq);
        cursor.name()?;
    }
    Ok(found)
}
