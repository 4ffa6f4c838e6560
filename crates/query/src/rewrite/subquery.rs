//! Rewrites conditions on subqueries so that DataFusion evaluates them with MySQL's NULL semantics:
//! `ALL` and `ANY` compare with MIN or MAX, rows are compared component by component, and in a
//! select list `EXISTS` and `IN` become counts.

use std::ops::ControlFlow;

use crate::visit::{visit_expressions, walk_mut};
use freshet_base::{Error, Result, bail};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Distinct, Expr, GroupByExpr, LimitClause, Query, Select, SelectItem,
    SetExpr, UnaryOperator, VisitorMut,
};

use super::derived::{column, derived, mark_made, selecting};
use super::having::has_aggregate;
use super::set_operation::{as_derived, first_select};
use super::values::{binary, call, case, int, not, null, take};

/// Rewrites a condition on a subquery before its parts.
pub fn before(expr: &mut Expr) -> Result<()> {
    check_width(expr)?;
    let new = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => {
            let (left, subquery) = (take(left), subquery(right)?);
            match compare_op {
                BinaryOperator::Eq => member(left, subquery, false)?,
                BinaryOperator::NotEq => {
                    not(quantified(left, &BinaryOperator::Eq, subquery, true)?)
                }
                op => quantified(left, op, subquery, false)?,
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            let (left, subquery) = (take(left), subquery(right)?);
            match compare_op {
                BinaryOperator::NotEq => member(left, subquery, true)?,
                op => quantified(left, op, subquery, true)?,
            }
        }
        Expr::InSubquery { expr: left, subquery, negated } => {
            member(take(left), subquery.clone(), *negated)?
        }
        Expr::BinaryOp { left, op, right } if compares(op) => match (&mut **left, &mut **right) {
            (Expr::Tuple(parts), Expr::Subquery(query)) => {
                row_compared(std::mem::take(parts), op, query.clone(), false)?
            }
            (Expr::Subquery(query), Expr::Tuple(parts)) => {
                row_compared(std::mem::take(parts), op, query.clone(), true)?
            }
            _ => return Ok(()),
        },
        Expr::Subquery(subquery) | Expr::Exists { subquery, .. } => return as_derived(subquery),
        _ => return Ok(()),
    };
    *expr = new;
    Ok(())
}

/// Rejects a subquery that has another number of columns than what it is compared with.
fn check_width(expr: &Expr) -> Result<()> {
    let (left, query) = match expr {
        Expr::InSubquery { expr: left, subquery, .. } => (left, subquery),
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => match &**right {
            Expr::Subquery(query) => (left, query),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let width = match &**left {
        Expr::Tuple(parts) => parts.len(),
        _ => 1,
    };
    let Some(select) = first_select(&query.body) else { return Ok(()) };
    let is_named = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    if select.projection.iter().all(is_named) && select.projection.len() != width {
        bail!(OperandColumns, "Operand should contain {width} column(s)");
    }
    Ok(())
}

fn subquery(expr: &Expr) -> Result<Box<Query>> {
    match expr {
        Expr::Subquery(query) => Ok(query.clone()),
        other => bail!(
            Syntax,
            "You have an error in your SQL syntax; ALL, ANY and SOME want a subquery, near \
             '{other}' at line 1"
        ),
    }
}

/// `left IN (subquery)`, where `left` may be a row.
fn member(left: Expr, mut subquery: Box<Query>, negated: bool) -> Result<Expr> {
    let Expr::Tuple(parts) = left else {
        as_derived(&mut subquery)?;
        return Ok(Expr::InSubquery { expr: Box::new(left), subquery, negated });
    };
    let sure = row_exists(parts.clone(), subquery.clone(), false)?;
    let possible = row_exists(parts, subquery, true)?;
    let unsure = binary(possible, BinaryOperator::And, null());
    let known = Expr::Nested(Box::new(binary(sure, BinaryOperator::Or, unsure)));
    Ok(if negated { not(known) } else { known })
}

/// Whether a row of the subquery equals `parts`, or with `possible` may do so, where NULL is
/// compared: an EXISTS, which is never NULL.
fn row_exists(parts: Vec<Expr>, subquery: Box<Query>, possible: bool) -> Result<Expr> {
    let equal = parts.into_iter().enumerate().map(|(at, part)| {
        let equal = binary(column(at), BinaryOperator::Eq, part);
        if possible { Expr::IsNotFalse(Box::new(equal)) } else { equal }
    });
    let equal = equal.collect::<Vec<_>>();
    let count = equal.len();
    let all = equal.into_iter().reduce(|all, next| binary(all, BinaryOperator::And, next));
    let Some(condition) = all else {
        bail!(OperandColumns, "Operand should contain 1 column(s)");
    };
    let subquery = selecting(int(1), derived(subquery, count), Some(condition));
    Ok(Expr::Exists { subquery, negated: false })
}

/// Rewrites `row IN (subquery)` and its like where only truth counts, that is under AND, OR and NOT
/// of a condition: there one EXISTS is enough, see [`member`] for the other places.
pub fn in_condition(condition: &mut Expr) -> Result<()> {
    // With each part, whether NULL is as good as false there, or under NOT as good as true.
    let mut parts = vec![(condition, false)];
    while let Some((part, under_not)) = parts.pop() {
        let found = match part {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                parts.extend([(&mut **left, under_not), (&mut **right, under_not)]);
                continue;
            }
            Expr::Nested(inner) => {
                parts.push((&mut **inner, under_not));
                continue;
            }
            Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => {
                parts.push((&mut **expr, !under_not));
                continue;
            }
            part => part,
        };
        let Some((row, subquery, negated)) = row_membership(found) else { continue };
        let (row, subquery) = (row.clone(), Box::new(subquery.clone()));
        check_width(found)?;
        let exists = row_exists(row, subquery, negated != under_not)?;
        *found = if negated { not(exists) } else { exists };
    }
    Ok(())
}

/// The row, the subquery and the negation of `row [NOT] IN (subquery)`, `row = ANY (subquery)` and
/// `row <> ALL (subquery)`.
fn row_membership(expr: &Expr) -> Option<(&Vec<Expr>, &Query, bool)> {
    let (left, subquery, negated) = match expr {
        Expr::InSubquery { expr: left, subquery, negated } => (left, subquery, *negated),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match &**right {
            Expr::Subquery(subquery) => (left, subquery, false),
            _ => return None,
        },
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => match &**right {
            Expr::Subquery(subquery) => (left, subquery, true),
            _ => return None,
        },
        _ => return None,
    };
    match &**left {
        Expr::Tuple(row) => Some((row, &**subquery, negated)),
        _ => None,
    }
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship)
}

/// `(a, b) op (subquery)`, or the other way round: the only row of the subquery is compared where
/// it is computed; without a row the result is NULL.
fn row_compared(
    parts: Vec<Expr>,
    op: &BinaryOperator,
    subquery: Box<Query>,
    is_right: bool,
) -> Result<Expr> {
    let count = parts.len();
    let (row, columns) = (Expr::Tuple(parts), Expr::Tuple((0..count).map(column).collect()));
    let nulls = Expr::Tuple((0..count).map(|_| null()).collect());
    let compared = match is_right {
        false => binary(row.clone(), op.clone(), columns),
        true => binary(columns, op.clone(), row.clone()),
    };
    let found = Expr::Subquery(selecting(compared, derived(subquery, count), None));
    Ok(match op {
        // A row that is missing is one of NULLs.
        BinaryOperator::Spaceship => {
            call("ifnull", vec![found, binary(row, BinaryOperator::Spaceship, nulls)])
        }
        _ => found,
    })
}

/// The state of a subquery with one column: 0 without rows, 1 without NULL, 2 with NULL.
fn state(subquery: &Query) -> Expr {
    aggregated(subquery, |value| {
        let rows = call("count", vec![int(1)]);
        let values = call("count", vec![value]);
        let when = |left: Expr, right: Expr, result| CaseWhen {
            condition: binary(left, BinaryOperator::Eq, right),
            result,
        };
        let conditions = vec![when(rows.clone(), int(0), int(0)), when(rows, values, int(1))];
        case(conditions, Some(int(2)))
    })
}

/// `left op ALL (subquery)` or `left op ANY (subquery)`: compares with the minimum or maximum; NULL
/// in the subquery makes the result NULL unless another row decides; without rows ALL is true and
/// ANY is false.
fn quantified(left: Expr, op: &BinaryOperator, subquery: Box<Query>, all: bool) -> Result<Expr> {
    if matches!(left, Expr::Tuple(_)) {
        bail!(OperandColumns, "Operand should contain 1 column(s)");
    }
    let extreme = |name: &str| aggregated(&subquery, |value| call(name, vec![value]));
    let compared = |name: &str| binary(left.clone(), op.clone(), extreme(name));
    let decided = match (op, all) {
        (BinaryOperator::Gt | BinaryOperator::GtEq, true)
        | (BinaryOperator::Lt | BinaryOperator::LtEq, false) => compared("max"),
        (BinaryOperator::Lt | BinaryOperator::LtEq, true)
        | (BinaryOperator::Gt | BinaryOperator::GtEq, false) => compared("min"),
        (BinaryOperator::Eq, true) => binary(compared("min"), BinaryOperator::And, compared("max")),
        _ => bail!(NotSupported, "This version of Freshet doesn't yet support '{op} ALL or ANY'"),
    };
    let is = |state: Expr, wanted: u8| binary(state, BinaryOperator::Eq, int(wanted));
    let state = state(&subquery);
    let (and, or) = (BinaryOperator::And, BinaryOperator::Or);
    Ok(if all {
        let sure = binary(is(state.clone(), 1), or.clone(), null());
        binary(is(state, 0), or, binary(decided, and, sure))
    } else {
        let unsure = binary(is(state.clone(), 2), and.clone(), null());
        let rows = binary(state, BinaryOperator::NotEq, int(0));
        binary(rows, and, binary(decided, or, unsure))
    })
}

/// The scalar subquery of an aggregate of a subquery's only column.
fn aggregated(subquery: &Query, aggregate: impl FnOnce(Expr) -> Expr) -> Expr {
    // A plain SELECT keeps its conditions in place, so that they can refer to outer columns.
    if let Some(select) = plain(subquery)
        && let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
            &select.projection[..]
    {
        let mut select = select.clone();
        let item = aggregate(value.clone());
        select.projection = vec![SelectItem::UnnamedExpr(item)];
        mark_made(&mut select);
        return Expr::Subquery(query_of(select, subquery));
    }
    let from = derived(Box::new(subquery.clone()), 1);
    Expr::Subquery(selecting(aggregate(column(0)), from, None))
}

/// The SELECT of a query without grouping, DISTINCT, LIMIT and the like, so that it has one row for
/// each matching row of its tables.
fn plain(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let items = select.projection.iter();
    let plain = query.limit_clause.is_none()
        && query.fetch.is_none()
        && !grouped
        && select.having.is_none()
        && matches!(select.distinct, None | Some(Distinct::All))
        && !items.clone().any(|item| {
            matches!(item, SelectItem::UnnamedExpr(expr)
            | SelectItem::ExprWithAlias { expr, .. } if has_aggregate(expr))
        });
    plain.then_some(&**select)
}

/// A copy of query `of` with this SELECT and without ORDER BY.
fn query_of(select: Select, of: &Query) -> Box<Query> {
    let mut query = of.clone();
    query.order_by = None;
    *query.body = SetExpr::Select(Box::new(select));
    Box::new(query)
}

/// In a select list, where DataFusion does not turn subqueries into joins, all conditions on
/// subqueries become counts.
pub fn in_item(item: &mut Expr) -> Result<()> {
    counted(item, |_| true)
}

/// In a join condition, which DataFusion does not turn into a join either, only conditions that do
/// not depend on the row can become counts.
pub fn in_join(condition: &mut Expr) -> Result<()> {
    counted(condition, |test| match test {
        Expr::InSubquery { expr: left, .. } => !reads_columns(left),
        _ => false,
    })
}

fn reads_columns(expr: &Expr) -> bool {
    let column = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, column).is_break()
}

fn counted(expr: &mut Expr, counts: fn(&Expr) -> bool) -> Result<()> {
    match walk_mut(expr, &mut Counting { depth: 0, counts }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Counting {
    /// The nesting of queries; conditions inside them are not changed.
    depth: usize,
    /// Selects the conditions that become counts.
    counts: fn(&Expr) -> bool,
}

impl VisitorMut for Counting {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.depth > 0 || !(self.counts)(expr) {
            return ControlFlow::Continue(());
        }
        let is_row = row_membership(expr).is_some();
        if let Err(error) = before(expr) {
            return ControlFlow::Break(error);
        }
        if is_row {
            // Both EXISTS that it has become.
            return match in_item(expr) {
                Err(error) => ControlFlow::Break(error),
                Ok(()) => ControlFlow::Continue(()),
            };
        }
        let counted = match expr {
            Expr::Exists { subquery, negated } => (exists(subquery), *negated),
            Expr::InSubquery { expr: left, subquery, negated } => {
                (contains(take(left), subquery), *negated)
            }
            _ => return ControlFlow::Continue(()),
        };
        *expr = if counted.1 { not(counted.0) } else { counted.0 };
        ControlFlow::Continue(())
    }
}

/// EXISTS as a count of rows.
fn exists(subquery: &Query) -> Expr {
    let rows = call("count", vec![int(1)]);
    let mut unlimited = subquery.clone();
    // LIMIT 1 makes no difference.
    if let Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, .. }) =
        &unlimited.limit_clause
        && limit.to_string() == "1"
    {
        unlimited.limit_clause = None;
    }
    let counted = match plain(&unlimited) {
        Some(select) => {
            let mut select = select.clone();
            select.projection = vec![SelectItem::UnnamedExpr(rows)];
            query_of(select, &unlimited)
        }
        None => selecting(rows, derived(Box::new(unlimited), 0), None),
    };
    binary(Expr::Subquery(counted), BinaryOperator::NotEq, int(0))
}

/// IN as a count: NULL if there is no match, but NULL in the subquery or on the left side.
fn contains(left: Expr, subquery: &Query) -> Expr {
    let equal = binary(column(0), BinaryOperator::Eq, left.clone());
    let rows = call("count", vec![int(1)]);
    let hits = selecting(rows, derived(Box::new(subquery.clone()), 1), Some(equal));
    let found = binary(Expr::Subquery(hits), BinaryOperator::NotEq, int(0));
    let state = state(subquery);
    let (and, or) = (BinaryOperator::And, BinaryOperator::Or);
    let asked = binary(
        Expr::IsNull(Box::new(left)),
        and.clone(),
        binary(state.clone(), BinaryOperator::NotEq, int(0)),
    );
    let unsure = binary(binary(state, BinaryOperator::Eq, int(2)), or.clone(), asked);
    binary(found, or, binary(unsure, and, null()))
}
