//! The sort key as 8 bytes that order like it, and the comparison that settles ties.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, DynComparator, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, i256,
};

use crate::TableSchema;

const KEY_BITS: u32 = u64::BITS;
const SIGN: u64 = 1 << 63;

/// The order of a batch's rows in short: where two numbers differ, the rows compare alike.
pub struct KeyPrefixes {
    /// One per row.
    pub keys: Vec<u64>,
    /// Whether equal numbers mean equal keys, so that no tie is left to [`KeyComparator`].
    pub exact: bool,
}

/// Packs the leading columns of the sort key into 8 bytes a row, NULL before every value. The
/// prefixes of all batches of one schema compare with each other.
pub fn prefixes(batch: &RecordBatch, schema: &TableSchema) -> KeyPrefixes {
    let mut keys = vec![0; batch.num_rows()];
    let mut bits_left = KEY_BITS;
    for &at in &schema.sort_key {
        let nullable = schema.columns[at].nullable;
        let (bits, whole) = width(batch.column(at).data_type());
        let bits = bits + u32::from(nullable);
        let taken = bits.min(bits_left);
        add_column(&mut keys, batch.column(at).as_ref(), nullable, taken);
        bits_left -= taken;
        if taken < bits || !whole || bits_left == 0 {
            let exact = whole && taken == bits && schema.sort_key.last() == Some(&at);
            pad(&mut keys, bits_left);
            return KeyPrefixes { keys, exact };
        }
    }
    pad(&mut keys, bits_left);
    KeyPrefixes { keys, exact: true }
}

/// Moves what was packed to the upper end, so that numbers compare column by column.
fn pad(keys: &mut [u64], bits_left: u32) {
    if bits_left < KEY_BITS {
        keys.iter_mut().for_each(|key| *key <<= bits_left);
    }
}

/// How many bits a type's order takes, and whether they say all of it.
fn width(data_type: &DataType) -> (u32, bool) {
    match data_type {
        DataType::Int8 | DataType::UInt8 => (8, true),
        DataType::Int16 | DataType::UInt16 => (16, true),
        DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Float32 => (32, true),
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Timestamp(..) => {
            (64, true)
        }
        DataType::Decimal128(precision, _) => (64, *precision <= 18),
        _ => (64, false),
    }
}

/// Appends the upper `taken` bits of each row's order to its key.
fn add_column(keys: &mut [u64], array: &dyn Array, nullable: bool, taken: u32) {
    macro_rules! order {
        ($type:ty, $order:expr) => {{
            let values = array.as_primitive::<$type>().values();
            pack(keys, array, nullable, taken, |row| $order(values[row]))
        }};
    }
    match array.data_type() {
        DataType::Int8 => order!(Int8Type, |value: i8| ordered(i64::from(value) << 56)),
        DataType::Int16 => order!(Int16Type, |value: i16| ordered(i64::from(value) << 48)),
        DataType::Int32 => order!(Int32Type, |value: i32| ordered(i64::from(value) << 32)),
        DataType::Date32 => order!(Date32Type, |value: i32| ordered(i64::from(value) << 32)),
        DataType::Int64 => order!(Int64Type, ordered),
        DataType::Timestamp(..) => order!(TimestampMicrosecondType, ordered),
        DataType::UInt8 => order!(UInt8Type, |value: u8| u64::from(value) << 56),
        DataType::UInt16 => order!(UInt16Type, |value: u16| u64::from(value) << 48),
        DataType::UInt32 => order!(UInt32Type, |value: u32| u64::from(value) << 32),
        DataType::UInt64 => order!(UInt64Type, |value: u64| value),
        DataType::Float32 => {
            order!(Float32Type, |value: f32| ordered_bits(u64::from(value.to_bits()) << 32))
        }
        DataType::Float64 => order!(Float64Type, |value: f64| ordered_bits(value.to_bits())),
        // Numbers beyond 64 bits share the prefix of the outermost number within.
        DataType::Decimal128(..) => order!(Decimal128Type, |value: i128| ordered(clamp(value))),
        DataType::Decimal256(..) => order!(Decimal256Type, |value: i256| {
            let wide =
                value.to_i128().unwrap_or(if value < i256::ZERO { i128::MIN } else { i128::MAX });
            ordered(clamp(wide))
        }),
        DataType::Utf8View => {
            let values = array.as_string_view();
            pack(keys, array, nullable, taken, |row| leading(values.value(row).as_bytes()));
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            pack(keys, array, nullable, taken, |row| leading(values.value(row)));
        }
        other => unreachable!("no column type is held as {other}"),
    }
}

/// Shifts the upper `taken` bits of `order` into each key. A column that takes NULL spends its
/// first bit on the difference.
fn pack(
    keys: &mut [u64],
    array: &dyn Array,
    nullable: bool,
    taken: u32,
    order: impl Fn(usize) -> u64,
) {
    let shift = KEY_BITS - taken;
    for (row, key) in keys.iter_mut().enumerate() {
        let order = match nullable {
            false => order(row),
            true if array.is_null(row) => 0,
            true => SIGN | order(row) >> 1,
        };
        *key = key.checked_shl(taken).unwrap_or(0) | order >> shift;
    }
}

fn ordered(value: i64) -> u64 {
    value.cast_unsigned() ^ SIGN
}

/// The bits of a float, in the order of `total_cmp`.
fn ordered_bits(bits: u64) -> u64 {
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn clamp(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The first eight bytes; shorter text is padded, and ties with longer text are compared.
fn leading(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

/// Compares whole sort keys of two batches of one schema, NULL before every value.
pub struct KeyComparator {
    columns: Vec<DynComparator>,
}

impl KeyComparator {
    /// A comparison of rows of `left` with rows of `right`.
    pub fn new(left: &RecordBatch, right: &RecordBatch, schema: &TableSchema) -> Self {
        let options = SortOptions { descending: false, nulls_first: true };
        let compare = |&at: &usize| {
            make_comparator(left.column(at), right.column(at), options)
                .expect("both batches have the columns of the schema")
        };
        Self { columns: schema.sort_key.iter().map(compare).collect() }
    }

    /// How row `left` of the one compares with row `right` of the other.
    pub fn compare(&self, left: usize, right: usize) -> Ordering {
        self.columns
            .iter()
            .map(|compare| compare(left, right))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests;
