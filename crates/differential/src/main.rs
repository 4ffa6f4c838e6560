//! `differential`: compares two running servers. `make differential` starts them and runs it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use freshet_differential::run::{self, Options};

/// Compares the results of random statements between Freshet and MariaDB.
#[derive(Parser)]
struct Arguments {
    /// Port of Freshet on this machine; the user is root without a password.
    #[arg(long)]
    freshet: u16,
    /// Port of MariaDB; without it only checks that need no other server are run.
    #[arg(long)]
    mariadb: Option<u16>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of statements.
    #[arg(long, default_value_t = 1000)]
    queries: u64,
    /// Number of the first statement, to repeat one with a difference.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// File with statement numbers separated by whitespace; only these statements are run.
    #[arg(long)]
    numbers: Option<PathBuf>,
    /// Maximum duration.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Number of concurrent connections.
    #[arg(long, default_value_t = 3)]
    workers: u64,
    /// Maximum number of differences without a known reason before the run fails; lost connections
    /// and contradictory results of Freshet always fail it.
    #[arg(long, default_value_t = 0)]
    unexplained_max: usize,
    /// Prints how often each known difference occurred, with an example.
    #[arg(long)]
    examples: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let numbers = match &arguments.numbers {
        None => (arguments.first..arguments.first + arguments.queries).collect(),
        Some(file) => match numbers_in(file) {
            Ok(numbers) => numbers,
            Err(error) => {
                println!("FAILED: {}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        },
    };
    let options = Options {
        freshet: arguments.freshet,
        mariadb: arguments.mariadb,
        seed: arguments.seed,
        numbers,
        time: Duration::from_secs(60 * arguments.minutes),
        workers: arguments.workers.max(1),
    };
    match run::run(&options) {
        Ok(tally) => {
            tally.print(arguments.examples);
            let few = tally.unexplained() <= arguments.unexplained_max;
            if few && tally.broken() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn numbers_in(file: &Path) -> Result<BTreeSet<u64>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let number = |word: &str| {
        let digits = word.trim_start_matches('#');
        digits.parse::<u64>().map_err(|_| format!("'{word}' is no number of a statement"))
    };
    text.split_whitespace().map(number).collect()
}
