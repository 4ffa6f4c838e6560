//! Time, passed as an argument.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle};

use crate::task::{TimeSlice, set_time_slice};

/// The source of time and of timers.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time since an arbitrary start; never goes back.
    fn now(&self) -> Duration;

    /// Microseconds since 1970-01-01 UTC; may jump.
    fn wall_micros(&self) -> i64;

    /// Resolves once `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

pub type ClockRef = Arc<dyn Clock>;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    // The one place that may call `Instant::now` and `SystemTime::now`.
    #[allow(clippy::disallowed_methods, clippy::new_without_default)]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_micros(&self) -> i64 {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    // The one place that may call `tokio::time::sleep`.
    #[allow(clippy::disallowed_methods)]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let _timers = timers().enter();
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The timers of the process: a wheel with a thread of its own, so that they run on any thread and
/// outlive every runtime. The thread wakes only when a timer is the next to expire; one that wakes
/// for each timer made and dropped costs a statement four switches.
///
/// It is global because a clock is a value that anybody may make.
#[allow(clippy::disallowed_methods)]
fn timers() -> &'static Handle {
    static TIMERS: OnceLock<Handle> = OnceLock::new();
    TIMERS.get_or_init(|| {
        let wheel = Builder::new_current_thread().enable_time().build();
        let wheel = wheel.expect("a runtime of timers alone opens nothing");
        let handle = wheel.handle().clone();
        let run = move || {
            set_time_slice(TimeSlice::Short);
            wheel.block_on(std::future::pending::<()>());
        };
        let thread = std::thread::Builder::new().name("timers".to_owned()).spawn(run);
        thread.expect("the process can start a thread");
        handle
    })
}

/// The clock of a log, which dates labels and transactions. It advances only while a server of the
/// store runs, and continues from the last time recorded in the log, so that a jump of the wall
/// clock ages nothing. A new store starts at the wall clock's time.
pub struct LogClock {
    clock: ClockRef,
    /// The log's time when `clock` was at zero, in microseconds since 1970-01-01 UTC.
    began_micros: AtomicI64,
}

impl LogClock {
    /// Continues from `noted_micros`, the last time recorded in the log, if there is one.
    pub fn new(clock: ClockRef, noted_micros: Option<i64>) -> Self {
        let now_micros = noted_micros.unwrap_or_else(|| clock.wall_micros());
        let began_micros = AtomicI64::new(now_micros.saturating_sub(running_micros(&clock)));
        Self { clock, began_micros }
    }

    /// Microseconds since 1970-01-01 UTC; never goes back.
    pub fn now_micros(&self) -> i64 {
        let began_micros = self.began_micros.load(Ordering::Relaxed);
        began_micros.saturating_add(running_micros(&self.clock))
    }

    /// Advances to `micros` if that is later: an earlier process recorded that time.
    pub fn has_shown(&self, micros: i64) {
        let missing_micros = micros.saturating_sub(self.now_micros());
        if missing_micros > 0 {
            self.began_micros.fetch_add(missing_micros, Ordering::Relaxed);
        }
    }
}

fn running_micros(clock: &ClockRef) -> i64 {
    i64::try_from(clock.now().as_micros()).unwrap_or(i64::MAX)
}

/// A point in a clock's monotonic time at which a request gives up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(pub Duration);

impl Deadline {
    pub fn after(clock: &dyn Clock, after: Duration) -> Self {
        Self(clock.now().saturating_add(after))
    }

    /// The time left, zero when the deadline has passed.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.now())
    }
}

/// Waits for `future` until `deadline`; `None` when the deadline passed first.
pub async fn until<F: Future>(
    clock: &dyn Clock,
    deadline: Deadline,
    future: F,
) -> Option<F::Output> {
    use futures::future::{Either, select};
    let timer = clock.sleep(deadline.left(clock));
    match select(std::pin::pin!(future), timer).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_what_never_ends() {
        let clock = SystemClock::new();
        let deadline = Deadline::after(&clock, Duration::from_millis(5));
        let never = std::future::pending::<()>();
        assert!(futures::executor::block_on(until(&clock, deadline, never)).is_none());
        assert_eq!(deadline.left(&clock), Duration::ZERO);
        let ready = std::future::ready(7);
        assert_eq!(futures::executor::block_on(until(&clock, deadline, ready)), Some(7));
    }
}
