//! Assignments to user variables in a SELECT, `@v := expr`, as far as their order is certain.
//!
//! A SELECT without FROM, and a derived table that is one, assigns from left to right before
//! anything else. An item of a SELECT over rows assigns once for each row of the result: what is
//! left is the value in the last one, or a number that rises from row to row. These need nothing of
//! the planner. Others are computed row by row (`by_row`), once the derived tables without
//! FROM have assigned what they do.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use freshet_base::{Error, Result, err};
use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select as Body, SelectItem, SetExpr,
    TableFactor, Value, Visit,
};

use crate::syntax::{Scalar, Select};
use crate::visit::visit_expressions;

/// A SELECT and its assignments.
#[derive(Clone, PartialEq, Debug)]
pub struct Assigning {
    /// The SELECT without them.
    pub query: Select,
    /// What is assigned first, in this order.
    pub before: Vec<(String, Scalar)>,
    /// What each row of the result assigns.
    pub columns: Vec<AssignedColumn>,
}

/// A column whose values go to a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssignedColumn {
    pub place: Place,
    /// In lower case.
    pub variable: String,
    /// `@v := @v + step`: the server counts, and what the query has here is to be replaced.
    pub step: Option<i64>,
}

/// The place of a column, which wildcards may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    FromStart(usize),
    /// 0 is the last one.
    FromEnd(usize),
}

/// Whether a query has an assignment anywhere.
pub fn assigns(query: &Select) -> bool {
    has_assignment(&query.0)
}

/// Whether a value has one.
pub fn value_assigns(value: &Scalar) -> bool {
    has_assignment(&value.0)
}

fn has_assignment(of: &impl Visit) -> bool {
    visit_expressions(of, |expr| match assignment(expr) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The user variables that a query assigns, in lower case.
pub(crate) fn variables_assigned(query: &Query) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let _ = visit_expressions(query, |expr| {
        found.extend(assignment(expr).map(|(name, _)| name));
        ControlFlow::<()>::Continue(())
    });
    found
}

/// A query whose other assignments are computed row by row, without those of the derived tables in
/// its FROM that have none themselves.
///
/// # Errors
/// 1235 for a variable that such a table reads before it assigns it.
pub fn for_each_row(query: &Select) -> Result<Assigning> {
    let mut query = query.0.clone();
    let mut before = Vec::new();
    if let SetExpr::Select(body) = &mut *query.body {
        for table in body.from.iter_mut() {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                derived(factor, &mut before)?;
            }
        }
    }
    Ok(Assigning { query: Select(query), before, columns: Vec::new() })
}

/// Takes the assignments out of a query; `texts` are the items as written.
///
/// # Errors
/// 1235 where they are to be computed row by row.
pub fn taken(query: &Select, texts: &[String]) -> Result<Assigning> {
    let mut query = query.0.clone();
    let SetExpr::Select(body) = &mut *query.body else { return Err(refused("of a UNION")) };
    if query.with.is_some() || !query.locks.is_empty() {
        return Err(refused("beside WITH or FOR UPDATE"));
    }
    let mut before = Vec::new();
    let mut columns = Vec::new();
    if body.from.is_empty() {
        at_once(body, &mut before)?;
        name_items(body, texts);
    } else {
        for table in body.from.iter_mut() {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut table.relation).chain(joined) {
                derived(factor, &mut before)?;
            }
        }
        columns = by_row(body, texts)?;
    }
    let assigned = columns.iter().map(|column| column.variable.as_str());
    check_reads(&query, &assigned.collect::<Vec<_>>(), &before)?;
    if columns.iter().any(|column| column.step.is_some()) {
        check_counts(&query)?;
    }
    Ok(Assigning { query: Select(query), before, columns })
}

/// A derived table that assigns.
fn derived(factor: &mut TableFactor, before: &mut Vec<(String, Scalar)>) -> Result<()> {
    let TableFactor::Derived { subquery, .. } = factor else { return Ok(()) };
    let SetExpr::Select(body) = &mut *subquery.body else { return Ok(()) };
    if !body.from.is_empty() {
        return Ok(());
    }
    let texts = body.projection.iter().map(ToString::to_string).collect::<Vec<_>>();
    at_once(body, before)?;
    name_items(body, &texts);
    Ok(())
}

/// Takes the assignments out of a SELECT without FROM. The variables stand in their place.
fn at_once(body: &mut Body, before: &mut Vec<(String, Scalar)>) -> Result<()> {
    let mut read = Vec::new();
    for item in &mut body.projection {
        let Some(expr) = expr_of(item) else { continue };
        let Some((variable, value)) = assignment(expr) else {
            read.extend(variables(expr));
            continue;
        };
        // What stands to the left would show the value from here on.
        if read.contains(&variable) || before.iter().any(|(known, _)| *known == variable) {
            return Err(refused("of a variable that was read or assigned before"));
        }
        before.push((variable.clone(), Scalar(value.clone())));
        *expr = Expr::Identifier(Ident::new(format!("@{variable}")));
        read.push(variable);
    }
    Ok(())
}

/// Takes the assignments out of a SELECT of rows.
fn by_row(body: &mut Body, texts: &[String]) -> Result<Vec<AssignedColumn>> {
    let count = body.projection.len();
    let is_wild = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let wild = body.projection.iter().map(is_wild).collect::<Vec<_>>();
    let mut columns: Vec<AssignedColumn> = Vec::new();
    for (at, item) in body.projection.iter_mut().enumerate() {
        let Some(expr) = expr_of(item) else { continue };
        let Some((variable, value)) = assignment(expr) else { continue };
        if columns.iter().any(|known| known.variable == variable) {
            return Err(refused("of one variable in two columns"));
        }
        let place = match (wild[..at].contains(&true), wild[at..].contains(&true)) {
            (false, _) => Place::FromStart(at),
            (true, false) => Place::FromEnd(count - 1 - at),
            (true, true) => return Err(refused("between two wildcards")),
        };
        let step = step_of(&variable, value);
        let value = match step {
            None => value.clone(),
            Some(_) => Expr::Value(count_placeholder().with_empty_span()),
        };
        *expr = value;
        if let (SelectItem::UnnamedExpr(expr), true) = (&*item, texts.len() == count) {
            *item = named(expr.clone(), &texts[at]);
        }
        columns.push(AssignedColumn { place, variable, step });
    }
    Ok(columns)
}

/// `n` of `@v + n`, or `-n` of `@v - n`.
fn step_of(variable: &str, value: &Expr) -> Option<i64> {
    let Expr::BinaryOp { left, op, right } = unnested(value) else { return None };
    let is_own = variable_of(left).is_some_and(|name| name == variable);
    let Expr::Value(number) = unnested(right) else { return None };
    let Value::Number(digits, _) = &number.value else { return None };
    let step = digits.parse::<i64>().ok().filter(|_| is_own)?;
    match op {
        BinaryOperator::Plus => Some(step),
        BinaryOperator::Minus => Some(-step),
        _ => None,
    }
}

/// Refuses variables that are read where it is not certain which value they have, and assignments
/// that were not taken out.
fn check_reads(query: &Query, assigned: &[&str], before: &[(String, Scalar)]) -> Result<()> {
    let is_left = |expr: &Expr| match expr {
        Expr::BinaryOp { op: BinaryOperator::Assignment, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let is_nested = |value: &Scalar| visit_expressions(&value.0, is_left).is_break();
    if visit_expressions(query, is_left).is_break() || before.iter().any(|(_, v)| is_nested(v)) {
        return Err(refused("within an expression or a subquery"));
    }
    let reads = variables(query);
    for variable in assigned {
        let times = reads.iter().filter(|read| read == variable).count();
        // A derived table that has assigned it shows the value before the first row.
        let first = before.iter().filter(|(known, _)| known == variable).count();
        if times > first {
            return Err(refused("of a variable that the rows read"));
        }
    }
    Ok(())
}

/// Refuses a count where rows are put together or ordered by it after it.
fn check_counts(query: &Query) -> Result<()> {
    let SetExpr::Select(body) = &*query.body else { return Ok(()) };
    let GroupByExpr::Expressions(keys, _) = &body.group_by else {
        return Err(refused("beside GROUP BY ALL"));
    };
    if body.distinct.is_some() || !keys.is_empty() || body.having.is_some() {
        return Err(refused("of a count beside DISTINCT, GROUP BY or HAVING; use ROW_NUMBER()"));
    }
    let counts = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr: Expr::Value(value), alias } => {
            (value.value == count_placeholder()).then(|| alias.value.to_lowercase())
        }
        _ => None,
    };
    let names = body.projection.iter().filter_map(counts).collect::<Vec<_>>();
    let ordered = query.order_by.as_ref().map_or(ControlFlow::Continue(()), |order| {
        visit_expressions(order, |expr| match expr {
            Expr::Identifier(name) if names.contains(&name.value.to_lowercase()) => {
                ControlFlow::Break(())
            }
            // A position.
            Expr::Value(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    });
    match ordered {
        ControlFlow::Break(()) => Err(refused("of a count by which rows are ordered")),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What stands in place of a count: a number of its type.
fn count_placeholder() -> Value {
    Value::Number(i64::MAX.to_string(), false)
}

/// Names the items of a SELECT as they were written.
fn name_items(body: &mut Body, texts: &[String]) {
    if texts.len() != body.projection.len() {
        return;
    }
    for (item, text) in body.projection.iter_mut().zip(texts) {
        if let SelectItem::UnnamedExpr(expr) = item
            && variable_of(expr).is_some()
        {
            *item = named(expr.clone(), text);
        }
    }
}

fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('`', name) }
}

fn expr_of(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The variable, in lower case, and the value of `@v := value`.
fn assignment(expr: &Expr) -> Option<(String, &Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Assignment, right } = unnested(expr) else {
        return None;
    };
    Some((variable_of(left)?, right))
}

fn unnested(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The name of a user variable, in lower case.
fn variable_of(expr: &Expr) -> Option<String> {
    let Expr::Identifier(name) = expr else { return None };
    let variable = name.value.strip_prefix('@').filter(|_| name.quote_style.is_none())?;
    (!variable.starts_with('@')).then(|| variable.to_lowercase())
}

fn variables(parsed: &impl Visit) -> Vec<String> {
    let mut found = Vec::new();
    let _ = visit_expressions(parsed, |expr| {
        found.extend(variable_of(expr));
        ControlFlow::<()>::Continue(())
    });
    found
}

fn refused(place: &str) -> Error {
    err!(
        NotSupported,
        "This version of Freshet doesn't yet support ':=' {place}: in what order rows and \
         expressions are computed is not certain"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Statement, parse};
    use crate::session::SqlMode;

    fn assigning(sql: &str) -> Result<Assigning> {
        let parsed = parse(sql, SqlMode::default()).unwrap().remove(0);
        match &parsed.statement {
            Statement::Assigning(query) => taken(query, &parsed.items),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_select_without_from_assigns_from_left_to_right() {
        let found = assigning("SELECT @a := 1 + 1, (@B := @a = 2) AS b, @b").unwrap();
        assert_eq!(found.query.to_string(), "SELECT @a AS `@a := 1 + 1`, @b AS b, @b AS `@b`");
        let before = found.before.iter().map(|(name, value)| format!("{name}={value}"));
        assert_eq!(before.collect::<Vec<_>>(), ["a=1 + 1", "b=@a = 2"]);
        assert!(found.columns.is_empty());
    }

    #[test]
    fn rows_assign_their_last_value_or_count() {
        let sql = "SELECT t.*, @n := @n - 2 AS n, @last := x FROM t, (SELECT @n := 0) AS r";
        let found = assigning(sql).unwrap();
        let column = |place, variable: &str, step| AssignedColumn {
            place: Place::FromEnd(place),
            variable: variable.to_owned(),
            step,
        };
        assert_eq!(found.columns, [column(1, "n", Some(-2)), column(0, "last", None)]);
        assert_eq!(found.before.len(), 1);
        let shown = found.query.to_string();
        assert!(
            shown.ends_with("x AS `@last := x` FROM t, (SELECT @n AS `@n := 0`) AS r"),
            "{shown}"
        );
    }

    #[test]
    fn what_has_no_certain_order_is_refused() {
        for sql in [
            "SELECT @a, @a := 1",
            "SELECT @a := 1, @a := 2",
            "SELECT 1 + (@a := 1)",
            "SELECT @a := @b := 1",
            "SELECT @a := x, @a + 1 FROM t",
            "SELECT @a := @a + x FROM t",
            "SELECT x FROM t WHERE (@a := x) > 1",
            "SELECT @n := @n + 1 AS n FROM t ORDER BY n",
            "SELECT @n := @n + 1, COUNT(*) FROM t GROUP BY x",
            "SELECT * FROM (SELECT @n := @n + 1 AS n FROM t) AS d",
            "SELECT @a := 1 UNION SELECT 2",
        ] {
            let error = assigning(sql).unwrap_err();
            assert_eq!(error.code().errno(), 1235, "{sql}");
        }
    }
}
