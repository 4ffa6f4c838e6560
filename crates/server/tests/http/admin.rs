//! Endpoints for tools and monitoring.

use serde_json::json;

use crate::client::ROOT;
use crate::query::data;
use crate::site::Site;

#[test]
fn health_needs_no_credentials() {
    let site = Site::new();
    let answer = site.get("/api/health", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.body,
        "{\"msg\":\"success\",\"code\":0,\
         \"data\":{\"online_backend_num\":1,\"total_backend_num\":1},\"count\":0}"
    );
    site.stop();
}

#[test]
fn wal_size_counts_open_groups() {
    let site = Site::new();
    let size = |query: &str| site.get(&format!("/api/get_wal_size{query}"), &[ROOT]).json();
    assert_eq!(size("?host_ports=h1:1,h2:2")["data"], json!(["h1:1:0", "h2:2:0"]));
    site.load(&["group_commit: async_mode"], "1,1,a");
    let open = size("");
    assert_eq!((&open["msg"], &open["code"]), (&json!("OK"), &json!(0)));
    assert_eq!(open["data"], json!([format!("{}:1", site.address)]));
    site.stop();
}

#[test]
fn metrics_show_loads_and_gauges() {
    let site = Site::new();
    site.load(&["group_commit: async_mode"], "1,1,a");
    site.load(&["strict_mode: true"], "x,1,a");
    let metrics = site.get("/metrics", &[]);
    assert!(metrics.head.contains("version=0.0.4"));
    for line in [
        "freshet_rows_total 1",
        "freshet_wal_total_count 1",
        "freshet_wal_max_count_per_table 1",
        "freshet_group_commit_wal_fail 0",
        "freshet_group_commit_block_by_memory_counter 0",
        "freshet_writes_behind_keys 0",
        "freshet_versions 1",
        "freshet_flushes_total{reason=\"memory\"} 0",
        "freshet_groups_ended_total{reason=\"interval\"} 0",
        "freshet_stream_loads_total{status=\"Success\"} 1",
        "doris_be_streaming_load_requests_total 2",
        "doris_be_streaming_load_current_processing 0",
        "doris_be_http_stream_requests_total 0",
        "doris_be_stream_load_txn_begin_request_total 1",
        "doris_be_stream_load_txn_rollback_request_total 1",
        "doris_be_stream_load{type=\"load_rows\"} 1",
        "doris_be_stream_load{type=\"receive_bytes\"} 10",
    ] {
        assert!(metrics.body.contains(line), "{line} in {}", metrics.body);
    }
    assert!(!metrics.body.contains("freshet_delta_bytes 0\n"));
    site.stop();
}

#[test]
fn loads_of_their_own_count_as_transactions() {
    let site = Site::new();
    site.load(&["label: done"], "1,1,a");
    site.load(&["label: failed", "strict_mode: true"], "x,1,a");
    let metrics = site.get("/metrics", &[]).body;
    for line in [
        "doris_be_stream_load_txn_begin_request_total 2",
        "doris_be_stream_load_txn_commit_request_total 1",
        "doris_be_stream_load_txn_rollback_request_total 1",
        "doris_be_streaming_load_duration_ms ",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    site.stop();
}

#[test]
fn columns_labels_and_nodes_are_told() {
    let site = Site::new();
    site.load(&["label: told"], "1,1,a");
    let schema = site.get("/api/d/t/_schema", &[ROOT]).json();
    assert_eq!(schema["data"]["properties"][0]["name"], "a");
    assert_eq!(schema["data"]["properties"][0]["type"], "INT");
    for path in ["/api/d/_load_info", "/api/d/get_load_state?label="] {
        let reply = site.get(path, &[ROOT]).json();
        assert_eq!(reply["msg"], "No label selected", "{reply}");
    }
    let info = site.get("/api/d/_load_info?label=told", &[ROOT]).json();
    assert_eq!((&info["state"], &info["status"]), (&json!("FINISHED"), &json!("OK")));
    let backends = site.get("/api/backends?is_alive=true", &[ROOT]).json();
    assert_eq!(backends["data"]["backends"][0]["is_alive"], true);
    assert_eq!(site.get("/api/bootstrap", &[ROOT]).json()["data"]["queryPort"], 9030);
    site.stop();
}

#[test]
fn what_is_not_there_is_said_so() {
    let site = Site::new();
    let paths = ["/api/nothing", "/api/d/none/_schema", "/api/d/t/_stream_load"];
    for (path, status) in paths.into_iter().zip([404, 404, 405]) {
        let answer = site.get(path, &[ROOT]);
        assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(status)), "{path}");
    }
    for file in ["", "../store/LOCK", "..%2Fstore%2FLOCK", "%2Fetc%2Fpasswd"] {
        let answer = site.get(&format!("/api/_load_error_log?file={file}"), &[]);
        assert_eq!(answer.status, 404, "{file}");
    }
    site.stop();
}

#[test]
fn connectors_find_nodes_and_are_told_what_is_not_served() {
    let site = Site::new();
    let login = site.client().request("POST", "/rest/v1/login", &[ROOT], b"").json();
    assert_eq!((&login["code"], &login["msg"]), (&json!(0), &json!("success")));
    assert_eq!(site.get("/rest/v1/login", &[]).status, 401);
    let port = site.address.port().to_string();
    let nodes = site.get("/rest/v1/system?path=//backends", &[ROOT]).json();
    assert_eq!(nodes["data"]["rows"][0]["HttpPort"], json!(port));
    let nodes = site.get("/rest/v2/manager/node/backends", &[ROOT]).json();
    assert_eq!(nodes["data"], json!([site.address.to_string()]));
    let frontends = site.get("/rest/v2/manager/node/frontends", &[ROOT]).json();
    assert!(frontends["data"][0].as_str().unwrap().ends_with(":9030"));
    let light = site.get("/api/enable_light_schema_change/d/t", &[ROOT]).json();
    assert_eq!(light["code"], 0);
    assert_eq!(site.get("/api/enable_light_schema_change/d/none", &[ROOT]).status, 404);
    for path in ["/api/d/t/_query_plan", "/api/query_detail/1"] {
        let refused = site.client().request("POST", path, &[ROOT], b"{}");
        assert!(refused.body.contains("MySQL protocol to port 9030"), "{}", refused.body);
    }
    site.stop();
}

#[test]
fn the_error_log_of_a_load_is_told_by_its_label() {
    let site = Site::new();
    let headers = ["label: part", "max_filter_ratio: 0.5"];
    let reply = site.load(&headers, "1,1,a\nx,2,b\n");
    assert_eq!(reply["Status"], "Success", "{reply}");
    // A client that sends it again changes nothing of that.
    let again = site.load(&headers, "1,1,a\n");
    assert_eq!(again["Status"], "Label Already Exists", "{again}");
    let info = site.get("/api/d/_load_info?label=part", &[ROOT]).json();
    assert_eq!(info["trackingUrl"], reply["ErrorURL"]);
    let shown = data(&site, "SHOW LOAD WHERE Label = 'part'")["data"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown[0][13], reply["ErrorURL"], "{shown}");
    assert!(shown[0][14].as_str().unwrap().contains("\"ScannedRows\":2"), "{shown}");
    assert_eq!(info["tblNames"], json!(["t"]));
    site.stop();
}
