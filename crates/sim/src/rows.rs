//! Rows whose cells are computed from their id, so that torn or mixed-up rows are detected.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::Int64Type;
use freshet_base::{ColumnId, RowsetId, SchemaVersion};
use freshet_meta::{
    BucketsSpec, ColumnSpec, DeclaredKeySpec, DefaultSpec, DistributionSpec, KeyModelSpec, KeySpec,
    PartitionBySpec, PartitionSpec, TableSpec, ValueSpec, ValuesSpec,
};
use freshet_schema::key::KeyCodec;
use freshet_schema::{
    AutoPartition, Collation, Column, ColumnType, ColumnsBuilder, DeclaredKeyKind, DefaultValue,
    PartitionMethod, TableForm, TableSchema,
};
use freshet_storage::hidden::HiddenKeys;
use freshet_storage::marks::DeadRows;
use freshet_storage::rowset::Slice;
use freshet_storage::segment::ScanRequest;
use freshet_storage::snapshot::TableSnapshot;

use crate::nested;

/// The value of an added column in earlier rows.
const ADDED_DEFAULT: i32 = 7;

/// A row as seen by a reader.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    /// Unique in the run.
    pub id: i64,
    /// Positive if credited, negative if debited.
    pub amount: i64,
    /// The other columns, by id.
    pub others: Vec<(ColumnId, Option<i32>)>,
}

/// What the rows of a load are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowKind {
    Plain,
    /// With negative amounts.
    Debit,
    /// Of a keyed table: versions of few keys.
    Version,
    /// Their keys have no row any more.
    Removal,
    /// Of a table without a unique key: one row with the number is removed.
    Gone,
}

/// Whether the version with this number deletes its key, in a table with a sequence column.
pub fn deletes(number: i64, schema: &TableSchema) -> bool {
    schema.sequence.is_some() && number % 6 == 0
}

/// The number of keys in keyed tables.
pub const KEYS: i64 = 150;

/// Puts versions in the place of those of their keys, in their order: the last one is its key's
/// row, or that with the greatest value in a sequence column.
pub fn replace(last: &mut BTreeMap<i64, Row>, versions: Vec<Row>, schema: &TableSchema) {
    for row in versions {
        if last.get(&row.id).is_none_or(|before| row.replaces(before, schema)) {
            last.insert(row.id, row);
        }
    }
}

impl Row {
    /// Whether it stays in the place of one that came before it.
    fn replaces(&self, before: &Self, schema: &TableSchema) -> bool {
        let rank = |row: &Self| {
            let by = |(id, _): &&(ColumnId, _)| Some(*id) == schema.sequence;
            row.others.iter().find(by).map(|(_, value)| *value)
        };
        rank(self) >= rank(before)
    }

    /// What decides about its partition, where its table is divided.
    pub fn divider(&self, kind: RowKind) -> i64 {
        match kind {
            RowKind::Plain | RowKind::Debit | RowKind::Gone => self.amount,
            RowKind::Version | RowKind::Removal => self.id,
        }
    }
}

impl RowKind {
    /// The first columns of the row with this number.
    fn head(self, number: i64) -> (i64, i64) {
        let amount = number * 31 % 1009;
        match self {
            Self::Plain | Self::Gone => (number, amount),
            Self::Debit => (number, -amount),
            Self::Version | Self::Removal => (number * 7919 % KEYS, number),
        }
    }
}

/// The key of the version with this number.
pub fn key_of(number: i64) -> i64 {
    RowKind::Version.head(number).0
}

/// The partitions of tables that are divided, and the values of [`Row::divider`] that each takes.
pub const PARTITIONS: [(&str, i64, i64); 3] =
    [("low", i64::MIN, 50), ("middle", 50, 100), ("high", 100, i64::MAX)];

/// Whether a table with this name is divided by the range of a column: of its key, or of `amount`
/// where it has none.
pub fn is_divided(name: &str) -> bool {
    matches!(name, "t2" | "k0" | "p1" | "divided")
        || name.starts_with("kd")
        || name.starts_with("pd")
}

/// The partition of [`PARTITIONS`] at this index, as in ADD PARTITION.
pub fn partition_spec(at: usize) -> PartitionSpec {
    let (name, from, to) = PARTITIONS[at];
    let bound = |value: i64| match value {
        i64::MAX => vec![ValueSpec::MaxValue],
        value => vec![ValueSpec::Literal(value.to_string())],
    };
    let values = ValuesSpec::Range(bound(from), bound(to));
    PartitionSpec { name: name.to_owned(), if_not_exists: false, values }
}

fn divided_by(name: &str) -> Option<PartitionBySpec> {
    if name.ends_with("auto") {
        return Some(PartitionBySpec {
            method: PartitionMethod::List,
            columns: vec!["id".to_owned()],
            function: None,
            computed: None,
            has_columns_word: false,
            auto: Some(AutoPartition::Value),
            partitions: Vec::new(),
        });
    }
    let is_keyed = name.starts_with(['k', 'p']);
    is_divided(name).then(|| PartitionBySpec {
        method: PartitionMethod::Range,
        columns: vec![if is_keyed { "id" } else { "amount" }.to_owned()],
        function: None,
        computed: None,
        has_columns_word: false,
        auto: None,
        partitions: (0..PARTITIONS.len()).map(partition_spec).collect(),
    })
}

/// A table whose keys are texts.
const COLLATED: &str = "p0";

fn text_key() -> ColumnSpec {
    let collation = Some(Collation::Utf8mb40900AiCi);
    ColumnSpec { collation, ..ColumnSpec::new("id", ColumnType::VarChar { len: 30 }) }
}

/// `name (id BIGINT, amount BIGINT, c0 INT, KEY(amount)) DUPLICATE KEY(id) .. BUCKETS 2`; `UNIQUE
/// KEY(id)` if the name begins with a k or an s, where c0 is the sequence column; `PRIMARY KEY(id),
/// UNIQUE(amount)` if it begins with a p, with an id of texts by collation if it is p0; some are
/// [divided](is_divided), by a column that UNIQUE then has; those whose names end with `auto` have
/// a partition for each id that a row has had; t1, s0 and p1 have an ARRAY, a MAP, a STRUCT and
/// a VARIANT as well.
pub fn table_spec(name: &str, properties: &[(&str, u64)]) -> TableSpec {
    let big = ColumnType::BigInt { unsigned: false };
    let pair = |(name, value): &(&str, u64)| ((*name).to_owned(), value.to_string());
    let mut columns =
        vec![ColumnSpec::new("id", big), ColumnSpec::new("amount", big), added_column("c0")];
    if nested::is_in(name) {
        columns.extend((1..=4).map(|at| added_column(&format!("c{at}"))));
    }
    let sequence = ("function_column.sequence_col".to_owned(), "c0".to_owned());
    let sequence = name.starts_with('s').then_some(sequence);
    let model = match name.starts_with(['k', 's']) {
        true => KeyModelSpec::Unique,
        false => KeyModelSpec::Duplicate,
    };
    let key = |kind, column: &str| DeclaredKeySpec {
        kind,
        name: None,
        columns: vec![column.to_owned()],
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    };
    let index = key(DeclaredKeyKind::Index, "amount");
    if name.starts_with('p') {
        let columns = match name {
            COLLATED => [vec![text_key()], columns[1..].to_vec()].concat(),
            _ => columns,
        };
        // Amounts are numbers of versions: no two rows have the same one.
        let (primary, unique) = (DeclaredKeyKind::Primary, DeclaredKeyKind::Unique);
        let value = if divided_by(name).is_some() { "id" } else { "amount" };
        return TableSpec {
            declared_keys: vec![key(primary, "id"), key(unique, value), index],
            partition_by: divided_by(name),
            buckets: BucketsSpec::Count(2),
            properties: properties.iter().map(pair).collect(),
            ..TableSpec::new(name, TableForm::MySql, columns)
        };
    }
    TableSpec {
        declared_keys: vec![index],
        key: Some(KeySpec { model, columns: vec!["id".to_owned()] }),
        partition_by: divided_by(name),
        distribution: Some(DistributionSpec::Hash(vec!["id".to_owned()])),
        buckets: BucketsSpec::Count(2),
        properties: properties.iter().map(pair).chain(sequence).collect(),
        ..TableSpec::new(name, TableForm::Olap, columns)
    }
}

/// The specification of a column for ALTER: the number in its name says of which type.
pub fn added_column(name: &str) -> ColumnSpec {
    let (ty, elements) = nested::type_of(name);
    let default = DefaultSpec::Value(DefaultValue::Literal(nested::shown(ty, ADDED_DEFAULT)));
    ColumnSpec { default, elements, ..ColumnSpec::new(name, ty) }
}

/// The same column with a type that holds more, if there is one.
pub fn widened(column: &Column) -> Option<ColumnSpec> {
    let ty = match column.ty {
        ColumnType::Int { .. } => ColumnType::BigInt { unsigned: false },
        ColumnType::BigInt { .. } => ColumnType::Text,
        _ => return None,
    };
    let default = column.default.clone().map_or(DefaultSpec::Unset, DefaultSpec::Value);
    let nullable = column.nullable;
    Some(ColumnSpec { default, nullable, ..ColumnSpec::new(&column.name, ty) })
}

fn cell(id: i64, column: ColumnId) -> Option<i32> {
    let mixed = (id * 7919 + i64::from(column.get()) * 104_729) % 1_000_003;
    // Some are NULL.
    (mixed % 11 != 0).then(|| i32::try_from(mixed).expect("below a million"))
}

/// Encodes rows with `schema`.
pub fn encode(ids: std::ops::Range<i64>, kind: RowKind, schema: &TableSchema, out: &mut Vec<u8>) {
    let heads = ids.clone().map(|id| kind.head(id));
    let columns = schema.columns.iter().enumerate().map(|(at, column)| -> ArrayRef {
        match at {
            0 => key_column(heads.clone(), schema),
            1 => Arc::new(Int64Array::from_iter_values(heads.clone().map(|(_, amount)| amount))),
            _ if Some(at) == schema.delete_sign() => {
                let sign = |id| i8::from(deletes(id, schema));
                Arc::new(Int8Array::from_iter_values(ids.clone().map(sign)))
            }
            _ => {
                let cells = ids.clone().map(|id| cell(id, column.id)).collect::<Int32Array>();
                nested::cells(column.ty, &cells)
            }
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns.collect());
    let batch = batch.expect("the columns are those of the schema");
    freshet_schema::encode(&batch, schema, out);
}

/// The column of keys: numbers, or texts of which those of one number are equal by their collation.
fn key_column(heads: impl Iterator<Item = (i64, i64)>, schema: &TableSchema) -> ArrayRef {
    match schema.columns[0].ty.is_text() {
        true => Arc::new(StringViewArray::from_iter_values(heads.map(key_text))),
        false => Arc::new(Int64Array::from_iter_values(heads.map(|(id, _)| id))),
    }
}

/// A key as a text, with an amount that decides how it is written.
fn key_text((key, amount): (i64, i64)) -> String {
    let start = ["key", "KEY", "k\u{e9}y", "Ke\u{301}Y"][amount.rem_euclid(4) as usize];
    format!("{start}{key}")
}

/// The cell of a key.
pub fn key_cell(key: i64, schema: &TableSchema) -> Vec<u8> {
    match schema.columns[0].ty.is_text() {
        true => key_text((key, key)).into_bytes(),
        false => key.to_le_bytes().to_vec(),
    }
}

/// The number of a key by which rows are sorted.
pub fn key_number(key: &[u8], schema: &TableSchema) -> i64 {
    let text = KeyCodec::of_sort_key(schema).text(schema, key).expect("a key of the table");
    text.parse().expect("keys of tables with a sequence column are numbers")
}

/// The numbers of keys.
fn key_numbers(column: &ArrayRef) -> Int64Array {
    let Some(texts) = column.as_string_view_opt() else {
        return column.as_primitive::<Int64Type>().clone();
    };
    let number = |text: &str| {
        let digits = text.trim_start_matches(|sign: char| !sign.is_ascii_digit());
        digits.parse::<i64>().expect("a key ends with its number")
    };
    texts.iter().map(|text| text.map(number)).collect()
}

/// Encodes a row as a reader has seen it, with the schema that it was read with.
pub fn encode_row(row: &Row, schema: &TableSchema) -> Vec<u8> {
    let columns = schema.columns.iter().enumerate().map(|(at, column)| -> ArrayRef {
        match at {
            0 => key_column(std::iter::once((row.id, row.amount)), schema),
            1 => Arc::new(Int64Array::from(vec![row.amount])),
            _ if Some(at) == schema.delete_sign() => Arc::new(Int8Array::from(vec![0])),
            _ => nested::cells(column.ty, &Int32Array::from(vec![row.others[at - 2].1])),
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns.collect());
    let mut encoded = Vec::new();
    let batch = batch.expect("the columns are those of the schema");
    freshet_schema::encode(&batch, schema, &mut encoded);
    encoded
}

/// Appends rows written with the schema `written` as a reader with `schema` must see them.
pub fn expect(
    (ids, kind): (std::ops::Range<i64>, RowKind),
    written: &TableSchema,
    schema: &TableSchema,
    out: &mut Vec<Row>,
) {
    let others = schema.shown()[2..].iter();
    let others = others
        .map(|column| (column.id, written.position_of(column.id).is_some()))
        .collect::<Vec<_>>();
    out.extend(ids.map(|id| {
        let cells = others.iter().map(|(column, is_written)| match is_written {
            true => (*column, cell(id, *column)),
            false => (*column, Some(ADDED_DEFAULT)),
        });
        let (id, amount) = kind.head(id);
        Row { id, amount, others: cells.collect() }
    }));
}

/// A row as an engine has encoded it.
pub fn decode(row: &[u8], schema: &TableSchema) -> Row {
    let mut rows = Vec::new();
    take(&ColumnsBuilder::batch_of(schema, row, 1), schema, &mut rows);
    rows.remove(0)
}

/// Rows of segments as they were read last, by rowset, number in it and schema version: files never
/// change, and reading all of them for each comparison would dominate the duration of a run.
#[derive(Default)]
pub struct FileRows(HashMap<(RowsetId, usize, SchemaVersion), SegmentRows>);

/// The rows of a segment that are alive, where these are dead.
struct SegmentRows {
    dead: DeadRows,
    rows: Vec<Row>,
}

impl FileRows {
    /// Adds what others knew of segments of which nothing is known here.
    pub fn keep(&mut self, others: Self) {
        for (key, rows) in others.0 {
            self.0.entry(key).or_insert(rows);
        }
    }

    /// Rows of a slice that is a whole segment; reads them unless they were read with the same dead
    /// rows before.
    fn of(
        &mut self,
        number: usize,
        slice: &Slice,
        schema: &TableSchema,
        request: &ScanRequest,
    ) -> Result<&[Row], freshet_storage::Error> {
        let key = (slice.rowset.meta().id, number, schema.version);
        let is_known = self.0.get(&key).is_some_and(|known| known.dead == slice.dead);
        if !is_known {
            let mut rows = Vec::new();
            for batch in slice.segment.scan(request, slice.share, &slice.dead)? {
                take(&batch?, schema, &mut rows);
            }
            self.0.insert(key, SegmentRows { dead: slice.dead.clone(), rows });
        }
        Ok(&self.0[&key].rows)
    }
}

/// All visible rows of a table, sorted.
///
/// # Errors
/// When a file cannot be read, for example because the disk fails.
pub fn read(snapshot: &TableSnapshot) -> Result<Vec<Row>, freshet_storage::Error> {
    read_with(snapshot, &mut FileRows::default())
}

/// Like [`read`], with rows of segments already read taken from `known`.
///
/// # Errors
/// Those of [`read`].
pub fn read_with(
    snapshot: &TableSnapshot,
    known: &mut FileRows,
) -> Result<Vec<Row>, freshet_storage::Error> {
    let request = ScanRequest::all(&snapshot.schema);
    let mut rows = Vec::new();
    for rowset in snapshot.rowsets() {
        for (number, slice) in rowset.slices(snapshot.horizon).enumerate() {
            rows.extend_from_slice(known.of(number, &slice, &snapshot.schema, &request)?);
        }
    }
    for batch in snapshot.delta_batches()? {
        take(&batch, &snapshot.schema, &mut rows);
    }
    rows.sort();
    Ok(rows)
}

fn take(batch: &RecordBatch, schema: &TableSchema, rows: &mut Vec<Row>) {
    let batch = &match HiddenKeys::deleted(schema) {
        Some(deleted) => deleted.seen(batch, deleted.columns()),
        None => batch.clone(),
    };
    let others = schema.shown().iter().zip(batch.columns()).skip(2);
    let ids = key_numbers(batch.column(0));
    let amounts = batch.column(1).as_primitive::<Int64Type>();
    let number =
        |(column, array): (&Column, &ArrayRef)| (column.id, nested::numbers(column.ty, array));
    let others = others.map(number).collect::<Vec<_>>();
    rows.extend((0..batch.num_rows()).map(|at| {
        let cells = others
            .iter()
            .map(|(column, array)| (*column, array.is_valid(at).then(|| array.value(at))));
        Row { id: ids.value(at), amount: amounts.value(at), others: cells.collect() }
    }));
}

/// Whether a file is missing that a snapshot reads.
pub fn is_missing(error: &freshet_storage::Error) -> bool {
    let missing = std::io::ErrorKind::NotFound;
    matches!(error, freshet_storage::Error::Io { source, .. } if source.kind() == missing)
}
