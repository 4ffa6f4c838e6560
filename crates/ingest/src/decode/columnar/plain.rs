//! Columns of a body whose values all fit their column of the table: they are looked at together,
//! and then written as they stand, row by row.

use arrow::array::{Array, ArrowPrimitiveType, PrimitiveArray, StringViewArray};
use arrow::buffer::NullBuffer;
use freshet_schema::row::{DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN, put_bytes};
use freshet_schema::value::LocalDateTime;
use freshet_schema::{Column, ColumnType, TEXT_BYTES_MAX};

use super::cells::{Cells, micros};
use crate::decode::{Fault, RowEncoder};

/// The values of such a column.
pub(super) struct Plain {
    values: Values,
    /// If there are any.
    nulls: Option<NullBuffer>,
}

/// As rows hold them.
enum Values {
    Four(Vec<[u8; 4]>),
    Eight(Vec<[u8; 8]>),
    Text(StringViewArray),
}

impl Plain {
    /// The values of `cells`, if all of them are of the type of `column` and fit it. Others are
    /// converted one by one, each with an error of its own.
    pub fn of(cells: &Cells, column: &Column) -> Option<Self> {
        let (values, nulls) = match (cells, column.ty) {
            (Cells::Int(values), ColumnType::Int { unsigned: false }) => {
                let stored = |value: i64| i32::try_from(value).ok().map(i32::to_le_bytes);
                (Values::Four(all(values, stored)?), values.nulls())
            }
            (Cells::Int(values), ColumnType::BigInt { unsigned: false }) => (
                Values::Eight(all(values, |value: i64| Some(value.to_le_bytes()))?),
                values.nulls(),
            ),
            (Cells::Date(values), ColumnType::Date) => {
                let is_date = |days: &i32| (DAYS_MIN..=DAYS_MAX).contains(days);
                let stored = |days: i32| Some(days).filter(is_date).map(i32::to_le_bytes);
                (Values::Four(all(values, stored)?), values.nulls())
            }
            (Cells::Moment(values, unit, false), ColumnType::DateTime { fsp }) => {
                let stored = |number: i64| {
                    let (micros, round_up) = micros(number, *unit);
                    let micros = micros.filter(|of| (MICROS_MIN..=MICROS_MAX).contains(of))?;
                    let moment = LocalDateTime { round_up, ..LocalDateTime::from_micros(micros) };
                    moment.micros_rounded(fsp).map(i64::to_le_bytes)
                };
                (Values::Eight(all(values, stored)?), values.nulls())
            }
            (Cells::Text(values), ColumnType::VarChar { .. } | ColumnType::Text) => {
                let limit = match column.ty {
                    ColumnType::VarChar { len } => len,
                    _ => TEXT_BYTES_MAX,
                };
                // A text has no more characters than bytes.
                if cells.value_bytes_max() > limit as usize {
                    return None;
                }
                (Values::Text(values.clone()), values.nulls())
            }
            _ => return None,
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0).cloned();
        Some(Self { values, nulls })
    }

    /// Writes the value of a row as the next one of `encoder`.
    #[inline]
    pub fn put(&self, row: usize, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return encoder.put_null();
        }
        match &self.values {
            Values::Four(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Eight(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Text(texts) => {
                encoder.put_stored(|out| put_bytes(out, texts.value(row).as_bytes()))
            }
        }
    }
}

/// All values as rows hold them; `None` if there is one that `stored` has no form for. What stands
/// in the place of a NULL is nothing.
fn all<T: ArrowPrimitiveType, const BYTES: usize>(
    values: &PrimitiveArray<T>,
    stored: impl Fn(T::Native) -> Option<[u8; BYTES]>,
) -> Option<Vec<[u8; BYTES]>> {
    let cell = |(at, &value): (usize, &T::Native)| match stored(value) {
        None if values.is_null(at) => Some([0; BYTES]),
        cell => cell,
    };
    values.values().iter().enumerate().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
        TimestampNanosecondArray,
    };
    use freshet_schema::{Rules, TableSchema};

    use super::super::batch::BatchEncoder;
    use super::*;
    use crate::decode::SourcePlan;
    use crate::decode::testing::{schema, show};

    fn table() -> Arc<TableSchema> {
        schema(&[
            ("i", ColumnType::Int { unsigned: false }, true),
            ("l", ColumnType::BigInt { unsigned: false }, true),
            ("d", ColumnType::Date, true),
            ("s", ColumnType::DateTime { fsp: 0 }, true),
            ("m", ColumnType::DateTime { fsp: 6 }, true),
            ("v", ColumnType::VarChar { len: 5 }, true),
            ("t", ColumnType::Text, true),
        ])
    }

    /// The rows `0..3`, and a fourth one that does not fit.
    fn batch(rows: usize) -> RecordBatch {
        let ints = [Some(-7), None, Some(i64::from(i32::MAX)), Some(1 << 40)];
        let longs = [Some(i64::MIN), None, Some(5), Some(6)];
        let days = [Some(-719_528), None, Some(19_000), Some(i32::MAX)];
        let nanos = [Some(1_499_999_999), None, Some(-1), Some(0)];
        let micros = [Some(1_499_999), None, Some(-62_167_219_200_000_000), Some(i64::MAX)];
        let texts = [Some("\u{e9}\u{e9}x"), None, Some(""), Some("too long")];
        let columns: [(&str, ArrayRef); 7] = [
            ("i", Arc::new(Int64Array::from(ints[..rows].to_vec()))),
            ("l", Arc::new(Int64Array::from(longs[..rows].to_vec()))),
            ("d", Arc::new(Date32Array::from(days[..rows].to_vec()))),
            ("s", Arc::new(TimestampNanosecondArray::from(nanos[..rows].to_vec()))),
            ("m", Arc::new(TimestampMicrosecondArray::from(micros[..rows].to_vec()))),
            ("v", Arc::new(StringViewArray::from(texts[..rows].to_vec()))),
            ("t", Arc::new(StringViewArray::from(texts[..rows].to_vec()))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    fn encode(batch: &RecordBatch) -> (Vec<u8>, usize) {
        let rules = Rules::default();
        let names = None::<&[&str]>;
        let source = Arc::new(SourcePlan::new(&table(), names, 0, &rules).unwrap());
        let mut encoder = BatchEncoder::new(&source, &rules);
        encoder.begin(batch, &(0..7).collect::<Vec<_>>()).unwrap();
        let (mut out, until) = (Vec::new(), encoder.step_end());
        encoder.encode(&mut out, until).unwrap();
        assert!(encoder.is_idle());
        let rows = encoder.rows();
        (out, rows)
    }

    #[test]
    fn rows_are_the_same_whether_all_values_fit_or_not() {
        let (fitting, mixed) = (batch(3), batch(4));
        for (at, column) in table().columns.iter().enumerate() {
            let of = |batch: &RecordBatch| {
                let zone = Rules::default().zone;
                let cells = Cells::of(&column.name, batch.column(at), zone).unwrap();
                Plain::of(&cells, column).is_some()
            };
            assert!(of(&fitting), "{}", column.name);
            // Of these any value fits.
            assert_eq!(of(&mixed), ["l", "s", "t"].contains(&&*column.name), "{}", column.name);
        }
        let (plain, rows) = encode(&fitting);
        assert_eq!(rows, 3);
        let shown = show(&table(), &plain, 3);
        let first = "-7|-9223372036854775808|0000-01-01|1970-01-01T00:00:01|\
                     1970-01-01T00:00:01.499999|\u{e9}\u{e9}x|\u{e9}\u{e9}x";
        assert_eq!(shown[..2], [first, "-|-|-|-|-|-|-"]);
        assert_eq!(encode(&mixed), (plain, 3));
    }
}
