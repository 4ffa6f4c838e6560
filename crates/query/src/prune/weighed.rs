//! Conditions on the weights of texts: files know the bounds of the texts by bytes, which bound
//! their weights.
//!
//! The weights of a column are given a name here, so that a condition on them is one on a column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use freshet_schema::Collation;
use freshet_schema::collation::bounds;
use freshet_storage::segment::ColumnBounds;

use crate::functions::collate::weights_name;
use crate::weighing;

/// The weights of a column in a condition.
#[derive(Debug)]
pub struct Weights {
    /// As what column they stand in the condition.
    pub name: String,
    /// The column whose weights they are.
    pub of: String,
    pub collation: Collation,
}

/// A condition in which the weights of columns are columns, these, and the schema with them.
pub fn named(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> (Arc<dyn PhysicalExpr>, Vec<Weights>, SchemaRef) {
    let mut all: Vec<Weights> = Vec::new();
    let own = schema.fields().len();
    let changed = Arc::clone(expr).transform_down(|part| {
        let Some((of, collation)) = weighed(&part) else { return Ok(Transformed::no(part)) };
        let name = format!("#{} {of}", weights_name(collation));
        let at = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
            all.push(Weights { name: name.clone(), of, collation });
            all.len() - 1
        });
        Ok(Transformed::yes(Arc::new(Column::new(&name, own + at)) as Arc<dyn PhysicalExpr>))
    });
    let expr = changed.data().expect("nothing that looks fails");
    if all.is_empty() {
        return (expr, all, Arc::clone(schema));
    }
    let weights =
        all.iter().map(|weights| Arc::new(Field::new(&weights.name, DataType::BinaryView, true)));
    let fields = schema.fields().iter().cloned().chain(weights).collect::<Vec<_>>();
    (expr, all, Arc::new(Schema::new(fields)))
}

/// The column of whose texts, and the collation by which, an expression is the weights.
fn weighed(expr: &Arc<dyn PhysicalExpr>) -> Option<(String, Collation)> {
    let (text, collation) = weighing::weighed(expr)?;
    let column = text.downcast_ref::<Column>()?;
    Some((column.name().to_owned(), collation))
}

/// The lower or the upper ends of the weights of texts between these bounds.
pub fn ends(collation: Collation, of: &ColumnBounds, upper: bool) -> Option<ArrayRef> {
    let is_text = |array: &ArrayRef| *array.data_type() == DataType::Utf8View;
    if !is_text(&of.min) || !is_text(&of.max) {
        return None;
    }
    let pairs = of.min.as_string_view().iter().zip(of.max.as_string_view());
    let ends = pairs.map(|(least, greatest)| {
        let (lower, above) = bounds::of_weights(collation, least?, greatest?);
        Some(if upper { above } else { lower })
    });
    Some(Arc::new(ends.collect::<BinaryViewArray>()))
}
