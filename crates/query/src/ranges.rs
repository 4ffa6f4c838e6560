//! Window functions ordered by keys that DataFusion does not support in RANGE frames.
//!
//! The default frame of a window with ORDER BY ends at the current row's peers and only needs an
//! order. But DataFusion rejects it if the first key is bytes or a time of day, because it cannot
//! add an offset to such a value. A constant inserted as the first key avoids this and does not
//! change the order.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::convert::is_binary;

/// The analyzer rule that inserts the constant.
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
