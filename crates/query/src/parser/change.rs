//! UPDATE and DELETE.

use freshet_base::{Result, bail};
use sqlparser::ast::{Ident, ObjectNamePart, TableFactor, TableWithJoins, With};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::Statement;
use super::cursor::{Cursor, refuse};
use super::partition;
use crate::change::{Change, ChangeKind, Rows};
use crate::changes::{Assignment, Changes, ChangesKind, Target};
use crate::joined::{self, table_of};
use crate::syntax::{Scalar, TableName, table_factor};

/// Parses an UPDATE or DELETE behind WITH, if it is one.
pub fn behind_with(cursor: &mut Cursor<'_>) -> Option<Result<Statement>> {
    if !cursor.word_follows("UPDATE") && !cursor.word_follows("DELETE") {
        return None;
    }
    let with = Some(with(cursor)?);
    match cursor.words("UPDATE") {
        true => Some(update(cursor, with)),
        false => Some(cursor.expect_words("DELETE").and_then(|()| delete(cursor, with))),
    }
}

/// Parses WITH, if UPDATE or DELETE follows it.
fn with(cursor: &mut Cursor<'_>) -> Option<With> {
    let parsed = cursor.parser.try_parse(|parser| {
        let with_token = parser.expect_keyword(Keyword::WITH)?.into();
        let recursive = parser.parse_keyword(Keyword::RECURSIVE);
        let cte_tables = parser.parse_comma_separated(Parser::parse_cte)?;
        match parser.peek_one_of_keywords(&[Keyword::UPDATE, Keyword::DELETE]) {
            Some(_) => Ok(With { with_token, recursive, cte_tables }),
            None => parser.expected("UPDATE or DELETE", parser.peek_token()),
        }
    });
    parsed.ok()
}

/// Parses what follows UPDATE.
pub fn update(cursor: &mut Cursor<'_>, with: Option<With>) -> Result<Statement> {
    cursor.words("LOW_PRIORITY");
    let ignores = cursor.words("IGNORE");
    let mut from = tables(cursor)?;
    cursor.expect_words("SET")?;
    let set = cursor.list(|cursor| {
        let mut name = vec![cursor.name()?];
        while cursor.token(&Token::Period) {
            name.push(cursor.name()?);
        }
        cursor.expect(&Token::Eq)?;
        let column = name.pop().expect("a name has a part");
        Ok((name, column, value(cursor)?))
    })?;
    let target = match cursor.words("FROM") {
        true => Some(others(cursor, &mut from)?),
        false => None,
    };
    let mut rows = rows(cursor, "UPDATE", (with, from))?;
    if target.is_some() && rows.selection.is_none() {
        bail!(Syntax, "UPDATE of a table FROM others needs a WHERE that says which rows");
    }
    let apart = joined::apart(&mut rows.from);
    let mut in_database = joined::named_apart(&apart, &mut rows.from);
    in_database = joined::named_apart(&apart, &mut rows.selection).or(in_database);
    if let [one] = &rows.from[..]
        && one.joins.is_empty()
        && !matches!(one.relation, TableFactor::NestedJoin { .. })
    {
        let target = of_factor(&one.relation, &rows)?;
        let set = set.into_iter().map(|(_, column, value)| (column, value)).collect();
        return Ok(one_change(target, ChangeKind::Update { set }, ignores, rows));
    }
    let tables = all(&rows);
    let mut assignments = Vec::with_capacity(set.len());
    for (mut name, column, mut value) in set {
        if let Some(value) = &mut value {
            in_database = joined::named_apart(&apart, &mut value.0).or(in_database);
        }
        let named = name.pop().map(|table| TableName { database: name.pop(), table });
        let of = match named.as_ref().or(target.as_ref()) {
            None => None,
            Some(of) => Some(place_of_set(&rows.from, &tables, of, &mut in_database)?),
        };
        assignments.push(Assignment { of, column, value });
    }
    let kind = ChangesKind::Update(assignments);
    Ok(several(Changes { kind, tables, in_database, ignores, rows }))
}

/// Parses what follows DELETE.
pub fn delete(cursor: &mut Cursor<'_>, with: Option<With>) -> Result<Statement> {
    cursor.words("LOW_PRIORITY");
    cursor.words("QUICK");
    let ignores = cursor.words("IGNORE");
    let names = match cursor.words("FROM") {
        true => None,
        false => {
            let names = cursor.list(named)?;
            cursor.expect_words("FROM")?;
            Some(names)
        }
    };
    let mut is_apart = false;
    let (names, from) = match names {
        Some(names) => (Some(names), tables(cursor)?),
        None if is_using(cursor) => {
            let names = cursor.list(named)?;
            cursor.expect_words("USING")?;
            let mut from = tables(cursor)?;
            if let [one] = &names[..]
                && !stands_in(&from, one)
            {
                is_apart = true;
                from.insert(0, plain(one));
            }
            (Some(names), from)
        }
        None => match of_partitions(cursor)? {
            Some(table) => (None, vec![table]),
            None => (None, tables(cursor)?),
        },
    };
    let mut rows = rows(cursor, "DELETE", (with, from))?;
    if is_apart && rows.selection.is_none() {
        bail!(Syntax, "DELETE FROM a table USING others needs a WHERE that says which rows");
    }
    let apart = joined::apart(&mut rows.from);
    let mut in_database = joined::named_apart(&apart, &mut rows.from);
    in_database = joined::named_apart(&apart, &mut rows.selection).or(in_database);
    let Some(names) = names else {
        let target = single(&rows)?;
        return Ok(one_change(target, ChangeKind::Delete, ignores, rows));
    };
    let tables = all(&rows);
    let mut places = Vec::with_capacity(names.len());
    for name in &names {
        let place = find(&tables, name, &mut in_database)?;
        if places.contains(&place) {
            bail!(NotUniqueTable, "Not unique table/alias: '{}'", name.table);
        }
        places.push(place);
    }
    let kind = ChangesKind::Delete(places);
    Ok(several(Changes { kind, tables, in_database, ignores, rows }))
}

/// Adds the tables that Doris names behind SET to the one that is changed, and returns its name.
fn others(cursor: &mut Cursor<'_>, from: &mut Vec<TableWithJoins>) -> Result<TableName> {
    let target = match &from[..] {
        [one] if one.joins.is_empty() => table_of(&one.relation),
        _ => None,
    };
    let Some((table, name)) = target else {
        return Err(refuse("UPDATE of joined tables with FROM behind SET"));
    };
    from.extend(tables(cursor)?);
    let database = table.database.filter(|_| name == table.table);
    Ok(TableName { database, table: name })
}

fn one_change(target: Target, kind: ChangeKind, ignores: bool, rows: Rows) -> Statement {
    let ((target, name), view, beside) = (target, None, Vec::new());
    Statement::Change(Box::new(Change { kind, target, name, ignores, view, beside, rows }))
}

fn several(changes: Changes) -> Statement {
    Statement::ChangeSeveral(Box::new(changes))
}

/// Whether a table stands in FROM, under its name or an alias. Where it does not, DELETE FROM it
/// USING others is Doris's: its rows are found beside those of the others.
fn stands_in(from: &[TableWithJoins], wanted: &TableName) -> bool {
    let is_it = |(table, name): Target| {
        [&table.table, &name].iter().any(|one| one.eq_ignore_ascii_case(&wanted.table))
    };
    joined::factors(from).into_iter().filter_map(table_of).any(is_it)
}

/// A table without an alias, as it stands in FROM.
fn plain(table: &TableName) -> TableWithJoins {
    let TableName { database, table } = table.clone();
    let names = database.into_iter().chain([table]);
    let parts = names.map(|name| ObjectNamePart::Identifier(Ident::with_quote('`', name)));
    TableWithJoins { relation: table_factor(parts.collect(), None), joins: Vec::new() }
}

/// Whether USING follows a list of names, as in `DELETE FROM t, u USING ..`.
fn is_using(cursor: &Cursor<'_>) -> bool {
    let mut at = 0;
    loop {
        match &cursor.parser.peek_nth_token_ref(at).token {
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::USING => return at > 0,
                Keyword::WHERE | Keyword::ORDER | Keyword::LIMIT | Keyword::AS => return false,
                _ => {}
            },
            Token::Word(_) | Token::Comma | Token::Period | Token::Mul => {}
            _ => return false,
        }
        at += 1;
    }
}

/// A table with some of its partitions, in the words of Doris too, if it comes next:
/// `t PARTITION p`, `t PARTITIONS (p, q)`.
fn of_partitions(cursor: &mut Cursor<'_>) -> Result<Option<TableWithJoins>> {
    let is_word = |at| matches!(cursor.peek_word(at).as_deref(), Some("PARTITION" | "PARTITIONS"));
    let has_point = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::Period);
    if !is_word(if has_point { 3 } else { 1 }) {
        return Ok(None);
    }
    let mut table = plain(&cursor.table()?);
    cursor.one_of(&["PARTITIONS", "PARTITION"]);
    let named = partition::names(cursor)?;
    if let TableFactor::Table { partitions, .. } = &mut table.relation {
        partitions.extend(named.into_iter().map(|name| Ident::with_quote('`', name)));
    }
    Ok(Some(table))
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
fn rows(
    cursor: &mut Cursor<'_>,
    word: &str,
    (with, from): (Option<With>, Vec<TableWithJoins>),
) -> Result<Rows> {
    let joined = |table: &TableWithJoins| {
        let joins = table.joins.iter().map(|join| join.relation.clone());
        [table.relation.clone()].into_iter().chain(joins).collect::<Vec<_>>()
    };
    let is_joined = from.len() > 1 || from.iter().any(|table| !table.joins.is_empty());
    for relation in from.iter().filter(|_| is_joined).flat_map(joined) {
        if let TableFactor::Table { partitions, .. } = relation {
            let names = partitions.into_iter().map(|name| name.value).collect::<Vec<_>>();
            partition::refuse_temporary(&names, &format!("{word} of joined tables"))?;
        }
    }
    let selection = match cursor.words("WHERE") {
        true => Some(cursor.expr()?.0),
        false => None,
    };
    let mut order = Vec::new();
    if cursor.words("ORDER BY") {
        let parsed = cursor.parser.parse_comma_separated(Parser::parse_order_by_expr);
        order = parsed.map_err(|error| cursor.refused(&error))?;
    }
    let limit = match cursor.words("LIMIT") {
        true => Some(cursor.expr()?.0),
        false => None,
    };
    if is_joined && !order.is_empty() {
        bail!(WrongUsage, "Incorrect usage of {word} and ORDER BY");
    }
    if is_joined && limit.is_some() {
        bail!(WrongUsage, "Incorrect usage of {word} and LIMIT");
    }
    Ok(Rows { with, from, selection, order, limit })
}

/// `None` for DEFAULT.
fn value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>> {
    let is_function = matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen);
    if !is_function && cursor.words("DEFAULT") {
        return Ok(None);
    }
    cursor.expr().map(Some)
}

fn of_factor(factor: &TableFactor, rows: &Rows) -> Result<Target> {
    match table_of(factor).filter(|target| !is_defined(target, rows)) {
        Some(target) => Ok(target),
        None => bail!(NonUpdatableTable, "The target table of the statement is not updatable"),
    }
}

fn single(rows: &Rows) -> Result<Target> {
    match &rows.from[..] {
        [one] if one.joins.is_empty() => of_factor(&one.relation, rows),
        _ => Err(refuse("DELETE FROM of several tables without naming one")),
    }
}

/// All tables of a statement, but those that its WITH defines.
fn all(rows: &Rows) -> Vec<Target> {
    let tables = joined::factors(&rows.from).into_iter().filter_map(table_of);
    tables.filter(|target| !is_defined(target, rows)).collect()
}

/// Whether WITH defines what stands under the name of a table.
fn is_defined((table, _): &Target, rows: &Rows) -> bool {
    let ctes = rows.with.iter().flat_map(|with| &with.cte_tables);
    table.database.is_none()
        && ctes.into_iter().any(|cte| cte.alias.name.value.eq_ignore_ascii_case(&table.table))
}

/// Whether a table is meant by this name of a database and a table.
fn is_named((table, name): &Target, database: Option<&String>, wanted: &str) -> bool {
    match database {
        None => name.eq_ignore_ascii_case(wanted),
        Some(_) => {
            let is_it =
                name.eq_ignore_ascii_case(wanted) || table.table.eq_ignore_ascii_case(wanted);
            table.database.as_ref() == database && is_it
        }
    }
}

/// The place of a table that DELETE names.
fn find(tables: &[Target], wanted: &TableName, in_database: &mut Option<String>) -> Result<usize> {
    match place_of(tables, wanted, in_database) {
        Some(at) => Ok(at),
        None => bail!(UnknownTable, "Unknown table '{}' in MULTI DELETE", wanted.table),
    }
}

/// The place of a table. `in_database` becomes the database that is said of one whose own is not.
fn place_of(
    tables: &[Target],
    wanted: &TableName,
    in_database: &mut Option<String>,
) -> Option<usize> {
    let TableName { database, table } = wanted;
    let is_it = |target: &Target| is_named(target, database.as_ref(), table);
    if let Some(at) = tables.iter().position(is_it) {
        return Some(at);
    }
    let is_current = |target: &Target| target.0.database.is_none() && is_named(target, None, table);
    let at = tables.iter().position(is_current)?;
    if in_database.is_some() && in_database != database {
        return None;
    }
    in_database.clone_from(database);
    Some(at)
}

/// The place of the table whose column is set.
fn place_of_set(
    from: &[TableWithJoins],
    tables: &[Target],
    wanted: &TableName,
    in_database: &mut Option<String>,
) -> Result<usize> {
    if let Some(at) = place_of(tables, wanted, in_database) {
        return Ok(at);
    }
    let wanted = &wanted.table;
    let is_derived = joined::factors(from).into_iter().any(|factor| {
        matches!(factor, TableFactor::Derived { alias: Some(alias), .. }
            if alias.name.value.eq_ignore_ascii_case(wanted))
    });
    match is_derived {
        true => {
            bail!(NonUpdatableTable, "The target table {wanted} of the UPDATE is not updatable")
        }
        false => bail!(UnknownTable, "Unknown table '{wanted}' in MULTI UPDATE"),
    }
}
