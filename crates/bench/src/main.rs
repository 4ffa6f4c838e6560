//! `freshet-bench`: the benchmark workloads, for Freshet and other servers.
//!
//! What it is: a client for servers with MySQL's or PostgreSQL's protocol and for loads over HTTP,
//! which runs the workloads W1 to W10 in interleaved rounds, and a report that compares the results
//! with requirements. What it is not: it starts no servers (scripts/bench.sh and scripts/peers/ do)
//! and shares no code with the engine except the protocol.
//!
//! Invariants: requests are encoded before the measurement; every result includes the client's
//! share of CPU, refused requests, and acknowledged and visible rows; targets alternate within a
//! round; rows are generated from fixed seeds.
//!
//! How to test it: `cargo test -p freshet-bench`; `make bench` runs it.

// Measures the real machine, so it uses the system's clock, threads and files.
#![allow(clippy::disallowed_methods)]

mod alter;
mod body;
mod demo;
mod device;
mod encode;
mod engine;
mod keyed;
mod machine;
mod measure;
mod null_server;
mod plot;
mod point;
mod prepare;
mod questions;
mod reply;
mod report;
mod result;
mod rounds;
mod rows;
mod session;
mod sessions;
mod socket;
mod table;
mod target;
mod tpch;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use freshet_base::clock::{Clock, SystemClock};

use point::Form;
use target::Target;

/// Benchmarks of Freshet and other servers.
#[derive(Parser)]
#[command(name = "freshet-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run workloads on targets in interleaved rounds.
    Run(RunArgs),
    /// Read, change and remove rows by their primary key, as text and prepared; empty tables.
    Keyed(KeyedArgs),
    /// What connections cost: how fast they come and go, idle ones, `information_schema`.
    Sessions {
        /// A server; several are measured alternately, and compared with the first.
        #[arg(long, required = true)]
        target: Vec<Target>,
        /// Clients that connect, ask and leave.
        #[arg(long, default_value_t = 8)]
        threads: usize,
        /// The number of runs on each target.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Measured time of each run, in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Numbers of idle connections whose memory is measured.
        #[arg(long, value_delimiter = ',')]
        idle: Vec<usize>,
        /// Tables of 20 columns that `information_schema.columns` lists; 0 for none.
        #[arg(long, default_value_t = 0)]
        tables: usize,
    },
    /// Load TPC-H and run its queries.
    Tpch {
        /// A server; several are measured alternately.
        #[arg(long, required = true)]
        target: Vec<Target>,
        /// Scale factor.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Load only this table.
        #[arg(long)]
        only: Option<String>,
        /// The folder of `q01.sql` to `q22.sql`; without it tables are only loaded.
        #[arg(long)]
        queries: Option<PathBuf>,
        /// Append lines of JSON to this file.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Load two tables into Freshet with progress on screen, then query them.
    Demo {
        /// The server.
        #[arg(long)]
        target: Target,
        /// Scale factor: 1 is six million rows of lineitem.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
    },
    /// Write the tables of TPC-H as text, for embedded engines.
    TpchFiles {
        /// Scale factor.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// The folder for the files.
        folder: PathBuf,
    },
    /// Print medians, ratios and which requirements are met.
    Report {
        /// Result files (lines of JSON).
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Update the marked tables in this document instead of printing.
        #[arg(long)]
        into: Option<PathBuf>,
    },
    /// Print ratios of Freshet to another target, the slowest points first; fail if one is below
    /// the minimum.
    Compare {
        /// Result files (lines of JSON).
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The name of the other target.
        #[arg(long, default_value = "before")]
        to: String,
        /// The minimum ratio.
        #[arg(long, default_value_t = 0.97)]
        least: f64,
    },
    /// Draw an SVG plot for each workload.
    Plot {
        /// The folder for the plots.
        folder: PathBuf,
        /// Result files (lines of JSON).
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Measure the machine: synced writes, loopback, copies.
    Machine {
        /// The folder for the test file, on the disk to measure.
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// The measured commit, for the record.
        #[arg(long, default_value = "unknown")]
        commit: String,
        /// Append lines of JSON to this file.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Serve MySQL's protocol without doing anything: an upper bound for every server.
    NullServer {
        /// The port on loopback for MySQL's protocol; 0 chooses a free one and prints it.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// The port on loopback for HTTP; 0 chooses a free one and prints it.
        #[arg(long, default_value_t = 0)]
        http_port: u16,
        /// The number of threads.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// CPU time that each request costs, in microseconds.
        #[arg(long, default_value_t = 5)]
        work_us: u64,
        /// Answer after this file was overwritten and synced; without it at once.
        #[arg(long)]
        flush_file: Option<PathBuf>,
    },
}

#[derive(Args)]
struct KeyedArgs {
    /// A server; several are measured alternately, and compared with the first.
    #[arg(long, required = true)]
    target: Vec<Target>,
    /// What is done; rows are selected where nothing is asked for.
    #[arg(long, value_enum, value_delimiter = ',')]
    works: Vec<keyed::Work>,
    /// The time of TRUNCATE, DROP and DELETE of tables with so many rows.
    #[arg(long, value_delimiter = ',')]
    emptied: Vec<u64>,
    /// Scans of tables with so many rows, with a primary key and without.
    #[arg(long, value_delimiter = ',')]
    scanned: Vec<u64>,
    /// Minutes of batches that replace rows, with reads by key beside them.
    #[arg(long, default_value_t = 0)]
    minutes: usize,
    /// Rows of the table, which is loaded where it is missing.
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_value = "100,400")]
    connections: Vec<usize>,
    /// The number of runs of each point on each target.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// TRUNCATEs of other tables before anything is measured.
    #[arg(long, default_value_t = 0)]
    truncates: usize,
    /// Warm-up at the start of each run, in seconds.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Measured time of each run, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The number of client threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

#[derive(Args)]
struct RunArgs {
    /// Workloads: W1 to W5, W9, W10, parts (INSERT into partitions), alters, beside (W2 with
    /// queries), long (W2 alone), sweeps.
    #[arg(long, value_delimiter = ',', default_value = "W1,W2,W3,W4,W5,W9")]
    workloads: Vec<String>,
    /// Only points whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Short or full.
    #[arg(long, value_enum, default_value = "short")]
    form: Form,
    /// A server, as `scheme://user:password@host:port/db?name=..&pid=..&http=..`; several are
    /// measured alternately, and the others are compared with the first.
    #[arg(long, required = true)]
    target: Vec<Target>,
    /// The number of runs of each point on each target.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Warm-up at the start of each run, in seconds.
    #[arg(long, default_value_t = 1.0)]
    warmup: f64,
    /// Measured time of each run, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The number of client threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Append lines of JSON to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Run(args) => measure::run(&plan(args)?),
        Command::Keyed(args) => keyed::run(&keyed_plan(args)),
        Command::Sessions { target, threads, rounds, seconds, idle, tables } => {
            let (targets, measured) = (target, Duration::from_secs_f64(seconds));
            sessions::run(&sessions::Plan { targets, threads, rounds, measured, idle, tables })
        }
        Command::Tpch { target, scale, only, queries, out } => {
            tpch::run(&tpch::Plan { targets: target, scale, only, queries, out })
        }
        Command::Demo { target, scale } => demo::run(&demo::Plan { target, scale }),
        Command::TpchFiles { scale, folder } => tpch::write_files(&folder, scale),
        Command::Report { files, into } => {
            let results = report::Results::read(&files)?;
            match into {
                Some(path) => report::document::fill_file(&results, &path),
                None => {
                    results.print();
                    Ok(())
                }
            }
        }
        Command::Compare { files, to, least } => {
            report::before::compare(&report::Results::read(&files)?, &to, least)
        }
        Command::Plot { folder, files } => plot::draw(&report::Results::read(&files)?, &folder),
        Command::Machine { dir, commit, out } => {
            measure::append(out.as_deref(), &machine::Host::here(commit))?;
            for figure in machine::measure(&dir)? {
                let (name, per_second, p50) = (&figure.machine, figure.per_second, figure.p50_ms);
                println!("{name:50} {:>10}/s  p50 {p50:.3} ms", result::thousands(per_second));
                measure::append(out.as_deref(), &figure)?;
            }
            Ok(())
        }
        Command::NullServer { port, http_port, threads, work_us, flush_file } => {
            let (ports, work) = ([port, http_port], Duration::from_micros(work_us));
            null_server::serve(&null_server::Options { ports, threads, work, flush_file })
        }
    }
}

fn plan(args: RunArgs) -> Result<measure::Plan, String> {
    let mut points = Vec::new();
    for workload in &args.workloads {
        let of_workload = point::points(workload, args.form);
        if of_workload.is_empty() {
            let known = point::WORKLOADS;
            return Err(format!("unknown workload `{workload}`; there are {known}"));
        }
        points.extend(of_workload.into_iter().filter(|point| point.name().contains(&args.only)));
    }
    Ok(measure::Plan {
        run: SystemClock::new().wall_micros(),
        points,
        targets: args.target,
        rounds: args.rounds,
        warmup: Duration::from_secs_f64(args.warmup),
        measured: Duration::from_secs_f64(args.seconds),
        threads: args.threads,
        out: args.out,
    })
}

fn keyed_plan(args: KeyedArgs) -> keyed::Plan {
    let others = !args.emptied.is_empty() || !args.scanned.is_empty() || args.minutes > 0;
    keyed::Plan {
        works: match args.works.is_empty() && !others {
            true => vec![keyed::Work::Select],
            false => args.works,
        },
        targets: args.target,
        emptied: args.emptied,
        scanned: args.scanned,
        minutes: args.minutes,
        rows: args.rows,
        connections: args.connections,
        rounds: args.rounds,
        truncates: args.truncates,
        warmup: Duration::from_secs_f64(args.warmup),
        measured: Duration::from_secs_f64(args.seconds),
        threads: args.threads,
    }
}
