//! A clock on which no deadline passes.

use std::time::Duration;

use freshet_base::clock::{Clock, Deadline};
use futures::future::BoxFuture;

/// Its sleeps never end, so that a wait ends only by what it waits for.
pub struct Never;

/// A deadline that never comes.
pub const LATER: Deadline = Deadline(Duration::from_secs(1));

impl Clock for Never {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_micros(&self) -> i64 {
        0
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        match duration.is_zero() {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
}
