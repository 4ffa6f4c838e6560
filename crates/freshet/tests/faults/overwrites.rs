//! INSERT OVERWRITE under `kill -9` (RFC 0049): afterwards a table, or a partition, has the rows of
//! the statement that was acknowledged last, or those of the next one, and never some of both;
//! other partitions have what their writer has. A label is used exactly if the rows of its
//! statement are there.

use std::sync::Arc;

use super::*;

const CRASHES: u64 = 10;
const ROWS: u64 = 30;
const LOAD: Load = Load { ms: 300..1200, work_min: 20 };
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 4] = [
    ("rewrite-exchange", 4),
    ("barrier-durable", 4),
    ("flush-after-publish", 2),
    ("flush-before-write", 4),
];
/// A table that is overwritten as a whole, and one of which a partition is.
const TABLES: [(&str, &str); 2] = [
    (
        "CREATE TABLE o.whole (turn INT, n INT) DUPLICATE KEY(turn) DISTRIBUTED BY HASH(n) \
         BUCKETS 2",
        "INSERT OVERWRITE TABLE o.whole WITH LABEL `whole-{}`",
    ),
    (
        "CREATE TABLE o.part (turn INT, n INT) UNIQUE KEY(turn, n) PARTITION BY RANGE (turn) \
         (PARTITION others VALUES LESS THAN (0), PARTITION turns VALUES LESS THAN MAXVALUE) \
         DISTRIBUTED BY HASH(n) BUCKETS 2",
        "INSERT OVERWRITE TABLE o.part PARTITION (turns) WITH LABEL `part-{}`",
    ),
];

/// The turns of a table that were sent and acknowledged.
#[derive(Clone, Copy, Default)]
struct Turns {
    sent: u64,
    done: u64,
}

fn overwrite(port: u16, head: &str, mut turns: Turns, done: &AtomicU64) -> Turns {
    let Ok(mut client) = Client::connect(port) else { return turns };
    loop {
        turns.sent += 1;
        let turn = turns.sent;
        let head = head.replace("{}", &turn.to_string());
        let sql = match turn % 2 {
            0 => format!("{head} SELECT {turn}, n FROM o.source"),
            _ => {
                let rows = (0..ROWS).map(|n| format!("({turn}, {n})")).collect::<Vec<_>>();
                format!("{head} VALUES {}", rows.join(", "))
            }
        };
        match client.query(&sql) {
            Ok(_) => turns.done = turn,
            Err(Failure::Lost(_)) => return turns,
            Err(error) => panic!("{sql}: {error}"),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Inserts into the other partition; returns how many rows were acknowledged, and how many sent.
fn insert(port: u16, (mut acknowledged, sent): (u64, u64)) -> (u64, u64) {
    let Ok(mut client) = Client::connect(port) else { return (acknowledged, sent) };
    for row in sent + 1.. {
        match client.query(&format!("INSERT INTO o.part VALUES (-1, {row})")) {
            Ok(_) => acknowledged += 1,
            Err(Failure::Lost(_)) => return (acknowledged, row),
            Err(error) => panic!("row {row}: {error}"),
        }
    }
    unreachable!("the server dies before")
}

fn compare(client: &mut Client, turns: &mut [Turns], (acknowledged, sent): (u64, u64)) {
    for (table, turns) in ["whole", "part"].into_iter().zip(turns) {
        let sql = format!(
            "SELECT MIN(turn), MAX(turn), COUNT(*), COUNT(DISTINCT n) FROM o.{table} WHERE turn > 0"
        );
        let row = client.query(&sql).unwrap().remove(0);
        if turns.sent == 0 {
            continue;
        }
        if row[2] == "0" {
            assert_eq!(turns.done, 0, "{table} has lost turn {}", turns.done);
            continue;
        }
        assert_eq!(row[0], row[1], "{table} has rows of several turns");
        assert_eq!((&row[2], &row[3]), (&ROWS.to_string(), &ROWS.to_string()), "{table}");
        let turn: u64 = row[0].parse().unwrap();
        assert!((turns.done..=turns.sent).contains(&turn), "{table}: {turn}, not {}", turns.done);
        for (turn, is_used) in [(turn, true), (turn + 1, false)] {
            let sql = format!("SHOW TRANSACTION FROM o WHERE Label = '{table}-{turn}'");
            assert_eq!(!client.query(&sql).unwrap().is_empty(), is_used, "{table}: {turn}");
        }
        turns.done = turn;
    }
    let others = client.number("SELECT COUNT(*) FROM o.part WHERE turn < 0").unwrap();
    let others = u64::try_from(others).unwrap();
    assert!((acknowledged..=sent).contains(&others), "{others} of {acknowledged} rows");
    assert_eq!(client.query("SHOW TABLES FROM o").unwrap(), [["part"], ["source"], ["whole"]]);
}

#[test]
fn what_is_overwritten_is_old_or_new() {
    let world = world();
    let mut turns = [Turns::default(); 2];
    let mut rows = (0, 0);
    let mut random = StdRng::seed_from_u64(49);
    let done = Arc::new(AtomicU64::new(0));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE o").unwrap();
                client.query("CREATE TABLE o.source (n INT)").unwrap();
                let all = (0..ROWS).map(|n| format!("({n})")).collect::<Vec<_>>();
                client.query(&format!("INSERT INTO o.source VALUES {}", all.join(", "))).unwrap();
                TABLES.iter().for_each(|(create, _)| drop(client.query(create).unwrap()));
            }
            compare(client, &mut turns, rows);
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let running = turns.into_iter().zip(TABLES).map(|(turns, (_, head))| {
            let done = Arc::clone(&done);
            thread::spawn(move || overwrite(port, head, turns, &done))
        });
        let running = running.collect::<Vec<_>>();
        let inserting = thread::spawn(move || insert(port, rows));
        end_life(server, crash, LOAD, &done, &mut random);
        for (turns, running) in turns.iter_mut().zip(running) {
            *turns = running.join().unwrap();
        }
        rows = inserting.join().unwrap();
    }
    assert!(turns.iter().all(|turns| turns.done > 20), "too little was overwritten");
    world.end("o.part", |client| compare(client, &mut turns, rows));
}
