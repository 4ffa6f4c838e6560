//! What a query makes of the rows that a point read has found.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Decimal128Array, Int64Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema};
use bytes::Bytes;
use freshet_base::{Result, err};
use freshet_query::RecordBatch;
use freshet_query::result::{ResultColumn, ResultType};
use freshet_query::shown::displayed;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::key::KeyCodec;
use freshet_schema::{Column, RowCells, RowWriter, Table, TableSchema, Zone};

use super::plain::PlainColumns;
use super::text::{Items, PointText};
use super::{can_be_compared, int_of, named};

/// Texts up to this size are sorted and told apart here: their weights are within a key.
const SORTED_BYTES_MAX: usize = 240;

/// The result of a query.
pub enum Answer {
    Rows(Box<Projection>),
    Count,
    /// The sum of this column, which is of integers.
    Sum(usize),
}

/// Columns of the rows, in the order of others.
pub struct Projection {
    /// Where the columns of the result are in the table.
    places: Vec<usize>,
    /// The columns of the table that the result has.
    shown: TableSchema,
    /// By what they are sorted, and whether descending.
    order: Vec<(usize, KeyCodec, bool)>,
    /// By what they are told apart, if they are.
    distinct: Option<KeyCodec>,
    /// How rows are written without being columns first, where that is all there is to do.
    plain: Option<PlainColumns>,
}

impl Answer {
    /// The answer to a text whose result has these columns; `None` if it needs a plan.
    pub fn of(
        text: &PointText<'_>,
        (database, table): (&str, &Table),
        columns: &[ResultColumn],
    ) -> Option<Self> {
        let schema = table.schema();
        match text.items {
            Items::Count => text.order.is_empty().then_some(Self::Count),
            Items::Sum(name) => {
                let at = schema.position(named(name)?)?;
                let ty = schema.columns[at].ty;
                let is_exact = columns.first()?.ty == ResultType::Decimal;
                let is_plain = ty.is_integer() && can_be_compared(ty) && is_exact;
                (is_plain && text.order.is_empty()).then_some(Self::Sum(at))
            }
            Items::Columns | Items::DistinctColumns => {
                Projection::of(text, (database, table), columns).map(Box::new).map(Self::Rows)
            }
        }
    }

    /// How rows of the table are written as they are stored; `None` if they are a result only
    /// together, or as values.
    pub fn plain(&self) -> Option<&PlainColumns> {
        match self {
            Self::Rows(projection) => projection.plain.as_ref(),
            Self::Count | Self::Sum(_) => None,
        }
    }

    /// The result of rows of the table; `None` if it needs a plan.
    ///
    /// # Errors
    /// Stored values that cannot be read.
    pub fn batch(
        &self,
        schema: &TableSchema,
        rows: Vec<Bytes>,
        zone: Zone,
    ) -> Option<Result<RecordBatch>> {
        match self {
            Self::Rows(projection) => {
                let rows = projection.sorted(schema, rows)?;
                Some(projection.batch(schema, &rows, zone))
            }
            Self::Count => {
                let count = Int64Array::from(vec![rows.len() as i64]);
                Some(single(Arc::new(count)))
            }
            Self::Sum(at) => {
                let (ty, cells) = (schema.columns[*at].ty, RowCells::new(schema));
                let values = rows.iter().filter_map(|row| cells.encoded(row, *at));
                let values = values.map(|cell| int_of(ty, cell)).collect::<Option<Vec<_>>>()?;
                // The sum of 256 integers of 64 bits is within 128.
                let sum = (!values.is_empty()).then(|| values.iter().sum::<i128>());
                let sum = Decimal128Array::from(vec![sum]);
                let sum = sum.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0).ok()?;
                Some(single(Arc::new(sum)))
            }
        }
    }
}

fn single(value: arrow::array::ArrayRef) -> Result<RecordBatch> {
    let field = Field::new("value", DataType::clone(value.data_type()), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![value])
        .map_err(|error| err!(Internal, "a single value is no batch: {error}"))
}

impl Projection {
    fn of(
        text: &PointText<'_>,
        (database, table): (&str, &Table),
        columns: &[ResultColumn],
    ) -> Option<Self> {
        let schema = table.schema();
        let place = |column: &ResultColumn| {
            let is_own = column.org_table == table.name && column.database == database;
            let name = Some(&column.org_name).filter(|name| is_own && !name.is_empty())?;
            schema.columns.iter().position(|column| column.name == *name)
        };
        let places = columns.iter().map(place).collect::<Option<Vec<_>>>()?;
        let shown = places.iter().map(|&at| schema.columns[at].clone()).collect();
        let shown = TableSchema::new(schema.version, shown, Vec::new());
        let order = text.order.iter().map(|&(name, is_descending)| {
            let at = ordered(name, schema, (columns, &places))?;
            let column = is_sorted(&schema.columns[at]).then_some(schema.columns[at].id)?;
            Some((at, KeyCodec::of_index(schema, &[column])?, is_descending))
        });
        let order = order.collect::<Option<Vec<_>>>()?;
        let distinct = match text.items == Items::DistinctColumns {
            true => {
                let all = places.iter().map(|&at| &schema.columns[at]);
                let all = all.map(|column| is_sorted(column).then_some(column.id));
                Some(KeyCodec::of_index(schema, &all.collect::<Option<Vec<_>>>()?)?)
            }
            false => None,
        };
        let is_plain = order.is_empty() && distinct.is_none();
        let plain = is_plain.then(|| PlainColumns::of(schema, &places, columns)).flatten();
        Some(Self { places, shown, order, distinct, plain })
    }

    /// The rows of the result in their order; `None` where texts are long.
    fn sorted(&self, schema: &TableSchema, mut rows: Vec<Bytes>) -> Option<Vec<Bytes>> {
        if self.order.is_empty() && self.distinct.is_none() {
            return Some(rows);
        }
        let cells = RowCells::new(schema);
        let told_apart = self.distinct.iter().flat_map(|_| &self.places);
        let mut read = told_apart.chain(self.order.iter().map(|(at, ..)| at));
        let is_short = |at: &usize, row: &Bytes| {
            cells.encoded(row, *at).is_none_or(|cell| cell.len() <= SORTED_BYTES_MAX)
        };
        if !read.all(|at| rows.iter().all(|row| is_short(at, row))) {
            return None;
        }
        if let Some(codec) = &self.distinct {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(encoded(codec, row)));
        }
        let keys_of = |row: Bytes| {
            let keys = self.order.iter().map(|(_, codec, _)| encoded(codec, &row));
            (keys.collect::<Vec<_>>(), row)
        };
        let mut rows = rows.into_iter().map(keys_of).collect::<Vec<_>>();
        rows.sort_by(|(a, _), (b, _)| {
            let each = a.iter().zip(b).zip(&self.order);
            let each = each.map(|((a, b), (_, _, is_descending))| match is_descending {
                true => b.cmp(a),
                false => a.cmp(b),
            });
            each.fold(Ordering::Equal, Ordering::then)
        });
        Some(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The rows as the columns of the result.
    fn batch(&self, schema: &TableSchema, rows: &[Bytes], zone: Zone) -> Result<RecordBatch> {
        let (mut narrow, cells) = (Vec::new(), RowCells::new(schema));
        let mut writer = RowWriter::new(self.places.len(), &mut narrow);
        for row in rows {
            writer.begin_row();
            for &at in &self.places {
                match cells.encoded(row, at) {
                    Some(cell) => writer.put_encoded(cell),
                    None => writer.put_null(),
                }
            }
            writer.end_row();
        }
        let columns = ColumnsBuilder::batch_of(&self.shown, &narrow, rows.len());
        displayed(&columns, &self.shown, zone)
    }
}

fn encoded(codec: &KeyCodec, row: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    codec.put(row, &mut key);
    key
}

/// Whether values of the column are in the order of their keys.
fn is_sorted(column: &Column) -> bool {
    let has_weights = column.keyed_by_weights || column.collation.is_by_bytes();
    can_be_compared(column.ty) && (has_weights || !column.ty.is_text())
}

/// Where in the table the column is that a name of ORDER BY means: names of the result go first.
fn ordered(
    name: &[u8],
    schema: &TableSchema,
    (columns, places): (&[ResultColumn], &[usize]),
) -> Option<usize> {
    let name = named(name)?;
    let of_result = columns.iter().zip(places);
    let mut of_result =
        of_result.filter(|(column, _)| column.name.eq_ignore_ascii_case(name)).map(|(_, at)| *at);
    match of_result.next() {
        Some(first) => of_result.all(|at| at == first).then_some(first),
        None => schema.position(name),
    }
}
