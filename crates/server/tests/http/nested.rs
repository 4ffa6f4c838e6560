//! Nested values in bodies of every format.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Builder, Int64Array, ListArray, MapBuilder, MapFieldNames, RecordBatch,
    StringArray, StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type};
use arrow::ipc::writer::StreamWriter;
use freshet_meta::{ColumnSpec, KeySpec, TableSpec};
use freshet_schema::{ColumnType, TableForm};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::columnar::{parquet, put};
use crate::mapped::{counts, unique_key};
use crate::site::Site;

const INT: ColumnType = ColumnType::Int { unsigned: false };

fn of(name: &str, ty: ColumnType, elements: &[(&str, ColumnType)]) -> ColumnSpec {
    let elements = elements.iter().map(|(name, ty)| ColumnSpec::new(*name, *ty));
    ColumnSpec { elements: elements.collect(), ..ColumnSpec::new(name, ty) }
}

/// `n (a INT, l ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<x:INT,y:VARCHAR(3)>, v VARIANT)`.
fn site(key: Option<KeySpec>) -> Site {
    let site = Site::new();
    let columns = vec![
        ColumnSpec { nullable: false, ..ColumnSpec::new("a", INT) },
        of("l", ColumnType::Array, &[("", INT)]),
        of("m", ColumnType::Map, &[("", ColumnType::Text), ("", INT)]),
        of("s", ColumnType::Struct, &[("x", INT), ("y", ColumnType::VarChar { len: 3 })]),
        ColumnSpec::new("v", ColumnType::Variant),
    ];
    let spec = TableSpec { key, ..TableSpec::new("n", TableForm::Olap, columns) };
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
    site
}

fn load(site: &Site, headers: &[&str], body: &str) -> Value {
    let lines = [&[ROOT], headers].concat();
    site.client().request("PUT", "/api/d/n/_stream_load", &lines, body.as_bytes()).json()
}

/// The reasons in the error log of a reply.
fn log(site: &Site, reply: &Value) -> String {
    let url = reply["ErrorURL"].as_str().unwrap_or_else(|| panic!("{reply}"));
    site.get(url.strip_prefix("http://test.example").unwrap(), &[]).body
}

#[test]
fn csv_bodies_have_texts() {
    let site = site(None);
    let body =
        "1|[1,2]|{\"k\":1}|{\"x\":1,\"y\":\"a\"}|{\"q\":[1]}\n2|[]|{}|{}|\\N\n3|\\N|\\N|\\N|\\N\n";
    let reply = load(&site, &["column_separator: |"], body);
    assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
    let expected = [
        "1,[1, 2],{\"k\":1},{\"x\":1, \"y\":\"a\"},{\"q\": [1]}",
        "2,[],{},{\"x\":null, \"y\":null},NULL",
        "3,NULL,NULL,NULL,NULL",
    ];
    assert_eq!(site.rows_of("n"), expected);
    // Quoted, with commas between fields.
    let reply =
        load(&site, &["column_separator: ,", "enclose: \"", "columns: a, l"], "4,\"[4, 5]\"\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    // Computed from what stands in the body.
    let computed = ["column_separator: |", "columns: a, raw, l = array(a, 7)"];
    let reply = load(&site, &computed, "5|x\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    assert_eq!(site.rows_of("n")[3..], ["4,[4, 5],NULL,NULL,NULL", "5,[5, 7],NULL,NULL,NULL"]);
    site.stop();
}

#[test]
fn json_bodies_have_arrays_and_objects() {
    let site = site(None);
    let body = concat!(
        "{\"a\":1,\"l\":[1,null],\"m\":{\"k\":1},\"s\":{\"y\":\"a\",\"x\":1},",
        "\"v\":{\"q\":\"w\"}}\n",
        "{\"a\":2,\"l\":\"[3]\",\"m\":null,\"v\":5}\n",
    );
    let reply = load(&site, &["format: json", "read_json_by_line: true"], body);
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    let expected =
        ["1,[1, null],{\"k\":1},{\"x\":1, \"y\":\"a\"},{\"q\": \"w\"}", "2,[3],NULL,NULL,5"];
    assert_eq!(site.rows_of("n"), expected);
    let paths = [
        "format: json",
        "strict_mode: true",
        "jsonpaths: [\"$.id\", \"$.deep.list\"]",
        "columns: a, l",
    ];
    let reply = load(&site, &paths, "{\"id\":3,\"deep\":{\"list\":[[9]]}}");
    assert_eq!(reply["NumberFilteredRows"], 1, "an array is no int: {reply}");
    let reply = load(&site, &paths, "{\"id\":3,\"deep\":{\"list\":[9]}}");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    site.stop();
}

#[test]
fn what_does_not_fit_is_named() {
    let site = site(None);
    let strict = ["column_separator: |", "strict_mode: true", "columns: a, l, s"];
    for (body, reason) in [
        ("1|[1,x]|{}", "cannot be stored as array<int>: element 2: 'x' is no int"),
        ("1|[1|{}", "',' or ']' is wanted at position 2, and not the end"),
        ("1|[]|{1,'long'}", "field 'y': 'long' is 4 bytes, limit 3"),
        ("1|[]|{\"z\":1}", "it has no field 'z'"),
        ("1|7|{}", "'[' is wanted at position 0, and not '7'"),
    ] {
        let reply = load(&site, &strict, body);
        assert_eq!((&reply["Status"], counts(&reply)), (&json!("Fail"), [1, 0, 1, 0]), "{reply}");
        let log = log(&site, &reply);
        assert!(log.contains(reason), "{body}: {log}");
    }
    // Without strict mode it is NULL, as any value that does not fit.
    let lax = ["column_separator: |", "columns: a, l, s"];
    let reply = load(&site, &lax, "1|[1,x]|{2,'y'}");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    assert_eq!(site.rows_of("n"), ["1,NULL,NULL,{\"x\":2, \"y\":\"y\"},NULL"]);
    site.stop();
}

/// Deep and long texts are refused like others.
#[test]
fn deep_and_long_values_end_nothing() {
    let site = site(None);
    let strict = ["column_separator: |", "strict_mode: true", "columns: a, l"];
    let json = ["format: json", "strict_mode: true", "columns: a, l, v"];
    let deep = "[".repeat(300_000);
    let long = format!("[{}1]", "1,".repeat(1_000_000));
    for value in [&deep, &long] {
        let reply = load(&site, &strict, &format!("1|{value}"));
        assert_eq!(counts(&reply), [1, 0, 1, 0], "{reply}");
    }
    let closed = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for value in [&deep, &closed] {
        for member in ["l", "v"] {
            let reply = load(&site, &json, &format!("{{\"a\":1,\"{member}\":{value}}}"));
            assert_eq!(reply["Status"], "Fail", "{reply}");
        }
    }
    let most = format!("[{}1]", "1,".repeat(999_999));
    let reply = load(&site, &strict, &format!("1|{most}"));
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    site.stop();
}

fn batch() -> RecordBatch {
    let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let names = MapFieldNames {
        entry: "entries".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    };
    let (keys, values) = (StringBuilder::new(), Int32Builder::new());
    let mut maps = MapBuilder::new(Some(names), keys, values);
    maps.keys().append_value("k");
    maps.values().append_value(7);
    maps.append(true).unwrap();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let structs = StructArray::from(vec![
        (
            Arc::new(Field::new("y", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("x", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef,
        ),
    ]);
    let columns: [(&str, ArrayRef); 5] = [
        ("a", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("l", Arc::new(lists)),
        ("m", Arc::new(maps.finish())),
        ("s", Arc::new(structs)),
        ("v", Arc::new(StringArray::from(vec![Some("{\"q\":1}"), None, Some("[1]")]))),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

const LOADED: [&str; 3] = [
    "1,[1, null],{\"k\":7},{\"x\":1, \"y\":\"a\"},{\"q\": 1}",
    "2,NULL,{},{\"x\":2, \"y\":null},NULL",
    "3,[],NULL,{\"x\":3, \"y\":\"c\"},[1]",
];

#[test]
fn files_and_streams_have_lists_maps_and_structs() {
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, batch().schema_ref()).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    for (format, body) in [("format: parquet", parquet(&batch())), ("format: arrow", stream)] {
        let site = site(None);
        let reply = put(&site, "n", &[format], &body);
        assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
        assert_eq!(site.rows_of("n"), LOADED, "{format}");
        // As texts, in other columns.
        let reply = put(&site, "t", &[format, "columns: a, l, c = concat(l, '')"], &body);
        assert_eq!(reply["NumberTotalRows"], 3, "{reply}");
        site.stop();
    }
}

#[test]
fn the_last_row_of_a_key_replaces_its_values() {
    let site = site(Some(unique_key()));
    let put = |body: &str, more: &[&str]| {
        let reply = load(&site, &[&["column_separator: |"], more].concat(), body);
        assert_eq!(reply["Status"], "Success", "{reply}");
    };
    put("1|[1]|{\"k\":1}|{1,'a'}|{}\n2|[2]|{}|{}|1\n", &[]);
    put("1|[7]\n", &["partial_columns: true", "columns: a, l"]);
    let expected =
        ["1,[7],{\"k\":1},{\"x\":1, \"y\":\"a\"},{}", "2,[2],{},{\"x\":null, \"y\":null},1"];
    assert_eq!(site.rows_of("n"), expected);
    site.stop();
}

/// What a file says in few bytes may be many elements.
#[test]
fn a_list_of_many_elements_is_too_long() {
    let values = arrow::array::Int32Array::from(vec![1; 3_000_000]);
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let offsets = OffsetBuffer::new(vec![0, 3_000_000].into());
    let list = ListArray::new(item, offsets, Arc::new(values), None);
    let columns: [(&str, ArrayRef, bool); 2] =
        [("a", Arc::new(Int64Array::from(vec![1])), true), ("l", Arc::new(list), true)];
    let body = parquet(&RecordBatch::try_from_iter_with_nullable(columns).unwrap());
    assert!(body.len() < 1 << 20, "{}", body.len());
    let site = site(None);
    let reply = put(&site, "n", &["format: parquet", "strict_mode: true"], &body);
    assert_eq!(counts(&reply), [1, 0, 1, 0], "{reply}");
    assert!(log(&site, &reply).contains("more than 1000000 elements"));
    site.stop();
}
