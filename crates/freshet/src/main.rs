//! The binary: settings, start and stop of a server, and tools for a stopped store.
//!
//! It is: the command line, the configuration, the real world (clock, files, threads, random
//! numbers) that everything else gets as arguments, signals.
//!
//! It is not: a place for anything that a test would want without a process.
//!
//! Test it with `cargo test -p freshet`.

mod config;
mod memory;
mod serve;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use rustix::fs::Mode;

use crate::config::{Config, Sources};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What jemalloc reads at its start. A page that memory comes in anew has to be found and cleared,
/// which costs more than what a flush computes on its rows, so memory is to be used again. Large
/// statements and the columns of a flush are of the size that jemalloc would give back to the
/// system at once: it gives them back when they were not used for a minute, since after the ten
/// seconds of its default a loaded server still needed them again (W2, ten percent). Threads share
/// an arena for each core, so that what one job frees serves another's need: with an arena for
/// each thread a loaded server took twice as much memory. (Large pages, `thp:always`, gained
/// nothing.)
// SAFETY: jemalloc takes a pointer to a C string of this name; nothing else has the name.
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
    /// Serves a store.
    Server(ServerArgs),
    /// Verifies a stopped store: every checksum, and what must hold between log, metadata and
    /// files. Exits with 1 if something does not.
    Check(ServerArgs),
    /// Shows what keeps a damaged store from starting, and what is lost by giving it up.
    Repair(RepairArgs),
    /// Prints every setting with its default and what it does.
    Settings,
    /// Prints every variable of sessions with its default and what it does.
    Variables,
    /// Prints every function that statements may call.
    Functions,
}

#[derive(Args)]
struct RepairArgs {
    #[command(flatten)]
    store: ServerArgs,
    /// Gives up what is lost, so that the server starts again.
    #[arg(long)]
    accept: bool,
}

/// Flags that most people need; `--set` has all the others.
#[derive(Args)]
struct ServerArgs {
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The directory of the store.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Where the MySQL protocol is spoken.
    #[arg(long, value_name = "HOST:PORT")]
    mysql_listen: Option<String>,
    /// Where stream loads, health and metrics are served.
    #[arg(long, value_name = "HOST:PORT")]
    http_listen: Option<String>,
    /// What is logged.
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Any other setting of docs/configuration.md.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl ServerArgs {
    /// Settings given as flags, by name.
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
    // What a server makes are rows and hashes of passwords: nobody else's business, from the
    // moment in which a file has a name.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match run(Cli::parse().command) {
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

/// Whether all is well with what the command looked at.
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
        Command::Repair(args) => tools::run_repair(&configured(&args.store)?, args.accept),
    };
    done.map_err(|error| vec![error.message().to_owned()])
}

/// The configuration that file, environment and flags say. What of the environment is no setting
/// is told and passed over: it may be somebody else's.
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

/// The variables of the environment that are ours and text.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let ours = |(name, _): &(String, String)| name.starts_with(config::ENVIRONMENT_PREFIX);
    std::env::vars_os().filter_map(text).filter(ours).collect()
}
