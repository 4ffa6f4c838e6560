//! Byte budgets: permits that give back what they took, waiters served in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::channel::oneshot;

use crate::clock::{Clock, Deadline, until};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A number of bytes that many share and nobody exceeds.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    name: &'static str,
    limit_bytes: u64,
    used_bytes: AtomicU64,
    /// Requests that found no room, oldest first; a newcomer never overtakes them.
    waiters: Mutex<VecDeque<Waiter>>,
    waiting: AtomicU64,
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
    /// More than the whole budget was asked for: it will never fit.
    Never,
    /// The deadline came before the room.
    TimedOut,
}

impl Budget {
    /// A budget of `limit_bytes`, named in messages.
    pub fn new(name: &'static str, limit_bytes: u64) -> Self {
        Self(Arc::new(Shared {
            name,
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            waiters: Mutex::new(VecDeque::new()),
            waiting: AtomicU64::new(0),
        }))
    }

    /// What it is a budget of.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// How much it may hand out.
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// How much is handed out.
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// How many requests wait.
    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Takes `bytes` at once, or nothing when they do not fit or others wait for theirs.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        if self.0.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.0.take(bytes).then(|| Permit { budget: Arc::clone(&self.0), bytes })
    }

    /// Takes `bytes` even above the limit: for replay and others that must go on.
    pub fn acquire_over(&self, bytes: u64) -> Permit {
        self.0.used_bytes.fetch_add(bytes, Ordering::AcqRel);
        Permit { budget: Arc::clone(&self.0), bytes }
    }

    /// Takes `bytes`, waiting for its turn until `deadline`.
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
        {
            let mut waiters = self.0.waiters.lock();
            waiters.push_back(Waiter { bytes, wake });
            self.0.waiting.store(waiters.len() as u64, Ordering::Release);
        }
        // Room may have come back between the first try and the queueing.
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

    /// Hands room to waiters in their order, as far as it reaches.
    fn serve(self: &Arc<Self>) {
        while let Some(Waiter { bytes, wake }) = self.next_served() {
            // A waiter that went away meanwhile drops the permit, which serves the next one.
            drop(wake.send(Permit { budget: Arc::clone(self), bytes }));
        }
    }

    /// The oldest waiter, its room taken; waiters that gave up are passed over.
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
    /// How many bytes it holds.
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

    /// Holds exactly `bytes` from now on: gives back, or takes even above the limit.
    pub fn resize_over(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.used_bytes.fetch_add(bytes - self.bytes, Ordering::AcqRel);
            self.bytes = bytes;
        }
        self.shrink_to(bytes);
    }

    /// Gives back all but `bytes`.
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

    /// A clock whose sleeps never end, so that only room wakes a waiter.
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
