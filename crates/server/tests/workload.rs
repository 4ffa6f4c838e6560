//! Workload groups with several sessions: queues, memory, threads, and limits of accounts.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod common;
#[path = "workload/limits.rs"]
mod limits;
#[path = "workload/queue.rs"]
mod queue;

use std::time::{Duration, Instant};

use common::{Client, TestServer};
use freshet_wire::client::{Encoding, Outcome};

/// Longer than anything here takes.
const LATE: Duration = Duration::from_secs(100);

fn as_user(server: &TestServer, user: &str) -> Client {
    Client::connect(server.address, user, "", None).unwrap()
}

/// Waits until something holds.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LATE, "{what} never holds");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Queries that run and that wait in a group.
fn load(root: &mut Client, group: &str) -> (String, String) {
    let of = "select running_query_num, waiting_query_num from information_schema.workload_groups";
    let rows = root.texts(&format!("{of} where name = '{group}'"));
    (rows[0][0].clone(), rows[0][1].clone())
}

#[track_caller]
fn waits_for(root: &mut Client, group: &str, running: u32, waiting: u32) {
    let wanted = (running.to_string(), waiting.to_string());
    eventually(&format!("{running} run and {waiting} wait"), || load(root, group) == wanted);
}

/// A query whose result is larger than all buffers between server and client, so that it runs until
/// the client reads.
const LARGE: &str = "select repeat(s, 1000) from d.large";

fn with_large_table(root: &mut Client) {
    root.run("create table d.large (s varchar(1000))");
    let row = format!("('{}')", "x".repeat(1000));
    root.run(&format!("insert into d.large values {}", vec![row; 60].join(",")));
}

fn begin(client: &mut Client, sql: &str) {
    client.writer.command_query(sql.as_bytes());
    client.send();
}

fn end(client: &mut Client) -> Outcome {
    client.outcomes(Encoding::Text).remove(0)
}
