use std::sync::Arc;

use freshet_schema::{ColumnType, OnBad, TableSchema};

use super::*;
use crate::decode::testing::{schema, show};

fn table() -> Arc<TableSchema> {
    schema(&[
        ("id", ColumnType::Int { unsigned: false }, false),
        ("name", ColumnType::VarChar { len: 10 }, true),
        ("score", ColumnType::Double, true),
    ])
}

struct Loaded {
    rows: Vec<String>,
    lines: u64,
    rejects: Rejects,
    warnings: Warnings,
}

fn load_with(
    body: &[u8],
    format: &CsvFormat,
    names: Option<&[&str]>,
    rules: &Rules,
) -> Result<Loaded> {
    let schema = table();
    let source = Arc::new(SourcePlan::new(&schema, names, 0, rules).unwrap());
    let mut decoder = CsvDecoder::new(format.clone(), &source, rules);
    let mut out = Vec::new();
    decoder.feed(body, &mut out)?;
    decoder.finish(&mut out)?;
    let rows = show(&schema, &out, decoder.rows());
    let lines = decoder.lines();
    let (rejects, warnings) = decoder.into_rejects();
    Ok(Loaded { rows, lines, rejects, warnings })
}

fn comma() -> CsvFormat {
    CsvFormat { separator: b",".to_vec(), ..CsvFormat::default() }
}

fn load(body: &str, format: &CsvFormat) -> Loaded {
    load_with(body.as_bytes(), format, None, &Rules::default()).unwrap()
}

#[test]
fn lines_become_rows() {
    let loaded = load("\u{feff}1,a,0.5\r\n\n2,\\N,1\n 3 ,,2e1", &comma());
    assert_eq!(loaded.rows, ["1|a|0.5", "2|-|1.0", "3||20.0"]);
    assert_eq!((loaded.lines, loaded.rejects.count()), (3, 0));
}

#[test]
fn bad_lines_are_rejected_one_by_one() {
    let loaded = load("1,a,1\n2,b\n3,c,3,4\nx,d,1\n\\N,e,1\n5,12345678901,1\n6,f,1\n", &comma());
    assert_eq!(loaded.rows, ["1|a|1.0", "6|f|1.0"]);
    let reasons: Vec<_> =
        loaded.rejects.kept().iter().map(|r| (r.row, r.reason.as_str())).collect();
    assert_eq!(reasons[0].0, 2);
    assert!(reasons[0].1.contains(
        "csv file is  less than  schema column number.actual \
         number: 2, schema column number: 3; line delimiter: [\\n], column \
         separator: [,], result values:[2, b]"
    ));
    assert!(reasons[1].1.contains(" is  more than  "));
    assert_eq!(reasons[2].1, "column(id), value 'x' cannot be stored as int");
    assert_eq!(reasons[3].1, "column(id) values is null while columns is not nullable");
    assert!(reasons[4].1.starts_with(
        "column_name[name], the length of input is too long than schema. first 32 \
         bytes of input str: [12345678901] schema length: 10; actual length: 11"
    ));
    assert_eq!(loaded.rejects.kept()[0].line, "2,b");
}

#[test]
fn separators_may_be_long_or_unprintable() {
    let format = CsvFormat {
        separator: parse_separator("||").unwrap(),
        delimiter: parse_separator("\\r\\n").unwrap(),
        ..CsvFormat::default()
    };
    assert_eq!(load("1||a|b||2\r\n2||\n||3\r\n", &format).rows, ["1|a|b|2.0", "2|\n|3.0"]);
    assert_eq!(parse_separator("\\x01"), Some(vec![1]));
    assert_eq!(parse_separator("\\t"), Some(b"\t".to_vec()));
    assert_eq!(parse_separator("\\x0102"), Some(vec![1, 2]));
    assert_eq!(parse_separator("\\x01\\X0aB"), None);
    assert_eq!(parse_separator("\\x01\\X0aBC|"), Some(vec![1, 10, 0xBC, b'|']));
    for broken in ["\\xzz", "\\x", "\\x1", "\\x012", "\\x01\\x"] {
        assert_eq!(parse_separator(broken), None, "{broken}");
    }
    assert_eq!(parse_separator(""), None);
    let format = CsvFormat { separator: vec![1], ..CsvFormat::default() };
    assert_eq!(load("1\x01a\x012\n", &format).rows, ["1|a|2.0"]);
}

#[test]
fn enclosed_fields_hold_separators_and_line_ends() {
    let format = CsvFormat { enclose: Some(b'"'), ..comma() };
    let loaded = load("1,\"a,\nb\",2\n2,\"q\\\"x\"\"\\\\\",3\n3,pl\"ain,4\n4,\"\",5", &format);
    assert_eq!(loaded.rows, ["1|a,\nb|2.0", "2|q\"x\"\\|3.0", "3|pl\"ain|4.0", "4||5.0"]);
    let open = load_with(b"1,a,2\n2,\"open,3\n", &format, None, &Rules::default());
    assert!(open.err().unwrap().message().contains("line 2 is not closed"));
}

#[test]
fn quotes_are_trimmed_and_empty_fields_are_null_on_demand() {
    let format = CsvFormat { trim_double_quotes: true, empty_field_as_null: true, ..comma() };
    assert_eq!(
        load("1,\"a\",2\n2,,\n3,\"\"\"\",1\n", &format).rows,
        ["1|a|2.0", "2|-|-", "3|\"\"|1.0"]
    );
    let format = CsvFormat { skip_lines: 2, ..comma() };
    assert_eq!(load("id,name,score\nint,text\n1,a,2\n", &format).rows, ["1|a|2.0"]);
}

#[test]
fn named_fields_come_in_their_order_and_others_are_dropped() {
    let names: &[&str] = &["NAME", "tmp", "id"];
    let loaded =
        load_with(b"a,x,1\nb,y,2\nc,3\n", &comma(), Some(names), &Rules::default()).unwrap();
    assert_eq!(loaded.rows, ["1|a|-", "2|b|-"]);
    assert_eq!(loaded.rejects.count(), 1);
    let names: &[&str] = &["name", "tmp"];
    let loaded = load_with(b"a,x\n", &comma(), Some(names), &Rules::default()).unwrap();
    assert_eq!(
        loaded.rejects.first_reason(),
        Some("column(id) values is null while columns is not nullable")
    );
}

#[test]
fn lax_loads_turn_what_does_not_convert_into_null() {
    let rules = Rules { on_bad: OnBad::Null, ..Rules::default() };
    let loaded = load_with(b"1,12345678901,x\nx,a,1\n2,,\n", &comma(), None, &rules).unwrap();
    assert_eq!(loaded.rows, ["1|1234567890|-", "2||-"]);
    assert_eq!((loaded.rejects.count(), loaded.warnings.count), (1, 3));
}

#[test]
fn bytes_that_are_no_utf8_cost_one_row() {
    let loaded =
        load_with(b"1,a,1\n2,\xff,1\n3,\xc3\xa9,1\n", &comma(), None, &Rules::default()).unwrap();
    assert_eq!(loaded.rows, ["1|a|1.0", "3|\u{e9}|1.0"]);
    assert!(loaded.rejects.first_reason().unwrap().starts_with("Unable to display"));
}

#[test]
fn bodies_are_cut_behind_lines() {
    let body = b"1,a\n2,b\n3,c";
    assert_eq!(split_at_line(body, 1, &comma()), Some(4));
    assert_eq!(split_at_line(body, 4, &comma()), Some(8));
    assert_eq!(split_at_line(body, 8, &comma()), None);
    assert_eq!(split_at_line(body, 99, &comma()), None);
    let enclosed = CsvFormat { enclose: Some(b'"'), ..comma() };
    assert_eq!(split_at_line(body, 1, &enclosed), None);
}

/// Decodes a body in pieces of these sizes, repeated. Also returns the number of examined bytes.
fn load_in_parts(body: &[u8], format: &CsvFormat, sizes: &[usize]) -> (Loaded, u64) {
    let (schema, rules) = (table(), Rules::default());
    let source = Arc::new(SourcePlan::new::<&str>(&schema, None, 0, &rules).unwrap());
    let mut decoder = CsvDecoder::new(format.clone(), &source, &rules);
    let mut out = Vec::new();
    let (mut rest, mut sizes) = (body, sizes.iter().cycle());
    while !rest.is_empty() {
        let (part, behind) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        decoder.feed(part, &mut out).unwrap();
        rest = behind;
    }
    // An enclosed field may be incomplete at the end.
    let _ = decoder.finish(&mut out);
    let work = decoder.work();
    let (rows, lines) = (show(&schema, &out, decoder.rows()), decoder.lines());
    let (rejects, warnings) = decoder.into_rejects();
    (Loaded { rows, lines, rejects, warnings }, work)
}

#[test]
fn a_line_is_looked_at_once_however_it_comes() {
    let bytes = 1 << 16;
    let enclosed = CsvFormat { enclose: Some(b'"'), ..comma() };
    let long = CsvFormat { delimiter: b"<end>".to_vec(), ..comma() };
    let bodies = [
        ("a quote that is never closed", format!("1,\"{}", "x".repeat(bytes)), &enclosed),
        ("many fields", "a,".repeat(bytes / 2), &enclosed),
        ("many enclosed fields", "\"a\",".repeat(bytes / 4), &enclosed),
        ("a long enclosed line", format!("1,\"{}\",2\n", "\n".repeat(bytes)), &enclosed),
        ("a long line of a long delimiter", "<en".repeat(bytes / 3), &long),
        ("a long line", "x".repeat(bytes), &comma()),
        ("what is no UTF-8", "\u{e9}".repeat(bytes / 2), &enclosed),
    ];
    for (what, body, format) in bodies {
        for part in [50, 4_000, bytes] {
            let (_, work) = load_in_parts(body.as_bytes(), format, &[part]);
            assert!(work <= 4 * bytes as u64, "{what} in parts of {part}: {work} bytes looked at");
        }
    }
}

proptest::proptest! {
    #[test]
    fn parts_of_any_size_decode_as_the_whole(
        body in "[\"'\\\\,;a1\r\n\u{e9}]{0,60}",
        sizes in proptest::collection::vec(1usize..8, 1..6),
        form in 0usize..6,
    ) {
        let quote = CsvFormat { enclose: Some(b'"'), ..comma() };
        let format = match form {
            0 => comma(),
            1 => quote,
            2 => CsvFormat { escape: None, ..quote },
            3 => CsvFormat { delimiter: b"\n;".to_vec(), separator: b",\n".to_vec(), ..quote },
            4 => CsvFormat { delimiter: b"aa".to_vec(), separator: b",a".to_vec(), ..quote },
            _ => CsvFormat { delimiter: b"\r\n".to_vec(), enclose: None, ..quote },
        };
        let whole = load_in_parts(body.as_bytes(), &format, &[usize::MAX]).0;
        let parts = load_in_parts(body.as_bytes(), &format, &sizes).0;
        proptest::prop_assert_eq!(whole.rows, parts.rows);
        proptest::prop_assert_eq!(whole.lines, parts.lines);
        proptest::prop_assert_eq!(whole.rejects.log(), parts.rejects.log());
    }
}

#[test]
fn fields_of_the_first_line_are_counted_once_it_has_come() {
    let of =
        |start: &str, format: &CsvFormat, is_all| field_count(start.as_bytes(), format, is_all);
    let plain = CsvFormat { separator: b",".to_vec(), ..CsvFormat::default() };
    assert_eq!(of("a,b,c\n1,2\n", &plain, false), Some(3));
    assert_eq!(of("a,b", &plain, false), None);
    assert_eq!(of("a,b", &plain, true), Some(2));
    assert_eq!(of("", &plain, true), None);
    assert_eq!(of("\u{feff}\n\na\n", &plain, false), Some(1));
    let skipping = CsvFormat { skip_lines: 2, ..plain.clone() };
    assert_eq!(of("a\nb,b\nc,c,c\n", &skipping, false), Some(3));
    let enclosed = CsvFormat { enclose: Some(b'"'), ..plain };
    assert_eq!(of("\"a,\nb\",c\n", &enclosed, false), Some(2));
    assert_eq!(of("\"a,\nb", &enclosed, true), None);
}
