//! Skipping parts of files that cannot hold a row that is wanted.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use freshet_base::ColumnId;
use freshet_schema::{ColumnType, TableSchema};
use freshet_storage::segment::{ColumnBounds, Containers, Prune};

use freshet_schema::Zone;

use crate::functions::in_set::SET_FROM;

/// A condition on the columns of a table, as files are asked about it.
pub struct Condition {
    predicate: PruningPredicate,
    /// The columns it looks at, by id, with the name they have in it.
    columns: Vec<(ColumnId, String)>,
    ids: Vec<ColumnId>,
}

impl Condition {
    /// The condition that `expr` is over a table with these columns; `None` where nothing can
    /// be said about files from it.
    pub fn new(
        expr: &Arc<dyn PhysicalExpr>,
        arrow: &SchemaRef,
        schema: &TableSchema,
        zone: Zone,
    ) -> Option<Self> {
        let builder = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(arrow))
            .with_max_in_list_size(SET_FROM);
        let predicate = builder.try_build(Arc::clone(expr)).ok()?;
        if predicate.always_true() {
            return None;
        }
        let columns = collect_columns(expr)
            .into_iter()
            .filter_map(|column| {
                let stored = &schema.columns[schema.position(column.name())?];
                // Bounds are in UTC, the condition in the session's zone.
                let moved = matches!(stored.ty, ColumnType::Timestamp { .. }) && zone != Zone::UTC;
                (!moved).then(|| (stored.id, column.name().to_owned()))
            })
            .collect::<Vec<_>>();
        if columns.is_empty() {
            return None;
        }
        let ids = columns.iter().map(|(id, _)| *id).collect();
        Some(Self { predicate, columns, ids })
    }
}

impl Prune for Condition {
    fn columns(&self) -> &[ColumnId] {
        &self.ids
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let asked = Asked { condition: self, containers };
        self.predicate.prune(&asked).unwrap_or_else(|_| vec![true; containers.rows.len()])
    }
}

struct Asked<'a> {
    condition: &'a Condition,
    containers: &'a Containers,
}

impl Asked<'_> {
    fn bounds(&self, column: &Column) -> Option<&ColumnBounds> {
        let (id, _) = self.condition.columns.iter().find(|(_, name)| *name == column.name)?;
        self.containers.column(*id)
    }
}

impl PruningStatistics for Asked<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| without_zone(&bounds.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| without_zone(&bounds.max))
    }

    fn num_containers(&self) -> usize {
        self.containers.rows.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| Arc::new(bounds.null_counts.clone()) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(self.containers.rows.clone())))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// TIMESTAMP is an instant in files and wall time in queries; the caller has seen to it that
/// the two are the same.
pub fn without_zone(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        arrow::datatypes::DataType::Timestamp(_, Some(_)) => {
            let values = array
                .as_any()
                .downcast_ref::<arrow::array::TimestampMicrosecondArray>()
                .expect("timestamps are stored in microseconds");
            Arc::new(values.clone().with_timezone_opt(None::<&str>))
        }
        _ => Arc::clone(array),
    }
}
