//! Byte budgets: permits return their bytes on drop, and waiters are served in order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::channel::oneshot;

use crate::clock::{Clock, Deadline, until};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A limit in bytes that several users share; clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    name: &'static str,
    limit_bytes: u64,
    used_bytes: AtomicU64,
    /// Requests that did not fit, oldest first. A new request never overtakes them.
    waiters: Mutex<VecDeque<Waiter>>,
    waiting: AtomicU64,
    /// Requests that have waited since the start.
    waited: AtomicU64,
}

struct Waiter {
    bytes: u64,
    wake: oneshot::Sender<Permit>,
}

/// Bytes taken from a budget, given back on drop.
pub struct Permit {
    budget: Arc<Shared>,
    bytes: u64,
}

/// Why a budget gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRoom {
    /// The request is larger than the whole budget and can never be granted.
    Never,
    /// The deadline passed before enough bytes were free.
    TimedOut,
}

impl Budget {
    /// `name` appears in messages.
    pub fn new(name: &'static str, limit_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            name,
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            waiters: Mutex::new(VecDeque::new()),
            waiting: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        }))
    }

    pub fn name(&self) -> &'static str {
        self.0.name
    }

    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// How many requests have had to wait since the start.
    pub fn waited(&self) -> u64 {
        self.0.waited.load(Ordering::Relaxed)
    }

    /// Takes `bytes` without waiting; `None` when they do not fit or other requests are queued.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        if self.0.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.0.take(bytes).then(|| Permit { budget: Arc::clone(&self.0), bytes })
    }

    /// Takes `bytes` even above the limit: for replay and other work that must not block.
    pub fn acquire_over(&self, bytes: u64) -> Permit {
        self.0.used_bytes.fetch_add(bytes, Ordering::AcqRel);
        Permit { budget: Arc::clone(&self.0), bytes }
    }

    /// Takes `bytes`; queues behind earlier requests until `deadline`.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub async fn acquire(
        &self,
        bytes: u64,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Permit, NoRoom> {
        if let Some(permit) = self.try_acquire(bytes) {
            return Ok(permit);
        }
        if bytes > self.0.limit_bytes {
            return Err(NoRoom::Never);
        }
        let (wake, woken) = oneshot::channel();
        self.0.waited.fetch_add(1, Ordering::Relaxed);
        {
            let mut waiters = self.0.waiters.lock();
            waiters.push_back(Waiter { bytes, wake });
            self.0.waiting.store(waiters.len() as u64, Ordering::Release);
        }
        // Bytes may have been freed between the first attempt and the queueing.
        self.0.serve();
        match until(clock, deadline, woken).await {
            Some(Ok(permit)) => Ok(permit),
            Some(Err(_)) | None => Err(NoRoom::TimedOut),
        }
    }
}

impl Shared {
    fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| {
            let after = used.checked_add(bytes)?;
            (after <= self.limit_bytes).then_some(after)
        };
        self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    fn give_back(self: &Arc<Self>, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "budget {} got back more than it gave", self.name);
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.serve();
        }
    }

    /// Grants queued requests in order, as long as the next one fits.
    fn serve(self: &Arc<Self>) {
        while let Some(Waiter { bytes, wake }) = self.next_served() {
            // If the waiter was dropped meanwhile, so is the permit, which serves the next one.
            drop(wake.send(Permit { budget: Arc::clone(self), bytes }));
        }
    }

    /// Takes the bytes of the oldest waiter and removes it from the queue; cancelled waiters are
    /// discarded.
    fn next_served(&self) -> Option<Waiter> {
        let mut waiters = self.waiters.lock();
        while waiters.front()?.wake.is_canceled() {
            waiters.pop_front();
            self.waiting.store(waiters.len() as u64, Ordering::Release);
        }
        if !self.take(waiters.front()?.bytes) {
            return None;
        }
        let first = waiters.pop_front();
        self.waiting.store(waiters.len() as u64, Ordering::Release);
        first
    }
}

impl Permit {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Splits `bytes` off into a permit of their own.
    ///
    /// # Panics
    /// When it holds fewer.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Permit {
        assert!(bytes <= self.bytes, "a permit cannot give what it does not hold");
        self.bytes -= bytes;
        Permit { budget: Arc::clone(&self.budget), bytes }
    }

    /// Takes over the bytes of another permit of the same budget.
    ///
    /// # Panics
    /// When the other is of another budget.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(Arc::ptr_eq(&self.budget, &other.budget), "permits of two budgets do not mix");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Grows or shrinks to exactly `bytes`; growing ignores the limit.
    pub fn resize_over(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.used_bytes.fetch_add(bytes - self.bytes, Ordering::AcqRel);
            self.bytes = bytes;
        }
        self.shrink_to(bytes);
    }

    /// Returns all but `bytes` to the budget.
    pub fn shrink_to(&mut self, bytes: u64) {
        if bytes < self.bytes {
            drop(self.split(self.bytes - bytes));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes);
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({} of {})", self.bytes, self.budget.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;
    use futures::future::BoxFuture;

    use super::*;

    /// A clock on which no deadline passes.
    struct Never;

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

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        use futures::FutureExt;
        future.now_or_never()
    }

    const SOON: Deadline = Deadline(Duration::from_secs(1));

    #[test]
    fn permits_give_back_what_they_took() {
        let budget = Budget::new("test", 100);
        let mut first = budget.try_acquire(60).unwrap();
        assert!(budget.try_acquire(41).is_none());
        let second = first.split(20);
        assert_eq!((first.bytes(), second.bytes(), budget.used_bytes()), (40, 20, 60));
        first.merge(second);
        first.resize_over(110);
        assert_eq!(budget.used_bytes(), 110);
        first.resize_over(10);
        assert_eq!(budget.used_bytes(), 10);
        drop(first);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn waiters_are_served_in_order_and_not_overtaken() {
        let budget = Budget::new("test", 100);
        let held = budget.try_acquire(100).unwrap();
        let mut large = Box::pin(budget.acquire(90, &Never, SOON));
        let mut small = Box::pin(budget.acquire(10, &Never, SOON));
        assert!(poll_once(&mut large).is_none());
        assert!(poll_once(&mut small).is_none());
        assert!(budget.try_acquire(0).is_none(), "a newcomer waits behind the others");
        drop(held);
        let large = block_on(large).unwrap();
        let small = block_on(small).unwrap();
        assert_eq!(large.bytes() + small.bytes(), budget.used_bytes());
        assert_eq!((budget.waited(), budget.waiting()), (2, 0));
    }

    #[test]
    fn a_waiter_that_gives_up_holds_nobody_back() {
        let budget = Budget::new("test", 100);
        let mut held = budget.try_acquire(100).unwrap();
        let mut large = Box::pin(budget.acquire(90, &Never, SOON));
        let mut small = Box::pin(budget.acquire(10, &Never, SOON));
        assert!(poll_once(&mut large).is_none());
        assert!(poll_once(&mut small).is_none());
        drop(large);
        held.shrink_to(90);
        assert_eq!(block_on(small).unwrap().bytes(), 10);
        drop(held);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_deadline_ends_the_wait_and_too_much_never_fits() {
        let budget = Budget::new("test", 100);
        let held = budget.try_acquire(50).unwrap();
        let past = Deadline(Duration::ZERO);
        assert_eq!(block_on(budget.acquire(60, &Never, past)).unwrap_err(), NoRoom::TimedOut);
        assert_eq!(block_on(budget.acquire(101, &Never, SOON)).unwrap_err(), NoRoom::Never);
        drop(held);
        assert_eq!(block_on(budget.acquire(100, &Never, past)).unwrap().bytes(), 100);
    }
}
