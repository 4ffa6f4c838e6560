//! Which rows of files the indexes of a table find for a condition (RFC 0020).

pub mod labelled;
pub mod weighed;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr, LikeExpr, Literal};
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::key::{KeyCodec, Keys, length_of};
use freshet_schema::{
    Column as StoredColumn, DeclaredKey, DeclaredKeyKind, Table, TableSchema, Zone,
};
use freshet_storage::Result;
use freshet_storage::rowset::Slice;
use freshet_storage::segment::{Probe, ValueRange, WaitMode};
use futures::future::join_all;

use crate::functions::like;
use crate::prune::asked_type;

/// An index is used where it finds at most one in so many rows of a segment: its rows are spread
/// over all pages otherwise, and to read these as a whole is faster.
const ROWS_PER_FOUND: u64 = 8;
/// Rows that a scan keeps numbers of, in all segments together; they take four bytes each.
const FOUND_MAX: usize = 1 << 20;
/// Combinations of values that are looked up for a condition on several columns.
const COMBINATIONS_MAX: usize = 1024;
/// Segments whose indexes are read at once.
const SEGMENTS_AT_ONCE: usize = 16;

/// What a condition says of a column: what does not satisfy it is NULL or false.
#[derive(Clone, PartialEq, Debug)]
enum Said {
    /// It has one of these values, which may be NULL.
    Values(Vec<ScalarValue>),
    /// It is not below the first and not above the second, where they are known.
    Between(Option<ScalarValue>, Option<ScalarValue>),
}

/// A key of a table, and what a condition says of its leading columns.
#[derive(Clone, Debug)]
struct AskedKey {
    name: String,
    columns: Vec<ColumnId>,
    /// Whether it sorts the rows.
    is_primary: bool,
    said: Vec<Said>,
}

/// What is asked of the files that were written in a schema: the keys, by their places among those
/// asked for, and the probe of each.
type Probes = HashMap<SchemaVersion, (Vec<usize>, Vec<Probe>)>;

/// The indexes of a table that a condition can go by.
pub struct AskedIndexes {
    keys: Vec<AskedKey>,
    /// The columns that queries see.
    schema: Arc<TableSchema>,
}

/// How the indexes of a table are used by a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexUse {
    /// The keys that the condition could go by.
    pub possible: Option<Arc<str>>,
    /// Those by which rows of segments were found.
    pub used: Option<Arc<str>>,
    /// Whether the condition names values, and not a range of them.
    pub by_values: bool,
    /// In how many segments they were, and of how many.
    segments: [usize; 2],
    /// The rows that were found.
    rows: u64,
}

impl fmt::Display for IndexUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(used) = &self.used else { return Ok(()) };
        let Self { segments: [by_index, all], rows, .. } = self;
        write!(f, ", index {used}: {rows} rows of {by_index} of {all} segments")
    }
}

impl AskedIndexes {
    /// The keys of a table that a condition on these columns, which guarantees these values, can go
    /// by; `None` if there are none.
    pub fn new(
        expr: &Arc<dyn PhysicalExpr>,
        guarantees: &[LiteralGuarantee],
        table: &Table,
        schema: &Arc<TableSchema>,
        zone: Zone,
    ) -> Option<Self> {
        let conditions = split_conjunction(expr);
        let mut keys = Vec::new();
        let is_visible = |key: &&DeclaredKey| key.kind != DeclaredKeyKind::InvisibleIndex;
        // By what files know of its bytes, rows of another primary key are passed over anyway.
        let leads_by_weights = |key: &&DeclaredKey| {
            let leading = schema.position_of(key.columns[0]).map(|at| &schema.columns[at]);
            table.enforces(key) && leading.is_some_and(|column| column.key_collation().is_some())
        };
        let primary = table.primary_key().filter(leads_by_weights);
        for key in primary.into_iter().chain(table.index_keys().filter(is_visible)) {
            let is_primary = key.kind == DeclaredKeyKind::Primary;
            let mut said = Vec::new();
            for id in &key.columns {
                let Some(at) = schema.position_of(*id) else { break };
                // First characters tell whether rows have one value, and not which.
                if length_of(*id, &schema.columns).is_some() {
                    break;
                }
                let of = of_column(guarantees, &conditions, &schema.columns[at], zone);
                let Some(of) = of else { break };
                let is_last = matches!(of, Said::Between(..));
                said.push(of);
                if is_last {
                    break;
                }
            }
            if !said.is_empty() && combinations(&said) <= COMBINATIONS_MAX {
                let (name, columns) = (key.name.clone(), key.columns.clone());
                keys.push(AskedKey { name, columns, is_primary, said });
            }
        }
        (!keys.is_empty()).then(|| Self { keys, schema: Arc::clone(schema) })
    }

    /// Looks the condition up in the indexes of these whole segments. Those in which few rows are
    /// found come back with these rows alone, or not at all if there are none; others stay.
    ///
    /// # Errors
    /// Those of reading an index.
    pub async fn find(&self, files: Vec<Slice>) -> Result<(Vec<Slice>, IndexUse)> {
        let names = |keys: &mut dyn Iterator<Item = &AskedKey>| {
            keys.map(|key| key.name.as_str()).collect::<Vec<_>>().join(",").into()
        };
        let mut found = IndexUse {
            possible: Some(names(&mut self.keys.iter())),
            segments: [0, files.len()],
            ..IndexUse::default()
        };
        let probes = self.probes(&files);
        let mut is_used = vec![false; self.keys.len()];
        let mut slices = Vec::with_capacity(files.len());
        for files in files.chunks(SEGMENTS_AT_ONCE) {
            let looked_up = files.iter().map(|slice| look_up(slice, &probes));
            for (slice, rows) in files.iter().zip(join_all(looked_up).await) {
                let fits = |rows: &Vec<u32>| found.rows as usize + rows.len() <= FOUND_MAX;
                let Some((key, rows)) = rows?.filter(|(_, rows)| fits(rows)) else {
                    slices.push(slice.clone());
                    continue;
                };
                is_used[key] = true;
                let slice = slice.clone().with_found(rows);
                found.segments[0] += 1;
                found.rows += slice.rows;
                if slice.rows > 0 {
                    slices.push(slice);
                }
            }
        }
        let used = || self.keys.iter().zip(&is_used).filter(|(_, used)| **used).map(|(key, _)| key);
        let is_range = |key: &AskedKey| matches!(key.said.last(), Some(Said::Between(..)));
        if used().next().is_some() {
            found.used = Some(names(&mut used()));
            found.by_values = !used().any(is_range);
        }
        Ok((slices, found))
    }

    /// The rows of the segment of a slice that are found by the best index, if these are few.
    ///
    /// # Errors
    /// Those of reading an index.
    pub async fn find_in(&self, slice: &Slice) -> Result<Option<Vec<u32>>> {
        let probes = self.probes(std::slice::from_ref(slice));
        Ok(look_up(slice, &probes).await?.map(|(_, rows)| rows))
    }

    /// What is asked of each index, in the bytes of the schema that each file was written in; keys
    /// that files of a schema cannot be looked up by are left out.
    fn probes(&self, files: &[Slice]) -> Probes {
        let mut probes = Probes::new();
        for slice in files {
            let written = slice.segment.schema();
            probes.entry(written.version).or_insert_with(|| {
                let keys = self.keys.iter().enumerate();
                keys.filter_map(|(at, key)| Some((at, key.probe(&self.schema, written)?))).unzip()
            });
        }
        probes
    }
}

/// The rows of a segment by the best of the probes, and the key that it is of.
async fn look_up(slice: &Slice, probes: &Probes) -> Result<Option<(usize, Vec<u32>)>> {
    let (keys, probes) = &probes[&slice.segment.schema().version];
    let rows_max = (slice.segment.meta().rows / ROWS_PER_FOUND).max(1) as usize;
    let found = slice.segment.rows_by_index(probes, rows_max, WaitMode::Awaiting).await?;
    Ok(found.map(|(at, rows)| (keys[at], rows)))
}

impl AskedKey {
    /// What it asks of files with the columns `written`, where queries see those of `seen`; `None`
    /// if the columns have other types.
    fn probe(&self, seen: &TableSchema, written: &TableSchema) -> Option<Probe> {
        let mut columns = Vec::new();
        for id in &self.columns[..self.said.len()] {
            let column = &written.columns[written.position_of(*id)?];
            let now = &seen.columns[seen.position_of(*id)?];
            if column.ty != now.ty || column.key_collation() != now.key_collation() {
                return None;
            }
            columns.push(column.clone());
        }
        // Without NULL where the column had none when the file was written.
        let values = self.said.iter().zip(&columns).filter_map(|(said, column)| match said {
            Said::Values(values) => {
                let is_there = |value: &&ScalarValue| column.nullable || !value.is_null();
                Some(values.iter().filter(is_there).cloned().collect::<Vec<_>>())
            }
            Said::Between(..) => None,
        });
        let values = values.collect::<Vec<_>>();
        let version = written.version;
        let encode = |last: Option<&ScalarValue>| -> Option<Vec<Vec<u8>>> {
            let mut values = values.clone();
            values.extend(last.map(|last| vec![last.clone()]));
            let columns = columns[..values.len()].to_vec();
            encoded(TableSchema::new(version, columns, Vec::new()), &values)
        };
        let ranges = match self.said.last()? {
            Said::Values(_) => {
                let values = encode(None)?;
                values
                    .into_iter()
                    .map(|value| ValueRange { from: value.clone(), to: value })
                    .collect()
            }
            Said::Between(from, to) => {
                let nullable = columns.last()?.nullable;
                let above_null = |mut value: Vec<u8>| {
                    value.extend(nullable.then_some(KeyCodec::VALUE));
                    value
                };
                let froms = match from {
                    Some(from) => encode(Some(from))?,
                    None => encode(None)?.into_iter().map(above_null).collect(),
                };
                let tos = match to {
                    Some(to) => encode(Some(to))?,
                    None => encode(None)?,
                };
                froms.into_iter().zip(tos).map(|(from, to)| ValueRange { from, to }).collect()
            }
        };
        Some(Probe { columns: (!self.is_primary).then(|| self.columns.clone()), ranges })
    }
}

fn combinations(said: &[Said]) -> usize {
    let count = |said: &Said| match said {
        Said::Values(values) => values.len(),
        Said::Between(..) => 1,
    };
    said.iter().map(count).fold(1, usize::saturating_mul)
}

/// The bytes of all combinations of these values of the columns of `schema`, as indexes have them;
/// `None` if a value is none of its column.
fn encoded(schema: TableSchema, values: &[Vec<ScalarValue>]) -> Option<Vec<Vec<u8>>> {
    if values.is_empty() {
        return Some(vec![Vec::new()]);
    }
    let count = values.iter().map(Vec::len).product::<usize>();
    if count == 0 {
        return Some(Vec::new());
    }
    let mut repeat = count;
    let mut arrays = Vec::<ArrayRef>::new();
    for (column, values) in schema.columns.iter().zip(values) {
        // In the cross product the first column changes slowest.
        repeat /= values.len();
        let of_row = (0..count).map(|row| values[(row / repeat) % values.len()].clone());
        let array = ScalarValue::iter_to_array(of_row).ok()?;
        arrays.push(cast(&array, &column.ty.arrow()).ok()?);
    }
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), arrays).ok()?;
    let ids = schema.columns.iter().map(|column| column.id).collect::<Vec<_>>();
    let keys = Keys::of_weighed_index(&batch, &schema, &ids)?;
    Some((0..keys.len()).map(|row| keys.key(row).to_vec()).collect())
}

/// What a condition says of a column; `None` if it leaves it open.
fn of_column(
    guarantees: &[LiteralGuarantee],
    conditions: &[&Arc<dyn PhysicalExpr>],
    column: &StoredColumn,
    zone: Zone,
) -> Option<Said> {
    if column.key_collation().is_some() {
        return weighed::of_column(guarantees, conditions, column);
    }
    let name = column.name.to_lowercase();
    let ty = asked_type(column, zone)?;
    let is_of = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>().is_some_and(|found| found.name() == name)
    };
    let is_of_type = |value: &ScalarValue| value.data_type() == ty;
    let named =
        guarantees.iter().find(|said| said.guarantee == Guarantee::In && said.column.name == name);
    if let Some(named) = named {
        // NULL is never equal.
        let values = named.literals.iter().filter(|value| !value.is_null());
        let values = values.cloned().collect::<Vec<_>>();
        return values.iter().all(is_of_type).then_some(Said::Values(values));
    }
    let asks_null = |expr: &&Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<IsNullExpr>().is_some_and(|expr| is_of(expr.arg()))
    };
    if conditions.iter().any(asks_null) {
        return Some(Said::Values(vec![ScalarValue::try_from(&ty).ok()?]));
    }
    let (mut from, mut to) = (None, None);
    for (op, value) in conditions.iter().filter_map(|expr| comparison(expr, &is_of)) {
        if !is_of_type(value) || value.is_null() {
            continue;
        }
        match op {
            Operator::Gt | Operator::GtEq => narrow(&mut from, value, PartialOrd::gt),
            Operator::Lt | Operator::LtEq => narrow(&mut to, value, PartialOrd::lt),
            _ => {}
        }
    }
    for beginning in conditions.iter().filter_map(|expr| beginning(expr, &is_of)) {
        let text = |text: String| ScalarValue::Utf8View(Some(text));
        let (least, above) = (text(beginning.clone()), like::above(&beginning).map(text));
        if is_of_type(&least) && !beginning.is_empty() {
            narrow(&mut from, &least, PartialOrd::gt);
            above.iter().for_each(|above| narrow(&mut to, above, PartialOrd::lt));
        }
    }
    (from.is_some() || to.is_some()).then_some(Said::Between(from, to))
}

/// What all texts of a column begin with that a LIKE accepts.
fn beginning(
    expr: &Arc<dyn PhysicalExpr>,
    is_column: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<String> {
    let (text, pattern) = match expr.downcast_ref::<LikeExpr>() {
        Some(like) if like.negated() || like.case_insensitive() => return None,
        Some(like) => (like.expr(), like.pattern()),
        None => {
            let call = expr.downcast_ref::<ScalarFunctionExpr>();
            let call = call.filter(|call| call.name() == like::MYSQL_LIKE)?;
            let [text, pattern] = call.args() else { return None };
            (text, pattern)
        }
    };
    let pattern = pattern.downcast_ref::<Literal>().filter(|_| is_column(text))?;
    Some(like::beginning(pattern.value().try_as_str()??))
}

/// Takes over a bound that is narrower than the one known.
fn narrow(
    known: &mut Option<ScalarValue>,
    value: &ScalarValue,
    is_narrower: fn(&ScalarValue, &ScalarValue) -> bool,
) {
    if known.as_ref().is_none_or(|known| is_narrower(value, known)) {
        *known = Some(value.clone());
    }
}

/// The operator and the literal of a comparison of a column, as if the column stood first.
fn comparison<'a>(
    expr: &'a Arc<dyn PhysicalExpr>,
    is_column: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<(Operator, &'a ScalarValue)> {
    let expr = expr.downcast_ref::<BinaryExpr>()?;
    let literal = |expr: &'a Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Literal>()?.value());
    match (is_column(expr.left()), is_column(expr.right())) {
        (true, false) => Some((*expr.op(), literal(expr.right())?)),
        (false, true) => Some((expr.op().swap()?, literal(expr.left())?)),
        _ => None,
    }
}
