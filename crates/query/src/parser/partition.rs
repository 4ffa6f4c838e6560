//! PARTITION BY RANGE and LIST, in the words of Doris and MySQL, and ALTER TABLE of partitions.

use freshet_base::{Result, bail};
use freshet_meta::{
    PartitionBySpec, PartitionChange, PartitionSpec, TableSpec, ValueSpec, ValuesSpec,
};
use freshet_schema::{PartitionFunction, PartitionMethod, TableForm};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::{AlterAction, Statement};

/// Parses the part after PARTITION BY, if it is RANGE or LIST; whether it was.
pub fn partition_by(cursor: &mut Cursor<'_>, spec: &mut TableSpec) -> Result<bool> {
    let method = if cursor.words("RANGE") {
        PartitionMethod::Range
    } else if cursor.words("LIST") {
        PartitionMethod::List
    } else {
        return Ok(false);
    };
    if spec.partition_by.is_some() || spec.placement.is_some() {
        bail!(Syntax, "A table has one clause PARTITION BY");
    }
    let has_columns_word = cursor.words("COLUMNS");
    let (columns, function) = divided_by(cursor)?;
    if cursor.words("PARTITIONS") {
        cursor.number()?;
    }
    if cursor.words("SUBPARTITION") {
        return Err(refuse("SUBPARTITION BY"));
    }
    let mut partitions = Vec::new();
    if cursor.token(&Token::LParen) && !cursor.token(&Token::RParen) {
        partitions = cursor.list(partition)?;
        cursor.expect(&Token::RParen)?;
    }
    let in_brackets = |one: &PartitionSpec| matches!(one.values, ValuesSpec::Range(..));
    if partitions.iter().any(in_brackets) {
        spec.form = TableForm::Olap;
    }
    spec.partition_by =
        Some(PartitionBySpec { method, columns, function, has_columns_word, partitions });
    Ok(true)
}

/// Parses `(a, b)`, or `(function(a))`.
fn divided_by(cursor: &mut Cursor<'_>) -> Result<(Vec<String>, Option<PartitionFunction>)> {
    cursor.expect(&Token::LParen)?;
    let mut function = None;
    let columns = cursor.list(|cursor| {
        let name = cursor.name()?;
        if !matches!(cursor.peek().token, Token::LParen) {
            return Ok(vec![name]);
        }
        function = PartitionFunction::parse(&name);
        if function.is_none() {
            return Err(refuse(&format!("PARTITION BY a function but YEAR and TO_DAYS: {name}")));
        }
        cursor.in_parens(Cursor::name)
    })?;
    cursor.expect(&Token::RParen)?;
    Ok((columns.concat(), function))
}

/// Parses `PARTITION p VALUES ..`.
fn partition(cursor: &mut Cursor<'_>) -> Result<PartitionSpec> {
    if matches!(cursor.peek_word(0).as_deref(), Some("FROM")) {
        return Err(refuse("PARTITION BY RANGE (FROM .. TO .. INTERVAL ..)"));
    }
    cursor.expect_words("PARTITION")?;
    named(cursor)
}

/// Parses the part after PARTITION.
fn named(cursor: &mut Cursor<'_>) -> Result<PartitionSpec> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    let name = cursor.name_or_text()?;
    if !cursor.words("VALUES") {
        bail!(PartitionValues, "Partition '{name}' has no VALUES: LESS THAN, IN, or [..)");
    }
    let values = if cursor.words("LESS THAN") {
        ValuesSpec::LessThan(match cursor.words("MAXVALUE") {
            true => vec![ValueSpec::MaxValue],
            false => cursor.in_parens(value)?,
        })
    } else if cursor.token(&Token::LBracket) {
        let lower = cursor.in_parens(value)?;
        cursor.expect(&Token::Comma)?;
        let upper = cursor.in_parens(value)?;
        cursor.expect(&Token::RParen)?;
        ValuesSpec::Range(lower, upper)
    } else {
        cursor.expect_words("IN")?;
        ValuesSpec::In(cursor.in_parens(|cursor| match cursor.peek().token {
            Token::LParen => cursor.in_parens(value),
            _ => value(cursor).map(|value| vec![value]),
        })?)
    };
    options(cursor)?;
    Ok(PartitionSpec { name, if_not_exists, values })
}

fn value(cursor: &mut Cursor<'_>) -> Result<ValueSpec> {
    if cursor.words("MAXVALUE") {
        return Ok(ValueSpec::MaxValue);
    }
    if cursor.words("NULL") {
        return Ok(ValueSpec::Null);
    }
    cursor.one_of(&["DATE", "TIMESTAMP"]);
    if let Some(text) = cursor.text_opt() {
        return Ok(ValueSpec::Literal(text));
    }
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    if let Token::Number(digits, _) = &cursor.peek().token {
        let literal = format!("{sign}{digits}");
        cursor.parser.advance_token();
        return Ok(ValueSpec::Literal(literal));
    }
    let name = cursor.name()?;
    let Some(function) = PartitionFunction::parse(&name) else {
        return Err(refuse(&format!("'{name}' as a value of a partition")));
    };
    cursor.expect(&Token::LParen)?;
    let text = cursor.text()?;
    cursor.expect(&Token::RParen)?;
    Ok(ValueSpec::Call(function, text))
}

/// Skips what MySQL and Doris write behind a partition, which has no effect here.
fn options(cursor: &mut Cursor<'_>) -> Result<()> {
    const OPTIONS: [&str; 8] = [
        "STORAGE ENGINE",
        "ENGINE",
        "COMMENT",
        "MAX_ROWS",
        "MIN_ROWS",
        "TABLESPACE",
        "DATA DIRECTORY",
        "INDEX DIRECTORY",
    ];
    while cursor.one_of(&OPTIONS).is_some() {
        cursor.token(&Token::Eq);
        if cursor.number_opt().is_none() {
            cursor.name_or_text()?;
        }
    }
    match cursor.peek().token {
        Token::LParen if cursor.peek_word(1).as_deref() == Some("SUBPARTITION") => {
            Err(refuse("SUBPARTITION"))
        }
        Token::LParen => cursor.properties().map(drop),
        _ => Ok(()),
    }
}

/// Parses `p`, `p, q` or `(p, q)`.
pub fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    match cursor.peek().token {
        Token::LParen => cursor.in_parens(Cursor::name_or_text),
        _ => cursor.list(Cursor::name_or_text),
    }
}

/// Parses the part after TRUNCATE.
pub fn truncate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.words("TABLE");
    let tables = cursor.list(Cursor::table)?;
    let partitions = match cursor.one_of(&["PARTITION", "PARTITIONS"]) {
        Some(_) => Some(names(cursor)?),
        None => None,
    };
    cursor.words("FORCE");
    match (partitions, tables.as_slice()) {
        (None, _) => Ok(Statement::Truncate(tables)),
        (names @ Some(_), [table]) => {
            let change = AlterAction::Partitions(PartitionChange::Truncate(names));
            Ok(Statement::AlterTable(table.clone(), change))
        }
        (Some(_), _) => Err(cursor.error()),
    }
}

/// Parses an action of ALTER TABLE on partitions, if one comes next.
pub fn change(cursor: &mut Cursor<'_>) -> Result<Option<PartitionChange>> {
    if cursor.words("ADD PARTITION") {
        let specs = match cursor.token(&Token::LParen) {
            true => {
                let specs = cursor.list(partition)?;
                cursor.expect(&Token::RParen)?;
                specs
            }
            false => {
                let spec = named(cursor)?;
                if cursor.words("DISTRIBUTED BY") {
                    return Err(refuse("ADD PARTITION ... DISTRIBUTED BY"));
                }
                vec![spec]
            }
        };
        return Ok(Some(PartitionChange::Add(specs)));
    }
    if cursor.words("DROP PARTITION") {
        let if_exists = cursor.words("IF EXISTS");
        let names = names(cursor)?;
        cursor.words("FORCE");
        return Ok(Some(PartitionChange::Drop { names, if_exists }));
    }
    if cursor.words("TRUNCATE PARTITION") {
        return match cursor.words("ALL") {
            true => Ok(Some(PartitionChange::Truncate(None))),
            false => Ok(Some(PartitionChange::Truncate(Some(names(cursor)?)))),
        };
    }
    if cursor.words("RENAME PARTITION") {
        let from = cursor.name_or_text()?;
        cursor.words("TO");
        return Ok(Some(PartitionChange::Rename { from, to: cursor.name_or_text()? }));
    }
    let refused = [
        "ADD TEMPORARY PARTITION",
        "ADD PARTITIONS",
        "DROP TEMPORARY PARTITION",
        "MODIFY PARTITION",
        "REPLACE PARTITION",
        "REORGANIZE PARTITION",
        "EXCHANGE PARTITION",
        "COALESCE PARTITION",
        "REMOVE PARTITIONING",
        "PARTITION BY",
    ];
    match cursor.one_of(&refused) {
        Some(what) => Err(refuse(&format!("ALTER TABLE ... {what}"))),
        None => Ok(None),
    }
}
