//! Clients that speak the protocol of MySQL wrongly: a crowd of them logs in, with and without TLS,
//! and sends commands that are right but for something: a length, a sequence, a type, a byte, an
//! end in the middle. Meanwhile a neighbour works, who must not notice.

mod commands;
mod mutation;
mod session;
mod statements;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::client::Client;
use crate::server::{Server, Setup};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    pub setup: Setup,
    /// Seeds all random decisions.
    pub seed: u64,
    pub time: Duration,
    /// Clients at once.
    pub clients: u64,
}

/// How long the neighbour may wait for an answer.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(30);
/// How long the server may take to forget the connections of clients that are gone.
const GOODBYE: Duration = Duration::from_secs(60);
/// The time after which memory and descriptors are what they should stay.
const WARM: Duration = Duration::from_secs(120);
/// What the process may grow by from then on.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// The tables of the hostile clients are emptied so often.
const TIDY_INTERVAL: Duration = Duration::from_secs(10);

/// What clients count and share.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    sessions: AtomicU64,
    encrypted: AtomicU64,
    logged_in: AtomicU64,
    commands: AtomicU64,
}

/// Runs hostile clients.
///
/// # Errors
/// How the server died, who was not served, or what grew.
pub fn run(options: &Options) -> Result<String, String> {
    let mut server = options.setup.start()?;
    prepare(server.mysql_port)?;
    let tls = transport::trust(&options.setup.data_dir.join("tls/ca.pem"))?;
    let shared = Arc::new(Shared::default());
    let clients = (0..options.clients).map(|number| {
        let (shared, tls) = (Arc::clone(&shared), Arc::clone(&tls));
        let port = server.mysql_port;
        let mut random = StdRng::seed_from_u64(options.seed.wrapping_mul(1000) + number);
        thread::spawn(move || {
            while !shared.is_over.load(Ordering::Acquire) {
                session::run(port, &tls, &shared, &mut random);
            }
        })
    });
    let clients = clients.collect::<Vec<_>>();
    let watched = watch(options, &mut server);
    shared.is_over.store(true, Ordering::Release);
    let joined = clients
        .into_iter()
        .try_for_each(|client| client.join().map_err(|_| "a hostile client panicked".to_owned()));
    let rows = watched?;
    joined?;
    forgotten(&server)?;
    let said = server.said();
    if said.contains("panicked") {
        return Err(format!("the server panicked: {said}"));
    }
    server.stop()?;
    options.setup.check_files()?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(format!(
        "{} s, {} connections ({} of them encrypted, {} logged in), {} commands; {rows} rows of \
         the neighbour",
        options.time.as_secs(),
        count(&shared.sessions),
        count(&shared.encrypted),
        count(&shared.logged_in),
        count(&shared.commands),
    ))
}

/// The tables and accounts of both sides.
fn prepare(port: u16) -> Result<(), String> {
    let mut root = Client::connect(port).map_err(|e| e.to_string())?;
    let hostile = session::USERS.iter().flat_map(|(user, password)| {
        [
            format!("CREATE USER {user} IDENTIFIED BY '{password}'"),
            format!("GRANT ALL ON hostile.* TO {user}"),
        ]
    });
    let tables = ["CREATE DATABASE hostile", "CREATE DATABASE neighbour"].map(str::to_owned);
    let tables = tables.into_iter().chain(statements::TABLES.map(str::to_owned));
    let own = ["CREATE TABLE neighbour.t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)".to_owned()];
    for sql in tables.chain(hostile).chain(own) {
        root.query(&sql).map_err(|e| format!("{sql}: {e}"))?;
    }
    Ok(())
}

/// Works beside the hostile clients for the whole time; returns the rows that were written.
fn watch(options: &Options, server: &mut Server) -> Result<u64, String> {
    let began = Instant::now();
    let failed = |e| format!("the neighbour was not served: {e}");
    let mut neighbour = Client::connect(server.mysql_port).map_err(failed)?;
    let (mut rows, mut tidied, mut warm) = (0_u64, Instant::now(), None);
    while began.elapsed() < options.time {
        let asked = Instant::now();
        let sql = format!("INSERT INTO neighbour.t VALUES ({rows}, {rows})");
        neighbour.query(&sql).map_err(|e| died(server, &failed(e)))?;
        rows += 1;
        let count = neighbour.number("SELECT COUNT(*) FROM neighbour.t");
        let count = count.map_err(|e| died(server, &failed(e)))?;
        if count != rows as i64 {
            return Err(format!("the neighbour reads {count} rows of {rows}"));
        }
        if asked.elapsed() > NEIGHBOUR_PATIENCE {
            return Err(format!("the neighbour waited {:?}", asked.elapsed()));
        }
        if tidied.elapsed() > TIDY_INTERVAL {
            tidied = Instant::now();
            for table in ["hostile.t", "hostile.k"] {
                let emptied = neighbour.query(&format!("TRUNCATE TABLE {table}"));
                // A hostile client may have dropped it, and another one makes it again.
                if let Err(error) = emptied
                    && !error.to_string().contains("1146")
                {
                    return Err(died(server, &failed(error)));
                }
            }
            let bytes = server.resident_bytes();
            if began.elapsed() > WARM {
                let warm = *warm.get_or_insert(bytes);
                if bytes > warm + GROWTH_BYTES_MAX {
                    return Err(format!("the server grew from {warm} to {bytes} bytes"));
                }
            }
        }
        sleep(Duration::from_millis(50));
    }
    Ok(rows)
}

/// What is to be said when the neighbour loses its connection.
fn died(server: &mut Server, what: &str) -> String {
    sleep(Duration::from_millis(500));
    match server.ended() {
        Some(status) => format!("the server died ({status}): {}", server.said()),
        None => what.to_owned(),
    }
}

/// Waits until nobody but the one who asks is connected.
fn forgotten(server: &Server) -> Result<(), String> {
    let mut client = Client::connect(server.mysql_port).map_err(|e| e.to_string())?;
    let deadline = Instant::now() + GOODBYE;
    loop {
        let others = client.query("SHOW PROCESSLIST").map_err(|e| e.to_string())?;
        if others.len() == 1 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("connections of clients that are gone: {others:?}"));
        }
        sleep(Duration::from_millis(100));
    }
}

/// Whether something happens, `of` times of a hundred.
fn happens(random: &mut StdRng, of: u32) -> bool {
    random.random_range(0..100) < of
}
