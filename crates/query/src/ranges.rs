//! Windows in the order of what DataFusion knows no ranges of.
//!
//! A frame that ends at rows alike, as every window with ORDER BY has that names no frame, wants
//! nothing but an order. DataFusion refuses it all the same where the first key is bytes or a time
//! of day, since it could add no distance to one. A constant before that key changes no order.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::convert::is_binary;

/// The pass that lets windows be ordered by anything.
#[derive(Debug)]
pub struct Ranges;

impl AnalyzerRule for Ranges {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_down_with_subqueries(|node| {
            let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
            let schema = Arc::clone(window.input.schema());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|part| with_constant(part, &schema))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        });
        changed.map(|changed| changed.data)
    }

    fn name(&self) -> &'static str {
        "ranges_of_any_type"
    }
}

fn with_constant(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = part else { return Ok(Transformed::no(part)) };
    let params = &mut window.params;
    let ty = match params.order_by.first() {
        Some(first) if params.window_frame.can_accept_multi_orderby() => {
            first.expr.get_type(schema)?
        }
        _ => return Ok(Transformed::no(Expr::WindowFunction(window))),
    };
    if !is_binary(&ty) && !matches!(ty, DataType::Duration(_)) {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    }
    params.order_by.insert(0, lit(0_i64).sort(true, true));
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}
