//! The queue of a workload group: as many queries run as it allows, others wait in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{Clock, Deadline, until};
use freshet_base::metrics::{IntCounter, IntGauge, Metrics};
use freshet_base::{Error, Result, Retry, err};
use freshet_meta::{GroupLimits, UNLIMITED};
use tokio::sync::oneshot;

use super::Group;

/// The retry time in errors that pass when other queries of the group end.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Queue {
    limits: GroupLimits,
    /// Whether the group was dropped.
    is_closed: bool,
    running: u32,
    last: u64,
    /// Oldest first.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    id: u64,
    call: oneshot::Sender<Result<QuerySlot>>,
}

/// The metrics of a group, found once: each query counts.
pub struct Counts {
    metrics: Arc<Metrics>,
    name: Arc<str>,
    running: IntGauge,
    waiting: IntGauge,
    refused: IntCounter,
}

impl Counts {
    pub fn new(metrics: &Arc<Metrics>, name: &Arc<str>) -> Self {
        let (groups, label) = (&metrics.groups, [&**name]);
        let counts = Self {
            running: groups.running.with_label_values(&label),
            waiting: groups.waiting.with_label_values(&label),
            refused: groups.refused.with_label_values(&label),
            metrics: Arc::clone(metrics),
            name: Arc::clone(name),
        };
        counts.show(&Queue::default());
        counts
    }

    fn show(&self, queue: &Queue) {
        let waiting = i64::try_from(queue.waiting.len()).unwrap_or(i64::MAX);
        self.running.set(queue.running.into());
        self.waiting.set(waiting);
    }

    /// Nothing that is counted from now on is seen.
    fn forget(&self) {
        let (groups, label) = (&self.metrics.groups, [&*self.name]);
        let gone = [
            groups.running.remove_label_values(&label),
            groups.waiting.remove_label_values(&label),
            groups.refused.remove_label_values(&label),
        ];
        assert!(gone.iter().all(Result::is_ok), "a group is counted until it is dropped");
    }
}

/// The right to run a query in a group; given back on drop.
pub struct QuerySlot(Option<Arc<Group>>);

impl Drop for QuerySlot {
    fn drop(&mut self) {
        let Some(group) = self.0.take() else { return };
        group.queue.lock().running -= 1;
        group.call();
    }
}

/// How a query gets into its group.
pub enum Entry {
    /// It may run.
    In(QuerySlot),
    /// Others run.
    Wait(Waiting),
}

/// The place of a query that waits; it is given up on drop.
pub struct Waiting {
    group: Arc<Group>,
    id: u64,
    called: oneshot::Receiver<Result<QuerySlot>>,
    /// `queue_timeout` as it was when the query came.
    limits: GroupLimits,
}

impl Group {
    /// Adopts limits; more queries may run from now on. Those that wait keep their time limit.
    pub(super) fn limit(self: &Arc<Self>, limits: &GroupLimits) {
        self.queue.lock().limits = *limits;
        self.call();
    }

    /// Sends those away that wait: the group was dropped. Queries that run go on.
    pub(super) fn close(&self) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.waiting)
        };
        for waiter in waiting {
            // Who is gone does not want to know.
            let _ = waiter.call.send(Err(self.dropped()));
        }
        self.counts.forget();
    }

    /// Queries that run, and that wait.
    pub fn load(&self) -> (u64, u64) {
        let queue = self.queue.lock();
        (queue.running.into(), queue.waiting.len() as u64)
    }

    /// A place for one more query.
    ///
    /// # Errors
    /// 1041 where as many run and wait as may, 1105 if the group was dropped.
    pub fn enter(self: &Arc<Self>) -> Result<Entry> {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(self.dropped());
        }
        let limits = queue.limits;
        if queue.running < limits.concurrency_max && queue.waiting.is_empty() {
            queue.running += 1;
            self.counts.show(&queue);
            return Ok(Entry::In(QuerySlot(Some(Arc::clone(self)))));
        }
        let is_full = queue.waiting.len() >= limits.queue_size_max as usize;
        if is_full || limits.queue_timeout_ms == 0 {
            self.counts.refused.inc();
            return Err(self.full(&limits, &queue));
        }
        let (call, called) = oneshot::channel();
        queue.last += 1;
        let id = queue.last;
        queue.waiting.push_back(Waiter { id, call });
        self.counts.show(&queue);
        Ok(Entry::Wait(Waiting { group: Arc::clone(self), id, called, limits }))
    }

    /// Calls those that wait into the slots that are free.
    fn call(self: &Arc<Self>) {
        loop {
            let waiter = {
                let mut queue = self.queue.lock();
                let is_free = queue.running < queue.limits.concurrency_max;
                let next = if is_free { queue.waiting.pop_front() } else { None };
                queue.running += u32::from(next.is_some());
                self.counts.show(&queue);
                next
            };
            let Some(waiter) = waiter else { return };
            let unwanted = waiter.call.send(Ok(QuerySlot(Some(Arc::clone(self)))));
            if let Err(Ok(mut slot)) = unwanted {
                // Not by its drop, which would call the next one from within this call.
                slot.0 = None;
                self.queue.lock().running -= 1;
            }
        }
    }

    fn dropped(&self) -> Error {
        err!(
            Unknown,
            "workload group '{}' was dropped while the query waited; SET workload_group to another \
             one",
            self.name
        )
    }

    fn full(&self, limits: &GroupLimits, queue: &Queue) -> Error {
        let GroupLimits { concurrency_max, queue_size_max, queue_timeout_ms, .. } = *limits;
        assert!(concurrency_max < UNLIMITED, "a group without limit is never full");
        let name = &self.name;
        let waiting = queue.waiting.len();
        let why = match (queue_size_max, queue_timeout_ms) {
            (0, _) => "none may wait (max_queue_size is 0)".to_owned(),
            (_, 0) => "none may wait (queue_timeout is 0)".to_owned(),
            _ => format!("{waiting} wait (max_queue_size is {queue_size_max})"),
        };
        err!(
            OutOfRoom,
            "workload group '{name}' runs {} queries (max_concurrency is {concurrency_max}), and \
             {why}; send the query again later, or ALTER WORKLOAD GROUP",
            queue.running
        )
        .with_retry(Retry::After(RETRY_AFTER))
    }
}

impl Waiting {
    /// Waits for the slot.
    ///
    /// # Errors
    /// 1205 when `queue_timeout` is over, 1105 when the group is dropped.
    pub async fn slot(mut self, clock: &dyn Clock) -> Result<QuerySlot> {
        let patience = Duration::from_millis(self.limits.queue_timeout_ms.into());
        let deadline = Deadline::after(clock, patience);
        match until(clock, deadline, &mut self.called).await {
            Some(Ok(called)) => called,
            Some(Err(_)) => Err(self.group.dropped()),
            None => Err(self.late()),
        }
    }

    fn late(&self) -> Error {
        self.group.counts.refused.inc();
        err!(
            LockWaitTimeout,
            "the query has waited {} ms (queue_timeout) in workload group '{}', which runs {} at \
             once (max_concurrency); send it again later, or ALTER WORKLOAD GROUP",
            self.limits.queue_timeout_ms,
            self.group.name,
            self.limits.concurrency_max
        )
        .with_retry(Retry::After(RETRY_AFTER))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queue = self.group.queue.lock();
        queue.waiting.retain(|waiter| waiter.id != self.id);
        if !queue.is_closed {
            self.group.counts.show(&queue);
        }
    }
}
