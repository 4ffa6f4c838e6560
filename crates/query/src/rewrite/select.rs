//! SELECT: column names, conditions and tables.

use std::collections::HashSet;
use std::ops::ControlFlow;

use freshet_base::{Error, Result, bail, err};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, GroupByWithModifier, Ident, LimitClause, ObjectName,
    ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, UnaryOperator, Value, Visit,
};

use super::Place;
use super::having::has_aggregate;
use super::lateral_view;
use super::set_operation::{self, first_select};
use super::values::{call, int, lower, take, text, truth};
use crate::result::copy_name;
use crate::snapshot::PARTITION_MARK;
use crate::visit::visit_expressions;

/// The column names of the outermost SELECT; `texts` are its items as written.
pub fn outer_names(query: &Query, texts: &[String]) -> Vec<Option<String>> {
    let Some(select) = first_select(&query.body) else { return Vec::new() };
    let written = |at: usize, expr: &Expr| {
        let text = if texts.len() == select.projection.len() { Some(&texts[at]) } else { None };
        text.cloned().unwrap_or_else(|| expr.to_string())
    };
    select
        .projection
        .iter()
        .enumerate()
        .map(|(at, item)| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident.value.clone()),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents))
                if !idents[0].value.starts_with("@@") =>
            {
                idents.last().map(|ident| ident.value.clone())
            }
            SelectItem::UnnamedExpr(expr) => {
                Some(quoted_text(expr).map_or_else(|| written(at, expr), str::to_owned))
            }
            SelectItem::ExprWithAliases { .. }
            | SelectItem::Wildcard(_)
            | SelectItem::QualifiedWildcard(..) => None,
        })
        .collect()
}

/// The text of a literal, with or without a character set before it: what a column is called.
fn quoted_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::NationalStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Prefixed { prefix, value } if prefix.value.starts_with('_') => quoted_text(value),
        _ => None,
    }
}

/// Rewrites that come before those of a query's parts, and how many expressions they have copied,
/// at most `most`.
pub fn before(query: &mut Query, place: Place, most: usize) -> Result<usize> {
    super::ambiguous::check(query)?;
    let copied = super::windows::written_out(query, most)?;
    lateral_view::joined(&mut query.body)?;
    if let Some(with) = &mut query.with {
        for cte in &mut with.cte_tables {
            lower_columns(&mut cte.alias);
            named_by_alias(&cte.alias, &mut cte.query);
            set_operation::cte(cte, with.recursive)?;
        }
    }
    if let Some(LimitClause::OffsetCommaLimit { offset, limit }) = &mut query.limit_clause {
        query.limit_clause = Some(LimitClause::LimitOffset {
            limit: Some(take(limit)),
            offset: Some(sqlparser::ast::Offset {
                value: take(offset),
                rows: sqlparser::ast::OffsetRows::None,
            }),
            limit_by: Vec::new(),
        });
    }
    if let Some(limit) = &mut query.limit_clause {
        limited(limit)?;
    }
    super::distinct::ordered(query);
    ordered(query)?;
    query.locks.clear();
    query.for_clause = None;
    let named = names_in(&query.order_by);
    name_columns(&mut query.body, place.outermost, &named);
    set_operation::before(query, place.outermost)?;
    before_body(&mut query.body, place.has_outer)?;
    Ok(copied)
}

/// In ORDER BY an integer is the position of a column, and other literals are dropped.
fn ordered(query: &mut Query) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) = &mut query.order_by else {
        return Ok(());
    };
    let mut zero = false;
    exprs.retain(|by| match (place(&by.expr), &by.expr) {
        (Some(place), _) => {
            zero |= place == 0;
            true
        }
        (None, Expr::Value(value)) => {
            !matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_) | Value::Null)
        }
        (None, expr) => !is_signed_number(expr),
    });
    if zero {
        bail!(UnknownColumn, "Unknown column '0' in 'order clause'");
    }
    for by in &mut *exprs {
        super::subquery::in_item(&mut by.expr)?;
        hide_variable(&mut by.expr);
    }
    if exprs.is_empty() {
        query.order_by = None;
    }
    Ok(())
}

/// The position that an integer in ORDER BY or GROUP BY refers to.
fn place(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(usize::MAX))
}

/// Whether an expression is a number with an explicit sign, which is not a position.
fn is_signed_number(expr: &Expr) -> bool {
    !matches!(expr, Expr::Value(_)) && is_number(expr)
}

/// Whether an expression is a number, perhaps with signs or in parentheses.
fn is_number(expr: &Expr) -> bool {
    let mut inner = expr;
    while let Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr }
    | Expr::Nested(expr) = inner
    {
        inner = expr;
    }
    matches!(inner, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Hides what a variable stands for: a number in it is no position.
fn hide_variable(key: &mut Expr) {
    if is_variable(key) {
        let name = key.to_string();
        *key = call("mysql_part", vec![take(key), text(name)]);
    }
}

/// Whether an expression is a variable, as `@x`.
fn is_variable(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.starts_with('@'))
}

/// Hides the numbers that keys of GROUP BY name by their aliases, as in `SELECT 2024 AS y .. GROUP
/// BY y`: DataFusion would take them for positions.
fn hide_numbers(projection: &mut [SelectItem], keys: &[Expr]) {
    for item in projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let is_alias = |key: &Expr| match key {
            Expr::Identifier(name) => name.value.eq_ignore_ascii_case(&alias.value),
            _ => false,
        };
        if (is_number(expr) || is_variable(expr)) && keys.iter().any(is_alias) {
            *expr = call("mysql_part", vec![take(expr), text("number")]);
        }
    }
}

/// Checks that LIMIT has unsigned integers; those too large for DataFusion are replaced by the
/// largest.
fn limited(clause: &mut LimitClause) -> Result<()> {
    let LimitClause::LimitOffset { limit, offset, .. } = clause else { return Ok(()) };
    let counts = limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value));
    for count in counts {
        let Expr::Value(value) = &*count else { return Err(wrong_limit(count)) };
        match &value.value {
            Value::Placeholder(_) => {}
            Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                *count = int(digits.parse().unwrap_or(i64::MAX));
            }
            _ => return Err(wrong_limit(count)),
        }
    }
    Ok(())
}

fn wrong_limit(count: &Expr) -> Error {
    err!(
        Syntax,
        "You have an error in your SQL syntax; LIMIT takes an integer that is not negative, near \
         '{count}' at line 1"
    )
}

/// The names in clauses that may mean an alias, in lower case.
fn names_in(clauses: &impl Visit) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visit_expressions(clauses, |expr| {
        if let Expr::Identifier(name) = expr {
            names.insert(name.value.to_lowercase());
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Names the columns of a query; names are made `unique` if they are not visible to the client.
/// ORDER BY has the names `ordered`.
fn name_columns(body: &mut SetExpr, unique: bool, ordered: &HashSet<String>) {
    match body {
        SetExpr::Select(select) => name_items(select, unique, ordered),
        SetExpr::Query(query) => name_columns(&mut query.body, unique, ordered),
        SetExpr::SetOperation { left, right, .. } => {
            name_columns(left, unique, ordered);
            name_columns(right, true, ordered);
        }
        _ => {}
    }
}

/// Where an alias names the columns, those of the query may have one name.
fn named_by_alias(alias: &TableAlias, query: &mut Query) {
    if !alias.columns.is_empty() {
        name_columns(&mut query.body, true, &names_in(&query.order_by));
    }
}

fn before_body(body: &mut SetExpr, has_outer: bool) -> Result<()> {
    match body {
        SetExpr::Select(select) => before_select(select, has_outer),
        SetExpr::SetOperation { left, right, .. } => {
            before_body(left, has_outer)?;
            before_body(right, has_outer)
        }
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.len());
            match values.rows.iter().position(|row| row.len() != width) {
                None => Ok(()),
                Some(at) => {
                    bail!(ColumnCount, "Column count doesn't match value count at row {}", at + 1)
                }
            }
        }
        _ => Ok(()),
    }
}

fn before_select(select: &mut Select, has_outer: bool) -> Result<()> {
    if let Some(into) = &select.into {
        bail!(NotSupported, "This version of Freshet doesn't yet support 'SELECT ... {into}'");
    }
    without_dual(select);
    super::tables::with_databases(select);
    super::having::before(select, has_outer)?;
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            if matches!(expr, Expr::Tuple(_)) {
                bail!(OperandColumns, "Operand should contain 1 column(s)");
            }
            super::subquery::in_item(expr)?;
        }
    }
    super::join::subqueries(select, super::subquery::in_join)?;
    super::join::subqueries(select, super::subquery::in_condition)?;
    for condition in select.selection.iter_mut().chain(&mut select.having) {
        super::subquery::in_condition(condition)?;
    }
    group_by(select)?;
    if let Some(Distinct::On(_)) = select.distinct {
        bail!(Syntax, "You have an error in your SQL syntax; near 'DISTINCT ON' at line 1");
    }
    select.select_modifiers = None;
    select.optimizer_hints.clear();
    Ok(())
}

/// `FROM DUAL` means no table.
fn without_dual(select: &mut Select) {
    if let [table] = &select.from[..]
        && table.joins.is_empty()
        && let TableFactor::Table { name, .. } = &table.relation
        && name.to_string().eq_ignore_ascii_case("dual")
    {
        select.from.clear();
    }
}

/// Gives an alias to every item that is not a column: its name in MySQL, as in a derived table,
/// with a suffix if names must be unique.
fn name_items(select: &mut Select, unique: bool, ordered: &HashSet<String>) {
    let is_wild = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let first = select.projection.iter().position(is_wild);
    let last = select.projection.iter().rposition(is_wild);
    let wild = first.is_some();
    let mut named = names_in(&select.having);
    named.extend(names_in(&select.group_by));
    let mut taken = HashSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        // What stands between two wildcards is called by its internal name.
        let is_apart = Some(at) < first || Some(at) > last;
        let (expr, wanted, column) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let (name, column) = match &*expr {
                    Expr::Identifier(ident) if !ident.value.starts_with('@') => {
                        (ident.value.clone(), true)
                    }
                    Expr::CompoundIdentifier(idents) if !idents[0].value.starts_with("@@") => {
                        (idents.last().map_or_else(String::new, |i| i.value.clone()), true)
                    }
                    other => (other.to_string(), false),
                };
                (take(expr), name.to_lowercase(), column)
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = alias.value.to_lowercase();
                // The alias may be the name of a column that the wildcard stands for.
                let is_free = unique && wild && is_apart;
                let is_read = ordered.contains(&name) || named.contains(&name);
                let as_column = is_free && (!is_read || is_column_named(expr, &name));
                (take(expr), name, as_column)
            }
            _ => continue,
        };
        // With a wildcard, a column appears twice.
        let mut name = wanted.clone();
        let mut copy = 1;
        while !taken.insert(name.clone()) || (wild && column && copy == 1) {
            if !unique && !wild {
                break;
            }
            copy += 1;
            name = copy_name(&wanted, copy);
        }
        *item = if column && name == wanted {
            SelectItem::UnnamedExpr(expr)
        } else {
            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('`', name) }
        };
    }
}

/// Whether an expression is a column of this name.
fn is_column_named(expr: &Expr, name: &str) -> bool {
    let last = match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(idents) => idents.last(),
        _ => None,
    };
    last.is_some_and(|last| last.value.eq_ignore_ascii_case(name))
}

/// Validates positions in GROUP BY, and rewrites `GROUP BY a, b WITH ROLLUP` to a grouping set.
fn group_by(select: &mut Select) -> Result<()> {
    let Select { projection, group_by, .. } = select;
    let GroupByExpr::Expressions(exprs, modifiers) = group_by else {
        return Ok(());
    };
    hide_numbers(projection, exprs);
    for expr in &mut *exprs {
        check_key(expr, projection)?;
        super::subquery::in_item(expr)?;
        hide_variable(expr);
        if is_signed_number(expr) {
            // DataFusion would take it for a position.
            *expr = call("mysql_part", vec![take(expr), text("signed")]);
        }
    }
    match modifiers[..] {
        [] => {}
        [GroupByWithModifier::Rollup] => {
            let keys = exprs.drain(..).map(|key| key_at(key, projection)).collect::<Vec<_>>();
            *exprs = vec![Expr::Rollup(apart(keys))];
            modifiers.clear();
        }
        _ => bail!(NotSupported, "This version of Freshet doesn't yet support 'GROUP BY ... WITH'"),
    }
    Ok(())
}

/// The keys of a grouping set, where one that is there again gets another name: each is a level of
/// its own, and the items mean the first.
fn apart(keys: Vec<Expr>) -> Vec<Vec<Expr>> {
    let mut sets = Vec::<Vec<Expr>>::with_capacity(keys.len());
    for key in keys {
        let is_there = sets.iter().flatten().any(|known| *known == key);
        let name = format!("again {}", sets.len());
        sets.push(match is_there {
            true => vec![call("mysql_part", vec![key, text(name)])],
            false => vec![key],
        });
    }
    sets
}

/// The key that a position stands for, which has no meaning within a grouping set; other keys as
/// they are.
pub fn key_at(key: Expr, items: &[SelectItem]) -> Expr {
    let at = place(&key).and_then(|place| place.checked_sub(1));
    match at.and_then(|at| items.get(at)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            expr.clone()
        }
        _ => key,
    }
}

/// Rejects positions of an aggregate and those out of range.
fn check_key(key: &Expr, items: &[SelectItem]) -> Result<()> {
    let wild = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let item = match (place(key), key) {
        (Some(_), _) if items.iter().any(wild) => return Ok(()),
        (Some(place), _) => match place.checked_sub(1).and_then(|at| items.get(at)) {
            None => bail!(UnknownColumn, "Unknown column '{place}' in 'group statement'"),
            item => item,
        },
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(expr)) if has_aggregate(expr) => {
            bail!(WrongGroupField, "Can't group on '{expr}'")
        }
        Some(SelectItem::ExprWithAlias { expr, alias }) if has_aggregate(expr) => {
            bail!(WrongGroupField, "Can't group on '{}'", alias.value)
        }
        _ => Ok(()),
    }
}

/// Rewrites the conditions of a SELECT after its parts.
pub fn after(select: &mut Select) {
    for condition in [&mut select.selection, &mut select.having].into_iter().flatten() {
        *condition = truth(take(condition));
    }
    for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
        super::join::operator(&mut join.join_operator);
    }
}

pub fn lower_columns(alias: &mut TableAlias) {
    alias.name.quote_style = Some('`');
    alias.columns.iter_mut().for_each(|column| lower(&mut column.name));
}

/// Makes the partitions that a table is read from part of its name.
fn name_partitions(name: &mut ObjectName, alias: &mut Option<TableAlias>, partitions: Vec<Ident>) {
    let Some(ObjectNamePart::Identifier(table)) = name.0.last_mut() else { return };
    if alias.is_none() {
        let (name, columns) = (table.clone(), Vec::new());
        *alias = Some(TableAlias { explicit: true, name, columns, at: None });
    }
    for partition in partitions {
        table.value.push(PARTITION_MARK);
        table.value.push_str(&partition.value);
    }
    table.quote_style = Some('`');
}

/// Aliases of tables keep their case, their column names become lower case. `dual` is not a table.
pub fn table_factor(factor: &mut TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table { name, alias, index_hints, partitions, .. } => {
            index_hints.clear();
            if !partitions.is_empty() {
                name_partitions(name, alias, std::mem::take(partitions));
            }
            alias.iter_mut().for_each(lower_columns);
        }
        TableFactor::Derived { alias: None, .. } => {
            bail!(DerivedAlias, "Every derived table must have its own alias")
        }
        TableFactor::Derived { alias: Some(alias), subquery, .. } => {
            lower_columns(alias);
            named_by_alias(alias, subquery);
        }
        TableFactor::NestedJoin { alias, .. } => alias.iter_mut().for_each(lower_columns),
        _ => {}
    }
    Ok(())
}
