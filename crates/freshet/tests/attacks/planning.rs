//! Statements that are expensive to plan are answered, refused or aborted without affecting others.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use freshet_torture::server::Setup;
use freshet_wire::client::{Encoding, Outcome};
use rustix::process::Signal;

use crate::client::Client;
use crate::{Failure, PATIENCE, TestServer, eventually, failure};

/// The maximum response time of light requests, even with a slow build on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Their maximum median.
const MEDIAN: Duration = Duration::from_millis(100);
/// The number of responses per kind.
const ROUNDS: usize = 20;
/// The maximum memory that plans take, twice the budgets of the server: plans count as queries.
const PEAK_BYTES: u64 = (2 * (256 + 64)) << 20;
/// The maximum CPU time to answer or refuse a statement; an optimised build needs a twentieth, and
/// other tests beside it make it half as much again.
const SOON: Duration = Duration::from_secs(16);

/// A statement within all limits that takes long to plan.
fn heavy() -> String {
    let days = (0..240).map(|day| format!(" + INTERVAL {day} DAY")).collect::<String>();
    format!("SELECT {}", vec![format!("NOW(){days}"); 30].join(", "))
}

/// Sends a statement without reading the answer.
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
    done
}

/// Response times by kind of request.
#[derive(Default)]
struct Answers(BTreeMap<&'static str, Vec<Duration>>);

impl Answers {
    #[track_caller]
    fn time<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = at_once(what, work);
        self.0.entry(what).or_default().push(began.elapsed());
        done
    }

    /// Checks that the median of each kind is within [`MEDIAN`].
    fn check(mut self) {
        let mut slow = Vec::new();
        for (what, took) in &mut self.0 {
            took.sort_unstable();
            let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
            println!("{what}: {median:?}, {worst:?} at most");
            if median > MEDIAN {
                slow.push(format!("{what} takes {median:?}"));
            }
        }
        assert!(slow.is_empty(), "{slow:?}");
    }
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
    let log_in = || Client::connect(server.address, "slow", "secret", None).unwrap();
    // The first login generates the RSA key, which is slow in a debug build.
    log_in();
    let mut planning = (0..4).map(|_| server.connect()).collect::<Vec<_>>();
    let ids = planning.iter_mut().map(id_of).collect::<Vec<_>>();
    planning.iter_mut().for_each(|client| send(client, &heavy()));
    std::thread::sleep(Duration::from_millis(300));
    let mut answers = Answers::default();
    for _ in 0..ROUNDS {
        answers.time("health", || assert_eq!(server.get("/api/health", "").status, 200));
        answers.time("SELECT 1", || assert_eq!(client.one("SELECT 1"), "1"));
        answers.time("INSERT", || client.run("INSERT INTO t VALUES (1)"));
        answers.time("INSERT of an expression", || client.run("INSERT INTO t VALUES (1 + 1)"));
        answers.time("SHOW PROCESSLIST", || client.rows("SHOW PROCESSLIST"));
        answers.time("login", log_in);
        answers.time("KILL", || client.fails("KILL QUERY 123456789"));
    }
    for id in ids {
        at_once("KILL", || client.run(&format!("KILL QUERY {id}")));
    }
    for mut client in planning {
        let ended = at_once("end", || failure(client.outcomes(Encoding::Text).remove(0)));
        assert_eq!(ended.unwrap().errno, 1317);
        assert_eq!(client.one("SELECT 1"), "1", "the connection lives on");
    }
    answers.check();
}

#[test]
fn a_plan_ends_with_its_time_its_client_and_its_server() {
    const DRAIN: Duration = Duration::from_secs(3);
    let mut server = TestServer::with(&[("drain_timeout", "3s")]);
    let mut client = server.connect();
    client.run("SET max_execution_time = 200");
    let ended = at_once("max_execution_time", || client.fails(&heavy()));
    assert_eq!(ended.errno, 3024);
    client.run("SET max_execution_time = 0");
    for _ in 0..8 {
        let mut gone = server.connect();
        send(&mut gone, &heavy());
    }
    eventually("no statement outlives its client", || {
        client.rows("SHOW PROCESSLIST").rows.len() == 1
    });
    for _ in 0..3 {
        let ended = killed(&server, &mut client, &heavy());
        assert_eq!(ended.errno, 1317);
    }
    let mut planning = (0..6).map(|_| server.connect()).collect::<Vec<_>>();
    planning.iter_mut().for_each(|client| send(client, &heavy()));
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    server.process.signal(Signal::TERM);
    server.process.wait_end(PATIENCE).expect("it stops");
    let took = began.elapsed();
    assert!(took < DRAIN + Duration::from_secs(5), "it stopped after {took:?}");
}

/// The error of a statement that is killed while it runs; it must end quickly.
#[track_caller]
fn killed(server: &TestServer, client: &mut Client, sql: &str) -> Failure {
    let id = id_of(client);
    send(client, sql);
    std::thread::sleep(Duration::from_millis(200));
    let mut other = server.connect();
    at_once("KILL", || other.run(&format!("KILL QUERY {id}")));
    let ended = at_once("end", || failure(client.outcomes(Encoding::Text).remove(0)));
    ended.unwrap()
}

/// LIKE with a pattern of many wildcards, which backtracks.
fn like(text: &str) -> String {
    format!("{text} LIKE '{}b'", "%a".repeat(5_000))
}

/// A JSON path that matches along exponentially many ways.
fn path(value: &str) -> String {
    let (open, close) = ("[".repeat(90), "]".repeat(90));
    let steps = "**[*]".repeat(30);
    format!("JSON_EXTRACT(CONCAT('{open}', {value}, '{close}'), '${steps}') IS NOT NULL")
}

/// Functions whose patterns and arguments make them scan their text repeatedly.
#[test]
fn functions_that_take_long_end_with_their_time_and_can_be_killed() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (n INT)");
    let rows = (0..4_000).map(|n| format!("({n})")).collect::<Vec<_>>();
    client.run(&format!("INSERT INTO t VALUES {}", rows.join(",")));
    // Over millions of rows, each with a different text.
    for condition in [like("CONCAT(REPEAT('a', 6000), x.n + y.n)"), path("x.n + y.n")] {
        let sql = format!("SELECT SUM({condition}) FROM t x, t y");
        client.run("SET max_execution_time = 300");
        let ended = at_once("max_execution_time", || client.fails(&sql));
        assert_eq!(ended.errno, 3024, "{}", ended.message);
        client.run("SET max_execution_time = 0");
        assert_eq!(killed(&server, &mut client, &sql).errno, 1317, "{}", &sql[..60]);
    }
}

fn many(part: &str, count: usize, joined: &str) -> String {
    vec![part; count].join(joined)
}

/// `WITH c0 AS (first), c1 AS (of("c0")), ...`, and a read of the last.
fn chained(count: usize, first: &str, of: impl Fn(String) -> String) -> String {
    let next = (1..=count).map(|n| format!("c{n} AS ({})", of(format!("c{}", n - 1))));
    let all = std::iter::once(format!("c0 AS ({first})")).chain(next).collect::<Vec<_>>();
    format!("WITH {} SELECT COUNT(*) FROM c{count}", all.join(", "))
}

/// `SELECT of(of(...))`, nested `count` deep.
fn nested(count: usize, of: impl Fn(String) -> String) -> String {
    let inner = (0..count).fold("1".to_owned(), |inner, _| of(inner));
    format!("SELECT {inner}")
}

/// `SELECT of(of(...)) FROM d.t`, nested `count` deep in the number `a`.
fn over(count: usize, of: impl Fn(String, usize) -> String) -> String {
    over_column("a", count, of)
}

/// The same in the text `b`, with its collation.
fn over_text(count: usize, of: impl Fn(String) -> String) -> String {
    over_column("b", count, |inner, _| of(inner))
}

fn over_column(name: &str, count: usize, of: impl Fn(String, usize) -> String) -> String {
    let inner = (0..count).fold(name.to_owned(), of);
    format!("SELECT {inner} FROM d.t")
}

/// Calls whose parts the planner copies, or asks for their type again and again, at each level.
fn nested_calls() -> Vec<(&'static str, String, Option<u16>)> {
    let mixed = |inner: String, level: usize| match level % 4 {
        0 => format!("CONCAT({inner}, 'a')"),
        1 => format!("COALESCE({inner}, 'b')"),
        2 => format!("LOWER({inner})"),
        _ => format!("UPPER({inner})"),
    };
    vec![
        ("40 functions", over(40, mixed), None),
        ("60 COALESCE", over(60, |inner, _| format!("COALESCE({inner}, 1)")), None),
        ("30 IFNULL", over(30, |inner, _| format!("IFNULL({inner}, LOWER(a))")), None),
        ("14 IF", over(14, |inner, _| format!("IF({inner}, 1, 2)")), None),
        ("40 IN", over(40, |inner, _| format!("({inner} IN (1, 2, 3))")), None),
        ("20 IN of columns", over(20, |inner, _| format!("({inner} IN (a, a + 1))")), None),
        ("40 <=>", over(40, |inner, _| format!("({inner} <=> a)")), None),
        ("20 HOUR", over(20, |inner, _| format!("HOUR({inner})")), None),
        ("40 CAST", over(40, |inner, _| format!("CAST({inner} AS SIGNED)")), None),
        ("40 LOWER", over(40, |inner, _| format!("LOWER({inner})")), None),
        ("40 TRIM", over(40, |inner, _| format!("TRIM({inner})")), None),
        ("30 NULLIF of texts", over_text(30, |inner| format!("NULLIF({inner}, 'x')")), None),
        (
            "20 IN of texts",
            over_text(20, |inner| format!("IF({inner} IN ('a', 1), 'b', 'c')")),
            None,
        ),
        (
            "20 STRCMP of texts",
            over_text(20, |inner| format!("CONCAT(STRCMP({inner}, 'x'))")),
            None,
        ),
        (
            "20 FIELD of texts",
            over_text(20, |inner| format!("CONCAT(FIELD({inner}, 'x', 'y', 'z'))")),
            None,
        ),
        (
            "8 COALESCE of texts",
            over_text(8, |inner| format!("COALESCE(LOWER({inner}), REVERSE(b), 'c')")),
            None,
        ),
    ]
}

/// Statements, and the error of those that are refused.
fn large() -> Vec<(&'static str, String, Option<u16>)> {
    let twice = |name: String| format!("SELECT a.x FROM {name} a, {name} b WHERE a.x = b.x");
    let unions = |name: String| format!("SELECT x FROM {name} UNION ALL SELECT x FROM {name}");
    let list = (0..200_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    vec![
        (
            "1,000 intervals",
            format!("SELECT NOW(){}", " + INTERVAL 1 DAY".repeat(1_000)),
            Some(1436),
        ),
        ("200 intervals", format!("SELECT NOW(){}", " + INTERVAL 1 DAY".repeat(200)), None),
        ("5,000 tables", format!("SELECT 1 FROM {}", many("d.t", 5_000, ", ")), Some(1116)),
        ("1,900 joins", format!("SELECT 1 FROM {}", many("d.t", 1_900, " JOIN ")), Some(1116)),
        ("200 joins", format!("SELECT 1 FROM {}", many("d.t", 200, " JOIN ")), Some(1116)),
        ("IN of 200,000", format!("SELECT COUNT(*) FROM d.t WHERE a IN ({list})"), None),
        ("10,000 columns", format!("SELECT {}", many("1", 10_000, ", ")), Some(1117)),
        ("2,000 columns", format!("SELECT {} FROM d.t", many("a", 2_000, ", ")), None),
        ("100,000 arguments", format!("SELECT CONCAT({})", many("1", 100_000, ",")), Some(3170)),
        ("4,000 arguments", format!("SELECT CONCAT({})", many("1", 4_000, ",")), None),
        ("150 names", chained(150, "SELECT 1 x", |c| format!("SELECT x FROM {c}")), None),
        ("names used twice", chained(12, "SELECT 1 x", twice), Some(1116)),
        ("unions of names", chained(20, "SELECT 1 x", unions), Some(1116)),
        ("400 selects", many("SELECT 1", 400, " UNION ALL "), None),
        ("1,990 =", format!("SELECT {}", many("1", 1_990, " = ")), Some(1436)),
        ("1,990 XOR", format!("SELECT {}", many("1", 1_990, " XOR ")), None),
        ("1,990 LIKE", format!("SELECT {}", many("1", 1_990, " LIKE ")), Some(1436)),
        ("1,990 +", format!("SELECT {}", many("1", 1_990, " + ")), Some(1436)),
        ("300 =", format!("SELECT {}", many("1", 300, " = ")), None),
        ("40 LIKE", format!("SELECT {}", many("'1'", 40, " LIKE ")), None),
        ("200 +", format!("SELECT {} FROM (SELECT 1 AS x) s", many("x", 200, " + ")), None),
        ("24 BETWEEN", format!("SELECT 1{}", " BETWEEN 1 AND 2".repeat(24)), None),
        ("900 BETWEEN", format!("SELECT 1{}", " BETWEEN 1 AND 2".repeat(900)), Some(1436)),
        (
            "30 CASE",
            nested(30, |inner| format!("CASE {inner} WHEN 1 THEN 1 WHEN 2 THEN 2 END")),
            Some(3170),
        ),
        ("30 NULLIF", nested(30, |inner| format!("NULLIF({inner}, 2)")), None),
        ("30 GREATEST", nested(30, |inner| format!("GREATEST({inner}, 2)")), None),
        (
            "30 subqueries",
            nested(30, |inner| format!("((SELECT 1) IN (SELECT {inner}))")),
            Some(3170),
        ),
        ("5,000 %", format!("SELECT {}", like("REPEAT('a', 20000)")), None),
        ("30 **", format!("SELECT {}", path("1")), None),
        ("190 minus signs", format!("SELECT {}1", "- ".repeat(190)), None),
    ]
}

#[test]
fn what_is_large_is_answered_or_refused_soon() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path())
        .with("query_memory", "256MiB")
        .with("write_memory", "64MiB")
        .returning_memory_within(Duration::from_millis(200));
    let server = TestServer::of(&setup, dir);
    let mut client = server.database("d");
    client.run("CREATE TABLE t (a INT, b VARCHAR(20))");
    client.run("SET max_execution_time = 160000");
    let mut other = server.connect();
    let mut wrong = Vec::new();
    let start_bytes = server.process.peak_bytes();
    let mut peak_bytes = start_bytes;
    for (name, sql, expected) in large().into_iter().chain(nested_calls()) {
        let before = server.processor_time();
        send(&mut client, &sql);
        std::thread::sleep(Duration::from_millis(20));
        at_once(name, || assert_eq!(other.one("SELECT 1"), "1"));
        let outcome = client.outcomes(Encoding::Text).remove(0);
        let took = server.processor_time() - before;
        let peak_before = std::mem::replace(&mut peak_bytes, server.process.peak_bytes());
        println!("{name}: {took:?}, {} MiB", (peak_bytes - start_bytes) >> 20);
        if peak_bytes > peak_before {
            let above = (peak_bytes - start_bytes) >> 20;
            assert!(peak_bytes - start_bytes < PEAK_BYTES, "{name}: {above} MiB");
        }
        match (outcome, expected) {
            (Outcome::Rows(_), None) if took < SOON => {}
            (Outcome::Err { errno, .. }, Some(expected)) if errno == expected && took < SOON => {}
            (other, _) => wrong.push((name, took, other)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// What doubles at each level of views or derived tables does not double the time.
#[test]
fn views_and_derived_tables_that_double_are_planned_soon() {
    const LEVELS: usize = 40;
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (a BIGINT, b BIGINT)");
    client.run("INSERT INTO t VALUES (1, 1), (0, 1)");
    client.run("CREATE VIEW v0 AS SELECT a, b FROM t");
    client.run("CREATE VIEW z0 AS SELECT a, b FROM t");
    let sum = |from: &str| format!("SELECT a + a AS a, b FROM {from} WHERE a > 0");
    let soon = |client: &mut Client, sql: &str| {
        let before = server.processor_time();
        client.rows(sql);
        let took = server.processor_time() - before;
        assert!(took < SOON, "{sql} took {took:?}");
    };
    for n in 1..=LEVELS {
        client.run(&format!("CREATE VIEW v{n} AS {}", sum(&format!("v{}", n - 1))));
    }
    let total = (1_u64 << LEVELS).to_string();
    soon(&mut client, &format!("SELECT SUM(a) FROM v{LEVELS}"));
    assert_eq!(client.one(&format!("SELECT SUM(a) FROM v{LEVELS}")), total);
    // An alias within ORDER BY lets the planner look at the columns of its tables.
    for n in 1..=12 {
        let query = format!("{} ORDER BY a + 1", sum(&format!("z{}", n - 1)));
        client.run(&format!("CREATE VIEW z{n} AS {query}"));
    }
    soon(&mut client, "SELECT SUM(a) FROM z12");
    let derived = (0..LEVELS).fold("t".to_owned(), |from, _| format!("({}) t", sum(&from)));
    soon(&mut client, &format!("SELECT SUM(a) FROM {derived}"));
    assert_eq!(client.one(&format!("SELECT SUM(a) FROM {derived}")), total);
}

/// Levels of views take stack, and views that join views make many tables of few words.
#[test]
fn views_are_not_too_many_within_one_another() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (a BIGINT)");
    client.run("CREATE VIEW v0 AS SELECT a FROM t");
    for n in 1..=64 {
        client.run(&format!("CREATE VIEW v{n} AS SELECT a FROM v{}", n - 1));
    }
    assert_eq!(client.fails("SELECT a FROM v64").errno, 1436);
    client.rows("SELECT a FROM v63");
    client.run("SET GLOBAL max_statement_tables = 10");
    // Those of constants count, too.
    for (name, first) in [("w", "SELECT a FROM t"), ("c", "SELECT 1 AS a")] {
        client.run(&format!("CREATE VIEW {name}0 AS {first}"));
        let joined = |n: usize| {
            let before = format!("{name}{}", n - 1);
            let query = format!("SELECT x.a FROM {before} x JOIN {before} y ON x.a = y.a");
            format!("CREATE VIEW {name}{n} AS {query}")
        };
        for n in 1..=3 {
            client.run(&joined(n));
        }
        let refused = client.fails(&joined(4));
        assert_eq!(refused.errno, 1116, "{}", refused.message);
        let twice = format!("SELECT 1 FROM {name}3 x JOIN {name}3 y ON x.a = y.a");
        assert_eq!(client.fails(&twice).errno, 1116);
        client.rows(&format!("SELECT a FROM {name}3"));
    }
}

/// Values that read what is assigned before them grow by each other.
#[test]
fn assignments_that_read_each_other_are_refused_soon() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    client.run("INSERT INTO t VALUES (1, 1)");
    let doubling = vec!["a = a + a"; 40].join(", ");
    let long = vec!["a = a + 1"; 20_000].join(", ");
    for set in [doubling, long] {
        let before = server.processor_time();
        assert_eq!(client.fails(&format!("UPDATE t SET {set}")).errno, 3170);
        let insert = format!("INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE {set}");
        assert_eq!(client.fails(&insert).errno, 3170);
        let took = server.processor_time() - before;
        assert!(took < SOON, "{took:?}");
    }
    client.run("UPDATE t SET a = a + 1, a = a * 2, a = a + 1");
    assert_eq!(client.one("SELECT a FROM t"), "5");
}

#[test]
fn preparing_as_many_placeholders_as_there_may_be_is_quick() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("CREATE TABLE t (a INT)");
    let marks = many("?", 65_535, ",");
    let before = server.processor_time();
    client.prepare(&format!("SELECT a FROM t WHERE a IN ({marks})")).unwrap();
    let refused = client.prepare(&format!("SELECT {marks}")).unwrap_err();
    assert_eq!(refused.errno, 1117);
    let refused = client.prepare(&format!("SELECT CONCAT({marks})")).unwrap_err();
    assert_eq!(refused.errno, 3170);
    let took = server.processor_time() - before;
    assert!(took < SOON, "{took:?}");
}

#[test]
fn names_of_the_engine_below_are_nobodys_to_call() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (sql, errno) in [
        ("SELECT mysql_group_concat(1)", 1305),
        ("SELECT any_value()", 1582),
        ("SELECT last_value() OVER ()", 1582),
        ("SELECT generate_series(2147483647)", 1305),
        ("SELECT levenshtein('a', 'b')", 1305),
        ("SELECT * FROM generate_series(1, 2)", 1305),
        ("SELECT SUM()", 1582),
    ] {
        assert_eq!(client.fails(sql).errno, errno, "{sql}");
        assert_eq!(client.one("SELECT 1"), "1", "after {sql}");
    }
}
