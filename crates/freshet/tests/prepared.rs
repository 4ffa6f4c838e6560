//! Loads of two phases are committed once, through crashes at any moment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::thread;
use std::time::Duration;

use freshet_torture::client::Client;
use freshet_torture::http;
use freshet_torture::server::Setup;
use serde_json::Value;

const WRITERS: u64 = 3;
const CRASHES: u64 = 6;
const ROWS: u64 = 40;

/// What makes the commit of a prepared load join a group.
const GROUPED: &str = "group_commit: async_mode\r\ngroup_commit_labels: true\r\n";

/// A client that prepares a load, commits it, and goes on with the next one. What it does not know
/// the end of it does again.
struct Writer {
    number: u64,
    /// Whether its commits join groups, whose records have other transactions than it knows.
    is_grouped: bool,
    /// Loads that were committed, as it was told.
    committed: u64,
    is_prepared: bool,
}

/// Sends a request; its reply, or `None` when the server has died.
fn put(port: u16, path: &str, headers: &str, body: &str) -> Option<Value> {
    let request = format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic cm9vdDo=\r\n\
         Content-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
        body.len()
    );
    let answer = http::ask(port, request.as_bytes()).ok()?;
    Some(serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{}", answer.body)))
}

impl Writer {
    /// Goes on until the server dies, or a load is committed and `is_last`.
    fn run(mut self, port: u16, is_last: bool) -> Self {
        while self.step(port).is_some() {
            if is_last && !self.is_prepared {
                break;
            }
        }
        self
    }

    fn step(&mut self, port: u16) -> Option<()> {
        let label = format!("w{}-{}", self.number, self.committed);
        if !self.is_prepared {
            let row = |row| format!("{},{},{row}\n", self.number, self.committed);
            let body = (0..ROWS).map(row).collect::<String>();
            let grouped = if self.is_grouped { GROUPED } else { "" };
            let headers = format!(
                "label: {label}\r\ntwo_phase_commit: true\r\ncolumn_separator: ,\r\n{grouped}"
            );
            let reply = put(port, "/api/d/t/_stream_load", &headers, &body)?;
            let status = (reply["Status"].as_str()?, reply["ExistingJobStatus"].as_str());
            match status {
                ("Success", _) => {
                    let note = reply["GroupCommitNote"].as_str().unwrap_or_default();
                    assert_eq!(note.starts_with("its commit joins a group"), self.is_grouped);
                    self.is_prepared = true;
                }
                ("Label Already Exists", Some("PRECOMMITTED")) => self.is_prepared = true,
                // The one before, whose connection has not ended yet.
                ("Label Already Exists", Some("RUNNING")) => {}
                _ => panic!("a load is prepared once: {reply}"),
            }
            return Some(());
        }
        let headers = format!("label: {label}\r\ntxn_operation: commit\r\n");
        let reply = put(port, "/api/d/_stream_load_2pc", &headers, "")?;
        let message = reply["msg"].as_str()?;
        if reply["status"] == "Success" || message.contains("already visible") {
            self.committed += 1;
            self.is_prepared = false;
            return Some(());
        }
        assert!(message.contains("try again"), "a prepared load can be committed: {reply}");
        Some(())
    }
}

#[test]
fn prepared_loads_are_committed_once_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    let key = "DUPLICATE KEY(w) DISTRIBUTED BY HASH(w) BUCKETS 2";
    client.query(&format!("CREATE TABLE d.t (w INT, n INT, i INT) {key}")).unwrap();
    let writer = |number| {
        let is_grouped = number > 0;
        Writer { number, is_grouped, committed: 0, is_prepared: false }
    };
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    for crash in 0..=CRASHES {
        let (port, is_last) = (server.http_port, crash == CRASHES);
        let running =
            writers.drain(..).map(|writer| thread::spawn(move || writer.run(port, is_last)));
        let running = running.collect::<Vec<_>>();
        if !is_last {
            thread::sleep(Duration::from_millis(200 + crash * 130));
            server.kill();
        }
        writers.extend(running.into_iter().map(|writer| writer.join().unwrap()));
        if !is_last {
            server = setup.start().unwrap();
        }
    }
    let committed = writers.iter().map(|writer| writer.committed).sum::<u64>();
    assert!(committed > WRITERS * CRASHES, "only {committed} loads were committed");
    assert!(writers.iter().all(|writer| writer.committed > 0), "each writer has committed loads");
    let mut client = Client::connect(server.mysql_port).unwrap();
    let mut count = |sql: &str| client.number(sql).unwrap();
    assert_eq!(count("SELECT COUNT(*) FROM d.t"), (committed * ROWS) as i64);
    let loads = "SELECT COUNT(*) FROM (SELECT w, n, COUNT(DISTINCT i) c FROM d.t GROUP BY w, n) x";
    assert_eq!(count(&format!("{loads} WHERE c = {ROWS}")), committed as i64);
    // A commit is told before its note goes.
    server.stop().unwrap();
    let notes = std::fs::read_dir(setup.data_dir.join("prepared")).unwrap().count();
    assert_eq!(notes, 0, "no load is left prepared");
}
