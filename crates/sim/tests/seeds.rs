//! Random runs: 100 seeds, and one seed twice.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use freshet_sim::actors::run_seed;

/// Seeds per commit; `make sim SEEDS=n` runs more.
const SEEDS: u64 = 100;

#[test]
fn a_hundred_seeds_keep_every_promise() {
    let next = AtomicU64::new(0);
    let work = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return failed;
            }
            if catch_unwind(|| run_seed(seed)).is_err() {
                eprintln!("cargo run -p freshet-sim -- --first {seed} --seeds 1");
                failed.push(seed);
            }
        }
    };
    let failed = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "seeds {failed:?} fail");
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in [2, 3, 6] {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
    }
}
