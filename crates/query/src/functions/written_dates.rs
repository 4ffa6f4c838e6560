//! Dates that are written as texts, where they are compared with dates.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_base::{Error, ErrorCode};

use super::types::{Operand, TypedExpr, converted, is_comparison, is_temporal};
use crate::convert::DATETIME;
use crate::error::external;
use crate::losses;
use crate::temporal::{self, DAY};

/// Checks the operands of a comparison.
///
/// # Errors
/// 1525 for a literal that is no date beside a date: no row could be found by it.
pub(super) fn check(
    op: &BinaryOperator,
    left: (&Expr, &DataType),
    right: (&Expr, &DataType),
) -> Result<()> {
    let (date, other) = match (is_temporal(left.1), is_temporal(right.1)) {
        (true, false) => (left.1, right.0),
        (false, true) => (right.1, left.0),
        _ => return Ok(()),
    };
    match text_of(other) {
        Some(text) if is_comparison(op) && temporal::parse_datetime(text).is_none() => {
            let ty = if *date == DataType::Date32 { "DATE" } else { "DATETIME" };
            let message = format!("Incorrect {ty} value: '{text}'");
            Err(external(Error::new(ErrorCode::NoDate, message)))
        }
        _ => Ok(()),
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// A literal to compare to a date, converted to its type where possible, so that the column needs
/// no conversion.
pub(super) fn date_literal(micros: Option<i64>, with: &DataType) -> TypedExpr {
    match micros {
        Some(micros) if *with == DataType::Date32 && micros % DAY == 0 => {
            (lit(ScalarValue::Date32(Some(temporal::days(micros)))), DataType::Date32)
        }
        micros => (lit(ScalarValue::TimestampMicrosecond(micros, None)), DATETIME),
    }
}

/// An operand of a comparison with a date: literals are converted while planning, so that the
/// column needs no conversion and can be used for pruning.
pub(super) fn temporal_operand(operand: Operand<'_>, with: &DataType) -> TypedExpr {
    if let Some(text) = text_of(&operand.0)
        && losses::may_fold(|| temporal::is_whole_datetime(text))
    {
        return date_literal(temporal::parse_datetime(text), with);
    }
    (converted(operand.0, operand.1, &DATETIME), DATETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_are_no_dates_are_refused_beside_dates() {
        let (eq, date) = (BinaryOperator::Eq, DataType::Date32);
        let refused = |op: &BinaryOperator, ty: &DataType, text: &str| {
            let (column, text) = (datafusion::prelude::col("d"), lit(text));
            let (column, text) = ((&column, ty), (&text, &DataType::Utf8));
            check(op, column, text).and_then(|()| check(op, text, column)).is_err()
        };
        for text in ["abc", "", "2024-02-30", "10:00:00"] {
            assert!(refused(&eq, &date, text) && refused(&eq, &DATETIME, text), "{text}");
            assert!(!refused(&BinaryOperator::Plus, &date, text));
            assert!(!refused(&eq, &DataType::Int64, text));
        }
        for text in ["2024-02-29", "2024-02-29x", "0000-00-00", "20240229"] {
            assert!(!refused(&eq, &date, text), "{text}");
        }
    }
}
