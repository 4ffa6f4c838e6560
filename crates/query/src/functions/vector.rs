//! Functions given as what they do to whole columns, with a result type that follows from
//! the types, and the literals, of the arguments.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::row::check_arity;

/// The type of a result, from types and literals of the arguments.
pub type Returns = fn(&[&DataType], &[Option<&ScalarValue>]) -> Result<DataType>;
/// What it does to columns of equal length.
pub type Eval = fn(&[ArrayRef], &DataType) -> Result<ArrayRef>;

/// A function of columns.
#[derive(Debug)]
pub struct Vector {
    name: &'static str,
    arity: (usize, usize),
    returns: Returns,
    eval: Eval,
    signature: Signature,
}

impl Vector {
    /// A function of `arity.0` to `arity.1` arguments.
    pub fn udf(
        name: &'static str,
        arity: (usize, usize),
        returns: Returns,
        eval: Eval,
    ) -> ScalarUDF {
        let types = TypeSignature::OneOf(vec![TypeSignature::UserDefined, TypeSignature::Nullary]);
        let signature = Signature::new(types, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { name, arity, returns, eval, signature })
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Vector {}

impl std::hash::Hash for Vector {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Vector {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(self.name, arg_types.len(), self.arity)?;
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of '{}' follows from its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        check_arity(self.name, args.arg_fields.len(), self.arity)?;
        let types = args.arg_fields.iter().map(|field| field.data_type()).collect::<Vec<_>>();
        let ty = (self.returns)(&types, args.scalar_arguments)?;
        Ok(Arc::new(Field::new(self.name, ty, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.eval)(&arrays, args.return_field.data_type())?;
        assert_eq!(result.len(), rows, "a function returns as many values as there are rows");
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
