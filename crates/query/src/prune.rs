//! Pruning: skips parts of tables and files that cannot contain matching rows.

mod periods;
mod sets;
mod weighed;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, TimestampMicrosecondArray, UInt32Array,
    UInt64Array, new_empty_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as Named, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee, collect_columns};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use freshet_base::{ColumnId, TabletId};
use freshet_schema::{Column, Table, TableSchema, hash};
use freshet_storage::segment::{ColumnBounds, Containers, Prune};

use freshet_schema::Zone;

use crate::functions::in_set::SET_FROM;
use weighed::Weights;

/// A condition on table columns, to be checked against bounds.
pub struct Condition {
    predicate: PruningPredicate,
    /// Its columns: id, name in the condition, and type in files.
    columns: Vec<(ColumnId, String, DataType)>,
    /// Those whose weights it is on.
    weights: Vec<Weights>,
    ids: Vec<ColumnId>,
    /// The time zone of the session, to which times in the condition refer.
    zone: Zone,
}

impl Condition {
    /// A pruning condition from `expr` on these columns; `None` if bounds do not help.
    pub fn new(
        expr: &Arc<dyn PhysicalExpr>,
        arrow: &SchemaRef,
        schema: &TableSchema,
        zone: Zone,
    ) -> Option<Self> {
        let (named, weights, arrow) = weighed::named(expr, arrow);
        let builder =
            PruningPredicateBuilder::new().with_file_schema(arrow).with_max_in_list_size(SET_FROM);
        let predicate = builder.try_build(named).ok()?;
        if predicate.always_true() {
            return None;
        }
        let columns = collect_columns(expr)
            .into_iter()
            .filter_map(|column| {
                let stored = &schema.columns[schema.position(column.name())?];
                // Bounds of nested values are texts.
                (!stored.ty.is_nested()).then_some(())?;
                Some((stored.id, column.name().to_owned(), stored.ty.arrow()))
            })
            .collect::<Vec<_>>();
        if columns.is_empty() {
            return None;
        }
        let ids = columns.iter().map(|(id, ..)| *id).collect();
        Some(Self { predicate, columns, weights, ids, zone })
    }
}

impl Prune for Condition {
    fn columns(&self) -> &[ColumnId] {
        &self.ids
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let asked = ContainerStatistics { condition: self, containers };
        self.predicate.prune(&asked).unwrap_or_else(|_| vec![true; containers.rows.len()])
    }
}

struct ContainerStatistics<'a> {
    condition: &'a Condition,
    containers: &'a Containers,
}

impl ContainerStatistics<'_> {
    fn bounds(&self, name: &str) -> Option<&ColumnBounds> {
        let columns = &self.condition.columns;
        let (id, _, ty) = columns.iter().find(|(_, known, _)| known == name)?;
        // Those of files from before a change of the type may be ordered otherwise.
        self.containers.column(*id).filter(|bounds| bounds.min.data_type() == ty)
    }

    fn ends(&self, column: &Named, upper: bool) -> Option<ArrayRef> {
        if let Some(weights) = self.condition.weights_of(column) {
            return weighed::ends(weights.collation, self.bounds(&weights.of)?, upper);
        }
        let bounds = self.bounds(&column.name)?;
        Some(match upper {
            true => self.condition.wall_time(&bounds.max, OFFSET_MAX),
            false => self.condition.wall_time(&bounds.min, -OFFSET_MAX),
        })
    }
}

impl PruningStatistics for ContainerStatistics<'_> {
    fn min_values(&self, column: &Named) -> Option<ArrayRef> {
        self.ends(column, false)
    }

    fn max_values(&self, column: &Named) -> Option<ArrayRef> {
        self.ends(column, true)
    }

    fn num_containers(&self) -> usize {
        self.containers.rows.len()
    }

    fn null_counts(&self, column: &Named) -> Option<ArrayRef> {
        let name = self.condition.weights_of(column).map_or(&column.name, |weights| &weights.of);
        self.bounds(name).map(|bounds| Arc::new(bounds.null_counts.clone()) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(self.containers.rows.clone())))
    }

    fn contained(&self, column: &Named, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        // Shorter lists are one comparison for each literal.
        if values.len() <= SET_FROM {
            return None;
        }
        sets::contained(values, &self.ends(column, false)?, &self.ends(column, true)?)
    }
}

/// No time zone was ever this many microseconds from UTC: the farthest were Manila and Juneau with
/// 16 hours, until they moved to the other side of the date line.
const OFFSET_MAX: i64 = 17 * 3_600 * 1_000_000;

impl Condition {
    /// Whose weights a column of the condition stands for, if it does.
    fn weights_of(&self, column: &Named) -> Option<&Weights> {
        self.weights.iter().find(|weights| weights.name == column.name)
    }

    /// Converts bounds of instants to bounds of local time. Local time is not monotonic when clocks
    /// are set back, so in a zone with a history bounds are widened by the largest offset.
    fn wall_time(&self, bounds: &ArrayRef, widened: i64) -> ArrayRef {
        let instants = bounds.as_primitive_opt::<TimestampMicrosecondType>();
        let (Some(instants), true) = (instants, self.zone != Zone::UTC) else {
            return without_zone(bounds);
        };
        if instants.timezone().is_none() {
            return Arc::clone(bounds);
        }
        let moved: TimestampMicrosecondArray = match self.zone {
            Zone::Offset(_) => instants.unary(|micros| self.zone.to_local(micros)),
            Zone::Named(_) => instants.unary(|micros: i64| micros.saturating_add(widened)),
        };
        Arc::new(moved)
    }
}

/// Maximum number of combinations of distribution column values to hash.
const COMBINATIONS_MAX: usize = 1024;

/// The tablets that may contain rows that satisfy a condition; `None` if it does not restrict all
/// distribution columns to few values, nor the moment by whose part rows are divided to a range.
pub fn tablets(
    said: &[LiteralGuarantee],
    prune: Option<&dyn Prune>,
    table: &Table,
    schema: &TableSchema,
    zone: Zone,
) -> Option<HashSet<TabletId>> {
    let ids = table.distribution.columns();
    if ids.is_empty() {
        return None;
    }
    let places = match said_rows(said, &ids, schema, zone) {
        Some((batch, of)) => {
            let places = hash::Places::new(&batch, &of, &table.distribution, 0);
            (0..batch.num_rows()).filter_map(|row| places.place(row)).collect::<Vec<_>>()
        }
        None => {
            let (id, part) = table.distribution.part_alone()?;
            let column = &schema.columns[schema.position_of(id)?];
            let numbers = periods::numbers(prune?, column, part)?;
            numbers.into_iter().map(hash::Place::Number).collect()
        }
    };
    let mut tablets = HashSet::new();
    for partition in &table.partitions {
        let bucket = |place: &hash::Place| place.bucket(partition.buckets()) as usize;
        tablets.extend(places.iter().map(|place| partition.tablets[bucket(place)]));
    }
    Some(tablets)
}

/// All combinations of values to which a condition restricts some columns, as rows of these
/// columns; `None` if it does not restrict each of them to few values.
pub fn said_rows(
    said: &[LiteralGuarantee],
    ids: &[ColumnId],
    schema: &TableSchema,
    zone: Zone,
) -> Option<(RecordBatch, TableSchema)> {
    let mut values = Vec::new();
    for id in ids {
        let column = &schema.columns[schema.position_of(*id)?];
        values.push((column, said_values(said, column, zone)?));
    }
    let count = values.iter().try_fold(1, |count: usize, (_, of)| count.checked_mul(of.len()))?;
    if count > COMBINATIONS_MAX {
        return None;
    }
    let mut arrays = Vec::new();
    let mut repeat = count;
    for (column, values) in &values {
        // In the cross product the first column changes slowest.
        repeat /= values.len().max(1);
        let at = (0..count).map(|row| ((row / repeat.max(1)) % values.len()) as u32);
        let of = ScalarValue::iter_to_array(values.iter().cloned()).ok();
        let taken = match of {
            Some(of) => take(&of, &UInt32Array::from_iter_values(at), None).ok()?,
            None => new_empty_array(&column.ty.arrow()),
        };
        arrays.push(taken);
    }
    let columns = values.iter().map(|(column, _)| (*column).clone()).collect();
    let of = TableSchema::new(schema.version, columns, Vec::new());
    let fields = Schema::new(
        of.arrow()
            .fields()
            .iter()
            .zip(&arrays)
            .map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true))
            .collect::<Vec<_>>(),
    );
    let batch = RecordBatch::try_new(Arc::new(fields), arrays).ok()?;
    Some((batch, of))
}

/// The values to which a condition restricts a column, in their stored form.
fn said_values(said: &[LiteralGuarantee], column: &Column, zone: Zone) -> Option<Vec<ScalarValue>> {
    let name = column.name.to_lowercase();
    let is_of =
        |said: &&LiteralGuarantee| said.guarantee == Guarantee::In && said.column.name == name;
    let ty = match asked_type(column, zone)? {
        // -0 and 0 are equal but have different hashes.
        DataType::Float32 | DataType::Float64 => return None,
        other => other,
    };
    let values = said.iter().find(is_of)?.literals.iter();
    // NULL is never equal.
    let values = values.filter(|value| !value.is_null()).cloned().collect::<Vec<_>>();
    values.iter().all(|value| value.data_type() == ty).then_some(values)
}

/// The type of the values that stand for those of a column in a condition; `None` where they say
/// nothing of what is stored.
pub fn asked_type(column: &Column, zone: Zone) -> Option<DataType> {
    match column.ty.arrow() {
        // A local time may be two instants.
        DataType::Timestamp(_, Some(_)) if zone != Zone::UTC => None,
        DataType::Timestamp(unit, Some(_)) => Some(DataType::Timestamp(unit, None)),
        other => Some(other),
    }
}

/// Removes the time zone: a TIMESTAMP is an instant in files and local time in queries; the caller
/// ensures that both are the same.
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
