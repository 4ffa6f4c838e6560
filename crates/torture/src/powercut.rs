//! Power cuts: the server's file system is on a loop device backed by a file. The file is cloned at
//! random times; the clone is what a machine would find after a power failure.
//!
//! Cloning is atomic and includes only what reached the device, not the page cache of the server's
//! file system. `scripts/powercut.sh` creates the file systems.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::check::{Moment, check};
use crate::client::Client;
use crate::journal::Journal;
use crate::server::{Server, Setup};
use crate::writers::{Crowd, CrowdOptions, TABLES, create_tables};

/// The number of cuts after which the first server starts with empty tables, so that comparing
/// stays fast.
const CUTS_A_ROUND: u32 = 10;
const CUT_MS: std::ops::Range<u64> = 20..400;
/// The pause of writers between loads: the first server keeps running while the clone is checked.
const PAUSE: Duration = Duration::from_millis(120);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server; its data directory is set by the run.
    pub setup: Setup,
    /// The file that backs the first server's device.
    pub image: PathBuf,
    /// The mount point of that device.
    pub mounted: PathBuf,
    /// A directory on the file system of `image`, for clones and their mount point.
    pub work: PathBuf,
    /// The number of cuts.
    pub cuts: u32,
    /// Seeds all random decisions.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    pub cuts: u32,
    /// What was violated after a cut, for each cut with losses.
    pub losses: Vec<String>,
    pub rows: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, losses, rows } = self;
        write!(f, "{cuts} power cuts, {} with losses; {rows} rows compared", losses.len())
    }
}

/// Runs the power cut test.
///
/// # Errors
/// Failures of the run itself; losses are in the tally.
pub fn run(options: &Options) -> Result<Tally, String> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let mut tally = Tally::default();
    while tally.cuts < options.cuts {
        round(options, &mut random, &mut tally)?;
        println!("{tally}");
    }
    Ok(tally)
}

fn round(options: &Options, random: &mut StdRng, tally: &mut Tally) -> Result<(), String> {
    let name = format!("round-{}", tally.cuts);
    let mut setup = options.setup.clone();
    setup.data_dir = options.mounted.join(&name);
    let mut server = setup.start()?;
    create_tables(&mut connect(&server)?).map_err(|e| format!("create tables: {e}"))?;
    let (journal, ids) = (Arc::<Journal>::default(), Arc::new(AtomicU64::new(1)));
    let crowd_options =
        CrowdOptions { seed: random.random(), pause: PAUSE, reader: false, alters: true };
    let ports = (server.mysql_port, server.http_port);
    let crowd = Crowd::start(ports, Arc::clone(&journal), ids, &crowd_options);
    for _ in 0..CUTS_A_ROUND.min(options.cuts - tally.cuts) {
        sleep(Duration::from_millis(random.random_range(CUT_MS)));
        let clone = Clone::cut(options)?;
        let recovered = recover(options, &clone, &name, &journal);
        tally.cuts += 1;
        match recovered {
            Ok(rows) => tally.rows += rows,
            Err(loss) => {
                println!("cut {}: {loss}", tally.cuts);
                tally.losses.push(loss);
            }
        }
        if let Some(status) = server.ended() {
            return Err(format!("the first server ended: {status}\n{}", server.said()));
        }
    }
    let problems = crowd.end();
    server.kill();
    std::fs::remove_dir_all(&setup.data_dir).map_err(|e| format!("{name}: {e}"))?;
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Starts a second server on the clone and compares; returns the number of rows read.
fn recover(
    options: &Options,
    clone: &Clone,
    name: &str,
    journal: &Journal,
) -> Result<usize, String> {
    let mut setup = options.setup.clone();
    // The disabled syncs are for the first server only.
    setup.environment.clear();
    setup.data_dir = clone.mounted.join(name);
    setup.log = options.work.join("second.log");
    let mut server = setup.start()?;
    let found = check(&mut connect(&server)?, &TABLES, &journal.copy(), clone.moment)?;
    server.kill();
    setup.check_files()?;
    Ok(found.rows)
}

fn connect(server: &Server) -> Result<Client, String> {
    Client::connect(server.mysql_port).map_err(|e| format!("connect: {e}"))
}

/// A mounted clone of the device; unmounted and removed on drop.
struct Clone {
    image: PathBuf,
    mounted: PathBuf,
    moment: Moment,
}

impl Clone {
    fn cut(options: &Options) -> Result<Self, String> {
        let image = options.work.join("clone.img");
        let mounted = options.work.join("clone");
        std::fs::create_dir_all(&mounted).map_err(|e| format!("{}: {e}", mounted.display()))?;
        let from = Instant::now();
        command(&["cp", "--reflink=always"], &[&options.image, &image])?;
        let moment = Moment { from, to: Instant::now() };
        let clone = Self { image, mounted, moment };
        command(&["mount", "-o", "loop"], &[&clone.image, &clone.mounted])?;
        Ok(clone)
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        // If the clone cannot be unmounted, the next cut fails and reports it.
        let _ = command(&["umount"], &[&self.mounted]);
        let _ = std::fs::remove_file(&self.image);
    }
}

fn command(words: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).args(paths).output();
    let output = output.map_err(|e| format!("{words:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words:?} {paths:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
