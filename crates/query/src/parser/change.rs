//! UPDATE and DELETE.

use freshet_base::{Result, bail};
use sqlparser::ast::{Ident, ObjectNamePart, TableFactor, TableWithJoins};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};
use super::partition;
use crate::change::{Change, ChangeKind, Rows, table_of};
use crate::syntax::{Scalar, TableName, table_factor};

/// Parses what follows UPDATE.
pub fn update(cursor: &mut Cursor<'_>) -> Result<Change> {
    cursor.words("LOW_PRIORITY");
    let ignores = cursor.words("IGNORE");
    let from = tables(cursor)?;
    cursor.expect_words("SET")?;
    let mut names = Vec::new();
    let set = cursor.list(|cursor| {
        let mut name = vec![cursor.name()?];
        while cursor.token(&Token::Period) {
            name.push(cursor.name()?);
        }
        cursor.expect(&Token::Eq)?;
        let column = name.pop().expect("a name has a part");
        names.push(name);
        Ok((column, value(cursor)?))
    })?;
    let target = target_of_set(&from, &names)?;
    let rows = rows(cursor, from)?;
    Ok(Change { kind: ChangeKind::Update { set }, target: target.0, name: target.1, ignores, rows })
}

/// Parses what follows DELETE.
pub fn delete(cursor: &mut Cursor<'_>) -> Result<Change> {
    cursor.words("LOW_PRIORITY");
    cursor.words("QUICK");
    let ignores = cursor.words("IGNORE");
    let named = match cursor.words("FROM") {
        true => None,
        false => {
            let names = cursor.list(named)?;
            cursor.expect_words("FROM")?;
            Some(names)
        }
    };
    let mut from = match of_partitions(cursor)? {
        Some(table) => vec![table],
        None => tables(cursor)?,
    };
    let mut names = named;
    if names.is_none() && cursor.words("USING") {
        let of = |table: &TableWithJoins| of_factor(&table.relation).map(|(table, _)| table);
        names = Some(from.iter().map(of).collect::<Result<_>>()?);
        from = tables(cursor)?;
    }
    let target = match names.as_deref() {
        None => single(&from)?,
        Some([name]) => find(&from, name)?,
        Some(_) => return Err(refuse("DELETE of several tables at once")),
    };
    let rows = rows(cursor, from)?;
    Ok(Change { kind: ChangeKind::Delete, target: target.0, name: target.1, ignores, rows })
}

/// A table with some of its partitions, in the words of Doris too, if it comes next:
/// `t PARTITION p`, `t PARTITIONS (p, q)`.
fn of_partitions(cursor: &mut Cursor<'_>) -> Result<Option<TableWithJoins>> {
    let is_word = |at| matches!(cursor.peek_word(at).as_deref(), Some("PARTITION" | "PARTITIONS"));
    let has_point = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::Period);
    if !is_word(if has_point { 3 } else { 1 }) {
        return Ok(None);
    }
    let TableName { database, table } = cursor.table()?;
    cursor.one_of(&["PARTITIONS", "PARTITION"]);
    let named = partition::names(cursor)?;
    let quoted = |name: String| Ident::with_quote('`', name);
    let name = database.into_iter().chain([table]).map(quoted).map(ObjectNamePart::Identifier);
    let mut relation = table_factor(name.collect(), None);
    if let TableFactor::Table { partitions, .. } = &mut relation {
        partitions.extend(named.into_iter().map(quoted));
    }
    Ok(Some(TableWithJoins { relation, joins: Vec::new() }))
}

/// A table, perhaps with `.*` behind it.
fn named(cursor: &mut Cursor<'_>) -> Result<TableName> {
    let first = cursor.name()?;
    let mut table = TableName { database: None, table: first };
    while cursor.token(&Token::Period) {
        if cursor.token(&Token::Mul) {
            break;
        }
        let next = cursor.name()?;
        table.database = Some(std::mem::replace(&mut table.table, next));
    }
    Ok(table)
}

fn tables(cursor: &mut Cursor<'_>) -> Result<Vec<TableWithJoins>> {
    cursor.list(|cursor| {
        let parsed = cursor.parser.parse_table_and_joins();
        parsed.map_err(|error| cursor.refused(&error))
    })
}

/// WHERE, ORDER BY and LIMIT.
fn rows(cursor: &mut Cursor<'_>, from: Vec<TableWithJoins>) -> Result<Rows> {
    let selection = match cursor.words("WHERE") {
        true => Some(cursor.expr()?.0),
        false => None,
    };
    let is_joined = from.len() > 1 || from.iter().any(|table| !table.joins.is_empty());
    let mut order = Vec::new();
    if cursor.words("ORDER BY") {
        let parsed = cursor.parser.parse_comma_separated(Parser::parse_order_by_expr);
        order = parsed.map_err(|error| cursor.refused(&error))?;
    }
    let limit = match cursor.words("LIMIT") {
        true => Some(cursor.expr()?.0),
        false => None,
    };
    if is_joined && (limit.is_some() || !order.is_empty()) {
        bail!(WrongUsage, "Incorrect usage of UPDATE and ORDER BY or LIMIT with several tables");
    }
    Ok(Rows { from, selection, order, limit })
}

/// `None` for DEFAULT.
fn value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>> {
    let is_function = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen);
    if !is_function && cursor.words("DEFAULT") {
        return Ok(None);
    }
    cursor.expr().map(Some)
}

/// The table, and the name by which expressions refer to it.
type Target = (TableName, String);

fn of_factor(factor: &TableFactor) -> Result<Target> {
    match table_of(factor) {
        Some(target) => Ok(target),
        None => bail!(NonUpdatableTable, "The target table of the statement is not updatable"),
    }
}

fn single(from: &[TableWithJoins]) -> Result<Target> {
    match from {
        [one] if one.joins.is_empty() => of_factor(&one.relation),
        _ => Err(refuse("DELETE FROM of several tables without naming one")),
    }
}

fn all(from: &[TableWithJoins]) -> Vec<Target> {
    let joined = from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    });
    joined.filter_map(|factor| of_factor(factor).ok()).collect()
}

fn find(from: &[TableWithJoins], wanted: &TableName) -> Result<Target> {
    let is_it = |(table, name): &Target| {
        name.eq_ignore_ascii_case(&wanted.table)
            && (wanted.database.is_none() || table.database == wanted.database)
    };
    match all(from).into_iter().find(is_it) {
        Some(target) => Ok(target),
        None => bail!(UnknownTable, "Unknown table '{}' in MULTI DELETE", wanted.table),
    }
}

/// The table that the assignments of an UPDATE are of.
fn target_of_set(from: &[TableWithJoins], names: &[Vec<String>]) -> Result<Target> {
    let tables = all(from);
    if let [one] = from
        && one.joins.is_empty()
    {
        return of_factor(&one.relation);
    }
    let mut found = None::<Target>;
    for name in names {
        let Some(qualifier) = name.last() else {
            return Err(refuse("UPDATE of several tables whose SET does not say of which"));
        };
        let target =
            tables.iter().find(|(_, known)| known.eq_ignore_ascii_case(qualifier)).cloned();
        match (&found, target) {
            (_, None) => bail!(UnknownTable, "Unknown table '{qualifier}' in MULTI UPDATE"),
            (Some(before), Some(next)) if before.1 != next.1 => {
                return Err(refuse("UPDATE of columns of several tables at once"));
            }
            (_, target) => found = target,
        }
    }
    found.ok_or_else(|| refuse("UPDATE without SET"))
}
