//! IN and NOT IN of subqueries with MySQL's NULL semantics.
//!
//! DataFusion plans `a IN (..)` as a join that yields false where MySQL yields NULL, that is where
//! a match is unknown because `a` or a value of the subquery is NULL. For a condition of WHERE or
//! HAVING that makes no difference. It does inside another expression, and for `NOT IN` of a
//! correlated subquery or with a constant left side: there the cases are written out as conditions
//! that are never NULL.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, lit,
    when,
};
use datafusion::optimizer::AnalyzerRule;
use freshet_base::err;

use crate::dependent::references::free;
use crate::error::external;
use crate::functions::operators::comparable;

/// The name of the subquery's only column, if it is correlated: it must differ from the columns
/// that it is correlated by.
const MEMBER: &str = "#member";

/// Maximum number of conditions that are written out. Each contains its subquery up to three times,
/// and so on for nested ones.
const CASES_MAX: usize = 256;

/// The analyzer rule that adds NULL semantics to IN.
#[derive(Debug)]
pub struct Membership;

impl AnalyzerRule for Membership {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        with_nulls(plan)
    }

    fn name(&self) -> &'static str {
        "membership_with_nulls"
    }
}

fn with_nulls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut count = 0;
    let changed = plan.transform_down_with_subqueries(|node| {
        let filter = match node {
            LogicalPlan::Filter(filter) => filter,
            LogicalPlan::Join(join) => return joined(join, &mut count).map(Transformed::yes),
            node => return Ok(Transformed::no(node)),
        };
        let schema = Arc::clone(filter.input.schema());
        let conditions = split_conjunction_owned(filter.predicate);
        let conditions = conditions.into_iter().map(|part| condition(part, &schema, &mut count));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
    });
    changed.map(|changed| changed.data)
}

/// The condition of a join; in those of outer joins DataFusion has no rule for IN.
fn joined(mut join: Join, count: &mut usize) -> Result<LogicalPlan> {
    let schema = Arc::clone(&join.schema);
    if let Some(filter) = join.filter.take() {
        let conditions = split_conjunction_owned(filter).into_iter();
        let conditions = conditions.map(|part| match join.join_type {
            JoinType::Inner => condition(part, &schema, count),
            _ => nested(part, &schema, count),
        });
        join.filter = conjunction(conditions.collect::<Result<Vec<_>>>()?);
    }
    Ok(LogicalPlan::Join(join))
}

/// A condition in which false is equivalent to NULL.
fn condition(part: Expr, schema: &DFSchema, count: &mut usize) -> Result<Expr> {
    let membership = match part {
        Expr::InSubquery(membership) => alike(membership, schema)?,
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(membership) => {
                let negated = !membership.negated;
                alike(InSubquery { negated, ..membership }, schema)?
            }
            inner => return nested(Expr::Not(Box::new(inner)), schema, count),
        },
        other => return nested(other, schema, count),
    };
    let depends = !free(&membership.subquery.subquery)?.is_empty();
    let known = membership.expr.column_refs().is_empty();
    match membership.negated && (depends || known) {
        true => cases(membership, schema, count),
        false => Ok(Expr::InSubquery(apart(membership)?)),
    }
}

fn nested(expr: Expr, schema: &DFSchema, count: &mut usize) -> Result<Expr> {
    let changed = expr.transform_up(|expr| match expr {
        Expr::InSubquery(membership) => {
            let membership = alike(membership, schema)?;
            cases(membership, schema, count).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    changed.map(|changed| changed.data)
}

/// TRUE if there is a match, NULL if there may be one, otherwise FALSE.
fn cases(membership: InSubquery, schema: &DFSchema, count: &mut usize) -> Result<Expr> {
    *count += 1;
    if *count > CASES_MAX {
        return Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support 'more than {CASES_MAX} conditions IN \
             (subquery) inside of other expressions or of one another'"
        )));
    }
    let negated = membership.negated;
    let positive = apart(InSubquery { negated: false, ..membership })?;
    let subquery = &positive.subquery;
    let rows = &subquery.subquery;
    let value = Expr::Column(Column::from(rows.schema().qualified_field(0)));
    let mut unsure = Vec::new();
    if positive.expr.nullable(schema).unwrap_or(true) {
        unsure.push((*positive.expr).clone().is_null().and(exists(subquery, Arc::clone(rows))));
    }
    if rows.schema().field(0).is_nullable() {
        let nulls = LogicalPlanBuilder::from(rows.as_ref().clone()).filter(value.is_null())?;
        unsure.push(exists(subquery, Arc::new(nulls.build()?)));
    }
    let found = Expr::InSubquery(positive);
    let known = match unsure.into_iter().reduce(Expr::or) {
        None => found,
        Some(unsure) => when(found, lit(true))
            .when(unsure, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))?,
    };
    Ok(if negated { Expr::Not(Box::new(known)) } else { known })
}

/// Converts both sides to the type in which MySQL compares them.
fn alike(membership: InSubquery, schema: &DFSchema) -> Result<InSubquery> {
    let InSubquery { expr, subquery, negated } = membership;
    let (Ok(left), right) = (expr.get_type(schema), subquery.subquery.schema().field(0)) else {
        // The type of a placeholder is not yet known.
        return Ok(InSubquery { expr, subquery, negated });
    };
    let right = right.data_type().clone();
    let value = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let (known, found) = comparable((*expr, &left), (value, &right));
    let membership = InSubquery { expr: Box::new(known.0), subquery, negated };
    if found.1 == right { Ok(membership) } else { selecting(membership, found.0) }
}

/// Renames the column of a correlated subquery.
fn apart(membership: InSubquery) -> Result<InSubquery> {
    if membership.subquery.outer_ref_columns.is_empty() {
        return Ok(membership);
    }
    let value = Column::from(membership.subquery.subquery.schema().qualified_field(0));
    // Converted values have the name. Given twice, the columns that the optimizer hands through
    // for the correlation would meet a second one of it.
    if value == Column::new_unqualified(MEMBER) {
        return Ok(membership);
    }
    selecting(membership, Expr::Column(value))
}

/// Replaces the selected value of the subquery.
fn selecting(membership: InSubquery, value: Expr) -> Result<InSubquery> {
    let rows = membership.subquery.subquery.as_ref().clone();
    let rows = LogicalPlanBuilder::from(rows).project([value.alias(MEMBER)])?.build()?;
    let subquery = Subquery { subquery: Arc::new(rows), ..membership.subquery };
    Ok(InSubquery { subquery, ..membership })
}

/// EXISTS of `rows`, with the subquery's outer references.
fn exists(subquery: &Subquery, rows: Arc<LogicalPlan>) -> Expr {
    let subquery = Subquery { subquery: rows, ..subquery.clone() };
    Expr::Exists(Exists { subquery, negated: false })
}
