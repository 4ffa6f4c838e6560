//! The demo: loads lineitem by INSERT and a web server's log by Stream Load at the same time over
//! many connections, with progress on screen, then runs queries on the rows.

mod load;
mod questions;
mod screen;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use hdrhistogram::Histogram;
use parking_lot::Mutex;

use crate::session::Session;
use crate::table::{self, Table};
use crate::target::Target;
use screen::Screen;

/// Connections that insert into lineitem.
const SQL_CONNECTIONS: usize = 24;
/// Connections that load the log.
const HTTP_CONNECTIONS: usize = 6;
/// The rows of lineitem at scale 1, and of the log loaded with it.
const LINEITEM_ROWS: f64 = 6_001_215.0;
const HTTPLOGS_ROWS: f64 = 3_000_000.0;

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    /// Scale factor: 1 is six million rows of lineitem and three million of the log.
    pub scale: f64,
}

/// The progress of one of the two loads.
pub struct Stream {
    name: &'static str,
    rows_planned: u64,
    rows: AtomicU64,
    bytes: AtomicU64,
    commit_micros: Mutex<Histogram<u64>>,
}

impl Stream {
    fn new(name: &'static str, rows_planned: f64) -> Self {
        Self {
            name,
            rows_planned: rows_planned as u64,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            commit_micros: Mutex::new(histogram()),
        }
    }

    /// Counts an acknowledged request.
    fn count(&self, rows: u64, bytes: u64, latency: Duration) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.commit_micros.lock().saturating_record(latency.as_micros() as u64);
    }
}

/// From a microsecond to a minute, with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds that are allowed")
}

/// Runs the demo.
pub fn run(plan: &Plan) -> Result<(), String> {
    let mut session = Session::open(&plan.target)?;
    let tables = [table::lineitem(), table::httplogs()];
    recreate(&mut session, &plan.target, &tables)?;
    load_all(plan)?;
    for table in &tables {
        let rows = session.count(&table.name)?.unwrap_or_default();
        println!("{:9} {} rows are readable", table.name, screen::thousands(rows));
    }
    questions::ask(&mut session)
}

fn recreate(session: &mut Session, target: &Target, tables: &[Table]) -> Result<(), String> {
    for statement in tables.iter().flat_map(|table| table.recreate(target.dialect)) {
        session.query(&statement)?;
    }
    Ok(())
}

fn load_all(plan: &Plan) -> Result<(), String> {
    let lineitem = Stream::new("lineitem", LINEITEM_ROWS * plan.scale);
    let httplogs = Stream::new("httplogs", HTTPLOGS_ROWS * plan.scale);
    let (lineitem, httplogs) = (Arc::new(lineitem), Arc::new(httplogs));
    println!(
        "loading lineitem by INSERT over {SQL_CONNECTIONS} connections, httplogs by Stream Load \
         over {HTTP_CONNECTIONS}; each acknowledged request is durable and readable"
    );
    let clock = SystemClock::new();
    let began = clock.now();
    let workers = load::start(plan, &lineitem, &httplogs);
    let mut screen = Screen::new(vec![lineitem, httplogs]);
    while workers.iter().any(|worker| !worker.is_finished()) {
        screen.pause();
        screen.show((clock.now() - began).as_secs_f64());
    }
    for worker in workers {
        worker.join().map_err(|_| "a connection's thread panicked".to_owned())??;
    }
    screen.end((clock.now() - began).as_secs_f64());
    Ok(())
}
