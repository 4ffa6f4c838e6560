//! Years of two digits, where they are compared with a YEAR column.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_schema::ColumnType;

use super::types::is_comparison;
use crate::origin::ColumnOrigin;
use crate::temporal;

/// The operands of a comparison, where a literal beside a YEAR column is the year that the column
/// would store of it: 24 is 2024, and 70 is 1970.
pub(super) fn full(
    op: &BinaryOperator,
    (left, right): (Expr, Expr),
    schema: &DFSchema,
) -> (Expr, Expr) {
    if !is_comparison(op) {
        return (left, right);
    }
    match (of_two_digits(&left), of_two_digits(&right)) {
        (None, Some(year)) if is_year(&left, schema) => (left, lit(year)),
        (Some(year), None) if is_year(&right, schema) => (lit(year), right),
        _ => (left, right),
    }
}

/// The arguments of IN, where literals beside a YEAR column are what it would store of them; `None`
/// if all are already.
pub fn full_in_list(args: &[Expr], schemas: &[Arc<DFSchema>]) -> Option<Vec<Expr>> {
    let (value, items) = args.split_first()?;
    if !schemas.iter().any(|schema| is_year(value, schema)) {
        return None;
    }
    if items.iter().all(|item| of_two_digits(item).is_none()) {
        return None;
    }
    let full = |item: &Expr| of_two_digits(item).map_or_else(|| item.clone(), lit);
    Some(std::iter::once(value.clone()).chain(items.iter().map(full)).collect())
}

fn of_two_digits(expr: &Expr) -> Option<i64> {
    let Expr::Literal(value, _) = expr else { return None };
    let digits = match value.try_as_str() {
        // A zero in quotes is the year 2000, and the number 0 the year 0.
        Some(text) => {
            text.map(str::trim).filter(|text| matches!(text.len(), 1 | 2))?.parse().ok()?
        }
        None if value.data_type().is_numeric() => match value.cast_to(&DataType::Float64).ok()? {
            ScalarValue::Float64(Some(number)) => {
                (1..=99).find(|year| f64::from(*year) == number)?
            }
            _ => return None,
        },
        None => return None,
    };
    Some(temporal::century(digits).into())
}

fn is_year(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Column(_) = expr else { return false };
    let field = expr.to_field(schema).map(|(_, field)| field);
    let origin = field.ok().and_then(|field| ColumnOrigin::decode(&field));
    origin.is_some_and(|origin| origin.ty == ColumnType::Year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literals_of_two_digits_are_short_years() {
        let read = |expr| of_two_digits(&expr);
        assert_eq!([read(lit(24_i64)), read(lit(70_i64))], [Some(2024), Some(1970)]);
        assert_eq!([read(lit(24.0)), read(lit(0.0))], [Some(2024), None]);
        assert_eq!([read(lit("24")), read(lit("0"))], [Some(2024), Some(2000)]);
        for other in [lit(0_i64), lit(100_i64), lit(-1_i64), lit("024"), lit("x"), lit(24.5)] {
            assert_eq!(read(other), None);
        }
    }
}
