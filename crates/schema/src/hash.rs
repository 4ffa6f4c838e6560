//! The tablet of a row: the bucket hash.
//!
//! Files on disk are distributed by this hash, so it must never change. A row's hash starts at
//! `SEED`; each distribution column, in order, turns it into `fold(hash ^ word, MULTIPLIER)` for
//! each 64-bit word of its value. Integers, dates and times are one word, sign extended, so that a
//! wider type has the same hash; DECIMAL and LARGEINT are the two words of their unscaled 128 bits,
//! low first; text and bytes are their length and then their bytes, eight to a little-endian word,
//! the last padded with zeros; texts that keys have by weights are the bytes of these; NULL is
//! `NULL_WORD`. `fold` is the upper half of the 128-bit product
//! xor the lower. The bucket is the hash scaled to the number of buckets: `hash * buckets >> 64`.
//! A part of a moment is one word, its number; where it is all that divides the rows, the bucket is
//! the number modulo the number of buckets, so that periods that follow each other lie apart. The
//! same is so of the number of an expression, without its sign.

use std::hash::Hasher;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use freshet_base::ColumnId;

use crate::key::key_values;
use crate::{Distribution, TableSchema};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;
const NULL_WORD: u64 = 0x5851_f42d_4c95_7f2d;

/// What says in which bucket rows are, however many buckets a partition has.
pub enum Places {
    /// Of the first row; those behind it follow in turn.
    Turn(u64),
    /// The hash of each row.
    Hashes(Vec<u64>),
    /// The number of each row.
    Numbers(Vec<u64>),
}

/// What says in which bucket a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Hash(u64),
    Number(u64),
}

impl Place {
    /// The bucket, of so many.
    pub fn bucket(self, buckets: u32) -> u32 {
        match self {
            Self::Hash(hash) => ((u128::from(hash) * u128::from(buckets)) >> 64) as u32,
            Self::Number(number) => (number % u64::from(buckets)) as u32,
        }
    }
}

impl Places {
    /// Those of the rows of `batch`, which has the columns of `schema`. `turn` offsets the rows of
    /// RANDOM tables so that small loads spread over all tablets; callers pass the number of rows
    /// flushed before.
    pub fn new(
        batch: &RecordBatch,
        schema: &TableSchema,
        distribution: &Distribution,
        turn: u64,
    ) -> Self {
        let values = |id: ColumnId| {
            let at = schema.position_of(id).expect("a distribution column is never dropped");
            key_values(batch.column(at), &schema.columns[at])
        };
        let mut hashes = vec![SEED; batch.num_rows()];
        match (distribution, distribution.part_alone()) {
            (Distribution::Random, _) => return Self::Turn(turn),
            (_, Some((id, part))) => return Self::Numbers(part.numbers(&values(id))),
            (Distribution::Computed(expr), None) => {
                return Self::Numbers(expr.numbers_of(&values(expr.numbers.id)));
            }
            (Distribution::Hash(columns), None) => {
                columns.iter().for_each(|id| add_column(&mut hashes, &values(*id)));
            }
            (Distribution::Parts(parts), None) => {
                for (id, part) in parts {
                    match part {
                        None => add_column(&mut hashes, &values(*id)),
                        Some(part) => {
                            let numbers = part.numbers(&values(*id)).into_iter();
                            let hashed = hashes.iter_mut().zip(numbers);
                            hashed.for_each(|(hash, number)| *hash = fold(*hash, number));
                        }
                    }
                }
            }
        }
        Self::Hashes(hashes)
    }

    /// What says in which bucket a row is; `None` of rows that follow in turn.
    pub fn place(&self, row: usize) -> Option<Place> {
        match self {
            Self::Turn(_) => None,
            Self::Hashes(hashes) => Some(Place::Hash(hashes[row])),
            Self::Numbers(numbers) => Some(Place::Number(numbers[row])),
        }
    }

    /// The index of a row's tablet among the `buckets` of its partition.
    pub fn bucket(&self, row: usize, buckets: u32) -> u32 {
        assert!(buckets > 0, "a partition has a bucket");
        let of = u64::from(buckets);
        match self {
            Self::Turn(turn) => ((turn % of + row as u64) % of) as u32,
            Self::Hashes(hashes) => Place::Hash(hashes[row]).bucket(buckets),
            Self::Numbers(numbers) => Place::Number(numbers[row]).bucket(buckets),
        }
    }
}

/// A hash of each row as a whole, to be compared within a process: unlike that of a bucket, it may
/// change, and reads texts many words at a time.
pub fn of_rows(batch: &RecordBatch) -> Vec<u64> {
    let mut hashes = vec![SEED; batch.num_rows()];
    let columns = batch.columns().iter();
    columns.for_each(|column| add_column_by(&mut hashes, column.as_ref(), quick));
    hashes
}

fn quick(hash: u64, bytes: &[u8]) -> u64 {
    let mut hasher = FoldHasher::with_seed(hash, SharedSeed::global_fixed());
    hasher.write(bytes);
    fold(hasher.finish(), bytes.len() as u64)
}

fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (product >> 64) as u64 ^ product as u64
}

fn add_column(hashes: &mut [u64], array: &dyn Array) {
    add_column_by(hashes, array, bytes);
}

/// Adds the values of a column, texts by `of_bytes`.
fn add_column_by(hashes: &mut [u64], array: &dyn Array, of_bytes: impl Fn(u64, &[u8]) -> u64) {
    macro_rules! words {
        ($type:ty, $word:expr) => {{
            let values = array.as_primitive::<$type>().values();
            add(hashes, array, |hash, row| fold(hash, $word(values[row])))
        }};
    }
    match array.data_type() {
        DataType::Int8 => words!(Int8Type, |value| i64::from(value).cast_unsigned()),
        DataType::Int16 => words!(Int16Type, |value| i64::from(value).cast_unsigned()),
        DataType::Int32 => words!(Int32Type, |value| i64::from(value).cast_unsigned()),
        DataType::Int64 => words!(Int64Type, i64::cast_unsigned),
        DataType::UInt8 => words!(UInt8Type, u64::from),
        DataType::UInt16 => words!(UInt16Type, u64::from),
        DataType::UInt32 => words!(UInt32Type, u64::from),
        DataType::UInt64 => words!(UInt64Type, |value| value),
        DataType::Date32 => words!(Date32Type, |value| i64::from(value).cast_unsigned()),
        DataType::Timestamp(..) => words!(TimestampMicrosecondType, i64::cast_unsigned),
        DataType::Duration(_) => words!(DurationMicrosecondType, i64::cast_unsigned),
        DataType::Float32 => words!(Float32Type, |value| u64::from(f32::to_bits(value))),
        DataType::Float64 => words!(Float64Type, f64::to_bits),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            add(hashes, array, |hash, row| wide(hash, values[row]));
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            add(hashes, array, |hash, row| wide(hash, values[row].as_i128()));
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            add(hashes, array, |hash, row| of_bytes(hash, values.value(row).as_bytes()));
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            add(hashes, array, |hash, row| of_bytes(hash, values.value(row)));
        }
        other => unreachable!("no column type is held as {other}"),
    }
}

fn add(hashes: &mut [u64], array: &dyn Array, next: impl Fn(u64, usize) -> u64) {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let hashes = hashes.iter_mut().enumerate();
    match nulls {
        None => hashes.for_each(|(row, hash)| *hash = next(*hash, row)),
        Some(nulls) => hashes.for_each(|(row, hash)| {
            *hash = if nulls.is_null(row) { fold(*hash, NULL_WORD) } else { next(*hash, row) };
        }),
    }
}

fn wide(hash: u64, value: i128) -> u64 {
    fold(fold(hash, value as u64), (value >> 64) as u64)
}

fn bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(fold(hash, bytes.len() as u64), |hash, word| fold(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(hash, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewArray};

    use super::*;

    fn hash_of(array: ArrayRef) -> Vec<u64> {
        let mut hashes = vec![SEED; array.len()];
        add_column(&mut hashes, array.as_ref());
        hashes
    }

    #[test]
    fn the_hash_is_the_one_on_disk() {
        let numbers = hash_of(Arc::new(Int64Array::from(vec![Some(0), Some(1), None])));
        let texts = hash_of(Arc::new(StringViewArray::from(vec!["", "freshet", "freshet water"])));
        assert_eq!(numbers, NUMBERS_ON_DISK);
        assert_eq!(texts, TEXTS_ON_DISK);
    }

    const NUMBERS_ON_DISK: [u64; 3] =
        [14_544_503_408_999_129_173, 17_506_462_009_081_979_429, 8_265_736_850_931_050_101];
    const TEXTS_ON_DISK: [u64; 3] =
        [14_544_503_408_999_129_173, 13_138_510_473_506_116_476, 14_927_305_572_495_498_472];

    #[test]
    fn wider_integers_hash_alike() {
        let narrow = hash_of(Arc::new(Int32Array::from(vec![-5, 5])));
        assert_eq!(narrow, hash_of(Arc::new(Int64Array::from(vec![-5, 5]))));
    }

    #[test]
    fn consecutive_keys_fill_all_buckets_evenly() {
        let hashes = hash_of(Arc::new(Int64Array::from_iter_values(0..10_000)));
        for buckets in [2, 7, 10, 48] {
            let mut counts = vec![0u32; buckets as usize];
            for &hash in &hashes {
                counts[Place::Hash(hash).bucket(buckets) as usize] += 1;
            }
            let fair = 10_000 / buckets;
            assert!(counts.iter().all(|&n| n > fair * 7 / 10 && n < fair * 13 / 10), "{counts:?}");
        }
    }
}
