//! Casts of literals, which are values.

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Evaluates casts of literals, so that LIMIT sees a number and pruning sees a bound.
///
/// # Errors
/// When a literal has no value of its type.
pub fn folded(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let fold = |expr: Expr| match &expr {
        Expr::Cast(Cast { expr: inner, field }) => match &**inner {
            Expr::Literal(value, metadata) => {
                let value = value.cast_to(field.data_type())?;
                Ok(Transformed::yes(Expr::Literal(value, metadata.clone())))
            }
            _ => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    plan.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(fold)))
        .map(|transformed| transformed.data)
}
