//! Memory held for clients between packets and commands: it is released, and limited per account.
use std::io::{Read, Write};
use std::time::Duration;

use freshet_wire::Param;
use freshet_wire::client::Outcome;

use crate::client::Client;
use crate::{TestServer, eventually};

/// Write memory in use.
fn receiving(server: &TestServer) -> u64 {
    server.gauge("freshet_write_memory_bytes")
}

/// Session memory in use.
fn kept(server: &TestServer) -> u64 {
    server.gauge("freshet_client_memory_bytes")
}

/// A server with 4 MiB of session memory, 3 MiB per account, and 8 MiB for incomplete requests.
fn small() -> TestServer {
    let server = TestServer::with(&[
        ("client_memory", "4MiB"),
        ("account_memory", "3MiB"),
        ("account_receive_memory", "8MiB"),
        ("write_memory", "64MiB"),
        ("load_patience", "200ms"),
    ]);
    let mut root = server.connect();
    root.run("create user other");
    root.run("create database d");
    root.run("create table d.t (a int, b text)");
    server
}

fn other(server: &TestServer) -> Client {
    server.log_in("other").unwrap()
}

/// Sends `sent` bytes of a packet whose header announces `bytes`.
fn begin_packet(client: &mut Client, bytes: usize, sent: usize) {
    let [a, b, c, _] = (bytes as u32).to_le_bytes();
    client.socket.write_all(&[a, b, c, 0, 3]).unwrap();
    client.socket.write_all(&vec![b' '; sent]).unwrap();
}

#[test]
fn idle_connections_give_back_what_their_packets_took() {
    let server = TestServer::with(&[("write_memory", "64MiB"), ("load_patience", "1s")]);
    server.database("d").run("create table t (a int, b text)");
    let text = "x".repeat(9 << 20);
    let mut clients = (0..5).map(|_| server.connect()).collect::<Vec<_>>();
    for client in &mut clients {
        let refused = client.fails(&format!("insert into d.t values ('no', '{text}')"));
        assert_eq!(refused.errno, 1366);
    }
    eventually("all of it comes back", || receiving(&server) < 1 << 20);
    for client in &mut clients {
        assert_eq!(client.one("select 1"), "1");
    }
}

#[test]
fn halves_of_packets_count_for_their_account() {
    let server = small();
    let mut halves = (0..8).map(|_| other(&server)).collect::<Vec<_>>();
    for client in &mut halves {
        begin_packet(client, 4 << 20, 3 << 20);
    }
    eventually("some of them are received", || receiving(&server) >= 4 << 20);
    std::thread::sleep(Duration::from_millis(400));
    assert!(receiving(&server) <= 9 << 20, "{}", receiving(&server));
    let mut root = server.connect();
    let text = "y".repeat(5 << 20);
    assert_eq!(root.one(&format!("select length('{text}')")), (5 << 20).to_string());
    let refused = halves.iter_mut().find_map(|client| {
        client.socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        client.socket.write_all(&vec![b' '; (1 << 20) - 1]).unwrap();
        let (payload, _) = client.packet(1)?;
        let text = String::from_utf8_lossy(&payload).into_owned();
        text.contains("account_receive_memory").then_some(text)
    });
    assert!(refused.is_some(), "a client gets an error with the limit");
    drop(halves);
    eventually("all of it comes back", || receiving(&server) < 1 << 20);
}

#[test]
fn the_rest_of_a_packet_is_not_waited_for_for_ever() {
    let server = small();
    let mut client = server.connect();
    client.run("set net_read_timeout = 1");
    begin_packet(&mut client, 4 << 20, 2 << 20);
    let (payload, _) = client.packet(1).expect("it gets an error");
    assert_eq!(u16::from_le_bytes([payload[1], payload[2]]), 1159);
    assert_eq!(client.socket.read(&mut [0; 10]).unwrap(), 0, "and the connection ends");
    let mut client = server.connect();
    client.run("set net_read_timeout = 1");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(client.one("select 1"), "1", "between packets it may be silent");
}

/// Repeats `step` until it hits the limit of the account; other accounts must still work.
#[track_caller]
fn refused(server: &TestServer, mut step: impl FnMut(usize) -> Option<String>) {
    let message = (0..200).find_map(&mut step).expect("the account is refused at some time");
    assert!(message.contains("account_memory"), "{message}");
    let mut root = server.connect();
    root.run("set @x = repeat('x', 100000)");
    assert_eq!(root.one("select length(@x)"), "100000");
}

#[test]
fn user_variables_count_for_their_account() {
    let server = small();
    let mut client = other(&server);
    refused(&server, |n| match client.query(&format!("set @v{n} = repeat('x', 100000)")) {
        Outcome::Err { errno: 1041, message, .. } => Some(message),
        _ => None,
    });
    let before = kept(&server);
    assert!(before <= 4 << 20);
    client.run("set @v0 = 1");
    eventually("a smaller value gives memory back", || kept(&server) + 90_000 < before);
    drop(client);
    eventually("all of it comes back", || kept(&server) == 0);
}

#[test]
fn prepared_statements_count_for_their_account() {
    let server = small();
    let mut client = other(&server);
    let text = "x".repeat(1000);
    refused(&server, |_| client.prepare(&format!("select '{text}'")).err().map(|e| e.message));
    client.writer.command_reset_connection();
    client.send();
    client.packet(1).unwrap();
    eventually("all of it comes back", || kept(&server) == 0);
    client.prepare(&format!("select '{text}'")).unwrap();
}

#[test]
fn parameters_in_pieces_count_for_their_account() {
    let server = small();
    let mut client = server.connect();
    let insert = client.prepare("insert into d.t values (?, ?)").unwrap().statement_id;
    let select = client.prepare("select length(?)").unwrap().statement_id;
    for (statement, parameter) in [(insert, 1), (select, 0)] {
        for _ in 0..40 {
            client.writer.command_long_data(statement, parameter, &[b'x'; 100_000]);
            client.send();
        }
        let params = [Param::Int(1), Param::Bytes(b"")];
        match client.execute(statement, &params[usize::from(parameter == 0)..]) {
            Outcome::Err { errno: 1041, message, .. } => {
                assert!(message.contains("account_memory"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert!(kept(&server) < 1 << 20, "what was refused is not kept");
        client.writer.command_long_data(statement, parameter, &[b'x'; 100_000]);
        client.send();
        let done = client.execute(statement, &params[usize::from(parameter == 0)..]);
        assert!(!matches!(done, Outcome::Err { .. }), "{done:?}");
    }
}

#[test]
fn rows_of_cursors_count_for_their_account() {
    let server = small();
    let mut root = server.connect();
    root.run("grant select on d.t to other");
    let rows = (0..500).map(|n| format!("({n}, '{}')", "z".repeat(500))).collect::<Vec<_>>();
    root.run(&format!("insert into d.t values {}", rows.join(",")));
    let mut client = other(&server);
    refused(&server, |_| {
        let id = client.prepare("select a, b from d.t").unwrap().statement_id;
        client.writer.command_execute_cursor(id, &[]);
        client.send();
        let (payload, _) = client.packet(1).unwrap();
        if payload[0] == 0xff {
            return Some(String::from_utf8_lossy(&payload[9..]).into_owned());
        }
        for sequence in 2..5 {
            client.packet(sequence).unwrap();
        }
        None
    });
    drop(client);
    eventually("all of it comes back", || kept(&server) == 0);
}

#[test]
fn another_login_on_the_same_connection_starts_with_nothing() {
    let server = small();
    let mut client = server.connect();
    client.run("set @x = repeat('x', 1000000)");
    client.prepare("select 1").unwrap();
    client.writer.command_change_user("other", "", 45);
    client.send();
    // The server requests the password again, which is empty.
    client.packet(1).unwrap();
    client.writer.reply_to(2);
    client.socket.write_all(&[0, 0, 0, 2]).unwrap();
    assert_eq!(client.packet(3).unwrap().0[0], 0);
    eventually("all of it comes back", || kept(&server) == 0);
    assert_eq!(client.one("select @x"), "NULL");
    // A login packet is small; a larger one is refused.
    client.writer.command_change_user("root", "", 45);
    client.send();
    client.packet(1).unwrap();
    begin_packet_of_login(&mut client);
    assert!(client.packet(3).is_some_and(|(payload, _)| payload[0] == 0xff));
    assert!(receiving(&server) < 1 << 20);
}

fn begin_packet_of_login(client: &mut Client) {
    let [a, b, c, _] = (8u32 << 20).to_le_bytes();
    client.socket.write_all(&[a, b, c, 2]).unwrap();
    client.socket.write_all(&[b' '; 100_000]).unwrap();
}
