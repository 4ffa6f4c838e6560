//! Miscellaneous functions, and aliases.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, cast};

use freshet_base::{ErrorCode, err};

use super::row::{Kind, MANY, Out, Row, RowFunction, Source};
use super::typed::TypeDependent;
use super::types::{converted, is_decimal};
use crate::convert::{is_binary, is_text};
use crate::error::external;
use crate::temporal::century;

/// MySQL's aliases of functions.
pub const ALIASES: &[(&str, &str)] = &[
    ("adddate", "mysql_date_add"),
    ("atan2", "atan"),
    ("ceiling", "ceil"),
    ("char_length", "char_length"),
    ("character_length", "char_length"),
    ("ifnull", "coalesce"),
    ("lcase", "lower"),
    ("mid", "substring"),
    ("nvl", "coalesce"),
    ("octet_length", "length"),
    ("power", "pow"),
    ("sha", "sha1"),
    ("substr", "substring"),
    ("to_json", "json_quote"),
    ("ucase", "upper"),
];

/// The function behind `LAST_INSERT_ID(value)`: the value, which it notes for the session.
pub const NOTE_INSERT_ID: &str = "mysql_note_insert_id";

fn uuid(_: &Row<'_>) -> Option<Out> {
    let bits: u128 = rand::random();
    // Version 4, variant 1.
    let bits = bits & !(0xf000 << 64) & !(0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    Some(Out::Text(dashed(&format!("{bits:032x}"))))
}

/// Whether text is a UUID: 32 hexadecimal digits, with dashes at their positions or without dashes.
fn is_uuid(text: &str) -> bool {
    let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
    let dashes = text.match_indices('-').map(|(at, _)| at).collect::<Vec<_>>();
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    digits == 32
        && text.len() == digits + dashes.len()
        && (dashes.is_empty() || dashes == [8, 13, 18, 23])
}

/// The bytes of a UUID; with `swaps` its parts that change slowly come first, so that those of
/// version 1 are in the order of time.
fn uuid_to_bin(row: &Row<'_>) -> Result<Option<Out>> {
    let text = row.text(0);
    let digits = text.chars().filter(char::is_ascii_hexdigit).collect::<String>();
    let Some(bits) = Some(digits).filter(|_| is_uuid(text)) else {
        return Err(external(err!(
            WrongArgument,
            "Incorrect string value: '{text}' for function uuid_to_bin"
        )));
    };
    let bits = u128::from_str_radix(&bits, 16).expect("32 hexadecimal digits");
    let bytes = bits.to_be_bytes();
    Ok(Some(Out::Bytes(match row.int_or(1, 0) {
        0 => bytes.to_vec(),
        _ => [&bytes[6..8], &bytes[4..6], &bytes[..4], &bytes[8..]].concat(),
    })))
}

/// The text of a UUID of 16 bytes, which may have been swapped by UUID_TO_BIN.
fn bin_to_uuid(row: &Row<'_>) -> Result<Option<Out>> {
    let bytes = row.bytes(0);
    if bytes.len() != 16 {
        let shown = String::from_utf8_lossy(bytes);
        return Err(external(err!(
            WrongArgument,
            "Incorrect string value: '{shown}' for function bin_to_uuid"
        )));
    }
    let bytes = match row.int_or(1, 0) {
        0 => bytes.to_vec(),
        _ => [&bytes[4..8], &bytes[2..4], &bytes[..2], &bytes[8..]].concat(),
    };
    let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    Ok(Some(Out::Text(dashed(&hex))))
}

/// 32 hexadecimal digits with dashes.
fn dashed(hex: &str) -> String {
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// `INTERVAL(n, n1, n2, ...)`: how many of the ascending numbers are at most `n`.
fn interval(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return Some(Out::Int(-1));
    }
    let above = |&arg: &usize| !row.null(arg) && row.double(arg) > row.double(0);
    let found = (1..row.count()).find(above).unwrap_or(row.count());
    Some(Out::Int(i64::try_from(found).expect("arguments are few") - 1))
}

/// `CAST(value AS YEAR)`: a number of two digits is one of this century or the last one.
fn year(row: &Row<'_>) -> Option<Out> {
    let text = row.text(0).trim();
    let digits = &text[..text.bytes().take_while(u8::is_ascii_digit).count()];
    let year = match digits.parse::<u32>().ok() {
        Some(0) if row.source(0) == Source::Number => Some(0),
        Some(short) if digits.len() <= 2 => Some(century(short)),
        Some(year @ (0 | 1901..=2155)) => Some(year),
        _ => None,
    };
    if year.is_none() {
        row.warn(ErrorCode::WrongValue, || format!("Truncated incorrect YEAR value: '{text}'"));
    }
    year.map(|year| Out::Int(year.into()))
}

fn crc32(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    });
    !crc
}

pub fn all() -> Vec<ScalarUDF> {
    let mut all = [
        RowFunction::new("uuid", &[Kind::Int], (0, 0), Kind::Text, uuid).volatile(),
        RowFunction::new("uuid_short", &[Kind::Int], (0, 0), Kind::UInt, |_| {
            Some(Out::UInt(rand::random::<u64>() >> 1))
        })
        .volatile(),
        RowFunction::new("is_uuid", &[Kind::Text], (1, 1), Kind::Int, |row| {
            Some(Out::Int(is_uuid(row.text(0)).into()))
        }),
        RowFunction::fallible(
            "uuid_to_bin",
            &[Kind::Text, Kind::Int],
            (1, 2),
            Kind::Bytes,
            uuid_to_bin,
        ),
        RowFunction::fallible(
            "bin_to_uuid",
            &[Kind::Bytes, Kind::Int],
            (1, 2),
            Kind::Text,
            bin_to_uuid,
        ),
        // The expression behind the count is computed once, by being an argument.
        RowFunction::new("mysql_benchmark", &[Kind::Int, Kind::Bytes], (2, 2), Kind::Int, |row| {
            (!row.null(0) && row.int(0) >= 0).then_some(Out::Int(0))
        })
        .sees_null(),
        RowFunction::new("random_bytes", &[Kind::Int], (1, 1), Kind::Bytes, |row| {
            let wanted = usize::try_from(row.int(0)).ok().filter(|n| (1..=1024).contains(n))?;
            Some(Out::Bytes((0..wanted).map(|_| rand::random()).collect()))
        })
        .volatile(),
        RowFunction::new("interval", &[Kind::Double], (2, MANY), Kind::Int, interval).sees_null(),
        RowFunction::new("mysql_year", &[Kind::Text], (1, 1), Kind::Int, year),
        // LAST_INSERT_ID(value).
        RowFunction::new(NOTE_INSERT_ID, &[Kind::Int], (1, 1), Kind::UInt, |row| {
            let id = (!row.null(0)).then(|| row.int(0).cast_unsigned());
            row.note_insert_id(id.unwrap_or(0));
            id.map(Out::UInt)
        })
        .sees_null()
        .volatile(),
        RowFunction::new("crc32", &[Kind::Bytes], (1, 1), Kind::UInt, |row| {
            Some(Out::UInt(crc32(row.bytes(0)).into()))
        }),
    ]
    .map(RowFunction::udf)
    .to_vec();
    all.extend(typed());
    all
}

/// `HEX(value)`: of a number, or of the bytes of any other value.
fn hex(args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let name = match &types[0] {
        ty if is_decimal(ty) || ty.is_floating() => "mysql_hex_number",
        ty if ty.is_numeric() || *ty == DataType::Boolean => "mysql_hex_int",
        _ => "mysql_hex_text",
    };
    Ok(super::call(name, args))
}

/// `FORMAT(number, digits)`: a time is converted to the number of its digits; a decimal is passed
/// as text, to keep the digits that are not displayed.
fn format_number(mut args: Vec<Expr>, types: &[DataType]) -> Result<Expr> {
    let number = args.remove(0);
    let number = match &types[0] {
        ty @ (DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_)) => {
            converted(number, ty, &DataType::Float64)
        }
        ty if is_decimal(ty) => cast(number, DataType::Utf8View),
        _ => number,
    };
    args.insert(0, number);
    Ok(super::call("mysql_format", args))
}

/// Functions whose implementation depends on the types of their arguments.
fn typed() -> Vec<ScalarUDF> {
    vec![
        TypeDependent::udf("hex", (1, 1), |_| Ok(DataType::Utf8View), hex),
        TypeDependent::udf("format", (2, 3), |_| Ok(DataType::Utf8View), format_number),
        TypeDependent::udf("upper", (1, 1), text_or_bytes, |args, types| {
            Ok(in_case("mysql_upper", args, types))
        }),
        TypeDependent::udf("lower", (1, 1), text_or_bytes, |args, types| {
            Ok(in_case("mysql_lower", args, types))
        }),
        TypeDependent::udf(
            "isnull",
            (1, 1),
            |_| Ok(DataType::Boolean),
            |mut args, _| Ok(args.remove(0).is_null()),
        ),
        TypeDependent::udf(
            "timediff",
            (2, 2),
            |_| Ok(crate::convert::TIME),
            |args, types| {
                let of = |ty: &DataType| matches!(ty, DataType::Timestamp(_, _));
                let texts = types.iter().all(crate::convert::is_text);
                Ok(super::call(
                    if types.iter().any(of) {
                        "mysql_timediff"
                    } else if texts {
                        "mysql_timediff_text"
                    } else {
                        "mysql_timediff_time"
                    },
                    args,
                ))
            },
        ),
        TypeDependent::udf(
            "mysql_extract",
            (2, 2),
            |_| Ok(DataType::Int64),
            |args, types| Ok(super::call(extracting(&args[0], &types[1]), args)),
        ),
        TypeDependent::udf("addtime", (2, 2), time_type, |mut args, types| {
            let time = time_alone(args.remove(1), &types[1]);
            Ok(add_time(vec![args.remove(0), time], types))
        }),
        TypeDependent::udf("subtime", (2, 2), time_type, |mut args, types| {
            let time = time_alone(args.remove(1), &types[1]);
            let negated = super::call("mysql_negate_time", vec![time]);
            Ok(add_time(vec![args.remove(0), negated], types))
        }),
    ]
}

/// Bytes for bytes, text for any other type.
pub fn text_or_bytes(types: &[DataType]) -> datafusion::common::Result<DataType> {
    Ok(if is_binary(&types[0]) { DataType::BinaryView } else { DataType::Utf8View })
}

/// UPPER or LOWER; bytes are unchanged.
fn in_case(name: &str, mut args: Vec<Expr>, types: &[DataType]) -> Expr {
    if is_binary(&types[0]) { args.remove(0) } else { super::call(name, args) }
}

fn time_type(types: &[DataType]) -> datafusion::common::Result<DataType> {
    Ok(match types[0] {
        DataType::Timestamp(_, _) | DataType::Date32 => crate::convert::DATETIME,
        DataType::Duration(_) => crate::convert::TIME,
        _ => DataType::Utf8View,
    })
}

/// The function that implements EXTRACT for this type: numbers and text are times, unless
/// YEAR_MONTH is extracted.
fn extracting(unit: &Expr, value: &DataType) -> &'static str {
    let date =
        matches!(unit, Expr::Literal(unit, _) if unit.try_as_str() == Some(Some("YEAR_MONTH")));
    let number = value.is_numeric() || *value == DataType::Boolean;
    match value {
        DataType::Duration(_) => "mysql_extract_time",
        _ if number && !date => "mysql_extract_time",
        ty if (is_text(ty) || is_binary(ty)) && !date => "mysql_extract_text",
        _ => "mysql_extract_date",
    }
}

/// The time that is added; text with a date is NULL.
fn time_alone(time: Expr, ty: &DataType) -> Expr {
    match is_text(ty) || is_binary(ty) {
        true => super::call("mysql_time_alone", vec![time]),
        false => time,
    }
}

fn add_time(mut args: Vec<Expr>, types: &[DataType]) -> Expr {
    if types[0].is_numeric() || types[0] == DataType::Boolean {
        let text = super::call("mysql_time_text", vec![args.remove(0)]);
        args.insert(0, text);
    }
    let name = match types[0] {
        DataType::Timestamp(_, _) | DataType::Date32 => "mysql_addtime",
        DataType::Duration(_) => "mysql_addtime_time",
        _ => "mysql_addtime_text",
    };
    super::call(name, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_is_the_common_one() {
        assert_eq!(crc32(b"MySQL"), 3_259_397_556);
    }

    #[test]
    fn uuids_have_32_digits_and_dashes_at_their_places() {
        assert!(is_uuid("6ccd780c-baba-1026-9564-5b8c656024db"));
        assert!(is_uuid("{6CCD780C-BABA-1026-9564-5B8C656024DB}"));
        assert!(is_uuid("6ccd780cbaba102695645b8c656024db"));
        assert!(!is_uuid("6ccd780c-baba-1026-95645b8c656024db"));
        assert!(!is_uuid("6ccd780c-baba-1026-9564-5b8c656024dz"));
    }
}
