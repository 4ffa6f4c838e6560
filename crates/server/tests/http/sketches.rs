//! Loads into columns of BITMAP and HLL.

use serde_json::{Value, json};

use crate::client::ROOT;
use crate::columnar::put;
use crate::mapped::counts;
use crate::query::data;
use crate::site::Site;

fn table(site: &Site) {
    data(
        site,
        "CREATE TABLE s (k INT, v BIGINT SUM DEFAULT '0', b BITMAP BITMAP_UNION, h HLL HLL_UNION) \
         AGGREGATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1",
    );
}

fn load(site: &Site, headers: &[&str], body: &str) -> Value {
    put(site, "s", &[&["column_separator: ,"], headers].concat(), body.as_bytes())
}

fn shown(site: &Site) -> Value {
    let sql = "SELECT k, v, BITMAP_TO_STRING(b), HLL_CARDINALITY(h) FROM s ORDER BY k";
    data(site, sql)["data"].clone()
}

const COMPUTED: &str = "columns: k, u, p, v = 1, b = to_bitmap(u), h = hll_hash(p)";

#[test]
fn sketches_are_computed_of_fields_and_joined() {
    let site = Site::new();
    table(&site);
    let reply = load(&site, &[COMPUTED], "1,7,a\n1,8,b\n2,18446744073709551615,a\n1,7,a\n");
    assert_eq!(counts(&reply), [4, 4, 0, 0], "{reply}");
    let grouped = load(&site, &[COMPUTED, "group_commit: async_mode"], "1,9,c\n");
    assert_eq!(grouped["GroupCommit"], true, "{grouped}");
    // A field of the name of its column; what is no number is empty, what is omitted, too.
    let reply = load(&site, &["columns: k, b, b = to_bitmap(b)"], "2,5\n2,x\n3,-1\n");
    assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
    let json =
        ["format: json", "jsonpaths: [\"$.id\", \"$.user\"]", "columns: k, u, b=bitmap_hash(u)"];
    let reply = put(&site, "s", &json, b"{\"id\": 4, \"user\": \"hello\"}\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    let wanted = json!([
        [1, 4, "7,8,9", 3],
        [2, 1, "5,18446744073709551615", 1],
        [3, 0, "", 0],
        [4, 0, "1321743225", 0]
    ]);
    assert_eq!(shown(&site), wanted);
    let dir = site.stop();
    let site = Site::in_dir(dir, freshet_server::http::HttpConfig::default());
    assert_eq!(shown(&site), wanted);
    let sql = "sql: INSERT INTO d.s (k, b) SELECT c1, to_bitmap_with_check(c2) \
               FROM http_stream('format' = 'csv', 'column_separator' = ',')";
    let stream = |headers: &[&str], body: &str| {
        let lines = [&[ROOT, sql], headers].concat();
        site.client().request("PUT", "/api/_http_stream", &lines, body.as_bytes()).json()
    };
    assert_eq!(counts(&stream(&[], "3,1\n3,2\n")), [2, 2, 0, 0]);
    let reply = stream(&["max_filter_ratio: 0.5"], "3,3\n3,-4\n");
    assert_eq!(counts(&reply), [2, 1, 1, 0], "{reply}");
    let sql = "SELECT BITMAP_TO_STRING(b) FROM s WHERE k = 3";
    assert_eq!(data(&site, sql)["data"], json!([["1,2,3"]]));
    site.stop();
}

#[test]
fn plain_values_are_refused_by_name() {
    let site = Site::new();
    table(&site);
    let message = |headers: &[&str], body: &str| {
        let reply = load(&site, headers, body);
        assert_eq!(reply["Status"], "Fail", "{reply}");
        reply["Message"].as_str().unwrap().to_owned()
    };
    let refused = message(&[], "1,1,2,3\n");
    assert!(refused.contains("BITMAP column must use to_bitmap function, like b=to_bitmap(xxx)"));
    let refused = message(&["columns: k, h, v = 2"], "1,x\n");
    assert!(refused.contains("HLL column must use hll_hash function, like h=hll_hash(xxx)"));
    let refused = message(&["columns: k, u, b = u"], "1,x\n");
    assert!(refused.contains("too many filtered rows"), "{refused}");
    let refused = message(&["columns: k, u, b = hll_hash(u)"], "1,x\n");
    assert!(refused.contains("too many filtered rows"), "{refused}");
    // Bytes that are no sketch are NULL, which the column does not take.
    let base64 = "columns: k, u, b = bitmap_from_base64(u)";
    for hostile in ["BP////9/", "AjswAAD/", "AjowAAD/////", "BAE=", "%%%", "EwAA"] {
        let refused = message(&[base64], &format!("1,{hostile}\n"));
        assert!(refused.contains("too many filtered rows"), "{hostile}: {refused}");
    }
    assert_eq!(shown(&site), json!([]));
    assert_eq!(counts(&load(&site, &[base64], "1,AQEAAAA=\n")), [1, 1, 0, 0]);
    assert_eq!(shown(&site), json!([[1, 0, "1", 0]]));
    site.stop();
}
