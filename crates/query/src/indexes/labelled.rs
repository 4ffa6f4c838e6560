//! Conditions on the weights of ENUM columns.
//!
//! Files and keys have the texts of ENUM columns as they are, of which no two are equal by the
//! collation of their column. So the column is equal to weights where it is the text with these.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};
use freshet_schema::collation::weights;
use freshet_schema::{Column, ColumnType, TableSchema};

use crate::functions::collate::weights_name;

/// A condition in which ENUM columns are compared with their texts, where it says their weights.
///
/// # Errors
/// None; those of walking an expression.
pub fn named(condition: Expr, schema: &TableSchema) -> Result<Expr> {
    let is_weighed = |column: &Column| {
        matches!(column.ty, ColumnType::Enum { .. }) && !column.collation.is_by_bytes()
    };
    if !schema.columns.iter().any(is_weighed) {
        return Ok(condition);
    }
    let changed = condition.transform_down(|part| {
        Ok(match said(&part, schema) {
            Some(said) => Transformed::yes(said),
            None => Transformed::no(part),
        })
    });
    Ok(changed?.data)
}

fn said(part: &Expr, schema: &TableSchema) -> Option<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let (name, column, value) = match column_of(left, schema) {
                Some((name, column)) => (name, column, right),
                None => column_of(right, schema).map(|(name, column)| (name, column, left))?,
            };
            Some(name.clone().eq(label(column, value)?))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let (name, column) = column_of(expr, schema)?;
            let list = list.iter().map(|value| label(column, value)).collect::<Option<_>>()?;
            Some(name.clone().in_list(list, false))
        }
        _ => None,
    }
}

/// The ENUM column whose weights these are.
fn column_of<'a>(expr: &'a Expr, schema: &'a TableSchema) -> Option<(&'a Expr, &'a Column)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [name @ Expr::Column(found)] = call.args.as_slice() else { return None };
    let column = &schema.columns[schema.position(&found.name)?];
    let is_it = matches!(column.ty, ColumnType::Enum { .. })
        && call.func.name() == weights_name(column.collation);
    is_it.then_some((name, column))
}

/// The text of a column with these weights. What is none of its texts is stored as the empty one.
fn label(column: &Column, value: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::BinaryView(Some(wanted)), _) = value else { return None };
    let mut found = column.labels.iter().filter(|label| {
        let mut bytes = Vec::new();
        weights::put(column.collation, label, &mut bytes);
        bytes == *wanted && !wanted.is_empty()
    });
    let label = found.next()?;
    found.next().is_none().then(|| lit(ScalarValue::Utf8View(Some(label.clone()))))
}
