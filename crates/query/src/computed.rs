//! Moves expressions that DataFusion cannot evaluate inside windows, aggregates and sorts into a
//! projection below them.
//!
//! For window keys, DataFusion derives the sort order from value ranges. For a comparison with an
//! expression of unknown range, such as a CASE or one of our functions, it concludes that no order
//! is sufficient and rejects its own plan. And it turns correlated subqueries into joins only in
//! select lists and conditions. So window keys that are not plain columns, and subqueries in
//! windows, aggregates and sorts, become columns of a projection below.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Sort, Window};
use datafusion::optimizer::AnalyzerRule;

use crate::dependent::references::{free, has_subquery, subquery_of};

/// Prefix of the computed columns' names, followed by a number; no user column is named like this.
const COMPUTED: &str = "#computed";

#[derive(Debug)]
pub struct ProjectComputedKeys;

impl AnalyzerRule for ProjectComputedKeys {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(below).map(|changed| changed.data)
    }

    fn name(&self) -> &'static str {
        "computed_below"
    }
}

fn below(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !computes(&node) {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    let items = node.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let mut columns = Columns::default();
    let each = |columns: &mut Columns, exprs: Vec<Expr>| {
        let changed = exprs.into_iter().map(|expr| {
            let name = names.save(&expr);
            Ok(name.restore(expr.transform_up(|part| columns.in_part(part))?.data))
        });
        changed.collect::<Result<Vec<_>>>()
    };
    let changed = match node {
        LogicalPlan::Window(Window { window_expr, input, .. }) => {
            let exprs = each(&mut columns, window_expr)?;
            LogicalPlan::Window(Window::try_new(exprs, columns.below(input)?)?)
        }
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            let keys = group_expr.into_iter().map(|key| {
                let name = names.save(&key);
                name.restore(columns.with_subquery(key))
            });
            let keys = keys.collect();
            let exprs = each(&mut columns, aggr_expr)?;
            LogicalPlan::Aggregate(Aggregate::try_new(columns.below(input)?, keys, exprs)?)
        }
        LogicalPlan::Sort(sort) => {
            let Sort { expr, input, fetch } = with_hidden_keys(sort)?;
            let expr =
                expr.into_iter().map(|by| by.with_expr(columns.with_subquery(by.expr.clone())));
            let expr = expr.collect();
            LogicalPlan::Sort(Sort { expr, input: columns.below(input)?, fetch })
        }
        other => return Ok(Transformed::no(other)),
    };
    LogicalPlanBuilder::from(changed).project(items)?.build().map(Transformed::yes)
}

/// A sort of selected columns by subqueries that read columns which are not selected: these keys
/// become columns of the select list.
fn with_hidden_keys(mut sort: Sort) -> Result<Sort> {
    let LogicalPlan::Projection(items) = &*sort.input else { return Ok(sort) };
    let (shown, below) = (items.schema.as_ref(), items.input.schema());
    let is_hidden = |key: &Expr| {
        let mut hidden = false;
        key.apply(|part| {
            if let Some(subquery) = subquery_of(part) {
                let read = free(&subquery.subquery)?;
                hidden |= read
                    .iter()
                    .any(|(_, column)| below.has_column(column) && !shown.has_column(column));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok::<_, DataFusionError>(hidden)
    };
    let mut exprs = items.expr.clone();
    for by in &mut sort.expr {
        if !is_hidden(&by.expr)? {
            continue;
        }
        let name = format!("{COMPUTED}s{}", exprs.len());
        let key = std::mem::replace(&mut by.expr, Expr::Column(Column::from_name(&name)));
        let key = key.transform_up(|part| {
            let selected = match &part {
                Expr::Column(column) => shown.maybe_index_of_column(column),
                _ => None,
            };
            Ok(match selected {
                Some(at) => Transformed::yes(items.expr[at].clone().unalias()),
                None => Transformed::no(part),
            })
        })?;
        exprs.push(key.data.alias(name));
    }
    if exprs.len() > items.expr.len() {
        let input = LogicalPlanBuilder::from(Arc::clone(&items.input)).project(exprs)?.build()?;
        sort.input = Arc::new(input);
    }
    Ok(sort)
}

/// Whether a node contains expressions to move below it.
fn computes(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Window(window) => window.window_expr.iter().any(|expr| {
            let keys = |part: &Expr| {
                let Expr::WindowFunction(window) = part else { return Ok(false) };
                let keys = &window.params.partition_by;
                let mut orders = window.params.order_by.iter().map(|by| &by.expr);
                Ok(keys.iter().any(is_computed) || orders.any(is_computed))
            };
            has_subquery(expr) || expr.exists(keys).expect("nothing that looks fails")
        }),
        LogicalPlan::Aggregate(aggregate) => {
            let keys = aggregate.group_expr.iter().any(is_key_with_subquery);
            keys || aggregate.aggr_expr.iter().any(has_subquery)
        }
        LogicalPlan::Sort(sort) => sort.expr.iter().any(|by| has_subquery(&by.expr)),
        _ => false,
    }
}

fn is_computed(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_) | Expr::Literal(..))
}

fn is_key_with_subquery(key: &Expr) -> bool {
    !matches!(key, Expr::GroupingSet(_)) && has_subquery(key)
}

/// The columns of the projection below.
#[derive(Default)]
struct Columns {
    exprs: Vec<Expr>,
}

impl Columns {
    fn of(&mut self, expr: Expr) -> Expr {
        let at = self.exprs.iter().position(|known| *known == expr).unwrap_or_else(|| {
            self.exprs.push(expr);
            self.exprs.len() - 1
        });
        Expr::Column(Column::from_name(format!("{COMPUTED}{at}")))
    }

    /// A key of a window, replaced by a computed column where necessary.
    fn key(&mut self, expr: Expr) -> Expr {
        if is_computed(&expr) { self.of(expr) } else { expr }
    }

    fn with_subquery(&mut self, expr: Expr) -> Expr {
        if is_key_with_subquery(&expr) { self.of(expr) } else { expr }
    }

    /// Replaces the keys and arguments of a window function, and subqueries.
    fn in_part(&mut self, part: Expr) -> Result<Transformed<Expr>> {
        Ok(match part {
            Expr::WindowFunction(mut window) => {
                let WindowFunction { params, .. } = &mut *window;
                for key in &mut params.partition_by {
                    *key = self.key(std::mem::take(key));
                }
                for by in &mut params.order_by {
                    by.expr = self.key(std::mem::take(&mut by.expr));
                }
                for arg in &mut params.args {
                    *arg = self.with_subquery(std::mem::take(arg));
                }
                Transformed::yes(Expr::WindowFunction(window))
            }
            Expr::AggregateFunction(mut aggregate) => {
                let AggregateFunction { params, .. } = &mut aggregate;
                for arg in &mut params.args {
                    *arg = self.with_subquery(std::mem::take(arg));
                }
                for by in &mut params.order_by {
                    by.expr = self.with_subquery(std::mem::take(&mut by.expr));
                }
                Transformed::yes(Expr::AggregateFunction(aggregate))
            }
            other => Transformed::no(other),
        })
    }

    /// A projection of `input` with the computed columns appended to its own.
    fn below(&self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let own = input.schema().columns().into_iter().map(Expr::Column);
        let exprs = self.exprs.iter().enumerate();
        let exprs = exprs.map(|(at, expr)| expr.clone().alias(format!("{COMPUTED}{at}")));
        let items = own.chain(exprs).collect::<Vec<_>>();
        LogicalPlanBuilder::from(input).project(items)?.build().map(Arc::new)
    }
}
