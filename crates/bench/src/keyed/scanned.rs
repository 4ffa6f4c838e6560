//! A scan of a table with a primary key beside the same rows without one: while all rows are alive,
//! and when a tenth of them is dead.

use freshet_base::clock::{Clock, SystemClock};

use super::{COLUMNS, load};
use crate::rounds::median;
use crate::session::MysqlSession;
use crate::table::Dialect;
use crate::target::Target;

const KEYED: &str = "sbtest_scanned";
const PLAIN: &str = "sbtest_plain";

/// Measures tables of so many rows, and prints seconds and the ratio of rates.
///
/// # Errors
/// What a server refuses.
pub fn measure(targets: &[Target], rows: u64, count: usize) -> Result<(), String> {
    for target in targets {
        load(target, KEYED, rows)?;
        let mut session = MysqlSession::open(target)?;
        session.query(&format!("DROP TABLE IF EXISTS {PLAIN}"))?;
        let form = match target.dialect {
            Dialect::Freshet => " DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1",
            _ => "",
        };
        session.query(&format!("CREATE TABLE {PLAIN} ({COLUMNS}){form}"))?;
        session.query(&format!("INSERT INTO {PLAIN} SELECT * FROM {KEYED}"))?;
        compare(&mut session, &format!("scan, {rows} rows, none dead"), target, count)?;
        session.query(&format!("DELETE FROM {KEYED} WHERE id % 10 = 0"))?;
        compare(&mut session, &format!("scan, {rows} rows, a tenth dead"), target, count)?;
        session.query(&format!("DROP TABLE {KEYED}, {PLAIN}"))?;
    }
    Ok(())
}

/// Prints the rates of scans of the table without and of that with a key, in turn.
fn compare(
    session: &mut MysqlSession,
    point: &str,
    target: &Target,
    count: usize,
) -> Result<(), String> {
    let (mut plain, mut keyed) = (Vec::new(), Vec::new());
    // The first of each finds files that are not in memory, and is not counted.
    for round in 0..=count {
        for (table, times) in [(PLAIN, &mut plain), (KEYED, &mut keyed)] {
            let clock = SystemClock::new();
            let began = clock.now();
            session.query(&format!("SELECT SUM(k), MAX(c) FROM {table}"))?;
            let took = clock.now().saturating_sub(began).as_secs_f64();
            if round > 0 {
                times.push(took);
            }
        }
    }
    let (plain, keyed) = (median(plain.into_iter()), median(keyed.into_iter()));
    let ratio = plain / keyed;
    println!("{point:36} {:12} plain {plain:.3} s, keyed {keyed:.3} s, {ratio:.2}", target.name);
    Ok(())
}
