//! Experiments E1, E2, E4 and E7 of docs/design/keys.md, section 11: what is decided before keys
//! are built. Their figures are in docs/rfc/0011-keys-on-disk.md.
//! `cargo bench -p freshet-storage --bench keys -- table filter rows files`; without names all run.
//! `KEYS`, `ROWS` and `ROUNDS` are read from the environment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod blocks;
mod files;
mod filter;
mod rows;
mod table;

use std::time::{Duration, Instant};

/// A number from the environment.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Numbers in no order (xorshift).
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// The time that this thread has had a core: others on the machine do not count, what they do to
/// its caches does.
fn on_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn timed_on_core<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = on_core();
    let done = work();
    (on_core() - start, done)
}

/// The least of several times: what the machine does besides only adds to it.
fn least(mut work: impl FnMut() -> Duration) -> Duration {
    (0..setting("ROUNDS", 5)).map(|_| work()).min().unwrap()
}

fn nanos_each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

fn main() {
    let experiments: [(&str, fn()); 4] = [
        ("table", table::run),
        ("filter", filter::run),
        ("rows", rows::run),
        ("files", files::run),
    ];
    // Cargo adds `--bench`.
    let names = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect::<Vec<_>>();
    for (name, run) in experiments {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            run();
        }
    }
}
