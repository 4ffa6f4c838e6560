//! Refuses what needs an order of nested values, or a MAP to be a key: there is none.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan};
use freshet_base::err;

use crate::error::external;
use crate::functions::nested::{has_map, name_of};

/// The plan, if it asks for nothing that nested values do not have.
///
/// # Errors
/// ORDER BY, MIN and MAX of nested values, and GROUP BY and DISTINCT of MAPs.
pub fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        check(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(plan)
}

fn check(node: &LogicalPlan) -> Result<()> {
    match node {
        LogicalPlan::Sort(sort) => {
            let keys = sort.expr.iter().map(|by| &by.expr);
            unordered(keys, sort.input.schema(), "ORDER BY")
        }
        LogicalPlan::Aggregate(aggregate) => groups(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let mut types = input.schema().fields().iter().map(|field| field.data_type());
            match types.find(|ty| has_map(ty)) {
                Some(ty) => Err(refused("DISTINCT", &name_of(ty))),
                None => Ok(()),
            }
        }
        LogicalPlan::Window(window) => {
            for expr in &window.window_expr {
                expr.apply(|part| {
                    if let Expr::WindowFunction(call) = part {
                        let params = &call.params;
                        let order = params.order_by.iter().map(|by| &by.expr);
                        let keys = order.chain(&params.partition_by);
                        unordered(keys, window.input.schema(), "OVER")?;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn groups(aggregate: &Aggregate) -> Result<()> {
    let schema = aggregate.input.schema();
    for key in &aggregate.group_expr {
        if let Ok(ty) = key.get_type(schema)
            && has_map(&ty)
        {
            return Err(refused("GROUP BY", &name_of(&ty)));
        }
    }
    for call in &aggregate.aggr_expr {
        call.apply(|part| {
            if let Expr::AggregateFunction(call) = part
                && matches!(call.func.name(), "min" | "max")
            {
                let name = call.func.name().to_uppercase();
                unordered(call.params.args.iter(), schema, &name)?;
            }
            if let Expr::AggregateFunction(call) = part
                && call.params.distinct
            {
                let mut args = call.params.args.iter().flat_map(values_of);
                let map = args.find_map(|arg| arg.get_type(schema).ok().filter(has_map));
                if let Some(ty) = map {
                    return Err(refused("DISTINCT", &name_of(&ty)));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(())
}

/// The values of an argument: several are one, of which it is the key.
fn values_of(arg: &Expr) -> &[Expr] {
    match arg {
        Expr::ScalarFunction(call) if call.func.name() == "mysql_row_key" => &call.args,
        other => std::slice::from_ref(other),
    }
}

fn unordered<'a>(
    keys: impl Iterator<Item = &'a Expr>,
    schema: &DFSchema,
    what: &str,
) -> Result<()> {
    let mut types = keys.filter_map(|key| key.get_type(schema).ok());
    match types.find(|ty| ty.is_nested()) {
        Some(ty) => Err(refused(what, &name_of(&ty))),
        None => Ok(()),
    }
}

fn refused(what: &str, ty: &str) -> datafusion::common::DataFusionError {
    external(err!(
        NotSupported,
        "This version of Freshet doesn't yet support '{what} of values of type {ty}'; use an \
         element, or CAST(.. AS CHAR)"
    ))
}
