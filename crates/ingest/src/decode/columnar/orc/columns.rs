//! The values of a column in a stripe of an ORC file, as columns of batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{Field, Fields, UInt32Type};
use arrow::error::ArrowError;
use freshet_base::{Error, Result, bail, err};
use freshet_schema::nested::{ITEM, KEY, VALUE};
use freshet_schema::{DECIMAL_PRECISION_MAX, Zone};

use super::footer::{Column, Kind, Part, StripeFooter};
use super::runs::{BitRuns, ByteRuns, IntRuns};
use super::stream::{Packed, Stream};
use super::{ROW_BYTES_MAX, damaged};
use crate::decode::columnar::FileBytes;

/// The texts of a dictionary, at most.
const DICTIONARY_BYTES_MAX: usize = 256 << 20;
/// 2015-01-01 00:00:00, from which times are counted, in seconds since 1970.
const EPOCH_SECONDS: i64 = 1_420_070_400;
const MICROS: i64 = 1_000_000;
/// The memory of a value in a batch, and of one in a dictionary.
const VALUE_BYTES: u64 = 24;
/// The memory of a reader beside its streams.
const READER_BYTES: u64 = 1 << 10;

/// A column that is being read.
pub struct Reader {
    /// The bits of rows that are not NULL; without them none is.
    present: Option<BitRuns>,
    values: Values,
    /// Of texts, lists, maps and structs, the lengths of the next values that were looked at: 0 of
    /// a struct.
    ready: VecDeque<Option<usize>>,
    /// What the next rows take that were looked at; of columns that stand in no other.
    row_bytes: VecDeque<u64>,
}

enum Values {
    Bits(BitRuns),
    Bytes(ByteRuns),
    Ints(IntRuns),
    Dates(IntRuns),
    Floats(Stream),
    Doubles(Stream),
    Texts {
        lengths: IntRuns,
        data: Stream,
        is_binary: bool,
    },
    Dictionary {
        keys: IntRuns,
        texts: ArrayRef,
    },
    Decimals {
        data: Stream,
        scales: IntRuns,
        precision: u8,
        scale: i8,
    },
    Moments {
        seconds: IntRuns,
        nanos: IntRuns,
        /// In which they are local times; `None` for instants.
        zone: Option<Zone>,
    },
    List {
        lengths: IntRuns,
        item: Box<Reader>,
    },
    Map {
        lengths: IntRuns,
        both: Box<[Reader; 2]>,
    },
    /// The names and values of its fields.
    Struct(Vec<(String, Reader)>),
}

/// The memory that a column of a stripe takes: its streams, and dictionaries.
pub fn memory_bytes(column: &Column, footer: &StripeFooter, packed: Packed, rows: u64) -> u64 {
    let streams = footer.lengths(column.number).map(|bytes| packed.stream_bytes(bytes));
    let encoding = footer.encoding(column.number);
    let dictionary = match encoding.is_dictionary {
        true => {
            let range = footer.range(column.number, Part::DictionaryData).unwrap_or(0..0);
            // Texts are unpacked to as many bytes as there are blocks for, at most.
            let bytes = range.end - range.start;
            let blocks = match packed.packing {
                super::stream::Packing::None => bytes,
                _ => bytes.div_ceil(4).saturating_mul(packed.block_bytes as u64),
            };
            let texts = blocks.min(DICTIONARY_BYTES_MAX as u64);
            texts.saturating_add(encoding.dictionary_size.saturating_mul(VALUE_BYTES))
        }
        false => 0,
    };
    let own = dictionary.saturating_add(rows * VALUE_BYTES + READER_BYTES);
    let inside = column.inside.iter().map(|column| memory_bytes(column, footer, packed, 0));
    streams.chain(inside).fold(own, u64::saturating_add)
}

impl Reader {
    /// # Errors
    /// When the column's streams are damaged.
    pub fn new(
        column: &Column,
        footer: &StripeFooter,
        file: &FileBytes,
        packed: Packed,
    ) -> Result<Self> {
        let stream = |part| match footer.range(column.number, part) {
            Some(range) => Stream::new(file, packed, range),
            None => Stream::empty(file, packed),
        };
        let encoding = footer.encoding(column.number);
        let ints = |part, signed| IntRuns::new(stream(part), encoding.is_new, signed);
        let present = footer.range(column.number, Part::Present);
        let present = present.map(|range| BitRuns::new(Stream::new(file, packed, range)));
        let values = match column.kind {
            Kind::Boolean => Values::Bits(BitRuns::new(stream(Part::Data))),
            Kind::Byte => Values::Bytes(ByteRuns::new(stream(Part::Data))),
            Kind::Int => Values::Ints(ints(Part::Data, true)),
            Kind::Date => Values::Dates(ints(Part::Data, true)),
            Kind::Float => Values::Floats(stream(Part::Data)),
            Kind::Double => Values::Doubles(stream(Part::Data)),
            Kind::Text if encoding.is_dictionary => Values::Dictionary {
                texts: dictionary(
                    ints(Part::Length, false),
                    encoding.dictionary_size,
                    stream(Part::DictionaryData),
                )?,
                keys: ints(Part::Data, false),
            },
            Kind::Text | Kind::Binary => Values::Texts {
                lengths: ints(Part::Length, false),
                data: stream(Part::Data),
                is_binary: column.kind == Kind::Binary,
            },
            Kind::Decimal { precision, scale } => {
                let (data, scales) = (stream(Part::Data), ints(Part::Secondary, true));
                Values::Decimals { data, scales, precision, scale }
            }
            Kind::Moment { is_instant } => Values::Moments {
                seconds: ints(Part::Data, true),
                nanos: ints(Part::Secondary, false),
                zone: (!is_instant).then_some(footer.zone),
            },
            Kind::List | Kind::Map | Kind::Struct => {
                let inside = column.inside.iter();
                let inside = inside.map(|column| Self::new(column, footer, file, packed));
                let inside = inside.collect::<Result<Vec<_>>>()?;
                nested(column, inside, ints(Part::Length, false))?
            }
            Kind::Other => bail!(Internal, "unions are not read"),
        };
        Ok(Self { present, values, ready: VecDeque::new(), row_bytes: VecDeque::new() })
    }

    /// Looks at the next rows, and keeps of `rows` as many as take `bytes_max`; at least one, which
    /// may take more alone.
    ///
    /// # Errors
    /// When the streams end too early, or are damaged, or a row is too long.
    pub fn fitting(&mut self, rows: usize, bytes_max: u64) -> Result<usize> {
        if self.heads().is_none() {
            return Ok(rows);
        }
        let mut bytes = 0_u64;
        for row in 0..rows {
            if row == self.row_bytes.len() {
                let row_bytes = self.look()?;
                self.row_bytes.push_back(row_bytes);
            }
            bytes = bytes.saturating_add(self.row_bytes[row]);
            if bytes > bytes_max && row > 0 {
                return Ok(row);
            }
        }
        Ok(rows)
    }

    /// What the next row takes, if it was looked at.
    pub fn next_bytes(&self) -> u64 {
        self.row_bytes.front().copied().unwrap_or(0)
    }

    /// The lengths in front of its values; `Some(None)` of a struct, which has none.
    fn heads(&mut self) -> Option<Option<&mut IntRuns>> {
        match &mut self.values {
            Values::Texts { lengths, .. }
            | Values::List { lengths, .. }
            | Values::Map { lengths, .. } => Some(Some(lengths)),
            Values::Struct(_) => Some(None),
            _ => None,
        }
    }

    /// Looks at one more value and what is inside it: the bytes that it takes.
    fn look(&mut self) -> Result<u64> {
        let is_there = match self.heads() {
            Some(_) => is_present(&mut self.present)?,
            None => return Ok(VALUE_BYTES),
        };
        let length = match self.heads().flatten() {
            Some(lengths) if is_there => lengths.next_length()?,
            _ => 0,
        };
        self.ready.push_back(is_there.then_some(length));
        let mut bytes = VALUE_BYTES;
        let mut add = |some: u64| {
            bytes = bytes.saturating_add(some);
            match bytes <= ROW_BYTES_MAX {
                true => Ok(()),
                false => Err(err!(
                    WrongArguments,
                    "a row of the ORC file takes more than {ROW_BYTES_MAX} bytes"
                )),
            }
        };
        match &mut self.values {
            Values::Texts { .. } => add(length as u64)?,
            Values::List { item, .. } => {
                for _ in 0..length {
                    add(item.look()?)?;
                }
            }
            Values::Map { both, .. } => {
                for _ in 0..length {
                    both.iter_mut().try_for_each(|side| add(side.look()?))?;
                }
            }
            Values::Struct(fields) if is_there => {
                fields.iter_mut().try_for_each(|(_, field)| add(field.look()?))?;
            }
            _ => {}
        }
        Ok(bytes)
    }

    /// The next values, of rows or inside those of another column.
    ///
    /// # Errors
    /// When the streams end too early, or are damaged.
    pub fn read(&mut self, rows: usize) -> Result<ArrayRef> {
        let Self { present, values, ready, row_bytes } = self;
        row_bytes.drain(..rows.min(row_bytes.len()));
        Ok(match values {
            Values::Bits(bits) => {
                Arc::new(each(present, rows, || bits.next())?.collect::<BooleanArray>())
            }
            Values::Bytes(bytes) => {
                let next = || Ok(i64::from(bytes.next()?.cast_signed()));
                Arc::new(each(present, rows, next)?.collect::<Int64Array>())
            }
            Values::Ints(ints) => {
                Arc::new(each(present, rows, || ints.next())?.collect::<Int64Array>())
            }
            Values::Dates(days) => {
                let next = || {
                    i32::try_from(days.next()?).map_err(|_| damaged("a date of it is out of range"))
                };
                Arc::new(each(present, rows, next)?.collect::<Date32Array>())
            }
            Values::Floats(stream) => {
                let next = || Ok(f32::from_le_bytes(stream.array()?));
                Arc::new(each(present, rows, next)?.collect::<Float32Array>())
            }
            Values::Doubles(stream) => {
                let next = || Ok(f64::from_le_bytes(stream.array()?));
                Arc::new(each(present, rows, next)?.collect::<Float64Array>())
            }
            Values::Texts { data, is_binary, .. } => {
                let lengths = ready.drain(..rows).collect::<Vec<_>>();
                texts(&lengths, data, *is_binary)?
            }
            Values::Dictionary { keys, texts } => {
                let count = texts.len() as u64;
                let next = || match keys.next()?.cast_unsigned() {
                    key if key < count => Ok(key as u32),
                    _ => Err(damaged("a text of it is in no dictionary")),
                };
                let keys = each(present, rows, next)?.collect::<UInt32Array>();
                let made = DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(texts));
                Arc::new(made.map_err(|_| damaged("a dictionary of it does not fit its texts"))?)
            }
            Values::Decimals { data, scales, precision, scale } => {
                let next = || decimal(data, scales, *scale);
                let numbers = each(present, rows, next)?.collect::<Decimal128Array>();
                let numbers = numbers.with_precision_and_scale(*precision, *scale);
                Arc::new(numbers.map_err(|_| damaged("a DECIMAL of it has too many digits"))?)
            }
            Values::Moments { seconds, nanos, zone } => {
                let next = || moment(seconds, nanos, *zone);
                let moments = each(present, rows, next)?.collect::<TimestampMicrosecondArray>();
                let utc = zone.is_none().then_some("+00:00");
                Arc::new(moments.with_timezone_opt(utc))
            }
            Values::List { item, .. } => list(&ready.drain(..rows).collect::<Vec<_>>(), item)?,
            Values::Map { both, .. } => map(&ready.drain(..rows).collect::<Vec<_>>(), both)?,
            Values::Struct(fields) => structure(&ready.drain(..rows).collect::<Vec<_>>(), fields)?,
        })
    }
}

fn nested(column: &Column, inside: Vec<Reader>, lengths: IntRuns) -> Result<Values> {
    let lacking = |_| damaged("a list or map of it lacks types");
    Ok(match column.kind {
        Kind::List => {
            let [item] = <[Reader; 1]>::try_from(inside).map_err(lacking)?;
            Values::List { lengths, item: Box::new(item) }
        }
        Kind::Map => {
            let both = <[Reader; 2]>::try_from(inside).map_err(lacking)?;
            Values::Map { lengths, both: Box::new(both) }
        }
        _ => {
            let names = column.inside.iter().map(|column| column.name.clone());
            Values::Struct(names.zip(inside).collect())
        }
    })
}

fn is_present(present: &mut Option<BitRuns>) -> Result<bool> {
    match present {
        Some(bits) => bits.next(),
        None => Ok(true),
    }
}

/// The values of rows, or NULL.
fn each<T>(
    present: &mut Option<BitRuns>,
    rows: usize,
    mut next: impl FnMut() -> Result<T>,
) -> Result<std::vec::IntoIter<Option<T>>> {
    let mut values = Vec::with_capacity(rows);
    for _ in 0..rows {
        values.push(if is_present(present)? { Some(next()?) } else { None });
    }
    Ok(values.into_iter())
}

fn nulls_of(lengths: &[Option<usize>]) -> Option<NullBuffer> {
    let nulls = lengths.iter().map(Option::is_some).collect::<NullBuffer>();
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

/// Where values of these lengths end, one behind the other. They were looked at, so all of them are
/// within the bytes of a batch.
fn ends_of(lengths: &[Option<usize>]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(lengths.iter().map(|one| one.unwrap_or(0)))
}

fn list(lengths: &[Option<usize>], item: &mut Reader) -> Result<ArrayRef> {
    let ends = ends_of(lengths);
    let items = item.read(ends[lengths.len()] as usize)?;
    let field = Field::new(ITEM, items.data_type().clone(), true);
    let list = ListArray::try_new(field.into(), ends, items, nulls_of(lengths));
    Ok(Arc::new(list.map_err(unfit)?))
}

fn map(lengths: &[Option<usize>], both: &mut [Reader; 2]) -> Result<ArrayRef> {
    let ends = ends_of(lengths);
    let count = ends[lengths.len()] as usize;
    let [keys, values] = both;
    let (keys, values) = (keys.read(count)?, values.read(count)?);
    if keys.null_count() > 0 {
        return Err(damaged("a key of a map of it is NULL"));
    }
    let fields = Fields::from(vec![
        Field::new(KEY, keys.data_type().clone(), false),
        Field::new(VALUE, values.data_type().clone(), true),
    ]);
    let entries = StructArray::try_new(fields, vec![keys, values], None).map_err(unfit)?;
    let field = Field::new("entries", entries.data_type().clone(), false);
    let map = MapArray::try_new(field.into(), ends, entries, nulls_of(lengths), false);
    Ok(Arc::new(map.map_err(unfit)?))
}

/// A struct that is NULL has no values in its fields.
fn structure(heads: &[Option<usize>], fields: &mut [(String, Reader)]) -> Result<ArrayRef> {
    let mut count = 0_u32;
    let places = heads.iter().map(|head| {
        let place = head.is_some().then_some(count);
        count += u32::from(head.is_some());
        place
    });
    let places = places.collect::<UInt32Array>();
    let (mut named, mut arrays) = (Vec::new(), Vec::new());
    for (name, field) in fields {
        let values = field.read(count as usize)?;
        let values = match heads.len() == values.len() {
            true => values,
            false => take(&values, &places, None).map_err(unfit)?,
        };
        named.push(Field::new(name.as_str(), values.data_type().clone(), true));
        arrays.push(values);
    }
    let made = StructArray::try_new_with_length(named.into(), arrays, nulls_of(heads), heads.len());
    Ok(Arc::new(made.map_err(unfit)?))
}

fn unfit(error: ArrowError) -> Error {
    damaged(&error.to_string())
}

fn texts(lengths: &[Option<usize>], data: &mut Stream, is_binary: bool) -> Result<ArrayRef> {
    let (nulls, offsets) = (nulls_of(lengths), ends_of(lengths));
    let mut bytes = Vec::new();
    data.read(offsets[offsets.len() - 1] as usize, &mut bytes)?;
    let bytes = Buffer::from_vec(bytes);
    Ok(match is_binary {
        true => Arc::new(BinaryArray::new(offsets, bytes, nulls)),
        false => match StringArray::try_new(offsets, bytes, nulls) {
            Ok(texts) => Arc::new(texts),
            Err(_) => return Err(damaged("a text of it is no UTF-8")),
        },
    })
}

fn dictionary(mut lengths: IntRuns, count: u64, data: Stream) -> Result<ArrayRef> {
    let bytes = data.all(DICTIONARY_BYTES_MAX)?;
    let mut ends = vec![0_i32];
    let mut end = 0_usize;
    for _ in 0..count {
        end = end.saturating_add(lengths.next_length()?);
        if end > bytes.len() {
            return Err(damaged("a dictionary of it is longer than its texts"));
        }
        ends.push(end as i32);
    }
    let texts = StringArray::try_new(OffsetBuffer::new(ends.into()), bytes.into(), None);
    Ok(Arc::new(texts.map_err(|_| damaged("a text of it is no UTF-8"))?))
}

/// A number with a scale of its own, in that of its column.
fn decimal(data: &mut Stream, scales: &mut IntRuns, wanted: i8) -> Result<i128> {
    let too_long = || damaged("a DECIMAL of it has too many digits");
    let number = data.wide_varint()?;
    let number = (number >> 1).cast_signed() ^ (number & 1).cast_signed().wrapping_neg();
    let apart = i64::from(wanted) - scales.next()?;
    let digits = u32::try_from(apart.unsigned_abs()).unwrap_or(u32::MAX);
    let power = 10_i128.checked_pow(digits).ok_or_else(too_long)?;
    let number = if apart < 0 { Some(number / power) } else { number.checked_mul(power) };
    let limit = 10_u128.pow(DECIMAL_PRECISION_MAX.into());
    number.filter(|number| number.unsigned_abs() < limit).ok_or_else(too_long)
}

/// Microseconds since 1970, of local time or of UTC.
fn moment(seconds: &mut IntRuns, nanos: &mut IntRuns, zone: Option<Zone>) -> Result<i64> {
    let out_of_range = || damaged("a time of it is out of range");
    let (apart, packed) = (seconds.next()?, nanos.next()?.cast_unsigned());
    // The last three bits say how many zeros were cut off, less one.
    let nanos = match packed & 7 {
        0 => Some(packed >> 3),
        zeros => (packed >> 3).checked_mul(10_u64.pow(zeros as u32 + 1)),
    };
    let nanos = nanos.filter(|nanos| *nanos < 1_000_000_000).ok_or_else(out_of_range)?;
    let epoch = match zone {
        Some(zone) => zone.to_utc_or_skip(EPOCH_SECONDS * MICROS) / MICROS,
        None => EPOCH_SECONDS,
    };
    let mut seconds = apart.checked_add(epoch).ok_or_else(out_of_range)?;
    // Writers round towards zero there.
    if seconds < 0 && nanos > 999_999 {
        seconds -= 1;
    }
    let micros = seconds.checked_mul(MICROS).and_then(|all| all.checked_add(nanos as i64 / 1000));
    let micros = micros.ok_or_else(out_of_range)?;
    // Far beyond what a DATETIME has; zones are known for less.
    if micros.unsigned_abs() > 400_000_000_000 * MICROS.unsigned_abs() {
        return Err(out_of_range());
    }
    Ok(zone.map_or(micros, |zone| zone.to_local(micros)))
}
