//! REPLACE PARTITION and EXCHANGE PARTITION under `kill -9`: a partition has the rows of one whole
//! generation, the one that was acknowledged last or the one behind it, and rows that two tables
//! exchange are in exactly one of them.

use std::sync::Arc;

use super::*;

const CRASHES: u64 = 6;
const ROWS: u64 = 50;
const TABLES: [&str; 4] = [
    "CREATE TABLE e.t (k INT NOT NULL, id INT NOT NULL, v BIGINT) UNIQUE KEY(k, id) \
     PARTITION BY RANGE(k) (PARTITION p VALUES [(\"0\"), (\"10\")), \
     PARTITION q VALUES [(\"10\"), (\"20\"))) DISTRIBUTED BY HASH(id) BUCKETS 2",
    "CREATE TABLE e.m (k INT, id INT, v BIGINT, PRIMARY KEY (k, id), UNIQUE KEY u (k, v)) \
     PARTITION BY RANGE (k) (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN (20))",
    "CREATE TABLE e.n (k INT, id INT, v BIGINT, PRIMARY KEY (k, id), UNIQUE KEY u (k, v))",
    "CREATE TABLE e.w (id INT PRIMARY KEY)",
];

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    generation: AtomicU64,
    written: AtomicU64,
}

fn rows_of(k: u64, generation: u64) -> String {
    let row = |id| format!("({k}, {id}, {})", generation * 1000 + id);
    (0..ROWS).map(row).collect::<Vec<_>>().join(", ")
}

/// Loads one generation after the other into a temporary partition, which becomes p; the tables m
/// and n exchange their rows in between.
fn replace(port: u16, done: &Acknowledged) -> Result<(), Failure> {
    let mut client = Client::connect(port)?;
    loop {
        let next = done.generation.load(Ordering::SeqCst) + 1;
        client.query("ALTER TABLE e.t DROP TEMPORARY PARTITION IF EXISTS tp")?;
        client.query("ALTER TABLE e.t ADD TEMPORARY PARTITION tp VALUES [(\"0\"), (\"10\"))")?;
        let rows = rows_of(5, next);
        client.query(&format!("INSERT INTO e.t TEMPORARY PARTITION (tp) VALUES {rows}"))?;
        client.query("ALTER TABLE e.t REPLACE PARTITION (p) WITH TEMPORARY PARTITION (tp)")?;
        done.generation.store(next, Ordering::SeqCst);
        client.query("ALTER TABLE e.m EXCHANGE PARTITION p WITH TABLE e.n")?;
        client.query("UPDATE e.m SET v = v + 100000 WHERE id = 7")?;
        if next.is_multiple_of(3) {
            client.query("FLUSH TABLES e.t, e.m, e.n")?;
        }
    }
}

/// Writes rows into the other partition all the time.
fn write(port: u16, done: &Acknowledged) -> Result<(), Failure> {
    let mut client = Client::connect(port)?;
    loop {
        let id = done.written.load(Ordering::SeqCst);
        client.query(&format!("INSERT INTO e.t VALUES (15, {id}, {id})"))?;
        done.written.store(id + 1, Ordering::SeqCst);
    }
}

fn check(client: &mut Client, done: &Acknowledged) {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let sql = "SELECT COUNT(*), COUNT(DISTINCT id), MIN(v) DIV 1000, MAX(v) DIV 1000 \
               FROM e.t PARTITION (p)";
    let row = client.query(sql).unwrap().remove(0);
    assert_eq!(row[..2], [ROWS.to_string(), ROWS.to_string()], "{row:?}");
    assert_eq!(row[2], row[3], "rows of two generations: {row:?}");
    let (shown, acknowledged) = (number(&row[2]), done.generation.load(Ordering::SeqCst));
    let is_next = shown == acknowledged || shown == acknowledged + 1;
    assert!(is_next, "generation {shown} is there, {acknowledged} was acknowledged");
    done.generation.store(shown, Ordering::SeqCst);
    let written = client.query("SELECT COUNT(*) FROM e.t PARTITION (q)").unwrap();
    let (there, acknowledged) = (number(&written[0][0]), done.written.load(Ordering::SeqCst));
    assert!(there == acknowledged || there == acknowledged + 1, "{there} of {acknowledged}");
    done.written.store(there, Ordering::SeqCst);
    for table in ["m", "n"] {
        let sql = format!("SELECT COUNT(*), MIN(v % 100000) DIV 1000 FROM e.{table}");
        let row = client.query(&sql).unwrap().remove(0);
        assert_eq!(row[0], ROWS.to_string(), "rows of {table}");
    }
    let sql = "SELECT COUNT(DISTINCT g) FROM (SELECT MIN(v % 100000) DIV 1000 g FROM e.m UNION ALL \
               SELECT MIN(v % 100000) DIV 1000 FROM e.n) x";
    assert_eq!(client.query(sql).unwrap(), [["2"]], "each has the rows of the other");
}

#[test]
fn exchanged_partitions_are_whole_behind_kill() {
    let World { _dir, setup } = world();
    let done = Arc::new(Acknowledged::default());
    let mut chance = StdRng::seed_from_u64(11);
    for life in 0..=CRASHES {
        let mut server = setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        if life == 0 {
            client.query("CREATE DATABASE e").unwrap();
            TABLES.iter().for_each(|table| drop(client.query(table).unwrap()));
            client.query(&format!("INSERT INTO e.t VALUES {}", rows_of(5, 0))).unwrap();
            client.query(&format!("INSERT INTO e.m VALUES {}", rows_of(5, 1))).unwrap();
            client.query(&format!("INSERT INTO e.n VALUES {}", rows_of(5, 2))).unwrap();
        }
        check(&mut client, &done);
        if life == CRASHES {
            break;
        }
        let (port, before) = (server.mysql_port, done.generation.load(Ordering::SeqCst));
        let replacing = {
            let done = Arc::clone(&done);
            thread::spawn(move || replace(port, &done))
        };
        let writing = {
            let done = Arc::clone(&done);
            thread::spawn(move || write(port, &done))
        };
        let began = Instant::now();
        while done.generation.load(Ordering::SeqCst) < before + 3 {
            assert!(began.elapsed() < END_PATIENCE, "nothing is replaced");
            if replacing.is_finished() {
                panic!("{:?}", replacing.join().unwrap());
            }
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(chance.random_range(0..400)));
        server.kill();
        drop((replacing.join().unwrap(), writing.join().unwrap()));
    }
    setup.check_files().unwrap();
}

#[test]
fn temporary_partitions_are_emptied_with_their_table() {
    let World { _dir, setup } = world();
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE e").unwrap();
    client.query(TABLES[0]).unwrap();
    let temporary = "ALTER TABLE e.t ADD TEMPORARY PARTITION tp VALUES [(\"0\"), (\"10\"))";
    client.query(temporary).unwrap();
    client.query("INSERT INTO e.t VALUES (1, 1, 1)").unwrap();
    client.query("INSERT INTO e.t TEMPORARY PARTITION (tp) VALUES (2, 2, 2)").unwrap();
    server.stop().unwrap();
    // It dies between the record of the TRUNCATE and the one that drops them.
    let mut server = setup.clone().with("failpoints", "barrier-durable=abort@0").spawn().unwrap();
    server.wait_ready().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert!(client.query("TRUNCATE TABLE e.t").is_err(), "the server has died");
    server.kill();
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    for from in ["e.t", "e.t TEMPORARY PARTITION (tp)"] {
        let count = client.number(&format!("SELECT COUNT(*) FROM {from}")).unwrap();
        assert_eq!(count, 0, "{from}");
    }
    client.query("TRUNCATE TABLE e.t").unwrap();
    client.query(temporary).unwrap();
    server.stop().unwrap();
    setup.check_files().unwrap();
}
