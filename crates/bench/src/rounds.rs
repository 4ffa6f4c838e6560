//! Rates of several servers in interleaved rounds, with medians and ratios.

use crate::result::thousands;
use crate::target::Target;

pub const HEADER: &str =
    "point                        target           per s   p50 ms   p99 ms   ratio";

/// A round of one target.
pub struct Round {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Measures a point in rounds, each on all targets, and prints the medians; ratios are those of the
/// first target to the others.
///
/// # Errors
/// Those of a round.
pub fn measure(
    point: &str,
    targets: &[Target],
    count: usize,
    round: impl Fn(&Target, usize) -> Result<Round, String>,
) -> Result<(), String> {
    let mut rounds = targets.iter().map(|_| Vec::new()).collect::<Vec<Vec<Round>>>();
    for number in 0..count {
        for (target, rounds) in targets.iter().zip(&mut rounds) {
            rounds.push(round(target, number)?);
        }
    }
    let first = &rounds[0];
    for (target, rounds) in targets.iter().zip(&rounds) {
        // Ratios are taken within a round, since the machine may have others to serve.
        let ratios = first.iter().zip(rounds).map(|(a, b)| a.per_second / b.per_second);
        println!(
            "{point:28} {:12} {:>9} {:>8.3} {:>8.3} {:>7.2}",
            target.name,
            thousands(median(rounds.iter().map(|round| round.per_second))),
            median(rounds.iter().map(|round| round.p50_ms)),
            median(rounds.iter().map(|round| round.p99_ms)),
            median(ratios),
        );
    }
    Ok(())
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values = values.collect::<Vec<_>>();
    assert!(!values.is_empty(), "a median is one of some values");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
