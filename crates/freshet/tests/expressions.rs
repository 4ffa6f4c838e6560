//! Memory of expressions: whatever functions make of a statement's rows, it stays within the memory
//! budgets.
// Tests inspect the server's process from outside.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use freshet_torture::client::{Client, Failure};
use freshet_torture::server::{Server, Setup};

const QUERY_MEMORY_MIB: u64 = 48;
const WRITE_MEMORY_MIB: u64 = 32;
/// How much a process may use beyond its budgets: the same again.
const ABOVE_MIB: u64 = 2 * (QUERY_MEMORY_MIB + WRITE_MEMORY_MIB);
const ROWS: usize = 4096;

/// Statements whose intermediate values would take hundreds of megabytes per batch, and the
/// expected result if they succeed.
const STATEMENTS: &[(&str, &str, Option<&str>)] = &[
    ("repeat", "SELECT SUM(LENGTH(REPEAT(s, 60))) FROM t", Some("245760000")),
    ("repeat of a constant", "SELECT SUM(LENGTH(REPEAT('0123456789', 5000 + id))) FROM t", None),
    ("space", "SELECT SUM(LENGTH(SPACE(60000 + id * 0))) FROM t", Some("245760000")),
    ("lpad", "SELECT SUM(LENGTH(LPAD(s, 60000, 'ab'))) FROM t", Some("245760000")),
    ("rpad", "SELECT SUM(LENGTH(RPAD(s, 60000, 'ab'))) FROM t", Some("245760000")),
    ("concat", "SELECT SUM(LENGTH(CONCAT(r, r, r))) FROM (SELECT REPEAT(s, 20) r FROM t) d", None),
    (
        "concat of many",
        "SELECT SUM(LENGTH(CONCAT(REPEAT(s, 9), REPEAT(s, 8), REPEAT(s, 7), REPEAT(s, 6), \
         REPEAT(s, 5), REPEAT(s, 10), REPEAT(s, 11), REPEAT(s, 12)))) FROM t",
        Some("278528000"),
    ),
    ("concat_ws", "SELECT SUM(LENGTH(CONCAT_WS(s, s, s, s, s, REPEAT(s, 50)))) FROM t", None),
    (
        "replace",
        "SELECT SUM(LENGTH(REPLACE(s, 'x', '0123456789012345678901234567890123456789'))) FROM t",
        None,
    ),
    ("insert", "SELECT SUM(LENGTH(INSERT(s, 5, 1, REPEAT(s, 60)))) FROM t", None),
    ("hex", "SELECT SUM(LENGTH(HEX(HEX(HEX(HEX(s)))))) FROM t WHERE id < 4000", Some("64000000")),
    ("quote", "SELECT SUM(LENGTH(QUOTE(REPEAT('\\'', 40000)))) FROM t WHERE id < 1000", None),
    ("to_base64", "SELECT SUM(LENGTH(TO_BASE64(REPEAT(s, 20)))) FROM t", None),
    (
        "make_set",
        "SELECT SUM(LENGTH(MAKE_SET(7, REPEAT(s, 20), REPEAT(s, 21), REPEAT(s, 22)))) FROM t",
        None,
    ),
    ("export_set", "SELECT SUM(LENGTH(EXPORT_SET(5, s, s, ',', 64))) FROM t", None),
    ("elt", "SELECT SUM(LENGTH(ELT(1, REPEAT(s, 60), s))) FROM t", Some("245760000")),
    (
        "regexp_replace",
        "SELECT SUM(LENGTH(REGEXP_REPLACE(s, '^x{5}', REPEAT(s, 200)))) FROM t WHERE id < 1000",
        None,
    ),
    (
        "json_array",
        "SELECT SUM(LENGTH(JSON_ARRAY(REPEAT(s, 100), REPEAT(s, 30)))) FROM t WHERE id < 1000",
        None,
    ),
    (
        "json_object",
        "SELECT SUM(LENGTH(JSON_OBJECT('a', REPEAT(s, 120)))) FROM t WHERE id < 1000",
        None,
    ),
    (
        "json_quote",
        "SELECT SUM(LENGTH(JSON_QUOTE(REPEAT(CHAR(1), 20000 + id)))) FROM t WHERE id < 500",
        None,
    ),
    (
        "json_pretty",
        "SELECT LENGTH(JSON_PRETTY(CONCAT(REPEAT('[', 90), REPEAT('1,', 200000), '1', \
         REPEAT(']', 90))))",
        Some("NULL"),
    ),
    ("json tree", "SELECT JSON_DEPTH(CONCAT('[', REPEAT('{\"a\":1},', 400000), '1]'))", None),
    (
        "json_extract",
        "SELECT LENGTH(JSON_EXTRACT(CONCAT(REPEAT('[', 90), REPEAT('1,', 50000), '1', \
         REPEAT(']', 90)), '$**[*]'))",
        None,
    ),
    ("json_arrayagg", "SELECT LENGTH(JSON_ARRAYAGG(REPEAT(s, 20))) FROM t", None),
    ("group_concat", "SELECT LENGTH(GROUP_CONCAT(REPEAT(s, 60))) FROM t", Some("1048576")),
    (
        "group_concat, ordered",
        "SELECT LENGTH(GROUP_CONCAT(REPEAT(s, 60) ORDER BY id DESC)) FROM t",
        Some("1048576"),
    ),
    (
        "group_concat, distinct",
        "SELECT LENGTH(GROUP_CONCAT(DISTINCT CONCAT(id, REPEAT(s, 60)))) FROM t WHERE id < 3000",
        Some("1048576"),
    ),
    ("max", "SELECT LENGTH(MAX(REPEAT(s, 60))) FROM t", Some("60000")),
    ("filter", "SELECT COUNT(*) FROM t WHERE REPEAT(s, 60) LIKE '%x%7'", Some("409")),
    (
        "join",
        "SELECT COUNT(*) FROM t x JOIN t y ON x.id = y.id AND REPEAT(x.s, 60) <> REPEAT(y.s, 59)",
        Some("4096"),
    ),
    (
        "join of all with all",
        "SELECT COUNT(*) FROM t x JOIN t y ON REPEAT(x.s, y.id * 60) <> y.s WHERE x.id < 1000 AND \
         y.id < 2",
        Some("2000"),
    ),
    ("result", "SELECT REPEAT(s, 60) FROM t LIMIT 3000", None),
    (
        "columns of a row",
        "SELECT REPEAT('a', 4000000), REPEAT('b', 4000000), REPEAT('c', 4000000), REPEAT('d', \
         4000000)",
        None,
    ),
    (
        "constants",
        "SELECT LENGTH(CONCAT(REPEAT('a', 4000000), REPEAT('b', 4000000))), LENGTH(REPEAT('c', \
         4000000)), id FROM t ORDER BY id LIMIT 1",
        None,
    ),
    ("literal", "LITERAL", None),
    (
        "recursive text",
        "WITH RECURSIVE c AS (SELECT CAST('ab' AS CHAR(60000000)) s, 1 n UNION ALL SELECT \
         CONCAT(s, s), n + 1 FROM c WHERE n < 40) SELECT MAX(LENGTH(s)) FROM c",
        None,
    ),
    (
        "recursion",
        "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c",
        None,
    ),
    (
        "recursion in breadth",
        "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c JOIN t WHERE n < 900) \
         SELECT COUNT(*) FROM c",
        None,
    ),
    (
        "letters and parts",
        "SELECT SUM(LENGTH(CONCAT(LOWER(r), UPPER(r), REVERSE(r), LEFT(r, 59000), RIGHT(r, 59000), \
         SUBSTRING_INDEX(r, 'y', 1)))) FROM (SELECT REPEAT(s, 60) r FROM t WHERE id < 300) d",
        Some("107400000"),
    ),
    (
        "there and back",
        "SELECT SUM(LENGTH(CONCAT(UNHEX(HEX(r)), FROM_BASE64(TO_BASE64(r)), MID(r, 2, 59000), \
         TRIM(r), REGEXP_SUBSTR(r, '^.*$')))) \
         FROM (SELECT REPEAT(s, 60) r FROM t WHERE id < 300) d",
        Some("89700000"),
    ),
    (
        "choices",
        "SELECT SUM(LENGTH(CONCAT(COALESCE(r, s), IFNULL(r, s), IF(id < 9999, r, s), NULLIF(r, s), \
         GREATEST(r, s), LEAST(r, 'z')))) \
         FROM (SELECT id, s, REPEAT(s, 60) r FROM t WHERE id < 400) d",
        Some("144000000"),
    ),
    (
        "json_set",
        "SELECT SUM(LENGTH(JSON_SET(JSON_OBJECT('a', r), '$.b', JSON_ARRAY(r, r, r)))) \
         FROM (SELECT REPEAT(s, 60) r FROM t WHERE id < 300) d",
        None,
    ),
    (
        "json_objectagg",
        "SELECT LENGTH(JSON_OBJECTAGG(id, REPEAT(s, 20))) FROM t WHERE id < 2000",
        None,
    ),
    ("cast", "SELECT SUM(LENGTH(CAST(REPEAT(s, 60) AS CHAR))) FROM t", None),
    (
        "case",
        "SELECT SUM(LENGTH(CASE WHEN id % 2 THEN REPEAT(s, 60) ELSE REPEAT(s, 61) END)) FROM t",
        None,
    ),
    (
        "window",
        "SELECT MAX(LENGTH(l)) FROM (SELECT LAG(REPEAT(s, 60)) OVER (ORDER BY id) l FROM t) d",
        None,
    ),
    ("sort", "SELECT id FROM t ORDER BY REPEAT(s, 60), id LIMIT 1", None),
];

fn started(setup: &Setup) -> (Server, Client) {
    let server = setup.start().unwrap();
    let client = Client::connect(server.mysql_port).unwrap();
    (server, client)
}

fn fill(client: &mut Client) {
    client.query("CREATE DATABASE d").unwrap();
    client.query("USE d").unwrap();
    client.query("CREATE TABLE t (id INT, s VARCHAR(2000))").unwrap();
    let text = "x".repeat(995);
    for chunk in (0..ROWS).collect::<Vec<_>>().chunks(512) {
        let rows = chunk.iter().map(|id| format!("({id}, '{text}{id:05}')")).collect::<Vec<_>>();
        client.query(&format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
    }
}

/// A server that returns freed memory at once, so that its resident size is what it uses.
fn frugal(dir: &Path) -> Setup {
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir);
    setup.returning_memory_within(Duration::ZERO)
}

#[test]
fn no_expression_takes_more_than_the_budgets_allow() {
    let dir = tempfile::tempdir().unwrap();
    let setup = frugal(dir.path())
        .with("query_memory", format!("{QUERY_MEMORY_MIB}MiB"))
        .with("write_memory", format!("{WRITE_MEMORY_MIB}MiB"))
        .with("max_allowed_packet", "16MiB");
    let (mut server, mut client) = started(&setup);
    fill(&mut client);
    client.query("SELECT COUNT(*), MAX(s) FROM t").unwrap();
    let before = server.resident_bytes();
    let literal =
        format!("SELECT '{}', IF(id > 5, '{0}', id), id FROM t LIMIT 200", "z".repeat(300_000));
    let mut wrong = Vec::new();
    let mut highest = before;
    for (name, sql, wanted) in STATEMENTS {
        let sql = if *sql == "LITERAL" { &literal } else { *sql };
        let began = std::time::Instant::now();
        let answer = client.query(sql);
        let peak = server.peak_bytes();
        let said = match &answer {
            Ok(rows) => rows[0][0].chars().take(60).collect(),
            Err(failure) => failure.to_string(),
        };
        println!("{name}: {said}, {} MiB, {:?}", peak >> 20, began.elapsed());
        let refused =
            matches!(answer, Err(Failure::Refused { errno: 1038 | 1153 | 1301 | 3636, .. }));
        let right = match (&answer, wanted) {
            (Ok(_), Some(wanted)) => said == *wanted,
            (Ok(_), None) => true,
            (Err(_), _) => refused && wanted.is_none(),
        };
        if !right {
            wrong.push(format!("{name}: {said}"));
        }
        if peak.max(highest) > highest && peak - before > ABOVE_MIB << 20 {
            wrong.push(format!("{name}: {} MiB", peak >> 20));
        }
        highest = highest.max(peak);
        if matches!(answer, Err(Failure::Lost(_) | Failure::Hung)) {
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    server.stop().unwrap();
}

/// Texts whose parse trees would take hundreds of times their size.
fn texts() -> Vec<(&'static str, String, Option<&'static str>)> {
    let mib = 1 << 20;
    let rows = "(1,'a'),".repeat(mib);
    vec![
        ("columns", format!("SELECT 1{}", ",1".repeat(4 * mib)), None),
        ("items", format!("SELECT 1 IN (1{})", ",1".repeat(2 * mib)), None),
        ("blanks", format!("SELECT{}1", " ".repeat(15 * mib)), Some("1")),
        ("hints that stay open", format!("SELECT {}1", "/!TDDL:".repeat(2 * mib)), None),
        ("comments", format!("SELECT {}1", "/**/ ".repeat(3 * mib)), Some("1")),
        ("an expression among literals", format!("INSERT INTO t VALUES {rows}(1 + 1,'b')"), None),
        ("values", format!("VALUES ROW(1){}", ",ROW(1)".repeat(200_000)), None),
    ]
}

#[test]
fn no_text_takes_hundreds_of_times_its_bytes_to_be_parsed() {
    let dir = tempfile::tempdir().unwrap();
    let setup = frugal(dir.path())
        .with("query_memory", format!("{QUERY_MEMORY_MIB}MiB"))
        .with("write_memory", format!("{WRITE_MEMORY_MIB}MiB"));
    let (mut server, mut client) = started(&setup);
    client.query("CREATE DATABASE d").unwrap();
    client.query("USE d").unwrap();
    client.query("CREATE TABLE t (id INT, s VARCHAR(2000))").unwrap();
    let before = server.resident_bytes();
    for (name, sql, wanted) in texts() {
        let answer = client.query(&sql);
        let peak = server.peak_bytes();
        println!("{name}: {} MiB", peak >> 20);
        match (&answer, wanted) {
            (Ok(rows), Some(wanted)) => assert_eq!(rows[0][0], wanted, "{name}"),
            (Err(Failure::Refused { errno: 1038 | 1041 | 3170, .. }), None) => {}
            _ => panic!("{name}: {answer:?}"),
        }
        assert!(peak - before < ABOVE_MIB << 20, "{name}: {} MiB", peak >> 20);
    }
    server.stop().unwrap();
}

/// A JSON array of many small objects, whose encoded rows are larger.
#[test]
fn an_array_of_json_is_read_as_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let setup = frugal(dir.path())
        .with("query_memory", format!("{QUERY_MEMORY_MIB}MiB"))
        .with("write_memory", "64MiB");
    let (mut server, mut client) = started(&setup);
    client.query("CREATE DATABASE d").unwrap();
    let default = "d".repeat(600);
    client.query(&format!("CREATE TABLE d.j (a INT, b VARCHAR(999) DEFAULT '{default}')")).unwrap();
    let before = server.resident_bytes();
    let objects = 400_000;
    let body = format!("[{{\"a\":1}}{}]", ",{\"a\":1}".repeat(objects - 1));
    let headers = [("format", "json"), ("strip_outer_array", "true")];
    let said = stream_load(server.http_port, "/api/d/j/_stream_load", &headers, &body);
    assert!(said.contains("\"Success\""), "{said}");
    assert_eq!(client.number("SELECT COUNT(*) FROM d.j").unwrap(), objects as i64);
    let peak = server.peak_bytes();
    println!("{} MiB", peak >> 20);
    assert!(peak - before < (2 * (64 + QUERY_MEMORY_MIB)) << 20, "{} MiB", peak >> 20);
    server.stop().unwrap();
}

/// Sends a stream load as root; returns the response.
fn stream_load(port: u16, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut head = format!("PUT {path} HTTP/1.1\r\nhost: x\r\nauthorization: Basic cm9vdDo=\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn what_is_too_long_is_null_or_cut_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path())
        .with("max_allowed_packet", "1MiB");
    let (mut server, mut client) = started(&setup);
    fill(&mut client);
    let mut warned = |sql: &str| {
        let rows = client.query(sql).unwrap();
        let warnings = client.query("SHOW WARNINGS").unwrap();
        (rows[0][0].clone(), warnings)
    };
    let (value, warnings) = warned("SELECT REPEAT('a', 1048577)");
    assert_eq!(value, "NULL");
    let message = "Result of repeat() was larger than max_allowed_packet (1048576) - truncated";
    assert_eq!(warnings, [["Warning", "1301", message]]);
    let (value, warnings) = warned("SELECT LENGTH(REPEAT('a', 1048576))");
    assert_eq!((&*value, warnings.len()), ("1048576", 0));
    // One row of several.
    let sql = "SELECT SUM(LENGTH(REPEAT(s, IF(id = 7, 2000, 1)))) FROM t";
    let (value, warnings) = warned(sql);
    assert_eq!((&*value, warnings.len()), ("4095000", 1));
    let mut run = |sql: &str| client.query(sql);
    run("SET group_concat_max_len = 10").unwrap();
    assert_eq!(run("SELECT GROUP_CONCAT(id ORDER BY id) FROM t").unwrap(), [["0,1,2,3,4,"]]);
    let warnings = run("SHOW WARNINGS").unwrap();
    assert_eq!(warnings, [["Warning", "1260", "Row 6 was cut by GROUP_CONCAT()"]]);
    // A strict mode refuses truncated values.
    run("CREATE TABLE u (s TEXT)").unwrap();
    let stored = run("INSERT INTO u SELECT REPEAT('a', 1048577)").unwrap_err();
    assert!(matches!(stored, Failure::Refused { errno: 1301, .. }), "{stored}");
    let stored = run("INSERT INTO u VALUES (REPEAT('a', 1048577))").unwrap_err();
    assert!(matches!(stored, Failure::Refused { errno: 1301, .. }), "{stored}");
    run("SET cte_max_recursion_depth = 10").unwrap();
    let deep = |levels: u32| {
        format!(
            "WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < {levels}) \
             SELECT COUNT(*) FROM c"
        )
    };
    assert_eq!(run(&deep(10)).unwrap(), [["10"]]);
    let refused = run(&deep(11)).unwrap_err();
    assert!(matches!(refused, Failure::Refused { errno: 3636, .. }), "{refused}");
    server.stop().unwrap();
}
