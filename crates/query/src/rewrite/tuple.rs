//! Rows of values, `(a, b)`, which are compared component by component.

use freshet_base::{Result, bail, err};
use sqlparser::ast::{BinaryOperator, Expr};

use super::values::{binary, not};

/// `(a, b) = (c, d)`.
///
/// # Errors
/// When they do not have the same number of components, or none.
pub fn equal(left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
    if left.len() != right.len() {
        bail!(OperandColumns, "Operand should contain {} column(s)", left.len());
    }
    let pairs = left.into_iter().zip(right);
    let equal = pairs.map(|(left, right)| binary(left, BinaryOperator::Eq, right));
    let all = equal.reduce(|all, next| binary(all, BinaryOperator::And, next));
    all.ok_or_else(|| err!(OperandColumns, "Operand should contain 1 column(s)"))
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
