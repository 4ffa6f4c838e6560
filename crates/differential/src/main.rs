//! `differential`: compares two running servers; `make differential` starts them and calls it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use freshet_differential::run::{self, Options};

/// Compares the answers of freshet and MariaDB to random statements.
#[derive(Parser)]
struct Arguments {
    /// Port of freshet on this machine; the user is root without a password.
    #[arg(long)]
    freshet: u16,
    /// Port of MariaDB; without it only what needs no other server is checked.
    #[arg(long)]
    mariadb: Option<u16>,
    /// Decides what chance decides.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many statements.
    #[arg(long, default_value_t = 1000)]
    queries: u64,
    /// The number of the first, to see one again that differed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// A file of numbers, apart by spaces: only these statements instead of all.
    #[arg(long)]
    numbers: Option<PathBuf>,
    /// When to end at the latest.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// How many connections ask at the same time.
    #[arg(long, default_value_t = 3)]
    workers: u64,
    /// So many differences without a known reason are no failure; lost connections and answers of
    /// freshet that contradict each other always are.
    #[arg(long, default_value_t = 0)]
    unexplained_max: usize,
    /// Shows how often each entry of the list of known differences was seen, and an example.
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
