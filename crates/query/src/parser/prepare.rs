//! Parses PREPARE, EXECUTE and DEALLOCATE PREPARE.

use freshet_base::Result;
use sqlparser::tokenizer::Token;

use super::cursor::Cursor;

/// Where PREPARE takes the text of a statement from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PreparedText {
    Literal(String),
    /// The name of a user variable in lower case.
    Variable(String),
}

/// Parses the part after PREPARE: the name, and where its text comes from.
pub fn prepare(cursor: &mut Cursor<'_>) -> Result<(String, PreparedText)> {
    let name = cursor.name()?;
    cursor.expect_words("FROM")?;
    let from = match user_variable(cursor)? {
        Some(variable) => PreparedText::Variable(variable),
        None => PreparedText::Literal(cursor.text()?),
    };
    Ok((name, from))
}

/// Parses the part after EXECUTE: the name, and the user variables that USING names.
pub fn execute(cursor: &mut Cursor<'_>) -> Result<(String, Vec<String>)> {
    let name = cursor.name()?;
    let using = match cursor.words("USING") {
        true => cursor.list(|cursor| user_variable(cursor)?.ok_or_else(|| cursor.error()))?,
        false => Vec::new(),
    };
    Ok((name, using))
}

/// Parses `@name`, in lower case; `None` if something else follows.
pub fn user_variable(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    // A quoted name is a token of its own.
    if cursor.token(&Token::AtSign) {
        return Ok(Some(cursor.name_or_text()?.to_lowercase()));
    }
    let is_one = matches!(&cursor.peek().token, Token::Word(word)
        if word.quote_style.is_none()
            && word.value.starts_with('@')
            && !word.value.starts_with("@@"));
    if !is_one {
        return Ok(None);
    }
    let name = cursor.name()?;
    Ok(Some(name.trim_start_matches('@').to_lowercase()))
}
