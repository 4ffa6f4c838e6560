use freshet_base::ColumnId;
use proptest::prelude::*;

use super::*;
use crate::row::MICROS_PER_DAY;
use crate::{Collation, LengthUnit, LobSize};

fn column(ty: ColumnType) -> Column {
    Column {
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        ..Column::new(ColumnId(1), "c", ty)
    }
}

const INT: ColumnType = ColumnType::Int { unsigned: false };
const TINY: ColumnType = ColumnType::TinyInt { unsigned: false };
const MONEY: ColumnType = ColumnType::Decimal { precision: 15, scale: 2 };

fn cell(ty: ColumnType, literal: Literal<'_>) -> Result<Vec<u8>, BadValue> {
    let mut out = Vec::new();
    let put = put(&column(ty), literal, &Rules::default(), &mut out);
    assert!(put.is_ok() || out.is_empty(), "an error appends nothing");
    put.map(|_| out)
}

fn text(ty: ColumnType, value: &str) -> Result<Vec<u8>, BadValue> {
    cell(ty, Literal::Text(value.as_bytes()))
}

/// The integer stored for a text.
fn int(ty: ColumnType, value: &str) -> Result<i128, BadValue> {
    text(ty, value).map(|cell| crate::row::decimal(&sign_extend(&cell)))
}

fn sign_extend(cell: &[u8]) -> Vec<u8> {
    let fill = if cell.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = cell.to_vec();
    wide.resize(16, fill);
    wide
}

/// The string stored for a literal.
fn string(ty: ColumnType, literal: Literal<'_>) -> Result<String, BadValue> {
    cell(ty, literal).map(|cell| String::from_utf8(cell[1..].to_vec()).unwrap())
}

#[test]
fn numbers_as_text_go_into_integers() {
    assert_eq!(int(INT, "12"), Ok(12));
    assert_eq!(int(INT, " -12 "), Ok(-12));
    assert_eq!(int(INT, "2.5"), Ok(3));
    assert_eq!(int(INT, "-2.5"), Ok(-3));
    assert_eq!(int(INT, "1e3"), Ok(1000));
    assert_eq!(int(INT, "12abc"), Err(BadValue::Trailing));
    assert_eq!(int(INT, "abc"), Err(BadValue::NotNumber));
    assert_eq!(int(INT, ""), Err(BadValue::NotNumber));
    assert_eq!(int(ColumnType::Boolean, "TRUE"), Ok(1));
    assert_eq!(int(INT, "true"), Err(BadValue::NotNumber));
}

#[test]
fn ranges_are_those_of_the_types() {
    let out = |below| Err(BadValue::OutOfRange { below });
    assert_eq!(int(TINY, "127"), Ok(127));
    assert_eq!(int(TINY, "128"), out(false));
    assert_eq!(int(TINY, "-129"), out(true));
    assert_eq!(int(TINY, "127.5"), out(false));
    let medium = |unsigned| ColumnType::MediumInt { unsigned };
    assert_eq!(int(medium(false), "-8388608"), Ok(-8_388_608));
    assert_eq!(int(medium(false), "8388608"), out(false));
    assert_eq!(int(medium(true), "16777215"), Ok(16_777_215));
    assert_eq!(int(medium(true), "-1"), out(true));
    let big = ColumnType::BigInt { unsigned: true };
    assert_eq!(text(big, "18446744073709551615"), Ok(vec![255; 8]));
    assert_eq!(text(big, "18446744073709551616"), out(false).map(|_: i128| vec![]));
    assert_eq!(int(ColumnType::LargeInt, &i128::MIN.to_string()), Ok(i128::MIN));
    assert_eq!(int(ColumnType::LargeInt, &i128::MAX.to_string()), Ok(i128::MAX));
    assert_eq!(int(ColumnType::LargeInt, "170141183460469231731687303715884105728"), out(false));
}

#[test]
fn decimals_round_half_away_from_zero() {
    assert_eq!(int(MONEY, "12.345"), Ok(1_235));
    assert_eq!(int(MONEY, "-12.345"), Ok(-1_235));
    assert_eq!(int(MONEY, "7"), Ok(700));
    assert_eq!(int(MONEY, "9999999999999.99"), Ok(999_999_999_999_999));
    assert_eq!(int(MONEY, "9999999999999.995"), Err(BadValue::OutOfRange { below: false }));
    assert_eq!(int(MONEY, "1e-3"), Ok(0));
    let wide = ColumnType::Decimal { precision: 38, scale: 10 };
    assert_eq!(
        int(wide, "1234567890123456789012345678.0123456789"),
        Ok(12_345_678_901_234_567_890_123_456_780_123_456_789)
    );
    let float = |value| cell(MONEY, Literal::Float(value)).map(|c| crate::row::decimal(&c));
    assert_eq!(float(1.005), Ok(101));
    assert_eq!(float(-0.1), Ok(-10));
    assert_eq!(float(901.0), Ok(90_100));
    assert_eq!(float(f64::NAN), Err(BadValue::NotNumber));
}

#[test]
fn floats_round_to_even_in_integers_and_stay_finite() {
    let int = |value| cell(INT, Literal::Float(value)).map(|c| crate::row::fixed(&c) as i32);
    assert_eq!((int(2.5), int(3.5), int(-0.4)), (Ok(2), Ok(4), Ok(0)));
    assert_eq!(int(3e9), Err(BadValue::OutOfRange { below: false }));
    assert_eq!(
        cell(ColumnType::Float, Literal::Float(1e39)),
        Err(BadValue::OutOfRange { below: false })
    );
    assert_eq!(text(ColumnType::Double, "1e400"), Err(BadValue::OutOfRange { below: false }));
    assert_eq!(text(ColumnType::Double, "inf"), Err(BadValue::NotNumber));
    assert_eq!(text(ColumnType::Double, "0.1"), Ok(0.1f64.to_le_bytes().to_vec()));
    assert_eq!(text(ColumnType::Float, "0.1"), Ok(0.1f32.to_le_bytes().to_vec()));
}

#[test]
fn lengths_count_what_the_column_counts() {
    let mut name = column(ColumnType::VarChar { len: 3 });
    let put = |column: &Column, text: &str| {
        let mut out = Vec::new();
        let put = put_text(column, text.as_bytes(), Encoding::Unknown, &Rules::default(), &mut out);
        put.map(|_| out.len() - 1)
    };
    assert_eq!(put(&name, "\u{e4}\u{f6}\u{fc}"), Ok(6));
    assert_eq!(put(&name, "abcd"), Err(BadValue::TooLong { actual: 4, limit: 3 }));
    assert_eq!(put(&name, "abc  "), Ok(3));
    name.length_unit = LengthUnit::Bytes;
    assert_eq!(put(&name, "\u{e4}\u{f6}"), Err(BadValue::TooLong { actual: 4, limit: 3 }));
    assert_eq!(put(&name, "abc "), Err(BadValue::TooLong { actual: 4, limit: 3 }));
    let char = column(ColumnType::Char { len: 4 });
    assert_eq!(put(&char, "ab  "), Ok(2));
}

#[test]
fn bytes_are_text_only_when_they_are_utf8() {
    let wrong = Literal::Text(b"a\xff");
    assert_eq!(cell(ColumnType::Text, wrong), Err(BadValue::NotUtf8));
    assert_eq!(cell(ColumnType::Blob, wrong), Ok(vec![2, b'a', 0xff]));
    assert_eq!(cell(INT, Literal::Binary(&[1, 0])), Ok(256i32.to_le_bytes().to_vec()));
    assert_eq!(string(ColumnType::Text, Literal::Binary(b"ok")), Ok("ok".into()));
}

#[test]
fn numbers_into_text_are_written_plainly() {
    let shown = |text: &str| string(ColumnType::Text, Literal::Number(text.as_bytes()));
    assert_eq!(shown("007"), Ok("7".into()));
    assert_eq!(shown("+1.50"), Ok("1.50".into()));
    assert_eq!(shown("-.5"), Ok("-0.5".into()));
    assert_eq!(shown("1e3"), Ok("1000".into()));
    assert_eq!(shown("0"), Ok("0".into()));
    assert_eq!(string(ColumnType::Text, Literal::Int(-7)), Ok("-7".into()));
}

#[test]
fn doubles_take_the_digits_that_a_column_has_room_for() {
    let shown = |len, value| string(ColumnType::VarChar { len }, Literal::Float(value));
    assert_eq!(shown(20, 0.401_029_995_663_981_2), Ok("0.4010299956639812".into()));
    assert_eq!(shown(10, 0.401_029_995_663_981_2), Ok("0.40103".into()));
    assert_eq!(shown(10, 7.306_212_975_743_035), Ok("7.30621298".into()));
    assert_eq!(shown(10, -7.306_212_975_743_035), Ok("-7.3062130".trim_end_matches('0').into()));
    assert_eq!(shown(11, 1e10), Ok("10000000000".into()));
    assert_eq!(shown(10, 1e10), Ok("1e10".into()));
    assert_eq!(shown(8, 1.234_567_89e10), Ok("1.235e10".into()));
    assert_eq!(shown(8, 1.234_567_89e-10), Ok("1.23e-10".into()));
    assert!(shown(2, 1e10).is_err());
}

#[test]
fn a_number_below_zero_has_no_place_without_sign() {
    let unsigned = ColumnType::BigInt { unsigned: true };
    let number = |text: &str| cell(unsigned, Literal::Number(text.as_bytes()));
    assert_eq!(number("-0.4"), Err(BadValue::OutOfRange { below: true }));
    assert_eq!(number("-0.0"), number("0"));
    // A text and a DOUBLE are rounded before their signs are checked.
    assert_eq!(number("-2.5e-3"), number("0"));
    assert_eq!((number("2.5e0"), number("35E-1")), (number("2"), number("4")));
    assert_eq!(number("-6e-1"), Err(BadValue::OutOfRange { below: true }));
    assert_eq!(text(unsigned, " -0.4 "), number("0"));
}

#[test]
fn numbers_are_dates_as_mysql_reads_them() {
    let of = |literal| cell(ColumnType::Date, literal);
    assert_eq!(of(Literal::Int(128)), text(ColumnType::Date, "2000-01-28"));
    assert_eq!(of(Literal::Number(b"123.456")), text(ColumnType::Date, "2000-01-23"));
    assert_eq!(of(Literal::Float(691_231.0)), text(ColumnType::Date, "2069-12-31"));
    assert_eq!(of(Literal::Int(100)), Err(BadValue::NotTemporal));
    assert_eq!(text(ColumnType::Date, "128"), Err(BadValue::NotTemporal));
}

#[test]
fn dates_and_times_land_in_their_columns() {
    let day = 19_782;
    assert_eq!(int(ColumnType::Date, "2024-02-29"), Ok(day));
    assert_eq!(int(ColumnType::Date, "2024-02-29 23:59:59.9"), Ok(day));
    assert_eq!(
        cell(ColumnType::Date, Literal::Int(20_240_229)),
        text(ColumnType::Date, "2024-02-29")
    );
    assert_eq!(int(ColumnType::Date, "2023-02-29"), Err(BadValue::NotTemporal));
    let noon = i128::from(day as i64 * MICROS_PER_DAY + MICROS_PER_DAY / 2);
    assert_eq!(int(ColumnType::DateTime { fsp: 0 }, "2024-02-29 12:00:00.4"), Ok(noon));
    let mut rules = Rules { zone: Zone::parse("+02:00").unwrap(), ..Rules::default() };
    let mut out = Vec::new();
    let timestamp = column(ColumnType::Timestamp { fsp: 0 });
    let put = put_text(&timestamp, b"2024-02-29 14:00:00", Encoding::Utf8, &rules, &mut out);
    assert_eq!((put, crate::row::decimal(&out)), (Ok(Put::Value), noon));
    rules.zone = Zone::parse("Europe/Berlin").unwrap();
    let skipped = put_text(&timestamp, b"2024-03-31 02:30:00", Encoding::Utf8, &rules, &mut out);
    assert_eq!(skipped, Err(BadValue::NotTemporal));
}

#[test]
fn dates_of_zeros_are_stored_where_the_rules_take_them() {
    let timestamp = ColumnType::Timestamp { fsp: 0 };
    for ty in [ColumnType::Date, ColumnType::DateTime { fsp: 3 }, timestamp] {
        let put = |literal, zero_dates| {
            let zone = Zone::parse("Asia/Shanghai").unwrap();
            let rules = Rules { zone, zero_dates, ..Rules::default() };
            let mut out = Vec::new();
            put(&column(ty), literal, &rules, &mut out).map(|_| out)
        };
        let zero = match ty {
            ColumnType::Date => ZERO_DAY.to_le_bytes().to_vec(),
            _ => ZERO_MICROS.to_le_bytes().to_vec(),
        };
        for literal in [
            Literal::Text(b"0000-00-00"),
            Literal::Text(b"0000-00-00 00:00:00"),
            Literal::Int(0),
            Literal::Time(LocalDateTime::from_micros(ZERO_MICROS)),
        ] {
            assert_eq!(put(literal, ZeroDates::Taken), Ok(zero.clone()), "{ty:?} {literal:?}");
            assert_eq!(put(literal, ZeroDates::Bad), Err(BadValue::ZeroDate));
        }
        assert!(put(Literal::Text(b"0000-00-01"), ZeroDates::Taken).is_err());
        assert_eq!(cell_text(ty, &zero)[..10], *"0000-00-00");
        let mut default = Vec::new();
        let column =
            Column { default: Some(DefaultValue::Literal("0000-00-00".into())), ..column(ty) };
        let rules = Rules { zero_dates: ZeroDates::Bad, ..Rules::default() };
        assert_eq!(put_default(&column, 0, &rules, &mut default), Ok(Put::Value));
        assert_eq!(default, zero);
    }
}

#[test]
fn an_error_fits_two_registers() {
    assert_eq!(size_of::<Result<Put, BadValue>>(), 16);
}

#[test]
fn json_is_checked_and_normalised() {
    let json = |text: &str| string(ColumnType::Json, Literal::Text(text.as_bytes()));
    assert_eq!(
        json(r#" {"bb":1,"a":[1,2.50,null],"a":"\u0041"} "#),
        Ok(r#"{"a": "A", "bb": 1}"#.into())
    );
    assert!(
        matches!(json("{\"a\":\n}"), Err(BadValue::NotJson(json)) if json.at == 6),
        "{:?}",
        json("{\"a\":\n}")
    );
    assert!(matches!(json(""), Err(BadValue::NotJson(json)) if json.at == 0));
}

/// The length of the cell that a column of this size has of a text.
fn sized(
    (ty, lob_size): (ColumnType, LobSize),
    text: &[u8],
    on_bad: OnBad,
) -> Result<usize, BadValue> {
    let (column, mut out) = (Column { lob_size, ..column(ty) }, Vec::new());
    let (rules, literal) = (Rules { on_bad, ..Rules::default() }, Literal::Text(text));
    if let Err(bad) = put(&column, literal, &rules, &mut out) {
        let _ = adjust(&column, literal, bad, &rules, &mut out)?;
    }
    Ok(out.len())
}

#[test]
fn texts_and_bytes_fit_the_size_of_their_column() {
    // 256 bytes; a part of a character is none.
    let long = "\u{e4}".repeat(128).into_bytes();
    for (ty, cut) in [(ColumnType::Text, 2 + 254), (ColumnType::Blob, 2 + 255)] {
        let too_long = Err(BadValue::TooLong { actual: 256, limit: 255 });
        assert_eq!(sized((ty, LobSize::Tiny), &long, OnBad::Refuse), too_long);
        assert_eq!(sized((ty, LobSize::Tiny), &long, OnBad::Clamp), Ok(cut));
        for size in [LobSize::Plain, LobSize::Medium, LobSize::Long] {
            assert_eq!(sized((ty, size), &long, OnBad::Refuse), Ok(2 + 256));
        }
    }
    let most = vec![b'x'; 1 << 24];
    let of = |size, text| sized((ColumnType::Text, size), text, OnBad::Refuse);
    assert!(of(LobSize::Long, &most[..]).is_ok());
    assert!(of(LobSize::Medium, &most[..]).is_err());
    assert!(of(LobSize::Medium, &most[1..]).is_ok());
}

#[test]
fn messages_name_row_column_value_and_limit() {
    let mut name = column(ColumnType::VarChar { len: 50 });
    name.name = "name".into();
    let bad = BadValue::TooLong { actual: 61, limit: 50 };
    let error = bad.error(&name, "Bobby Tables".repeat(6).as_bytes(), 3);
    assert_eq!((error.code().errno(), error.code().sqlstate()), (1406, "22001"));
    assert_eq!(
        error.message(),
        "Data too long for column 'name' at row 3: 'Bobby TablesBobby TablesBobby Ta...' is 61 \
         characters, limit 50"
    );
    let message = |bad: BadValue, ty, value: &[u8]| bad.message(&column(ty), value, 1);
    assert_eq!(
        message(BadValue::NotNumber, INT, b"x\xff"),
        "Incorrect integer value: 'x\\xFF' for column 'c' at row 1"
    );
    assert!(
        message(BadValue::OutOfRange { below: false }, TINY, b"300")
            .starts_with("Out of range value for column 'c' at row 1")
    );
    assert!(message(BadValue::Null, INT, b"NULL").starts_with("Column 'c' cannot be null"));
    assert!(
        message(BadValue::NotTemporal, ColumnType::Date, b"2023-02-29")
            .starts_with("Incorrect date value: '2023-02-29' for column 'c' at row 1")
    );
    let warned =
        |bad: BadValue, put| bad.warning(&column(ColumnType::Date), b"x", 1, put).0.errno();
    assert_eq!(warned(BadValue::NotTemporal, Put::Value), 1265);
    assert_eq!(warned(BadValue::ZeroDate, Put::Value), 1264);
    assert_eq!(warned(BadValue::NotTemporal, Put::Null), 1292);
}

#[test]
fn lax_modes_mend_what_can_be_mended() {
    let lax = |ty, literal, on_bad| {
        let (column, mut out) = (column(ty), Vec::new());
        let rules = Rules { on_bad, ..Rules::default() };
        let bad = put(&column, literal, &rules, &mut out).unwrap_err();
        adjust(&column, literal, bad, &rules, &mut out).map(|put| (put, out))
    };
    let number = |value: i8| Ok((Put::Value, vec![value as u8]));
    let (clamp, null) = (OnBad::Clamp, OnBad::Null);
    assert_eq!(lax(TINY, Literal::Int(300), clamp), number(127));
    assert_eq!(lax(TINY, Literal::Text(b"-300x"), clamp), number(-128));
    assert_eq!(lax(TINY, Literal::Text(b"12abc"), clamp), number(12));
    assert_eq!(lax(TINY, Literal::Text(b"abc"), clamp), number(0));
    assert_eq!(lax(TINY, Literal::Int(300), null), Ok((Put::Null, vec![])));
    assert_eq!(lax(TINY, Literal::Text(b"abc"), null), Ok((Put::Null, vec![])));
    let two = ColumnType::VarChar { len: 2 };
    let cut = Ok((Put::Value, [&[4][..], "\u{e4}\u{f6}".as_bytes()].concat()));
    assert_eq!(lax(two, Literal::Text("\u{e4}\u{f6}\u{fc}".as_bytes()), null), cut);
    let zero_day = Ok((Put::Value, ZERO_DAY.to_le_bytes().to_vec()));
    assert_eq!(lax(ColumnType::Date, Literal::Text(b"x"), clamp), zero_day);
    assert_eq!(lax(ColumnType::Date, Literal::Text(b"x"), null), Ok((Put::Null, vec![])));
    assert!(lax(ColumnType::Text, Literal::Text(b"\xff"), null).is_err());
    assert!(lax(TINY, Literal::Int(300), OnBad::Refuse).is_err());
}

#[test]
fn defaults_are_encoded_like_literals() {
    let now = 1_000_000 * 86_400 * 19_782 + 1_234_567;
    let get = |ty, default| {
        let mut out = Vec::new();
        let column = Column { default, nullable: false, ..column(ty) };
        put_default(&column, now, &Rules::default(), &mut out).map(|_| crate::row::fixed(&out))
    };
    assert_eq!(get(INT, None), Err(BadDefault::Missing));
    assert_eq!(get(INT, Some(DefaultValue::Literal("5".into()))), Ok(5));
    let timestamp = get(ColumnType::DateTime { fsp: 3 }, Some(DefaultValue::CurrentTimestamp));
    assert_eq!(timestamp, Ok(now as u64 / 1_000 * 1_000));
    assert_eq!(get(ColumnType::Date, Some(DefaultValue::CurrentDate)), Ok(19_782));
}

proptest! {
    #[test]
    fn no_literal_panics_anywhere(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<i128>(),
        bits in any::<u64>(),
        digits in "[-+]?[0-9]{0,45}\\.?[0-9]{0,45}(e[-+]?[0-9]{1,12})?",
    ) {
        let types = [
            ColumnType::Boolean, INT, ColumnType::MediumInt { unsigned: true },
            ColumnType::LargeInt, ColumnType::Float, ColumnType::Double, MONEY,
            ColumnType::Decimal { precision: 38, scale: 38 }, ColumnType::Date,
            ColumnType::DateTime { fsp: 3 }, ColumnType::Timestamp { fsp: 6 },
            ColumnType::Char { len: 3 }, ColumnType::VarChar { len: 0 }, ColumnType::Text,
            ColumnType::VarBinary { len: 4 }, ColumnType::Binary { len: 4 }, ColumnType::Blob,
            ColumnType::Json,
        ];
        let literals = [
            Literal::Text(&bytes), Literal::Binary(&bytes), Literal::Number(&bytes),
            Literal::Int(number), Literal::Float(f64::from_bits(bits)),
            Literal::Number(digits.as_bytes()), Literal::Text(digits.as_bytes()),
        ];
        for ty in types {
            for literal in literals {
                for on_bad in [OnBad::Clamp, OnBad::Null] {
                    let zone = Zone::parse("Asia/Shanghai").unwrap();
                    let rules = Rules { on_bad, zone, ..Rules::default() };
                    let (column, mut out) = (column(ty), Vec::new());
                    if let Err(bad) = put(&column, literal, &rules, &mut out) {
                        prop_assert!(out.is_empty());
                        let _ = adjust(&column, literal, bad, &rules, &mut out);
                    }
                }
            }
        }
    }

    #[test]
    fn every_stored_cell_is_valid(digits in "[-+]?[0-9]{0,20}\\.?[0-9]{0,10}(e-?[0-9])?") {
        let times = [ColumnType::DateTime { fsp: 6 }, ColumnType::Date];
        for ty in [INT, MONEY, ColumnType::Double].into_iter().chain(times) {
            let version = freshet_base::SchemaVersion(1);
            let schema = crate::TableSchema::new(version, vec![column(ty)], vec![]);
            if let Ok(cell) = text(ty, &digits) {
                let row = [&[0], cell.as_slice()].concat();
                prop_assert_eq!(crate::row::validate(&schema, &row, 1), Ok(()));
            }
        }
    }
}
