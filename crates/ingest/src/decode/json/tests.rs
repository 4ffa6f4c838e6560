use std::sync::Arc;

use freshet_schema::{ColumnType, DefaultValue, TableSchema};

use super::*;
use crate::decode::testing::{schema, show};

fn table() -> Arc<TableSchema> {
    let columns = schema(&[
        ("id", ColumnType::Int { unsigned: false }, false),
        ("name", ColumnType::Text, true),
        ("ok", ColumnType::Boolean, true),
    ]);
    let mut columns = TableSchema::clone(&columns);
    columns.columns[1].default = Some(DefaultValue::Literal("?".into()));
    Arc::new(columns)
}

fn load(body: &str, format: JsonFormat, names: Option<&[&str]>) -> (Vec<String>, Rejects) {
    let (schema, rules) = (table(), Rules::default());
    let source = Arc::new(SourcePlan::new(&schema, names, 0, &rules).unwrap());
    let mut decoder = JsonDecoder::new(format, &source, &rules);
    let mut out = Vec::new();
    decoder.feed(body.as_bytes(), &mut out).unwrap();
    decoder.finish(&mut out).unwrap();
    let rows = show(&schema, &out, decoder.rows());
    assert_eq!(decoder.objects(), rows.len() as u64 + decoder.rejects.count());
    (rows, decoder.into_rejects().0)
}

fn array() -> JsonFormat {
    JsonFormat { strip_outer_array: true, ..JsonFormat::default() }
}

#[test]
fn an_object_a_line() {
    let body = "{\"id\":1,\"name\":\"a\\n\\u00e9\",\"ok\":true}\n\n\
        {\"OK\":false,\"x\":[1],\"Id\":\"2\"}\n{\"id\":3,\"name\":null}";
    let (rows, rejects) = load(body, JsonFormat::default(), None);
    assert_eq!(rows, ["1|a\n\u{e9}|1", "2|?|0", "3|-|-"]);
    assert_eq!(rejects.count(), 0);
}

#[test]
fn an_array_of_objects() {
    let (rows, _) = load(
        " [ {\"id\":1.0}, {\"name\":{\"a\": [1, 2]}, \"id\":2},{\"id\":3,\"name\":1.50} ] ",
        array(),
        None,
    );
    assert_eq!(rows, ["1|?|-", "2|{\"a\": [1, 2]}|-", "3|1.50|-"]);
    let by_line = JsonFormat { read_by_line: true, ..array() };
    assert_eq!(load("[{\"id\":1},{\"id\":2}]\n[{\"id\":3}]", by_line, None).0.len(), 3);
}

#[test]
fn an_array_is_decoded_while_it_comes_and_never_held_whole() {
    let element = r#" { "id" : 7, "name" : "a ] \" } , \\", "x": [ {}, "]" ] }"#;
    let body = format!("\u{feff}[{}\n]\n", vec![element; 1000].join(","));
    let (schema, rules) = (table(), Rules::default());
    let source = Arc::new(SourcePlan::new(&schema, None::<&[&str]>, 0, &rules).unwrap());
    for part_bytes in [1, 2, 7, 1000] {
        let mut decoder = JsonDecoder::new(array(), &source, &rules);
        let mut out = Vec::new();
        for part in body.as_bytes().chunks(part_bytes) {
            decoder.feed(part, &mut out).unwrap();
            assert!(decoder.waiting_bytes() <= element.len() + part_bytes);
        }
        assert_eq!(decoder.rows(), 1000, "all rows are there before the end");
        decoder.finish(&mut out).unwrap();
        let rows = show(&schema, &out, decoder.rows());
        assert!(rows.iter().all(|row| row == r#"7|a ] " } , \|-"#), "{}", rows[0]);
        assert_eq!(decoder.into_rejects().0.count(), 0);
    }
}

#[test]
fn what_is_no_array_of_objects_is_rejected_from_there_on() {
    let cases = [
        ("[{\"id\":1},{\"id\":2}", 1, "the array does not end"),
        ("[{\"id\":1},]", 1, "a value is missing"),
        ("[,{\"id\":1}]", 0, "a value is missing"),
        ("[{\"id\":1}}, {\"id\":2}]", 0, "an object ends that did not begin"),
        ("[{\"id\":1}] [{\"id\":2}]", 1, "something stands behind the array"),
        ("[{\"id\":1}, {\"id\" 2}]", 1, "Parse json data failed: expected `:`"),
        ("[{\"id\":1}, {\"id\": \"2]", 1, "the array does not end"),
        ("{\"id\":1}", 0, "`strip_outer_array` must be FALSE"),
    ];
    for (body, rows, reason) in cases {
        let (read, rejects) = load(body, array(), None);
        assert_eq!(read.len(), rows, "{body}");
        assert_eq!(rejects.count(), 1, "{body}");
        assert!(rejects.first_reason().unwrap().contains(reason), "{:?}", rejects.first_reason());
    }
    // Any number of byte order marks must not overflow the stack.
    let marks = "\u{feff}".repeat(1_000_000);
    assert_eq!(load(&format!("{marks}[{{\"id\":1}}]"), array(), None).0.len(), 1);
    for nothing in ["", " \n", "[]", " [ ] ", "\u{feff}"] {
        let (read, rejects) = load(nothing, array(), None);
        assert_eq!((read.len(), rejects.count()), (0, 0), "{nothing}");
    }
}

#[test]
fn bad_objects_are_rejected_one_by_one() {
    let body = "{\"id\":1}\n{\"id\":}\n{\"id\":2}{\"id\":3}\n\
        {\"name\":\"x\"}\n{\"id\":\"x\"}\n[{\"id\":1}]\n{\"id\":9}\n7";
    let (rows, rejects) = load(body, JsonFormat::default(), None);
    assert_eq!(rows, ["1|?|-", "9|?|-"]);
    let reasons: Vec<_> = rejects.kept().iter().map(|r| (r.row, r.reason.as_str())).collect();
    assert!(reasons[0].1.starts_with("Parse json data for JsonDoc failed"));
    assert_eq!(reasons[1], (3, "Multiple JSON objects in a single line"));
    assert_eq!(reasons[2].1, "column(id) values is null while columns is not nullable");
    assert_eq!(reasons[3].1, "column(id), value 'x' cannot be stored as int");
    assert!(reasons[4].1.contains("`strip_outer_array` must be TRUE"));
    assert_eq!(reasons[5].0, 8);
    let (rows, rejects) = load("{\"id\":1}", array(), None);
    assert_eq!(rows.len(), 0);
    assert!(rejects.first_reason().unwrap().contains("`strip_outer_array` must be FALSE"));
}

#[test]
fn paths_and_roots_choose() {
    let paths = JsonPath::parse_list("[\"$.k.id\", \"$.k.names[1]\"]").unwrap();
    let format = JsonFormat { paths, root: JsonPath::parse("$.data").unwrap(), ..array() };
    let body = "{\"data\":[{\"k\":{\"id\":1,\"names\":[\"a\",\"b\"]}},{\"k\":{\"id\":2}}]}";
    assert_eq!(load(body, format.clone(), Some(&["id", "name"])).0, ["1|b|-", "2|?|-"]);
    // Columns behind the last path are as if they were missing; paths behind the last column are
    // not looked for.
    assert_eq!(load(body, format.clone(), None).0, ["1|b|-", "2|?|-"]);
    assert_eq!(load(body, format.clone(), Some(&["id"])).0, ["1|?|-", "2|?|-"]);
    let (_, rejects) = load("{\"other\":1}", format, Some(&["id", "name"]));
    assert_eq!(rejects.first_reason(), Some("json_root is not in the document"));
}

#[test]
fn numbers_may_stay_text() {
    let format = JsonFormat { num_as_string: true, ..JsonFormat::default() };
    assert_eq!(load("{\"id\":1,\"name\":1.10e2}", format, None).0, ["1|1.10e2|-"]);
    assert_eq!(load("{\"id\":1,\"name\":1.10e2}", JsonFormat::default(), None).0, ["1|110|-"]);
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    assert_eq!(load("{\"id\":1,\"id\":2}", JsonFormat::default(), None).0, ["2|?|-"]);
}

#[test]
fn a_line_is_looked_at_once_however_it_comes() {
    let schema = schema(&[("a", ColumnType::Int { unsigned: false }, true)]);
    let rules = Rules::default();
    let source = Arc::new(SourcePlan::new::<&str>(&schema, None, 0, &rules).unwrap());
    let body = format!("{{\"a\": 1, \"b\": \"{}\"}}", "<en".repeat(20_000)).into_bytes();
    for delimiter in [&b""[..], b"<end>"] {
        let format = JsonFormat { delimiter: delimiter.to_vec(), ..JsonFormat::default() };
        let mut decoder = JsonDecoder::new(format, &source, &rules);
        let mut out = Vec::new();
        for part in body.chunks(100) {
            decoder.feed(part, &mut out).unwrap();
        }
        decoder.finish(&mut out).unwrap();
        assert_eq!(decoder.rows(), 1);
        assert!(decoder.work.bytes <= 2 * body.len() as u64, "{}", decoder.work.bytes);
    }
}
