//! CREATE, ALTER and DROP DATABASE.

use freshet_base::{Result, err};
use freshet_meta::DatabaseMode;
use freshet_schema::Collation;
use sqlparser::tokenizer::Token;

use super::Statement;
use super::cursor::{Cursor, refuse};
use super::types::default_collation;

/// What is said of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseOptions {
    pub mode: Option<DatabaseMode>,
    /// COLLATE, or what CHARACTER SET means alone.
    pub collation: Option<Collation>,
}

/// Parses the part of CREATE DATABASE behind the name; what is not known has no effect.
fn options(cursor: &mut Cursor<'_>) -> Result<DatabaseOptions> {
    let (mut mode, mut named, mut of_charset) = (None, None, None);
    while !cursor.at_end() {
        if default_collation(cursor, (&mut named, &mut of_charset))? {
            continue;
        }
        if cursor.one_of(&["MODE", "PARTITION_MODE"]).is_none() {
            cursor.parser.advance_token();
            continue;
        }
        cursor.token(&Token::Eq);
        let name = cursor.name_or_text()?;
        mode = Some(match name.to_ascii_lowercase().as_str() {
            "auto" | "partitioning" => DatabaseMode::Auto,
            "drds" | "sharding" => DatabaseMode::Drds,
            _ => return Err(err!(WrongArguments, "Incorrect MODE '{name}': 'auto' or 'drds'")),
        });
    }
    Ok(DatabaseOptions { mode, collation: named.or(of_charset) })
}

/// Parses the part after CREATE DATABASE.
pub fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.name()?;
    Ok(Statement::CreateDatabase { name, if_not_exists, options: options(cursor)? })
}

/// Parses the part after ALTER DATABASE.
pub fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let (mut named, mut of_charset) = (None, None);
    let is_option = |cursor: &Cursor<'_>| {
        let word = cursor.peek_word(0);
        word.is_some_and(|word| ["DEFAULT", "CHARACTER", "CHARSET", "COLLATE"].contains(&&*word))
    };
    let name = if is_option(cursor) { None } else { Some(cursor.name()?) };
    while !cursor.at_end() {
        if !default_collation(cursor, (&mut named, &mut of_charset))? {
            return Err(refuse("ALTER DATABASE but CHARACTER SET and COLLATE"));
        }
    }
    let collation = named.or(of_charset).ok_or_else(|| cursor.error())?;
    Ok(Statement::AlterDatabase(name, collation))
}

/// Parses the part after DROP DATABASE.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let if_exists = cursor.words("IF EXISTS");
    let name = cursor.name()?;
    let force = cursor.words("FORCE");
    Ok(Statement::DropDatabase { name, if_exists, force })
}
