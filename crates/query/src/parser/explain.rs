//! Parses EXPLAIN of a statement, and DESCRIBE of a table.

use freshet_base::{Result, err};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::{Statement, statement};

/// How EXPLAIN shows a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainFormat {
    /// A line for each operator.
    Lines,
    /// MySQL's TREE: one text.
    Tree,
    /// MySQL's JSON: one document.
    Json,
    /// MySQL's TRADITIONAL: a row for each table.
    Traditional,
}

/// Parses the part after EXPLAIN or DESCRIBE.
pub fn explain(cursor: &mut Cursor<'_>) -> Result<Statement> {
    const EXPLAINED: [&str; 7] =
        ["SELECT", "WITH", "INSERT", "VALUES", "REPLACE", "DELETE", "UPDATE"];
    let analyze = cursor.words("ANALYZE");
    let _ = cursor.words("EXTENDED") || cursor.words("VERBOSE") || cursor.words("PARTITIONS");
    let format = format(cursor)?;
    if analyze && matches!(format, ExplainFormat::Json | ExplainFormat::Traditional) {
        return Err(refuse("EXPLAIN ANALYZE with this format"));
    }
    let parens = matches!(cursor.peek().token, Token::LParen);
    if parens || cursor.peek_word(0).is_some_and(|word| EXPLAINED.contains(&word.as_str())) {
        let start = cursor.peek().span.start;
        let statement = Box::new(statement(cursor)?);
        let text_bytes = cursor.text_since(start).len();
        return Ok(Statement::Explain { statement, analyze, text_bytes, format });
    }
    if cursor.words("FOR CONNECTION") {
        return Err(refuse("EXPLAIN FOR CONNECTION"));
    }
    let table = cursor.table()?;
    let column = match cursor.at_end() {
        true => None,
        false => Some(cursor.name_or_text()?).filter(|column| !column.eq_ignore_ascii_case("all")),
    };
    Ok(Statement::Describe(table, column))
}

/// Parses `FORMAT = name`, if it comes next.
fn format(cursor: &mut Cursor<'_>) -> Result<ExplainFormat> {
    if !cursor.words("FORMAT") {
        return Ok(ExplainFormat::Lines);
    }
    cursor.expect(&Token::Eq)?;
    let name = cursor.name_or_text()?;
    match name.to_uppercase().as_str() {
        "TREE" => Ok(ExplainFormat::Tree),
        "JSON" => Ok(ExplainFormat::Json),
        "TRADITIONAL" => Ok(ExplainFormat::Traditional),
        _ => Err(err!(UnknownExplainFormat, "Unknown EXPLAIN format name: '{name}'")),
    }
}
