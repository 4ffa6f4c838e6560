//! `torture`: the long torture tests, run by `make crash`, `make powercut`,
//! `make hostile` and `make soak`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use freshet_torture::server::Setup;
use freshet_torture::{crash, hostile, powercut, soak};

/// Torture tests of a server.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    run: Run,
}

#[derive(Args)]
struct Common {
    /// The server binary.
    #[arg(long)]
    server: PathBuf,
    /// An empty directory for data and output.
    #[arg(long)]
    dir: PathBuf,
    /// Seeds all random decisions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Subcommand)]
enum Run {
    /// Kills the server under load, restarts it, and compares its tables with what was
    /// acknowledged.
    Crash {
        #[command(flatten)]
        common: Common,
        /// The number of crashes.
        #[arg(long, default_value_t = 500)]
        cycles: u32,
    },
    /// Clones the server's device under load, recovers on the clone, and compares.
    Powercut {
        #[command(flatten)]
        common: Common,
        /// The number of power cuts.
        #[arg(long, default_value_t = 100)]
        cuts: u32,
        /// The file that backs the device.
        #[arg(long)]
        image: PathBuf,
        /// The mount point of the device.
        #[arg(long)]
        mounted: PathBuf,
        /// A library preloaded into the first server that disables its syncs; the run then succeeds
        /// if it finds losses.
        #[arg(long)]
        lying_disk: Option<PathBuf>,
    },
    /// Clients that speak the protocol wrongly, with and without TLS, beside a neighbour who must
    /// not notice.
    Hostile {
        #[command(flatten)]
        common: Common,
        /// The duration.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Hostile clients at once.
        #[arg(long, default_value_t = 8)]
        clients: u64,
    },
    /// Mixed load for a long time; memory, descriptors, files and latencies must stay flat.
    Soak {
        #[command(flatten)]
        common: Common,
        /// The duration.
        #[arg(long, default_value_t = 30)]
        minutes: u64,
        /// The directory for the samples and the plot.
        #[arg(long)]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().run) {
        Ok(summary) => {
            println!("ok: {summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(run: Run) -> Result<String, String> {
    match run {
        Run::Crash { common, cycles } => {
            let setup = Setup::new(&common.server, &common.dir);
            let options = crash::Options { setup, cycles, seed: common.seed, verbose: true };
            crash::run(&options).map(|tally| tally.to_string())
        }
        Run::Powercut { common, cuts, image, mounted, lying_disk } => {
            let mut setup = Setup::new(&common.server, &common.dir);
            let lies = lying_disk.is_some();
            setup.environment.extend(
                lying_disk.map(|path| ("LD_PRELOAD".to_owned(), path.display().to_string())),
            );
            let (work, seed) = (common.dir, common.seed);
            let tally =
                powercut::run(&powercut::Options { setup, image, mounted, work, cuts, seed })?;
            match (lies, tally.losses.is_empty()) {
                (false, true) | (true, false) => Ok(tally.to_string()),
                (false, false) => Err(tally.to_string()),
                (true, true) => Err(format!("a disk that lies goes unnoticed: {tally}")),
            }
        }
        Run::Hostile { common, minutes, clients } => {
            let setup = Setup::new(&common.server, &common.dir);
            let (time, seed) = (Duration::from_secs(60 * minutes), common.seed);
            hostile::run(&hostile::Options { setup, seed, time, clients })
        }
        Run::Soak { common, minutes, out } => {
            let setup = Setup::new(&common.server, &common.dir);
            let time = Duration::from_secs(60 * minutes);
            soak::run(&soak::Options { setup, time, out })
        }
    }
}
