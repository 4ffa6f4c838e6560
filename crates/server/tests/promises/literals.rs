//! Binary strings through every way that values take into and out of a table.

use freshet_wire::Param;
use freshet_wire::client::Outcome;

use super::common::{Client, TestServer};

/// All byte values, in a string literal as clients escape it.
fn escaped() -> Vec<u8> {
    let mut text = Vec::new();
    for byte in 0..=255 {
        match byte {
            0 => text.extend_from_slice(b"\\0"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\'' => text.extend_from_slice(b"''"),
            b'"' => text.extend_from_slice(b"\\\""),
            0x1a => text.extend_from_slice(b"\\Z"),
            byte => text.push(byte),
        }
    }
    text
}

fn hex() -> String {
    (0..=255).map(|byte: u8| format!("{byte:02X}")).collect()
}

fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[track_caller]
fn run(client: &mut Client, sql: &[u8]) {
    client.writer.command_query(sql);
    client.send();
    for outcome in client.outcomes(freshet_wire::client::Encoding::Text) {
        assert!(!matches!(outcome, Outcome::Err { .. }), "{outcome:?}");
    }
}

fn server() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (at datetime(6), b blob)");
    (server, client)
}

#[track_caller]
fn holds(client: &mut Client, wanted: &str) {
    for flushed in [false, true] {
        if flushed {
            client.run("flush tables t");
        }
        let rows = client.texts("select hex(b) from t");
        assert!(!rows.is_empty());
        for row in rows {
            assert_eq!(row[0], wanted);
        }
    }
    client.run("truncate table t");
}

#[test]
fn bytes_come_through_every_road_of_a_text() {
    let (_server, mut client) = server();
    let all = escaped();
    for introducer in [&b"_binary"[..], b"_binary ", b""] {
        let literal = bytes(&[introducer, b"'", &all, b"'"]);
        run(&mut client, &bytes(&[b"insert into t values ('2024-01-01', ", &literal, b")"]));
        run(&mut client, &bytes(&[b"insert into t values (now(6), ", &literal, b")"]));
        run(&mut client, &bytes(&[b"insert into t select now(), ", &literal]));
        run(
            &mut client,
            &bytes(&[b"insert into t values (null, ", &literal, b"), (now(), ", &literal, b")"]),
        );
        run(&mut client, &bytes(&[b"select 1; insert into t values (null, ", &literal, b")"]));
        holds(&mut client, &hex());
        let mut shown = bytes(&[b"select hex(", &literal, b")"]);
        assert_eq!(one(&mut client, &shown), hex());
        shown = bytes(&[b"select length(", &literal, b")"]);
        assert_eq!(one(&mut client, &shown), "256");
    }
}

fn one(client: &mut Client, sql: &[u8]) -> String {
    client.writer.command_query(sql);
    client.send();
    match client.outcomes(freshet_wire::client::Encoding::Text).remove(0) {
        Outcome::Rows(rows) => super::common::text(&rows.rows[0][0]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_bytes_come_through_too() {
    let (_server, mut client) = server();
    for (literal, wanted) in [
        (&b"_binary'\xff'"[..], "FF"),
        (b"_binary\"\xff\\\"\"", "FF22"),
        (b"_binary'\xc3\xa9\xff'", "C3A9FF"),
        (b"x'ff00'", "FF00"),
        (b"X'FF'", "FF"),
        (b"0xff", "FF"),
        (b"b'11111111'", "FF"),
        (b"B'1111111100000000'", "FF00"),
        (b"0b11111111", "FF"),
        (b"'\xff\\n\\%'", "FF0A5C25"),
        (b"'\xff' 'a'", "FF61"),
    ] {
        let shown = String::from_utf8_lossy(literal).into_owned();
        run(&mut client, &bytes(&[b"insert into t values (now(6), ", literal, b")"]));
        run(&mut client, &bytes(&[b"insert into t select null, ", literal, b" /* \xff */"]));
        run(&mut client, &bytes(&[b"insert into t (b) values (", literal, b")"]));
        println!("{shown}");
        holds(&mut client, wanted);
        assert_eq!(one(&mut client, &bytes(&[b"select hex(", literal, b")"])), wanted, "{shown}");
    }
    run(&mut client, b"set sql_mode = 'NO_BACKSLASH_ESCAPES'");
    run(&mut client, b"insert into t values (now(), _binary'\xff\\')");
    holds(&mut client, "FF5C");
}

#[test]
fn bytes_come_through_prepared_statements() {
    let (_server, mut client) = server();
    let all = escaped();
    let literal = bytes(&[b"_binary'", &all, b"'"]);
    let prepare = |client: &mut Client, sql: &[u8]| {
        client.prepare_bytes(sql).unwrap_or_else(|error| panic!("{error:?}")).statement_id
    };
    let at = Param::Bytes(b"2024-01-01");
    for sql in [
        bytes(&[b"insert into t values (?, ", &literal, b")"]),
        bytes(&[b"insert into t select ?, ", &literal]),
        bytes(&[b"insert into t values (concat(?, ''), ", &literal, b")"]),
    ] {
        let id = prepare(&mut client, &sql);
        for _ in 0..2 {
            let done = client.execute(id, std::slice::from_ref(&at));
            assert!(matches!(done, Outcome::Ok { .. }), "{done:?}");
        }
        holds(&mut client, &hex());
    }
    let id = prepare(&mut client, b"select hex(_binary'\xff'), hex(?)");
    let rows = client.execute(id, &[Param::Bytes(b"\xfe")]);
    let Outcome::Rows(rows) = rows else { panic!("{rows:?}") };
    let cells = rows.rows[0].iter().map(super::common::text).collect::<Vec<_>>();
    assert_eq!(cells, ["FF", "FE"]);
}

#[test]
fn bytes_come_through_definitions() {
    let (_server, mut client) = server();
    run(&mut client, b"create table u as select _binary'\xff\xfe' as b");
    assert_eq!(client.one("select hex(b) from u"), "FFFE");
    for (at, (literal, wanted)) in
        [(&b"_binary'\xff'"[..], "FF"), (b"x'fe'", "FE"), (b"b'11111101'", "FD"), (b"'\xff'", "FF")]
            .into_iter()
            .enumerate()
    {
        let name = format!("d{at}");
        let sql = bytes(&[
            b"create table ",
            name.as_bytes(),
            b" (a int, b varbinary(10) default ",
            literal,
            b")",
        ]);
        run(&mut client, &sql);
        client.run(&format!("insert into {name} (a) values (1)"));
        client.run(&format!("insert into {name} (a) values (1 + 1)"));
        assert_eq!(client.texts(&format!("select hex(b) from {name}")), [[wanted], [wanted]]);
        // SHOW CREATE TABLE must recreate the same table.
        let shown = client.texts(&format!("show create table {name}"))[0][1].clone();
        client.run(&format!("drop table {name}"));
        client.run(&shown);
        client.run(&format!("insert into {name} (a) values (1)"));
        assert_eq!(client.one(&format!("select hex(b) from {name}")), wanted, "{shown}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_by_text_columns() {
    let (_server, mut client) = server();
    client.run("create table s (at datetime(6), s varchar(10)) engine = innodb");
    for sql in [
        &b"insert into s values (null, '\xff')"[..],
        b"insert into s values (now(), '\xff')",
        b"insert into s values (now(), _binary'\xff')",
        b"insert into s select now(), x'ff'",
    ] {
        client.writer.command_query(sql);
        client.send();
        match client.outcomes(freshet_wire::client::Encoding::Text).remove(0) {
            Outcome::Err { errno, .. } => assert_eq!(errno, 1366),
            other => panic!("{other:?}"),
        }
    }
}
