//! Values of an INSERT that name columns of its table: each stands for what the row has got there
//! so far.

use std::collections::HashSet;
use std::ops::ControlFlow;

use freshet_schema::{Column, ColumnType};
use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, TimezoneInfo, UnaryOperator, Value, Visitor,
    VisitorMut,
};

use crate::actions::{self, Returned};
use crate::nesting::count_queries;
use crate::result::Cells;
use crate::rewrite::units;
use crate::syntax::{Literal, Scalar, column_of_default};
use crate::visit::{walk, walk_mut};

/// Digits of the number that a text or another number is where a column of integers stores it: it
/// is rounded.
const ROUNDED: ExactNumberInfo = ExactNumberInfo::PrecisionAndScale(38, 6);

/// The columns of a table of this name that an expression names outside of subqueries.
pub fn columns(expr: &Scalar, table: &str) -> Vec<String> {
    let mut found =
        Found { table, units: units(&expr.0), queries: 0, defaults: 0, names: Vec::new() };
    let _ = walk(&expr.0, &mut found);
    found.names
}

/// The same expression, where each column of [`columns`] is what `value` has for its name.
#[must_use]
pub fn with_columns(
    mut expr: Scalar,
    table: &str,
    value: &mut dyn FnMut(&str) -> Option<Scalar>,
) -> Scalar {
    let units = units(&expr.0);
    let _ = walk_mut(&mut expr.0, &mut Replaced { table, units, queries: 0, defaults: 0, value });
    expr
}

/// A computed value as it is written; `None` where it has no such form.
pub fn of_cell(cells: &Cells, row: usize) -> Option<Scalar> {
    if cells.is_null(row) {
        return Some(Literal::Null.into());
    }
    let mut text = Vec::new();
    let value = match cells {
        Cells::Null | Cells::Sketch(_) => return None,
        Cells::Bytes(values) => actions::literal(Returned::Bytes(values.value(row).to_vec())),
        Cells::Bits(values, _) => number(&values.value(row).to_string()),
        Cells::Decimal(..) | Cells::Large(..) => {
            cells.exact(row, &mut text);
            number(&String::from_utf8(text).ok()?)
        }
        Cells::Bool(_)
        | Cells::Int(_)
        | Cells::UInt(_)
        | Cells::Year(_)
        | Cells::Float(_)
        | Cells::Double(..) => {
            cells.text(row, &mut text);
            number(&String::from_utf8(text).ok()?)
        }
        Cells::Text(_) | Cells::Date(_) | Cells::DateTime(..) | Cells::Time(..) => {
            cells.text(row, &mut text);
            Literal::Text(String::from_utf8(text).ok()?).expr()
        }
    };
    Some(Scalar(value))
}

/// A number with or without a sign.
fn number(digits: &str) -> Expr {
    let literal = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).into());
    match digits.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(literal(digits)) },
        None => literal(digits),
    }
}

/// A value as its column stores it, so that an expression sees what a query would read.
#[must_use]
pub fn as_stored(value: Scalar, column: &Column) -> Scalar {
    let digits = |fsp: u8| Some(u64::from(fsp));
    let data_type = match column.ty {
        ColumnType::LargeInt => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0)),
        ty if ty.is_integer() || matches!(ty, ColumnType::Bit { .. }) => {
            let exact = cast(value.0, DataType::Decimal(ROUNDED));
            return Scalar(cast(
                exact,
                match ty.is_unsigned() {
                    true => DataType::Unsigned,
                    false => DataType::Signed,
                },
            ));
        }
        ColumnType::Decimal { precision, scale } => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into()))
        }
        ColumnType::Float => DataType::Float(ExactNumberInfo::None),
        ColumnType::Double => DataType::Double(ExactNumberInfo::None),
        ColumnType::Date => DataType::Date,
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            DataType::Datetime(digits(fsp))
        }
        ColumnType::Time { fsp } => DataType::Time(digits(fsp), TimezoneInfo::None),
        ColumnType::Json | ColumnType::Variant => DataType::JSON,
        ty if ty.is_collated() || ty.is_labelled() => DataType::Char(None),
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob => {
            DataType::Binary(None)
        }
        _ => return value,
    };
    Scalar(cast(value.0, data_type))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    let expr = Box::new(expr);
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// The name of a column of the table, if an expression is one.
fn name_of<'a>(expr: &'a Expr, table: &str, units: &HashSet<String>) -> Option<&'a str> {
    match expr {
        Expr::Identifier(name) => {
            let is_variable = name.quote_style.is_none() && name.value.starts_with('@');
            let is_other = is_variable || units.contains(&name.value.to_lowercase());
            (!is_other).then_some(&*name.value)
        }
        Expr::CompoundIdentifier(names) => match &names[..] {
            [of, name] | [_, of, name] if of.value.eq_ignore_ascii_case(table) => Some(&name.value),
            _ => None,
        },
        _ => None,
    }
}

struct Found<'a> {
    table: &'a str,
    units: HashSet<String>,
    queries: usize,
    /// The nesting of `DEFAULT(column)`, whose column is only named.
    defaults: usize,
    names: Vec<String>,
}

impl Visitor for Found<'_> {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.defaults += usize::from(column_of_default(expr).is_some());
        if self.queries == 0 && self.defaults == 0 {
            self.names.extend(name_of(expr, self.table, &self.units).map(str::to_owned));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.defaults -= usize::from(column_of_default(expr).is_some());
        ControlFlow::Continue(())
    }
}

struct Replaced<'a> {
    table: &'a str,
    units: HashSet<String>,
    queries: usize,
    defaults: usize,
    value: &'a mut dyn FnMut(&str) -> Option<Scalar>,
}

impl VisitorMut for Replaced<'_> {
    type Break = ();

    count_queries!(&mut Query);

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.defaults += usize::from(column_of_default(expr).is_some());
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.defaults -= usize::from(column_of_default(expr).is_some());
        let is_read = self.queries == 0 && self.defaults == 0;
        let name = name_of(expr, self.table, &self.units).filter(|_| is_read);
        if let Some(value) = name.and_then(|name| (self.value)(name)) {
            *expr = value.0;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{InsertSource, Statement, parse};
    use crate::session::SqlMode;

    fn value(text: &str) -> Scalar {
        let sql = format!("INSERT INTO t VALUES ({text})");
        let parsed = parse(&sql, SqlMode::default()).unwrap().remove(0).statement;
        let Statement::Insert(insert) = parsed else { panic!("it is an INSERT") };
        let InsertSource::Values(mut rows) = insert.source else { panic!("it has rows") };
        rows.remove(0).remove(0).unwrap()
    }

    #[test]
    fn columns_are_named_alone_or_behind_their_table() {
        for (text, wanted) in [
            ("a + t.b + d.t.c", &["a", "b", "c"][..]),
            ("@a + 'a' + u.a", &[]),
            ("a + (SELECT b FROM u)", &["a"]),
            ("TIMESTAMPDIFF(day, a, b)", &["a", "b"]),
            ("NOW() + INTERVAL a DAY", &["a"]),
            ("DEFAULT(a) + b", &["b"]),
        ] {
            assert_eq!(columns(&value(text), "t"), wanted, "{text}");
        }
    }

    #[test]
    fn columns_are_replaced_by_what_they_stand_for() {
        let five = |name: &str| (name == "a").then(|| value("5"));
        let replaced = with_columns(value("a + b * t.a"), "t", &mut { five });
        assert_eq!(replaced.to_string(), "5 + b * 5");
        let column = |ty| Column::new(freshet_base::ColumnId(1), "a", ty);
        let int = column(ColumnType::Int { unsigned: true });
        let stored = as_stored(value("'1.7'"), &int).to_string();
        assert_eq!(stored, "CAST(CAST('1.7' AS DECIMAL(38,6)) AS UNSIGNED)");
        let date = as_stored(value("'2024-01-01 10:00:00'"), &column(ColumnType::Date));
        assert_eq!(date.to_string(), "CAST('2024-01-01 10:00:00' AS DATE)");
    }
}
