//! Statements that are expensive to plan are answered, refused or ended, and cost nobody else.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::time::{Duration, Instant};

use common::{Client, TestServer, failure};
use freshet_wire::client::Encoding;

/// What must always answer has so long here, where the build is slow and the machine shared.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A statement within all limits that takes long to plan.
fn heavy() -> String {
    let days = (0..240).map(|day| format!(" + INTERVAL {day} DAY")).collect::<String>();
    format!("SELECT {}", vec![format!("NOW(){days}"); 30].join(", "))
}

/// Sends a statement whose answer is read later.
fn send(client: &mut Client, sql: &str) {
    client.writer.command_query(sql.as_bytes());
    client.send();
}

#[track_caller]
fn at_once<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{what} took {took:?}");
    println!("{what}: {took:?}");
    done
}

fn id_of(client: &mut Client) -> u64 {
    client.one("SELECT CONNECTION_ID()").parse().unwrap()
}

#[test]
fn others_are_served_while_plans_are_made() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (a INT)");
    client.run("CREATE USER slow IDENTIFIED WITH caching_sha2_password BY 'secret'");
    let mut planning = (0..4).map(|_| server.connect()).collect::<Vec<_>>();
    let ids = planning.iter_mut().map(id_of).collect::<Vec<_>>();
    planning.iter_mut().for_each(|client| send(client, &heavy()));
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        at_once("SELECT 1", || assert_eq!(client.one("SELECT 1"), "1"));
        at_once("INSERT", || client.run("INSERT INTO t VALUES (1)"));
        at_once("INSERT of an expression", || client.run("INSERT INTO t VALUES (1 + 1)"));
        at_once("SHOW PROCESSLIST", || client.rows("SHOW PROCESSLIST"));
        at_once("login", || Client::connect(server.address, "slow", "secret", None).unwrap());
    }
    for id in ids {
        at_once("KILL", || client.run(&format!("KILL QUERY {id}")));
    }
    for mut client in planning {
        let ended = at_once("end", || failure(client.outcomes(Encoding::Text).remove(0)));
        assert_eq!(ended.unwrap().errno, 1317);
        assert_eq!(client.one("SELECT 1"), "1", "the connection lives on");
    }
}

#[test]
fn a_plan_ends_with_its_time_its_client_and_its_server() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run("SET max_execution_time = 200");
    let ended = at_once("max_execution_time", || client.fails(&heavy()));
    assert_eq!(ended.errno, 3024);
    client.run("SET max_execution_time = 0");
    for _ in 0..8 {
        let mut gone = server.connect();
        send(&mut gone, &heavy());
    }
    for _ in 0..3 {
        send(&mut client, &heavy());
        std::thread::sleep(Duration::from_millis(200));
        let id = {
            let mut other = server.connect();
            let rows = other.texts("SHOW PROCESSLIST");
            let busy = rows.iter().find(|row| row[4] == "Query" && row[7].contains("INTERVAL"));
            let id = busy.map(|row| row[0].clone()).unwrap();
            other.run(&format!("KILL QUERY {id}"));
            id
        };
        let ended = failure(client.outcomes(Encoding::Text).remove(0));
        assert_eq!(ended.unwrap().errno, 1317, "{id}");
    }
    send(&mut client, &heavy());
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed() < Duration::from_secs(12), "stopped after {:?}", began.elapsed());
}
