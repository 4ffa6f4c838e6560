//! Parses CREATE, ALTER and DROP VIEW.

use freshet_base::{Result, bail};
use freshet_meta::{Account, CheckOption, KnownView, ViewAlgorithm};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::users::account;
use crate::syntax::{Select, TableName};

#[derive(Clone, PartialEq, Debug)]
pub struct CreateView {
    pub name: TableName,
    /// What becomes of one that is there.
    pub known: KnownView,
    /// Whether nothing is done, and a note tells it, where the name is taken.
    pub if_not_exists: bool,
    /// `None` where it is not said, as the next two.
    pub algorithm: Option<ViewAlgorithm>,
    pub check_option: CheckOption,
    pub definer: Option<Account>,
    /// SQL SECURITY INVOKER.
    pub invoker: Option<bool>,
    /// The names of its columns; empty for those of the query.
    pub columns: Vec<String>,
    pub query: Select,
    /// The query as it was written.
    pub text: String,
}

/// Parses the part after CREATE if it is that of a view; otherwise moves nowhere.
pub fn create_view(cursor: &mut Cursor<'_>) -> Result<Option<CreateView>> {
    view(cursor, "CREATE")
}

/// Parses the part after ALTER if it is that of a view; otherwise moves nowhere.
pub fn alter_view(cursor: &mut Cursor<'_>) -> Result<Option<CreateView>> {
    view(cursor, "ALTER")
}

fn view(cursor: &mut Cursor<'_>, statement: &str) -> Result<Option<CreateView>> {
    const BEGINS: [&str; 5] = ["VIEW", "ALGORITHM", "DEFINER", "SQL", "OR"];
    let alters = statement == "ALTER";
    let begins = if alters { &BEGINS[..4] } else { &BEGINS[..] };
    if !cursor.peek_word(0).is_some_and(|word| begins.contains(&word.as_str())) {
        return Ok(None);
    }
    let known = match alters {
        true => KnownView::Changed,
        false if cursor.words("OR REPLACE") => KnownView::Replaced,
        false => KnownView::Refused,
    };
    let algorithm = algorithm(cursor)?;
    let definer = definer(cursor)?;
    let mut invoker = None;
    if cursor.words("SQL SECURITY") {
        let is_invoker = cursor.words("INVOKER");
        if !is_invoker {
            cursor.expect_words("DEFINER")?;
        }
        invoker = Some(is_invoker);
    }
    if let Some(what) = cursor.one_of(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"]) {
        return Err(refuse(&format!("{statement} {what}")));
    }
    cursor.expect_words("VIEW")?;
    let if_not_exists = known == KnownView::Refused && cursor.words("IF NOT EXISTS");
    let name = cursor.table()?;
    let listed = matches!(cursor.peek().token, Token::LParen);
    let columns = if listed { cursor.in_parens(column)? } else { Vec::new() };
    comment(cursor)?;
    cursor.expect_words("AS")?;
    const QUERIES: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];
    let is_query = cursor.peek_word(0).is_some_and(|word| QUERIES.contains(&word.as_str()));
    if !is_query && !matches!(cursor.peek().token, Token::LParen) {
        return Err(cursor.error());
    }
    let from = cursor.peek().span.start;
    let query = match cursor.query() {
        // Behind GROUP BY, WITH is taken for the beginning of WITH ROLLUP.
        Err(_) if is_check_option(cursor) => {
            let TableName { database, table } = name;
            let database = database.map_or_else(String::new, |name| format!("{name}."));
            bail!(CheckOptionFixed, "CHECK OPTION on non-updatable view '{database}{table}'")
        }
        parsed => parsed?,
    };
    let text = cursor.text_since(from);
    let check_option = check_option(cursor)?;
    Ok(Some(CreateView {
        name,
        known,
        if_not_exists,
        algorithm,
        check_option,
        definer,
        invoker,
        columns,
        query,
        text,
    }))
}

/// The name of a column of a view, perhaps with a comment of Doris.
fn column(cursor: &mut Cursor<'_>) -> Result<String> {
    let name = cursor.name()?;
    comment(cursor)?;
    Ok(name)
}

/// Parses a comment, which views do not keep, if one comes next.
fn comment(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.words("COMMENT") {
        cursor.text()?;
    }
    Ok(())
}

fn algorithm(cursor: &mut Cursor<'_>) -> Result<Option<ViewAlgorithm>> {
    if !cursor.words("ALGORITHM") {
        return Ok(None);
    }
    cursor.expect(&Token::Eq)?;
    match cursor.one_of(&["UNDEFINED", "MERGE", "TEMPTABLE"]) {
        Some("MERGE") => Ok(Some(ViewAlgorithm::Merge)),
        Some("TEMPTABLE") => Ok(Some(ViewAlgorithm::TempTable)),
        Some(_) => Ok(Some(ViewAlgorithm::Undefined)),
        None => Err(cursor.error()),
    }
}

fn check_option(cursor: &mut Cursor<'_>) -> Result<CheckOption> {
    if !cursor.words("WITH") {
        return Ok(CheckOption::None);
    }
    let which = cursor.one_of(&["CASCADED", "LOCAL"]);
    cursor.expect_words("CHECK OPTION")?;
    Ok(if which == Some("LOCAL") { CheckOption::Local } else { CheckOption::Cascaded })
}

/// Whether the rest of a CHECK OPTION comes next.
fn is_check_option(cursor: &mut Cursor<'_>) -> bool {
    cursor.one_of(&["CASCADED", "LOCAL"]);
    cursor.words("CHECK OPTION") && matches!(cursor.peek().token, Token::EOF | Token::SemiColon)
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
