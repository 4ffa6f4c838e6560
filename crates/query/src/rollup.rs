//! GROUP BY .. WITH ROLLUP: its rows come in the order of the groups, each sum behind what it sums
//! up, as clients expect that read them as a report; and there are none where there is nothing to
//! sum up.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::grouping::grouping_udaf;
use datafusion::logical_expr::{
    Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, SortExpr, lit,
};

/// Stands before the names of columns that only this module uses.
const PART: &str = "\u{1}rollup_";

/// Orders the rows of each ROLLUP. Where nobody needs the order the optimizer takes it out again.
pub fn ordered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => match keys(&aggregate) {
            Some(keys) => {
                let (aggregate, keys) = computed(aggregate, keys)?;
                in_order(&aggregate, &keys).map(Transformed::yes)
            }
            None => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
        },
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// The keys of a ROLLUP.
fn keys(aggregate: &Aggregate) -> Option<Vec<Expr>> {
    match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(GroupingSet::Rollup(keys))] => Some(keys.clone()),
        _ => None,
    }
}

/// A ROLLUP whose keys with placeholders are columns of its input: within a grouping set they would
/// lose their names to the values.
fn computed(aggregate: Aggregate, keys: Vec<Expr>) -> Result<(Aggregate, Vec<Expr>)> {
    let mut open = Vec::new();
    for key in &keys {
        if key.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))? && !open.contains(key) {
            open.push(key.clone());
        }
    }
    if open.is_empty() {
        return Ok((aggregate, keys));
    }
    let columns = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input));
    let input = input.project(columns.chain(open.iter().cloned()))?.build()?;
    let named = |expr: Expr| {
        let named = expr.transform_down(|part| match open.contains(&part) {
            true => {
                let column = column_of(&part.schema_name().to_string());
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            false => Ok(Transformed::no(part)),
        });
        named.map(|named| named.data)
    };
    let keys = keys.into_iter().map(named).collect::<Result<Vec<_>>>()?;
    let calls = aggregate.aggr_expr.into_iter().map(named).collect::<Result<Vec<_>>>()?;
    let group = Expr::GroupingSet(GroupingSet::Rollup(keys.clone()));
    Ok((Aggregate::try_new(Arc::new(input), vec![group], calls)?, keys))
}

fn in_order(aggregate: &Aggregate, keys: &[Expr]) -> Result<LogicalPlan> {
    let is_sum = |at: usize| format!("{PART}{at}");
    let rows = format!("{PART}rows");
    let flags = keys.iter().enumerate();
    let flags = flags.map(|(at, key)| grouping_udaf().call(vec![key.clone()]).alias(is_sum(at)));
    let mut calls = aggregate.aggr_expr.clone();
    calls.extend(flags);
    calls.push(count(lit(1_i64)).alias(&rows));
    let input = Arc::clone(&aggregate.input);
    let summed = Aggregate::try_new(input, aggregate.group_expr.clone(), calls)?;
    let columns = summed.schema.columns();
    let mut order = Vec::with_capacity(2 * keys.len());
    for (at, column) in columns.iter().take(keys.len()).enumerate() {
        // Of the rows whose keys before this one agree, one sums up the others, and it alone is not
        // zero here. The count keeps the planner from taking the flag for constant in one place and
        // not in another where a condition leaves one value of GROUPING().
        let flag = column_of(&is_sum(at)) * column_of(&rows);
        order.push(SortExpr::new(flag, true, true));
        order.push(SortExpr::new(Expr::Column(column.clone()), true, true));
    }
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(summed))
        .filter(column_of(&rows).gt(lit(0_i64)))?
        .sort(order)?
        .build()
}

fn column_of(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}
