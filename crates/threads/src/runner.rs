//! Runs a scenario under many interleavings of its threads.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Building the columns of a few rows in a debug build needs this much stack.
const STACK_BYTES: usize = 1 << 20;
/// Forced thread switches in a run of the second half.
const SWITCHES: usize = 3;
const SEED: u64 = 1;

/// Runs `scenario` under `orders` interleavings, the same ones each time: half of them random, half
/// with few switches (probabilistic concurrency testing), which finds bugs that random ones rarely
/// hit.
pub fn try_orders(orders: usize, scenario: fn()) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config
    };
    let by_chance = RandomScheduler::new_from_seed(SEED, orders / 2);
    Runner::new(by_chance, config()).run(scenario);
    let few_switches = PctScheduler::new_from_seed(SEED, SWITCHES, orders / 2);
    Runner::new(few_switches, config()).run(scenario);
}
