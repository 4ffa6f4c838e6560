//! An expression as the body of a function.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::physical_expr::PhysicalExpr;

use crate::losses;

/// Evaluates an expression with the arguments as its columns; constants give a constant.
pub fn computed(
    expr: &dyn PhysicalExpr,
    schema: &SchemaRef,
    args: &ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?;
    // Functions inside the expression have no access to the statement, so their losses are
    // collected here.
    let values = losses::collecting(&args.config_options, || expr.evaluate(&batch))?;
    match (constant, values) {
        (true, ColumnarValue::Array(array)) => {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
        (_, values) => Ok(values),
    }
}
