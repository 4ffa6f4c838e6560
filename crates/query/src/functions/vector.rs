//! Functions defined on whole columns, with a result type derived from the types and literals of
//! the arguments.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility,
};

use super::udf::{FunctionImpl, Udf, repeated};

/// Derives the result type from the types and literals of the arguments.
pub type Returns = fn(&[&DataType], &[Option<&ScalarValue>]) -> Result<DataType>;
/// Computes the result for columns of equal length.
pub type Eval = fn(&[ArrayRef], &DataType) -> Result<ArrayRef>;

#[derive(Debug)]
pub struct Vector {
    returns: Returns,
    eval: Eval,
}

impl Vector {
    /// A function with `arity.0` to `arity.1` arguments.
    pub fn udf(
        name: &'static str,
        arity: (usize, usize),
        returns: Returns,
        eval: Eval,
    ) -> ScalarUDF {
        Udf::scalar(name, arity, Volatility::Immutable, Self { returns, eval })
    }
}

impl FunctionImpl for Vector {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let types = args.arg_fields.iter().map(|field| field.data_type()).collect::<Vec<_>>();
        let ty = (self.returns)(&types, args.scalar_arguments)?;
        Ok(Field::new(name, ty, true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arrays = args.args.iter().map(|arg| column(arg, rows)).collect::<Result<Vec<_>>>()?;
        (self.eval)(&arrays, args.return_field.data_type())
    }
}

/// An argument as a column; the rows of a text literal share its bytes.
pub fn column(arg: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    match arg {
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        ColumnarValue::Scalar(value) => match value.try_as_str() {
            Some(Some(text)) => {
                let text: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
                repeated(&text, rows)
            }
            _ => value.to_array_of_size(rows),
        },
    }
}
