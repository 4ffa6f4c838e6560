//! DataFusion's passes, each of which looks whether its plan is still wanted: those over logical
//! plans at every node, those over physical ones before they begin.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

use crate::computed::ComputedBelow;
use crate::interrupt;
use crate::join_keys::KeysOfColumns;
use crate::membership::Membership;
use crate::ranges::Ranges;
use crate::recursion::LimitRecursion;
use crate::top_rows::WholeOrders;
use crate::wide::SliceWide;
use crate::yielding::YieldBehindJoins;

/// The passes that give expressions their types, behind ours.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let checked = |rule| Arc::new(Checked(rule)) as Arc<dyn AnalyzerRule + Send + Sync>;
    let ours: [Arc<dyn AnalyzerRule + Send + Sync>; 3] =
        [Arc::new(Membership), Arc::new(Ranges), Arc::new(ComputedBelow)];
    ours.into_iter().chain(Analyzer::new().rules).map(checked).collect()
}

/// The passes over logical plans, and ours before the one that would lose what it looks for.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let checked = |rule| Arc::new(Checked(rule)) as Arc<dyn OptimizerRule + Send + Sync>;
    let mut rules = Optimizer::new().rules;
    let orders = rules.iter().position(|rule| rule.name() == ELIMINATE_CROSS_JOIN);
    let orders = orders.expect("DataFusion orders joins by a pass of this name");
    rules.insert(orders, Arc::new(KeysOfColumns));
    rules.into_iter().map(checked).collect()
}

/// The passes over physical plans, and ours: one before filters are learned in the order that it
/// changes.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let learns = rules.iter().position(|rule| rule.name() == LEARN_FILTERS);
    let learns = learns.expect("DataFusion hands on what is learned by a pass of this name");
    rules.insert(learns, Arc::new(WholeOrders));
    rules.push(Arc::new(YieldBehindJoins));
    rules.push(Arc::new(SliceWide));
    rules.push(Arc::new(LimitRecursion));
    let look = || Arc::new(Look) as Arc<dyn PhysicalOptimizerRule + Send + Sync>;
    rules.into_iter().flat_map(|rule| [look(), rule]).collect()
}

/// A pass that looks whether it is still wanted.
#[derive(Debug)]
struct Checked<R: ?Sized>(Arc<R>);

impl AnalyzerRule for Checked<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        interrupt::check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Checked<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        interrupt::check()?;
        match self.0.name() == PUSH_DOWN_FILTER && is_over_one_group(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// What stands before each pass over a physical plan.
#[derive(Debug)]
struct Look;

impl PhysicalOptimizerRule for Look {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        interrupt::check().map(|()| plan)
    }

    fn name(&self) -> &str {
        "look_whether_wanted"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// DataFusion's pass that hands on what is learned while a query runs.
const LEARN_FILTERS: &str = "FilterPushdown(Post)";
/// DataFusion's pass that orders inner joins by their keys.
const ELIMINATE_CROSS_JOIN: &str = "eliminate_cross_join";
/// DataFusion's pass that moves conditions towards the tables.
const PUSH_DOWN_FILTER: &str = "push_down_filter";

/// Whether a condition stands over an aggregate of all rows, without groups or of ROLLUP, whose one
/// row is there even when none is aggregated: below it, where DataFusion moves a condition without
/// columns, a condition that is false would leave that row.
fn is_over_one_group(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    match &*filter.input {
        LogicalPlan::Aggregate(aggregate) => {
            let groups = &aggregate.group_expr;
            groups.is_empty() || groups.iter().any(|group| matches!(group, Expr::GroupingSet(_)))
        }
        input => is_over_one_group(input),
    }
}
