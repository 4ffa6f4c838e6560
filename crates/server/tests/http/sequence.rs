//! Loads into tables with a sequence column: of the rows of a key that with the greatest value in
//! it stays.

use freshet_meta::SchemaChange;
use freshet_schema::TableForm;
use freshet_server::http::HttpConfig;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::{create, into_unique, unique_key, unique_table};
use crate::query::data;
use crate::site::Site;

const SIGN: &str = "__DORIS_DELETE_SIGN__";

/// `d.u (a INT NOT NULL, b INT NOT NULL, c VARCHAR(4))` with the UNIQUE KEY `a`.
fn table(site: &Site, property: (&str, &str)) {
    create(site, TableForm::Olap, |spec| {
        spec.key = Some(unique_key());
        spec.properties = vec![(property.0.to_owned(), property.1.to_owned())];
    });
}

/// With a hidden sequence column.
fn hidden(site: &Site) {
    table(site, ("function_column.sequence_type", "int"));
}

fn load(site: &Site, headers: &[&str], body: &str) -> u64 {
    let reply = into_unique(site, headers, body);
    assert_eq!(reply["Status"], "Success", "{reply}");
    reply["NumberLoadedRows"].as_u64().unwrap()
}

fn refused(site: &Site, headers: &[&str], body: &str) -> String {
    let reply = into_unique(site, headers, body);
    assert_eq!(reply["Status"], "Fail", "{reply}");
    reply["Message"].as_str().unwrap().to_owned()
}

#[test]
fn a_column_of_the_table_says_which_row_stays() {
    let site = Site::new();
    table(&site, ("function_column.sequence_col", "b"));
    assert_eq!(load(&site, &[], "1,5,e\n1,3,c\n2,1,a\n"), 3);
    load(&site, &["group_commit: async_mode"], "1,4,d\n2,2,b\n3,1,x\n");
    assert_eq!(site.rows_of("u"), ["1,5,e,0", "2,2,b,0", "3,1,x,0"]);
    // A row that deletes has a value, too, and is kept for it.
    load(&site, &["merge_type: DELETE", "columns: a, b"], "1,4\n2,2\n");
    assert_eq!(site.rows_of("u"), ["1,5,e,0", "2,2,NULL,1", "3,1,x,0"]);
    let merge = ["merge_type: MERGE", "delete: c = 'del'", "group_commit: sync_mode"];
    load(&site, &merge, "2,1,b\n3,9,del\n3,8,y\n1,5,f\n");
    assert_eq!(site.rows_of("u"), ["1,5,f,0", "2,2,NULL,1", "3,9,del,1"]);
    let marked = format!("hidden_columns: {SIGN}");
    load(&site, &[&marked], "2,3,n,0\n1,4,g,1\n");
    assert_eq!(site.rows_of("u"), ["1,5,f,0", "2,3,n,0", "3,9,del,1"]);
    // The columns of a partial update that does not have it are those of now.
    load(&site, &["partial_columns: true", "columns: a, c"], "1,h\n");
    load(&site, &["partial_columns: true", "columns: a, b"], "2,2\n");
    assert_eq!(site.rows_of("u"), ["1,5,h,0", "2,3,n,0", "3,9,del,1"]);
    // Nothing is left of a deleted row for one that is new to it.
    load(&site, &["partial_columns: true", "columns: a, b"], "3,9\n");
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    assert_eq!(site.rows_of("u"), ["1,5,h,0", "2,3,n,0", "3,9,NULL,0"]);
    site.stop();
}

#[test]
fn rows_with_columns_of_their_own_delete_by_the_sequence() {
    let site = Site::with_small_records();
    table(&site, ("function_column.sequence_col", "b"));
    load(&site, &[], "1,5,e\n2,5,f\n3,5,g\n4,5,h\n");
    let flexible = ["unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS", "format: json"];
    // By its own value, by that of the row, too late, and of a key that nobody has.
    let body = format!(
        "{{\"a\": 1, \"b\": 6, \"{SIGN}\": 1}}\n{{\"a\": 2, \"{SIGN}\": 1}}\n\
         {{\"a\": 3, \"b\": 4, \"{SIGN}\": 1}}\n{{\"a\": 9, \"b\": 9, \"{SIGN}\": 1}}\n\
         {{\"a\": 4, \"{SIGN}\": 1}}\n{{\"a\": 4, \"b\": 7}}\n"
    );
    assert_eq!(load(&site, &flexible, &body), 6);
    let seen = "SELECT a, b, c FROM u ORDER BY a";
    assert_eq!(data(&site, seen)["data"], json!([[3, 5, "g"], [4, 7, null]]));
    // What is older stays away, and what is newer comes back.
    load(&site, &[], "1,5,x\n9,8,x\n2,6,y\n");
    let wanted = json!([[2, 6, "y"], [3, 5, "g"], [4, 7, null]]);
    assert_eq!(data(&site, seen)["data"], wanted);
    // Those of other partial updates are kept as well.
    let merge = ["partial_columns: true", "merge_type: MERGE", "delete: op = 'd'"];
    load(&site, &[&merge[..], &["columns: a, b, op"]].concat(), "2,8,d\n3,4,d\n4,9,u\n8,3,d\n");
    load(&site, &[&merge[..], &["columns: a, op"]].concat(), "4,d\n");
    load(&site, &[], "2,7,x\n4,8,x\n8,2,x\n");
    assert_eq!(data(&site, seen)["data"], json!([[3, 5, "g"]]));
    // More than a record takes.
    let many = (0..30_000).map(|a| format!("{{\"a\": {a}, \"b\": 10}}\n")).collect::<String>();
    let gone = (0..15_000).map(|a| format!("{{\"a\": {}, \"{SIGN}\": 1}}\n", 2 * a));
    load(&site, &flexible, &(many + &gone.collect::<String>()));
    let sums = "SELECT COUNT(*), MIN(a % 2), MIN(b) FROM u";
    assert_eq!(data(&site, sums)["data"], json!([[15_000, 1, 10]]));
    load(&site, &[], "2,9,late\n4,11,new\n");
    let site = Site::small_records_in(site.stop());
    let kept = "SELECT a, b FROM u WHERE a % 2 = 0";
    assert_eq!(data(&site, kept)["data"], json!([[4, 11]]));
    site.stop();
}

#[test]
fn a_hidden_column_is_filled_by_a_header() {
    let site = Site::new();
    hidden(&site);
    let by = "function_column.sequence_col: ver";
    let columns = "columns: a, b, c, ver";
    load(&site, &[columns, by], "1,1,a,10\n2,1,b,20\n1,2,c,9\n");
    assert_eq!(site.rows_of("u"), ["1,1,a,10,0", "2,1,b,20,0"]);
    // From a column of the table, with and without the names of fields.
    load(&site, &["function_column.sequence_col: b"], "1,11,d\n2,19,e\n");
    let computed = ["columns: a, x, c, b = x * 2", "function_column.sequence_col: b"];
    load(&site, &computed, "2,15,f\n1,5,g\n");
    assert_eq!(site.rows_of("u"), ["1,11,d,11,0", "2,30,f,30,0"]);
    // Named as it is, and behind the columns of the table.
    load(&site, &["columns: a, b, c, __DORIS_SEQUENCE_COL__"], "1,0,h,12\n2,0,i,29\n");
    load(&site, &["hidden_columns: __DORIS_SEQUENCE_COL__"], "1,1,j,11\n3,1,k,1\n");
    let both = format!("hidden_columns: __DORIS_SEQUENCE_COL__, {SIGN}");
    load(&site, &[&both], "3,1,k,2,1\n");
    assert_eq!(site.rows_of("u"), ["1,0,h,12,0", "2,30,f,30,0", "3,1,k,2,1"]);
    // In the order in which they are named.
    let turned = format!("hidden_columns: {SIGN},__DORIS_SEQUENCE_COL__");
    load(&site, &[&turned], "3,1,k,0,1\n2,0,z,1,29\n");
    assert_eq!(site.rows_of("u"), ["1,0,h,12,0", "2,30,f,30,0", "3,1,k,2,1"]);
    let delete = ["merge_type: DELETE", "columns: a, ver", by];
    load(&site, &delete, "1,13\n2,1\n");
    let json = ["format: json", "columns: a, b, c, ver", by];
    load(&site, &json, "{\"a\": 1, \"b\": 5, \"c\": \"l\", \"ver\": 12}\n{\"a\": 4, \"b\": 5}\n");
    load(&site, &json, "{\"a\": 4, \"b\": 6, \"ver\": -1}");
    let rows = ["1,0,NULL,13,1", "2,30,f,30,0", "3,1,k,2,1", "4,6,NULL,-1,0"];
    assert_eq!(site.rows_of("u"), rows);
    // A partial update may leave it out.
    load(&site, &["partial_columns: true", "columns: a, c"], "2,m\n");
    assert_eq!(site.rows_of("u")[1], "2,30,m,30,0");
    let stream = "sql: INSERT INTO d.u (a, b, c, __DORIS_SEQUENCE_COL__) SELECT c1, c2, c3, c4 \
                  FROM http_stream('format'='csv', 'column_separator'=',')";
    let reply = site.client().request("PUT", "/api/_http_stream", &[ROOT, stream], b"2,1,n,29\n");
    assert_eq!(reply.json()["Status"], "Success", "{}", reply.body);
    assert_eq!(site.rows_of("u")[1], "2,30,m,30,0");
    site.stop();
}

#[test]
fn what_lacks_a_sequence_is_refused() {
    let site = Site::new();
    hidden(&site);
    let missing = "Table u has sequence column, need to specify the sequence column";
    assert!(refused(&site, &[], "1,1,a\n").contains(missing));
    assert!(refused(&site, &["columns: a, b"], "1,1\n").contains(missing));
    assert!(refused(&site, &["columns: a, b = 1"], "1\n").contains(missing));
    assert!(refused(&site, &["merge_type: DELETE", "columns: a"], "1\n").contains(missing));
    let unknown = refused(&site, &["function_column.sequence_col: ver"], "1,1,a\n");
    assert!(unknown.contains("'ver', which is none of the columns"), "{unknown}");
    let twice = ["function_column.sequence_col: b", "hidden_columns: __DORIS_SEQUENCE_COL__"];
    assert!(refused(&site, &twice, "1,1,a,1\n").contains("specified twice"));
    let wrong = ["function_column.sequence_col: c", "strict_mode: true"];
    assert!(refused(&site, &wrong, "1,1,abc\n").contains("too many filtered rows"));
    let reply = site.load(&["function_column.sequence_col: b"], "1,1,a\n");
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("There is no sequence column in the table t"), "{message}");
    assert!(site.rows_of("u").is_empty());
    site.stop();
}

/// Rows of the keys from `keys`, whose sequences are `sequence` and more.
fn body(keys: std::ops::Range<u32>, sequence: u32) -> String {
    keys.map(|key| format!("{key},{},aaaa\n", sequence + key % 3)).collect()
}

#[test]
fn large_loads_are_ordered_like_others() {
    let site = Site::with_small_records();
    table(&site, ("function_column.sequence_col", "b"));
    load(&site, &[], &body(0..30_000, 10));
    load(&site, &[], &body(10_000..40_000, 5));
    load(&site, &[], "3,11,b\n4,10,b\n");
    // Rows of a key in one body, far from each other.
    load(&site, &[], &(body(0..20_000, 12) + &body(0..20_000, 9)));
    load(&site, &[], &(body(20_000..30_000, 9) + &body(20_000..30_000, 12)));
    let sequence = |key: u32| match key {
        0..30_000 => 12 + key % 3,
        _ => 5 + key % 3,
    };
    let mut expected =
        (0..40_000_u32).map(|key| format!("{key},{},aaaa,0", sequence(key))).collect::<Vec<_>>();
    expected.sort_unstable();
    assert!(site.rows_of("u") == expected, "each key has its greatest sequence");
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    assert!(site.rows_of("u") == expected, "so it is behind a start");
    site.stop();
}

#[test]
fn a_table_gets_its_sequence_before_large_loads() {
    let site = Site::with_small_records();
    unique_table(&site);
    load(&site, &[], &body(0..20_000, 50));
    let id = site.engine.target("d", "u").unwrap().id();
    let change = SchemaChange::EnableSequence { ty: "int".to_owned() };
    block_on(site.engine.ddl().alter_columns(id, vec![change])).unwrap();
    let by = "function_column.sequence_col: b";
    load(&site, &[by], &body(0..30_000, 10));
    load(&site, &[by], &body(10_000..30_000, 5));
    let row = |key: u32| format!("{key},{0},aaaa,{0},0", 10 + key % 3);
    let mut expected = (0..30_000_u32).map(row).collect::<Vec<_>>();
    expected.sort_unstable();
    assert!(site.rows_of("u") == expected, "each key has its greatest sequence");
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    assert!(site.rows_of("u") == expected, "so it is behind a start");
    site.stop();
}

#[test]
fn a_prepared_load_counts_by_its_sequence() {
    let site = Site::new();
    table(&site, ("function_column.sequence_col", "b"));
    let prepare = |body: &str| -> Value {
        let reply = into_unique(&site, &["two_phase_commit: true"], body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        reply["TxnId"].clone()
    };
    let commit = |txn: &Value| {
        let id = format!("txn_id: {txn}");
        let headers = [ROOT, &id, "txn_operation: commit"];
        let reply = site.client().request("PUT", "/api/d/_stream_load_2pc", &headers, b"");
        assert_eq!(reply.json()["status"], json!("Success"), "{}", reply.body);
    };
    let late = prepare("1,5,old\n2,5,new\n");
    load(&site, &[], "1,7,x\n2,4,y\n");
    commit(&late);
    assert_eq!(site.rows_of("u"), ["1,7,x,0", "2,5,new,0"]);
    site.stop();
}
