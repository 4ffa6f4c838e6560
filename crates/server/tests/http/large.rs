//! Bodies that are decoded in pieces, and loads that are written to files.

use std::fmt::Write;

use freshet_server::http::HttpConfig;
use serde_json::json;

use crate::client::ROOT;
use crate::site::Site;

/// CSV with this many rows of about 16 bytes.
fn csv(rows: u32) -> String {
    let mut text = String::new();
    for row in 0..rows {
        writeln!(text, "{row},{},r{}", row % 1000, row % 100).unwrap();
    }
    text
}

#[test]
fn a_large_body_becomes_files_whole_and_in_one_step() {
    let site = Site::with_small_records();
    let body = csv(200_000);
    assert!(body.len() > 2 << 20);
    let reply = site.load(&["label: large"], &body);
    assert_eq!(
        (&reply["Status"], &reply["NumberLoadedRows"]),
        (&json!("Success"), &json!(200_000))
    );
    assert_eq!(reply["LoadBytes"], body.len());
    assert_eq!(site.places(), (200_000, 0));
    assert_eq!(site.load(&["label: large"], "1,1,a")["Status"], "Label Already Exists");
    let mut expected: Vec<&str> = body.lines().collect();
    expected.sort_unstable();
    assert_eq!(site.rows(), expected);
    site.stop();
}

#[test]
fn pieces_that_fit_a_record_stay_in_memory() {
    let site = Site::with(HttpConfig::default());
    let body = csv(40_000) + &"\n".repeat(1 << 20);
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    for part in body.as_bytes().chunks(70_001) {
        client.chunk(part);
    }
    client.chunk(b"");
    let reply = client.answer().json();
    assert_eq!((&reply["Status"], &reply["NumberTotalRows"]), (&json!("Success"), &json!(40_000)));
    assert_eq!(site.places(), (0, 40_000));
    site.stop();
}

#[test]
fn one_bad_row_anywhere_refuses_a_large_body() {
    let site = Site::with_small_records();
    let mut body = csv(150_000);
    body.push_str("nonsense\n");
    body.push_str(&csv(10));
    let refused = site.load(&[], &body);
    assert_eq!((&refused["Status"], &refused["NumberFilteredRows"]), (&json!("Fail"), &json!(1)));
    assert_eq!(site.places(), (0, 0));
    let path = refused["ErrorURL"].as_str().unwrap().strip_prefix("http://test.example").unwrap();
    assert!(site.get(path, &[]).body.contains("[nonsense]"));
    let taken = site.load(&["max_filter_ratio: 0.1"], &body);
    assert_eq!(
        (&taken["Status"], &taken["NumberLoadedRows"]),
        (&json!("Success"), &json!(150_010))
    );
    assert_eq!(site.places(), (150_010, 0));
    site.stop();
}

#[test]
fn large_bodies_in_one_go_stream_to_files_too() {
    let site = Site::with_small_records();
    let reply = site.load(&["enclose: '"], &csv(300_000));
    assert_eq!(
        (&reply["Status"], &reply["NumberLoadedRows"]),
        (&json!("Success"), &json!(300_000))
    );
    assert_eq!(site.places(), (300_000, 0));
    let mut json = String::new();
    for row in 0..60_000 {
        writeln!(json, "{{\"a\": {row}, \"b\": 1, \"c\": \"x\"}}").unwrap();
    }
    let reply = site.load(&["format: json", "read_json_by_line: true"], &json);
    assert_eq!((&reply["Status"], &reply["NumberLoadedRows"]), (&json!("Success"), &json!(60_000)));
    assert_eq!(site.places(), (360_000, 0));
    site.stop();
}

#[test]
fn lines_to_skip_may_reach_far_into_a_large_body() {
    let site = Site::new();
    let body = csv(150_000);
    let reply = site.load(&["skip_lines: 149990"], &body);
    assert_eq!((&reply["Status"], &reply["NumberTotalRows"]), (&json!("Success"), &json!(10)));
    site.stop();
}

#[test]
fn a_large_body_without_a_row_is_an_empty_load() {
    let site = Site::new();
    let blank = "\n".repeat((1 << 20) + 1);
    let wrong = "nonsense\n".repeat(1 << 17);
    for (headers, body, filtered) in
        [(&[][..], &blank, 0), (&["max_filter_ratio: 1"][..], &wrong, 1 << 17)]
    {
        let reply = site.load(headers, body);
        assert_eq!((&reply["Status"], &reply["NumberLoadedRows"]), (&json!("Success"), &json!(0)));
        assert_eq!(reply["NumberFilteredRows"], json!(filtered));
    }
    assert_eq!(site.places(), (0, 0));
    site.stop();
}

#[test]
fn a_large_array_is_one_document() {
    let site = Site::with_small_records();
    let objects: Vec<String> =
        (0..60_000).map(|row| format!("{{\"a\":{row},\"b\":2,\"c\":\"y\"}}")).collect();
    let array = format!("[{}]", objects.join(","));
    assert!(array.len() > 1 << 20);
    let reply = site.load(&["format: json", "strip_outer_array: true"], &array);
    assert_eq!((&reply["Status"], &reply["NumberLoadedRows"]), (&json!("Success"), &json!(60_000)));
    assert_eq!(site.places(), (60_000, 0));
    site.stop();
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let site = Site::new();
    let reply = site.load(&[], &"x".repeat(40 << 20));
    assert_eq!(reply["Status"], "Fail");
    assert!(reply["Message"].as_str().unwrap().contains("line_delimiter"), "{reply}");
    assert!(reply["LoadBytes"].as_u64().unwrap() < 40 << 20, "the rest was not wanted");
    site.stop();
}
