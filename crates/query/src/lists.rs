//! Keeps lists of values apart while expressions are simplified.
//!
//! DataFusion makes one list of two that are compared with the same value: `a IN (1, 2) AND
//! a IN (3, 4)` becomes false, though it is NULL where `a` is, and of `a IN (?, ?) AND a IN (?)` it
//! compares placeholders before they have values. A list with NULL loses it in the same way. So in
//! an expression with several lists each goes into an identity function until it is simplified.
//! `a = 1 OR a = 2` counts as a list, since it becomes one.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The plan in which no two lists stand beside each other.
///
/// # Errors
/// When expressions cannot be replaced.
pub fn kept_apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(|expr| match lists(&expr)? > 1 {
        true => expr.transform_up(|part| Ok(apart(part))),
        false => Ok(Transformed::no(expr)),
    })
}

/// The plan without what [`kept_apart`] has added.
///
/// # Errors
/// As [`kept_apart`].
pub fn together(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.map_expressions(|expr| {
        expr.transform_up(|part| match opened(part) {
            Ok(inner) => Ok(Transformed::yes(inner)),
            Err(part) => Ok(Transformed::no(part)),
        })
    });
    changed.map(|changed| changed.data)
}

/// How many lists an expression has; a chain of OR is one.
fn lists(expr: &Expr) -> Result<usize> {
    let mut count = 0;
    expr.apply(|part| {
        count += match part {
            // The operands of a chain are looked at by themselves.
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                usize::from(!is_or(left) && !is_or(right))
            }
            part => usize::from(is_list(part)),
        };
        Ok(match count > 1 {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(count)
}

fn is_or(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }))
}

/// Whether a value is compared with a list here; the function becomes `IN` when it is simplified.
fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::ScalarFunction(call) => call.func.name() == "mysql_in",
        _ => false,
    }
}

/// A list, its negation or a chain of OR in the identity function. Within a chain, lists that are
/// not negated stay as they are: these are joined rightly.
fn apart(part: Expr) -> Transformed<Expr> {
    let wrapped = |expr| Transformed::yes(APART.call(vec![expr]));
    match part {
        part if is_list(&part) => wrapped(part),
        Expr::Not(inner) => match opened(*inner) {
            Ok(inner) => wrapped(Expr::Not(Box::new(inner))),
            Err(inner) => Transformed::no(Expr::Not(Box::new(inner))),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: op @ Operator::Or, right }) => {
            let [left, right] = [left, right].map(|side| Box::new(positive(*side)));
            wrapped(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        other => Transformed::no(other),
    }
}

/// What stands in the identity function, if that is a list or a chain of OR.
fn positive(side: Expr) -> Expr {
    match opened(side) {
        Ok(Expr::InList(list)) if list.negated => APART.call(vec![Expr::InList(list)]),
        Ok(inner @ Expr::Not(_)) => APART.call(vec![inner]),
        Ok(inner) | Err(inner) => inner,
    }
}

/// The argument of the identity function; otherwise the expression itself.
fn opened(expr: Expr) -> std::result::Result<Expr, Expr> {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == NAME => {
            Ok(call.args.pop().expect("it has an argument"))
        }
        other => Err(other),
    }
}

const NAME: &str = "mysql_apart";

static APART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Apart { signature }))
});

/// The identity function; its calls have the names of their arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart {
    signature: Signature,
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &'static str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!("the type of a list is that of its comparison")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(FieldRef::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
