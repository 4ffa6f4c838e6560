//! A primary key under `kill -9`: transfers between accounts change two rows in a transaction, some
//! remove an account and open another one with its balance. Whoever reads finds the sum unchanged,
//! and after each start it holds what was acknowledged.

use std::sync::Arc;

use super::*;

const WRITERS: u64 = 4;
const ACCOUNTS: i64 = 12;
const BALANCE: i64 = 100;
const CRASHES: u64 = 8;
const LOAD: Load = Load { ms: 150..800, work_min: 8 };
const FAILPOINTS: [Failpoint; 4] = [
    ("marks-written", 3),
    ("flush-after-publish", 2),
    ("compaction-before-publish", 1),
    ("flush-after-write", 2),
];
/// A transfer that was rolled back for another one.
const ROLLED_BACK: [&str; 2] = ["1213", "1205"];

/// One transfer; `false` when the server is gone.
fn transfer(client: &mut Client, random: &mut StdRng) -> Result<bool, Failure> {
    let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
    let amount = random.random_range(1..5);
    client.query("BEGIN")?;
    client.query(&format!("UPDATE b.b SET v = v - {amount} WHERE k = {from}"))?;
    if random.random_bool(0.2) {
        // The account is closed, and opened again with what it had.
        let rows = client.query(&format!("SELECT v FROM b.b WHERE k = {to}"))?;
        let balance = rows[0][0].parse::<i64>().unwrap() + amount;
        let removed = format!("DELETE FROM b.b WHERE k = {to} AND v = {}", balance - amount);
        client.query(&removed)?;
        client.query(&format!("INSERT INTO b.b VALUES ({to}, {balance})"))?;
    } else {
        client.query(&format!("UPDATE b.b SET v = v + {amount} WHERE k = {to}"))?;
    }
    if random.random_bool(0.1) {
        client.query("ROLLBACK")?;
        return Ok(false);
    }
    client.query("COMMIT")?;
    Ok(true)
}

/// Transfers until the server dies; counts those that were acknowledged.
fn write(port: u16, seed: u64, done: &AtomicU64) {
    let Ok(mut client) = Client::connect(port) else { return };
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        match transfer(&mut client, &mut random) {
            Ok(committed) => {
                done.fetch_add(u64::from(committed), Ordering::Relaxed);
            }
            Err(failure) => {
                let text = failure.to_string();
                let is_over =
                    ROLLED_BACK.iter().any(|code| text.contains(code)) || text.contains("1062");
                if !is_over || client.query("ROLLBACK").is_err() {
                    return;
                }
            }
        }
        if random.random_range(0..30) == 0 && client.query("FLUSH TABLES b.b").is_err() {
            return;
        }
    }
}

const SUM: &str = "SELECT COUNT(*), SUM(v) FROM b.b";

fn check(rows: &[Vec<String>]) {
    let expected = vec![ACCOUNTS.to_string(), (ACCOUNTS * BALANCE).to_string()];
    assert_eq!(rows, [expected], "money was made or lost");
}

fn read(port: u16) {
    let Ok(mut client) = Client::connect(port) else { return };
    while let Ok(rows) = client.query(SUM) {
        check(&rows);
    }
}

#[test]
fn transfers_between_accounts_keep_their_sum_over_crashes() {
    let world = world();
    let mut random = StdRng::seed_from_u64(517);
    let done = Arc::new(AtomicU64::new(0));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE b").unwrap();
                client.query("CREATE TABLE b.b (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)").unwrap();
                let rows = (0..ACCOUNTS).map(|account| format!("({account}, {BALANCE})"));
                let rows = rows.collect::<Vec<_>>().join(",");
                client.query(&format!("INSERT INTO b.b VALUES {rows}")).unwrap();
            }
            check(&client.query(SUM).unwrap());
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let running = (0..WRITERS).map(|_| {
            let (seed, done) = (random.random(), Arc::clone(&done));
            thread::spawn(move || write(port, seed, &done))
        });
        let running = running.collect::<Vec<_>>();
        let reader = thread::spawn(move || read(port));
        end_life(server, crash, LOAD, &done, &mut random);
        running.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
    }
    let done = done.load(Ordering::Relaxed);
    assert!(done > 20, "{done} transfers are no test");
    world.end("b.b", |client| check(&client.query(SUM).unwrap()));
}
