//! Which columns of outer queries a plan reads, and which subqueries DataFusion turns into joins.

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{BinaryExpr, Cast};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Subquery};

/// A column of an outer query.
pub type Reference = (FieldRef, Column);

/// The columns of outer queries that a plan reads, each once.
pub fn free(plan: &LogicalPlan) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    collect(plan, &mut found)?;
    Ok(found)
}

fn collect(plan: &LogicalPlan, found: &mut Vec<Reference>) -> Result<()> {
    if let LogicalPlan::Join(join) = plan
        && lateral(&join.right).is_some()
    {
        collect(&join.left, found)?;
        let left = join.left.schema();
        let right = free(&join.right)?;
        add(found, right.into_iter().filter(|(_, column)| !left.has_column(column)));
    } else {
        for input in plan.inputs() {
            collect(input, found)?;
        }
    }
    if matches!(plan, LogicalPlan::Subquery(_)) {
        return Ok(());
    }
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::OuterReferenceColumn(field, column) = part {
                add(found, [(FieldRef::clone(field), column.clone())]);
            } else if let Some(subquery) = subquery_of(part) {
                let inner = free(&subquery.subquery)?;
                add(found, inner.into_iter().filter(|(_, column)| !has(plan, column)));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

fn add(found: &mut Vec<Reference>, more: impl IntoIterator<Item = Reference>) {
    for reference in more {
        if !found.iter().any(|(_, known)| *known == reference.1) {
            found.push(reference);
        }
    }
}

/// Whether the expressions of a node can read this column.
pub fn has(node: &LogicalPlan, column: &Column) -> bool {
    node.inputs().iter().any(|input| input.schema().has_column(column))
}

/// The subquery of an expression, without those of its operands.
pub fn subquery_of(part: &Expr) -> Option<&Subquery> {
    match part {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(membership) => Some(&membership.subquery),
        _ => None,
    }
}

pub fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|part| Ok(subquery_of(part).is_some()));
    found.expect("nothing that looks at an expression fails")
}

/// The subquery of a LATERAL derived table.
pub fn lateral(side: &LogicalPlan) -> Option<&Subquery> {
    match side {
        LogicalPlan::SubqueryAlias(named) => lateral(&named.input),
        LogicalPlan::Subquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether DataFusion fails to turn a subquery without outer columns into a join: within another
/// condition it adds the columns of IN to each operand of a UNION.
pub fn is_union_within(node: &LogicalPlan, part: &Expr) -> Result<bool> {
    let (LogicalPlan::Filter(filter), Expr::InSubquery(membership)) = (node, part) else {
        return Ok(false);
    };
    let is_it = |condition: &Expr| match condition {
        Expr::Not(inner) => **inner == *part,
        other => *other == *part,
    };
    if split_conjunction(&filter.predicate).into_iter().any(is_it) {
        return Ok(false);
    }
    membership.subquery.subquery.exists(|node| Ok(matches!(node, LogicalPlan::Union(_))))
}

/// Whether DataFusion turns this subquery into a join with the input of `node`: its rules move
/// conditions from the subquery to the join, and an aggregate then gets the inner sides of
/// equalities as groups.
pub fn is_simple(node: &LogicalPlan, part: &Expr) -> Result<bool> {
    let subquery = match (node, part) {
        (LogicalPlan::Filter(_) | LogicalPlan::Projection(_), Expr::ScalarSubquery(subquery)) => {
            return Ok(is_one_group(&subquery.subquery)? && is_bound(node, subquery)?);
        }
        (LogicalPlan::Filter(_), Expr::Exists(exists)) => &exists.subquery,
        (LogicalPlan::Filter(_), Expr::InSubquery(membership)) => &membership.subquery,
        _ => return Ok(false),
    };
    Ok(are_rows(&subquery.subquery, |_| true)? && is_bound(node, subquery)?)
}

/// Whether it only refers to columns of the node itself.
fn is_bound(node: &LogicalPlan, subquery: &Subquery) -> Result<bool> {
    Ok(free(&subquery.subquery)?.iter().all(|(_, column)| has(node, column)))
}

/// Whether it is the one row of an aggregate without groups.
fn is_one_group(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            Ok(projection.expr.iter().all(is_plain) && is_one_group(&projection.input)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.is_empty();
            let own = aggregate.aggr_expr.iter().all(is_plain);
            Ok(groups && own && are_rows(&aggregate.input, is_key)?)
        }
        _ => Ok(false),
    }
}

/// Whether it is rows under conditions, and outer columns are only in conditions for which `fits`.
fn are_rows(plan: &LogicalPlan, fits: fn(&Expr) -> bool) -> Result<bool> {
    if free(plan)?.is_empty() {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            Ok(projection.expr.iter().all(is_own) && are_rows(&projection.input, fits)?)
        }
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction(&filter.predicate);
            let mut outer = conditions.into_iter().filter(|condition| !is_own(condition));
            let all = outer.all(|condition| !has_subquery(condition) && fits(condition));
            Ok(all && are_rows(&filter.input, fits)?)
        }
        _ => Ok(false),
    }
}

/// Whether it refers to no outer column and has no subquery: DataFusion does not look for one in
/// what a subquery selects.
fn is_plain(expr: &Expr) -> bool {
    is_own(expr) && !has_subquery(expr)
}

/// Whether it refers to no outer column, those of its subqueries aside.
fn is_own(expr: &Expr) -> bool {
    !expr.contains_outer()
}

/// Whether it is the equality of a column and of something from outside.
fn is_key(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    let is_column = |side: &Expr| match side {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(**expr, Expr::Column(_)),
        _ => false,
    };
    (is_column(left) && !right.any_column_refs()) || (is_column(right) && !left.any_column_refs())
}
