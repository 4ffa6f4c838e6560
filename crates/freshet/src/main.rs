//! The binary: starting and stopping a server, and tools for a stopped store.
//!
//! It is: the command line, the configuration, signals, and the real clock, files, threads and
//! random numbers that everything else gets as arguments.
//!
//! It is not: the place for code that can be tested without a process.
//!
//! Test it with `cargo test -p freshet`.

mod config;
mod memory;
mod serve;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use freshet_bulk::args::{DumpArgs, LoadArgs};
use rustix::fs::Mode;

use crate::config::{Config, Sources};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options that jemalloc reads at its start. A fresh page must be faulted in and zeroed, which
/// costs more than a flush computes on its rows, so memory should be reused. By default jemalloc
/// returns large allocations (large statements, the columns of a flush) to the system at once and
/// others after ten seconds; here memory is kept for a minute, because a loaded server needs it
/// again (W2: ten percent). One arena per core, shared by threads, lets one job reuse what another
/// freed: with an arena per thread a loaded server needed twice the memory. (Huge pages,
/// `thp:always`, gained nothing.)
// SAFETY: jemalloc expects a pointer to a C string with this name; no other symbol has it.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: &[u8; 85] =
    b"oversize_threshold:0,background_thread:true,percpu_arena:percpu,dirty_decay_ms:60000\0";

/// Freshet: a real-time analytical database that speaks MySQL.
#[derive(Parser)]
#[command(name = "freshet", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a server.
    Server(ServerArgs),
    /// Verifies a stopped store: every checksum, and the consistency of log, metadata and files.
    /// Exits with 1 if there is a fault.
    Check(ServerArgs),
    /// Shows what keeps a damaged store from starting, and what would be lost by discarding it.
    Repair(RepairArgs),
    /// Loads files into tables. Run the same command again after any failure, and it goes on where
    /// it stopped: no row is lost, and none is loaded twice.
    Load(Box<LoadArgs>),
    /// Writes tables to files, or one to standard output.
    Dump(Box<DumpArgs>),
    /// Prints all settings with defaults and descriptions.
    Settings,
    /// Prints all session variables with defaults and descriptions.
    Variables,
    /// Prints all SQL functions.
    Functions,
}

#[derive(Args)]
struct RepairArgs {
    #[command(flatten)]
    store: ServerArgs,
    /// Discards what is damaged, so that the server starts again.
    #[arg(long)]
    accept: bool,
}

/// Flags for common settings; `--set` accepts all settings.
#[derive(Args)]
struct ServerArgs {
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// The address of the MySQL protocol.
    #[arg(long, value_name = "HOST:PORT")]
    mysql_listen: Option<String>,
    /// The address for stream loads, health and metrics.
    #[arg(long, value_name = "HOST:PORT")]
    http_listen: Option<String>,
    /// The log level.
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Any setting of docs/configuration.md.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl ServerArgs {
    /// The settings given as flags, by name.
    fn settings(&self) -> Result<Vec<(String, String)>, String> {
        let named = [
            ("data_dir", &self.data_dir),
            ("mysql_listen", &self.mysql_listen),
            ("http_listen", &self.http_listen),
            ("log_level", &self.log),
        ];
        let mut all = Vec::new();
        for (name, value) in named {
            all.extend(value.clone().map(|value| (name.to_owned(), value)));
        }
        for pair in &self.set {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(format!("--set {pair}: write it as NAME=VALUE"));
            };
            all.push((name.trim().replace('-', "_"), value.trim().to_owned()));
        }
        Ok(all)
    }
}

fn main() -> ExitCode {
    // Files hold rows and password hashes: only the owner may access them, from the moment they are
    // created.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let words = match freshet_bulk::batch_tool::translated(std::env::args_os()) {
        Ok(words) => words,
        Err(problem) => {
            eprintln!("freshet: {problem}");
            return ExitCode::from(2);
        }
    };
    let command = match Cli::parse_from(words).command {
        Command::Load(args) => return ended(freshet_bulk::load(&args)),
        Command::Dump(args) => return ended(freshet_bulk::dump(&args)),
        other => other,
    };
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problems) => {
            for problem in problems {
                eprintln!("freshet: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a tool that works with a running server.
fn ended(result: Result<(), freshet_bulk::Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("freshet: {failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Runs a command; returns whether it found no faults.
fn run(command: Command) -> Result<bool, Vec<String>> {
    let done = match command {
        Command::Server(args) => serve::run(&configured(&args)?).map(|()| true),
        Command::Check(args) => tools::run_check(&configured(&args)?),
        Command::Settings => {
            print!("{}", config::document());
            Ok(true)
        }
        Command::Variables => {
            print!("{}", freshet_server::variables::document());
            Ok(true)
        }
        Command::Functions => {
            print!("{}", freshet_query::functions::list::document());
            Ok(true)
        }
        Command::Load(_) | Command::Dump(_) => unreachable!("they were run"),
        Command::Repair(args) => tools::run_repair(&configured(&args.store)?, args.accept),
    };
    done.map_err(|error| vec![error.message().to_owned()])
}

/// The configuration from file, environment and flags. Unknown environment variables with the
/// prefix are reported and ignored, because other programs may use them.
fn configured(args: &ServerArgs) -> Result<Config, Vec<String>> {
    let flags = args.settings().map_err(|problem| vec![problem])?;
    let environment = environment();
    let named = environment.iter().find(|(name, _)| name == CONFIG_VARIABLE);
    let path = args.config.clone().or_else(|| named.map(|(_, path)| PathBuf::from(path)));
    let text = match &path {
        Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
            vec![format!("cannot read the configuration {}: {error}", path.display())]
        })?),
        None => None,
    };
    let settings = environment.into_iter().filter(|(name, _)| name != CONFIG_VARIABLE);
    let (config, passed_over) = Config::load(&Sources {
        file: path.as_deref().zip(text.as_deref()),
        environment: &settings.collect::<Vec<_>>(),
        flags: &flags,
    })?;
    for variable in passed_over {
        eprintln!("freshet: warning: {variable}; it is passed over");
    }
    Ok(config)
}

/// Names the configuration file.
const CONFIG_VARIABLE: &str = "FRESHET_CONFIG";

/// The environment variables with our prefix whose values are UTF-8.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let ours = |(name, _): &(String, String)| name.starts_with(config::ENVIRONMENT_PREFIX);
    std::env::vars_os().filter_map(text).filter(ours).collect()
}
