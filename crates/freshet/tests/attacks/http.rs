//! Connection slots and threads that HTTP clients occupy.

use std::io::Write;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::TestServer;
use crate::web::{Client, ROOT, authorization};

/// A server with a table to load into.
fn site(settings: &[(&str, &str)]) -> TestServer {
    let server = TestServer::with(settings);
    server.database("d").run("CREATE TABLE t (a INT, b INT, c VARCHAR(4))");
    server
}

#[test]
fn halves_of_heads_keep_their_places_for_a_short_time_only() {
    let site = site(&[("http_header_timeout", "100ms")]);
    let mut silent = site.web();
    let mut half = site.web();
    half.0.write_all(b"GET /api/health HTTP/1.1\r\nHost: ").unwrap();
    let mut dripping = site.web();
    assert_eq!(dripping.put(&[], "1,1,a").json()["Status"], "Success");
    for _ in 0..10 {
        // The connection may be closed already.
        let _ = dripping.0.write_all(b"G");
        sleep(Duration::from_millis(50));
    }
    let mut known = site.web();
    assert_eq!(known.put(&[], "2,2,b").json()["Status"], "Success");
    sleep(Duration::from_millis(500));
    for (name, client) in [("silent", &mut silent), ("half", &mut half), ("drops", &mut dripping)] {
        client.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(client.is_ended(), "{name}");
    }
    assert_eq!(known.put(&[], "3,3,c").json()["Status"], "Success", "it may rest between loads");
}

#[test]
fn who_comes_in_last_replaces_who_has_said_nothing_for_longest() {
    let site = site(&[("http_max_connections", "8")]);
    let mut known = site.web();
    assert_eq!(known.put(&[], "1,1,a").json()["Status"], "Success");
    let mut halves = (0..100).map(|_| site.web()).collect::<Vec<_>>();
    for half in &mut halves {
        // Connections that were evicted cannot be written to.
        let _ = half.0.write_all(b"GET /api/health HTTP/1.1\r\n");
    }
    assert_eq!(site.get("/api/health", "").status, 200);
    assert_eq!(known.put(&[], "2,2,b").json()["Status"], "Success");
    assert!(halves[0].is_ended());
}

#[test]
fn idle_loads_of_one_account_leave_turns_for_others() {
    let site = site(&[("stream_loads_max", "4")]);
    let mut root = site.connect();
    root.run("CREATE USER other");
    root.run("GRANT INSERT ON d.t TO other");
    let lines = [ROOT, "column_separator: ,", "Content-Length: 100"];
    let mut idle = [site.web(), site.web()];
    for client in &mut idle {
        client.head("PUT", "/api/d/t/_stream_load", &lines);
        client.0.write_all(b"1,1,a\n").unwrap();
    }
    sleep(Duration::from_millis(300));
    let answer = site.web().put(&[], "2,2,b");
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("account_stream_loads_max"), "{}", answer.body);
    let other = authorization("other", "");
    let path = "/api/d/t/_stream_load";
    let answer = site.web().request("PUT", path, &[&other, "column_separator: ,"], b"3,3,c");
    assert_eq!((answer.status, &answer.json()["Status"]), (200, &json!("Success")));
}

/// Large bodies are decoded outside of the I/O threads, which serve all connections.
#[test]
fn health_answers_while_quotes_without_end_are_read() {
    const SLOWEST: Duration = Duration::from_secs(2);
    let site = site(&[]);
    let body = format!("1,2,\"{}", "x,\n".repeat(2 << 20));
    let load = |_| {
        let (address, body) = (site.http_address, body.clone());
        spawn(move || Client::to(address).put(&["enclose: \""], &body).json())
    };
    let loads = (0..3).map(load).collect::<Vec<_>>();
    let (mut asked, mut slowest) = (0, Duration::ZERO);
    while !loads.iter().all(JoinHandle::is_finished) {
        let began = Instant::now();
        assert_eq!(site.get("/api/health", "").status, 200);
        slowest = slowest.max(began.elapsed());
        asked += 1;
        sleep(Duration::from_millis(2));
    }
    println!("asked {asked} times, {slowest:?} at most");
    assert!(asked > 0 && slowest < SLOWEST, "asked {asked} times, {slowest:?} at most");
    for load in loads {
        assert_eq!(load.join().unwrap()["Status"], "Fail");
    }
}
