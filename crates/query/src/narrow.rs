//! Plans over nested values: other rows are copied by reference to their texts, but those of arrays
//! are copied whole, as often as a join or EXPLODE repeats them. So such plans have small batches,
//! and nothing nested stands beside what is exploded.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use freshet_base::err;

use crate::error::external;
use crate::functions::nested::name_of;

/// Rows of a batch where columns are nested.
const NARROW_ROWS: usize = 64;

/// Starts a plan in the context `task`, or in that with small batches.
///
/// # Errors
/// When values would be repeated for each element of another one.
pub fn execute(
    plan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
    task: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    execute_stream(Arc::clone(plan), task_of(plan, state, task)?)
}

fn task_of(
    plan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
    task: &Arc<TaskContext>,
) -> Result<Arc<TaskContext>> {
    let mut is_nested = false;
    plan.apply(|node| {
        is_nested |= node.schema().fields().iter().any(|field| field.data_type().is_nested());
        if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
            check(unnest)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_nested {
        return Ok(Arc::clone(task));
    }
    let mut state = state.clone();
    *state.config_mut() = state.config().clone().with_batch_size(NARROW_ROWS);
    Ok(state.task_ctx())
}

fn check(unnest: &UnnestExec) -> Result<()> {
    let schema = unnest.input().schema();
    let is_unnested = |at: usize| {
        let mut lists = unnest.list_column_indices().iter();
        lists.any(|list| list.index_in_input_schema == at)
            || unnest.struct_column_indices().contains(&at)
    };
    let mut beside = schema.fields().iter().enumerate();
    match beside.find(|(at, field)| field.data_type().is_nested() && !is_unnested(*at)) {
        Some((_, field)) => Err(repeated(field)),
        None => Ok(()),
    }
}

fn repeated(field: &Field) -> DataFusionError {
    external(err!(
        NotSupported,
        "This version of Freshet doesn't yet support 'EXPLODE and JSON_TABLE beside values of type \
         {}', which would be repeated for each row: select elements of '{}', or CAST(.. AS CHAR) \
         of it in a derived table",
        name_of(field.data_type()),
        field.name()
    ))
}
