//! Dates that are written as texts, where they are compared with dates.

use std::cell::Cell;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_base::{Error, ErrorCode};

use super::types::{Operand, TypedExpr, converted, is_comparison, is_temporal};
use crate::convert::DATETIME;
use crate::error::external;
use crate::losses;
use crate::session::BesideDates;
use crate::temporal::{self, DAY, OddDate};

thread_local! {
    /// What the statement may write that this thread is planning.
    static PLANNED: Cell<BesideDates> = const { Cell::new(BesideDates::Texts) };
}

/// A guard that tells the planner of operators on this thread what may be written beside dates.
pub struct Beside(BesideDates);

impl Beside {
    pub fn dates(what: BesideDates) -> Self {
        Self(PLANNED.replace(what))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        PLANNED.set(self.0);
    }
}

/// Checks the operands of a comparison.
///
/// # Errors
/// 1525 for a literal that is no date beside a date, if only dates may stand there: no row could be
/// found by it.
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
        Some(text) if is_comparison(op) && is_refused(text) => {
            let ty = if *date == DataType::Date32 { "DATE" } else { "DATETIME" };
            let message = format!("Incorrect {ty} value: '{text}'");
            Err(external(Error::new(ErrorCode::NoDate, message)))
        }
        _ => Ok(()),
    }
}

fn is_refused(text: &str) -> bool {
    let BesideDates::Dates { zero_parts, invalid } = PLANNED.get() else { return false };
    temporal::parse_datetime(text).is_none()
        && match temporal::odd_date(text) {
            Some(OddDate::ZeroParts) => !zero_parts,
            Some(OddDate::Invalid) => !invalid,
            None => true,
        }
}

/// What stands for a date that no day is, where the mode permits such: the last microsecond of the
/// day before all days behind it, so that it is between days.
fn between_days(text: &str) -> Option<i64> {
    let is_permitted = PLANNED.get() != BesideDates::Texts && !is_refused(text);
    if is_permitted { temporal::next_day(text).map(|micros| micros - 1) } else { None }
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
        return date_literal(temporal::parse_datetime(text).or_else(|| between_days(text)), with);
    }
    (converted(operand.0, operand.1, &DATETIME), DATETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_are_no_dates_are_refused_beside_dates() {
        let (eq, date) = (BinaryOperator::Eq, DataType::Date32);
        let _beside = Beside::dates(BesideDates::Dates { zero_parts: false, invalid: false });
        for text in ["abc", "", "2024-02-30", "10:00:00"] {
            assert!(refused(&eq, &date, text) && refused(&eq, &DATETIME, text), "{text}");
            assert!(!refused(&BinaryOperator::Plus, &date, text));
            assert!(!refused(&eq, &DataType::Int64, text));
        }
        for text in ["2024-02-29", "2024-02-29x", "0000-00-00", "20240229"] {
            assert!(!refused(&eq, &date, text), "{text}");
        }
    }

    #[test]
    fn modes_permit_odd_dates() {
        let refused = |zero_parts, invalid, text| {
            let _beside = Beside::dates(BesideDates::Dates { zero_parts, invalid });
            refused(&BinaryOperator::GtEq, &DATETIME, text)
        };
        for zeros in ["2024-01-00", "2024-00-00 10:00:00", "20240100"] {
            assert!(refused(false, true, zeros) && !refused(true, false, zeros), "{zeros}");
        }
        for invalid in ["2024-02-31", "2023-02-29 10:00:00"] {
            assert!(refused(true, false, invalid) && !refused(false, true, invalid), "{invalid}");
        }
        for none in ["2024-13-00", "2024-02-32", "2024-01-00 25:00:00", "x"] {
            assert!(refused(true, true, none), "{none}");
        }
    }

    #[test]
    fn a_statement_that_only_defines_may_write_any_text() {
        let _beside = Beside::dates(BesideDates::Texts);
        assert!(!refused(&BinaryOperator::Eq, &DataType::Date32, "x"));
    }

    #[test]
    fn odd_dates_are_between_days() {
        let of = |text| {
            let _beside = Beside::dates(BesideDates::Dates { zero_parts: true, invalid: true });
            between_days(text)
        };
        for (odd, next) in [
            ("2024-01-00", "2024-01-01"),
            ("2024-00-15 10:00:00", "2024-01-01"),
            ("2024-02-31", "2024-03-01"),
            ("2024-11-31 23:00:00", "2024-12-01"),
        ] {
            assert_eq!(of(odd), temporal::parse_datetime(next).map(|next| next - 1), "{odd}");
        }
        assert_eq!((of("x"), of("2024-13-00")), (None, None));
        let _beside = Beside::dates(BesideDates::Texts);
        assert_eq!(between_days("2024-01-00"), None);
    }

    fn refused(op: &BinaryOperator, ty: &DataType, text: &str) -> bool {
        let (column, text) = (datafusion::prelude::col("d"), lit(text));
        let (column, text) = ((&column, ty), (&text, &DataType::Utf8));
        check(op, column, text).and_then(|()| check(op, text, column)).is_err()
    }
}
