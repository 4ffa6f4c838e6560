//! Metadata of result columns, and the text format of their values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, DurationMicrosecondArray, Float32Array, Float64Array, Int64Array,
    LargeBinaryArray, RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Field, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
    UInt64Type,
};
use datafusion::common::DFSchema;
use freshet_base::{Result, err};
use freshet_schema::ColumnType;

use crate::coercibility::Derived;
use crate::convert::{round_half_up, round_half_up_wide};
use crate::error::mapped;
use crate::functions::meaning;
use crate::origin::{ColumnOrigin, flags};
use crate::{convert, format};

/// Column types of the MySQL protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ResultType {
    Tiny = 0x01,
    Short = 0x02,
    Long = 0x03,
    Float = 0x04,
    Double = 0x05,
    Null = 0x06,
    Timestamp = 0x07,
    LongLong = 0x08,
    Int24 = 0x09,
    Date = 0x0a,
    Time = 0x0b,
    DateTime = 0x0c,
    Year = 0x0d,
    Bit = 0x10,
    Json = 0xf5,
    Decimal = 0xf6,
    /// TEXT and BLOB.
    Blob = 0xfc,
    /// VARCHAR, VARBINARY and text of expressions.
    VarString = 0xfd,
    String = 0xfe,
}

/// The decimals of a floating-point number without a fixed scale.
const ANY_DECIMALS: u8 = 31;
/// Maximum precision of a DECIMAL in MySQL.
const DECIMAL_DIGITS_MAX: u8 = 65;
/// The length reported for text of unknown length.
const TEXT_LENGTH: u32 = 65_535;
/// Maximum length of a character.
const CHARACTER_BYTES: u32 = 4;

/// The database of the system tables.
pub const SYSTEM: &str = "information_schema";

/// The metadata of a result column in the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultColumn {
    pub name: String,
    /// The column's name in its table; empty for expressions.
    pub org_name: String,
    /// The alias of the table in the query.
    pub table: String,
    /// The table's name.
    pub org_table: String,
    pub database: String,
    pub ty: ResultType,
    /// Display length in bytes.
    pub length: u32,
    /// Fractional digits.
    pub decimals: u8,
    /// [`flags`].
    pub flags: u16,
    /// Whether it has no character set: numbers, dates, bytes.
    pub binary: bool,
    /// The number of fractional digits that all values display; `None` if each displays its own.
    pub shown: Option<u8>,
    /// The collation of a text, if its query was planned with all types.
    pub derived: Option<Derived>,
    /// Its type, if values consist of values.
    pub nested: Option<DataType>,
    /// The list of an ENUM or SET of a table; empty for others.
    pub labels: Vec<String>,
}

impl ResultColumn {
    /// A text column that is not from a table.
    pub fn text(name: impl Into<String>) -> Self {
        described(name.into(), &DataType::Utf8View)
    }

    /// Whether it has bytes that are no text.
    pub fn is_bytes(&self) -> bool {
        let types = [ResultType::Blob, ResultType::VarString, ResultType::String];
        self.binary && types.contains(&self.ty)
    }

    pub fn is_unsigned(&self) -> bool {
        self.flags & flags::UNSIGNED != 0
    }

    /// A column of integers that are not negative, and not from a table.
    pub fn unsigned(name: impl Into<String>) -> Self {
        described(name.into(), &DataType::UInt64)
    }

    /// A column of times without fractions that is not from a table.
    pub fn datetime(name: impl Into<String>) -> Self {
        typed(name.into(), ColumnType::DateTime { fsp: 0 })
    }

    /// An integer column that is not from a table.
    pub fn integer(name: impl Into<String>) -> Self {
        described(name.into(), &DataType::Int64)
    }
}

/// The result columns of a plan; `names` are the names in the text of the query, `None` for a
/// wildcard.
pub fn columns(schema: &DFSchema, names: &[Option<String>]) -> Vec<ResultColumn> {
    // A wildcard stands for all columns that the other items leave.
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

/// Says which collation each column has, once the plan of the query knows.
pub fn put_collations(columns: &mut [ResultColumn], schema: &DFSchema) {
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        let is_text = convert::is_text(field.data_type()) && !meaning::is_json(field);
        column.derived = is_text.then(|| Derived::decode(field).unwrap_or(Derived::BYTES));
    }
}

/// The internal name of a column with the same name as an earlier one.
pub fn copy_name(name: &str, copy: usize) -> String {
    format!("{name}#{copy}")
}

/// The name of a column without the suffix of [`copy_name`].
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
    let origin = ColumnOrigin::decode(field).filter(|origin| same(origin.ty, field.data_type()));
    let name = match (&origin, written) {
        // Columns of system tables keep their own case.
        (Some(origin), Some(written))
            if origin.database == SYSTEM && origin.column.eq_ignore_ascii_case(written) =>
        {
            origin.column.clone()
        }
        (_, Some(written)) => written.to_owned(),
        // A plain column has the name with which it was created.
        (Some(origin), None) if origin.column.eq_ignore_ascii_case(called) => origin.column.clone(),
        _ => called.to_owned(),
    };
    let Some(origin) = origin else { return computed(name, field) };
    let mut column = typed(name, origin.ty);
    column.nested = origin.ty.is_nested().then(|| field.data_type().clone());
    column.flags |= origin.flags;
    column.table = if table.is_empty() { origin.table.clone() } else { table.to_owned() };
    column.org_table = origin.table;
    column.org_name = origin.column;
    column.database = origin.database;
    column.labels = origin.labels;
    column
}

fn same(stored: ColumnType, planned: &DataType) -> bool {
    if stored.is_nested() {
        return planned.is_nested();
    }
    match (&stored.arrow(), planned) {
        (DataType::Timestamp(_, _), DataType::Timestamp(_, _)) => true,
        (DataType::BinaryView, planned) if *planned == convert::SKETCH => true,
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
        derived: None,
        nested: None,
        labels: Vec::new(),
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

/// The metadata of an expression.
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

/// The metadata of an expression of this type.
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
        ty if ty.is_nested() => {
            let nested = Some(ty.clone());
            ResultColumn { nested, ..plain(name, ResultType::String, TEXT_LENGTH) }
        }
        _ => plain(name, ResultType::VarString, TEXT_LENGTH),
    }
}

/// The metadata of a table column.
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
        ColumnType::Time { fsp } => {
            ResultColumn { shown: Some(fsp), ..temporal(name, ResultType::Time, 10, fsp) }
        }
        ColumnType::Year => number(name, ResultType::Year, 4, 0),
        ColumnType::Bit { len } => {
            ResultColumn { binary: true, ..plain(name, ResultType::Bit, u32::from(len)) }
        }
        ColumnType::Char { len } => plain(name, ResultType::String, len * CHARACTER_BYTES),
        ColumnType::VarChar { len } => plain(name, ResultType::VarString, len * CHARACTER_BYTES),
        ColumnType::Enum { len } | ColumnType::Set { len } => {
            let is_set = matches!(ty, ColumnType::Set { .. });
            let flags = if is_set { flags::SET } else { flags::ENUM };
            ResultColumn { flags, ..plain(name, ResultType::String, len * CHARACTER_BYTES) }
        }
        ColumnType::Text => {
            let length = freshet_schema::types::TEXT_BYTES_MAX;
            ResultColumn { flags: flags::BLOB, ..plain(name, ResultType::Blob, length) }
        }
        ColumnType::Binary { len } => {
            let flags = flags::BINARY;
            ResultColumn { flags, binary: true, ..plain(name, ResultType::String, len) }
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
        ColumnType::Bitmap | ColumnType::Hll => described(name, &convert::SKETCH),
        ty if ty.is_nested() => plain(name, ResultType::String, TEXT_LENGTH),
        _ => {
            let flags = flags::BLOB | flags::BINARY;
            ResultColumn { flags, ..plain(name, ResultType::Json, u32::MAX) }
        }
    };
    if ty.is_unsigned() {
        column.flags |= flags::UNSIGNED;
    }
    if ty == ColumnType::Year {
        column.flags |= flags::ZEROFILL;
    }
    column
}

/// The values of a result column in a batch, in one of few types.
pub enum Cells {
    /// NULL in every row.
    Null,
    /// Booleans, written as 1 and 0.
    Bool(BooleanArray),
    Int(Int64Array),
    /// Unsigned integers.
    UInt(UInt64Array),
    /// Years, of four digits each.
    Year(UInt64Array),
    /// Bits, and how many bytes show them, the highest first.
    Bits(UInt64Array, usize),
    Float(Float32Array),
    /// Doubles, with the number of displayed fractional digits.
    Double(Float64Array, Option<u8>),
    /// Decimals, with their scale and displayed scale.
    Decimal(Decimal128Array, [u32; 2]),
    /// Decimals with a precision above 38 and LARGEINT, with their scale and displayed scale.
    Large(Decimal256Array, [u32; 2]),
    /// Days since 1970.
    Date(Date32Array),
    /// Microseconds since 1970, with the number of displayed fractional digits; `None` if each
    /// value displays its own.
    DateTime(TimestampMicrosecondArray, Option<u8>),
    /// Microseconds, with the number of displayed fractional digits.
    Time(DurationMicrosecondArray, Option<u8>),
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    /// BITMAP and HLL, which are shown as NULL.
    Sketch(LargeBinaryArray),
}

/// MySQL has no infinity; a sum may be one.
fn check_range(column: &ResultColumn, is_finite: bool) -> Result<()> {
    match is_finite {
        true => Ok(()),
        false => Err(err!(ExpressionRange, "DOUBLE value is out of range in '{}'", column.name)),
    }
}

impl Cells {
    /// The columns of a batch.
    ///
    /// # Errors
    /// For an Arrow type that no MySQL expression has.
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
                let values = to(&DataType::UInt64)?.as_primitive::<UInt64Type>().clone();
                match column.ty {
                    ResultType::Year => Self::Year(values),
                    ResultType::Bit => Self::Bits(values, column.length.div_ceil(8) as usize),
                    _ => Self::UInt(values),
                }
            }
            ty if ty.is_integer() => {
                Self::Int(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                check_range(column, values.iter().flatten().all(f32::is_finite))?;
                Self::Float(values.clone())
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                check_range(column, values.iter().flatten().all(f64::is_finite))?;
                Self::Double(values.clone(), column.shown)
            }
            // A product with zero is a zero that may lack its declared scale.
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
            DataType::LargeBinary => Self::Sketch(array.as_binary().clone()),
            ty if convert::is_binary(ty) => {
                Self::Bytes(to(&DataType::BinaryView)?.as_binary_view().clone())
            }
            ty if ty.is_nested() => {
                let texts = convert::text(array).map_err(mapped)?;
                Self::Text(texts)
            }
            _ => Self::Text(to(&DataType::Utf8View)?.as_string_view().clone()),
        })
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Self::Null | Self::Sketch(_) => return None,
            Self::Bool(array) => array,
            Self::Int(array) => array,
            Self::UInt(array) | Self::Year(array) | Self::Bits(array, _) => array,
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

    pub fn is_null(&self, row: usize) -> bool {
        self.array().is_none_or(|array| array.is_null(row))
    }

    /// Appends a value with all fractional digits, including those that are not displayed.
    ///
    /// # Panics
    /// When the value is NULL.
    pub fn exact(&self, row: usize, out: &mut Vec<u8>) {
        let mut text = String::new();
        match self {
            Self::Decimal(array, [has, _]) => format::decimal(&mut text, array.value(row), *has),
            Self::Large(array, [has, _]) => format::large(&mut text, array.value(row), *has),
            _ => return self.text(row, out),
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Appends a value in MySQL's text format.
    ///
    /// # Panics
    /// When the value is NULL.
    pub fn text(&self, row: usize, out: &mut Vec<u8>) {
        assert!(!self.is_null(row), "NULL has no text");
        match self {
            Self::Text(array) => return out.extend_from_slice(array.value(row).as_bytes()),
            Self::Bytes(array) => return out.extend_from_slice(array.value(row)),
            Self::Bits(array, bytes) => {
                let bits = array.value(row).to_be_bytes();
                return out.extend_from_slice(&bits[bits.len() - bytes..]);
            }
            _ => {}
        }
        let mut text = String::new();
        match self {
            Self::Bool(array) => text.push(if array.value(row) { '1' } else { '0' }),
            Self::Int(array) => text = array.value(row).to_string(),
            Self::UInt(array) => text = array.value(row).to_string(),
            Self::Year(array) => text = format!("{:04}", array.value(row)),
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
            Self::Null | Self::Sketch(_) | Self::Text(_) | Self::Bytes(_) | Self::Bits(..) => {
                unreachable!("handled above")
            }
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// The scale of the values, and the displayed scale of their column.
fn digits(scale: i8, column: &ResultColumn) -> [u32; 2] {
    let has = u32::from(scale.unsigned_abs());
    [has, has.min(column.decimals.into())]
}

/// A batch of text rows, for the results of SHOW and similar statements.
///
/// # Panics
/// When a row does not have one value per column.
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
