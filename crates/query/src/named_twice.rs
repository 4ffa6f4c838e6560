//! Keeps filters on columns of one name apart.
//!
//! A pass of DataFusion that hands filters down looks for their columns below by name
//! (`FilterRemapper` of datafusion-physical-plan 55). A join may give out two columns of one name,
//! `a.x` and `b.x`; a filter on the second would become one on the first, and a scan would leave
//! out rows that are wanted. While such a pass runs, a guard over each operator that gives out a
//! name twice hands on only filters on names that stand once.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::slice;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::operator::operator_over;

/// The plan with guards where filters might meet a name twice.
pub fn guarded(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let allowed = named_once(&*plan);
        Ok(match allowed.len() == plan.schema().fields().len() {
            true => Transformed::no(plan),
            false => Transformed::yes(Arc::new(GuardExec { allowed, guarded: plan })),
        })
    })
    .data()
}

/// The plan without guards.
pub fn unguarded(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        Ok(match plan.downcast_ref::<GuardExec>() {
            Some(guard) => Transformed::yes(Arc::clone(&guard.guarded)),
            None => Transformed::no(plan),
        })
    })
    .data()
}

/// The positions of columns whose names stand once in what the operator gives out and, if it is a
/// join that hands on filters, in each of its inputs; in those of a semi join together, since a
/// filter on its key goes to the input that it is not of as well.
fn named_once(plan: &dyn ExecutionPlan) -> HashSet<usize> {
    let schema = plan.schema();
    let mut looked_in = vec![counts(slice::from_ref(&schema))];
    let inputs = plan.children().into_iter().map(|child| child.schema()).collect::<Vec<_>>();
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        match join.join_type {
            JoinType::LeftSemi | JoinType::RightSemi => looked_in.push(counts(&inputs)),
            _ => looked_in.extend(inputs.iter().map(|input| counts(slice::from_ref(input)))),
        }
    }
    let is_once = |name: &str| looked_in.iter().all(|it| it.get(name).is_none_or(|&n| n == 1));
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| is_once(field.name())).map(|(at, _)| at).collect()
}

/// How often each name stands in all of these.
fn counts(schemas: &[SchemaRef]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for field in schemas.iter().flat_map(|schema| schema.fields()) {
        *counts.entry(field.name().as_str()).or_default() += 1;
    }
    counts
}

/// Hands on filters on the columns at `allowed`. It never runs.
#[derive(Debug)]
struct GuardExec {
    allowed: HashSet<usize>,
    guarded: Arc<dyn ExecutionPlan>,
}

impl GuardExec {
    fn over(&self, guarded: Arc<dyn ExecutionPlan>) -> Self {
        Self { allowed: self.allowed.clone(), guarded }
    }
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardExec")
    }
}

impl ExecutionPlan for GuardExec {
    operator_over!("GuardExec", guarded);

    fn properties(&self) -> &Arc<PlanProperties> {
        self.guarded.properties()
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let child = ChildFilterDescription::from_child_with_allowed_indices(
            &filters,
            self.allowed.clone(),
            &self.guarded,
        )?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.guarded.execute(partition, context)
    }
}
