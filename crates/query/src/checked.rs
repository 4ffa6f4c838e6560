//! Wraps DataFusion's passes with checks for cancellation: logical plan passes check at every node,
//! physical ones before each pass.

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

use crate::computed::ProjectComputedKeys;
use crate::dependent::DependentJoins;
use crate::growth::{self, Bounded};
use crate::interrupt;
use crate::join_keys::RepairJoinKeys;
use crate::lists;
use crate::membership::Membership;
use crate::ranges::Ranges;
use crate::recursion::LimitRecursion;
use crate::sketches::SketchUses;
use crate::sorted_again::SortAgain;
use crate::top_rows::FullMergeOrder;
use crate::weighing::CompareTexts;
use crate::wide::SplitLargeResults;
use crate::yielding::YieldBehindJoins;

/// The analyzer rules: ours first, then DataFusion's.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let checked = |rule| Arc::new(Checked(rule)) as Arc<dyn AnalyzerRule + Send + Sync>;
    let ours: [Arc<dyn AnalyzerRule + Send + Sync>; 5] = [
        Arc::new(SketchUses),
        Arc::new(Membership),
        Arc::new(Ranges),
        Arc::new(ProjectComputedKeys),
        Arc::new(DependentJoins),
    ];
    ours.into_iter().chain(Analyzer::new().rules).map(checked).collect()
}

/// DataFusion's logical optimizer rules, with [`RepairJoinKeys`] inserted before join reordering,
/// which would lose the keys that it looks for.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let checked = |rule| Arc::new(Checked(rule)) as Arc<dyn OptimizerRule + Send + Sync>;
    let mut rules = Optimizer::new().rules;
    let orders = rules.iter().position(|rule| rule.name() == ELIMINATE_CROSS_JOIN);
    let orders = orders.expect("DataFusion orders joins by a pass of this name");
    rules.insert(orders, Arc::new(RepairJoinKeys));
    rules.into_iter().map(checked).collect()
}

/// DataFusion's physical optimizer rules and ours. [`FullMergeOrder`] goes before the pass that
/// sets up dynamic filters, because it changes the sort order that they depend on; [`SortAgain`]
/// before the one that refuses plans. Passes that move conditions are [`Bounded`].
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let learns = rules.iter().position(|rule| rule.name() == LEARN_FILTERS);
    let learns = learns.expect("DataFusion hands on what is learned by a pass of this name");
    for rule in &mut rules {
        if rule.name().starts_with(MOVE_FILTERS) {
            *rule = Arc::new(Bounded(Arc::clone(rule)));
        }
    }
    rules.insert(learns, Arc::new(FullMergeOrder));
    let checks = rules.iter().position(|rule| rule.name() == CHECK_PLAN);
    let checks = checks.expect("DataFusion checks the whole plan by a pass of this name");
    rules.insert(checks, Arc::new(SortAgain));
    rules.push(Arc::new(CompareTexts));
    rules.push(Arc::new(YieldBehindJoins));
    rules.push(Arc::new(SplitLargeResults));
    rules.push(Arc::new(LimitRecursion));
    let look = || Arc::new(CheckCancelled) as Arc<dyn PhysicalOptimizerRule + Send + Sync>;
    rules.into_iter().flat_map(|rule| [look(), rule]).collect()
}

/// A rule that checks for cancellation before it runs.
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
        match self.0.name() {
            PUSH_DOWN_FILTER if is_over_one_group(&plan) || growth::grows(&plan)? => {
                Ok(Transformed::no(plan))
            }
            SIMPLIFY_EXPRESSIONS => {
                let apart = lists::kept_apart(plan)?;
                let simplified = self.0.rewrite(apart.data, config)?;
                match apart.transformed {
                    true => simplified.map_data(lists::together),
                    false => Ok(simplified),
                }
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// A rule that only checks for cancellation, inserted before each physical rule.
#[derive(Debug)]
struct CheckCancelled;

impl PhysicalOptimizerRule for CheckCancelled {
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

/// Begins the names of DataFusion's physical rules that push down filters.
const MOVE_FILTERS: &str = "FilterPushdown";
/// DataFusion's rule that pushes down dynamic filters.
const LEARN_FILTERS: &str = "FilterPushdown(Post)";
/// DataFusion's rule that refuses plans which cannot be executed.
const CHECK_PLAN: &str = "SanityCheckPlan";
/// DataFusion's rule that reorders inner joins by their keys.
const ELIMINATE_CROSS_JOIN: &str = "eliminate_cross_join";
/// DataFusion's rule that simplifies expressions.
const SIMPLIFY_EXPRESSIONS: &str = "simplify_expressions";
/// DataFusion's rule that moves conditions towards the scans.
const PUSH_DOWN_FILTER: &str = "push_down_filter";

/// Whether the plan is a filter over an aggregate without groups or with ROLLUP, which returns one
/// row even for empty input. DataFusion pushes a condition without columns below the aggregate,
/// where a false condition would still leave that row.
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
