//! Point reads give what the ordinary road gives, byte for byte, whatever happens beside them.

use freshet_wire::Param;
use freshet_wire::client::Encoding;

use super::common::{Client, TestServer};

/// How many point reads the server has answered.
fn count(server: &TestServer) -> u64 {
    server.engine.metrics().point_reads.get()
}

/// The packets of the answer to what was written.
pub fn packets(client: &mut Client, encoding: Encoding) -> Vec<Vec<u8>> {
    use freshet_wire::client::Outcomes;
    client.send();
    let mut outcomes = Outcomes::new(encoding, client.writer.capabilities());
    let (mut expected, mut packets) = (client.writer.sequence(), Vec::new());
    loop {
        let (payload, sequence) = client.packet(expected).unwrap();
        expected = sequence.wrapping_add(1);
        let ends = outcomes.on_packet(&payload).unwrap();
        packets.push(payload);
        if ends {
            return packets;
        }
    }
}

pub fn text(client: &mut Client, sql: &str) -> Vec<Vec<u8>> {
    client.writer.command_query(sql.as_bytes());
    packets(client, Encoding::Text)
}

fn executed(client: &mut Client, id: u32, params: &[Param<'_>]) -> Vec<Vec<u8>> {
    client.writer.command_execute(id, params, true);
    packets(client, Encoding::Binary)
}

/// The text as the ordinary road answers it: a comment is not for point reads.
fn ordinary(sql: &str) -> String {
    let at = "select".len();
    format!("{} /* */{}", &sql[..at], &sql[at..])
}

/// Checks that a text is answered alike on both roads, and by its key if it should be.
#[track_caller]
fn alike(server: &TestServer, client: &mut Client, sql: &str, by_key: bool) {
    let expected = text(client, &ordinary(sql));
    // The first one may be the one that is learned from.
    assert_eq!(text(client, sql), expected, "{sql}");
    let before = count(server);
    assert_eq!(text(client, sql), expected, "{sql}");
    assert_eq!(count(server) - before, u64::from(by_key), "{sql}");
}

const TYPES: &str = "create table t (id int not null, b bigint unsigned, v varchar(20), c char(9), \
    d decimal(12,3), f float, g double, dt datetime(3), ts timestamp null, da date, \
    bi varbinary(9), tx text, js json, ti tinyint, mi mediumint, bo boolean, \
    x int default 7, primary key (id))";

fn fill(client: &mut Client) {
    client.run(
        "insert into t values (1, 18446744073709551615, 'a\\'b', 'c  ', -1.5, 1.25, 1e300, \
         '2024-02-29 12:34:56.789', '2024-01-01 00:00:00', '1999-12-31', x'00ff', 'text', \
         '{\"a\": [1, null]}', -128, -8388608, true, 1)",
    );
    client.run("insert into t (id) values (2), (-3)");
    client.run("insert into t (id, v) values (4, repeat('x', 20)), (5, '')");
}

#[test]
fn both_roads_send_the_same_packets() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(TYPES);
    fill(&mut client);
    for is_flushed in [false, true] {
        if is_flushed {
            client.run("flush tables");
            client.run("update t set v = 'new' where id = 2");
            client.run("delete from t where id = -3");
        }
        for zone in ["+00:00", "+05:30"] {
            client.run(&format!("set time_zone = '{zone}'"));
            for id in ["1", "2", "-3", "4", "99", "'1'"] {
                alike(&server, &mut client, &format!("select * from t where id = {id}"), true);
                let sql = format!("select V, t.ts as Q, x, v from d.t where t.ID={id};");
                alike(&server, &mut client, &sql, true);
            }
            alike(&server, &mut client, "select id, `v` from t u where u.id in (4, 1)", true);
        }
        for sql in [
            "select id from t where id = 2147483648",
            "select id from t where id = 1.0",
            "select id from t where id = null",
            "select id from t where id = 'x'",
            "select id + 1 from t where id = 1",
            "select id from t where id = 1 and v = 'a'",
            "select id from t where v = 'a'",
            "select id from t where id = 1 limit 0",
            "select nothing from t where id = 1",
            "select id from nothing where id = 1",
        ] {
            alike(&server, &mut client, sql, false);
        }
    }
}

/// Rows 0 to 59 below 40, some of whose texts are equal by their collation.
fn fill_range(client: &mut Client) {
    client.run(
        "create table t (id int primary key, n int, u bigint unsigned, c char(30), \
         b varchar(300) collate utf8mb4_bin, l text, d decimal(9,2))",
    );
    let texts = [
        "'b'",
        "'B'",
        "'a '",
        "'\u{e4}'",
        "'A'",
        "null",
        "'zz'",
        "''",
        "'Stra\u{df}e'",
        "'strasse'",
    ];
    for id in -20..40 {
        let text = texts[(id + 20) as usize % texts.len()];
        let n = if id % 7 == 0 { "null".to_owned() } else { (id * 37 % 11).to_string() };
        client.run(&format!(
            "insert into t values ({id}, {n}, 18446744073709551615 - {} % 3, {text}, {text}, \
             {text}, {n})",
            id + 20
        ));
    }
    client.run("delete from t where id in (3, 5)");
}

/// What is selected, what stands behind the condition, and whether it goes by key.
const OF_RANGES: [(&str, &str, bool); 18] = [
    ("select c, id", "order by c, id", true),
    ("select c, id, b", "order by b desc, c, id desc", true),
    ("select c x, id", "order by x, ID", true),
    ("select id c, c as id", "order by c", true),
    ("select n, id", "order by n asc, id", true),
    ("select n, d, id", "order by u, id", true),
    ("select distinct n", "order by n", true),
    ("select distinct n, u", "order by u, n desc", true),
    ("select distinct b", "order by b", true),
    ("select sum(n)", "", true),
    ("select SUM(u) as total", "", true),
    ("select count(*)", "", true),
    ("select id, l", "order by l, id", false),
    ("select id, d", "order by d, id", false),
    ("select sum(d)", "", false),
    ("select sum(c)", "", false),
    ("select distinct d", "order by d", false),
    ("select max(n)", "", false),
];

#[test]
fn short_ranges_orders_and_sums_are_answered_alike() {
    let server = TestServer::start();
    let mut client = server.database("d");
    fill_range(&mut client);
    for is_flushed in [false, true] {
        if is_flushed {
            client.run("flush tables");
            client.run("update t set c = 'a' where id = 7");
        }
        for between in ["1 and 20", "-9 and 30", "7 and 7", "9 and 1", "100 and 120", "'4' and 6"] {
            for (select, behind, by_key) in OF_RANGES {
                let sql = format!("{select} from t where id between {between} {behind}");
                alike(&server, &mut client, sql.trim_ascii(), by_key);
            }
        }
    }
    let sql = "select count(*) from t where id between -20 and 235";
    alike(&server, &mut client, sql, true);
    alike(&server, &mut client, "select count(*) from t where id between -20 and 236", false);
    client.run("update t set b = repeat('x', 241) where id = 1");
    alike(&server, &mut client, "select id from t where id between 1 and 2 order by b", false);
    client.run("create table two (a int, b tinyint unsigned, c int, primary key (a, b))");
    client.run("insert into two values (1, 1, 5), (1, 2, 6), (1, 255, 7), (2, 1, 8)");
    let sql = "select b, c from two where a = 1 and b between 1 and 2 order by c desc";
    alike(&server, &mut client, sql, true);
    let sql = "select sum(c) from two where a in (1, 2) and b between 0 and 300";
    alike(&server, &mut client, sql, false);
    let id = client.prepare("select sum(n) from t where id between ? and ?").unwrap().statement_id;
    let before = count(&server);
    let bounds = [Param::Int(1), Param::Int(10)];
    let sum = executed(&mut client, id, &bounds);
    assert_eq!(executed(&mut client, id, &bounds), sum);
    assert!(count(&server) > before);
}

#[test]
fn prepared_statements_read_by_key_too() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(TYPES);
    fill(&mut client);
    let fast = client.prepare("select * from t where id = ?").unwrap().statement_id;
    let slow = client.prepare(&ordinary("select * from t where id = ?")).unwrap().statement_id;
    let keys = [
        (Param::Int(1), true),
        (Param::Int(99), true),
        (Param::UInt(4), true),
        (Param::Double(2.0), true),
        (Param::Bytes(b"5"), true),
        (Param::Decimal(b"5"), true),
        (Param::Decimal(b"4.00"), true),
        (Param::Decimal(b"1.5"), false),
        (Param::Decimal(b"99999999999999999999"), false),
        (Param::Double(1.5), false),
        (Param::Bytes(b"1x"), false),
        (Param::Bytes(b" 1"), false),
        (Param::Int(1 << 40), false),
        (Param::Null, false),
    ];
    for (key, by_key) in keys {
        let expected = executed(&mut client, slow, &[key]);
        let before = count(&server);
        assert_eq!(executed(&mut client, fast, &[key]), expected, "{key:?}");
        assert_eq!(count(&server) - before, u64::from(by_key), "{key:?}");
    }
}

/// Integers of all widths and texts, whose rows are sent without being columns first.
const PLAIN: &str = "create table p (id int primary key, ti tinyint, tu tinyint unsigned, \
    si smallint, su smallint unsigned, mi mediumint, mu mediumint unsigned, i int, \
    iu int unsigned, b bigint, bu bigint unsigned, c char(5), v varchar(300), t text)";

#[test]
fn integers_and_texts_are_sent_as_they_are_stored() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(PLAIN);
    client.run(
        "insert into p values (1, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, \
         4294967295, -9223372036854775808, 18446744073709551615, '\u{e4}b ', repeat('x', 251), \
         ''), (2, 127, 0, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, '', \
         repeat('y', 250), repeat('z', 60000)), \
         (3, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, null, '', 'a')",
    );
    client.run("insert into p (id) values (4)");
    client.run("set time_zone = '+05:30'");
    let fast = client.prepare("select * from p where id = ?").unwrap().statement_id;
    let slow = client.prepare("select /* */ * from p where id = ?").unwrap().statement_id;
    for is_flushed in [false, true] {
        if is_flushed {
            client.run("flush tables");
        }
        for id in 1..=5 {
            alike(&server, &mut client, &format!("select * from p where id = {id}"), true);
            let sql = format!("select v, bu, v, mi from p where id in ({id}, 3)");
            alike(&server, &mut client, &sql, true);
            let expected = executed(&mut client, slow, &[Param::Int(id)]);
            executed(&mut client, fast, &[Param::Int(id)]);
            let before = count(&server);
            assert_eq!(executed(&mut client, fast, &[Param::Int(id)]), expected, "{id}");
            assert_eq!(count(&server) - before, 1, "{id}");
        }
    }
}

#[test]
fn composite_and_text_keys_are_read() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(
        "create table t (a varchar(10) collate utf8mb4_bin, n int, b bigint, primary key (b, a))",
    );
    client.run("insert into t values ('x', 1, 7), ('y', 2, 7), ('', 3, 8), ('X', 4, 7)");
    for is_flushed in [false, true] {
        if is_flushed {
            client.run("flush tables");
        }
        alike(&server, &mut client, "select n from t where a = 'x' and b = 7", true);
        alike(&server, &mut client, "select n from t where b = 8 and a = ''", true);
        alike(&server, &mut client, "select n from t where b in (7, 8) and a = 'X'", true);
        alike(
            &server,
            &mut client,
            "select n from t where b in (9, 8, 8) and a in ('', 'q')",
            true,
        );
        alike(&server, &mut client, "select n from t where b = 7", false);
        alike(&server, &mut client, "select n from t where b = 8 and a = 0", false);
    }
    // Several rows may come in another order than on the ordinary road: that of the key.
    let rows = client.texts("select n from t where b = 7 and a in ('y', 'X', 'x')");
    assert_eq!(rows, [["4"], ["1"], ["2"]]);
}

#[test]
fn text_keys_are_read_by_the_collation_that_new_tables_have() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a varchar(10) primary key, n int)");
    client.run("insert into t values ('x', 1), ('Stra\u{df}e', 2)");
    for is_flushed in [false, true] {
        if is_flushed {
            client.run("flush tables");
        }
        alike(&server, &mut client, "select n from t where a = 'X'", true);
        alike(&server, &mut client, "select n from t where a in ('STRASSE', 'y')", true);
    }
    assert_eq!(client.texts("select a, n from t where a = 'strasse'"), [["Stra\u{df}e", "2"]]);
}

#[test]
fn tables_without_such_a_key_go_the_ordinary_road() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table u (id int, v int) unique key (id)");
    client.run("create table n (id int, v int)");
    client.run("create table t (id int primary key, v int)");
    client.run("create view w as select * from t");
    for table in ["u", "n", "t"] {
        client.run(&format!("insert into {table} values (1, 2)"));
    }
    for table in ["u", "n", "w"] {
        alike(&server, &mut client, &format!("select v from {table} where id = 1"), false);
    }
}

/// Rows of a UNIQUE KEY are written without being looked up; what they replace is found by whoever
/// reads them.
#[test]
fn a_unique_key_that_stores_its_rows_is_read_by_key() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(
        "create table u (id int, v varchar(20), n int) unique key (id) distributed by hash(id) \
         buckets 2 properties ('store_row_column' = 'true')",
    );
    client.run("insert into u values (1, 'a', 1), (2, 'b', 2), (null, 'c', 3), (1, 'd', 4)");
    let all = |client: &mut Client| {
        for id in ["1", "2", "3", "7"] {
            alike(&server, client, &format!("select v, n from u where id = {id}"), true);
        }
        // In the order of the key here, as they lie on the ordinary road.
        let sorted = |sql: &str, client: &mut Client| {
            let mut rows = client.texts(sql);
            rows.sort();
            rows
        };
        let sql = "select * from u where id in (1, 2, 3)";
        let (expected, _) = (sorted(&ordinary(sql), client), sorted(sql, client));
        let before = count(&server);
        assert_eq!(sorted(sql, client), expected);
        assert_eq!(count(&server) - before, 1);
    };
    all(&mut client);
    client.run("flush tables");
    all(&mut client);
    client.run("insert into u values (2, 'e', 5), (3, 'f', 6)");
    all(&mut client);
    assert_eq!(client.texts("select v from u where id = 2"), [["e"]]);
    client.run("delete from u where id = 1");
    client.run("update u set n = 9 where id = 3");
    all(&mut client);
    client.run("flush tables");
    all(&mut client);
    client.run("alter table u add column x int default '5'");
    alike(&server, &mut client, "select * from u where id = 2", true);
    client.run("insert into u values (7, 'g', 1, 1)");
    alike(&server, &mut client, "select * from u where id = 7", true);
    client.run("truncate table u");
    alike(&server, &mut client, "select * from u where id = 7", true);
    // What was flushed before has no rows beside its keys.
    client.run("create table late (id int, v int) unique key (id)");
    client.run("insert into late values (1, 2), (2, 3)");
    client.run("flush tables");
    client.run("alter table late set ('store_row_column' = 'true')");
    alike(&server, &mut client, "select v from late where id = 1", false);
    client.run("insert into late values (1, 4)");
    alike(&server, &mut client, "select v from late where id = 1", true);
    client.run("flush tables");
    alike(&server, &mut client, "select v from late where id = 1", true);
    // Among the rows of such a table are those that delete.
    client.run(
        "create table s (id int, v int) unique key (id) properties ('store_row_column' = 'true', \
         'function_column.sequence_col' = 'v')",
    );
    client.run("insert into s values (1, 2)");
    alike(&server, &mut client, "select v from s where id = 1", false);
}

#[test]
fn what_changes_beside_a_read_is_heeded() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let mut other = server.database("d");
    client.run("create table t (id int primary key, v int)");
    client.run("insert into t values (1, 10), (2, 20)");
    let sql = "select v from t where id = 1";
    alike(&server, &mut client, sql, true);
    let asked = "select v from t where id = ?";
    let fast = client.prepare(asked).unwrap().statement_id;
    let slow = client.prepare(&ordinary(asked)).unwrap().statement_id;
    let before = count(&server);
    let expected = executed(&mut client, slow, &[Param::Int(1)]);
    for _ in 0..3 {
        assert_eq!(executed(&mut client, fast, &[Param::Int(1)]), expected);
    }
    assert!(count(&server) >= before + 2, "how it is read is kept with the statement");
    for step in [
        "update t set v = 11 where id = 1",
        "flush tables",
        "replace into t values (1, 12)",
        "delete from t where id = 1",
        "insert into t values (1, 13)",
        "alter table t add column w int default 5 after id",
        "truncate table t",
        "insert into t values (1, 6, 14)",
        "flush tables",
        "delete from t",
        "insert into t values (1, 6, 15)",
        "drop table t",
        "create table t (v bigint, id bigint primary key)",
        "insert into t values (16, 1)",
        "rename table t to s",
        "create table t (id int, v int)",
    ] {
        other.run(step);
        let expected = text(&mut client, &ordinary(sql));
        assert_eq!(text(&mut client, sql), expected, "behind {step}");
        assert_eq!(text(&mut client, sql), expected, "behind {step}");
        let expected = executed(&mut client, slow, &[Param::Int(1)]);
        for _ in 0..2 {
            let found = executed(&mut client, fast, &[Param::Int(1)]);
            assert_eq!(found, expected, "prepared, behind {step}");
        }
    }
}

#[test]
fn a_prepared_read_heeds_what_its_own_session_changes() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, v int, ts timestamp null)");
    client.run("insert into t values (1, 10, '2024-01-01 00:00:00')");
    let asked = "select v, ts from t where id = ?";
    let fast = client.prepare(asked).unwrap().statement_id;
    let slow = client.prepare(&ordinary(asked)).unwrap().statement_id;
    let sum = client.prepare("select sum(v) from t where id in (?, 1)").unwrap().statement_id;
    for (step, by_key) in [
        ("set time_zone = '+02:00'", true),
        ("create temporary table t (id int primary key, v int, ts timestamp null)", false),
        ("insert into t values (1, 20, null)", false),
        ("drop temporary table t", true),
        ("begin", true),
        ("update t set v = 11 where id = 1", false),
        ("rollback", true),
        ("create database e", true),
        ("use e", true),
        ("set sql_select_limit = 0", false),
        ("set sql_select_limit = default", true),
    ] {
        client.run(step);
        let expected = executed(&mut client, slow, &[Param::Int(1)]);
        // The first one may be the one that is learned from.
        executed(&mut client, fast, &[Param::Int(1)]);
        let before = count(&server);
        assert_eq!(executed(&mut client, fast, &[Param::Int(1)]), expected, "behind {step}");
        assert_eq!(count(&server) - before, u64::from(by_key), "behind {step}");
    }
    // Values in the text stay among those that are sent.
    let both = executed(&mut client, sum, &[Param::Int(1)]);
    assert_eq!(executed(&mut client, sum, &[Param::Int(2)]), both);
    assert_eq!(executed(&mut client, sum, &[Param::Int(2)]), both);
}

#[test]
fn rights_are_checked_each_time() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (id int primary key, v int)");
    root.run("insert into t values (1, 10)");
    root.run("create user u@'%' identified by 'p'");
    root.run("grant select on d.t to u@'%'");
    let mut client = Client::connect(server.address, "u", "p", Some("d")).unwrap();
    let sql = "select v from t where id = 1";
    alike(&server, &mut client, sql, true);
    let id = client.prepare("select v from t where id = ?").unwrap().statement_id;
    let row = executed(&mut client, id, &[Param::Int(1)]);
    let before = count(&server);
    assert_eq!(executed(&mut client, id, &[Param::Int(1)]), row);
    assert_eq!(count(&server), before + 1);
    root.run("revoke select on d.t from u@'%'");
    assert_eq!(client.fails(sql).errno, 1142);
    let refused = executed(&mut client, id, &[Param::Int(1)]);
    let errno = [&[0xff], &1142u16.to_le_bytes()[..]].concat();
    assert!(refused[0].starts_with(&errno), "{refused:?}");
    root.run("grant select on d.t to u@'%'");
    alike(&server, &mut client, sql, true);
    assert_eq!(executed(&mut client, id, &[Param::Int(1)]), row);
    root.run("create row policy p on d.t as restrictive to u using (v > 10)");
    let rest = executed(&mut client, id, &[Param::Int(1)]);
    assert_eq!(rest.len() + 1, row.len(), "its row is hidden: {rest:?}");
}

#[test]
fn transactions_see_what_is_theirs() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let mut other = server.database("d");
    client.run("create table t (id int primary key, v int)");
    client.run("insert into t values (1, 10), (2, 20)");
    let sql = "select v from t where id = 1";
    alike(&server, &mut client, sql, true);
    client.run("begin");
    alike(&server, &mut client, sql, true);
    client.run("update t set v = 11 where id = 1");
    alike(&server, &mut client, sql, false);
    assert_eq!(client.one(sql), "11");
    assert_eq!(other.one(sql), "10");
    client.run("rollback");
    assert_eq!(client.one(sql), "10");
    client.run("set session transaction isolation level repeatable read");
    client.run("begin");
    assert_eq!(client.one(sql), "10");
    other.run("update t set v = 12 where id = 1");
    alike(&server, &mut client, sql, false);
    assert_eq!(client.one(sql), "10");
    client.run("commit");
    assert_eq!(client.one(sql), "12");
    client.run("set read_freshness = 'published'");
    alike(&server, &mut client, sql, false);
    client.run("set read_freshness = default");
    client.run("set sql_select_limit = 1");
    alike(&server, &mut client, sql, true);
    alike(&server, &mut client, "select v from t where id in (1, 2)", false);
}

#[test]
fn found_rows_and_counts_are_those_of_a_query() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, v int)");
    client.run("insert into t values (1, 10), (2, 20)");
    let sql = "select v from t where id in (1, 2, 3)";
    client.rows(sql);
    let before = count(&server);
    client.query("select nonsense");
    client.rows(sql);
    assert_eq!(count(&server), before + 1);
    assert_eq!(client.texts("show warnings").len(), 0);
    client.rows(sql);
    assert_eq!(client.texts("select found_rows(), row_count()"), [["2", "-1"]]);
}

#[test]
fn explain_tells_it() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, v int)");
    let lines = client.texts("explain format = tree select v from t where id = 5");
    assert!(lines[0][0].contains("PointRead: t key=(id)"), "{lines:?}");
    let row = client.texts("explain select v from t where id = 5").remove(0);
    assert!(row.iter().any(|cell| cell.contains("PointRead: t key=(id)")), "{row:?}");
    let row = client.texts("explain select v from t where v = 5");
    assert!(!format!("{row:?}").contains("PointRead"), "{row:?}");
}
