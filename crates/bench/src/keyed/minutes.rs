//! Minutes of batches that replace rows of a large table, with reads by key beside them.

use std::time::Duration;

use super::{Plan, Shape, TABLE, Work, load, round};
use crate::target::Target;
use crate::usage::Usage;

/// Connections that replace, and that read.
const WRITERS: usize = 4;
const READERS: usize = 8;
/// Reads a second: few enough to leave the machine to the writers.
const READS_PER_SECOND: f64 = 500.0;

/// Prints the rate of each minute, the reads' times and the server's memory.
///
/// # Errors
/// What a server refuses.
pub fn measure(plan: &Plan, minutes: usize) -> Result<(), String> {
    for target in &plan.targets {
        load(target, TABLE, plan.rows)?;
        println!("{}: {} rows, {} MiB", target.name, plan.rows, memory_mib(target));
        let mut first = None;
        for minute in 1..=minutes {
            let rate = one(plan, target, minute)?;
            let first = *first.get_or_insert(rate.0);
            println!(
                "{:12} minute {minute:3} {:>9.0} rows/s {:.2} of the first, reads p50 {:.2} p99 \
                 {:.2} ms, {} MiB",
                target.name,
                rate.0,
                rate.0 / first,
                rate.1,
                rate.2,
                memory_mib(target),
            );
        }
    }
    Ok(())
}

/// The rows a second of a minute, and the median and the 99th percentile of reads in milliseconds.
fn one(plan: &Plan, target: &Target, minute: usize) -> Result<(f64, f64, f64), String> {
    let timed = Plan { warmup: Duration::ZERO, measured: Duration::from_secs(60), ..plan.clone() };
    let of = |work, connections, pace| Shape {
        work,
        connections,
        prepared: false,
        seed: minute as u64,
        pace,
    };
    let read = of(Work::Select, READERS, Some(READS_PER_SECOND));
    let (writes, reads) = std::thread::scope(|scope| {
        let reads = scope.spawn(|| round(&timed, target, read));
        let writes = round(&timed, target, of(Work::Upsert, WRITERS, None));
        (writes, reads.join().map_err(|_| "a client thread panicked".to_owned()))
    });
    let (writes, reads) = (writes?, reads??);
    Ok((writes.per_second, reads.p50_ms, reads.p99_ms))
}

fn memory_mib(target: &Target) -> u64 {
    Usage::of(target.pid).rss_bytes >> 20
}
