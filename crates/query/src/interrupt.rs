//! Cancellation of computations.
//!
//! DataFusion's planner passes and functions do not check for cancellation. So a computation on the
//! query threads has a flag, which is made available to the thread while it runs, and our code that
//! DataFusion calls checks it with [`check`].

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::DataFusionError;
use freshet_base::err;

use crate::error::external;

thread_local! {
    /// The flag of the computation that this thread runs.
    static CURRENT: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

/// The cancellation flag of one computation.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Cancels the computation.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the computation was cancelled.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes this the flag of the current thread until the guard is dropped.
    #[must_use]
    pub fn enter(&self) -> CancellationGuard {
        CancellationGuard::new(self.clone())
    }

    /// Makes this the flag of whatever thread polls `work`.
    pub async fn around<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        poll_fn(|context| {
            let _guard = CancellationGuard::new(self.clone());
            work.as_mut().poll(context)
        })
        .await
    }
}

/// The guard of [`Cancellation::enter`].
pub struct CancellationGuard(Option<Cancellation>);

impl CancellationGuard {
    fn new(mark: Cancellation) -> Self {
        Self(CURRENT.replace(Some(mark)))
    }
}

impl Drop for CancellationGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Fails if the computation on this thread was cancelled.
///
/// # Errors
/// 1317; it does not reach a client.
pub fn check() -> Result<(), DataFusionError> {
    let set = |mark: &Option<Cancellation>| mark.as_ref().is_some_and(Cancellation::is_set);
    match CURRENT.with_borrow(set) {
        true => interrupted(),
        false => Ok(()),
    }
}

/// Checks for cancellation at intervals during a long computation.
#[derive(Debug, Default)]
pub struct CancellationTicker(usize);

impl CancellationTicker {
    /// Steps between checks.
    const STEPS: usize = 1 << 20;

    /// Counts steps and checks for cancellation when due.
    ///
    /// # Errors
    /// Those of [`check`].
    pub fn done(&mut self, steps: usize) -> Result<(), DataFusionError> {
        self.0 += steps;
        if self.0 < Self::STEPS {
            return Ok(());
        }
        self.0 = 0;
        check()
    }
}

/// Returns the error of a cancelled computation.
///
/// # Errors
/// 1317, always.
pub fn interrupted() -> Result<(), DataFusionError> {
    Err(external(err!(Interrupted, "Query execution was interrupted")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_seen_inside_of_its_computation_only() {
        let (outer, inner) = (Cancellation::default(), Cancellation::default());
        inner.set();
        let seen = futures::executor::block_on(outer.around(async {
            let before = check().is_err();
            let within = inner.around(async { check().is_err() }).await;
            (before, within, check().is_err())
        }));
        assert_eq!(seen, (false, true, false));
        assert!(check().is_ok());
    }
}
