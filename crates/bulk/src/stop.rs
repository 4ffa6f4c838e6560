//! Stopping by a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure, Result};

/// How long a sleeper takes to see that it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether the run should end: a signal came, or a part of it has failed.
#[derive(Clone, Default, Debug)]
pub struct Stop {
    signalled: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl Stop {
    /// Stops at the first SIGINT or SIGTERM. A second one ends the process at once, which loses
    /// nothing: the next run asks the server what has arrived.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn at_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            let again = Arc::clone(&stop.signalled);
            flag::register_conditional_shutdown(signal, i32::from(Exit::Stopped as u8), again)
                .and_then(|_| flag::register(signal, Arc::clone(&stop.signalled)))
                .map_err(Failure::of("signals"))?;
        }
        Ok(stop)
    }

    /// Tells all parts to end.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    pub fn is_set(&self) -> bool {
        self.is_signalled() || self.failed.load(Ordering::Relaxed)
    }

    /// Sleeps; returns false, earlier, if the run should end.
    pub fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        false
    }
}
