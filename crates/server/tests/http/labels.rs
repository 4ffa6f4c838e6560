//! Labels: each load is applied once.

use serde_json::json;

use crate::client::ROOT;
use crate::site::Site;
use freshet_server::http::HttpConfig;

#[test]
fn a_label_is_used_once_even_after_a_restart() {
    let site = Site::new();
    let first = site.load(&["label: l1"], "1,1,a\n");
    assert_eq!((&first["Status"], &first["Label"]), (&json!("Success"), &json!("l1")));
    let again = site.load(&["label: l1"], "1,1,a\n");
    assert_eq!(again["Status"], "Label Already Exists");
    assert_eq!(again["ExistingJobStatus"], "FINISHED");
    assert_eq!(again["TxnId"], first["TxnId"]);
    let message = again["Message"].as_str().unwrap();
    assert!(message.starts_with("[LABEL_ALREADY_EXISTS]Label [l1] has already been used"));
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    assert_eq!(site.load(&["label: l1"], "1,1,a\n")["Status"], "Label Already Exists");
    assert_eq!(site.rows(), ["1,1,a"]);
    site.stop();
}

#[test]
fn a_label_is_free_again_after_a_failure() {
    let site = Site::new();
    assert_eq!(site.load(&["label: l2", "strict_mode: true"], "x,1,a\n")["Status"], "Fail");
    assert_eq!(site.load(&["label: l2"], "1,1,a\n")["Status"], "Success");
    site.stop();
}

#[test]
fn a_running_load_keeps_its_label_until_its_client_goes_away() {
    let site = Site::new();
    let mut client = site.client();
    let lines = [ROOT, "column_separator: ,", "label: l3", "Transfer-Encoding: chunked"];
    client.head("PUT", "/api/d/t/_stream_load", &lines);
    client.chunk(b"1,1,a\n");
    let state = |site: &Site| {
        let path = "/api/d/get_load_state?label=l3";
        site.get(path, &[ROOT]).json()["data"].as_str().unwrap().to_owned()
    };
    wait_until("it runs", || state(&site) == "PREPARE");
    let again = site.load(&["label: l3"], "2,2,b\n");
    assert_eq!(again["ExistingJobStatus"], "RUNNING");
    drop(client);
    wait_until("it is free", || state(&site) == "UNKNOWN");
    assert_eq!(site.rows(), Vec::<String>::new());
    assert_eq!(site.load(&["label: l3"], "2,2,b\n")["Status"], "Success");
    assert_eq!(state(&site), "VISIBLE");
    site.stop();
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{what}: not within a minute");
}

#[test]
fn a_label_rides_in_a_group_where_its_header_asks_for_it() {
    let site = Site::new();
    let grouped = ["group_commit: async_mode", "group_commit_labels: true"];
    let plain = site.load(&["group_commit: async_mode"], "1,1,a\n");
    let own = site.load(&[&grouped[..], &["label: l1"]].concat(), "2,2,b\n");
    assert_eq!((&own["Label"], &own["GroupCommit"]), (&json!("l1"), &json!(true)));
    assert_eq!(own["TxnId"], plain["TxnId"], "one group");
    let degraded = site.load(&["group_commit: async_mode", "label: l2"], "3,3,c\n");
    assert_eq!(degraded["TwoPhaseCommit"], "false");
    assert_ne!(degraded["TxnId"], plain["TxnId"]);
    // Known behind a restart, while nothing is flushed.
    let dir = site.stop();
    let site = Site::in_dir(dir, HttpConfig::default());
    for label in ["label: l1", "label: l2"] {
        let again = site.load(&[&grouped[..], &[label]].concat(), "9,9,z\n");
        assert_eq!(again["Status"], "Label Already Exists");
        assert_eq!(again["ExistingJobStatus"], "FINISHED");
    }
    assert_eq!(site.rows(), ["1,1,a", "2,2,b", "3,3,c"]);
    site.stop();
}
