//! Comparisons of texts with literals by a collation, for which no weights are written.
//!
//! `weights(c) < X'..'` is what rules look at: pruning, indexes, what is pushed down. Behind all of
//! them a filter compares each text with the weights of the literal itself; the first characters
//! mostly decide.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use freshet_schema::Collation;
use freshet_schema::collation::weights::Beginnings;
use freshet_schema::collation::{COLLATIONS, weights};

use crate::convert;
use crate::functions::collate::weights_name;

/// Lets filters compare texts as they are.
#[derive(Debug)]
pub struct CompareTexts;

impl PhysicalOptimizerRule for CompareTexts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(plan));
            };
            let changed = compared(Arc::clone(filter.predicate()))?;
            if !changed.transformed {
                return Ok(Transformed::no(plan));
            }
            let filter = FilterExecBuilder::from(filter).with_predicate(changed.data).build()?;
            Ok(Transformed::yes(Arc::new(filter) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "compare_texts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn compared(condition: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    condition.transform_up(|part| {
        Ok(match Comparison::of(&part) {
            Some(comparison) => Transformed::yes(Arc::new(comparison) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(part),
        })
    })
}

/// The text and the collation whose weights an expression is.
pub fn weighed(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, Collation)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [text] = call.args() else { return None };
    let is_it = |collation: &Collation| weights_name(*collation) == call.fun().name();
    Some((text, COLLATIONS.into_iter().find(is_it)?))
}

/// A text compared with a literal, of which only the weights are left.
#[derive(Debug, Eq)]
struct Comparison {
    text: Arc<dyn PhysicalExpr>,
    collation: Collation,
    op: Operator,
    weights: Vec<u8>,
}

impl Comparison {
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let (text, collation) = weighed(binary.left())?;
        let literal = binary.right().downcast_ref::<Literal>()?;
        let ScalarValue::BinaryView(Some(weights)) = literal.value() else { return None };
        let op = *binary.op();
        let is_one = matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
        );
        let (text, weights) = (Arc::clone(text), weights.clone());
        is_one.then_some(Self { text, collation, op, weights })
    }

    fn holds(&self, order: Ordering) -> bool {
        match self.op {
            Operator::Eq => order.is_eq(),
            Operator::NotEq => order.is_ne(),
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Gt => order.is_gt(),
            Operator::GtEq => order.is_ge(),
            _ => unreachable!("it is made of these"),
        }
    }
}

impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        self.text.eq(&other.text)
            && self.collation == other.collation
            && self.op == other.op
            && self.weights == other.weights
    }
}

impl Hash for Comparison {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.collation.hash(state);
        self.op.hash(state);
        self.weights.hash(state);
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) {} ", weights_name(self.collation), self.text, self.op)?;
        self.weights.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PhysicalExpr for Comparison {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.text.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.text.evaluate(batch)?.into_array(batch.num_rows())?;
        let texts = convert::text(&texts)?;
        let begins = Beginnings::new(self.collation, &self.weights);
        let (views, mut own) = (texts.views(), Vec::new());
        let holds = BooleanBuffer::collect_bool(texts.len(), |row| {
            // A view has the length, and the first four bytes behind it.
            let length = views[row] as u32;
            let begin = ((views[row] >> 32) as u32).to_le_bytes();
            let known = begins.compare(&begin[..length.min(4) as usize]);
            self.holds(known.unwrap_or_else(|| {
                let text = texts.value(row);
                weights::compare(self.collation, text, &self.weights, &mut own)
            }))
        });
        let holds = BooleanArray::new(holds, texts.nulls().cloned());
        Ok(ColumnarValue::Array(Arc::new(holds)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.text]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let text = children.pop().expect("it has one text");
        let weights = self.weights.clone();
        Ok(Arc::new(Self { text, collation: self.collation, op: self.op, weights }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringViewArray};
    use arrow::datatypes::Field;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{binary_expr, col, lit};
    use datafusion::prelude::SessionContext;
    use proptest::prelude::*;

    use super::*;
    use crate::functions::collate;

    const TEXT: &str = "[abAB \u{e4}\u{0}]{0,4}|[aAb]{0,16}|.{0,3}";

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    proptest! {
        #[test]
        fn texts_compare_as_their_weights(
            texts in prop::collection::vec(prop::option::of(TEXT), 1..20),
            literal in TEXT,
        ) {
            let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, true)]);
            let array: ArrayRef = Arc::new(texts.into_iter().collect::<StringViewArray>());
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
            let schema = DFSchema::try_from(schema).unwrap();
            let context = SessionContext::new();
            for collation in COLLATIONS {
                for op in OPERATORS {
                    let weights = |expr| collate::weights(collation, expr);
                    let slow = binary_expr(weights(col("c")), op, weights(lit(literal.as_str())));
                    let slow = context.create_physical_expr(slow, &schema).unwrap();
                    let fast = compared(Arc::clone(&slow)).unwrap();
                    prop_assert!(fast.transformed);
                    let [slow, fast] = [slow, fast.data].map(|expr| {
                        expr.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap()
                    });
                    prop_assert_eq!(&slow, &fast, "{:?} {}", collation, op);
                }
            }
        }
    }
}
