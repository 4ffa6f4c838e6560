//! The clock by which labels age.

use std::sync::atomic::{AtomicI64, Ordering};

use freshet_base::clock::ClockRef;

/// Runs while a server of the store does, and only then: a label is remembered for so much time in
/// which it could have been sent again, whatever becomes of the clock on the wall. It begins with
/// the time of the wall, which older versions counted with.
pub(crate) struct ServiceClock {
    clock: ClockRef,
    /// What it showed when the process began.
    began_micros: AtomicI64,
}

impl ServiceClock {
    /// Goes on from what an earlier process has saved.
    pub fn new(clock: ClockRef, saved_micros: Option<i64>) -> Self {
        let now_micros = saved_micros.unwrap_or_else(|| clock.wall_micros());
        let began_micros = AtomicI64::new(now_micros.saturating_sub(running_micros(&clock)));
        Self { clock, began_micros }
    }

    /// What it shows.
    pub fn now_micros(&self) -> i64 {
        let began_micros = self.began_micros.load(Ordering::Relaxed);
        began_micros.saturating_add(running_micros(&self.clock))
    }

    /// An earlier process has seen this time, and did not come to save it.
    pub fn has_shown(&self, micros: i64) {
        let missing_micros = micros.saturating_sub(self.now_micros());
        if missing_micros > 0 {
            self.began_micros.fetch_add(missing_micros, Ordering::Relaxed);
        }
    }

    /// The time on the wall.
    pub fn wall_micros(&self) -> i64 {
        self.clock.wall_micros()
    }
}

fn running_micros(clock: &ClockRef) -> i64 {
    i64::try_from(clock.now().as_micros()).unwrap_or(i64::MAX)
}
