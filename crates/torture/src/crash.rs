//! Crash test: `kill -9` at random times and at every failpoint, restart, compare.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::check::{Moment, check};
use crate::client::Client;
use crate::http::Loaded;
use crate::journal::{Entries, Fate, Journal};
use crate::server::{Server, Setup};
use crate::writers::{Crowd, CrowdOptions, TABLES, create_tables, drop_tables, send_again};

/// The number of cycles after which the tables are dropped and created again, so that comparing
/// stays fast.
const CYCLES_A_TABLE: u32 = 5;
/// The number of cycles between runs of `freshet check` on the crashed store.
const CYCLES_A_CHECK: u32 = 5;
/// The time after which the server is killed if it has not reached the failpoint.
const FAILPOINT_PATIENCE: Duration = Duration::from_secs(1);
const LOAD_MS: std::ops::Range<u64> = 20..300;
const RECOVERY_MS: std::ops::Range<u64> = 0..120;
/// Acknowledged labelled loads that are sent again per cycle and must be refused.
const ACKED_SENT_AGAIN: usize = 3;

/// Failpoints at which the server aborts, and the maximum number of passes before that.
const FAILPOINTS: [(&str, u64); 7] = [
    ("wal-before-write", 300),
    ("wal-after-write", 300),
    ("flush-before-write", 12),
    ("flush-after-write", 12),
    ("flush-after-publish", 12),
    ("compaction-before-publish", 3),
    ("barrier-durable", 3),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How to start the server.
    pub setup: Setup,
    /// The number of crashes.
    pub cycles: u32,
    /// Seeds all random decisions; the exact time of a kill still varies.
    pub seed: u64,
    /// Whether to report every cycle.
    pub verbose: bool,
}

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    pub crashes: u32,
    /// The part of `crashes` at a failpoint.
    pub at_failpoints: u32,
    /// Additional crashes during recovery.
    pub in_recovery: u32,
    pub acked: usize,
    /// Loads that were not answered because of a crash.
    pub unknown: usize,
    pub sent_again: usize,
    pub rows: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crashes ({} at failpoints), {} more in recovery; {} loads acknowledged, {} without \
             an answer, {} sent again; {} rows compared",
            self.crashes,
            self.at_failpoints,
            self.in_recovery,
            self.acked,
            self.unknown,
            self.sent_again,
            self.rows
        )
    }
}

/// How the server is crashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Death {
    Kill { after: Duration },
    Failpoint { name: &'static str, skip: u64 },
}

impl Death {
    /// Even cycles kill at a random time, odd ones cycle through the failpoints.
    fn of(cycle: u32, random: &mut StdRng) -> Self {
        if cycle.is_multiple_of(2) {
            return Self::Kill { after: Duration::from_millis(random.random_range(LOAD_MS)) };
        }
        let (name, skip_max) = FAILPOINTS[cycle as usize / 2 % FAILPOINTS.len()];
        Self::Failpoint { name, skip: random.random_range(0..skip_max) }
    }
}

struct Run {
    options: Options,
    random: StdRng,
    next_id: Arc<AtomicU64>,
    journal: Arc<Journal>,
    tally: Tally,
}

/// Runs the crash test.
///
/// # Errors
/// What was violated, with the cycle and the seed.
pub fn run(options: &Options) -> Result<Tally, String> {
    let random = StdRng::seed_from_u64(options.seed);
    let (next_id, journal) = (Arc::new(AtomicU64::new(1)), Arc::default());
    let mut run =
        Run { options: options.clone(), random, next_id, journal, tally: Tally::default() };
    let mut server = options.setup.start()?;
    create(&server)?;
    for cycle in 0..options.cycles {
        let death = Death::of(cycle, &mut run.random);
        server = run
            .cycle(cycle, death, server)
            .map_err(|e| format!("cycle {cycle} ({death:?}), seed {}: {e}", options.seed))?;
        if options.verbose {
            println!("cycle {cycle}: {death:?}: {}", run.tally);
        }
    }
    server.stop()?;
    options.setup.check_files()?;
    Ok(run.tally)
}

fn connect(server: &Server) -> Result<Client, String> {
    Client::connect(server.mysql_port).map_err(|e| format!("connect: {e}"))
}

fn create(server: &Server) -> Result<(), String> {
    create_tables(&mut connect(server)?).map_err(|e| format!("create tables: {e}"))
}

impl Run {
    /// One crash, the restart after it, and the comparison.
    fn cycle(&mut self, cycle: u32, death: Death, server: Server) -> Result<Server, String> {
        self.crash(death, server)?;
        self.tally.crashes += 1;
        if cycle % CYCLES_A_CHECK == CYCLES_A_CHECK - 1 {
            self.options.setup.check_files()?;
        }
        self.crash_in_recovery()?;
        let server = self.options.setup.start()?;
        let mut client = connect(&server)?;
        self.send_labelled_again(&mut client)?;
        self.compare(&mut client)?;
        if cycle % CYCLES_A_TABLE == CYCLES_A_TABLE - 1 {
            drop_tables(&mut client).map_err(|e| format!("drop: {e}"))?;
            create(&server)?;
            self.journal = Arc::default();
        }
        Ok(server)
    }

    /// Writes to a server until it dies.
    fn crash(&mut self, death: Death, mut server: Server) -> Result<(), String> {
        let (mut server, patience) = match death {
            Death::Kill { after } => (server, after),
            Death::Failpoint { name, skip } => {
                server.stop()?;
                let points = format!("{name}=abort@{skip}");
                let setup = self.options.setup.clone().with("failpoints", points);
                let mut server = setup.spawn()?;
                match server.wait_ready() {
                    Ok(()) => (server, FAILPOINT_PATIENCE),
                    // The failpoint was reached during the start.
                    Err(_) if died_at_failpoint(&server) => {
                        self.tally.at_failpoints += 1;
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let seed = self.random.random();
        let crowd_options =
            CrowdOptions { seed, pause: Duration::ZERO, reader: true, alters: true };
        let ports = (server.mysql_port, server.http_port);
        let (journal, ids) = (Arc::clone(&self.journal), Arc::clone(&self.next_id));
        let crowd = Crowd::start(ports, journal, ids, &crowd_options);
        let ended = server.wait_end(patience);
        if ended.is_none() {
            server.kill();
        }
        let problems = crowd.end();
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
        match ended {
            None => Ok(()),
            Some(_) if died_at_failpoint(&server) => {
                self.tally.at_failpoints += 1;
                Ok(())
            }
            Some(status) => Err(format!("the server ended: {status}\n{}", server.said())),
        }
    }

    /// With some probability kills the server again while it recovers.
    fn crash_in_recovery(&mut self) -> Result<(), String> {
        while self.random.random_ratio(1, 4) {
            let mut server = self.options.setup.spawn()?;
            sleep(Duration::from_millis(self.random.random_range(RECOVERY_MS)));
            if let Some(status) = server.ended() {
                return Err(format!("recovery ended: {status}\n{}", server.said()));
            }
            server.kill();
            self.tally.in_recovery += 1;
        }
        Ok(())
    }

    /// Does what a client without an answer does: sends the load again under its label. Some
    /// acknowledged loads are sent again, too, and must be refused.
    fn send_labelled_again(&mut self, client: &mut Client) -> Result<(), String> {
        let entries = self.journal.copy();
        let labelled = |fate: Fate| {
            let loads = entries.loads.iter().enumerate();
            loads.filter(move |(_, load)| load.label.is_some() && load.fate == fate)
        };
        let acked = labelled(Fate::Acked).map(|(at, _)| at).collect::<Vec<_>>();
        let acked = acked.choose_multiple(&mut self.random, ACKED_SENT_AGAIN).copied();
        let unknown = labelled(Fate::Unknown).map(|(at, _)| at);
        for at in unknown.chain(acked).collect::<Vec<_>>() {
            let load = &entries.loads[at];
            let label = load.label.as_deref().unwrap_or_default();
            let ids = load.ids.clone().collect::<Vec<_>>();
            let outcome = send_again(client, load.tables[0], &ids, label);
            match (load.fate, outcome) {
                (_, Err(error)) => return Err(format!("{label} sent again: {error}")),
                (Fate::Acked, Ok(Loaded::Success)) => {
                    return Err(format!("{label} was acknowledged and is taken twice"));
                }
                (_, Ok(_)) => self.journal.end(at, Fate::Acked),
            }
            self.tally.sent_again += 1;
        }
        Ok(())
    }

    fn compare(&mut self, client: &mut Client) -> Result<(), String> {
        let now = Instant::now();
        let moment = Moment { from: now, to: now };
        let entries = self.journal.copy();
        let found = check(client, &TABLES, &entries, moment)?;
        let new = || entries.loads.iter().filter(|load| !load.compared);
        self.tally.acked += new().filter(|load| load.fate == Fate::Acked).count();
        self.tally.unknown += new().filter(|load| load.fate == Fate::Unknown).count();
        self.tally.rows += found.rows;
        self.journal.with(|entries| note_found(entries, &found.present));
        Ok(())
    }
}

/// Updates the journal after a comparison: found loads must stay, missing ones must never appear.
fn note_found(entries: &mut Entries, present: &[bool]) {
    for (load, present) in entries.loads.iter_mut().zip(present) {
        load.fate = if *present { Fate::Acked } else { Fate::Gone };
        load.ended = Some(Instant::now());
        load.compared = true;
    }
    entries.cuts.clear();
}

fn died_at_failpoint(server: &Server) -> bool {
    server.said().contains(": abort")
}
