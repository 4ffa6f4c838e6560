//! What connectors send, request by request.

use serde_json::{Value, json};

use crate::client::ROOT;
use crate::site::Site;

const SECOND_PHASE: &str = "/api/d/_stream_load_2pc";

fn end(site: &Site, txn: &Value, operation: &str) -> Value {
    let (id, operation) = (format!("txn_id: {txn}"), format!("txn_operation: {operation}"));
    site.client().request("PUT", SECOND_PHASE, &[ROOT, &id, &operation], b"").json()
}

/// A chunked load, as a sink sends it that does not know how much will come.
fn stream(site: &Site, headers: &[&str], pieces: &[&str]) -> Value {
    let mut client = site.client();
    let fixed = [ROOT, "Expect: 100-continue", "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &[&fixed, headers].concat());
    let asked = client.answer();
    if asked.status != 100 {
        // A load that is known already is answered before its body is sent.
        return asked.json();
    }
    pieces.iter().for_each(|piece| client.chunk(piece.as_bytes()));
    client.chunk(b"");
    client.answer().json()
}

#[test]
fn flink_writes_in_two_phases() {
    let site = Site::new();
    let nodes = site.get("/api/backends?is_alive=true", &[ROOT]).json();
    assert_eq!(nodes["data"]["backends"][0]["is_alive"], true);
    let schema = site.get("/api/d/t/_schema", &[ROOT]).json();
    assert_eq!((&schema["data"]["status"], &schema["code"]), (&json!(200), &json!(0)));
    // What an attempt before has left behind is aborted by way of its label.
    let sink = ["two_phase_commit: true", "format: json", "read_json_by_line: true"];
    let probe = site.load(&[&sink[..], &["label: job_0_1"]].concat(), "");
    assert_eq!(probe["Status"], "Success", "{probe}");
    assert_eq!(end(&site, &probe["TxnId"], "abort")["status"], "Success");
    let pieces =
        ["{\"a\": 1, \"b\": 10, ", "\"c\": \"x\"}\n{\"a\": 2, ", "\"b\": 20, \"c\": \"y\"}"];
    let label = [&sink[..], &["label: job_0_1"]].concat();
    let prepared = stream(&site, &label, &pieces);
    assert_eq!(
        (&prepared["Status"], &prepared["TwoPhaseCommit"]),
        (&json!("Success"), &json!("true"))
    );
    assert!(site.rows().is_empty());
    assert_eq!(end(&site, &prepared["TxnId"], "commit")["status"], "Success");
    assert_eq!(site.rows(), ["1,10,x", "2,20,y"]);
    // The checkpoint is restored, and committed again.
    let again = end(&site, &prepared["TxnId"], "commit");
    let told =
        format!("transaction [{}] is already visible, not pre-committed.", prepared["TxnId"]);
    assert_eq!(again["msg"], format!("errCode = 2, detailMessage = {told}"));
    let known = stream(&site, &label, &pieces);
    assert_eq!(known["Status"], "Label Already Exists");
    let used =
        format!("Label [job_0_1] has already been used, relate to txn [{}]", prepared["TxnId"]);
    assert!(known["Message"].as_str().unwrap().contains(&used), "{known}");
    assert_eq!(site.rows().len(), 2);
    site.stop();
}

#[test]
fn kafka_loads_each_batch_once_by_its_offsets() {
    let site = Site::new();
    let batch = ["format: json", "read_json_by_line: true", "label: topic__0__17__1700000000"];
    let rows = "{\"a\": 17, \"b\": 1, \"c\": \"k\"}\n{\"a\": 18, \"b\": 2, \"c\": null}\n";
    assert_eq!(site.load(&batch, rows)["NumberLoadedRows"], 2);
    let again = site.load(&batch, rows);
    assert_eq!(
        (&again["Status"], &again["ExistingJobStatus"]),
        (&json!("Label Already Exists"), &json!("FINISHED"))
    );
    assert_eq!(site.rows().len(), 2);
    site.stop();
}

#[test]
fn collectors_put_arrays_and_envelopes() {
    let site = Site::new();
    let grouped = ["group_commit: async_mode", "format: json", "strip_outer_array: true"];
    let array = "[{\"a\": 1, \"b\": 10, \"c\": \"x\"}, {\"c\": \"y\", \"a\": 2, \"b\": 20}]";
    assert_eq!(site.load(&grouped, array)["NumberLoadedRows"], 2);
    let paths = "jsonpaths: [\"$.fields.a\", \"$.fields.b\", \"$.tags.c\"]";
    let nested = [&grouped[..], &["json_root: $.metrics", paths, "columns: a, b, c"]].concat();
    let envelope = "{\"metrics\": [{\"fields\": {\"a\": 3, \"b\": 30}, \"tags\": {\"c\": \"z\"}}]}";
    assert_eq!(site.load(&nested, envelope)["NumberLoadedRows"], 1);
    assert_eq!(site.rows(), ["1,10,x", "2,20,y", "3,30,z"]);
    site.stop();
}

#[test]
fn spark_reads_by_sql_and_is_told_so() {
    let site = Site::new();
    let columns = site.get("/api/d/t/_schema", &[ROOT]).json();
    assert_eq!(columns["data"]["keysType"], "DUP_KEYS");
    let body = b"{\"sql\": \"select a from d.t\"}";
    let plan = site.client().request("POST", "/api/d/t/_query_plan", &[ROOT], body);
    assert!(plan.body.contains("connect by the MySQL protocol"), "{}", plan.body);
    site.stop();
}
