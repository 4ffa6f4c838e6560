//! Columns of a body whose values all fit their column of the table.

use freshet_schema::Column;
use freshet_schema::row::{DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN};
use freshet_schema::value::LocalDateTime;

use super::cells::{Cells, micros};
use crate::decode::StoredValues;

/// The values of `cells` as rows hold them, if all of them are of the type of `column` and fit it.
pub(super) fn stored(cells: &Cells, column: &Column) -> Option<StoredValues> {
    match cells {
        Cells::Int(values) => StoredValues::of_ints(values, column),
        Cells::Decimal(values) => StoredValues::of_decimals(values, column),
        Cells::Date(values) => StoredValues::of_days(values, column, &(DAYS_MIN..=DAYS_MAX)),
        Cells::Moment(values, unit, false) => {
            let moment = |number: i64| {
                let (micros, round_up) = micros(number, *unit);
                let micros = micros.filter(|of| (MICROS_MIN..=MICROS_MAX).contains(of))?;
                Some(LocalDateTime { round_up, ..LocalDateTime::from_micros(micros) })
            };
            StoredValues::of_moments(values, column, moment)
        }
        Cells::Text(values) => StoredValues::of_texts(values, column),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringViewArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };
    use freshet_schema::{ColumnType, Rules, TableSchema};

    use super::super::batch::BatchEncoder;
    use super::*;
    use crate::decode::SourcePlan;
    use crate::decode::testing::{schema, show};

    fn table() -> Arc<TableSchema> {
        schema(&[
            ("i", ColumnType::Int { unsigned: false }, true),
            ("l", ColumnType::BigInt { unsigned: false }, true),
            ("b", ColumnType::TinyInt { unsigned: true }, true),
            ("h", ColumnType::SmallInt { unsigned: false }, true),
            ("u", ColumnType::Int { unsigned: true }, true),
            ("n", ColumnType::Decimal { precision: 18, scale: 2 }, true),
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
        let bytes = [Some(255), None, Some(0), Some(256)];
        let shorts = [Some(-32_768), None, Some(32_767), Some(32_768)];
        let large = [Some(4_294_967_295), None, Some(0), Some(-1)];
        let decimals = [Some(-(10i128.pow(18) - 1)), None, Some(5), Some(10i128.pow(18))];
        let decimals = Decimal128Array::from(decimals[..rows].to_vec());
        let days = [Some(-719_528), None, Some(19_000), Some(i32::MAX)];
        let nanos = [Some(1_499_999_999), None, Some(-1), Some(0)];
        let micros = [Some(1_499_999), None, Some(-62_167_219_200_000_000), Some(i64::MAX)];
        let texts = [Some("\u{e9}\u{e9}x"), None, Some(""), Some("too long")];
        let columns: [(&str, ArrayRef); 11] = [
            ("i", Arc::new(Int64Array::from(ints[..rows].to_vec()))),
            ("l", Arc::new(Int64Array::from(longs[..rows].to_vec()))),
            ("b", Arc::new(Int64Array::from(bytes[..rows].to_vec()))),
            ("h", Arc::new(Int64Array::from(shorts[..rows].to_vec()))),
            ("u", Arc::new(Int64Array::from(large[..rows].to_vec()))),
            ("n", Arc::new(decimals.with_precision_and_scale(38, 2).unwrap())),
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
        encoder.begin(batch, &(0..11).collect::<Vec<_>>()).unwrap();
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
                stored(&cells, column).is_some()
            };
            assert!(of(&fitting), "{}", column.name);
            // Of these any value fits.
            assert_eq!(of(&mixed), ["l", "s", "t"].contains(&&*column.name), "{}", column.name);
        }
        let (plain, rows) = encode(&fitting);
        assert_eq!(rows, 3);
        let shown = show(&table(), &plain, 3);
        let first = "-7|-9223372036854775808|255|-32768|4294967295|-9999999999999999.99|\
                     0000-01-01|1970-01-01T00:00:01|1970-01-01T00:00:01.499999|\u{e9}\u{e9}x|\
                     \u{e9}\u{e9}x";
        assert_eq!(shown[..2], [first, "-|-|-|-|-|-|-|-|-|-|-"]);
        assert_eq!(encode(&mixed), (plain, 3));
    }
}
