//! The zero date, `0000-00-00`, in functions that know of none (RFC 0072).

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, PrimitiveArray};
use arrow::datatypes::{DataType, Date32Type, FieldRef, Int32Type, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::temporal;

/// The values with NULL for the zero date.
pub fn without<T: ArrowPrimitiveType>(
    array: PrimitiveArray<T>,
    is_zero: fn(T::Native) -> bool,
) -> PrimitiveArray<T> {
    match has_zeros(&array, is_zero) {
        true => array.iter().map(|value| value.filter(|value| !is_zero(*value))).collect(),
        false => array,
    }
}

/// DataFusion's `date_part`, but that all parts of the zero date are 0.
#[derive(PartialEq, Eq, Hash, Debug)]
struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zeros = zeros_of(&args.args[1])?;
        let parts = self.inner.invoke_with_args(args)?;
        let Some(zeros) = zeros else { return Ok(parts) };
        Ok(match parts {
            ColumnarValue::Array(parts) => {
                let parts = parts.as_primitive::<Int32Type>().iter().zip(zeros);
                let parts = parts.map(|(part, zero)| if zero { Some(0) } else { part });
                ColumnarValue::Array(Arc::new(parts.collect::<Int32Array>()))
            }
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::Int32(Some(0))),
        })
    }

    fn preimage(
        &self,
        args: &[Expr],
        part: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        // The year 0 has no first day: the zero date is before it.
        match part.as_literal() {
            Some(ScalarValue::Int32(Some(1..))) => self.inner.preimage(args, part, info),
            _ => Ok(PreimageResult::None),
        }
    }
}

/// Which values are the zero date, if any is.
fn zeros_of(value: &ColumnarValue) -> Result<Option<Vec<bool>>> {
    let array: ArrayRef = match value {
        ColumnarValue::Array(array) => Arc::clone(array),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    let days = array.as_primitive_opt::<Date32Type>();
    let micros = array.as_primitive_opt::<TimestampMicrosecondType>();
    Ok(match (days, micros) {
        (Some(days), _) => zeros_among(days, temporal::is_zero_day),
        (_, Some(micros)) => zeros_among(micros, temporal::is_zero),
        _ => None,
    })
}

fn zeros_among<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    is_zero: fn(T::Native) -> bool,
) -> Option<Vec<bool>> {
    has_zeros(array, is_zero)
        .then(|| array.iter().map(|value| value.is_some_and(is_zero)).collect())
}

/// Whether any value may be the zero date; what stands behind a NULL is looked at, too.
fn has_zeros<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    is_zero: fn(T::Native) -> bool,
) -> bool {
    array.values().iter().copied().any(is_zero)
}

pub fn all() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(DatePart { inner: date_part() })]
}
