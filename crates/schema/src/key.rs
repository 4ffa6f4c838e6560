//! Sort keys as order-preserving 64-bit words, and a comparison of whole keys for ties; any key as
//! order-preserving bytes.

mod bounds;
mod bytes;
mod order;
mod part;
mod weights;

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};

use crate::TableSchema;

pub use bounds::{KeyBounds, leading_column};
pub use bytes::{KEY_BYTES_MAX, KeyCodec, KeyRows, Keys, key_alone};
pub use order::KeyOrder;
pub use part::{first_of, is_of, length_of};
pub(crate) use weights::key_values;
pub use weights::{KeyColumns, WEIGHTS_BYTES_MAX, are_in_order, asked_text};

const WORD_BITS: usize = 64;
const SIGN: u64 = 1 << 63;
/// Words of a key, enough for three nullable BIGINT columns; a longer key is truncated and not
/// exact.
const WORDS_MAX: usize = 4;

/// The sort keys of a batch's rows as a few words each. If the words of two rows differ, the keys
/// compare the same way. NULL sorts first.
pub struct KeyWords {
    words: Vec<u64>,
    width: usize,
    exact: bool,
}

impl KeyWords {
    /// Packs the leading columns of the sort key. Words of batches of the same schema can be
    /// compared with each other.
    pub fn new(batch: &RecordBatch, schema: &TableSchema) -> Self {
        Self::of(&KeyColumns::new(batch, schema), schema)
    }

    /// Those of rows whose key columns are known.
    pub fn of(keys: &KeyColumns, schema: &TableSchema) -> Self {
        let layout = layout(&keys.columns, schema);
        let bits = layout.columns.iter().map(|column| column.bits).sum::<usize>();
        let width = bits.div_ceil(WORD_BITS).max(1);
        let count = keys.rows * width;
        // Written zeros: pages of `vec![0; n]` fault twice, on the first read and on the first
        // write.
        let words = std::iter::repeat_n(0, count).collect();
        let mut packer = Packer { words, width, at: 0 };
        for column in &layout.columns {
            packer.column(keys.columns[column.at].as_ref(), column);
        }
        Self { words: packer.words, width, exact: layout.exact }
    }

    /// The words of a row; at least one.
    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.width..][..self.width]
    }

    /// Words per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether equal words mean equal keys; otherwise ties need [`KeyComparator`].
    pub fn is_exact(&self) -> bool {
        self.exact
    }
}

/// Which columns the words hold.
struct WordLayout {
    columns: Vec<PackedColumn>,
    exact: bool,
}

struct PackedColumn {
    /// Its index in the key.
    at: usize,
    nullable: bool,
    /// Bits in the words, including the NULL bit.
    bits: usize,
}

fn layout(keys: &[ArrayRef], schema: &TableSchema) -> WordLayout {
    let mut columns = Vec::with_capacity(schema.sort_key.len());
    let mut bits_left = WORDS_MAX * WORD_BITS;
    for (at, array) in keys.iter().enumerate() {
        let nullable = schema.columns[schema.sort_key[at]].nullable;
        let (bits, whole) = width(array.data_type());
        // One word of text separates most keys; a second word only for the NULL bit is not worth
        // it.
        let needed = if whole { bits + usize::from(nullable) } else { bits };
        if bits_left < needed {
            return WordLayout { columns, exact: false };
        }
        columns.push(PackedColumn { at, nullable, bits: needed });
        bits_left -= needed;
        if !whole {
            return WordLayout { columns, exact: false };
        }
    }
    WordLayout { columns, exact: true }
}

/// The bits of a type's order-preserving form, and whether they determine the value.
fn width(data_type: &DataType) -> (usize, bool) {
    match data_type {
        DataType::Int8 | DataType::UInt8 => (8, true),
        DataType::Int16 | DataType::UInt16 => (16, true),
        DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Float32 => (32, true),
        DataType::Int64
        | DataType::UInt64
        | DataType::Float64
        | DataType::Timestamp(..)
        | DataType::Duration(_) => (64, true),
        DataType::Decimal128(precision, _) => (64, *precision <= 18),
        _ => (64, false),
    }
}

/// Packs columns one after the other, from the highest bit of the first word down.
struct Packer {
    words: Vec<u64>,
    width: usize,
    /// Bits used so far.
    at: usize,
}

impl Packer {
    fn column(&mut self, array: &dyn Array, column: &PackedColumn) {
        macro_rules! order {
            ($type:ty, $order:expr) => {{
                let values = array.as_primitive::<$type>().values();
                self.pack(array, column, |row| $order(values[row]))
            }};
        }
        match array.data_type() {
            DataType::Int8 => order!(Int8Type, |value: i8| ordered(i64::from(value) << 56)),
            DataType::Int16 => order!(Int16Type, |value: i16| ordered(i64::from(value) << 48)),
            DataType::Int32 => order!(Int32Type, |value: i32| ordered(i64::from(value) << 32)),
            DataType::Date32 => order!(Date32Type, |value: i32| ordered(i64::from(value) << 32)),
            DataType::Int64 => order!(Int64Type, ordered),
            DataType::Timestamp(..) => order!(TimestampMicrosecondType, ordered),
            DataType::Duration(_) => order!(DurationMicrosecondType, ordered),
            DataType::UInt8 => order!(UInt8Type, |value: u8| u64::from(value) << 56),
            DataType::UInt16 => order!(UInt16Type, |value: u16| u64::from(value) << 48),
            DataType::UInt32 => order!(UInt32Type, |value: u32| u64::from(value) << 32),
            DataType::UInt64 => order!(UInt64Type, |value: u64| value),
            DataType::Float32 => {
                order!(Float32Type, |value: f32| ordered_bits(u64::from(value.to_bits()) << 32))
            }
            DataType::Float64 => order!(Float64Type, |value: f64| ordered_bits(value.to_bits())),
            // Numbers beyond 64 bits are clamped to the nearest that fits; ties are compared.
            DataType::Decimal128(..) => order!(Decimal128Type, |value: i128| ordered(clamp(value))),
            DataType::Decimal256(..) => order!(Decimal256Type, |value: i256| {
                let outermost = if value < i256::ZERO { i128::MIN } else { i128::MAX };
                ordered(clamp(value.to_i128().unwrap_or(outermost)))
            }),
            DataType::Utf8View => {
                let values = array.as_string_view();
                self.pack(array, column, |row| leading(values.value(row).as_bytes()));
            }
            DataType::BinaryView => {
                let values = array.as_binary_view();
                self.pack(array, column, |row| leading(values.value(row)));
            }
            other => unreachable!("no column type is held as {other}"),
        }
    }

    /// Appends the order-preserving bits of each row, highest first. A nullable column has a NULL
    /// bit in front.
    fn pack(&mut self, array: &dyn Array, column: &PackedColumn, order: impl Fn(usize) -> u64) {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let flag = usize::from(column.nullable);
        let (word, bit) = (self.at / WORD_BITS, self.at % WORD_BITS);
        let kept = u128::MAX << (u128::BITS as usize - column.bits);
        for (row, words) in self.words.chunks_exact_mut(self.width).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let ordered = (u128::from(order(row)) << WORD_BITS >> flag) & kept;
            let marked = ordered | (flag as u128) << 127;
            // At most 65 bits after at most 63: they span at most two words.
            let placed = marked >> bit;
            words[word] |= (placed >> WORD_BITS) as u64;
            if let Some(next) = words.get_mut(word + 1) {
                *next |= placed as u64;
            }
        }
        self.at += column.bits;
    }
}

fn ordered(value: i64) -> u64 {
    value.cast_unsigned() ^ SIGN
}

/// The bits of a float as an unsigned integer in the order of `total_cmp`.
fn ordered_bits(bits: u64) -> u64 {
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn clamp(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The first eight bytes, zero-padded; texts with the same first eight bytes are ties.
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

/// Compares whole sort keys of rows of two batches of one schema; NULL sorts first.
pub struct KeyComparator {
    columns: Vec<DynComparator>,
}

impl KeyComparator {
    pub fn new(left: &RecordBatch, right: &RecordBatch, schema: &TableSchema) -> Self {
        Self::of(&KeyColumns::new(left, schema), &KeyColumns::new(right, schema))
    }

    /// The same of rows whose key columns are known.
    pub fn of(left: &KeyColumns, right: &KeyColumns) -> Self {
        let options = SortOptions { descending: false, nulls_first: true };
        let compare = |(left, right): (&ArrayRef, &ArrayRef)| {
            make_comparator(left, right, options).expect("both have the columns of one key")
        };
        Self { columns: left.columns.iter().zip(&right.columns).map(compare).collect() }
    }

    /// Compares row `left` of the left batch with row `right` of the right one.
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
