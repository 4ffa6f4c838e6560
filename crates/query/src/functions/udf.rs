//! The common part of our scalar functions: name, number of arguments, and equality by name.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::in_set::shown;
use super::whole::short_name;
use crate::error::BatchTooLarge;
use crate::evaluation::{BATCH_BYTES_MAX, CONSTANT_BYTES_MAX, Evaluation};
use crate::losses;

pub const MANY: usize = usize::MAX;

/// The implementation of one function.
pub trait FunctionImpl: Debug + Send + Sync + 'static {
    /// Whether arguments must only be evaluated when needed.
    const SHORT_CIRCUITS: bool = false;

    /// The field of a call's result.
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field>;

    /// Replaces a call by an ordinary expression, if possible.
    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
    }

    /// Evaluates the function for this number of rows.
    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef>;
}

/// A function with `arity.0` to `arity.1` arguments.
#[derive(Debug)]
pub struct Udf<D> {
    name: &'static str,
    arity: (usize, usize),
    signature: Signature,
    does: D,
}

impl<D: FunctionImpl> Udf<D> {
    pub fn scalar(
        name: &'static str,
        arity: (usize, usize),
        volatility: Volatility,
        does: D,
    ) -> ScalarUDF {
        let types = TypeSignature::OneOf(vec![TypeSignature::UserDefined, TypeSignature::Nullary]);
        let signature = Signature::new(types, volatility);
        ScalarUDF::new_from_impl(Self { name, arity, signature, does })
    }

    /// Fails with MySQL's error for a wrong number of arguments.
    fn check_arity(&self, count: usize) -> Result<()> {
        if count < self.arity.0 || count > self.arity.1 {
            let name = self.name;
            return plan_err!("Incorrect parameter count in the call to native function '{name}'");
        }
        Ok(())
    }
}

impl<D> PartialEq for Udf<D> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<D> Eq for Udf<D> {}

impl<D> Hash for Udf<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl<D: FunctionImpl> ScalarUDFImpl for Udf<D> {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args = args.iter().map(shown).collect::<Vec<_>>();
        Ok(short_name(format!("{}({})", self.name, args.join(","))))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.check_arity(arg_types.len())?;
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of '{}' follows from its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.check_arity(args.arg_fields.len())?;
        self.does.field(self.name, &args).map(Arc::new)
    }

    fn short_circuits(&self) -> bool {
        D::SHORT_CIRCUITS
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.does.simplify(args, info)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant =
            self.signature.volatility != Volatility::Volatile && args.args.iter().all(is_constant);
        if !constant {
            let values = losses::collecting(&args.config_options, || {
                self.does.eval(&args, args.number_rows)
            })?;
            let (count, rows) = (values.len(), args.number_rows);
            assert_eq!(count, rows, "a function returns as many values as there are rows");
            return Ok(ColumnarValue::Array(values));
        }
        for arg in &mut args.args {
            if let ColumnarValue::Array(array) = arg {
                *array = array.slice(0, 1);
            }
        }
        let values = losses::collecting(&args.config_options, || self.does.eval(&args, 1))?;
        assert_eq!(values.len(), 1, "a function returns as many values as there are rows");
        if bytes_of(&values) <= CONSTANT_BYTES_MAX {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        // Plans do not contain long constants; during execution rows share one copy.
        match Evaluation::of(&args.config_options).is_running() {
            false => Err(BatchTooLarge::error(BATCH_BYTES_MAX)),
            true => repeated(&values, args.number_rows).map(ColumnarValue::Array),
        }
    }
}

/// Whether an argument is recognizably the same in every row: a constant long text has the same
/// view for all rows.
fn is_constant(arg: &ColumnarValue) -> bool {
    let same = |views: &[u128]| views.len() > 1 && views.iter().all(|view| *view == views[0]);
    match arg {
        ColumnarValue::Scalar(_) => true,
        ColumnarValue::Array(array) if array.null_count() > 0 => false,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8View => same(array.as_string_view().views()),
            DataType::BinaryView => same(array.as_binary_view().views()),
            _ => false,
        },
    }
}

/// The length of an array's single text.
fn bytes_of(array: &ArrayRef) -> usize {
    match array.data_type() {
        _ if array.is_null(0) => 0,
        DataType::Utf8View => array.as_string_view().value(0).len(),
        DataType::BinaryView => array.as_binary_view().value(0).len(),
        DataType::LargeBinary => array.as_binary::<i64>().value(0).len(),
        _ => 0,
    }
}

/// An array of this many rows that share one value.
pub fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    Ok(take(value, &UInt32Array::from(vec![0; rows]), None)?)
}
