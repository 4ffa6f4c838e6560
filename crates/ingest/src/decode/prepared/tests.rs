use std::sync::Arc;

use freshet_schema::{ColumnType, TableSchema};

use super::*;
use crate::decode::testing::{schema, show};

/// A block of parameters with types and values; `None` is NULL.
fn block(params: &[(u16, Option<&[u8]>)]) -> Vec<u8> {
    let mut nulls = vec![0u8; params.len().div_ceil(8)];
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for (at, (ty, value)) in params.iter().enumerate() {
        types.extend_from_slice(&ty.to_le_bytes());
        match value {
            Some(value) => values.extend_from_slice(value),
            None => nulls[at >> 3] |= 1 << (at & 7),
        }
    }
    [nulls, vec![1], types, values].concat()
}

fn rows_of(
    schema: &Arc<TableSchema>,
    text: &str,
    params: &[(u16, Option<&[u8]>)],
    long_data: &[Option<Vec<u8>>],
) -> Result<Vec<String>, String> {
    let rules = Rules::default();
    let plan = InsertPlan::new::<&str>(schema, None, 0, &rules).unwrap();
    let (block, mut types, mut out) = (block(params), Vec::new(), Vec::new());
    let params = Params::parse(params.len(), &block, &mut types, long_data).unwrap();
    let prepared = PreparedRows::new(text.as_bytes(), Dialect::default());
    match prepared.rows(params, &plan, &rules, &mut out) {
        Ok(scanned) => Ok(show(schema, &out, scanned.encoded.rows)),
        Err(NoRows::Bad(error)) => Err(format!("{} {error}", error.code().errno())),
        Err(NoRows::NotLiteral) => Err("not literal".into()),
    }
}

fn two() -> Arc<TableSchema> {
    schema(&[("a", ColumnType::BigInt { unsigned: true }, true), ("b", ColumnType::Text, true)])
}

#[test]
fn every_binary_type_lands_in_its_column() {
    let schema = schema(&[
        ("a", ColumnType::BigInt { unsigned: true }, true),
        ("b", ColumnType::Decimal { precision: 10, scale: 2 }, true),
        ("c", ColumnType::DateTime { fsp: 6 }, true),
        ("d", ColumnType::Text, true),
    ]);
    let date = [&[11, 0xe8, 0x07, 2, 29, 12, 30, 15][..], &500_000u32.to_le_bytes()].concat();
    let double = 12.25f64.to_le_bytes();
    let rows = rows_of(
        &schema,
        "(?,?,?,?),(?,?,?,?),(?,?,?,?)",
        &[
            (0x8008, Some(&[255; 8])),
            (0x05, Some(&double)),
            (0x0c, Some(&date)),
            (0xfd, Some(b"\x02hi")),
            (0x8001, Some(&[200])),
            (0xf6, Some(b"\x051.005")),
            (0x0a, Some(&[4, 0xe8, 0x07, 2, 29])),
            (0x0b, Some(&[8, 1, 1, 0, 0, 0, 2, 3, 4])),
            (0x03, Some(&7i32.to_le_bytes())),
            (0x06, None),
            (0xfe, None),
            (0x0c, Some(&[7, 0xe8, 0x07, 1, 2, 3, 4, 5])),
        ],
        &[],
    );
    assert_eq!(
        rows.unwrap(),
        [
            "18446744073709551615|12.25|2024-02-29T12:30:15.500|hi",
            "200|1.01|2024-02-29T00:00:00|-26:03:04",
            "7|-|-|2024-01-02 03:04:05",
        ]
    );
}

#[test]
fn literals_and_parameters_mix() {
    let text: &[u8] = b"\x01p";
    let rows = rows_of(
        &two(),
        " (?, 'x') , (5, ?) ",
        &[(0x03, Some(&[1, 0, 0, 0])), (0xfd, Some(text))],
        &[],
    );
    assert_eq!(rows.unwrap(), ["1|x", "5|p"]);
    assert_eq!(
        rows_of(&two(), "(? + 1, 'x')", &[(0x03, Some(&[1, 0, 0, 0]))], &[]).unwrap_err(),
        "not literal"
    );
}

#[test]
fn long_data_takes_the_place_of_a_value() {
    let long = vec![None, Some(vec![b'l'; 70_000])];
    let rows = rows_of(
        &two(),
        "(?,?)",
        &[(0x08, Some(&[9, 0, 0, 0, 0, 0, 0, 0])), (0xfc, Some(b""))],
        &long,
    );
    assert_eq!(rows.unwrap()[0].len(), 2 + 70_000);
}

#[test]
fn what_does_not_fit_is_named() {
    let error =
        rows_of(&two(), "(?,?)", &[(0x03, Some(&(-1i32).to_le_bytes())), (0x06, None)], &[]);
    assert!(error.unwrap_err().starts_with("1264 Out of range value for column 'a' at row 1"));
    let error = rows_of(&two(), "(?,?)", &[(0x06, None), (0xfd, Some(b"\x01\xff"))], &[]);
    assert!(
        error
            .unwrap_err()
            .starts_with("1366 Incorrect string value: '\\xFF' for column 'b' at row 1")
    );
    let date = |bytes: &[u8]| {
        rows_of(&schema(&[("d", ColumnType::Date, true)]), "(?)", &[(0x0a, Some(bytes))], &[])
    };
    let bad = date(&[4, 0, 0, 0, 1]).unwrap_err();
    assert!(bad.starts_with("1292 Incorrect date value: '0000-00-01"));
    // The day before 0000-01-01 stands for it.
    assert_eq!(date(&[0]).unwrap(), ["-0001-12-31"]);
    let cut = rows_of(&two(), "(?,?)", &[(0x06, None), (0xfd, Some(b"\x05ab"))], &[]);
    assert_eq!(cut.unwrap_err(), "1156 parameter 2 of COM_STMT_EXECUTE is cut off");
    let count = rows_of(&two(), "(?)", &[(0x06, None)], &[]);
    assert!(count.unwrap_err().starts_with("1136"));
}
