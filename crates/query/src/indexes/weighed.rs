//! Conditions on the weights of texts, by which indexes have these texts (RFC 0025).
//!
//! In a condition by collation stand the weights of a column. They are given a name here, so that
//! what is known of conditions on columns is known of them, too.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{self, IsNullExpr};
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use freshet_schema::collation::weights;
use freshet_schema::key::{are_in_order, asked_text};
use freshet_schema::{Column as StoredColumn, TableSchema};

use super::{Said, comparison, narrow};
use crate::functions::collate::weights_name;
use crate::weighing;

/// Stands before the name of a column whose weights are asked for.
const WEIGHTS: &str = "#weights ";

/// The columns of a table with the weights by which keys have texts; `None` if there are none.
pub fn columns(schema: &TableSchema, arrow: &SchemaRef) -> Option<SchemaRef> {
    let weighed = schema.columns.iter().filter(|column| column.key_collation().is_some());
    let weighed = weighed
        .map(|column| Field::new(weights_of(column), DataType::BinaryView, true))
        .map(Arc::new)
        .collect::<Vec<_>>();
    let fields = || arrow.fields().iter().cloned().chain(weighed.iter().cloned());
    (!weighed.is_empty()).then(|| Arc::new(Schema::new(fields().collect::<Vec<_>>())))
}

fn weights_of(column: &StoredColumn) -> String {
    format!("{WEIGHTS}{}", column.name.to_lowercase())
}

/// A condition in which the weights of columns are [`columns`].
///
/// # Errors
/// None; those of walking an expression.
pub fn named(condition: Expr, schema: &TableSchema) -> Result<Expr> {
    let weights = |part: &Expr| -> Option<String> {
        let Expr::ScalarFunction(call) = part else { return None };
        let [Expr::Column(column)] = call.args.as_slice() else { return None };
        let column = &schema.columns[schema.position(&column.name)?];
        (call.func.name() == weights_name(column.key_collation()?)).then(|| weights_of(column))
    };
    let changed = condition.transform_down(|part| {
        Ok(match weights(&part) {
            Some(name) => Transformed::yes(Expr::Column(Column::from_name(name))),
            None => Transformed::no(part),
        })
    });
    Ok(changed?.data)
}

/// A planned condition in which the weights of columns are [`columns`].
pub fn named_in_plan(
    condition: Arc<dyn PhysicalExpr>,
    schema: &TableSchema,
) -> Arc<dyn PhysicalExpr> {
    let weights = |part: &Arc<dyn PhysicalExpr>| -> Option<String> {
        let (text, collation) = weighing::weighed(part)?;
        let named = text.downcast_ref::<expressions::Column>()?;
        let column = &schema.columns[schema.position(named.name())?];
        (column.key_collation() == Some(collation)).then(|| weights_of(column))
    };
    let changed = condition.transform_down(|part| {
        Ok(match weights(&part) {
            // What is said of it is found by its name.
            Some(name) => {
                let column = expressions::Column::new(&name, 0);
                Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(part),
        })
    });
    changed.data().expect("nothing that looks fails")
}

/// What a condition says of a column that keys have by weights, as the texts that stand for these.
pub(super) fn of_column(
    guarantees: &[LiteralGuarantee],
    conditions: &[&Arc<dyn PhysicalExpr>],
    column: &StoredColumn,
) -> Option<Said> {
    let collation = column.key_collation()?;
    let (name, of_weights) = (column.name.to_lowercase(), weights_of(column));
    let said = |name: &str| {
        let is_of =
            |said: &&LiteralGuarantee| said.guarantee == Guarantee::In && said.column.name == name;
        // NULL is never equal.
        let values = guarantees.iter().find(is_of)?.literals.iter();
        Some(values.filter(|value| !value.is_null()))
    };
    if let Some(values) = said(&of_weights) {
        return values.map(asked).collect::<Option<_>>().map(Said::Values);
    }
    if let Some(values) = said(&name) {
        // What is equal by bytes has equal weights.
        let values = values.map(|value| {
            let mut bytes = Vec::new();
            weights::put(collation, value.try_as_str()??, &mut bytes);
            Some(ScalarValue::Utf8View(Some(asked_text(bytes))))
        });
        return values.collect::<Option<_>>().map(Said::Values);
    }
    let is_named = |expr: &Arc<dyn PhysicalExpr>, name: &str| {
        expr.downcast_ref::<expressions::Column>().is_some_and(|found| found.name() == name)
    };
    let asks_null = |expr: &&Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<IsNullExpr>().is_some_and(|expr| is_named(expr.arg(), &name))
    };
    if conditions.iter().any(asks_null) {
        return Some(Said::Values(vec![ScalarValue::Utf8View(None)]));
    }
    let (mut from, mut to) = (None, None);
    let is_of = |expr: &Arc<dyn PhysicalExpr>| is_named(expr, &of_weights);
    for (op, value) in conditions.iter().filter_map(|expr| comparison(expr, &is_of)) {
        if !bytes_of(value).is_some_and(are_in_order) {
            continue;
        }
        match op {
            Operator::Gt | Operator::GtEq => narrow(&mut from, value, PartialOrd::gt),
            Operator::Lt | Operator::LtEq => narrow(&mut to, value, PartialOrd::lt),
            _ => {}
        }
    }
    let end = |end: Option<ScalarValue>| end.as_ref().and_then(asked);
    (from.is_some() || to.is_some()).then(|| Said::Between(end(from), end(to)))
}

fn bytes_of(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::BinaryView(bytes)
        | ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes) => bytes.as_deref(),
        _ => None,
    }
}

/// The text that stands for weights.
fn asked(weights: &ScalarValue) -> Option<ScalarValue> {
    Some(ScalarValue::Utf8View(Some(asked_text(bytes_of(weights)?.to_vec()))))
}
