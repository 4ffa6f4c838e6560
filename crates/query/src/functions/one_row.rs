//! Values of scalar subqueries: of one that may have more than one row, which is an error only
//! where it is read, as in a branch of CASE that is taken, and of one that may have none.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use freshet_base::err;

use crate::error::external;

/// `mysql_one_row(value, rows)`: the value, if there is one row or none.
pub const ONE_ROW: &str = "mysql_one_row";

/// `mysql_maybe_none(value)`: the value, of which the plan knows that it may be NULL.
pub const MAYBE_NONE: &str = "mysql_maybe_none";

pub fn all() -> Vec<ScalarUDF> {
    let one = OneRow { signature: Signature::any(2, Volatility::Immutable) };
    // Of a constant it is none.
    let maybe = MaybeNone { signature: Signature::any(1, Volatility::Volatile) };
    vec![ScalarUDF::new_from_impl(one), ScalarUDF::new_from_impl(maybe)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeNone {
    signature: Signature,
}

impl ScalarUDFImpl for MaybeNone {
    fn name(&self) -> &'static str {
        MAYBE_NONE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of a subquery is that of its column")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &'static str {
        ONE_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of a subquery is that of its column")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(FieldRef::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_many = match &args.args[1] {
            ColumnarValue::Scalar(rows) => {
                matches!(rows, ScalarValue::Int64(Some(rows)) if *rows > 1)
            }
            ColumnarValue::Array(rows) => {
                let rows = rows.as_primitive::<Int64Type>();
                (0..rows.len()).any(|at| rows.is_valid(at) && rows.value(at) > 1)
            }
        };
        if is_many {
            return Err(external(err!(SubqueryRows, "Subquery returns more than 1 row")));
        }
        Ok(args.args.swap_remove(0))
    }
}
