//! A lock that is awaited. Who waits is woken in the order of arrival.
//!
//! Whoever finds it free takes it, though others wait: most hold it for microseconds, and a thread
//! that has work to do goes on while another one wakes. Who was woken and found it taken again, a
//! few times, gets it from whoever holds it then.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, Mutex, Ordering};

/// How often who was woken finds it taken before it is handed over. Until it runs nobody has it, so
/// this must be rare: between two threads every second one who is woken finds it free.
const TRIES_MAX: u32 = 8;
/// So many are on their way at once: the thread of the first one may be busy.
const WOKEN_MAX: usize = 2;

/// A value that one task at a time has.
pub struct FairLock<T> {
    inner: Mutex<Inner<T>>,
    /// Looked at before `inner` by who does not wait.
    is_free: AtomicBool,
}

struct Inner<T> {
    /// `None` while somebody has it.
    value: Option<Box<T>>,
    /// By number.
    waiters: VecDeque<Waiter<T>>,
    /// The number of the next one.
    next: u64,
}

struct Waiter<T> {
    number: u64,
    state: Waiting<T>,
    /// How often it was woken in vain.
    tries: u32,
}

enum Waiting<T> {
    Asleep(Waker),
    Woken,
    /// It has it, and was woken.
    Given(Box<T>),
}

/// The value, until this is dropped.
pub struct Held<T> {
    lock: Arc<FairLock<T>>,
    value: Option<Box<T>>,
}

/// Waits for the value; may be dropped at any time.
pub struct Acquire<T> {
    lock: Arc<FairLock<T>>,
    /// While it waits.
    number: Option<u64>,
}

impl<T> FairLock<T> {
    pub fn new(value: T) -> Self {
        let inner = Inner { value: Some(Box::new(value)), waiters: VecDeque::new(), next: 0 };
        Self { inner: Mutex::new(inner), is_free: AtomicBool::new(true) }
    }

    /// Takes the value if nobody has it.
    pub fn try_lock(self: &Arc<Self>) -> Option<Held<T>> {
        if !self.is_free.load(Ordering::Relaxed) {
            return None;
        }
        let value = self.take(&mut self.inner.lock())?;
        Some(Held { lock: Arc::clone(self), value: Some(value) })
    }

    /// Takes the value once nobody has it.
    pub fn lock(self: &Arc<Self>) -> Acquire<T> {
        Acquire { lock: Arc::clone(self), number: None }
    }

    fn take(&self, inner: &mut Inner<T>) -> Option<Box<T>> {
        let value = inner.value.take()?;
        self.is_free.store(false, Ordering::Relaxed);
        Some(value)
    }

    /// Puts the value back, or hands it over.
    fn give_back(&self, value: Box<T>) {
        let wakes = {
            let mut inner = self.inner.lock();
            assert!(inner.value.is_none(), "one at a time has the value");
            match inner.waiters.front_mut() {
                Some(first) if first.tries >= TRIES_MAX => {
                    match std::mem::replace(&mut first.state, Waiting::Given(value)) {
                        Waiting::Asleep(waker) => Some(waker),
                        Waiting::Woken => None,
                        Waiting::Given(_) => unreachable!("one at a time has the value"),
                    }
                }
                _ => {
                    inner.value = Some(value);
                    self.is_free.store(true, Ordering::Relaxed);
                    inner.wake_one()
                }
            }
        };
        // A waker may run what it wakes.
        wakes.into_iter().for_each(Waker::wake);
    }
}

impl<T> Inner<T> {
    /// Whom to wake, since the value is free.
    fn wake_one(&mut self) -> Option<Waker> {
        let mut first = self.waiters.iter_mut().take(WOKEN_MAX);
        let asleep = first.find(|waiter| matches!(waiter.state, Waiting::Asleep(_)))?;
        match std::mem::replace(&mut asleep.state, Waiting::Woken) {
            Waiting::Asleep(waker) => Some(waker),
            Waiting::Woken | Waiting::Given(_) => unreachable!("it was asleep"),
        }
    }

    /// Where a waiter is.
    fn position(&self, number: u64) -> usize {
        let found = self.waiters.binary_search_by_key(&number, |waiter| waiter.number);
        found.expect("who waits is in the queue")
    }
}

impl<T> Acquire<T> {
    /// The value if it was given or is free; otherwise it is waited for.
    fn poll_value(&mut self, context: &Context<'_>) -> Option<Box<T>> {
        let Self { lock, number: own } = self;
        let inner = &mut *lock.inner.lock();
        let free = lock.take(inner);
        let Some(number) = *own else {
            if free.is_none() {
                let (number, state) = (inner.next, Waiting::Asleep(context.waker().clone()));
                inner.waiters.push_back(Waiter { number, state, tries: 0 });
                inner.next += 1;
                *own = Some(number);
            }
            return free;
        };
        let at = inner.position(number);
        let waiter = &mut inner.waiters[at];
        let asleep = Waiting::Asleep(context.waker().clone());
        let given = match std::mem::replace(&mut waiter.state, asleep) {
            Waiting::Given(value) => Some(value),
            Waiting::Woken => {
                waiter.tries += 1;
                None
            }
            Waiting::Asleep(_) => None,
        };
        let value = free.or(given)?;
        inner.waiters.remove(at);
        *own = None;
        Some(value)
    }
}

impl<T> Future for Acquire<T> {
    type Output = Held<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Held<T>> {
        let acquire = self.get_mut();
        match acquire.poll_value(context) {
            Some(value) => {
                Poll::Ready(Held { lock: Arc::clone(&acquire.lock), value: Some(value) })
            }
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Acquire<T> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let (given, wakes) = {
            let mut inner = self.lock.inner.lock();
            let at = inner.position(number);
            let waiter = inner.waiters.remove(at).expect("it was just found");
            match waiter.state {
                Waiting::Given(value) => (Some(value), None),
                // It was to take the value, which somebody else may do as well.
                Waiting::Woken if inner.value.is_some() => (None, inner.wake_one()),
                Waiting::Woken | Waiting::Asleep(_) => (None, None),
            }
        };
        given.into_iter().for_each(|value| self.lock.give_back(value));
        wakes.into_iter().for_each(Waker::wake);
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self.value.take().expect("it is dropped once");
        self.lock.give_back(value);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    fn poll_once<T>(acquire: &mut Acquire<T>) -> Option<Held<T>> {
        acquire.now_or_never()
    }

    #[test]
    fn one_at_a_time_has_the_value() {
        let lock = Arc::new(FairLock::new(1));
        let mut held = lock.try_lock().unwrap();
        *held += 1;
        assert!(lock.try_lock().is_none());
        assert!(poll_once(&mut lock.lock()).is_none());
        drop(held);
        assert_eq!(*block_on(lock.lock()), 2);
    }

    #[test]
    fn who_waits_is_woken_in_the_order_of_arrival() {
        let lock = Arc::new(FairLock::new(Vec::new()));
        let held = lock.try_lock().unwrap();
        let mut waiting = [0, 1, 2, 3].map(|_| lock.lock());
        waiting.iter_mut().for_each(|one| assert!(poll_once(one).is_none()));
        let woken = || {
            let inner = lock.inner.lock();
            let is_asleep = |waiter: &Waiter<Vec<u32>>| matches!(waiter.state, Waiting::Asleep(_));
            inner.waiters.iter().map(|waiter| !is_asleep(waiter)).collect::<Vec<_>>()
        };
        assert_eq!(woken(), [false; 4]);
        drop(held);
        assert_eq!(woken(), [true, false, false, false]);
        drop(lock.try_lock().unwrap());
        assert_eq!(woken(), [true, true, false, false]);
        drop(lock.try_lock().unwrap());
        assert_eq!(woken(), [true, true, false, false], "two are on their way");
        let [first, ..] = &mut waiting;
        drop(poll_once(first).unwrap());
        assert_eq!(woken(), [true, true, false], "the next one is");
    }

    #[test]
    fn who_was_woken_in_vain_gets_it_handed_over() {
        let lock = Arc::new(FairLock::new(()));
        let mut held = lock.try_lock().unwrap();
        let mut waiting = lock.lock();
        assert!(poll_once(&mut waiting).is_none());
        for _ in 0..TRIES_MAX {
            drop(held);
            held = lock.try_lock().expect("whoever comes takes what is free");
            assert!(poll_once(&mut waiting).is_none());
        }
        drop(held);
        assert!(lock.try_lock().is_none(), "it is given already");
        drop(poll_once(&mut waiting).unwrap());
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn who_gives_up_passes_it_on() {
        let lock = Arc::new(FairLock::new(()));
        let mut held = lock.try_lock().unwrap();
        let (mut first, mut second) = (lock.lock(), lock.lock());
        assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
        for _ in 0..TRIES_MAX {
            drop(held);
            held = lock.try_lock().unwrap();
            assert!(poll_once(&mut first).is_none());
        }
        drop(held);
        drop(first);
        assert!(poll_once(&mut second).is_some(), "what was given to the first one");
        assert!(lock.inner.lock().waiters.is_empty());
        assert!(lock.try_lock().is_some());
    }
}
