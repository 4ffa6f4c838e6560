use freshet_base::Result;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, TableName, refuse};
use crate::syntax::{Scalar, Select};

#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    pub table: TableName,
    /// The target columns; `None` for all of them in order.
    pub columns: Option<Vec<String>>,
    /// WITH LABEL.
    pub label: Option<String>,
    pub source: InsertSource,
}

/// The source of the inserted rows.
#[derive(Clone, PartialEq, Debug)]
pub enum InsertSource {
    /// Rows of expressions; `None` stands for DEFAULT.
    Values(Vec<Vec<Option<Scalar>>>),
    /// The rows of a query.
    Query(Select),
}

/// Parses the part after INSERT.
pub fn insert(cursor: &mut Cursor<'_>) -> Result<Insert> {
    cursor.one_of(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"]);
    if cursor.words("IGNORE") {
        return Err(refuse("INSERT IGNORE"));
    }
    if cursor.words("OVERWRITE") {
        return Err(refuse("INSERT OVERWRITE"));
    }
    cursor.words("INTO");
    cursor.words("TABLE");
    let table = cursor.table()?;
    if cursor.words("PARTITION") || cursor.words("TEMPORARY PARTITION") {
        return Err(refuse("INSERT ... PARTITION"));
    }
    let mut label = label_of(cursor)?;
    let mut columns = None;
    if matches!(cursor.peek().token, Token::LParen) && !is_query(cursor.peek_word(1)) {
        columns = Some(names(cursor)?);
    }
    if label.is_none() {
        label = label_of(cursor)?;
    }
    let source = source(cursor, &mut columns)?;
    if cursor.words("AS") {
        cursor.name()?;
        if matches!(cursor.peek().token, Token::LParen) {
            cursor.in_parens(Cursor::name)?;
        }
    }
    if cursor.words("ON DUPLICATE KEY UPDATE") {
        return Err(refuse("INSERT ... ON DUPLICATE KEY UPDATE"));
    }
    Ok(Insert { table, columns, label, source })
}

fn is_query(word: Option<String>) -> bool {
    word.is_some_and(|word| word == "SELECT" || word == "WITH")
}

/// Parses `(a, t.b)`, which may be empty.
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.expect(&Token::LParen)?;
    if cursor.token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let names = cursor.list(|cursor| Ok(cursor.table()?.table))?;
    cursor.expect(&Token::RParen)?;
    Ok(names)
}

fn label_of(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if !cursor.words("WITH LABEL") {
        return Ok(None);
    }
    cursor.name_or_text().map(Some)
}

fn source(cursor: &mut Cursor<'_>, columns: &mut Option<Vec<String>>) -> Result<InsertSource> {
    if cursor.one_of(&["VALUES", "VALUE"]).is_some() {
        let rows = cursor.list(|cursor| {
            cursor.words("ROW");
            cursor.expect(&Token::LParen)?;
            if cursor.token(&Token::RParen) {
                return Ok(Vec::new());
            }
            let row = cursor.list(value)?;
            cursor.expect(&Token::RParen)?;
            Ok(row)
        })?;
        return Ok(InsertSource::Values(rows));
    }
    if cursor.words("SET") {
        let mut names = Vec::new();
        let row = cursor.list(|cursor| {
            names.push(cursor.table()?.table);
            cursor.expect(&Token::Eq)?;
            value(cursor)
        })?;
        *columns = Some(names);
        return Ok(InsertSource::Values(vec![row]));
    }
    cursor.query().map(InsertSource::Query)
}

fn value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>> {
    let parens = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen);
    if !parens && cursor.words("DEFAULT") {
        return Ok(None);
    }
    cursor.expr().map(Some)
}
