//! Cells as text, for messages that name a value.

use super::temporal::date_of;
use super::{Literal, LocalDateTime, Rules, put, time};
use crate::row::{decimal, fixed};
use crate::{Column, ColumnType, DefaultValue};

/// The text of an encoded cell, as a client would write the value; instants are shown in UTC.
pub fn cell_text(ty: ColumnType, cell: &[u8]) -> String {
    match ty {
        ColumnType::Float => f32::from_bits(fixed(cell) as u32).to_string(),
        ColumnType::Double => f64::from_bits(fixed(cell)).to_string(),
        ColumnType::Decimal { scale, .. } => decimal_text(decimal(cell), usize::from(scale)),
        ColumnType::LargeInt => decimal(cell).to_string(),
        ColumnType::Date => {
            let (year, month, day) = date_of(signed(cell) as i32);
            format!("{year:04}-{month:02}-{day:02}")
        }
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            let text = LocalDateTime::from_micros(signed(cell)).to_string();
            let (second, fraction) = text.split_once('.').unwrap_or((&text, "000000"));
            match usize::from(fsp) {
                0 => second.to_owned(),
                digits => format!("{second}.{}", &fraction[..digits]),
            }
        }
        ColumnType::Time { .. } => time::text(signed(cell)),
        ColumnType::Year => format!("{:04}", fixed(cell)),
        _ if ty.is_unsigned() => fixed(cell).to_string(),
        _ if ty.is_integer() => signed(cell).to_string(),
        _ => String::from_utf8_lossy(cell).into_owned(),
    }
}

/// Bytes in a message, as MySQL has them: what is no printable ASCII as `\x0A`, and without the
/// zero bytes at the end of a BINARY, but for one that is the whole value.
pub fn bytes_text(ty: ColumnType, bytes: &[u8]) -> String {
    let end = match ty {
        ColumnType::Binary { .. } => {
            let last = bytes.iter().rposition(|byte| *byte != 0);
            last.map_or(bytes.len().min(1), |last| last + 1)
        }
        _ => bytes.len(),
    };
    let mut text = String::with_capacity(end);
    for &byte in &bytes[..end] {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02X}")),
        }
    }
    text
}

/// The default of a column as SHOW COLUMNS and information_schema have it, in the form of its type:
/// `0.00` of a DECIMAL(8,2) DEFAULT 0. `None` for NULL or none.
pub fn default_text(column: &Column) -> Option<String> {
    match column.default.as_ref()? {
        DefaultValue::Literal(text) => Some(literal_text(column, text)),
        DefaultValue::Bits(digits) => Some(column.bits_text(digits)),
        DefaultValue::CurrentTimestamp => Some(column.now_text()),
        DefaultValue::CurrentDate => Some("CURRENT_DATE".to_owned()),
        DefaultValue::Expression(text) => Some(text.clone()),
    }
}

/// A literal that is the default of a column, in the form of its type.
pub fn literal_text(column: &Column, text: &str) -> String {
    let has_form = match column.ty {
        ColumnType::Bit { .. } | ColumnType::Boolean => false,
        ColumnType::Decimal { .. } | ColumnType::Date | ColumnType::DateTime { .. } => true,
        ty => ty.is_integer(),
    };
    let (literal, mut cell) = (Literal::Text(text.as_bytes()), Vec::new());
    if !has_form || put(column, literal, &Rules::default(), &mut cell).is_err() {
        return text.to_owned();
    }
    cell_text(column.ty, &cell)
}

/// The value of a signed cell of up to 8 bytes.
fn signed(cell: &[u8]) -> i64 {
    let unused = 64 - 8 * cell.len();
    (fixed(cell) << unused).cast_signed() >> unused
}

fn decimal_text(unscaled: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let sign = if unscaled < 0 { "-" } else { "" };
    match digits.split_at(digits.len() - scale) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_written() {
        let text = |ty, cell: &[u8]| cell_text(ty, cell);
        assert_eq!(text(ColumnType::Int { unsigned: false }, &(-5i32).to_le_bytes()), "-5");
        assert_eq!(text(ColumnType::Int { unsigned: true }, &u32::MAX.to_le_bytes()), "4294967295");
        assert_eq!(text(ColumnType::TinyInt { unsigned: false }, &[0x80]), "-128");
        assert_eq!(text(ColumnType::VarChar { len: 9 }, b"abc"), "abc");
        assert_eq!(text(ColumnType::Date, &0i32.to_le_bytes()), "1970-01-01");
        let time = ColumnType::DateTime { fsp: 0 };
        assert_eq!(text(time, &1_000_000i64.to_le_bytes()), "1970-01-01 00:00:01");
        let cents = ColumnType::Decimal { precision: 10, scale: 2 };
        assert_eq!(text(cents, &(-5i64).to_le_bytes()), "-0.05");
        assert_eq!(text(cents, &1234i64.to_le_bytes()), "12.34");
        assert_eq!(text(ColumnType::LargeInt, &(-7i128).to_le_bytes()), "-7");
    }

    #[test]
    fn bytes_are_shown_as_in_mysql() {
        let fixed = |bytes: &[u8]| bytes_text(ColumnType::Binary { len: 4 }, bytes);
        assert_eq!(fixed(&[0xff, 0, 1, 2]), r"\xFF\x00\x01\x02");
        assert_eq!(fixed(b"abc\0"), "abc");
        assert_eq!(fixed(&[0x7f, 0x1f, b' ', 0]), r"\x7F\x1F ");
        assert_eq!(fixed(&[0; 4]), r"\x00");
        assert_eq!(fixed(b""), "");
        let any = ColumnType::VarBinary { len: 4 };
        assert_eq!(bytes_text(any, b"ab\0"), r"ab\x00");
    }
}
