//! Telling computations that nobody wants their result any more.
//!
//! DataFusion computes without ever asking whether it still should: a pass of its planner, a
//! function over a batch. What runs on threads of queries therefore carries a mark, which the
//! thread shows to whoever asks with [`check`]: the parts of ours that DataFusion calls back.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::DataFusionError;
use freshet_base::err;

use crate::error::external;

thread_local! {
    /// The mark of what this thread computes.
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// The mark of one computation.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The computation is to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Shows the mark to what this thread computes until it is dropped.
    #[must_use]
    pub fn show(&self) -> Shown {
        Shown::new(self.clone())
    }

    /// The same computation, which finds the mark wherever it is polled.
    pub async fn around<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        poll_fn(|context| {
            let _shown = Shown::new(self.clone());
            work.as_mut().poll(context)
        })
        .await
    }
}

/// A mark while the thread shows it.
pub struct Shown(Option<Interrupt>);

impl Shown {
    fn new(mark: Interrupt) -> Self {
        Self(CURRENT.replace(Some(mark)))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Ends the computation that this thread is in, if nobody wants it any more.
///
/// # Errors
/// 1317, which nobody reads.
pub fn check() -> Result<(), DataFusionError> {
    let set = |mark: &Option<Interrupt>| mark.as_ref().is_some_and(Interrupt::is_set);
    match CURRENT.with_borrow(set) {
        true => interrupted(),
        false => Ok(()),
    }
}

/// Looks now and then whether a long computation is still wanted.
#[derive(Debug, Default)]
pub struct Work(usize);

impl Work {
    /// Steps of a computation between two looks.
    const STEPS: usize = 1 << 20;

    /// So many steps were done.
    ///
    /// # Errors
    /// As [`check`].
    pub fn done(&mut self, steps: usize) -> Result<(), DataFusionError> {
        self.0 += steps;
        if self.0 < Self::STEPS {
            return Ok(());
        }
        self.0 = 0;
        check()
    }
}

/// What a computation ends with that nobody wants.
///
/// # Errors
/// 1317.
pub fn interrupted() -> Result<(), DataFusionError> {
    Err(external(err!(Interrupted, "Query execution was interrupted")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_seen_inside_of_its_computation_only() {
        let (outer, inner) = (Interrupt::default(), Interrupt::default());
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
