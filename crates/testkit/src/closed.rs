//! Waiting for a store that a server of the same process has closed.

// The real disk has the real clock.
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use freshet_base::io::{Fs, RealFs};

const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until nothing locks a store on a real disk, so that it can be opened again: background
/// tasks keep it for a moment after a stop.
///
/// # Panics
/// After ten seconds.
#[track_caller]
pub fn until_closed(data_dir: &Path) {
    let (lock, began) = (data_dir.join("LOCK"), Instant::now());
    while let Err(error) = RealFs.lock(&lock) {
        assert!(began.elapsed() < PATIENCE, "{} is not closed: {error}", data_dir.display());
        sleep(Duration::from_millis(5));
    }
}
