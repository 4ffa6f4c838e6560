//! Divisions that refuse a divisor of zero, as strict INSERTs want them.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName, VisitMut, visit_expressions_mut};

use super::values::{call, take};

/// Makes every division inside of `tree` one that refuses a divisor of zero (1365).
pub fn refusing_zero<T: VisitMut>(tree: &mut T) {
    let _ = visit_expressions_mut(tree, |expr| {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                let name = match op {
                    BinaryOperator::Divide => "mysql_divide_strict",
                    BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide => {
                        "mysql_div_strict"
                    }
                    BinaryOperator::Modulo => "mysql_mod_strict",
                    _ => return ControlFlow::<()>::Continue(()),
                };
                *expr = call(name, vec![take(left), take(right)]);
            }
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("mod") => {
                function.name = ObjectName::from(vec![Ident::new("mysql_mod_strict")]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
}
