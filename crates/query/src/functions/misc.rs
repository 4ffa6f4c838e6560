//! Functions of no family, and the other names that functions have.

use arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;

use super::row::{Kind, Out, Row, RowFunction};
use super::typed::Typed;

/// Other names of functions, as MySQL has them.
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

fn uuid(_: &Row<'_>) -> Option<Out> {
    let bits: u128 = rand::random();
    // Version 4, variant 1.
    let bits = bits & !(0xf000 << 64) & !(0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    let hex = format!("{bits:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Some(Out::Text(parts.join("-")))
}

fn inet_aton(row: &Row<'_>) -> Option<Out> {
    let address = row.text(0).parse::<std::net::Ipv4Addr>().ok()?;
    Some(Out::Int(u32::from(address).into()))
}

fn inet_ntoa(row: &Row<'_>) -> Option<Out> {
    let bits = u32::try_from(row.int(0)).ok()?;
    Some(Out::Text(std::net::Ipv4Addr::from(bits).to_string()))
}

fn crc32(bytes: &[u8]) -> i64 {
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    });
    i64::from(!crc)
}

/// The functions of this file.
pub fn all() -> Vec<ScalarUDF> {
    let mut all = [
        RowFunction::new("uuid", &[Kind::Int], (0, 0), Kind::Text, uuid).volatile(),
        RowFunction::new("inet_aton", &[Kind::Text], (1, 1), Kind::Int, inet_aton),
        RowFunction::new("inet_ntoa", &[Kind::Int], (1, 1), Kind::Text, inet_ntoa),
        RowFunction::new("crc32", &[Kind::Bytes], (1, 1), Kind::Int, |row| {
            Some(Out::Int(crc32(row.bytes(0))))
        }),
    ]
    .map(RowFunction::udf)
    .to_vec();
    all.extend(typed());
    all
}

/// Functions that are one thing for numbers or times and another for text.
fn typed() -> Vec<ScalarUDF> {
    vec![
        Typed::udf(
            "hex",
            (1, 1),
            |_| Ok(DataType::Utf8View),
            |args, types| {
                let number = types[0].is_numeric();
                Ok(super::call(if number { "mysql_hex_int" } else { "mysql_hex_text" }, args))
            },
        ),
        Typed::udf(
            "mysql_json_literal",
            (1, 1),
            |_| Ok(DataType::Utf8View),
            |args, types| {
                // Text becomes a JSON string, numbers are JSON already.
                let text = crate::convert::is_text(&types[0]);
                Ok(super::call(if text { "mysql_json_text" } else { "mysql_text" }, args))
            },
        ),
        Typed::udf(
            "isnull",
            (1, 1),
            |_| Ok(DataType::Boolean),
            |mut args, _| Ok(args.remove(0).is_null()),
        ),
        Typed::udf(
            "timediff",
            (2, 2),
            |_| Ok(crate::convert::TIME),
            |args, types| {
                let dates = types.iter().any(|ty| matches!(ty, DataType::Timestamp(_, _)));
                Ok(super::call(if dates { "mysql_timediff" } else { "mysql_timediff_time" }, args))
            },
        ),
        Typed::udf("addtime", (2, 2), time_type, |args, types| Ok(add_time(args, types))),
        Typed::udf("subtime", (2, 2), time_type, |mut args, types| {
            let negated = super::call("mysql_negate_time", vec![args.remove(1)]);
            Ok(add_time(vec![args.remove(0), negated], types))
        }),
    ]
}

fn time_type(types: &[DataType]) -> datafusion::common::Result<DataType> {
    Ok(match types[0] {
        DataType::Timestamp(_, _) | DataType::Date32 => crate::convert::DATETIME,
        _ => crate::convert::TIME,
    })
}

fn add_time(
    args: Vec<datafusion::logical_expr::Expr>,
    types: &[DataType],
) -> datafusion::logical_expr::Expr {
    let dates = matches!(types[0], DataType::Timestamp(_, _) | DataType::Date32);
    super::call(if dates { "mysql_addtime" } else { "mysql_addtime_time" }, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_is_the_common_one() {
        assert_eq!(crc32(b"MySQL"), 3_259_397_556);
    }
}
