//! Deeply nested statements are answered or refused, and the server survives.

use crate::TestServer;

#[test]
fn long_chains_are_answered() {
    let server = TestServer::start();
    let mut client = server.connect();
    let any = (0..1_000).map(|x| format!("x = {x}")).collect::<Vec<_>>().join(" OR ");
    assert_eq!(client.one(&format!("SELECT COUNT(*) FROM (SELECT 999 AS x) t WHERE {any}")), "1");
    let all = (0..1_000).map(|x| format!("x <> {x}")).collect::<Vec<_>>().join(" AND ");
    assert_eq!(client.one(&format!("SELECT COUNT(*) FROM (SELECT 999 AS x) t WHERE {all}")), "0");
    let union = (0..200).map(|x| format!("SELECT {x}")).collect::<Vec<_>>();
    let rows = client.rows(&union.join(" UNION ALL "));
    assert_eq!(rows.rows.len(), 200);
    let parts = union.chunks(2).map(|pair| pair.join(" EXCEPT ")).collect::<Vec<_>>();
    let rows = client.rows(&parts[..20].join(" UNION "));
    assert_eq!(rows.rows.len(), 20);
}

#[test]
fn long_sums_are_planned_fast_and_exact() {
    let server = TestServer::start();
    let mut client = server.connect();
    let sum = |term: &str, count| {
        format!("SELECT {} FROM (SELECT 7 AS x) t", vec![term; count].join(" + "))
    };
    assert_eq!(client.one(&sum("x", 300)), "2100");
    assert_eq!(client.one(&sum("x * 0.5e0", 100)), "350");
    assert_eq!(client.one(&sum("(x = 7)", 100)), "100");
    let both = format!("SELECT {0} = {0} FROM (SELECT 7 AS x) t", vec!["x"; 100].join(" + "));
    assert_eq!(client.one(&both), "1");
}

#[test]
fn deeper_than_the_stack_is_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (part, joined) in [("1", " + "), ("1", " OR "), ("SELECT 1", " UNION ALL ")] {
        let sql = vec![part; 20_000].join(joined);
        let sql = if part == "1" { format!("SELECT {sql}") } else { sql };
        assert_eq!(client.fails(&sql).errno, 1436, "{joined}");
    }
    let parentheses = "(".repeat(100_000);
    assert_eq!(client.fails(&format!("SELECT {parentheses}")).errno, 1064);
    assert_eq!(client.one("SELECT 1"), "1");
}

#[test]
fn deep_nested_values_and_types_are_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run("CREATE DATABASE deep");
    client.run("CREATE TABLE deep.t (id INT, a ARRAY<INT>, v VARIANT)");
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    for sql in [
        format!("SELECT {open}1{close}"),
        format!("SELECT {}1{}", "{1:".repeat(50_000), "}".repeat(50_000)),
        format!("SELECT {}1{}", "array(".repeat(50_000), ")".repeat(50_000)),
        format!("SELECT a{} FROM deep.t", "[1]".repeat(50_000)),
        format!("INSERT INTO deep.t VALUES (1, {open}1{close}, NULL)"),
        format!("INSERT INTO deep.t VALUES (1, '{open}', NULL)"),
        format!("INSERT INTO deep.t VALUES (1, NULL, '{open}1{close}')"),
        format!("CREATE TABLE deep.u (a {}INT{})", "ARRAY<".repeat(50_000), ">".repeat(50_000)),
        format!("CREATE TABLE deep.u (a {}INT)", "STRUCT<a:".repeat(50_000)),
        format!("SELECT CAST('[]' AS {}INT{})", "ARRAY<".repeat(50_000), ">".repeat(50_000)),
    ] {
        let shown = sql.chars().take(60).collect::<String>();
        let failed = client.fails(&sql);
        assert!(failed.errno > 0, "{shown}");
        assert_eq!(client.one("SELECT 1"), "1", "{shown}");
    }
    // As deep as expressions may be, they are answered.
    let list = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    assert_eq!(client.one(&format!("SELECT {list}")), list);
    let long = vec!["1"; 4_000].join(", ");
    assert_eq!(client.one(&format!("SELECT [{long}]")), format!("[{long}]"));
}
