//! Runs seeds in search of violations.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use freshet_sim::actors::run_seed;

#[derive(Parser)]
#[command(about = "Runs the deterministic simulation, one run per seed")]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Stop after so many minutes, however many seeds are left.
    #[arg(long)]
    minutes: Option<u64>,
}

#[expect(clippy::disallowed_methods, reason = "the only real time here bounds the search")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let time_max = arguments.minutes.map_or(Duration::MAX, |n| Duration::from_secs(60 * n));
    let (mut ran, mut failed, mut restarts, mut loads) = (0, 0, 0, 0);
    let (mut points, mut points_unfit, mut forgotten) = (0, 0, 0);
    let (mut copies, mut copied_tables, mut recovered) = (0, 0, 0);
    let (mut snapshots, mut too_old, mut replays, mut prepared) = (0, 0, 0, 0);
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        if started.elapsed() >= time_max {
            break;
        }
        ran += 1;
        match catch_unwind(|| run_seed(seed)) {
            Ok(summary) => {
                restarts += summary.counts.restarts;
                loads += summary.counts.acknowledged;
                snapshots += summary.counts.snapshots;
                too_old += summary.counts.too_old;
                points += summary.counts.points;
                points_unfit += summary.counts.points_unfit;
                replays += summary.counts.replays;
                prepared += summary.counts.prepared;
                forgotten += summary.counts.forgotten;
                copies += summary.counts.copies;
                copied_tables += summary.counts.copied_tables;
                recovered += summary.counts.recovered;
            }
            Err(_) => {
                failed += 1;
                println!("seed {seed} fails: cargo run -p freshet-sim -- --first {seed} --seeds 1");
            }
        }
    }
    println!(
        "{ran} seeds, {failed} failed, {restarts} restarts, {loads} acknowledged records, \
         {snapshots} snapshots compared, {too_old} of them found closed, {points} tables read by \
         key ({points_unfit} more could not), {replays} tables compared \
         with their replay, {prepared} prepared loads brought back, {forgotten} rows that \
         delete forgotten, {copies} tables copied and {copied_tables} of them compared, \
         {recovered} partitions recovered, {:.0} s",
        started.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
