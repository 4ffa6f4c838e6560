//! User variables that a query assigns while it runs: `@v := value`, and `@v` where it stands
//! beside that. Their values are those of the evaluation, and its session takes them at the end.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::udf::{FunctionImpl, Udf};
use crate::convert;
use crate::evaluation::Evaluation;
use crate::session::Value;

/// The function behind `@v := value`: of the name and the value, which it returns.
pub const SET: &str = "mysql_set_variable";
/// The function behind `@v`: of the name and the value before the query.
pub const READ: &str = "mysql_read_variable";

/// The variable and the value of a call of [`SET`].
pub fn set_by(expr: &Expr) -> Option<(&str, &Expr)> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == SET => {
            let [Expr::Literal(name, _), value] = &call.args[..] else { return None };
            Some((name.try_as_str()??, value))
        }
        _ => None,
    }
}

/// The variable of a call of one of the two.
pub fn variable(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::ScalarFunction(call) if is_call(expr) => match call.args.first()? {
            Expr::Literal(name, _) => name.try_as_str()?,
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression is a call of one of the two.
pub fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if [SET, READ].contains(&call.func.name()))
}

#[derive(Debug)]
struct Variable {
    sets: bool,
}

impl FunctionImpl for Variable {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        Ok(Field::new(name, args.arg_fields[1].data_type().clone(), true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let value = args.args[1].to_array(rows)?;
        // The branch of a CASE that no row takes.
        if rows == 0 {
            return Ok(value);
        }
        let evaluation = Evaluation::of(&args.config_options);
        let names = convert::text(&args.args[0].to_array(rows)?)?;
        let name = names.value(0);
        if self.sets {
            evaluation.assign(name, ScalarValue::try_from_array(&value, rows - 1)?, kept);
            return Ok(value);
        }
        match evaluation.assigned_to(name) {
            None => Ok(value),
            Some(assigned) => {
                let assigned = assigned.to_array_of_size(rows)?;
                match value.data_type() {
                    DataType::Utf8View => Ok(Arc::new(convert::text(&assigned)?)),
                    ty => Ok(cast(&assigned, ty)?),
                }
            }
        }
    }
}

/// An assigned value as a session keeps it.
///
/// # Errors
/// When it has no text.
fn kept(value: &ScalarValue) -> Result<Value> {
    let ty = value.data_type();
    Ok(match () {
        () if value.is_null() => Value::Null,
        () if ty.is_unsigned_integer() => match value.cast_to(&DataType::UInt64)? {
            ScalarValue::UInt64(Some(number)) => Value::UInt(number),
            _ => Value::Null,
        },
        () if ty.is_integer() || ty == DataType::Boolean => {
            match value.cast_to(&DataType::Int64)? {
                ScalarValue::Int64(Some(number)) => Value::Int(number),
                _ => Value::Null,
            }
        }
        () if ty.is_floating() => match value.cast_to(&DataType::Float64)? {
            ScalarValue::Float64(Some(number)) => Value::Double(number),
            _ => Value::Null,
        },
        () if matches!(ty, DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            Value::Decimal(convert::text(&value.to_array()?)?.value(0).to_owned())
        }
        () => Value::Text(convert::text(&value.to_array()?)?.value(0).to_owned()),
    })
}

pub fn all() -> Vec<ScalarUDF> {
    let of = |name, sets| Udf::scalar(name, (2, 2), Volatility::Volatile, Variable { sets });
    vec![of(SET, true), of(READ, false)]
}
