//! What all functions of ours share as DataFusion sees them: a name, how many arguments there
//! may be, and that one of them is told from another by its name.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

/// Any number of arguments.
pub const MANY: usize = usize::MAX;

/// What sets one function apart from another.
pub trait Does: Debug + Send + Sync + 'static {
    /// Whether arguments must not be computed before it is known which of them are wanted.
    const SHORT_CIRCUITS: bool = false;

    /// The field of the result of a call.
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field>;

    /// The ordinary expression that a call becomes, where it becomes one.
    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
    }

    /// The values of so many rows.
    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef>;
}

/// A function of `arity.0` to `arity.1` arguments.
#[derive(Debug)]
pub struct Udf<D> {
    name: &'static str,
    arity: (usize, usize),
    signature: Signature,
    does: D,
}

impl<D: Does> Udf<D> {
    /// As DataFusion takes it.
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

    /// Refuses a call with a wrong number of arguments in MySQL's words.
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

impl<D: Does> ScalarUDFImpl for Udf<D> {
    fn name(&self) -> &str {
        self.name
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = self.signature.volatility != Volatility::Volatile
            && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let values = self.does.eval(&args, rows)?;
        assert_eq!(values.len(), rows, "a function returns as many values as there are rows");
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}
