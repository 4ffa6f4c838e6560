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
