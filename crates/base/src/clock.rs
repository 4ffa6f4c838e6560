//! Time as an argument.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

/// Where code asks for the time and waits for it to pass.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time since an arbitrary start; never goes back.
    fn now(&self) -> Duration;

    /// Microseconds since 1970-01-01 UTC; may jump.
    fn wall_micros(&self) -> i64;

    /// Resolves once `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A shared [`Clock`].
pub type ClockRef = Arc<dyn Clock>;

/// A point in a clock's monotonic time after which a request is no longer worth doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(pub Duration);

impl Deadline {
    /// `after` from now on.
    pub fn after(clock: &dyn Clock, after: Duration) -> Self {
        Self(clock.now().saturating_add(after))
    }

    /// What is left, zero when it has passed.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.now())
    }
}

/// Waits for `future` until `deadline`; `None` when the deadline came first.
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
