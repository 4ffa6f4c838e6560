//! Limits of rows and bytes a second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::stop::Stop;

/// Lets units through at a steady rate. A block takes all its units at once and the next one waits
/// for them, so that over a few blocks the rate is right, however large blocks are.
pub struct Pace {
    per_second: u64,
    /// When what was let through so far is paid for.
    free_at: Mutex<Instant>,
}

impl Pace {
    pub fn new(per_second: u64) -> Self {
        Self { per_second, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of `units`; returns whether to go on.
    pub fn wait(&self, units: u64, stop: &Stop) -> bool {
        let time = Duration::from_secs_f64(units as f64 / self.per_second as f64);
        let mut free_at = self.free_at.lock();
        let begin = (*free_at).max(Instant::now());
        *free_at = begin + time;
        drop(free_at);
        stop.sleep(begin.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_at_their_rate() {
        let began = Instant::now();
        let pace = Pace::new(1000);
        for _ in 0..5 {
            assert!(pace.wait(50, &Stop::default()));
        }
        // The first goes at once, the fifth behind four times 50 ms.
        assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    }
}
