//! `WHERE d IS NULL` finds the zero dates of a column that is NOT NULL, as in MySQL: clients that
//! have no zero date show it as NULL, and look for it as that.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use freshet_schema::ColumnType;
use freshet_schema::row::{ZERO_DAY, ZERO_MICROS};

use crate::origin::{ColumnOrigin, flags};

/// A plan whose conditions find them.
///
/// # Errors
/// When the plan cannot be rewritten.
pub fn zero_dates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Filter(mut filter) => {
                let found = with_zeros(&filter.predicate, filter.input.schema());
                let changed = found.is_some();
                filter.predicate = found.unwrap_or(filter.predicate);
                let node = LogicalPlan::Filter(filter);
                if changed { Transformed::yes(node) } else { Transformed::no(node) }
            }
            // What ON of an outer join does not find, it pairs with NULL: that stays NULL.
            LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner => {
                let condition = join.filter.as_ref();
                let found = condition.and_then(|condition| with_zeros(condition, &join.schema));
                let changed = found.is_some();
                join.filter = found.or(join.filter);
                let node = LogicalPlan::Join(join);
                if changed { Transformed::yes(node) } else { Transformed::no(node) }
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(plan.data)
}

/// The condition with what also finds zero dates; `None` if it asks no such column for NULL. What
/// is negated stays as it is: all rows have a value.
fn with_zeros(condition: &Expr, schema: &DFSchema) -> Option<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let found = (with_zeros(left, schema), with_zeros(right, schema));
            if let (None, None) = found {
                return None;
            }
            let left = found.0.map_or_else(|| left.clone(), Box::new);
            let right = found.1.map_or_else(|| right.clone(), Box::new);
            Some(Expr::BinaryExpr(BinaryExpr::new(left, *op, right)))
        }
        Expr::IsNull(column) => or_zero(condition, column, schema),
        Expr::ScalarFunction(call) if call.func.name() == "isnull" => {
            or_zero(condition, call.args.first()?, schema)
        }
        _ => None,
    }
}

fn or_zero(is_null: &Expr, column: &Expr, schema: &DFSchema) -> Option<Expr> {
    let zero = zero_of(column, schema)?;
    Some(is_null.clone().or(column.clone().eq(lit(zero))))
}

/// The zero date of a DATE or DATETIME that is NOT NULL.
fn zero_of(column: &Expr, schema: &DFSchema) -> Option<ScalarValue> {
    let Expr::Column(_) = column else { return None };
    let (_, field) = column.to_field(schema).ok()?;
    let is_temporal = matches!(field.data_type(), DataType::Date32 | DataType::Timestamp(..));
    let origin = ColumnOrigin::decode(&field).filter(|_| is_temporal)?;
    if origin.flags & flags::NOT_NULL == 0 {
        return None;
    }
    match origin.ty {
        ColumnType::Date => Some(ScalarValue::Date32(Some(ZERO_DAY))),
        ColumnType::DateTime { .. } => {
            Some(ScalarValue::TimestampMicrosecond(Some(ZERO_MICROS), None))
        }
        _ => None,
    }
}
