//! Nested values under `kill -9`: what was acknowledged is there, in memory and in files, under an
//! older and a newer schema.

use super::*;

/// A row as it is inserted and as it is shown, out of its number.
fn row(id: u64) -> (String, String) {
    let list = (0..id % 5).map(|at| (id + at).to_string()).collect::<Vec<_>>().join(", ");
    let fields = format!("{{\"a\":{id}, \"b\":\"x\\\"{}\"}}", id % 7);
    let shown = format!("[{list}]|{{\"k{id}\":null, \"l\":[{list}]}}|{fields}");
    (shown.split('|').map(text).collect::<Vec<_>>().join(", "), shown)
}

/// A text in SQL.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\"))
}

fn look(client: &mut Client, acknowledged: u64) {
    let sql = "SELECT id, CONCAT_WS('|', l, m, s) FROM n.n ORDER BY id";
    let seen = client.query(sql).unwrap();
    assert!(seen.len() as u64 >= acknowledged, "{} of {acknowledged} rows", seen.len());
    for (id, cells) in (0..).zip(&seen) {
        assert_eq!((&cells[0], &cells[1]), (&id.to_string(), &row(id).1));
    }
}

#[test]
fn nested_values_survive_kill_9() {
    let world = world();
    let mut acknowledged = 0;
    for life in 0..6 {
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        if life == 0 {
            client.query("CREATE DATABASE n").unwrap();
            client
                .query(
                    "CREATE TABLE n.n (id BIGINT, l ARRAY<BIGINT>, \
                     m MAP<VARCHAR(20),ARRAY<BIGINT>>, s STRUCT<a:BIGINT,b:STRING>) \
                     DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 2",
                )
                .unwrap();
        }
        look(&mut client, acknowledged);
        for _ in 0..20 {
            let rows = (0..50).map(|_| {
                acknowledged += 1;
                format!("({}, {})", acknowledged - 1, row(acknowledged - 1).0)
            });
            let rows = rows.collect::<Vec<_>>().join(",");
            client.query(&format!("INSERT INTO n.n (id, l, m, s) VALUES {rows}")).unwrap();
        }
        match life {
            1 => _ = client.query("FLUSH TABLES n.n").unwrap(),
            3 => {
                client.query("ALTER TABLE n.n ADD COLUMN x ARRAY<INT> DEFAULT '[7]'").unwrap();
            }
            _ => {}
        }
        server.kill();
    }
    world.end("n.n", |client| {
        look(client, acknowledged);
        let sevens = client.number("SELECT COUNT(*) FROM n.n WHERE x[1] = 7").unwrap();
        assert_eq!(sevens as u64, acknowledged);
    });
}
