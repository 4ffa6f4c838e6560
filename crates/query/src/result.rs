//! What a client is told of result columns, and cells as they are written to it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, DurationMicrosecondArray, Float32Array, Float64Array, Int64Array, RecordBatch,
    StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Field, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
    UInt64Type,
};
use datafusion::common::DFSchema;
use freshet_base::{Result, err};
use freshet_schema::{ColumnType, DeclaredKeyKind, Table, TableSchema};
use serde::{Deserialize, Serialize};

use crate::convert::{round_half_up, round_half_up_wide};
use crate::functions::meaning;
use crate::{convert, format};

/// Types of the MySQL protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ResultType {
    /// TINYINT.
    Tiny = 0x01,
    /// SMALLINT.
    Short = 0x02,
    /// INT.
    Long = 0x03,
    /// FLOAT.
    Float = 0x04,
    /// DOUBLE.
    Double = 0x05,
    /// NULL.
    Null = 0x06,
    /// TIMESTAMP.
    Timestamp = 0x07,
    /// BIGINT.
    LongLong = 0x08,
    /// MEDIUMINT.
    Int24 = 0x09,
    /// DATE.
    Date = 0x0a,
    /// TIME.
    Time = 0x0b,
    /// DATETIME.
    DateTime = 0x0c,
    /// JSON.
    Json = 0xf5,
    /// DECIMAL.
    Decimal = 0xf6,
    /// TEXT and BLOB.
    Blob = 0xfc,
    /// VARCHAR, VARBINARY and text of expressions.
    VarString = 0xfd,
    /// CHAR.
    String = 0xfe,
}

/// Flags of a result column.
pub mod flags {
    /// Takes no NULL.
    pub const NOT_NULL: u16 = 1;
    /// Of the primary key.
    pub const PRIMARY_KEY: u16 = 2;
    /// Of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// Of a key that is not unique.
    pub const MULTIPLE_KEY: u16 = 8;
    /// TEXT or BLOB.
    pub const BLOB: u16 = 16;
    /// Without sign.
    pub const UNSIGNED: u16 = 32;
    /// Compares by bytes.
    pub const BINARY: u16 = 128;
    /// A number.
    pub const NUMBER: u16 = 32_768;
}

/// Decimals of a number whose point is anywhere.
const ANY_DECIMALS: u8 = 31;
/// Digits that MySQL's DECIMAL has at most.
const DECIMAL_DIGITS_MAX: u8 = 65;
/// Length said of text whose length nobody knows.
const TEXT_LENGTH: u32 = 65_535;
/// Most bytes of a character.
const CHARACTER_BYTES: u32 = 4;

/// The database of the system's tables.
pub const SYSTEM: &str = "information_schema";

/// The column of a table that a result column is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Column, as created.
    pub column: String,
    /// Its type.
    pub ty: ColumnType,
    /// Its [`flags`] of keys and NULL.
    pub flags: u16,
}

impl Origin {
    /// Where it stands in the metadata of a field.
    pub const KEY: &'static str = "freshet";

    /// The origin that is column `at` of a table.
    pub fn of(database: &str, table: &Table, schema: &TableSchema, at: usize) -> Self {
        let column = &schema.columns[at];
        let mut set = if column.nullable { 0 } else { flags::NOT_NULL };
        for key in table.declared_keys.iter().filter(|key| key.columns.contains(&column.id)) {
            set |= match key.kind {
                DeclaredKeyKind::Primary => flags::PRIMARY_KEY,
                DeclaredKeyKind::Unique => flags::UNIQUE_KEY,
                DeclaredKeyKind::Index => flags::MULTIPLE_KEY,
            };
        }
        Self {
            database: database.to_owned(),
            table: table.name.clone(),
            column: column.name.clone(),
            ty: column.ty,
            flags: set,
        }
    }

    /// As the text of a field's metadata.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("names and types are JSON")
    }

    /// The origin that a field's metadata tells, if it tells one.
    pub fn decode(field: &Field) -> Option<Self> {
        serde_json::from_str(field.metadata().get(Self::KEY)?).ok()
    }
}

/// A result column as the protocol describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its name in its table, empty for expressions.
    pub org_name: String,
    /// The table as the query calls it.
    pub table: String,
    /// The table.
    pub org_table: String,
    /// The table's database.
    pub database: String,
    /// Its type.
    pub ty: ResultType,
    /// Length in bytes.
    pub length: u32,
    /// Digits behind the point or the second.
    pub decimals: u8,
    /// [`flags`].
    pub flags: u16,
    /// Whether it has no character set: numbers, dates, bytes.
    pub binary: bool,
    /// How many digits behind the point or the second every value shows; `None` where each shows
    /// those that it has.
    pub shown: Option<u8>,
}

impl ResultColumn {
    /// A column of text that is no column of a table.
    pub fn text(name: impl Into<String>) -> Self {
        described(name.into(), &DataType::Utf8View)
    }

    /// A column of integers that is no column of a table.
    pub fn integer(name: impl Into<String>) -> Self {
        described(name.into(), &DataType::Int64)
    }
}

/// The columns of a plan; `names` are those that were written.
pub fn columns(schema: &DFSchema, names: &[Option<String>]) -> Vec<ResultColumn> {
    // A wildcard stands for as many columns as the other items leave.
    let wildcards = names.iter().filter(|name| name.is_none()).count();
    let known = wildcards == 0 && names.len() == schema.fields().len();
    let head = names.iter().take_while(|name| name.is_some()).count();
    let tail = names.iter().rev().take_while(|name| name.is_some()).count();
    let count = schema.fields().len();
    schema
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            let written = if known || at < head {
                names.get(at)
            } else if wildcards > 0 && count - at <= tail {
                names.get(names.len() - (count - at))
            } else {
                None
            };
            let table = qualifier.map_or("", |qualifier| qualifier.table());
            column(field, table, called(schema, at), written.and_then(Option::as_deref))
        })
        .collect()
}

/// The name inside of a column that has the name of one before it.
pub fn copy_name(name: &str, copy: usize) -> String {
    format!("{name}#{copy}")
}

/// What a column is called that is perhaps a copy in name.
fn called(schema: &DFSchema, at: usize) -> &str {
    let name = schema.field(at).name();
    let mut before = schema.fields()[..at].iter();
    match name.rsplit_once('#') {
        Some((first, copy))
            if copy.parse::<usize>().is_ok() && before.any(|field| field.name() == first) =>
        {
            first
        }
        _ => name,
    }
}

fn column(field: &Field, table: &str, called: &str, written: Option<&str>) -> ResultColumn {
    let origin = Origin::decode(field).filter(|origin| same(&origin.ty.arrow(), field.data_type()));
    let name = match (&origin, written) {
        // Columns of the system's tables are called as they are, however they were written.
        (Some(origin), Some(written))
            if origin.database == SYSTEM && origin.column.eq_ignore_ascii_case(written) =>
        {
            origin.column.clone()
        }
        (_, Some(written)) => written.to_owned(),
        // A plain column is called as it was created.
        (Some(origin), None) if origin.column.eq_ignore_ascii_case(called) => origin.column.clone(),
        _ => called.to_owned(),
    };
    let Some(origin) = origin else { return computed(name, field) };
    let mut column = typed(name, origin.ty);
    column.flags |= origin.flags;
    column.table = if table.is_empty() { origin.table.clone() } else { table.to_owned() };
    column.org_table = origin.table;
    column.org_name = origin.column;
    column.database = origin.database;
    column
}

fn same(stored: &DataType, planned: &DataType) -> bool {
    match (stored, planned) {
        (DataType::Timestamp(_, _), DataType::Timestamp(_, _)) => true,
        (stored, planned) => stored == planned,
    }
}

fn plain(name: String, ty: ResultType, length: u32) -> ResultColumn {
    ResultColumn {
        name,
        org_name: String::new(),
        table: String::new(),
        org_table: String::new(),
        database: String::new(),
        ty,
        length,
        decimals: 0,
        flags: 0,
        binary: false,
        shown: None,
    }
}

fn number(name: String, ty: ResultType, length: u32, decimals: u8) -> ResultColumn {
    let flags = flags::BINARY | flags::NUMBER;
    ResultColumn { decimals, flags, binary: true, ..plain(name, ty, length) }
}

fn decimal(name: String, precision: u8, scale: u8) -> ResultColumn {
    let length = u32::from(precision) + if scale > 0 { 2 } else { 1 };
    number(name, ResultType::Decimal, length, scale)
}

fn temporal(name: String, ty: ResultType, length: u32, fsp: u8) -> ResultColumn {
    let length = if fsp > 0 { length + 1 + u32::from(fsp) } else { length };
    ResultColumn { decimals: fsp, flags: flags::BINARY, binary: true, ..plain(name, ty, length) }
}

/// The description of an expression.
fn computed(name: String, field: &Field) -> ResultColumn {
    if meaning::is_json(field) {
        return typed(name, ColumnType::Json);
    }
    let described = described(name, &meaning::shown_type(field));
    let Some(digits) = meaning::shown_digits(field) else { return described };
    let shown = Some(digits);
    match described.ty {
        ResultType::DateTime | ResultType::Time => {
            let temporal = temporal(described.name, described.ty, described.length, digits);
            ResultColumn { shown, ..temporal }
        }
        ResultType::Double => ResultColumn { decimals: digits, shown, ..described },
        _ => described,
    }
}

/// The description of an expression of this type.
fn described(name: String, ty: &DataType) -> ResultColumn {
    match ty {
        DataType::Null => ResultColumn { binary: true, ..plain(name, ResultType::Null, 0) },
        DataType::Boolean => number(name, ResultType::LongLong, 1, 0),
        ty if ty.is_unsigned_integer() => {
            let mut column = number(name, ResultType::LongLong, 20, 0);
            column.flags |= flags::UNSIGNED;
            column
        }
        ty if ty.is_integer() => number(name, ResultType::LongLong, 21, 0),
        DataType::Float32 => number(name, ResultType::Float, 12, ANY_DECIMALS),
        DataType::Float64 => number(name, ResultType::Double, 23, ANY_DECIMALS),
        DataType::Decimal128(precision, scale) => decimal(name, *precision, scale.unsigned_abs()),
        DataType::Decimal256(precision, scale) => {
            decimal(name, (*precision).min(DECIMAL_DIGITS_MAX), scale.unsigned_abs())
        }
        DataType::Date32 => temporal(name, ResultType::Date, 10, 0),
        DataType::Timestamp(_, _) => temporal(name, ResultType::DateTime, 19, 0),
        DataType::Duration(_) => temporal(name, ResultType::Time, 10, 0),
        ty if convert::is_binary(ty) => {
            let flags = flags::BLOB | flags::BINARY;
            ResultColumn { flags, binary: true, ..plain(name, ResultType::Blob, TEXT_LENGTH) }
        }
        _ => plain(name, ResultType::VarString, TEXT_LENGTH),
    }
}

/// The description of a column of a table.
fn typed(name: String, ty: ColumnType) -> ResultColumn {
    let mut column = match ty {
        ColumnType::Boolean => number(name, ResultType::Tiny, 1, 0),
        ColumnType::TinyInt { .. } => number(name, ResultType::Tiny, 4, 0),
        ColumnType::SmallInt { .. } => number(name, ResultType::Short, 6, 0),
        ColumnType::MediumInt { .. } => number(name, ResultType::Int24, 9, 0),
        ColumnType::Int { .. } => number(name, ResultType::Long, 11, 0),
        ColumnType::BigInt { .. } => number(name, ResultType::LongLong, 20, 0),
        ColumnType::LargeInt => plain(name, ResultType::VarString, 40 * CHARACTER_BYTES),
        ColumnType::Float => number(name, ResultType::Float, 12, ANY_DECIMALS),
        ColumnType::Double => number(name, ResultType::Double, 22, ANY_DECIMALS),
        ColumnType::Decimal { precision, scale } => decimal(name, precision, scale),
        ColumnType::Date => temporal(name, ResultType::Date, 10, 0),
        ColumnType::DateTime { fsp } => {
            ResultColumn { shown: Some(fsp), ..temporal(name, ResultType::DateTime, 19, fsp) }
        }
        ColumnType::Timestamp { fsp } => {
            ResultColumn { shown: Some(fsp), ..temporal(name, ResultType::Timestamp, 19, fsp) }
        }
        ColumnType::Char { len } => plain(name, ResultType::String, len * CHARACTER_BYTES),
        ColumnType::VarChar { len } => plain(name, ResultType::VarString, len * CHARACTER_BYTES),
        ColumnType::Text => {
            let length = freshet_schema::types::TEXT_BYTES_MAX;
            ResultColumn { flags: flags::BLOB, ..plain(name, ResultType::Blob, length) }
        }
        ColumnType::VarBinary { len } => ResultColumn {
            flags: flags::BINARY,
            binary: true,
            ..plain(name, ResultType::VarString, len)
        },
        ColumnType::Blob => {
            let length = freshet_schema::types::TEXT_BYTES_MAX;
            let flags = flags::BLOB | flags::BINARY;
            ResultColumn { flags, binary: true, ..plain(name, ResultType::Blob, length) }
        }
        ColumnType::Json => {
            let flags = flags::BLOB | flags::BINARY;
            ResultColumn { flags, ..plain(name, ResultType::Json, u32::MAX) }
        }
    };
    if ty.is_unsigned() {
        column.flags |= flags::UNSIGNED;
    }
    column
}

/// The values of a result column in one batch, by the few shapes that are written.
pub enum Cells {
    /// NULL in every row.
    Null,
    /// Truth values, written as 1 and 0.
    Bool(BooleanArray),
    /// Integers with sign.
    Int(Int64Array),
    /// Integers without sign.
    UInt(UInt64Array),
    /// Floats.
    Float(Float32Array),
    /// Doubles, with the digits behind the point that are shown.
    Double(Float64Array, Option<u8>),
    /// Decimals, with the digits behind their point, and those of them that are shown.
    Decimal(Decimal128Array, [u32; 2]),
    /// The same of more than 38 digits, and LARGEINT.
    Large(Decimal256Array, [u32; 2]),
    /// Days since 1970.
    Date(Date32Array),
    /// Microseconds since 1970, with the digits of the second that are shown; `None` where
    /// each value shows what it needs.
    DateTime(TimestampMicrosecondArray, Option<u8>),
    /// Microseconds, with the digits of the second that are shown.
    Time(DurationMicrosecondArray, Option<u8>),
    /// Text.
    Text(StringViewArray),
    /// Bytes.
    Bytes(BinaryViewArray),
}

impl Cells {
    /// The columns of a batch.
    ///
    /// # Errors
    /// A type that no expression of MySQL has.
    pub fn of(batch: &RecordBatch, columns: &[ResultColumn]) -> Result<Vec<Self>> {
        assert_eq!(batch.num_columns(), columns.len(), "a description for each column");
        batch
            .columns()
            .iter()
            .zip(columns)
            .map(|(array, column)| Self::new(array, column))
            .collect()
    }

    fn new(array: &ArrayRef, column: &ResultColumn) -> Result<Self> {
        let ty = array.data_type();
        let to = |wanted: &DataType| {
            cast(array, wanted).map_err(|error| {
                err!(Unknown, "column '{}' of type {ty} cannot be shown: {error}", column.name)
            })
        };
        Ok(match ty {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            ty if ty.is_unsigned_integer() => {
                Self::UInt(to(&DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
            }
            ty if ty.is_integer() => {
                Self::Int(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Float32 => Self::Float(array.as_primitive::<Float32Type>().clone()),
            DataType::Float64 => {
                Self::Double(array.as_primitive::<Float64Type>().clone(), column.shown)
            }
            // A product with zero is a zero without the digits that it was said to have.
            DataType::Decimal128(_, scale) if scale.unsigned_abs() < column.decimals => {
                let wanted =
                    DataType::Decimal256(DECIMAL256_MAX_PRECISION, column.decimals.cast_signed());
                let values = to(&wanted)?.as_primitive::<Decimal256Type>().clone();
                Self::Large(values, [u32::from(column.decimals); 2])
            }
            DataType::Decimal128(_, scale) => {
                let values = array.as_primitive::<Decimal128Type>().clone();
                Self::Decimal(values, digits(*scale, column))
            }
            DataType::Decimal256(_, scale) => {
                let values = array.as_primitive::<Decimal256Type>().clone();
                Self::Large(values, digits(*scale, column))
            }
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            DataType::Timestamp(_, _) => {
                let values = to(&convert::DATETIME)?;
                let values = values.as_primitive::<TimestampMicrosecondType>().clone();
                Self::DateTime(values, column.shown)
            }
            DataType::Duration(_) => {
                let values = to(&convert::TIME)?;
                Self::Time(values.as_primitive::<DurationMicrosecondType>().clone(), column.shown)
            }
            ty if convert::is_binary(ty) => {
                Self::Bytes(to(&DataType::BinaryView)?.as_binary_view().clone())
            }
            _ => Self::Text(to(&DataType::Utf8View)?.as_string_view().clone()),
        })
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(array) => array,
            Self::Int(array) => array,
            Self::UInt(array) => array,
            Self::Float(array) => array,
            Self::Double(array, _) => array,
            Self::Decimal(array, _) => array,
            Self::Large(array, _) => array,
            Self::Date(array) => array,
            Self::DateTime(array, _) => array,
            Self::Time(array, _) => array,
            Self::Text(array) => array,
            Self::Bytes(array) => array,
        })
    }

    /// Whether the cell of a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.array().is_none_or(|array| array.is_null(row))
    }

    /// Appends the cell of a row with all digits that it has behind the point, shown or not.
    ///
    /// # Panics
    /// When the cell is NULL.
    pub fn exact(&self, row: usize, out: &mut Vec<u8>) {
        let mut text = String::new();
        match self {
            Self::Decimal(array, [has, _]) => format::decimal(&mut text, array.value(row), *has),
            Self::Large(array, [has, _]) => format::large(&mut text, array.value(row), *has),
            _ => return self.text(row, out),
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Appends the cell of a row as text, exactly as MySQL prints it.
    ///
    /// # Panics
    /// When the cell is NULL.
    pub fn text(&self, row: usize, out: &mut Vec<u8>) {
        assert!(!self.is_null(row), "NULL has no text");
        match self {
            Self::Text(array) => return out.extend_from_slice(array.value(row).as_bytes()),
            Self::Bytes(array) => return out.extend_from_slice(array.value(row)),
            _ => {}
        }
        let mut text = String::new();
        match self {
            Self::Bool(array) => text.push(if array.value(row) { '1' } else { '0' }),
            Self::Int(array) => text = array.value(row).to_string(),
            Self::UInt(array) => text = array.value(row).to_string(),
            Self::Float(array) => format::float(&mut text, array.value(row)),
            Self::Double(array, None) => format::double(&mut text, array.value(row)),
            Self::Double(array, Some(digits)) => {
                format::fixed(&mut text, array.value(row), *digits);
            }
            Self::Decimal(array, [has, shown]) => {
                let value = round_half_up(array.value(row), 10_i128.pow(has - shown));
                format::decimal(&mut text, value, *shown);
            }
            Self::Large(array, [has, shown]) => {
                let value = round_half_up_wide(array.value(row), has - shown);
                format::large(&mut text, value, *shown);
            }
            Self::Date(array) => format::date(&mut text, array.value(row)),
            Self::DateTime(array, fsp) => {
                let micros = array.value(row);
                format::datetime(&mut text, micros, fsp.unwrap_or_else(|| format::fsp_of(micros)));
            }
            Self::Time(array, fsp) => {
                let micros = array.value(row);
                format::time(&mut text, micros, fsp.unwrap_or_else(|| format::fsp_of(micros)));
            }
            Self::Null | Self::Text(_) | Self::Bytes(_) => unreachable!("handled above"),
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// The digits behind the point that values have, and those that their column shows.
fn digits(scale: i8, column: &ResultColumn) -> [u32; 2] {
    let has = u32::from(scale.unsigned_abs());
    [has, has.min(column.decimals.into())]
}

/// A batch whose rows are texts, for the answers of SHOW and the like.
///
/// # Panics
/// When a row has another number of cells than there are columns.
pub fn text_batch(columns: &[&str], rows: &[Vec<Option<String>>]) -> RecordBatch {
    assert!(rows.iter().all(|row| row.len() == columns.len()), "a cell for each column");
    let fields = columns.iter().map(|name| Field::new(*name, DataType::Utf8View, true));
    let arrays = (0..columns.len()).map(|at| {
        let cells = rows.iter().map(|row| row[at].as_deref());
        Arc::new(cells.collect::<StringViewArray>()) as ArrayRef
    });
    let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), arrays.collect()).expect("columns are of one length")
}
