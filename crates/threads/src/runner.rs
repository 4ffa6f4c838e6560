//! Tries a scenario in many orders of its threads.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// What columns of a few rows need of a stack, without optimisation.
const STACK_BYTES: usize = 1 << 20;
/// Switches of thread that a run of the second half has at places of its choice.
const SWITCHES: usize = 3;
const SEED: u64 = 1;

/// Runs `scenario` in `orders` orders: half of them by chance, half with few switches between
/// threads, which finds what chance seldom does. The same orders each time.
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
