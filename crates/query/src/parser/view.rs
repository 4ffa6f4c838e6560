//! Parses CREATE VIEW and DROP VIEW.

use freshet_base::Result;
use freshet_meta::Account;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::users::account;
use crate::syntax::{Select, TableName};

#[derive(Clone, PartialEq, Debug)]
pub struct CreateView {
    pub name: TableName,
    pub or_replace: bool,
    /// `None` for the account that creates it.
    pub definer: Option<Account>,
    /// SQL SECURITY INVOKER.
    pub invoker: bool,
    /// The names of its columns; empty for those of the query.
    pub columns: Vec<String>,
    pub query: Select,
    /// The query as it was written.
    pub text: String,
}

/// Parses the part after CREATE if it is that of a view; otherwise moves nowhere.
pub fn create_view(cursor: &mut Cursor<'_>) -> Result<Option<CreateView>> {
    const BEGINS: [&str; 5] = ["VIEW", "OR", "ALGORITHM", "DEFINER", "SQL"];
    if !cursor.peek_word(0).is_some_and(|word| BEGINS.contains(&word.as_str())) {
        return Ok(None);
    }
    let or_replace = cursor.words("OR REPLACE");
    if cursor.words("ALGORITHM") {
        cursor.expect(&Token::Eq)?;
        // Every view is planned as a part of the query that reads it.
        let known = cursor.one_of(&["UNDEFINED", "MERGE", "TEMPTABLE"]);
        known.ok_or_else(|| cursor.error())?;
    }
    let definer = definer(cursor)?;
    let mut invoker = false;
    if cursor.words("SQL SECURITY") {
        invoker = cursor.words("INVOKER");
        if !invoker {
            cursor.expect_words("DEFINER")?;
        }
    }
    if let Some(what) = cursor.one_of(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"]) {
        return Err(refuse(&format!("CREATE {what}")));
    }
    cursor.expect_words("VIEW")?;
    let name = cursor.table()?;
    let listed = matches!(cursor.peek().token, Token::LParen);
    let columns = if listed { cursor.in_parens(Cursor::name)? } else { Vec::new() };
    cursor.expect_words("AS")?;
    const QUERIES: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];
    let is_query = cursor.peek_word(0).is_some_and(|word| QUERIES.contains(&word.as_str()));
    if !is_query && !matches!(cursor.peek().token, Token::LParen) {
        return Err(cursor.error());
    }
    let from = cursor.peek().span.start;
    let query = cursor.query()?;
    let text = cursor.text_since(from);
    if cursor.words("WITH") {
        return Err(refuse("CREATE VIEW ... WITH CHECK OPTION"));
    }
    Ok(Some(CreateView { name, or_replace, definer, invoker, columns, query, text }))
}

fn definer(cursor: &mut Cursor<'_>) -> Result<Option<Account>> {
    if !cursor.words("DEFINER") {
        return Ok(None);
    }
    cursor.expect(&Token::Eq)?;
    if cursor.words("CURRENT_USER") {
        if cursor.token(&Token::LParen) {
            cursor.expect(&Token::RParen)?;
        }
        return Ok(None);
    }
    account(cursor).map(Some)
}

/// Parses the part after DROP VIEW: whether IF EXISTS is there, and the names.
pub fn drop_views(cursor: &mut Cursor<'_>) -> Result<(Vec<TableName>, bool)> {
    let if_exists = cursor.words("IF EXISTS");
    let views = cursor.list(Cursor::table)?;
    cursor.one_of(&["RESTRICT", "CASCADE"]);
    Ok((views, if_exists))
}
