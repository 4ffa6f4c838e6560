//! Stream loads in all formats.

use freshet_meta::{ColumnSpec, PartitionBySpec, PartitionSpec, TableSpec, ValueSpec, ValuesSpec};
use freshet_schema::{ColumnType, PartitionMethod, TableForm};
use freshet_server::http::HttpConfig;
use futures::executor::block_on;
use serde_json::json;

use crate::client::ROOT;
use crate::site::Site;

#[test]
fn a_small_csv_is_loaded_and_told_of() {
    let site = Site::new();
    let reply = site.load(&[], "1,10,x\n2,\\N,yy");
    assert_eq!(site.rows(), ["1,10,x", "2,NULL,yy"]);
    assert_eq!((&reply["Status"], &reply["Message"]), (&json!("Success"), &json!("OK")));
    assert_eq!((&reply["NumberTotalRows"], &reply["NumberLoadedRows"]), (&json!(2), &json!(2)));
    assert_eq!(reply["LoadBytes"], 14);
    assert_eq!(reply["TwoPhaseCommit"], "false");
    assert!(reply["TxnId"].as_i64().unwrap() > 0);
    assert!(reply["Label"].as_str().unwrap().starts_with("label_"));
    assert!(reply.get("GroupCommit").is_none() && reply.get("ErrorURL").is_none());
    site.stop();
}

#[test]
fn loads_of_a_window_share_label_and_transaction() {
    let site = Site::new();
    let first = site.load(&["group_commit: async_mode"], "1,1,a");
    let second = site.load(&["group_commit: sync_mode"], "2,2,b");
    assert_eq!(first["GroupCommit"], true);
    assert!(first["Label"].as_str().unwrap().starts_with("group_commit_"));
    assert_eq!((&first["Label"], &first["TxnId"]), (&second["Label"], &second["TxnId"]));
    assert!(first.get("TwoPhaseCommit").is_none() && first.get("BeginTxnTimeMs").is_none());
    let alone = site.load(&["group_commit: async_mode", "label: mine"], "3,3,c");
    assert_eq!((&alone["Label"], &alone["TwoPhaseCommit"]), (&json!("mine"), &json!("false")));
    let empty = site.load(&["group_commit: async_mode"], "");
    assert_eq!((&empty["Status"], &empty["TwoPhaseCommit"]), (&json!("Success"), &json!("false")));
    assert_eq!(site.rows().len(), 3);
    site.stop();
}

#[test]
fn one_connection_carries_many_loads() {
    let site = Site::new();
    let mut client = site.client();
    for row in 0..20 {
        let reply = client.put(&["group_commit: async_mode"], &format!("{row},1,a\n")).json();
        assert_eq!(reply["Status"], "Success");
    }
    assert_eq!(site.rows().len(), 20);
    site.stop();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    std::io::Write::write_all(&mut to, bytes).unwrap();
    to.finish().unwrap()
}

#[test]
fn compressed_bodies_are_unpacked() {
    let site = Site::new();
    let put = |headers: &[&str], body: &[u8]| {
        let headers = [&[ROOT, "column_separator: ,"], headers].concat();
        site.client().request("PUT", "/api/d/t/_stream_load", &headers, body).json()
    };
    let packed = gzip(b"1,10,x\n2,20,y\n");
    let reply = put(&["compress_type: GZ", "group_commit: async_mode"], &packed);
    assert_eq!((&reply["Status"], &reply["NumberLoadedRows"]), (&json!("Success"), &json!(2)));
    assert_eq!(reply["LoadBytes"], packed.len());
    assert_eq!(reply["GroupCommit"], true);
    let objects = gzip(br#"{"a": 3, "b": 30, "c": "z"}"#);
    let json = ["format: json", "read_json_by_line: true", "Content-Encoding: gzip"];
    assert_eq!(put(&json, &objects)["NumberLoadedRows"], 1);
    assert_eq!(site.rows(), ["1,10,x", "2,20,y", "3,30,z"]);

    // Both headers, which must say the same.
    let both = ["compress_type: GZ", "Content-Encoding: gzip", "label: both"];
    assert_eq!(put(&both, &gzip(b"4,40,w\n"))["NumberLoadedRows"], 1);
    let reply = put(&["compress_type: LZ4", "Content-Encoding: gzip"], &gzip(b"5,50,v\n"));
    let message = reply["Message"].as_str().unwrap();
    assert!(message.ends_with("compress_type is lz4, and Content-Encoding is gz"), "{message}");
    assert_eq!(site.rows().len(), 4);

    // A large one in chunks, one that ends early, and one that is something else.
    let rows = (10..300_000).map(|row| format!("{row},1,ab\n")).collect::<String>();
    let packed = zstd::encode_all(rows.as_bytes(), 1).unwrap();
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "compress_type: zstd", "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    packed.chunks(10_000).for_each(|part| client.chunk(part));
    client.chunk(b"");
    assert_eq!(client.answer().json()["NumberLoadedRows"], 299_990);
    for body in [&packed[..packed.len() / 2], b"1,2,not packed\n"] {
        let reply = put(&["compress_type: zstd", "label: again"], body);
        assert_eq!(reply["Status"], "Fail");
        let message = reply["Message"].as_str().unwrap();
        assert!(message.contains("cannot be unpacked as zstd"), "{message}");
    }
    assert_eq!(put(&["compress_type: zstd", "label: again"], &packed)["Status"], "Success");
    assert_eq!(site.rows().len(), 4 + 2 * 299_990);
    site.stop();
}

/// Blocks as Hadoop writes them, of a piece each.
fn blocks(bytes: &[u8], pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let block = |block: &[u8]| {
        let packed = pack(block);
        let sizes = [block.len() as u32, packed.len() as u32].map(u32::to_be_bytes).concat();
        [sizes, packed].concat()
    };
    bytes.chunks(64 << 10).flat_map(block).collect()
}

#[test]
fn bodies_of_blocks_are_unpacked() {
    let site = Site::new();
    let rows = (0..20_000).map(|row| format!("{row},1,ab\n")).collect::<String>();
    let lz4 = blocks(rows.as_bytes(), lz4_flex::block::compress);
    let snappy =
        blocks(rows.as_bytes(), |part| snap::raw::Encoder::new().compress_vec(part).unwrap());
    for (name, body) in [("lz4_block", &lz4), ("SNAPPY_BLOCK", &snappy)] {
        let kind = format!("compress_type: {name}");
        let lines = [ROOT, "column_separator: ,", &kind];
        let put = |body: &[u8]| {
            site.client().request("PUT", "/api/d/t/_stream_load", &lines, body).json()
        };
        assert_eq!(put(body)["NumberLoadedRows"], 20_000, "{name}");
        // One that ends early, one that is not packed, and one that claims to be huge.
        let huge = [&[0xff; 8][..], body].concat();
        for bad in [&body[..body.len() - 3], b"1,2,not packed\n", &huge] {
            let message = put(bad)["Message"].as_str().unwrap().to_owned();
            let wanted = format!("cannot be unpacked as {}", name.to_lowercase());
            assert!(message.contains(&wanted), "{message}");
        }
    }
    assert_eq!(site.rows().len(), 40_000);
    site.stop();
}

#[test]
fn the_reply_tells_why_a_load_shares_no_group() {
    let site = Site::new();
    let grouped = site.load(&["group_commit: async_mode"], "1,1,a");
    assert_eq!((&grouped["GroupCommit"], grouped.get("GroupCommitNote")), (&json!(true), None));
    let note = |headers: &[&str]| {
        let reply = site.load(&[&["group_commit: async_mode"], headers].concat(), "1,1,a");
        assert_eq!((&reply["Status"], reply.get("GroupCommit")), (&json!("Success"), None));
        reply["GroupCommitNote"].as_str().unwrap().to_owned()
    };
    let alone = "async_mode has no effect on this load: ";
    assert_eq!(note(&["label: named"]), format!("{alone}it has a label (group_commit_labels)"));
    let why = "it has two_phase_commit (group_commit_labels)";
    assert_eq!(note(&["two_phase_commit: true"]), format!("{alone}{why}"));
    assert!(site.load(&["label: other"], "1,1,a").get("GroupCommitNote").is_none());
    site.stop();
}

#[test]
fn a_paused_table_takes_no_loads_until_it_is_resumed() {
    let site = Site::new();
    let set = |value: &str| {
        let id = site.engine.target("d", "t").unwrap().id();
        let pairs = vec![("pause_load".to_owned(), value.to_owned())];
        block_on(site.engine.ddl().set_properties(id, pairs)).unwrap();
    };
    set("true");
    for mode in ["async_mode", "off_mode"] {
        let answer = site.client().put(&[&format!("group_commit: {mode}")], "1,1,a");
        assert_eq!(answer.status, 503);
        assert!(answer.head.to_lowercase().contains("retry-after: 10"), "{}", answer.head);
        let message = answer.json()["Message"].to_string();
        assert!(message.contains("ALTER TABLE t RESUME LOAD"), "{message}");
    }
    set("false");
    assert_eq!(site.load(&[], "1,1,a")["Status"], "Success");
    site.stop();
}

#[test]
fn what_cannot_be_planned_is_an_error_of_the_analysis() {
    let site = Site::new();
    let message = |header: &str| site.load(&[header], "1,1,a")["Message"].to_string();
    for header in [
        "where: a >",
        "where: nothing(a) = 1",
        "columns: a, b, x, c = nothing(x)",
        "columns: a, a, b",
        "partitions: p1",
    ] {
        let message = message(header);
        assert!(message.contains("[ANALYSIS_ERROR]"), "{header}: {message}");
    }
    for header in ["where: sum(a) > 1", "columns: a, b, x, c = max(x)"] {
        let message = message(header);
        assert!(message.contains("see one row at a time"), "{header}: {message}");
    }
    site.stop();
}

#[test]
fn a_body_that_unpacks_to_too_much_is_refused() {
    let mut config = HttpConfig::default();
    config.loads.streaming_load_max_mb = 1;
    let site = Site::with(config);
    let bomb = gzip(&vec![b'1'; 40 << 20]);
    let lines = [ROOT, "compress_type: gz"];
    let reply = site.client().request("PUT", "/api/d/t/_stream_load", &lines, &bomb).json();
    assert!(reply["Message"].as_str().unwrap().contains("`streaming_load_max_mb`"), "{reply}");
    assert!(site.rows().is_empty());
    site.stop();
}

#[test]
fn chunks_and_expect_are_understood() {
    let site = Site::new();
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.chunk(b"1,1,a\n2,");
    client.chunk(b"2,b\n");
    client.chunk(b"");
    assert_eq!(client.answer().json()["NumberLoadedRows"], 2);
    let lines = [ROOT, "column_separator: ,", "Content-Length: 5", "Expect: 100-continue"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    assert_eq!(client.answer().status, 100);
    std::io::Write::write_all(&mut client.0, b"3,3,c").unwrap();
    assert_eq!(client.answer().json()["Status"], "Success");
    assert_eq!(site.rows(), ["1,1,a", "2,2,b", "3,3,c"]);
    site.stop();
}

#[test]
fn bad_rows_are_counted_explained_and_may_be_few_only() {
    let site = Site::new();
    let body = "1,1,a\nx,2,b\n3,3\n4,4,d\n";
    let refused = site.load(&["strict_mode: true", "max_filter_ratio: 0.4"], body);
    assert_eq!(refused["Status"], "Fail");
    assert_eq!(refused["Message"], "[DATA_QUALITY_ERROR]too many filtered rows");
    assert_eq!(
        (&refused["NumberFilteredRows"], &refused["NumberLoadedRows"]),
        (&json!(2), &json!(0))
    );
    assert!(refused["FirstErrorMsg"].as_str().unwrap().contains('x'));
    assert_eq!(site.rows(), Vec::<String>::new());
    let taken = site.load(&["strict_mode: true", "max_filter_ratio: 0.5"], body);
    assert_eq!((&taken["Status"], &taken["NumberLoadedRows"]), (&json!("Success"), &json!(2)));
    assert_eq!(taken["NumberTotalRows"], 4);
    let url = taken["ErrorURL"].as_str().unwrap();
    let path = url.strip_prefix("http://test.example").unwrap();
    let log = site.get(path, &[]);
    assert_eq!((log.status, log.body.lines().count()), (200, 2));
    assert!(log.body.contains("less than"), "{}", log.body);
    assert_eq!(site.rows(), ["1,1,a", "4,4,d"]);
    site.stop();
}

/// Table `d`, divided by `a`: below 10, and from 10 to 19.
fn divide(site: &Site) {
    let below = |name: &str, value: &str| PartitionSpec {
        name: name.to_owned(),
        if_not_exists: false,
        values: ValuesSpec::LessThan(vec![ValueSpec::Literal(value.to_owned())]),
    };
    let by = PartitionBySpec {
        method: PartitionMethod::Range,
        columns: vec!["a".to_owned()],
        function: None,
        computed: None,
        has_columns_word: false,
        auto: None,
        partitions: vec![below("low", "10"), below("high", "20")],
    };
    let int = ColumnType::Int { unsigned: false };
    let text = ColumnSpec::new("c", ColumnType::VarChar { len: 4 });
    let columns = vec![ColumnSpec::new("a", int), ColumnSpec::new("b", int), text];
    let spec =
        TableSpec { partition_by: Some(by), ..TableSpec::new("p", TableForm::Olap, columns) };
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
}

#[test]
fn rows_that_no_partition_takes_are_rejected() {
    let site = Site::new();
    divide(&site);
    let put = |headers: &[&str], body: &str| {
        let headers = [&[ROOT, "column_separator: ,"], headers].concat();
        site.client().request("PUT", "/api/d/p/_stream_load", &headers, body.as_bytes()).json()
    };
    let body = "1,1,1\n25,2,2\n12,3,3\n";
    let refused = put(&[], body);
    assert_eq!((&refused["Status"], &refused["NumberFilteredRows"]), (&json!("Fail"), &json!(1)));
    let first = refused["FirstErrorMsg"].as_str().unwrap();
    assert!(first.contains("no partition for this tuple. tuple=25"), "{first}");
    let taken = put(&["max_filter_ratio: 0.5"], body);
    assert_eq!((&taken["Status"], &taken["NumberLoadedRows"]), (&json!("Success"), &json!(2)));
    // Of those that are named.
    let taken = put(&["max_filter_ratio: 0.5", "partitions: high, nope"], "2,4,4\n13,5,5\n");
    assert_eq!(taken["Status"], "Fail", "{taken}");
    let taken = put(&["max_filter_ratio: 0.5", "partitions: high"], "2,4,4\n13,5,5\n");
    assert_eq!((&taken["Status"], &taken["NumberLoadedRows"]), (&json!("Success"), &json!(1)));
    let computed = put(&["columns: x, b, c, a = x + 1"], "9,6,6\n");
    assert_eq!(computed["Status"], "Success", "{computed}");
    let computed = put(&["columns: x, b, c, a = x + 10"], "10,6,6\n");
    assert_eq!(computed["Status"], "Fail", "{computed}");
    assert_eq!(site.rows_of("p"), ["1,1,1", "10,6,6", "12,3,3", "13,5,5"]);
    site.stop();
}

#[test]
fn lax_loads_mend_what_strict_ones_refuse() {
    let site = Site::new();
    let reply = site.load(&["max_filter_ratio: 0"], "1,many,abcdefg\n");
    assert_eq!((&reply["Status"], &reply["NumberLoadedRows"]), (&json!("Success"), &json!(1)));
    assert_eq!(site.rows(), ["1,NULL,abcd"]);
    let refused = site.load(&["strict_mode: true"], "1,1,abcdefg\n");
    assert_eq!(refused["Status"], "Fail");
    site.stop();
}

#[test]
fn columns_are_given_in_any_order_and_may_be_left_out() {
    let site = Site::new();
    site.load(&["columns: c, ignored, a"], "x,zzz,1\n");
    assert_eq!(site.rows(), ["1,NULL,x"]);
    let missing = site.load(&["columns: b"], "1\n");
    assert_eq!(missing["Status"], "Fail", "a takes no NULL and has no default");
    site.stop();
}

#[test]
fn json_comes_by_line_or_as_an_array() {
    let site = Site::new();
    let by_line = ["format: json", "read_json_by_line: true"];
    let reply = site.load(&by_line, "{\"a\":1,\"c\":\"x\"}\n{\"b\":3,\"a\":2,\"z\":0}\n");
    assert_eq!(reply["NumberLoadedRows"], 2, "{reply}");
    let array = ["format: json", "strip_outer_array: true", "jsonpaths: [\"$.k\", \"$.v.w\"]"];
    let reply =
        site.load(&[&array[..], &["columns: a, b"]].concat(), "[{\"k\":3,\"v\":{\"w\":4}}]");
    assert_eq!(reply["NumberLoadedRows"], 1, "{reply}");
    assert_eq!(site.rows(), ["1,NULL,x", "2,3,NULL", "3,4,NULL"]);
    let wrong = site.load(&["format: json"], "[{\"a\":1}]");
    assert_eq!((&wrong["Status"], &wrong["NumberFilteredRows"]), (&json!("Fail"), &json!(1)));
    site.stop();
}

#[test]
fn headers_are_passed_over_and_quotes_enclose() {
    let site = Site::new();
    site.load(&["format: csv_with_names"], "a,b,c\n1,1,a\n");
    site.load(&["format: csv_with_names_and_types"], "a,b,c\nint,int,text\n2,2,b\n");
    site.load(&["enclose: \"", "trim_double_quotes: true"], "3,3,\"x,\ny\"\n");
    assert_eq!(site.rows(), ["1,1,a", "2,2,b", "3,3,x,\ny"]);
    site.stop();
}

#[test]
fn refusals_use_the_words_of_doris() {
    let site = Site::new();
    let message = |headers: &[&str]| {
        let reply = site.load(headers, "1,1,a");
        assert_eq!((&reply["Status"], &reply["TxnId"]), (&json!("Fail"), &json!(-1)));
        reply["Message"].as_str().unwrap().to_owned()
    };
    assert!(message(&["group_commit: x"]).ends_with("[async_mode, sync_mode, off_mode]"));
    assert_eq!(
        message(&["strict_mode: x"]),
        "[INVALID_ARGUMENT]Invalid strict mode format. Must be bool type"
    );
    assert!(message(&["label: a b"]).contains("Label format error"));
    assert!(message(&["temporary_partitions: p"]).contains("Unknown partition 'p' in table"));
    let path = "/api/d/none/_stream_load";
    let missing = site.client().request("PUT", path, &[ROOT], b"1").json();
    assert_eq!(missing["Message"], "[ANALYSIS_ERROR]Table 'd.none' doesn't exist");
    assert_eq!(site.rows(), Vec::<String>::new());
    site.stop();
}

#[test]
fn what_is_enclosed_is_a_text_and_escapes_can_be_off() {
    let site = Site::new();
    let reply = site.load(&["enclose: \""], "1,2,\"\\N\"\n2,\\N,\\N\n");
    assert_eq!(reply["NumberLoadedRows"], 2, "{reply}");
    let reply = site.load(&["enclose: \"", "escape:"], "3,3,\"x\\\"\n");
    assert_eq!(reply["NumberLoadedRows"], 1, "{reply}");
    assert_eq!(site.rows(), ["1,2,\\N", "2,NULL,NULL", "3,3,x\\"]);
    site.stop();
}
