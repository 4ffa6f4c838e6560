//! Loads that compute: `columns` with expressions, `where`, Http Stream.

use freshet_meta::{ColumnSpec, DeclaredKeySpec, KeyModelSpec, KeySpec, TableSpec};
use freshet_schema::{ColumnType, DeclaredKeyKind, TableForm};
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::site::Site;

/// Sends an Http Stream.
fn stream(site: &Site, sql: &str, headers: &[&str], body: &str) -> Value {
    let sql = format!("sql: {sql}");
    let lines = [&[ROOT, sql.as_str()], headers].concat();
    site.client().request("PUT", "/api/_http_stream", &lines, body.as_bytes()).json()
}

pub fn counts(reply: &Value) -> [i64; 4] {
    ["Total", "Loaded", "Filtered", "Unselected"]
        .map(|name| reply[format!("Number{name}Rows")].as_i64().unwrap_or(-1))
}

#[test]
fn columns_are_computed_of_fields() {
    let site = Site::new();
    let columns = "columns: a, tmp, name, b = tmp * 2, c = upper(substr(name, 1, 2))";
    let reply = site.load(&[columns], "1,10,xyz\n2,\\N,q\n");
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    assert_eq!(site.rows(), ["1,20,XY", "2,NULL,Q"]);
    // A field of the name of a computed column is there for its expression.
    let reply = site.load(&["columns: a, B, b = B + 1"], "3,4\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    // Without names of fields, the body has the columns of the table.
    let reply = site.load(&["columns: c = concat(c, a)"], "4,1,x\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    assert_eq!(site.rows()[2..], ["3,5,NULL", "4,1,x4"]);
    site.stop();
}

#[test]
fn the_planning_of_expressions_ends_with_the_timeout() {
    let site = Site::new();
    // Planning takes longer than linearly in the nesting.
    let nested = format!("{}c{}", "lower(".repeat(90), ")".repeat(90));
    let columns = format!("columns: a, b, c, c = {}", vec![nested; 4].join(" || "));
    let begun = std::time::Instant::now();
    let reply = site.load(&[&columns, "timeout: 1"], "1,10,xyz\n");
    assert!(begun.elapsed() < std::time::Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(reply["Status"], "Fail", "{reply}");
    let message = reply["Message"].as_str().unwrap();
    assert!(message.starts_with("[TIMEOUT]the load took longer than its timeout"), "{message}");
    assert!(message.contains("not planned yet"), "{message}");
    site.stop();
}

#[test]
fn where_sees_computed_columns_and_fields() {
    let site = Site::new();
    let reply = site.load(&["where: b > 15 and c <> 'no'"], "1,10,a\n2,20,b\n3,30,no\n4,\\N,d\n");
    assert_eq!(counts(&reply), [4, 1, 0, 3], "{reply}");
    let columns = "columns: a, t, b = t / 10";
    let grouped = "group_commit: async_mode";
    let reply = site.load(&[columns, "where: b = 5 and t < 55", grouped], "5,50\n6,60\n");
    assert_eq!((counts(&reply), &reply["GroupCommit"]), ([2, 1, 0, 1], &json!(true)), "{reply}");
    assert_eq!(site.rows(), ["2,20,b", "5,5,NULL"]);
    // The ratio is one of the selected rows.
    let headers = ["strict_mode: true", "max_filter_ratio: 0.4", "where: a > 1"];
    let reply = site.load(&headers, "0,1,a\n0,1,a\n7,1,toolong\n8,1,a\n");
    assert_eq!((counts(&reply), &reply["Status"]), ([4, 0, 1, 2], &json!("Fail")));
    site.stop();
}

#[test]
fn a_row_that_cannot_be_computed_is_rejected_alone() {
    let site = Site::new();
    let rows = (1..=1000).map(|a| match a % 400 {
        7 => format!("{a},x{a}\n"),
        _ => format!("{a},{a}\n"),
    });
    let body = rows.collect::<String>();
    let columns = "columns: a, t, b = t + 1";
    let strict = ["strict_mode: true", "max_filter_ratio: 0.1", columns];
    let reply = site.load(&strict, &body);
    assert_eq!(counts(&reply), [1000, 997, 3, 0], "{reply}");
    let path = reply["ErrorURL"].as_str().unwrap().strip_prefix("http://test.example").unwrap();
    let log = site.get(path, &[]).body;
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.contains("x407") && log.contains("src line [407,x407]"), "{log}");
    assert_eq!(site.rows().len(), 997);
    // Out of range is so in any mode.
    let reply = site.load(&["columns: a, b = a * 9223372036854775807"], "3\n");
    assert_eq!(counts(&reply), [1, 0, 1, 0], "{reply}");
    // A value that the column does not take.
    let reply = site.load(&["strict_mode: true", "columns: a, b = a * 3000000000"], "5\n");
    assert!(reply["FirstErrorMsg"].as_str().unwrap().contains("15000000000"), "{reply}");
    assert_eq!(site.rows().len(), 997);
    site.stop();
}

#[test]
fn large_bodies_are_computed_in_pieces() {
    let site = Site::new();
    let body = (0..300_000).map(|a| format!("{a},{},ab\n", a % 10)).collect::<String>();
    let headers = ["columns: a, t, c, b = t + 100", "where: t <> 3", "label: large"];
    let reply = site.load(&headers, &body);
    assert_eq!(counts(&reply), [300_000, 270_000, 0, 30_000], "{reply}");
    let enclosed = ["columns: a, t, c, b = t + 100", "where: t <> 3", "enclose: \""];
    let reply = site.load(&enclosed, &body);
    assert_eq!(counts(&reply), [300_000, 270_000, 0, 30_000], "{reply}");
    let objects = (0..100_000).map(|a| format!("{{\"a\":{a},\"t\":{a}}},"));
    let array = format!("[{}{{\"a\":-1,\"t\":0}}]", objects.collect::<String>());
    let json = ["format: json", "strip_outer_array: true", "columns: a, t, b = t % 7"];
    let reply = site.load(&[&json[..], &["where: b > 0"]].concat(), &array);
    assert_eq!(counts(&reply), [100_001, 85_714, 0, 14_287], "{reply}");
    assert_eq!(site.rows().len(), 2 * 270_000 + 85_714);
    site.stop();
}

#[test]
fn what_a_load_cannot_compute_is_refused_by_name() {
    let site = Site::new();
    let message = |headers: &[&str]| {
        let reply = site.load(headers, "1,1,a");
        assert_eq!(reply["Status"], "Fail", "{reply}");
        reply["Message"].as_str().unwrap().to_owned()
    };
    assert!(message(&["columns: a, x = 1"]).contains("Unknown column 'x' in 'columns'"));
    assert!(message(&["columns: a, b = nowhere + 1"]).contains("nowhere"));
    assert!(message(&["columns: a, b = 1, b = 2"]).contains("specified twice"));
    assert!(message(&["columns: a, b = "]).contains("syntax"));
    assert!(message(&["where: a >"]).contains("syntax"));
    assert!(message(&["where: a > (select 1)"]).contains("no subqueries"));
    assert!(message(&["columns: a, b, c = max(b)"]).contains("one row at a time"));
    assert!(message(&["columns: a, b, c = row_number() over ()"]).contains("one row at a time"));
    assert!(message(&["where: sleep(1)"]).to_lowercase().contains("sleep"));
    assert_eq!(site.rows(), Vec::<String>::new());
    site.stop();
}

#[test]
fn an_http_stream_inserts_what_its_select_says() {
    let site = Site::new();
    let csv = "http_stream(\"format\" = \"csv\", \"column_separator\" = \",\")";
    let sql = format!("insert into d.t (a, c, b) select c1, c2, c3 * 10 from {csv} where c1 < 3");
    let reply = stream(&site, &sql, &[], "1,x,1\n2,y,2\n3,z,3\n");
    assert_eq!((counts(&reply), &reply["Status"]), ([3, 2, 0, 1], &json!("Success")), "{reply}");
    assert!(reply["Label"].as_str().unwrap().starts_with("label_"), "{reply}");
    let sql = format!("INSERT INTO d.t SELECT * FROM {csv}");
    let reply = stream(&site, &sql, &["group_commit: sync_mode"], "4,40,w\n");
    assert_eq!((counts(&reply), &reply["GroupCommit"]), ([1, 1, 0, 0], &json!(true)), "{reply}");
    let sql = format!("insert into d.t with label mine select * from {csv} as s");
    let reply = stream(&site, &sql, &["group_commit: async_mode"], "5,50,v\n");
    assert_eq!((&reply["Label"], &reply["TwoPhaseCommit"]), (&json!("mine"), &json!("false")));
    let again = stream(&site, &sql, &[], "5,50,v\n");
    assert_eq!(again["Status"], "Label Already Exists");
    assert_eq!(site.rows(), ["1,10,x", "2,20,y", "4,40,w", "5,50,v"]);
    site.stop();
}

#[test]
fn an_http_stream_reads_json_by_name_and_by_path() {
    let site = Site::new();
    let lines = "http_stream('format' = 'json', 'read_json_by_line' = 'true')";
    let sql = format!("insert into d.t (b, a, c) select v, id, lower(name) from {lines}");
    let body = "{\"id\":1,\"name\":\"AB\",\"v\":7}\n{\"name\":\"C\",\"id\":2}\n";
    let reply = stream(&site, &sql, &[], body);
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    let paths = "http_stream('format' = 'json', 'strip_outer_array' = 'true', \
                 'jsonpaths' = '[\"$.k\", \"$.v.w\"]')";
    let sql = format!("insert into d.t (a, b) select k, w from {paths}");
    let reply = stream(&site, &sql, &[], "[{\"k\":3,\"v\":{\"w\":4}}]");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    let sql = format!("insert into d.t select * from {lines}");
    let reply = stream(&site, &sql, &[], "{\"c\":\"x\",\"a\":9}\n");
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    assert_eq!(site.rows(), ["1,7,ab", "2,NULL,c", "3,4,NULL", "9,NULL,x"]);
    site.stop();
}

#[test]
fn an_http_stream_refuses_other_statements() {
    let site = Site::new();
    let message = |sql: &str| {
        let reply = stream(&site, sql, &[], "1,1,a\n");
        assert_eq!((&reply["Status"], &reply["TxnId"]), (&json!("Fail"), &json!(-1)), "{sql}");
        reply["Message"].as_str().unwrap().to_owned()
    };
    let of = "from http_stream('format'='csv', 'column_separator'=',')";
    assert!(message("select 1").contains("must be INSERT INTO"));
    assert!(message("insert into d.t values (1,1,'a')").contains("must be INSERT INTO"));
    assert!(message("insert into d.t select * from d.t").contains("must be INSERT INTO"));
    assert!(message(&format!("insert into t select * {of}")).contains("No database selected"));
    assert!(message(&format!("insert into d.n select * {of}")).contains("doesn't exist"));
    assert!(
        message(&format!("insert into d.t select c1, count(*) {of} group by c1"))
            .contains("row by row")
    );
    assert!(message(&format!("insert into d.t select * {of} order by c1")).contains("row by row"));
    assert!(message(&format!("insert into d.t select c1 {of}")).contains("Column count"));
    assert!(message(&format!("insert into d.t select c1, c9, c2 {of}")).contains("c9"));
    assert!(message("insert into d.t select * from http_stream('format'='xml')").contains("xml"));
    assert!(message("insert into d.t select * from http_stream(1)").contains("properties"));
    assert!(message(&format!("insert ignore into d.t select * {of}")).contains("plain INSERT"));
    let none = site.client().request("PUT", "/api/_http_stream", &[ROOT], b"x").json();
    assert!(none["Message"].as_str().unwrap().contains("header 'sql'"), "{none}");
    assert_eq!(site.rows(), Vec::<String>::new());
    site.stop();
}

/// A table `d.u` with a UNIQUE KEY beside `d.t`.
pub fn unique_table(site: &Site) {
    create(site, TableForm::Olap, |spec| spec.key = Some(unique_key()));
}

pub fn unique_key() -> KeySpec {
    KeySpec { model: KeyModelSpec::Unique, columns: vec!["a".to_owned()] }
}

/// The same with a PRIMARY KEY.
fn primary_table(site: &Site) {
    let kind = DeclaredKeyKind::Primary;
    let key = DeclaredKeySpec {
        kind,
        name: None,
        columns: vec!["a".to_owned()],
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    };
    create(site, TableForm::MySql, |spec| spec.declared_keys = vec![key]);
}

pub fn create(site: &Site, form: TableForm, key: impl FnOnce(&mut TableSpec)) {
    let int = ColumnType::Int { unsigned: false };
    let columns = vec![
        ColumnSpec { nullable: false, ..ColumnSpec::new("a", int) },
        ColumnSpec { nullable: false, ..ColumnSpec::new("b", int) },
        ColumnSpec::new("c", ColumnType::VarChar { len: 4 }),
    ];
    let mut spec = TableSpec::new("u", form, columns);
    key(&mut spec);
    futures::executor::block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
}

pub fn into_unique(site: &Site, headers: &[&str], body: &str) -> Value {
    let lines = [&[ROOT, "column_separator: ,"], headers].concat();
    site.client().request("PUT", "/api/d/u/_stream_load", &lines, body.as_bytes()).json()
}

#[test]
fn rows_delete_their_keys() {
    let site = Site::new();
    unique_table(&site);
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    load(&[], "1,10,a\n2,20,b\n3,30,c\n4,40,d\n5,50,e\n");
    // Of a row that deletes only the key counts.
    assert_eq!(load(&["merge_type: DELETE", "columns: a"], "1\n9\n1\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,20,b", "3,30,c", "4,40,d", "5,50,e"]);
    // Of several rows of one key the last one counts.
    let merge = ["merge_type: merge", "delete: c = 'del'", "group_commit: async_mode"];
    let body = "2,0,del\n2,21,x\n3,31,y\n3,0,del\n6,60,f\n7,0,del\n";
    assert_eq!(load(&merge, body), [6, 6, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,21,x", "4,40,d", "5,50,e", "6,60,f"]);
    // With expressions and a condition.
    let computed = [
        "merge_type: MERGE",
        "columns: a, op, b = a * 100",
        "where: a > 3",
        "delete: op = 1",
        "format: csv",
    ];
    assert_eq!(load(&computed, "2,1\n4,1\n5,0\n8,0\n"), [4, 3, 0, 1]);
    assert_eq!(site.rows_of("u"), ["2,21,x", "5,500,NULL", "6,60,f", "8,800,NULL"]);
    // A condition that is no truth value counts as in WHERE: NULL and text that is no number do not
    // hold, '1x' does.
    let text = ["merge_type: MERGE", "columns: a, op, b = 1", "delete: op"];
    assert_eq!(load(&text, "2,\\N\n5,no\n6,1x\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,1,NULL", "5,1,NULL", "8,800,NULL"]);
    load(&merge, "2,21,x\n5,500,\\N\n6,60,f\n");
    let dir = site.stop();
    let site = Site::in_dir(dir, freshet_server::http::HttpConfig::default());
    assert_eq!(site.rows_of("u"), ["2,21,x", "5,500,NULL", "6,60,f", "8,800,NULL"]);
    site.stop();
}

#[test]
fn rows_say_themselves_whether_they_delete() {
    let site = Site::new();
    unique_table(&site);
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    load(&[], "1,10,a\n2,20,b\n3,30,c\n");
    // Behind the columns of the table, or where `columns` names it, or computed.
    let hidden = ["hidden_columns: __DORIS_DELETE_SIGN__"];
    assert_eq!(load(&hidden, "1,0,x,1\n4,40,d,0\n2,21,b,0\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,21,b", "3,30,c", "4,40,d"]);
    assert_eq!(load(&["columns: __doris_delete_sign__, a, b"], "1,2,0\n0,5,50\n"), [2, 2, 0, 0]);
    let computed = "columns: a, b, op, __DORIS_DELETE_SIGN__ = if(op = 'd', 1, 0)";
    assert_eq!(load(&[computed], "3,0,d\n6,60,u\n"), [2, 2, 0, 0]);
    assert_eq!(site.rows_of("u"), ["4,40,d", "5,50,NULL", "6,60,NULL"]);
    let json = ["format: json", "hidden_columns: __DORIS_DELETE_SIGN__"];
    let body = "{\"a\": 4, \"b\": 0, \"__DORIS_DELETE_SIGN__\": 1}\n{\"a\": 7, \"b\": 70}\n";
    assert_eq!(load(&json, body), [2, 2, 0, 0]);
    assert_eq!(site.rows_of("u"), ["5,50,NULL", "6,60,NULL", "7,70,NULL"]);
    // The version is read and ignored, wherever it stands; other tables do not have it.
    let version = "hidden_columns: __DORIS_VERSION_COL__";
    assert_eq!(load(&[version], "8,80,h,17\n"), [1, 1, 0, 0]);
    let both = "hidden_columns: __DORIS_VERSION_COL__, __DORIS_DELETE_SIGN__";
    assert_eq!(load(&[both], "8,0,x,1,0\n5,0,x,0,1\n"), [2, 2, 0, 0]);
    assert_eq!(site.rows_of("u"), ["6,60,NULL", "7,70,NULL", "8,0,x"]);
    assert_eq!(counts(&site.load(&[version], "1,1,a\n")), [1, 1, 0, 0]);
    let reply = site.load(&hidden, "1,1,a,1\n");
    assert!(reply["Message"].as_str().unwrap().contains("only supported in unique tables"));
    site.stop();
}

#[test]
fn rows_delete_by_primary_keys() {
    let site = Site::new();
    primary_table(&site);
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    load(&[], "1,10,a\n2,20,b\n3,30,c\n4,40,d\n");
    assert_eq!(load(&["merge_type: DELETE", "columns: a"], "1\n9\n1\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,20,b", "3,30,c", "4,40,d"]);
    let merge = ["merge_type: MERGE", "delete: c = 'del'", "label: once"];
    let body = "2,0,del\n2,21,x\n3,31,y\n3,0,del\n6,60,f\n7,0,del\n";
    assert_eq!(load(&merge, body), [6, 6, 0, 0]);
    assert_eq!(site.rows_of("u"), ["2,21,x", "4,40,d", "6,60,f"]);
    let again = into_unique(&site, &merge, body);
    assert_eq!(again["Status"], "Label Already Exists", "{again}");
    // Where nothing is there to delete, the label is taken all the same.
    let nothing = ["merge_type: DELETE", "columns: a", "label: nothing"];
    assert_eq!(load(&nothing, "99\n"), [1, 1, 0, 0]);
    assert_eq!(into_unique(&site, &nothing, "2\n")["Status"], "Label Already Exists");
    let dir = site.stop();
    let site = Site::in_dir(dir, freshet_server::http::HttpConfig::default());
    assert_eq!(site.rows_of("u"), ["2,21,x", "4,40,d", "6,60,f"]);
    site.stop();
}

#[test]
fn deletes_are_refused_where_they_cannot_be() {
    let site = Site::new();
    unique_table(&site);
    let message = |reply: Value| reply["Message"].as_str().unwrap().to_owned();
    let of_t = message(site.load(&["merge_type: DELETE"], "1,1,a"));
    assert!(
        of_t.ends_with("load by MERGE or DELETE is only supported in unique tables."),
        "{of_t}"
    );
    let skipped = ["hidden_columns: __DORIS_SKIP_BITMAP_COL__"];
    let skipped = message(into_unique(&site, &skipped, "1,1,a,1"));
    assert!(skipped.contains("hidden_columns"), "{skipped}");
    let wrong = ["merge_type: MERGE", "delete: nowhere = 1"];
    assert!(message(into_unique(&site, &wrong, "1,1,a\n")).contains("nowhere"));
    assert!(site.rows_of("u").is_empty());
    site.stop();
}

#[test]
fn what_expressions_cost_is_bounded() {
    let site = Site::new();
    let fails = |headers: &[&str], body: &str, why: &str| {
        let reply = site.load(headers, body);
        let message = reply["Message"].as_str().unwrap().to_owned();
        assert!(reply["Status"] == "Fail" && message.contains(why), "{reply}");
    };
    // As many bad rows as are described end a load that may have none.
    let bad = "1,x\n".repeat(100_000);
    let strict = ["strict_mode: true", "columns: a, t, b = t + 1"];
    fails(&strict, &bad, "too many filtered rows: 1000");
    // A short body with results of two gigabytes, of which the column takes few.
    let long = format!("columns: a, c = '{}'", "x".repeat(20_000));
    let reply = site.load(&[&long, "where: a = 2"], &"1\n".repeat(100_000));
    assert_eq!(counts(&reply), [100_000, 0, 0, 100_000], "{reply}");
    let reply = site.load(&["strict_mode: true", &long], &"1\n".repeat(100_000));
    assert!(reply["Message"].as_str().unwrap().contains("too many filtered rows"), "{reply}");
    let names = (0..5000).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
    fails(&[&format!("columns: {names}, b = 1")], "1\n", "at most 4096 columns");
    let commas = ",".repeat(5000);
    let csv = "http_stream('format' = 'csv', 'column_separator' = ',')";
    let reply = stream(&site, &format!("insert into d.t select * from {csv}"), &[], &commas);
    assert!(reply["Message"].as_str().unwrap().contains("5001 fields"), "{reply}");
    let deep = format!("where: {}a > 0", "1 + ".repeat(1900));
    fails(&[&deep], "1,1,a\n", "");
    assert_eq!(site.load(&["where: a = 1"], "1,1,a\n")["Status"], "Success");
    assert_eq!(site.rows(), ["1,1,a"]);
    site.stop();
}

#[test]
fn small_compressed_bodies_of_many_rows_are_computed() {
    let site = Site::new();
    let body = (0..400_000).map(|a| format!("{a},{a},a\n")).collect::<String>();
    let packed = zstd::encode_all(body.as_bytes(), 3).unwrap();
    assert!(packed.len() < 1 << 20, "it is small on the wire");
    let lines = [ROOT, "column_separator: ,", "compress_type: zstd", "where: a % 2 = 0"];
    let reply = site.client().request("PUT", "/api/d/t/_stream_load", &lines, &packed).json();
    assert_eq!(counts(&reply), [400_000, 200_000, 0, 200_000], "{reply}");
    site.stop();
}
