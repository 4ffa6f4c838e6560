//! Rounds numbers with hidden digits to what they display before rows are grouped, ordered or
//! materialized: as in MySQL, rows are in the same group if they display the same value, and a
//! materialized derived table contains the displayed values.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, SubqueryAlias,
};

use crate::functions::meaning;

/// Rounds group keys, sort keys and materialized columns to what they display.
pub fn as_shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Aggregate(aggregate) if hides_parts(&aggregate) => {
                changed = true;
                LogicalPlan::Aggregate(parts_as_shown(aggregate)?)
            }
            LogicalPlan::Distinct(Distinct::All(input)) if hides_columns(&input) => {
                changed = true;
                LogicalPlan::Distinct(Distinct::All(Arc::new(columns_as_shown(input)?)))
            }
            LogicalPlan::Sort(mut sort)
                if sort.expr.iter().any(|by| hides(&by.expr, sort.input.schema())) =>
            {
                changed = true;
                let schema = Arc::clone(sort.input.schema());
                for by in &mut sort.expr {
                    by.expr = shown(std::mem::take(&mut by.expr), &schema)?;
                }
                LogicalPlan::Sort(sort)
            }
            LogicalPlan::SubqueryAlias(alias)
                if hides_columns(&alias.input) && is_computed_first(&alias.input) =>
            {
                changed = true;
                let input = Arc::new(columns_as_shown(alias.input)?);
                LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias)?)
            }
            // The types of the inputs have changed.
            node if changed => node.recompute_schema()?,
            node => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(node))
    })?;
    Ok(plan.data)
}

/// Whether MySQL materializes a derived table with this plan.
fn is_computed_first(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Window(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Sort(_) => {
            plan.inputs().into_iter().any(is_computed_first)
        }
        _ => false,
    }
}

fn hides(key: &Expr, schema: &DFSchema) -> bool {
    key.to_field(schema).is_ok_and(|(_, field)| meaning::hides_digits(&field))
}

/// Rounds a key to what it displays.
fn shown(key: Expr, schema: &DFSchema) -> Result<Expr> {
    let (_, field) = key.to_field(schema)?;
    Ok(if meaning::hides_digits(&field) { meaning::as_shown(key, &field) } else { key })
}

fn hides_parts(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    let distinct = |part: &Expr| {
        let Expr::AggregateFunction(call) = part else { return Ok(false) };
        Ok(call.params.distinct && call.params.args.iter().any(|arg| hides(arg, schema)))
    };
    aggregate.group_expr.iter().any(|key| hides(key, schema))
        || aggregate.aggr_expr.iter().any(|call| call.exists(distinct).unwrap_or(false))
}

/// Rounds group keys and the arguments of DISTINCT aggregates to what they display.
fn parts_as_shown(aggregate: Aggregate) -> Result<Aggregate> {
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let schema = Arc::clone(input.schema());
    let keys = group_expr.into_iter().map(|key| {
        let (qualifier, field) = key.to_field(&schema)?;
        Ok(match meaning::hides_digits(&field) {
            true => meaning::as_shown(key, &field).alias_qualified(qualifier, field.name()),
            false => key,
        })
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let calls = aggr_expr.into_iter().map(|call| {
        let name = call.schema_name().to_string();
        let changed = call.transform_up(|part| match part {
            Expr::AggregateFunction(mut call) if call.params.distinct => {
                for arg in &mut call.params.args {
                    *arg = shown(std::mem::take(arg), &schema)?;
                }
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(if changed.data.schema_name().to_string() == name {
            changed.data
        } else {
            changed.data.alias(name)
        })
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    Aggregate::try_new(input, keys, calls)
}

fn hides_columns(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| meaning::hides_digits(field))
}

fn columns_as_shown(plan: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match meaning::hides_digits(field) {
            true => {
                let shown = meaning::as_shown(column, field);
                shown.alias_qualified(qualifier.cloned(), field.name())
            }
            false => column,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
