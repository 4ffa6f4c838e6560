//! Joins and their conditions.

use std::ops::ControlFlow;

use crate::visit::visit_expressions;
use freshet_base::Result;
use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, ObjectNamePart, Select,
};

use super::values::{binary, lower, take, truth};

/// Join conditions with subqueries: those of inner joins move to WHERE, where DataFusion turns
/// subqueries into joins. `stays` is called for each condition that cannot be moved.
///
/// # Errors
/// Those of `stays`.
pub fn subqueries(select: &mut Select, stays: fn(&mut Expr) -> Result<()>) -> Result<()> {
    let mut moved = Vec::new();
    for table in &mut select.from {
        let last_outer = table.joins.iter().rposition(|join| keeps_right(&join.join_operator));
        for (at, join) in table.joins.iter_mut().enumerate() {
            // Before a RIGHT or FULL join, the condition cannot move: in WHERE it would also remove
            // rows that the later join adds.
            let movable = is_inner(join) && last_outer.is_none_or(|outer| outer < at);
            let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) else {
                continue;
            };
            match (has_subquery(condition), movable) {
                (false, _) => {}
                (true, false) => stays(condition)?,
                (true, true) => {
                    let parts = parts(take(condition)).into_iter();
                    let (there, here) = parts.partition::<Vec<_>, _>(has_subquery);
                    moved.extend(there);
                    set_condition(&mut join.join_operator, here.into_iter().reduce(and));
                }
            }
        }
    }
    if !moved.is_empty() {
        select.selection = select.selection.take().into_iter().chain(moved).reduce(and);
    }
    Ok(())
}

fn is_inner(join: &Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::CrossJoin(_)
            | JoinOperator::StraightJoin(_)
    )
}

fn keeps_right(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
    )
}

/// The operands of AND in a condition, in their order.
fn parts(condition: Expr) -> Vec<Expr> {
    let (mut found, mut open) = (Vec::new(), vec![condition]);
    while let Some(part) = open.pop() {
        match part {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([*right, *left]),
            Expr::Nested(inner) => open.push(*inner),
            other => found.push(other),
        }
    }
    found
}

fn and(left: Expr, right: Expr) -> Expr {
    let nested = |expr| Expr::Nested(Box::new(expr));
    binary(nested(left), BinaryOperator::And, nested(right))
}

fn has_subquery(expr: &Expr) -> bool {
    let subquery = |part: &Expr| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, subquery).is_break()
}

fn set_condition(operator: &mut JoinOperator, condition: Option<Expr>) {
    if let Some(constraint) = constraint(operator) {
        *constraint = condition.map_or(JoinConstraint::None, JoinConstraint::On);
    }
}

/// The constraint of a join of two tables.
pub fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::StraightJoin(constraint) => Some(constraint),
        _ => None,
    }
}

/// Converts a join with a rewritten condition to DataFusion's form.
pub fn operator(operator: &mut JoinOperator) {
    let Some(constraint) = constraint(operator) else { return };
    match constraint {
        JoinConstraint::On(condition) => *condition = truth(take(condition)),
        JoinConstraint::Using(columns) => {
            for part in columns.iter_mut().flat_map(|name| &mut name.0) {
                if let ObjectNamePart::Identifier(ident) = part {
                    lower(ident);
                }
            }
        }
        JoinConstraint::Natural | JoinConstraint::None => {}
    }
    let constraint = constraint.clone();
    // In MySQL, JOIN without a condition, CROSS JOIN and STRAIGHT_JOIN are all inner joins.
    match operator {
        JoinOperator::CrossJoin(_) | JoinOperator::StraightJoin(_)
            if !matches!(constraint, JoinConstraint::None) =>
        {
            *operator = JoinOperator::Inner(constraint);
        }
        JoinOperator::Join(JoinConstraint::None)
        | JoinOperator::Inner(JoinConstraint::None)
        | JoinOperator::StraightJoin(JoinConstraint::None) => {
            *operator = JoinOperator::CrossJoin(JoinConstraint::None);
        }
        _ => {}
    }
}
