//! Expressions of PARTITION BY: whole numbers that are computed of one column.

use std::ops::ControlFlow;

use crate::visit::visit_expressions_mut;
use freshet_base::{Error, Result};
use freshet_meta::ComputedSpec;
use freshet_schema::value::temporal::parse;
use freshet_schema::{DatePart, Step};
use sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectNamePart, UnaryOperator, Value,
};

use super::super::cursor::{Cursor, refuse};

/// Parses an expression; returns the column that it is of.
///
/// # Errors
/// 1235 for what is no such expression, or of several columns.
pub fn expression(cursor: &mut Cursor<'_>) -> Result<(String, ComputedSpec)> {
    let mut expr = cursor.expr()?.0;
    let mut compiled = Compiled::default();
    compiled.add(&expr).ok_or_else(refused)?;
    let column = compiled.column.ok_or_else(refused)?;
    quote(&mut expr);
    Ok((column, ComputedSpec { text: expr.to_string(), steps: compiled.steps }))
}

/// Parses an expression over literals, and returns its whole number.
///
/// # Errors
/// 1235 for what is no such expression, or has no number.
pub fn constant(cursor: &mut Cursor<'_>) -> Result<String> {
    let expr = cursor.expr()?.0;
    let mut compiled = Compiled::default();
    let number = compiled.add(&expr).and_then(|()| Step::constant(&compiled.steps));
    match number {
        Some(number) => Ok(number.to_string()),
        None => Err(refuse(&format!("'{expr}' as a value of a partition"))),
    }
}

/// Whether the number of an expression is that of its column: `(a)`, `a + 0`, `1 * a`.
pub fn is_column(steps: &[Step]) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Known {
        Column,
        Number(i64),
        Other,
    }
    use Known::{Column, Number, Other};
    let mut stack = Vec::new();
    for step in steps {
        let known = match step {
            Step::Value => Column,
            Step::Number(number) => Number(*number),
            Step::Part(_) => Other,
            Step::Negate | Step::Absolute => {
                stack.pop();
                Other
            }
            Step::Add | Step::Subtract | Step::Multiply | Step::Divide | Step::Modulo => {
                let right = stack.pop();
                match (stack.pop(), step, right) {
                    (Some(Column), Step::Add | Step::Subtract, Some(Number(0)))
                    | (Some(Column), Step::Multiply | Step::Divide, Some(Number(1)))
                    | (Some(Number(0)), Step::Add, Some(Column))
                    | (Some(Number(1)), Step::Multiply, Some(Column)) => Column,
                    _ => Other,
                }
            }
        };
        stack.push(known);
    }
    stack == [Column]
}

pub fn refused() -> Error {
    refuse(
        "PARTITION BY an expression but a whole number of one column, by +, -, *, DIV, MOD, ABS, \
         RIGHT_SHIFT, FLOOR, CEILING, DATEDIFF, EXTRACT, YEAR, QUARTER, MONTH, DAY, DAYOFMONTH, \
         DAYOFYEAR, DAYOFWEEK, WEEKDAY, TO_DAYS, TO_SECONDS, HOUR, MINUTE, SECOND and MICROSECOND",
    )
}

/// Writes columns in backquotes and functions in small letters, as MySQL shows them.
fn quote(expr: &mut Expr) {
    let _ = visit_expressions_mut(expr, |part| {
        match part {
            Expr::Identifier(name) => name.quote_style = Some('`'),
            Expr::Function(function) => {
                for name in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(name) = name {
                        name.value.make_ascii_lowercase();
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

/// What is known of an expression up to here.
#[derive(Default)]
struct Compiled {
    column: Option<String>,
    steps: Vec<Step>,
}

impl Compiled {
    /// Adds the steps of an expression; `None` if it is none that can divide.
    fn add(&mut self, expr: &Expr) -> Option<()> {
        match expr {
            Expr::Nested(inner) => return self.add(inner),
            Expr::Identifier(name) => {
                self.of(name)?;
                self.steps.push(Step::Value);
            }
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => self.steps.push(Step::Number(digits.parse().ok()?)),
                _ => return None,
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                self.add(expr)?;
                self.steps.push(Step::Negate);
            }
            Expr::BinaryOp { left, op, right } => {
                let step = match op {
                    BinaryOperator::Plus => Step::Add,
                    BinaryOperator::Minus => Step::Subtract,
                    BinaryOperator::Multiply => Step::Multiply,
                    BinaryOperator::MyIntegerDivide => Step::Divide,
                    BinaryOperator::Modulo => Step::Modulo,
                    _ => return None,
                };
                self.two(left, right, step)?;
            }
            // Whole numbers are what they are.
            Expr::Floor { expr, .. } | Expr::Ceil { expr, .. } => return self.add(expr),
            Expr::Extract { field, expr, .. } => self.extract(field, expr)?,
            Expr::Function(function) => self.function(function)?,
            _ => return None,
        }
        Some(())
    }

    fn two(&mut self, left: &Expr, right: &Expr, step: Step) -> Option<()> {
        self.add(left)?;
        self.add(right)?;
        self.steps.push(step);
        Some(())
    }

    fn function(&mut self, function: &Function) -> Option<()> {
        let [name] = &function.name.0[..] else { return None };
        let name = name.as_ident()?.value.to_ascii_lowercase();
        let arguments = arguments(function)?;
        match (&*name, &arguments[..]) {
            ("abs", [one]) => {
                self.add(one)?;
                self.steps.push(Step::Absolute);
            }
            ("floor" | "ceiling" | "ceil", [one]) => self.add(one)?,
            ("mod", [left, right]) => self.two(left, right, Step::Modulo)?,
            ("right_shift", [left, Expr::Value(value)]) => {
                let Value::Number(bits, _) = &value.value else { return None };
                let bits = bits.parse::<u32>().ok().filter(|bits| *bits < 63)?;
                self.add(left)?;
                self.steps.extend([Step::Number(1 << bits), Step::Divide]);
            }
            ("datediff", [left, right]) => {
                self.part(DatePart::ToDays, left)?;
                self.part(DatePart::ToDays, right)?;
                self.steps.push(Step::Subtract);
            }
            (_, [one]) => self.part(DatePart::parse(&name)?, one)?,
            _ => return None,
        }
        Some(())
    }

    fn extract(&mut self, field: &DateTimeField, expr: &Expr) -> Option<()> {
        let name = field.to_string();
        if !name.eq_ignore_ascii_case("YEAR_MONTH") {
            return self.part(DatePart::parse(&name)?, expr);
        }
        self.part(DatePart::Year, expr)?;
        self.steps.extend([Step::Number(100), Step::Multiply]);
        self.part(DatePart::Month, expr)?;
        self.steps.push(Step::Add);
        Some(())
    }

    /// The part of a time, which is the column or a literal.
    fn part(&mut self, part: DatePart, expr: &Expr) -> Option<()> {
        if let Expr::Value(value) = expr {
            let Value::SingleQuotedString(text) = &value.value else { return None };
            let at = parse(text.as_bytes())?;
            self.steps.push(Step::Number(part.number(at.days, at.micros)));
            return Some(());
        }
        let Expr::Identifier(name) = expr else { return None };
        self.of(name)?;
        self.steps.push(Step::Part(part));
        Some(())
    }

    /// Notes the column; `None` if there is another one.
    fn of(&mut self, name: &Ident) -> Option<()> {
        let known = self.column.get_or_insert_with(|| name.value.clone());
        known.eq_ignore_ascii_case(&name.value).then_some(())
    }
}

/// The arguments of a function without anything else.
fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    list.args.iter().map(argument).collect()
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use freshet_meta::PartitionBySpec;

    use super::*;
    use crate::parser::{Statement, parse};
    use crate::session::SqlMode;

    fn clause(by: &str) -> Result<PartitionBySpec> {
        let sql = format!(
            "CREATE TABLE t (a INT, d DATE) PARTITION BY LIST ({by}) (PARTITION p VALUES IN (1))"
        );
        match parse(&sql, SqlMode::default())?.remove(0).statement {
            Statement::CreateTable(create) => Ok(create.spec.partition_by.expect("it is divided")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn expressions_become_steps() {
        use Step::{
            Absolute, Add, Divide, Modulo, Multiply, Negate, Number, Part, Subtract, Value,
        };
        for (text, column, shown, steps) in [
            ("a % 4", "a", "`a` % 4", &[Value, Number(4), Modulo][..]),
            ("MOD(a, 4)", "a", "mod(`a`, 4)", &[Value, Number(4), Modulo]),
            ("a DIV 10 + 1", "a", "`a` DIV 10 + 1", &[Value, Number(10), Divide, Number(1), Add]),
            ("RIGHT_SHIFT(a, 3)", "a", "right_shift(`a`, 3)", &[Value, Number(8), Divide]),
            ("ABS(-`a`)", "a", "abs(-`a`)", &[Value, Negate, Absolute]),
            ("YEAR(D)", "D", "year(`D`)", &[Part(DatePart::Year)]),
            (
                "YEAR(d) * 100 + MONTH(d)",
                "d",
                "year(`d`) * 100 + month(`d`)",
                &[Part(DatePart::Year), Number(100), Multiply, Part(DatePart::Month), Add],
            ),
            (
                "DATEDIFF(d, '1970-01-02')",
                "d",
                "datediff(`d`, '1970-01-02')",
                &[Part(DatePart::ToDays), Number(719_529), Subtract],
            ),
        ] {
            let by = clause(text).unwrap();
            let computed = by.computed.unwrap();
            assert_eq!(by.columns, [column], "{text}");
            assert_eq!((&*computed.text, &*computed.steps), (shown, steps), "{text}");
        }
        assert_eq!(clause("a").unwrap().computed, None);
    }

    #[test]
    fn a_column_in_other_words_is_told() {
        for text in ["(a)", "a + 0", "0 + (a - 0)", "a * 1 DIV 1", "FLOOR(1 * a)"] {
            let by = clause(text).unwrap();
            assert_eq!((by.columns, by.computed), (vec!["a".to_owned()], None), "{text}");
        }
        for text in ["-a", "ABS(a)", "0 - a", "a % 1", "a + a", "a * 0", "1 DIV a", "YEAR(d)"] {
            let computed = clause(text).unwrap().computed.unwrap();
            assert!(!is_column(&computed.steps), "{text}");
        }
    }

    #[test]
    fn what_divides_nothing_is_refused_by_name() {
        for text in [
            "a + d",
            "1",
            "a / 2",
            "RAND()",
            "LENGTH(a)",
            "RIGHT_SHIFT(a, 63)",
            "YEAR(a + 1)",
            "a + NULL",
        ] {
            assert_eq!(clause(text).unwrap_err().code().errno(), 1235, "{text}");
        }
    }
}
