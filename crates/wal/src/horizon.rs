//! The horizon: the highest durable LSN, and futures that wait for it.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use freshet_base::Lsn;
use futures::task::AtomicWaker;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// The highest durable LSN; clones share it.
#[derive(Clone)]
pub struct Horizon(Arc<Shared>);

struct Shared {
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
    watches: Mutex<Vec<Arc<AtomicWaker>>>,
}

/// Futures of [`Horizon::wait`], ordered by LSN and then by arrival.
#[derive(Default)]
struct Waiting {
    arrivals: u64,
    wakers: BTreeMap<(Lsn, u64), Waker>,
}

impl Horizon {
    pub(crate) fn new(durable: Lsn) -> Self {
        Self(Arc::new(Shared {
            durable: AtomicU64::new(durable.get()),
            waiting: Mutex::default(),
            watches: Mutex::default(),
        }))
    }

    /// The highest durable LSN.
    pub fn get(&self) -> Lsn {
        Lsn(self.0.durable.load(Ordering::Acquire))
    }

    /// Resolves when `lsn` is durable. It may be dropped at any time.
    pub fn wait(&self, lsn: Lsn) -> WaitDurable {
        WaitDurable { shared: Arc::clone(&self.0), lsn, arrival: None }
    }

    /// A watch with its own waker, for a thread that serves many connections and should be woken
    /// once per batch.
    pub fn subscribe(&self) -> HorizonWatch {
        let waker = Arc::new(AtomicWaker::new());
        self.0.watches.lock().push(Arc::clone(&waker));
        HorizonWatch { horizon: self.clone(), waker }
    }

    /// Advances to `durable` and wakes the waiters that it has reached.
    pub(crate) fn advance(&self, durable: Lsn) {
        let before = self.0.durable.swap(durable.get(), Ordering::AcqRel);
        assert!(before < durable.get(), "the horizon moves forward only");
        for waker in self.0.watches.lock().iter() {
            waker.wake();
        }
        let reached = {
            let mut waiting = self.0.waiting.lock();
            let later = waiting.wakers.split_off(&(durable.next(), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        for waker in reached.into_values() {
            waker.wake();
        }
    }
}

/// The future of [`Horizon::wait`].
pub struct WaitDurable {
    shared: Arc<Shared>,
    lsn: Lsn,
    arrival: Option<u64>,
}

impl WaitDurable {
    fn is_durable(&self) -> bool {
        self.shared.durable.load(Ordering::Acquire) >= self.lsn.get()
    }
}

impl Future for WaitDurable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_durable() {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut waiting = shared.waiting.lock();
        // `advance` stores the horizon before it takes the lock, so this check misses nothing.
        if self.is_durable() {
            return Poll::Ready(());
        }
        let arrival = *self.arrival.get_or_insert_with(|| {
            waiting.arrivals += 1;
            waiting.arrivals
        });
        waiting.wakers.insert((self.lsn, arrival), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for WaitDurable {
    fn drop(&mut self) {
        if let Some(arrival) = self.arrival {
            self.shared.waiting.lock().wakers.remove(&(self.lsn, arrival));
        }
    }
}

/// A subscriber of the horizon.
pub struct HorizonWatch {
    horizon: Horizon,
    waker: Arc<AtomicWaker>,
}

impl HorizonWatch {
    /// The highest durable LSN.
    pub fn get(&self) -> Lsn {
        self.horizon.get()
    }

    /// Resolves with the horizon when it is above `after`. It may be dropped at any time.
    pub fn changed(&mut self, after: Lsn) -> impl Future<Output = Lsn> + '_ {
        poll_fn(move |context| {
            self.waker.register(context.waker());
            match self.horizon.get() {
                durable if durable > after => Poll::Ready(durable),
                _ => Poll::Pending,
            }
        })
    }
}

impl Drop for HorizonWatch {
    fn drop(&mut self) {
        self.horizon.0.watches.lock().retain(|waker| !Arc::ptr_eq(waker, &self.waker));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;
    use futures::task::{ArcWake, waker};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl ArcWake for Counter {
        fn wake_by_ref(counter: &Arc<Self>) {
            counter.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waits_end_when_their_lsn_is_durable() {
        let horizon = Horizon::new(Lsn(5));
        assert!(horizon.wait(Lsn(5)).now_or_never().is_some());
        let counter = Arc::new(Counter::default());
        let waker = waker(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let mut six = horizon.wait(Lsn(6));
        let mut eight = horizon.wait(Lsn(8));
        assert!(six.poll_unpin(&mut context).is_pending());
        assert!(six.poll_unpin(&mut context).is_pending());
        assert!(eight.poll_unpin(&mut context).is_pending());
        horizon.advance(Lsn(7));
        assert_eq!(counter.0.load(Ordering::Relaxed), 1, "one wake-up for the one that is due");
        assert!(six.poll_unpin(&mut context).is_ready());
        assert!(eight.poll_unpin(&mut context).is_pending());
        drop(eight);
        assert!(horizon.0.waiting.lock().wakers.is_empty());
    }

    #[test]
    fn a_watch_is_woken_once_an_advance() {
        let horizon = Horizon::new(Lsn(5));
        let mut watch = horizon.subscribe();
        let counter = Arc::new(Counter::default());
        let waker = waker(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        assert!(watch.changed(Lsn(5)).poll_unpin(&mut context).is_pending());
        horizon.advance(Lsn(9));
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        assert_eq!(watch.changed(Lsn(5)).now_or_never(), Some(Lsn(9)));
        assert_eq!(watch.changed(Lsn(9)).now_or_never(), None);
        drop(watch);
        assert!(horizon.0.watches.lock().is_empty());
    }

    #[test]
    #[should_panic(expected = "forward only")]
    fn it_never_moves_back() {
        Horizon::new(Lsn(5)).advance(Lsn(5));
    }
}
