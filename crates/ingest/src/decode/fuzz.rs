//! Entry points for fuzzing. For any input: nothing panics, the reported rows are valid, and
//! rejected input leaves no output.

use std::sync::Arc;

use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::row::validate;
use freshet_schema::{Collation, Column, ColumnType, LengthUnit, OnBad, Rules, TableSchema};

use super::csv::{CsvDecoder, CsvFormat};
use super::json::{JsonDecoder, JsonFormat, JsonPath};
use super::params::Params;
use super::prepared::PreparedRows;
use super::values::{Dialect, RowScan, Scanned, parse_head, scan_rows};
use super::{InsertPlan, SourcePlan};

/// Maximum number of parameters in the input of [`params`].
const PARAMS_MAX: usize = 24;

/// Scans `bytes` as a statement and as the text after VALUES, with all rules.
pub fn values(bytes: &[u8]) {
    let plan = plan(&Rules::default());
    each_rules(|rules| {
        for bits in 0..4 {
            let dialect = Dialect { no_backslash_escapes: bits & 1 > 0, ansi_quotes: bits & 2 > 0 };
            if let Some(head) = parse_head(bytes, dialect) {
                assert!(head.values_at <= bytes.len(), "the head is part of the statement");
            }
            let mut out = Vec::new();
            match scan_rows(bytes, &plan, rules, dialect, &mut out) {
                Ok(scanned) => {
                    assert!(scanned.consumed <= bytes.len(), "no more is read than there is");
                    check(&plan, &out, scanned.encoded.rows);
                    let mut pieces = Vec::new();
                    let in_pieces = in_pieces(bytes, &plan, rules, dialect, &mut pieces);
                    assert_eq!((in_pieces, pieces), (Some(scanned), out), "pieces are the whole");
                }
                Err(_) => assert!(out.is_empty(), "a refused statement leaves no rows"),
            }
            before_tail(bytes, &plan, rules, dialect);
        }
    });
}

/// Scans what stands in front of words that follow the rows.
fn before_tail(bytes: &[u8], plan: &InsertPlan, rules: &Rules, dialect: Dialect) {
    let mut out = Vec::new();
    let mut scan = RowScan::new(bytes, plan, rules, dialect, &mut out).before_tail();
    if scan.rows(usize::MAX).is_err() {
        return;
    }
    let is_word = |at: usize| bytes[at].is_ascii_alphabetic();
    assert!(scan.tail().is_none_or(is_word), "a tail begins with a word");
    let Ok(scanned) = scan.finish() else { return };
    check(plan, &out, scanned.encoded.rows);
}

/// Scans two rows at a time.
fn in_pieces(
    bytes: &[u8],
    plan: &InsertPlan,
    rules: &Rules,
    dialect: Dialect,
    out: &mut Vec<u8>,
) -> Option<Scanned> {
    let mut scan = RowScan::new(bytes, plan, rules, dialect, out);
    while !scan.rows(2).ok()? {}
    scan.finish().ok()
}

/// Parses `bytes` as a block of parameters, the number of which is in the first byte.
pub fn params(bytes: &[u8]) {
    let Some((&count, block)) = bytes.split_first() else { return };
    let plan = plan(&Rules::default());
    let count = usize::from(count) % PARAMS_MAX;
    each_rules(|rules| {
        let mut types = Vec::new();
        let Ok(params) = Params::parse(count, block, &mut types, &[]) else { return };
        for text in [&b"(?,?,?,?,?,?,?,?)"[..], b"(1,?,?,'x',?,?,DEFAULT,NULL)"] {
            let mut out = Vec::new();
            let rows = PreparedRows::new(text, Dialect::default());
            match rows.rows(params, &plan, rules, &mut out) {
                Ok(scanned) => check(&plan, &out, scanned.encoded.rows),
                Err(_) => assert!(out.is_empty(), "refused parameters leave no rows"),
            }
        }
    });
}

/// Decodes `bytes` as a CSV body, split anywhere: the rows and rejects are the same for every
/// split.
pub fn csv(bytes: &[u8]) {
    let formats = [
        CsvFormat { separator: b",".to_vec(), ..CsvFormat::default() },
        CsvFormat { separator: b",".to_vec(), enclose: Some(b'"'), ..CsvFormat::default() },
        CsvFormat {
            separator: b",,".to_vec(),
            delimiter: b"\r\n".to_vec(),
            trim_double_quotes: true,
            empty_field_as_null: true,
            skip_lines: 1,
            ..CsvFormat::default()
        },
    ];
    each_rules(|rules| {
        let source = source(rules);
        for format in &formats {
            let decode = |part_bytes: usize| {
                let mut decoder = CsvDecoder::new(format.clone(), &source, rules);
                let mut out = Vec::new();
                let fed =
                    bytes.chunks(part_bytes).try_for_each(|part| decoder.feed(part, &mut out));
                let done = fed.and_then(|()| decoder.finish(&mut out));
                check(&source.plan, &out, decoder.rows());
                let (lines, rejected) = (decoder.lines(), decoder.into_rejects().0.count());
                done.is_ok().then_some((out, lines, rejected))
            };
            let whole = decode(bytes.len().max(1));
            assert_eq!(whole, decode(1), "a body decodes alike however it is cut");
            assert_eq!(whole, decode(7), "a body decodes alike however it is cut");
        }
    });
}

/// Decodes `bytes` as a JSON body, split anywhere.
pub fn json(bytes: &[u8]) {
    let paths = ["$.i", "$.d", "$.f.a[0]"].map(|path| JsonPath::parse(path).unwrap_or_default());
    let formats = [
        JsonFormat::default(),
        JsonFormat { strip_outer_array: true, ..JsonFormat::default() },
        JsonFormat { paths: paths.to_vec(), num_as_string: true, ..JsonFormat::default() },
    ];
    each_rules(|rules| {
        let source = source(rules);
        for format in &formats {
            let decode = |part_bytes: usize| {
                let mut decoder = JsonDecoder::new(format.clone(), &source, rules);
                let mut out = Vec::new();
                let fed =
                    bytes.chunks(part_bytes).try_for_each(|part| decoder.feed(part, &mut out));
                let done = fed.and_then(|()| decoder.finish(&mut out));
                check(&source.plan, &out, decoder.rows());
                let objects = decoder.objects();
                done.is_ok().then_some((out, objects, decoder.into_rejects().0.count()))
            };
            assert_eq!(decode(bytes.len().max(1)), decode(3), "alike however it is cut");
        }
    });
}

fn each_rules(mut run: impl FnMut(&Rules)) {
    for on_bad in [OnBad::Refuse, OnBad::Clamp, OnBad::Null] {
        run(&Rules { on_bad, ..Rules::default() });
    }
}

fn check(plan: &InsertPlan, bytes: &[u8], rows: usize) {
    let valid = validate(plan.schema(), bytes, rows);
    assert_eq!(valid, Ok(()), "what a decoder appends is what the log reader takes");
}

fn element(ty: ColumnType) -> Column {
    Column::new(ColumnId(0), "x", ty)
}

/// An ARRAY<INT>.
fn list() -> Column {
    let elements = [element(ColumnType::Int { unsigned: false })].into();
    Column { elements, ..element(ColumnType::Array) }
}

fn schema() -> Arc<TableSchema> {
    let types = [
        ("i", ColumnType::Int { unsigned: false }),
        ("d", ColumnType::Decimal { precision: 9, scale: 2 }),
        ("f", ColumnType::Double),
        ("v", ColumnType::VarChar { len: 5 }),
        ("b", ColumnType::VarBinary { len: 5 }),
        ("t", ColumnType::DateTime { fsp: 3 }),
        ("j", ColumnType::Json),
        ("n", ColumnType::Map),
        ("o", ColumnType::Boolean),
    ];
    let column = |(at, (name, ty)): (usize, (&str, ColumnType))| Column {
        nullable: at != 0,
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        elements: match ty {
            ColumnType::Map => [element(ColumnType::VarChar { len: 3 }), list()].into(),
            _ => [].into(),
        },
        ..Column::new(ColumnId(at as u32), name, ty)
    };
    let columns = types.into_iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, Vec::new()))
}

fn plan(rules: &Rules) -> InsertPlan {
    InsertPlan::new::<&str>(&schema(), None, 0, rules).expect("all columns are given")
}

fn source(rules: &Rules) -> Arc<SourcePlan> {
    let names = ["t", "dropped", "i", "d", "f"];
    Arc::new(SourcePlan::new(&schema(), Some(&names), 0, rules).expect("no column is named twice"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Input that resembles what the decoders accept.
    fn pieces(alphabet: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(alphabet), 0..60)
            .prop_map(|pieces| pieces.concat().into_bytes())
    }

    const SQL: &[&str] = &[
        "(",
        ")",
        ",",
        "1",
        "-",
        ".5",
        "1e9",
        "'",
        "\"",
        "\\",
        "a",
        "NULL",
        "DEFAULT",
        "TRUE",
        "0x41",
        "x'41'",
        "b'1'",
        "DATE",
        "'2024-01-01'",
        " ",
        "/*",
        "*/",
        "--",
        "#",
        "\n",
        ";",
        "?",
        "_binary",
        "N'x'",
        "\u{e9}",
        "INSERT",
        " INTO ",
        " t ",
        "VALUES",
        "`",
        "''",
        "(1,2,3,'a','b','2024-01-01','{}',1)",
    ];
    const CSV: &[&str] = &[
        ",",
        "\n",
        "\r",
        "\r\n",
        "\"",
        "\\",
        "\\N",
        "1",
        "2.5",
        "abc",
        "2024-01-01",
        "",
        "\u{feff}",
        "\u{e9}",
        ",,",
        "2024-01-01,x,1,2,3\n",
    ];
    const JSON: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"i\"",
        "\"d\"",
        "\"f\"",
        "\"t\"",
        "1",
        "-2.5e3",
        "null",
        "true",
        "\"\\u00e9\"",
        "\"\\ud800\"",
        "\n",
        " ",
        "{\"i\":1}\n",
        "{\"a\":[7]}",
        "[{\"i\":1},{\"i\":2}]",
    ];

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            super::values(&bytes);
            super::params(&bytes);
            super::csv(&bytes);
            super::json(&bytes);
        }

        #[test]
        fn near_sql(bytes in pieces(SQL)) {
            super::values(&bytes);
        }

        #[test]
        fn near_csv(bytes in pieces(CSV)) {
            super::csv(&bytes);
        }

        #[test]
        fn near_json(bytes in pieces(JSON)) {
            super::json(&bytes);
        }
    }
}
