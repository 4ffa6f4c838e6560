//! Rows of values, `(a, b)`, which are compared component by component.

use freshet_base::{Result, bail, err};
use sqlparser::ast::{BinaryOperator, Expr};

use super::values::{binary, not};

/// How much deeper each component nests the comparison of rows by order.
const LEVELS: usize = 4;

/// `(a, b) = (c, d)`.
///
/// # Errors
/// When they do not have the same number of components, or none.
pub fn equal(left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
    check(&left, &right)?;
    let pairs = left.into_iter().zip(right);
    let equal = pairs.map(|(left, right)| binary(left, BinaryOperator::Eq, right));
    let all = equal.reduce(|all, next| binary(all, BinaryOperator::And, next));
    all.ok_or_else(|| err!(OperandColumns, "Operand should contain 1 column(s)"))
}

/// `(a, b) <=> (c, d)`.
///
/// # Errors
/// Those of [`equal`].
pub fn same(left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
    check(&left, &right)?;
    let pairs = left.into_iter().zip(right);
    let same = pairs.map(|(left, right)| binary(left, BinaryOperator::Spaceship, right));
    let all = same.reduce(|all, next| binary(all, BinaryOperator::And, next));
    all.ok_or_else(|| err!(OperandColumns, "Operand should contain 1 column(s)"))
}

/// `(a, b) < (c, d)` and its like: by the first components that differ.
///
/// # Errors
/// Those of [`equal`]; 1436 for rows whose comparison would be nested more than `depth_max` times.
pub fn ordered(
    left: Vec<Expr>,
    op: &BinaryOperator,
    right: Vec<Expr>,
    depth_max: usize,
) -> Result<Expr> {
    check(&left, &right)?;
    let most = (depth_max / LEVELS).max(1);
    if left.len() > most {
        bail!(
            TooDeep,
            "Thread stack overrun: rows of {} values are compared by order, at most {most} can be \
             (max_expression_depth is {depth_max}); compare by fewer columns",
            left.len()
        );
    }
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        _ => BinaryOperator::Gt,
    };
    let mut found = None;
    for (left, right) in left.into_iter().zip(right).rev() {
        found = Some(match found {
            None => binary(left, op.clone(), right),
            Some(rest) => {
                let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
                let behind = nested(binary(equal, BinaryOperator::And, rest));
                nested(binary(binary(left, strict.clone(), right), BinaryOperator::Or, behind))
            }
        });
    }
    found.ok_or_else(|| err!(OperandColumns, "Operand should contain 1 column(s)"))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn check(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() != right.len() {
        bail!(OperandColumns, "Operand should contain {} column(s)", left.len());
    }
    Ok(())
}

/// `(a, b) IN ((1, 2), (3, 4))`; `None` if the list is empty.
///
/// # Errors
/// Those of [`equal`], for each item.
pub fn in_list(tuple: &[Expr], list: &mut [Expr], negated: bool) -> Result<Option<Expr>> {
    let mut any = None;
    for item in list.iter_mut() {
        let Expr::Tuple(parts) = item else {
            bail!(OperandColumns, "Operand should contain {} column(s)", tuple.len());
        };
        let equal = equal(tuple.to_vec(), std::mem::take(parts))?;
        any = Some(match any {
            None => equal,
            Some(any) => binary(any, BinaryOperator::Or, equal),
        });
    }
    Ok(any.map(|any| if negated { not(any) } else { any }))
}
