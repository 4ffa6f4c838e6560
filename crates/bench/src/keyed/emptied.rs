//! How long it takes to empty a table, and to read it once.

use freshet_base::clock::{Clock, SystemClock};

use super::load;
use crate::rounds::{self, Round};
use crate::session::MysqlSession;
use crate::target::Target;

const TABLE: &str = "sbtest_emptied";

/// Statements with the table in place of `{}`, and how many runs there are of each load.
const STATEMENTS: [(&str, &str); 5] = [
    ("scan", "SELECT SUM(k), COUNT(c) FROM {}"),
    ("TRUNCATE", "TRUNCATE TABLE {}"),
    ("DELETE of half", "DELETE FROM {} WHERE k % 2 = 0"),
    ("DELETE", "DELETE FROM {}"),
    ("DROP", "DROP TABLE {}"),
];

/// Measures a table of so many rows, and prints the times.
///
/// # Errors
/// What a server refuses.
pub fn measure(targets: &[Target], rows: u64, count: usize) -> Result<(), String> {
    for (name, statement) in STATEMENTS {
        let name = format!("{name}, {rows} rows");
        rounds::measure(&name, targets, count, |target, _| {
            load(target, TABLE, rows)?;
            let mut session = MysqlSession::open(target)?;
            let clock = SystemClock::new();
            let began = clock.now();
            session.query(&statement.replace("{}", TABLE))?;
            let took = clock.now().saturating_sub(began).as_secs_f64();
            Ok(Round { per_second: 1.0 / took, p50_ms: took * 1e3, p99_ms: took * 1e3 })
        })?;
    }
    Ok(())
}
