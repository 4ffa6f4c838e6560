//! The value of a subquery that may have more than one row: an error only where it is read, as in a
//! branch of CASE that is taken.

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

pub fn all() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(OneRow { signature: Signature::any(2, Volatility::Immutable) })]
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
