//! Connection slots: limits per account and address, unauthenticated clients, and the reserved
//! slots of administrators.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use freshet_wire::client::Login;
use freshet_wire::{Capabilities, PacketReader, PacketWriter};

use crate::client::Client;
use crate::web::authorization;
use crate::{PATIENCE, TestServer, eventually};

/// A server with few slots, and accounts without privileges.
fn few(settings: &[(&str, &str)]) -> TestServer {
    let server = TestServer::with(settings);
    let mut root = server.connect();
    for name in ["one", "two", "three"] {
        root.run(&format!("create user {name}"));
    }
    server
}

/// Connections that never log in.
fn unauthenticated(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    (0..count).map(connect).collect()
}

/// Whether the server has closed this connection.
fn is_ended(socket: &mut TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn one_account_fills_its_part_and_root_comes_in_to_kill() {
    let server = few(&[("max_connections", "8"), ("max_address_connections", "100")]);
    eventually("only those below are connected", || server.connect().texts(LIST).len() == 1);
    let mut ones = (0..6).map(|_| server.log_in("one").unwrap()).collect::<Vec<_>>();
    let refused = server.log_in("one").err().unwrap();
    assert_eq!((refused.errno, &*refused.sqlstate), (1203, "42000"));
    assert!(refused.message.contains("max_user_connections"), "{}", refused.message);
    let _twos = [server.log_in("two").unwrap(), server.log_in("two").unwrap()];
    assert_eq!(server.log_in("three").err().unwrap().errno, 1040, "all slots are taken");
    let mut root = server.connect();
    for one in &mut ones[..2] {
        // Its own slot counts, so it must end one of its connections itself.
        let id = one.one("select connection_id()");
        root.run(&format!("kill {id}"));
    }
    eventually("there is a free slot again", || server.log_in("three").is_ok());
    root.run("set global max_user_connections = 2");
    // The slot of the last attempt may not be released yet.
    let refused = || server.log_in("two").err().unwrap().errno;
    eventually("the account has its part", || refused() == 1203);
    assert_eq!(root.one("select @@global.max_user_connections"), "2");
}

const LIST: &str = "show processlist";

#[test]
fn another_login_on_a_connection_counts_for_the_other_account() {
    let server = few(&[("max_user_connections", "1")]);
    let _two = server.log_in("two").unwrap();
    let mut client = server.log_in("one").unwrap();
    client.writer.command_change_user("two", "", 45);
    client.send();
    client.packet(1).unwrap();
    client.socket.write_all(&[0, 0, 0, 2]).unwrap();
    let (payload, _) = client.packet(3).unwrap();
    assert_eq!(u16::from_le_bytes([payload[1], payload[2]]), 1203);
    eventually("its slot is free", || server.log_in("one").is_ok());
}

#[test]
fn unauthenticated_connections_keep_nobody_out() {
    let server = few(&[("max_connections", "8")]);
    let mut held = unauthenticated(server.address, 200);
    let mut one = server.log_in("one").unwrap();
    assert_eq!(one.one("select 1"), "1");
    assert_eq!(server.connect().one("select 1"), "1");
    eventually("the oldest ones are evicted", || is_ended(&mut held[0]));
}

#[test]
fn logins_have_a_timeout() {
    let server = few(&[("connect_timeout", "2s")]);
    let began = Instant::now();
    let mut held = unauthenticated(server.address, 1);
    let mut one = server.log_in("one").unwrap();
    one.run("set wait_timeout = 3600");
    // The server requests the password of the other account, and gets no answer.
    one.writer.command_change_user("two", "", 45);
    one.send();
    one.packet(1).unwrap();
    eventually("both are closed", || is_ended(&mut held[0]) && is_ended(&mut one.socket));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_stalled_login_on_a_connection_can_be_killed() {
    let server = few(&[]);
    let mut one = server.log_in("one").unwrap();
    let id = one.one("select connection_id()");
    one.writer.command_change_user("two", "", 45);
    one.send();
    one.packet(1).unwrap();
    server.connect().run(&format!("kill {id}"));
    let began = Instant::now();
    eventually("it is ended", || is_ended(&mut one.socket));
    assert!(began.elapsed() < Duration::from_secs(5), "and not by its time");
}

#[test]
fn who_takes_no_answer_can_be_killed() {
    let server = few(&[]);
    let mut client = server.database("d");
    client.run("create table t (a text)");
    client.run(&format!("insert into t values ('{}')", "x".repeat(1 << 20)));
    client.run("set net_write_timeout = 3600");
    let id = client.one("select connection_id()");
    client.writer.command_query(&b"select * from t;".repeat(40));
    client.send();
    let mut root = server.connect();
    std::thread::sleep(Duration::from_millis(500));
    root.run(&format!("kill {id}"));
    let is_listed = |row: &Vec<String>| row[0] == id;
    eventually("it is gone", || !root.texts(LIST).iter().any(is_listed));
}

#[test]
fn one_address_has_a_part_of_the_places() {
    let server = few(&[("max_address_connections", "3")]);
    eventually("only those below are connected", || server.connect().texts(LIST).len() == 1);
    let _held = ["one", "two", "three"].map(|name| server.log_in(name).unwrap());
    let refused = server.log_in("one").err().unwrap();
    assert_eq!(refused.errno, 1040);
    assert!(refused.message.contains("max_address_connections is 3"), "{}", refused.message);
    assert_eq!(server.connect().one("select 1"), "1", "administrators come in");
    let other = from([127, 0, 0, 2], server.address);
    let mut other = Client::over(other, Login::new("one", "", None)).unwrap();
    assert_eq!(other.one("select 1"), "1", "and so do other addresses");
}

/// A connection from another loopback address.
fn from(source: [u8; 4], address: SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

#[test]
fn who_asks_for_a_compression_that_there_is_not_is_told_so() {
    let server = few(&[]);
    let payload = answer(server.address, "root", Capabilities::ZSTD);
    assert_eq!((payload[0], u16::from_le_bytes([payload[1], payload[2]])), (0xff, 1043));
    let message = String::from_utf8_lossy(&payload);
    assert!(message.contains("compression"), "{message}");
}

/// The CPU time that the server needs to refuse a wrong password; wall time would depend on other
/// load.
fn refusal(server: &TestServer, user: &str) -> Duration {
    let before = server.processor_time();
    for _ in 0..20 {
        assert_eq!(knock(server, user, "wrong"), 401);
    }
    server.processor_time() - before
}

/// The status of an HTTP request.
fn knock(server: &TestServer, user: &str, password: &str) -> u16 {
    let headers = [&*authorization(user, password)];
    server.web().request("GET", "/api/bootstrap", &headers, b"").status
}

const THRESHOLD: &str = "set global connection_control_failed_connections_threshold";

#[test]
fn refusals_take_as_long_for_names_that_nobody_has() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run(&format!("{THRESHOLD} = 0"));
    root.run("alter user root identified with caching_sha2_password by 'secret'");
    let (known, unknown) = (refusal(&server, "root"), refusal(&server, "nobody"));
    assert!(unknown > known / 2, "unknown after {unknown:?}, known after {known:?}");
    assert_eq!(knock(&server, "root", "secret"), 200);
    let known = refusal(&server, "root");
    assert!(known > unknown / 2, "earlier logins are not revealed either: {known:?}");
}

#[test]
fn names_that_nobody_has_are_asked_by_the_plugins_of_others() {
    let server = TestServer::start();
    server.connect().run("alter user root identified with caching_sha2_password by 'secret'");
    assert!(is_switched(server.address, "root") && is_switched(server.address, "nobody"));
}

/// Whether a client of the older plugin gets an AuthSwitchRequest.
fn is_switched(address: SocketAddr, user: &str) -> bool {
    answer(address, user, Capabilities::NONE)[0] == 0xfe
}

/// The server's first reply to a wrong password, from a client with these additional capabilities.
fn answer(address: SocketAddr, user: &str, wish: Capabilities) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut reader, mut writer) = (PacketReader::new(1 << 20), PacketWriter::new());
    let greeting = packet(&mut socket, &mut reader, 0);
    writer.reply_to(1);
    Login::new(user, "wrong", None).on_packet(&mut writer, &greeting).unwrap();
    let mut bytes = writer.bytes().to_vec();
    // After the frame header, a login starts with the client's capabilities.
    for (byte, more) in bytes[4..8].iter_mut().zip(wish.bits().to_le_bytes()) {
        *byte |= more;
    }
    socket.write_all(&bytes).unwrap();
    packet(&mut socket, &mut reader, 2)
}

fn packet(socket: &mut TcpStream, reader: &mut PacketReader, sequence: u8) -> Vec<u8> {
    loop {
        if let Some(packet) = reader.next_packet(sequence).unwrap() {
            return packet.payload.to_vec();
        }
        let count = socket.read(reader.spare()).unwrap();
        assert!(count > 0, "the server answers");
        reader.filled(count);
    }
}

#[test]
fn who_guesses_waits_and_nobody_else_does() {
    let server = few(&[]);
    let mut root = server.connect();
    root.run("create user four identified by 'secret'");
    root.run(&format!("{THRESHOLD} = 2"));
    let took = |user: &str, password: &str| {
        let began = Instant::now();
        let refused = Client::connect(server.address, user, password, None).is_err();
        (refused, began.elapsed() >= Duration::from_secs(1))
    };
    assert_eq!([took("four", "a"), took("four", "b")], [(true, false), (true, false)]);
    assert_eq!(took("four", "c"), (true, true), "the third waits");
    assert_eq!(took("four", "secret"), (false, true), "and so does a right one behind it");
    assert_eq!(took("four", "secret"), (false, false), "which ends it");
    assert_eq!([took("nobody", "a"), took("nobody", "b")], [(true, false), (true, false)]);
    assert_eq!(took("nobody", "c"), (true, true), "it is the same for names that nobody has");
    assert_eq!(took("root", ""), (false, false));
}
