//! Nested values as text: from cells of rows, and from the arrays of queries.

use std::fmt::{Display, LowerExp};
use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float32Array, Float64Array, Int64Array, ListArray, MapArray, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;

use crate::row::{MICROS_MAX, MICROS_MIN, MICROS_PER_DAY, decimal, fixed};
use crate::value::cell_text;
use crate::value::temporal::{LocalDateTime, date_of};
use crate::{ColumnType, Zone};

/// Numbers from here to [`LONG_FROM`] are shown without exponent.
const SHORT_FROM: f64 = 1e-5;
const LONG_FROM: f64 = 1e15;
/// The longest text of a number or time.
const NUMBER_BYTES_MAX: usize = 96;

/// Appends the text of a scalar inside a nested value; `cell` has no length in front.
pub(super) fn cell(ty: ColumnType, cell: &[u8], out: &mut Vec<u8>) {
    match ty {
        ColumnType::Float => float(f32::from_bits(fixed(cell) as u32), out),
        ColumnType::Double => float(f64::from_bits(fixed(cell)), out),
        ColumnType::Date => date(fixed(cell) as i32, out),
        ColumnType::DateTime { .. } => moment(fixed(cell).cast_signed(), out),
        ColumnType::LargeInt => written(out, decimal(cell)),
        ty if ty.is_text() => quoted(&String::from_utf8_lossy(cell), out),
        _ => out.extend_from_slice(cell_text(ty, cell).as_bytes()),
    }
}

pub(super) fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.extend_from_slice(b", ");
    }
}

fn written(out: &mut Vec<u8>, value: impl Display) {
    write!(out, "{value}").expect("a Vec takes every byte");
}

/// Appends a text in quotes, with the escapes of JSON.
pub(super) fn quoted(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("text is JSON, and a Vec takes every byte");
}

fn float<T: Display + LowerExp + Copy + Into<f64>>(value: T, out: &mut Vec<u8>) {
    let size = value.into().abs();
    match size == 0.0 || (SHORT_FROM..LONG_FROM).contains(&size) || !size.is_finite() {
        true => written(out, value),
        false => write!(out, "{value:e}").expect("a Vec takes every byte"),
    }
}

/// What no clock shows stays as it is.
fn local(micros: i64, zone: Zone) -> i64 {
    let years = MICROS_MIN - MICROS_PER_DAY..=MICROS_MAX + MICROS_PER_DAY;
    if years.contains(&micros) { zone.to_local(micros) } else { micros }
}

fn date(days: i32, out: &mut Vec<u8>) {
    let (year, month, day) = date_of(days);
    write!(out, "\"{year:04}-{month:02}-{day:02}\"").expect("a Vec takes every byte");
}

fn moment(micros: i64, out: &mut Vec<u8>) {
    let time = LocalDateTime::from_micros(micros);
    write!(out, "\"{time}\"").expect("a Vec takes every byte");
}

/// The values of an array, whose texts are asked for.
pub struct Shown {
    array: ArrayRef,
    values: Values,
}

enum Values {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array),
    Large(Decimal256Array),
    Date(Date32Array),
    Moment(TimestampMicrosecondArray),
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    List(ListArray, Box<Shown>),
    Map(MapArray, Box<[Shown; 2]>),
    Struct(Vec<(String, Shown)>),
}

impl Shown {
    /// # Errors
    /// For types that have no text.
    pub fn new(array: &ArrayRef) -> Result<Self, ArrowError> {
        Self::in_zone(array, Zone::UTC)
    }

    /// Instants are shown as the clocks of `zone` do.
    ///
    /// # Errors
    /// For types that have no text.
    pub fn in_zone(array: &ArrayRef, zone: Zone) -> Result<Self, ArrowError> {
        use DataType as T;
        let to = |ty: &DataType| cast(array, ty);
        let values = match array.data_type() {
            T::Null => Values::Null,
            T::Boolean => Values::Bool(array.as_boolean().clone()),
            ty if ty.is_signed_integer() => Values::Int(to(&T::Int64)?.as_primitive().clone()),
            ty if ty.is_unsigned_integer() => Values::UInt(to(&T::UInt64)?.as_primitive().clone()),
            T::Float16 | T::Float32 => Values::Float(to(&T::Float32)?.as_primitive().clone()),
            T::Float64 => Values::Double(array.as_primitive().clone()),
            T::Decimal32(digits, scale)
            | T::Decimal64(digits, scale)
            | T::Decimal128(digits, scale) => {
                Values::Decimal(to(&T::Decimal128(*digits, *scale))?.as_primitive().clone())
            }
            T::Decimal256(..) => Values::Large(array.as_primitive().clone()),
            T::Date32 => Values::Date(array.as_primitive().clone()),
            T::Timestamp(_, Some(_)) => {
                let micros = to(&T::Timestamp(TimeUnit::Microsecond, None))?;
                let micros = micros.as_primitive::<TimestampMicrosecondType>();
                Values::Moment(micros.unary(|micros| local(micros, zone)))
            }
            T::Date64 | T::Timestamp(..) => {
                let micros = to(&T::Timestamp(TimeUnit::Microsecond, None))?;
                Values::Moment(micros.as_primitive().clone())
            }
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
                Values::Bytes(to(&T::BinaryView)?.as_binary_view().clone())
            }
            T::List(_) => {
                let list = array.as_list::<i32>().clone();
                let items = Box::new(Self::in_zone(list.values(), zone)?);
                Values::List(list, items)
            }
            T::LargeList(item) | T::FixedSizeList(item, _) | T::ListView(item) => {
                return Self::in_zone(&to(&T::List(Arc::clone(item)))?, zone);
            }
            T::Map(..) => {
                let map = array.as_map().clone();
                let both = [Self::in_zone(map.keys(), zone)?, Self::in_zone(map.values(), zone)?];
                Values::Map(map, Box::new(both))
            }
            T::Struct(fields) => Values::Struct(Self::fields(fields, array.as_struct(), zone)?),
            // By reference: a few texts of a dictionary may stand in a million places.
            T::Dictionary(_, values) => {
                let values = match &**values {
                    T::Utf8 | T::LargeUtf8 => T::Utf8View,
                    T::Binary | T::LargeBinary => T::BinaryView,
                    other => other.clone(),
                };
                return Self::in_zone(&to(&values)?, zone);
            }
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Time32(_) | T::Time64(_) | T::Duration(_) => {
                Values::Text(to(&T::Utf8View)?.as_string_view().clone())
            }
            other => return Err(ArrowError::CastError(format!("{other} has no text"))),
        };
        Ok(Self { array: Arc::clone(array), values })
    }

    fn fields(
        fields: &[Arc<Field>],
        array: &StructArray,
        zone: Zone,
    ) -> Result<Vec<(String, Self)>, ArrowError> {
        let both = fields.iter().zip(array.columns());
        both.map(|(field, column)| Ok((field.name().clone(), Self::in_zone(column, zone)?)))
            .collect()
    }

    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.array.is_null(row)
    }

    /// About how many bytes the longest text has, at most.
    pub fn bytes_max(&self) -> usize {
        let longest = |views: &[u128]| {
            let bytes = views.iter().map(|view| *view as u32 as usize).max().unwrap_or(0);
            6 * bytes + 2
        };
        let most = |ends: &[i32]| {
            ends.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
        };
        let bytes = match &self.values {
            Values::Text(values) => longest(values.views()),
            Values::Bytes(values) => longest(values.views()),
            Values::List(list, items) => {
                most(list.value_offsets()).saturating_mul(items.bytes_max().saturating_add(2))
            }
            Values::Map(map, both) => {
                let entry = both.iter().map(|side| side.bytes_max().saturating_add(2));
                most(map.value_offsets()).saturating_mul(entry.fold(0, usize::saturating_add))
            }
            Values::Struct(fields) => {
                let field = |(name, field): &(String, Self)| {
                    field.bytes_max().saturating_add(6 * name.len() + 8)
                };
                fields.iter().map(field).fold(2, usize::saturating_add)
            }
            _ => NUMBER_BYTES_MAX,
        };
        // Brackets, and NULL.
        bytes.saturating_add(4)
    }

    /// Appends the text of a value.
    pub fn text(&self, row: usize, out: &mut Vec<u8>) {
        let is_whole = self.text_within(row, usize::MAX, out);
        assert!(is_whole, "no text is that long");
    }

    /// Appends the text of a value; one that makes `out` longer than `limit` not to its end, and
    /// returns whether it came there.
    pub fn text_within(&self, row: usize, limit: usize, out: &mut Vec<u8>) -> bool {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return out.len() <= limit;
        }
        match &self.values {
            Values::Null => {}
            Values::Bool(values) => written(out, u8::from(values.value(row))),
            Values::Int(values) => written(out, values.value(row)),
            Values::UInt(values) => written(out, values.value(row)),
            Values::Float(values) => float(values.value(row), out),
            Values::Double(values) => float(values.value(row), out),
            Values::Decimal(values) => written(out, values.value_as_string(row)),
            Values::Large(values) => written(out, values.value_as_string(row)),
            Values::Date(values) => date(values.value(row), out),
            Values::Moment(values) => moment(values.value(row), out),
            Values::Text(values) => quoted(values.value(row), out),
            Values::Bytes(values) => quoted(&String::from_utf8_lossy(values.value(row)), out),
            Values::List(list, items) => {
                out.push(b'[');
                let ends = list.value_offsets();
                for (at, item) in (ends[row] as usize..ends[row + 1] as usize).enumerate() {
                    separate(at, out);
                    if !items.text_within(item, limit, out) {
                        return false;
                    }
                }
                out.push(b']');
            }
            Values::Map(map, both) => {
                let [keys, values] = &**both;
                out.push(b'{');
                let ends = map.value_offsets();
                for (at, entry) in (ends[row] as usize..ends[row + 1] as usize).enumerate() {
                    separate(at, out);
                    let has_key = keys.text_within(entry, limit, out);
                    out.push(b':');
                    if !has_key || !values.text_within(entry, limit, out) {
                        return false;
                    }
                }
                out.push(b'}');
            }
            Values::Struct(fields) => {
                out.push(b'{');
                for (at, (name, field)) in fields.iter().enumerate() {
                    separate(at, out);
                    quoted(name, out);
                    out.push(b':');
                    if !field.text_within(row, limit, out) {
                        return false;
                    }
                }
                out.push(b'}');
            }
        }
        out.len() <= limit
    }
}
