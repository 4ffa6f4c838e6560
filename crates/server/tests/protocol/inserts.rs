//! The fast path of INSERT: literals and parameters into the log, and the replies.

use crate::common::{Client, Failure, TestServer, failure};
use freshet_base::ByteSize;
use freshet_wire::client::{Encoding, Outcome, Value};
use freshet_wire::{Date, Param, StatusFlags};

const DT: &str = "CREATE TABLE dt (id int(11) NOT NULL, name varchar(50) NULL, score int(11) NULL) \
    ENGINE=OLAP DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 \
    PROPERTIES (\"replication_num\" = \"1\")";

fn label_of(info: &str) -> &str {
    info.split('\'').nth(3).unwrap()
}

#[test]
fn rows_are_readable_when_they_are_acknowledged() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    let (affected, info) = client.run("insert into dt values (1, 'Bob', 90), (2, 'Alice', 99)");
    assert_eq!(affected, 2);
    assert!(info.starts_with("{'label':'label_") && info.contains("'status':'VISIBLE'"), "{info}");
    let mut other = server.database("d");
    let rows = other.texts("select id, name, score from dt order by id");
    assert_eq!(rows, [["1", "Bob", "90"], ["2", "Alice", "99"]]);
}

#[test]
fn the_info_of_a_delete_tells_its_transaction_where_tables_are_of_doris() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    client.run(
        "create table u (a int not null, b int) unique key(a) distributed by hash(a) buckets 2",
    );
    client.run("create table own (a int primary key, b int)");
    client.run("insert into dt values (1, 'Bob', 90), (2, 'Alice', 99), (3, 'Eve', 1)");
    for table in ["u", "own"] {
        client.run(&format!("insert into {table} values (1, 1), (2, 2), (3, 3)"));
    }
    let mut before = 0;
    for (table, column) in [("dt", "id"), ("u", "a")] {
        let (affected, info) = client.run(&format!("delete from {table} where {column} < 3"));
        assert_eq!(affected, 2, "{table}");
        assert!(label_of(&info).starts_with("delete_"), "{table}: {info}");
        let (_, txn) = info.split_once("', 'status':'VISIBLE', 'txnId':'").unwrap();
        let txn = txn.trim_end_matches("'}").parse::<u64>().unwrap();
        assert!(txn > before, "{table}: {info}");
        before = txn;
        // Nothing was written.
        assert_eq!(
            client.run(&format!("delete from {table} where {column} = 1")),
            (0, String::new())
        );
    }
    assert_eq!(client.run("delete from own where b < 3"), (2, String::new()));
    client.run("begin");
    assert_eq!(client.run("delete from dt where id = 3").1, "");
    client.run("commit");
    assert_eq!(client.one("select count(*) from dt"), "0");
}

#[test]
fn a_name_without_a_database_follows_use_and_a_prepared_statement_does_not() {
    let server = TestServer::start();
    let mut client = server.database("a");
    client.run("create database b");
    client.run("create table a.t (x int)");
    client.run("create table b.t (x int)");
    let prepared = client.prepare("insert into t values (?)").unwrap();
    client.run("insert into t values (1)");
    client.run("use b");
    client.run("insert into t values (2)");
    client.execute(prepared.statement_id, &[Param::Int(3)]);
    client.run("create table c (x int)");
    client.execute(prepared.statement_id, &[Param::Int(4)]);
    client.run("use a");
    let planned = client.prepare("insert into t values (? + 0)").unwrap();
    let read = client.prepare("select max(x) from t where x > ?").unwrap();
    client.run("use b");
    client.execute(planned.statement_id, &[Param::Int(5)]);
    assert_eq!(client.texts("select x from a.t order by x"), [["1"], ["3"], ["4"], ["5"]]);
    let Outcome::Rows(read) = client.execute(read.statement_id, &[Param::Int(0)]) else {
        panic!("a SELECT has rows");
    };
    assert_eq!(read.rows, [[Value::Int(5)]]);
    assert_eq!(client.texts("select database()"), [["b"]]);
    assert_eq!(client.texts("select x from b.t"), [["2"]]);
}

#[test]
fn a_statement_that_writes_nothing_has_no_label() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table k (id int primary key)");
    let (_, first) = client.run("insert into k values (1)");
    assert!(first.contains("'status':'VISIBLE'"), "{first}");
    let (affected, ignored) = client.run("insert ignore into k values (1)");
    assert_eq!((affected, ignored.as_str()), (0, ""));
}

#[test]
fn loads_of_a_window_share_a_label_and_a_transaction() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    client.run("set group_commit = async_mode");
    let (_, first) = client.run("insert into dt values (1, 'Bob', 90)");
    let (_, second) = client.run("insert into dt(id, name) values (3, 'John')");
    assert!(first.starts_with("{'label':'group_commit_"), "{first}");
    assert!(first.contains("'status':'PREPARE'") && !first.contains("query_id"), "{first}");
    assert_eq!(first, second);
    client.run("set group_commit = sync_mode");
    let (_, third) = client.run("insert into dt values (4, 'Bob', 90)");
    assert!(third.contains("'query_id':'"), "{third}");
    assert_eq!(label_of(&first), label_of(&third));
    let (_, alone) = client.run("insert into dt values (1 + 100, 'x', 1)");
    assert!(alone.contains("'label':'label_") && alone.contains("VISIBLE"), "{alone}");
    assert_eq!(client.one("select count(*) from dt"), "4");
    assert_eq!(client.one("select id from dt where name = 'x'"), "101");
}

#[test]
fn published_sessions_see_ended_groups_only() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    client.run("alter table dt set (\"group_commit_interval_ms\" = \"300\")");
    client.run("set group_commit = async_mode, read_freshness = 'published'");
    client.run("insert into dt values (1, 'Bob', 90)");
    assert_eq!(client.one("select count(*) from dt"), "0");
    client.run("set group_commit = sync_mode");
    client.run("insert into dt values (2, 'Eve', 91)");
    assert_eq!(client.one("select count(*) from dt"), "2", "the reply waited for the group");
}

#[test]
fn parameters_become_rows_of_all_types() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a bigint, b varchar(20), c double, d date, e decimal(10,2))");
    let statement =
        client.prepare("insert into t values (?, ?, ?, ?, ?), (?, ?, ?, ?, ?)").unwrap();
    assert_eq!(statement.parameters, 10);
    let day = Date { year: 2024, month: 2, day: 29 };
    let params = [
        Param::Int(-7),
        Param::Bytes(b"x"),
        Param::Double(0.5),
        Param::Date(day),
        Param::Bytes(b"12.345"),
        Param::Null,
        Param::Null,
        Param::Null,
        Param::Null,
        Param::Null,
    ];
    for _ in 0..3 {
        match client.execute(statement.statement_id, &params) {
            Outcome::Ok { affected_rows, .. } => assert_eq!(affected_rows, 2),
            other => panic!("{other:?}"),
        }
    }
    let rows = client.texts("select * from t where a is not null limit 1");
    assert_eq!(rows, [["-7", "x", "0.5", "2024-02-29", "12.35"]]);
    assert_eq!(client.one("select count(*) from t where a is null"), "3");
}

#[test]
fn a_prepared_insert_follows_its_table() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int, b int)");
    let statement = client.prepare("insert into t (a) values (?)").unwrap();
    client.execute(statement.statement_id, &[Param::Int(1)]);
    client.run("alter table t add column c int default '5'");
    client.execute(statement.statement_id, &[Param::Int(2)]);
    assert_eq!(client.texts("select a, c from t order by a"), [["1", "5"], ["2", "5"]]);
    client.run("drop table t");
    let failed = failure(client.execute(statement.statement_id, &[Param::Int(3)])).unwrap();
    assert_eq!(failed.errno, 1146);
}

#[test]
fn prepared_inserts_that_are_not_strict_mend_values_and_leave_rows_out() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    let statement = client.prepare("insert into dt values (?, ?, ?), (?, ?, ?)").unwrap();
    let params = [
        Param::Int(1),
        Param::Bytes(b"Bob"),
        Param::Bytes(b"many"),
        Param::Null,
        Param::Bytes(b"Eve"),
        Param::Int(2),
    ];
    let strict = failure(client.execute(statement.statement_id, &params)).unwrap();
    assert_eq!(strict.errno, 1366);
    client.run("set enable_insert_strict = false");
    match client.execute(statement.statement_id, &params) {
        Outcome::Ok { affected_rows, .. } => assert_eq!(affected_rows, 1),
        other => panic!("{other:?}"),
    }
    let mended = "Incorrect integer value: 'many' for column 'score' at row 1";
    let left_out = "Column 'id' cannot be null: row 2 gives NULL: the row was left out";
    let warnings = [["Warning", "1366", mended], ["Warning", "1048", left_out]];
    assert_eq!(client.texts("show warnings"), warnings);
    client.run("set enable_insert_strict = true");
    assert!(failure(client.execute(statement.statement_id, &params)).is_ok());
    assert_eq!(client.texts("select id, name, score from dt"), [["1", "Bob", "NULL"]]);
}

#[test]
fn warnings_are_counted_behind_a_show_warnings() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    client.run("set enable_insert_strict = false");
    let prepared = client.prepare("insert into dt values (?, ?, ?)").unwrap();
    let params = [Param::Int(3), Param::Bytes(b"Eve"), Param::Bytes(b"many")];
    for _ in 0..2 {
        let inserted = client.query("insert into dt values (1, 'Bob', 'many')");
        assert!(matches!(inserted, Outcome::Ok { warnings: 1, .. }), "{inserted:?}");
        assert_eq!(client.texts("show warnings").len(), 1);
        let inserted = client.execute(prepared.statement_id, &params);
        assert!(matches!(inserted, Outcome::Ok { warnings: 1, .. }), "{inserted:?}");
        let shown = client.query("show warnings");
        assert!(matches!(&shown, Outcome::Rows(rows) if rows.warnings == 0), "{shown:?}");
    }
}

#[test]
fn the_time_that_a_column_was_added_with_outlives_restarts() {
    let mut server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (k int)");
    client.run("insert into t values (1), (2)");
    client.run("alter table t add column at datetime(6) not null default current_timestamp(6)");
    client.run("insert into t (k) values (3)");
    let rows = client.texts("select k, at from t order by k");
    assert_eq!(rows[0][1], rows[1][1]);
    assert_ne!(rows[1][1], rows[2][1]);
    for _ in 0..2 {
        drop(client);
        server = server.restart();
        client = server.database("d");
        assert_eq!(client.texts("select k, at from t order by k"), rows);
        client.run("flush tables t");
        assert_eq!(client.texts("select k, at from t order by k"), rows);
    }
}

#[test]
fn prepared_queries_and_expressions() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int, b varchar(10))");
    let insert = client.prepare("insert into t values (? + 1, upper(?))").unwrap();
    client.execute(insert.statement_id, &[Param::Int(1), Param::Bytes(b"x")]);
    let select = client.prepare("select a, b from t where a = ?").unwrap();
    assert_eq!((select.parameters, select.columns), (1, 2));
    for _ in 0..2 {
        let Outcome::Rows(rows) = client.execute(select.statement_id, &[Param::Int(2)]) else {
            panic!("rows expected")
        };
        assert_eq!(rows.rows, [[Value::Int(2), Value::Bytes(b"X".to_vec())]]);
    }
    client.run("insert into t values (2, 'Y')");
    let Outcome::Rows(rows) = client.execute(select.statement_id, &[Param::Int(2)]) else {
        panic!("rows expected")
    };
    assert_eq!(rows.rows.len(), 2, "each execution reads what is there now");
}

#[test]
fn bad_values_are_named_and_nothing_is_loaded() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    let errno = |failure: Failure| failure.errno;
    assert_eq!(errno(client.fails("insert into dt values (1, 'a')")), 1136);
    assert_eq!(errno(client.fails("insert into dt values (1, 'a', 1), (null, 'b', 2)")), 1048);
    assert_eq!(errno(client.fails("insert into dt values (99999999999, 'a', 1)")), 1264);
    assert_eq!(errno(client.fails("insert into dt values ('abc', 'a', 1)")), 1366);
    let long = client.fails(&format!("insert into dt values (1, '{}', 1)", "x".repeat(51)));
    assert_eq!(long.errno, 1406);
    assert!(long.message.contains("row 1") && long.message.contains("50"), "{}", long.message);
    assert_eq!(errno(client.fails("insert into dt (id, nope) values (1, 2)")), 1054);
    assert_eq!(errno(client.fails("insert into dt (id, id) values (1, 2)")), 1110);
    assert_eq!(errno(client.fails("insert into nope values (1)")), 1146);
    assert_eq!(errno(client.fails("insert into x.nope values (1)")), 1049);
    assert_eq!(errno(client.fails("insert into dt values (1, 'a', 1) garbage")), 1064);
    assert_eq!(client.one("select count(*) from dt"), "0");
}

#[test]
fn labels_are_used_once() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DT);
    let (_, info) = client.run("insert into dt with label l1 values (1, 'a', 1)");
    assert!(info.contains("'label':'l1', 'status':'VISIBLE'"), "{info}");
    let used = client.fails("insert into dt with label l1 values (2, 'a', 1)");
    assert!(used.message.contains("Label [l1] has already been used"), "{}", used.message);
    let server = server.restart();
    let mut client = server.database("d");
    let used = client.fails("insert into dt with label l1 values (2, 'a', 1)");
    assert!(used.message.contains("Label [l1] has already been used"), "{}", used.message);
    assert_eq!(client.one("select count(*) from dt"), "1", "rows are there after a restart");
}

#[test]
fn insert_select_copies_few_and_many_rows() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table s (a int, b varchar(100))");
    client.run("create table t (a bigint, b varchar(100))");
    let values = (0..1000).map(|n| format!("({n},'{}')", "y".repeat(90))).collect::<Vec<_>>();
    client.run(&format!("insert into s values {}", values.join(",")));
    let (affected, info) = client.run("insert into t select a, b from s");
    assert_eq!(affected, 1000);
    assert!(info.contains("VISIBLE"), "{info}");
    for _ in 0..7 {
        client.run("insert into s select * from s");
    }
    let (affected, _) = client.run("insert into t (b, a) select b, a from s");
    assert_eq!(affected, 128_000);
    assert_eq!(client.one("select count(*) from t"), "129000");
    assert_eq!(client.one("select sum(a) from t"), (499_500 * 129).to_string());
    assert_eq!(client.fails("insert into t select a from s").errno, 1136);
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int)");
    let insert = client.prepare("insert into t values (?)").unwrap();
    for n in 0..50 {
        client.writer.command_execute(insert.statement_id, &[Param::Int(n)], true);
    }
    client.writer.command_query(b"select count(*) from t");
    client.send();
    for _ in 0..50 {
        assert!(matches!(client.outcomes(Encoding::Binary)[..], [Outcome::Ok { .. }]));
    }
    let outcomes = client.outcomes(Encoding::Text);
    let [Outcome::Rows(rows)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(rows.rows[0][0], Value::Bytes(b"50".to_vec()), "a session reads its own writes");
}

#[test]
fn several_statements_in_one_text() {
    let server = TestServer::start();
    let mut client = server.database("d");
    let outcomes = client.query_all(
        "create table t (a int); insert into t values (1); insert into t values (2), (3); \
         select count(*) from t",
    );
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    let outcomes = client.query_all("insert into t values (4); insert into t values (5)");
    match &outcomes[..] {
        [Outcome::Ok { status: first, .. }, Outcome::Ok { status: last, .. }] => {
            assert!(first.contains(StatusFlags::MORE_RESULTS_EXISTS));
            assert!(!last.contains(StatusFlags::MORE_RESULTS_EXISTS));
        }
        other => panic!("{other:?}"),
    }
    let outcomes = client.query_all("insert into t values (6); select nope; select 1");
    assert_eq!(outcomes.len(), 2, "an error ends the list: {outcomes:?}");
    assert_eq!(client.one("select count(*) from t"), "6");
}

#[test]
fn loads_above_the_limit_of_the_log_write_files_of_their_own() {
    let server = TestServer::sized(|config| config.wal_load_bytes_max = ByteSize::kib(64));
    let mut client = server.database("d");
    client.run("create table t (a int, b varchar(1000)) distributed by hash(a) buckets 1");
    let row = |a: usize| format!("({a}, '{}')", "x".repeat(900));
    let rows = |count| (0..count).map(row).collect::<Vec<_>>().join(", ");
    client.run(&format!("insert into t values {}", rows(10)));
    let rows_in_files = |client: &mut Client| client.texts("show tablets from t")[0][10].clone();
    assert_eq!(rows_in_files(&mut client), "0", "a small load is in the log");
    client.run(&format!("insert into t values {}", rows(100)));
    client.run("insert into t select a + 1000, b from t");
    assert_eq!(client.one("select count(*) from t"), "220");
    client.run("flush tables t");
    assert_eq!(rows_in_files(&mut client), "220");
}

#[test]
fn rows_that_delete_come_by_every_form_of_insert() {
    let server = TestServer::sized(|config| config.wal_load_bytes_max = ByteSize::kib(64));
    let mut client = server.database("d");
    let u = "create table u (k int not null, v varchar(9), w int default '7') unique key(k) \
             distributed by hash(k) buckets 2";
    client.run(u);
    client.run("set group_commit = async_mode");
    client.run("insert into u (k, v) values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')");
    let columns = "(k, __doris_delete_sign__)";
    let (deleted, info) = client.run(&format!("insert into u {columns} values (1, 1), (9, 1)"));
    assert_eq!(deleted, 2);
    assert!(info.starts_with("{'label':'group_commit_"), "{info}");
    let prepared = client.prepare(&format!("insert into u {columns} values (?, ?)")).unwrap();
    for (key, sign) in [(2, Param::Int(1)), (3, Param::Bytes(b"0"))] {
        client.execute(prepared.statement_id, &[Param::Int(key), sign]);
    }
    client.run(&format!("insert into u {columns} values (2 + 2, 0 + 1)"));
    let rows = "select k, v, w from u order by k";
    assert_eq!(client.texts(rows), [["3", "NULL", "7"], ["5", "e", "7"]]);
    // More than a record takes, of which some stay: the last row of a key counts.
    let many = (0..20_000).map(|k| format!("({k}, 'x')")).collect::<Vec<_>>().join(", ");
    client.run(&format!("insert into u (k, v) values {many}"));
    let select = format!("insert into u {columns} select k, k % 4 <> 0 from u where k % 2 = 0");
    assert_eq!(client.run(&select).0, 10_000);
    let sums = "select count(*), min(k % 4), count(v), max(k) from u where k % 2 = 0";
    assert_eq!(client.texts(sums), [["5000", "0", "0", "19996"]]);
    let text = (0..20_000).map(|k| format!("({k}, {})", k % 2)).collect::<Vec<_>>().join(", ");
    assert_eq!(client.run(&format!("insert into u {columns} values {text}")).0, 20_000);
    let server = server.restart();
    let mut client = server.database("d");
    assert_eq!(client.texts("select count(*), sum(k % 2) from u"), [["10000", "0"]]);
}

#[test]
fn rows_that_delete_in_a_transaction_do_not_look() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.database("d"), server.database("d"));
    client.run("create table u (k int, v int) unique key(k) distributed by hash(k) buckets 1");
    client.run("insert into u values (1, 1)");
    let insert = "insert into u (k, v, __doris_delete_sign__) values";
    client.run("begin");
    client.run(&format!("{insert} (1, 1, 1), (2, 2, 0), (5, 5, 1)"));
    other.run("insert into u values (1, 7), (2, 7), (5, 7)");
    client.run("commit");
    assert_eq!(client.texts("select * from u"), [["2", "2"]]);
    // Keys that nobody has are a load of their own.
    client.run("begin with label of_nothing");
    client.run(&format!("{insert} (8, 8, 1)"));
    client.run("commit");
    let used = client.fails("insert into u with label of_nothing values (8, 8)");
    assert!(used.message.contains("of_nothing"), "{used:?}");
    assert_eq!(client.texts("select * from u"), [["2", "2"]]);
}

#[test]
fn a_query_that_a_transaction_cannot_hold_ends_early() {
    let server = TestServer::sized(|config| config.transaction_bytes_max = ByteSize::kib(64));
    let mut client = server.database("d");
    client.run("create table t (a int primary key, b varchar(1000))");
    client.run("begin");
    client.run("insert into t values (1, 'x')");
    // Rows of other tables go to a file.
    let many = "insert into t select x.ordinal_position, repeat('x', 1000) from \
                information_schema.columns x, information_schema.columns y";
    let failure = client.fails(many);
    assert_eq!(failure.errno, 1041, "{}", failure.message);
    client.run("commit");
    assert_eq!(client.one("select count(*) from t"), "1");
    let used = server.engine.memory().used_bytes();
    assert!(used < 64 << 10, "what was gathered is given back: {used}");
}

#[test]
fn a_large_insert_is_read_in_pieces_and_stays_one_statement() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, pad varchar(300))");
    let pieces = || server.engine.metrics().insert_pieces.get();
    let pad = "x".repeat(280);
    let rows = |ids: std::ops::Range<u32>| {
        ids.map(|id| format!("({id},'{pad}')")).collect::<Vec<_>>().join(",")
    };
    let small = format!("insert into t values {}", rows(0..900));
    assert!(small.len() < 256 << 10);
    client.run(&small);
    assert_eq!(pieces(), 0);
    let large = |first| format!("insert into t values {}", rows(first..first + 1050));
    assert!(large(1000).len() > 256 << 10);
    assert_eq!(client.run(&large(1000)).0, 1050);
    assert_eq!(pieces(), 6, "1050 rows, 200 at a time");
    let hint = "/*+TDDL:cmd_extra(batch_insert_policy=none)*/";
    client.run(&format!("{hint}{}", large(3000)));
    client.run(&large(3000).replace("insert", &format!("replace {hint}")));
    client.run("set batch_insert_policy = none");
    client.run(&large(5000));
    assert_eq!(pieces(), 6);
    client.run("set batch_insert_chunk_size = 1000, batch_insert_policy = 'SPLIT'");
    // The last row has a key that exists.
    let twice = format!("insert into t values {},(0,'')", rows(7000..8100));
    assert_eq!(failure(client.query(&twice)).unwrap().errno, 1062);
    assert_eq!(pieces(), 8);
    let expression = format!("insert into t values {},(1+1,'')", rows(7000..8100));
    assert_eq!(failure(client.query(&expression)).unwrap().errno, 1062);
    assert_eq!(client.one("select count(*) from t where id >= 7000"), "0");
}

#[test]
fn values_of_a_sequence_cost_no_record_each() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create sequence s");
    client.run("create time sequence c");
    let records = || server.engine.metrics().wal_records.get();
    let before = records();
    for value in 1..=2_000 {
        assert_eq!(client.one("select s.nextval"), value.to_string());
    }
    let of_time = (0..200).map(|_| client.one("select c.nextval").parse::<u64>().unwrap());
    assert!(of_time.collect::<Vec<_>>().is_sorted_by(|a, b| a < b));
    assert!(records() - before < 30, "{} records", records() - before);
    client.run("create table t (id bigint primary key)");
    let before = records();
    client.run(&format!("insert into t values {}", vec!["(s.nextval)"; 500].join(",")));
    assert_eq!(client.one("select min(id) from t"), "2001");
    assert_eq!(client.one("select max(id) from t"), "2500");
    assert!(records() - before < 5, "one of the rows, and perhaps one of a block");
}
