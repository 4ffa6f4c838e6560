//! Clients whose texts are not UTF-8.

use crate::common::{Client, TestServer, failure};
use freshet_wire::client::{Encoding, Outcome, Rows, Value};
use freshet_wire::{ColumnType, Param};

fn query(client: &mut Client, sql: &[u8]) -> Outcome {
    client.writer.command_query(sql);
    client.send();
    client.outcomes(Encoding::Text).remove(0)
}

fn rows(outcome: Outcome) -> Rows {
    match outcome {
        Outcome::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn cell(outcome: Outcome) -> Vec<u8> {
    match rows(outcome).rows.remove(0).remove(0) {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// A client in a new database, with this character set.
fn client(server: &TestServer, charset: &str) -> Client {
    let mut client = server.database("d");
    client.run("create table if not exists t (id int primary key, s varchar(20), b varbinary(20))");
    client.run(&format!("set names {charset}"));
    client
}

#[test]
fn statements_and_results_are_converted() {
    let server = TestServer::start();
    let mut latin1 = client(&server, "latin1");
    let mut utf8 = server.database("d");
    query(&mut latin1, b"insert into t values (1, 'caf\xe9 \x80', 'x')");
    assert_eq!(utf8.one("select s from t where id = 1"), "caf\u{e9} \u{20ac}");
    // By key, by value, and computed.
    for sql in [
        &b"select s from t where id = 1"[..],
        b"select s from t where s = 'CAF\xc9 \x80'",
        b"select concat(s, '') from t",
    ] {
        let found = rows(query(&mut latin1, sql));
        assert_eq!(found.rows, [[Value::Bytes(b"caf\xe9 \x80".to_vec())]]);
        assert_eq!(found.shapes[0].0.charset(), Some("latin1"));
    }
    utf8.run("insert into t values (2, '\u{4e2d}\u{e9}', null)");
    assert_eq!(cell(query(&mut latin1, b"select s from t where id = 2")), b"?\xe9");
    let error = failure(query(&mut latin1, b"select 'a' from nowhere where x = '\xe9'")).unwrap();
    assert_eq!(error.errno, 1146);
}

#[test]
fn a_backslash_inside_of_a_character_is_none() {
    let server = TestServer::start();
    let mut gbk = client(&server, "gbk");
    // Whoever escapes byte by byte writes a backslash before the quote, which becomes part of the
    // character: the text ends there, and what follows is no statement.
    assert_eq!(rows(query(&mut gbk, b"select '\xbf\x5c' as x -- '")).rows.len(), 1);
    assert_eq!(cell(query(&mut gbk, b"select '\xbf\x5c' as x")), b"\xbf\x5c");
    let error = failure(query(&mut gbk, b"select '\xbf'")).unwrap();
    assert_eq!(error.errno, 1300);
    query(&mut gbk, b"insert into t values (1, '\xd6\xd0', _binary'\xbf\x5c\xff')");
    assert_eq!(cell(query(&mut gbk, b"select b from t where id = 1")), b"\xbf\x5c\xff");
    assert_eq!(cell(query(&mut gbk, b"select hex(s) from t where id = 1")), b"E4B8AD");
}

#[test]
fn parameters_are_converted_but_not_bytes() {
    let server = TestServer::start();
    let mut latin1 = client(&server, "latin1");
    let insert = latin1.prepare("insert into t values (?, ?, 'x')").unwrap().statement_id;
    let done = latin1.execute(insert, &[Param::Int(1), Param::Bytes(b"\xe9")]);
    assert!(matches!(done, Outcome::Ok { affected_rows: 1, .. }), "{done:?}");
    let select = latin1.prepare("select s, b from t where s = ?").unwrap().statement_id;
    let found = rows(latin1.execute(select, &[Param::Bytes(b"\xe9")]));
    assert_eq!(found.rows, [[Value::Bytes(b"\xe9".to_vec()), Value::Bytes(b"x".to_vec())]]);
    assert_eq!(found.types[0].0, ColumnType::VarString);
    // A part of a long text.
    latin1.writer.command_long_data(insert, 1, b"\xe8");
    latin1.send();
    let done = latin1.execute(insert, &[Param::Int(2), Param::Bytes(b"")]);
    assert!(matches!(done, Outcome::Ok { .. }), "{done:?}");
    assert_eq!(cell(query(&mut latin1, b"select s from t where id = 2")), b"\xe8");
}

#[test]
fn results_alone_may_have_another_character_set() {
    let server = TestServer::start();
    let mut utf8 = client(&server, "utf8mb4");
    utf8.run("set character_set_results = latin1");
    assert_eq!(cell(query(&mut utf8, "select '\u{e9}' as x".as_bytes())), b"\xe9");
    utf8.run("set character_set_results = NULL");
    assert_eq!(cell(query(&mut utf8, "select '\u{e9}' as x".as_bytes())), "\u{e9}".as_bytes());
    // In one text, the second statement is sent as the first has said.
    utf8.writer.command_set_multi_statements(true);
    utf8.send();
    utf8.packet(1).unwrap();
    let sql = "set character_set_results = latin1; select '\u{e9}' as x";
    assert_eq!(cell(utf8.query_all(sql).remove(1)), b"\xe9");
}

#[test]
fn another_login_brings_its_character_set() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.writer.command_change_user("root", "d", 8);
    client.send();
    // The empty password needs no answer but an empty packet.
    let (switch, sequence) = client.packet(1).unwrap();
    if switch[0] == 0xfe {
        client.writer.reply_to(sequence + 1);
        client.writer.infile_piece(b"");
        client.send();
        client.packet(sequence + 2).unwrap();
    }
    assert_eq!(client.one("select @@character_set_results"), "latin1");
    assert_eq!(cell(query(&mut client, b"select '\xe9' as x")), b"\xe9");
}
