//! Transactions, variables, users, KILL, SHOW, and bad packets.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{Client, TestServer};
use freshet_base::ByteSize;
use freshet_server::Settings;
use freshet_wire::client::{Login, Outcome};
use freshet_wire::{Capabilities, ColumnType, Param, StatusFlags};

fn status(outcome: Outcome) -> StatusFlags {
    match outcome {
        Outcome::Ok { status, .. } => status,
        Outcome::Rows(rows) => rows.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_database_may_have_the_catalog_of_doris_before_it() {
    let server = TestServer::start();
    let mut first = server.database("d");
    // As in jdbc:mysql://host/internal.d.
    let mut client = Client::connect(server.address, "root", "", Some("Internal.d")).unwrap();
    assert_eq!(client.one("select database()"), "d");
    first.run("use internal.information_schema");
    assert_eq!(first.one("select database()"), "information_schema");
    assert!(Client::connect(server.address, "root", "", Some("internal.none")).is_err());
    assert!(Client::connect(server.address, "root", "", Some("other.d")).is_err());
}

#[test]
fn a_transaction_is_seen_by_others_when_it_commits() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let mut other = server.database("d");
    client.run("create table t (a int)");
    client.run("create table u (a int)");
    assert!(status(client.query("begin")).contains(StatusFlags::IN_TRANSACTION));
    let (_, info) = client.run("insert into t values (1), (2)");
    assert!(info.contains("txn_insert_") && info.contains("PREPARE"), "{info}");
    client.run("insert into u select a + 10 from t");
    assert_eq!(client.one("select count(*) from t"), "2", "own rows are readable");
    assert_eq!(client.one("select max(a) from u"), "12");
    assert_eq!(other.one("select count(*) from t"), "0");
    let (_, info) = client.run("commit");
    assert!(info.contains("'status':'VISIBLE'"), "{info}");
    assert_eq!(other.one("select count(*) from t"), "2");
    assert_eq!(other.one("select count(*) from u"), "2");
    let flags = status(client.query("select 1"));
    assert!(
        flags.contains(StatusFlags::AUTOCOMMIT) && !flags.contains(StatusFlags::IN_TRANSACTION)
    );
}

#[test]
fn what_is_not_committed_is_gone() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int)");
    client.run("set autocommit = 0");
    let flags = status(client.query("insert into t values (1)"));
    assert!(
        flags.contains(StatusFlags::IN_TRANSACTION) && !flags.contains(StatusFlags::AUTOCOMMIT)
    );
    client.run("rollback");
    assert_eq!(client.one("select count(*) from t"), "0");
    client.run("insert into t values (2)");
    client.run("set autocommit = 1");
    assert_eq!(client.one("select count(*) from t"), "1", "switching it on commits");
    client.run("start transaction");
    client.run("insert into t values (3)");
    drop(client);
    let mut client = server.database("d");
    assert_eq!(client.one("select count(*) from t"), "1", "a dropped connection rolls back");
    client.run("begin");
    client.run("insert into t values (4)");
    client.run("create table u (a int)");
    client.run("rollback");
    assert_eq!(client.one("select count(*) from t"), "2", "DDL commits first");
    client.run("start transaction read only");
    assert_eq!(client.fails("insert into t values (5)").errno, 1792);
}

#[test]
fn repeatable_read_keeps_one_snapshot() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let mut other = server.database("d");
    client.run("create table t (a int)");
    client.run("set session transaction isolation level repeatable read");
    client.run("begin");
    assert_eq!(client.one("select count(*) from t"), "0");
    other.run("insert into t values (1)");
    assert_eq!(client.one("select count(*) from t"), "0");
    client.run("commit");
    assert_eq!(client.one("select count(*) from t"), "1");
}

#[test]
fn a_labelled_transaction_takes_inserts_only() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int)");
    let (_, info) = client.run("begin with label l1");
    assert_eq!(info, "{'label':'l1', 'status':'PREPARE', 'txnId':''}");
    client.run("insert into t values (1)");
    assert!(client.fails("create table u (a int)").message.contains("This is in a transaction"));
    let (_, info) = client.run("commit");
    assert!(info.contains("'label':'l1', 'status':'VISIBLE'"), "{info}");
    assert!(client.fails("begin with label l1").message.contains("has already been used"));
}

#[test]
fn variables_have_scopes_and_bounds() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.one("select @@version"), "8.0.36");
    assert_eq!(client.one("select version()"), "8.0.36");
    client.run("set session group_commit=async_mode, session enable_nereids_planner=false");
    assert_eq!(client.one("select @@group_commit"), "async_mode");
    assert_eq!(client.one("select @@global.group_commit"), "off_mode");
    client.run("set global group_commit = 'sync_mode'");
    assert_eq!(server.connect().one("select @@session.group_commit"), "sync_mode");
    assert_eq!(client.fails("set group_commit = 'x'").errno, 1231);
    assert_eq!(client.fails("set nope = 1").errno, 1193);
    assert_eq!(client.fails("select @@nope").errno, 1193);
    client.run("set names utf8mb4 collate utf8mb4_unicode_ci");
    client.run("set sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')");
    assert!(client.one("select @@sql_mode").contains("ANSI_QUOTES"));
    client.run("set @x := 5, @y = 'z'");
    assert_eq!(client.texts("select @x + 1, @y, @never"), [["6", "z", "NULL"]]);
    let rows = client.texts("show variables like 'group_commit'");
    assert_eq!(rows, [["group_commit", "async_mode"]]);
    let rows = client.texts("show variables where variable_name = 'autocommit'");
    assert_eq!(rows, [["autocommit", "ON"]]);
}

#[test]
fn show_tells_what_there_is() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int not null, name varchar(5) default 'x', primary key (id))");
    assert!(client.texts("show databases").contains(&vec!["d".to_owned()]));
    assert_eq!(client.texts("show tables"), [["t"]]);
    assert_eq!(client.texts("show full tables"), [["t", "BASE TABLE"]]);
    assert_eq!(client.texts("show tables like 'z%'").len(), 0);
    let rows = client.texts("describe t");
    assert_eq!(rows[0], ["id", "int", "NO", "PRI", "NULL", ""]);
    assert_eq!(rows[1], ["name", "varchar(5)", "YES", "", "x", ""]);
    assert_eq!(client.texts("show full columns from t like 'n%'")[0][0], "name");
    let create = client.texts("show create table t");
    assert!(create[0][1].contains("PRIMARY KEY (`id`)"), "{create:?}");
    assert_eq!(client.texts("show keys from t")[0][2], "PRIMARY");
    assert_eq!(client.fails("describe nope").errno, 1146);
    assert_eq!(client.fails("show tables from nope").errno, 1049);
    assert_eq!(client.fails("selec 1").errno, 1064);
    let warnings = client.texts("show warnings");
    assert_eq!(warnings[0][..2], ["Error", "1064"]);
    client.run("insert into t values (1, 'a')");
    let last = client.texts("show last insert");
    assert_eq!(last[0][2..], ["d", "t", "VISIBLE", "1", "0"]);
    assert_eq!(client.texts("show processlist")[0][1], "root");
    for what in ["engines", "charset", "collation", "plugins", "grants", "status", "triggers"] {
        client.texts(&format!("show {what}"));
    }
}

#[test]
fn users_come_in_by_password_and_do_what_they_may() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("create user app identified by 'secret'");
    root.run("create user old identified with mysql_native_password by 'secret'");
    root.run("create user young identified with caching_sha2_password by 'secret'");
    root.run("grant select on d.* to app, old, young");
    for user in ["app", "old", "young"] {
        let mut client = Client::connect(server.address, user, "secret", Some("d")).unwrap();
        assert_eq!(client.one("select count(*) from t"), "0");
        assert_eq!(client.fails("insert into t values (1)").errno, 1142);
        assert_eq!(client.fails("create user x").errno, 1227);
        let refused = Client::connect(server.address, user, "wrong", None).err().unwrap();
        assert_eq!((refused.errno, &*refused.sqlstate), (1045, "28000"));
        assert!(refused.message.contains("(using password: YES)"), "{}", refused.message);
    }
    assert_eq!(Client::connect(server.address, "nobody", "", None).err().unwrap().errno, 1045);
    root.run("grant insert on d.t to app");
    let mut app = Client::connect(server.address, "app", "secret", Some("d")).unwrap();
    app.run("insert into t values (1)");
    app.run("insert into t values (2)");
    root.run("revoke insert on d.t from app");
    assert_eq!(
        app.fails("insert into t values (3)").errno,
        1142,
        "cached plans are looked at anew"
    );
    root.run("set password for app = 'other'");
    assert!(Client::connect(server.address, "app", "secret", None).is_err());
    root.run("drop user app, old, young");
    assert!(Client::connect(server.address, "app", "other", None).is_err());
}

#[test]
fn kill_ends_statements_and_connections() {
    let server = TestServer::start();
    let mut victim = server.connect();
    let mut other = server.connect();
    let id = victim.one("select connection_id()");
    let killer = std::thread::spawn(move || {
        let asleep = format!(
            "select count(*) from information_schema.processlist \
             where id = {id} and info like 'select sleep%'"
        );
        while other.one(&asleep) == "0" {
            std::thread::sleep(Duration::from_millis(5));
        }
        other.run(&format!("kill query {id}"));
        (other, id)
    });
    assert_eq!(victim.fails("select sleep(300)").errno, 1317);
    let (mut other, id) = killer.join().unwrap();
    assert_eq!(victim.one("select 1"), "1", "the connection stays");
    victim.run("set max_execution_time = 50");
    let late = victim.fails("select sleep(20)");
    assert_eq!(late.errno, 3024);
    assert!(late.message.contains("(max_execution_time is 50 ms)"), "{}", late.message);
    other.run(&format!("kill {id}"));
    let mut rest = Vec::new();
    let _ = victim.socket.read_to_end(&mut rest);
    assert!(String::from_utf8_lossy(&rest).contains("Connection was killed"));
    assert_eq!(other.fails("kill 4000000").errno, 1094);
}

#[test]
fn counts_in_answers_of_show_are_numbers() {
    let server = TestServer::start();
    let mut client = server.connect();
    let id = client.one("select connection_id()");
    let rows = client.rows("show processlist where Id > 0 and Time < 1000000");
    let numbers = rows.types.iter().map(|(ty, _)| *ty == ColumnType::LongLong);
    let numbers = numbers.collect::<Vec<_>>();
    assert_eq!(numbers, [true, false, false, false, false, true, false, false]);
    assert_eq!(crate::common::text(&rows.rows[0][0]), id);
    let rows = client.rows("select id, time from information_schema.processlist");
    assert!(rows.types.iter().all(|(ty, _)| *ty == ColumnType::LongLong));
    client.query("select 1 / 0");
    let rows = client.rows("show count(*) warnings");
    assert_eq!((rows.types[0].0, rows.rows.len()), (ColumnType::LongLong, 1));
}

#[test]
fn a_killed_statement_hears_it_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    let id = client.one("select connection_id()");
    client.writer.command_query(b"select sleep(60)");
    client.send();
    let mut other = server.connect();
    while other.texts("show processlist").iter().all(|row| row[7] != "select sleep(60)") {
        std::thread::yield_now();
    }
    other.run(&format!("kill {id}"));
    assert_eq!(refusal(&mut client, 1), 1317);
    let mut rest = Vec::new();
    assert_eq!(client.socket.read_to_end(&mut rest).unwrap(), 0, "nothing else was asked");
}

#[test]
fn who_may_nothing_with_a_table_does_not_see_it() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table seen (a int)");
    root.run("create table hidden (a int)");
    root.run("create user app identified by 'secret'");
    root.run("grant insert on d.seen to app");
    let mut app = Client::connect(server.address, "app", "secret", Some("d")).unwrap();
    assert_eq!(app.texts("show tables"), [["seen"]]);
    for table in ["tables", "columns", "partitions"] {
        let sql = format!(
            "select distinct TABLE_NAME from information_schema.{table} where TABLE_SCHEMA = 'd'"
        );
        assert_eq!(app.texts(&sql), [["seen"]], "{table}");
    }
    assert_eq!(root.texts("show tables"), [["hidden"], ["seen"]]);
}

#[test]
fn connections_have_a_limit() {
    let address_connections_max = Some(9);
    let settings = Settings { connections_max: 2, address_connections_max, ..Settings::local() };
    let server = TestServer::with(settings);
    let mut first = server.connect();
    first.run("create user app");
    let second = Client::connect(server.address, "app", "", None).unwrap();
    let refused = Client::connect(server.address, "app", "", None).err().unwrap();
    assert_eq!(refused.errno, 1040);
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Client::connect(server.address, "app", "", None).is_err() {
        assert!(Instant::now() < deadline, "a slot is free again");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn packets_have_a_limit_and_large_ones_arrive() {
    let server = TestServer::with(Settings { packet_bytes_max: 20 << 20, ..Settings::local() });
    let mut client = server.database("d");
    client.run("create table t (a int, b text)");
    let text = "x".repeat(9 << 20);
    client.run(&format!("insert into t values (1, '{text}'), (2, '{text}')"));
    assert_eq!(
        client.texts("select a, length(b) from t order by a"),
        [["1", "9437184"], ["2", "9437184"]]
    );
    let rows = client.rows("select b from t where a = 2");
    assert_eq!(rows.rows.len(), 1);
    // A query has three bytes before its text: the command and two attribute counts.
    client.writer.command_query(&vec![b' '; (20 << 20) - 3]);
    client.send();
    assert_eq!(refusal(&mut client, 2), 1065, "as long as it may be, and nothing in it");
    client.writer.command_query(&vec![b' '; (20 << 20) - 2]);
    client.send();
    assert_eq!(refusal(&mut client, 2), 1153, "one byte more; the answer comes behind all of it");
    let mut rest = Vec::new();
    assert_eq!(client.socket.read_to_end(&mut rest).unwrap(), 0, "and ends the conversation");
    let mut client = server.connect();
    client.run("set global max_allowed_packet = 1024");
    assert_eq!(client.fails("set max_allowed_packet = 2048").errno, 1621);
    assert_eq!(client.one(&format!("select length('{}')", "x".repeat(2000))), "2000");
    let mut later = server.connect();
    later.writer.command_query(&[b' '; 1024]);
    later.send();
    assert_eq!(refusal(&mut later, 1), 1153, "sessions that begin afterwards have the new limit");
    assert_eq!(server.connect().one("select @@max_allowed_packet"), "1024");
}

/// The number of the error with this sequence id.
fn refusal(client: &mut Client, sequence: u8) -> u16 {
    let (payload, _) = client.packet(sequence).expect("the server answers");
    assert_eq!(payload[0], 0xff, "{payload:?}");
    u16::from_le_bytes([payload[1], payload[2]])
}

#[test]
fn a_packet_that_memory_has_no_room_for_is_refused_and_the_next_one_is_not() {
    let server = TestServer::sized(|config| {
        config.write_memory_bytes = ByteSize::mib(32);
        config.load_patience = Duration::from_millis(10);
    });
    let mut client = server.database("d");
    client.run("create table t (b text)");
    client.writer.command_query(&vec![b' '; 40 << 20]);
    client.send();
    assert_eq!(refusal(&mut client, 3), 1041, "behind the last of three frames");
    client.run("insert into t values ('x')");
    assert_eq!(client.one("select count(*) from t"), "1");
}

#[test]
fn a_slow_hash_is_proved_once_a_start_and_then_quickly() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user app identified with caching_sha2_password by 'secret'");
    let log_in = |server: &TestServer, password: &str, encryption| {
        let mut login = Login::new("app", password, None);
        login.encryption = encryption;
        Client::log_in(server.address, login).map(drop).map_err(|failure| failure.errno)
    };
    let quick = |server: &TestServer, password: &str| {
        // Without encryption the client can do no full exchange.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| log_in(server, password, None)))
            .is_ok_and(|logged_in| logged_in.is_ok())
    };
    let full = Some(crate::common::encrypt as freshet_wire::client::PasswordEncryption);
    assert!(!quick(&server, "secret"), "nothing is known of a password that was not shown");
    assert_eq!(log_in(&server, "wrong", full), Err(1045));
    assert_eq!(log_in(&server, "secret", full), Ok(()));
    assert!(quick(&server, "secret"));
    assert!(!quick(&server, "wrong"));
    root.run("alter user app identified with caching_sha2_password by 'other'");
    assert!(!quick(&server, "secret") && !quick(&server, "other"), "a change counts at once");
    assert_eq!(log_in(&server, "secret", full), Err(1045));
    assert_eq!(log_in(&server, "other", full), Ok(()));
    root.run("alter user app password expire never");
    assert_eq!(log_in(&server, "", full), Err(1045), "options leave the password alone");
    drop(root);
    let server = server.restart();
    assert!(!quick(&server, "other"), "what is cached ends with the server");
    assert_eq!(log_in(&server, "other", full), Ok(()));
    assert!(quick(&server, "other"));
}

#[test]
fn what_is_said_of_the_next_transaction_holds_for_that_one_alone() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int)");
    client.run("set transaction read only");
    assert_eq!(client.fails("insert into t values (1)").errno, 1792);
    client.run("insert into t values (2)");
    client.run("set transaction isolation level repeatable read, read only");
    client.run("begin");
    assert_eq!(client.one("select count(*) from t"), "1");
    server.database("d").run("insert into t values (3)");
    assert_eq!(client.one("select count(*) from t"), "1", "one snapshot");
    assert_eq!(client.fails("insert into t values (4)").errno, 1792);
    assert_eq!(client.fails("set transaction read write").errno, 1568);
    client.run("commit");
    client.run("begin");
    assert_eq!(client.one("select count(*) from t"), "2");
    server.database("d").run("insert into t values (5)");
    assert_eq!(client.one("select count(*) from t"), "3", "as the session says again");
    client.run("insert into t values (6)");
    client.run("commit");
    client.run("set session transaction read only");
    assert_eq!(client.fails("insert into t values (7)").errno, 1792);
    assert_eq!(client.fails("insert into t select * from t").errno, 1792);
    client.run("begin");
    assert_eq!(client.fails("insert into t values (8)").errno, 1792);
    client.run("commit");
    client.run("set session transaction read write");
    client.run("insert into t values (9)");
    assert_eq!(client.one("select count(*) from t"), "5");
}

#[test]
fn malformed_packets_end_their_connection_only() {
    let server = TestServer::start();
    for bytes in [&b"\x05\x00\x00\x07hello"[..], b"\x00\x00\x00\x00", b"\x03\x00\x00\x00\x17ab"] {
        let mut client = server.connect();
        client.socket.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ = client.socket.read_to_end(&mut rest);
        assert_eq!(rest.get(4), Some(&0xff), "{bytes:?} is answered by an error: {rest:?}");
    }
    let mut unknown = server.connect();
    unknown.socket.write_all(b"\x01\x00\x00\x00\x7b").unwrap();
    let (payload, _) = unknown.packet(1).unwrap();
    assert_eq!(u16::from_le_bytes([payload[1], payload[2]]), 1047);
    assert_eq!(unknown.one("select 1"), "1", "an unknown command leaves the connection usable");
}

#[test]
fn older_clients_get_their_form_of_results() {
    let server = TestServer::start();
    let old = Capabilities::SERVER
        .without(Capabilities::DEPRECATE_EOF)
        .without(Capabilities::SESSION_TRACK)
        .without(Capabilities::QUERY_ATTRIBUTES);
    let mut client = Client::with(server.address, "root", "", None, old).unwrap();
    assert_eq!(client.one("select 1"), "1");
    client.run("create database d");
    client.run("use d");
    client.run("create table t (a int)");
    let insert = client.prepare("insert into t values (?)").unwrap();
    client.execute(insert.statement_id, &[freshet_wire::Param::Int(1)]);
    assert_eq!(client.one("select a from t"), "1");
}

#[test]
fn a_connection_can_be_used_by_another_user() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create user app identified by 'secret'");
    client.run("set @x = 1");
    client.writer.command_reset_connection();
    client.send();
    client.packet(1).unwrap();
    assert_eq!(client.one("select @x"), "NULL");
    assert_eq!(client.one("select database()"), "d");
    client.writer.command_ping();
    client.send();
    assert_eq!(client.packet(1).unwrap().0[0], 0);
}

#[test]
fn results_stream_in_both_encodings() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int, b varchar(200))");
    let values = (0..1000).map(|n| format!("({n},'{}')", "y".repeat(190))).collect::<Vec<_>>();
    client.run(&format!("insert into t values {}", values.join(",")));
    for _ in 0..4 {
        client.run("insert into t select * from t");
    }
    assert_eq!(client.rows("select * from t").rows.len(), 16_000);
    let select = client.prepare("select * from t where a < ?").unwrap();
    let Outcome::Rows(rows) = client.execute(select.statement_id, &[freshet_wire::Param::Int(500)])
    else {
        panic!("rows expected")
    };
    assert_eq!(rows.rows.len(), 8_000);
}

#[test]
fn locks_by_name_belong_to_one_session_at_a_time() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.one("select get_lock('Migrate', 0)"), "1");
    assert_eq!(first.one("select coalesce(get_lock('migrate', -1), 0) as again"), "1");
    let id = first.one("select connection_id()");
    assert_eq!(
        second
            .texts("select get_lock('migrate', 0.01), is_free_lock('m'), is_used_lock('MIGRATE')"),
        [["0".to_owned(), "1".to_owned(), id]]
    );
    assert_eq!(second.texts("select release_lock('migrate'), release_lock('m')"), [["0", "NULL"]]);
    let waits = std::thread::spawn(move || {
        let prepared = second.prepare("select get_lock(?, ?)").unwrap();
        let outcome =
            second.execute(prepared.statement_id, &[Param::Bytes(b"migrate"), Param::Int(60)]);
        let Outcome::Rows(rows) = outcome else { panic!("{outcome:?}") };
        assert_eq!(crate::common::text(&rows.rows[0][0]), "1", "taken twice and released twice");
        second
    });
    assert_eq!(first.one("select release_lock('migrate')"), "1");
    assert_eq!(first.one("select is_free_lock('migrate')"), "0");
    first.run("do release_lock('migrate')");
    let second = waits.join().unwrap();
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(60);
    while first.one("select is_free_lock('migrate')") == "0" {
        assert!(Instant::now() < deadline, "a session that ends releases its locks");
    }
    assert_eq!(first.fails("select get_lock('', 1)").errno, 3057);
    assert_eq!(first.fails("select get_lock('x')").errno, 1582);
    assert_eq!(first.texts("select get_lock('a', 1), get_lock('b', 1)"), [["1", "1"]]);
    assert_eq!(first.texts("select release_all_locks(), 'x' as y"), [["2", "x"]]);
}

#[test]
fn passwords_move_to_other_servers_as_hashes() {
    let server = TestServer::start();
    let mut root = server.connect();
    let may = |password: &str| Client::connect(server.address, "app", password, None).is_ok();
    for how in ["with mysql_native_password by 'secret'", "by 'secret'", "by ''"] {
        root.run(&format!("create user app identified {how}"));
        let shown = root.one("show create user app");
        root.run("drop user app");
        root.run(&shown);
        assert_eq!(may("secret"), !how.ends_with("''"), "{shown}");
        assert!(!may("other"), "{shown}");
        assert_eq!(root.one("show create user app"), shown);
        root.run("drop user app");
    }
    // SHA1(SHA1('password')), in MySQL's three syntaxes for it.
    let hash = "'*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'";
    for how in ["by password", "as", "with mysql_native_password as"] {
        root.run(&format!("create user app identified {how} {hash}"));
        assert!(may("password") && !may("secret"), "{how}");
        root.run("drop user app");
    }
    for wrong in ["with caching_sha2_password as '*12'", "as 'x'", "as 0x00"] {
        let failure = root.fails(&format!("create user app identified {wrong}"));
        assert_eq!(failure.errno, 1827, "{wrong}");
    }
}

#[test]
fn a_connection_that_is_reset_is_like_a_new_one() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run("set @x = 1, wait_timeout = 7");
    assert_eq!(client.one("select get_lock('l', 0)"), "1");
    client.run("set global max_allowed_packet = 1024");
    client.writer.command_reset_connection();
    client.send();
    client.outcomes(freshet_wire::client::Encoding::Text);
    assert_eq!(
        client.texts("select @x, @@wait_timeout, is_free_lock('l')"),
        [["NULL", "28800", "1"]]
    );
    client.writer.command_query(&[b' '; 1024]);
    client.send();
    assert_eq!(refusal(&mut client, 1), 1153, "the limit is that of new sessions");
}

#[test]
fn statements_and_queries_are_measured() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int)");
    let prepared = client.prepare("insert into t values (?)").unwrap();
    client.execute(prepared.statement_id, &[Param::Int(1)]);
    client.run("insert into t values (2)");
    let prepared = client.prepare("select count(*) from t where a > ?").unwrap();
    client.execute(prepared.statement_id, &[Param::Int(0)]);
    assert_eq!(client.one("select count(*) from t"), "2");
    let metrics = server.engine.metrics();
    let statements = |kind: &str| metrics.statements.with_label_values(&[kind]).get();
    assert_eq!((statements("insert"), statements("query")), (2, 2));
    assert_eq!(metrics.query_seconds.get_sample_count(), 2);
}
