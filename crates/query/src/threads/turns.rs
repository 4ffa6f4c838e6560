//! Turns of workload groups on the query threads.
//!
//! A task of a query is polled only while it has one of as many turns as there are threads. Whoever
//! wakes it puts it among the tasks of its group that want a turn, and the runtime hears of it when
//! it has one. So it is known at any time who wants to compute, and a turn that becomes free goes
//! to the group that had the least time for its weight (stride scheduling). A group whose queries
//! keep all threads busy leaves another one its part as soon as that has something to do, and may
//! use all that others do not want. A group with a limit of its own has no more turns at once than
//! that, and rests after each where the limit is a part of a thread.
//!
//! A turn ends with the poll, and polls are kept short by [`is_over`], which scans and joins look
//! at for each batch. DataFusion's own limit is 128 batches, which is a tenth of a second.
//!
//! DataFusion starts tasks of its own: they belong to the group of the task that starts them.
//! Tasks of queries without a lane take no turns.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use freshet_base::clock::ClockRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::task::coop::has_budget_remaining;

/// How long a turn lasts, and the batch that is begun.
const TURN: Duration = Duration::from_millis(2);
/// What a group may have had more than others, in time of its own: what nobody else wanted is not
/// held against it for longer. Well above what turns take that run at the same time.
const AHEAD_MAX: Duration = Duration::from_millis(500);
/// A group rests in pieces of this length, since timers are no finer.
const REST_MIN: Duration = Duration::from_millis(5);

thread_local! {
    /// What this thread polls.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    lane: Arc<Lane>,
    /// When its turn began; `None`: it has none.
    began: Option<Duration>,
}

/// Whether the task that this thread polls has had its turn: then it should let others compute, at
/// the next batch. Never without a lane.
pub fn is_over() -> bool {
    CURRENT.with_borrow(|current| {
        let turn = current.as_ref().and_then(|current| Some((&current.lane, current.began?)));
        turn.is_some_and(|(lane, began)| lane.turns.clock.now().saturating_sub(began) >= TURN)
    })
}

/// What a group may have of the threads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LaneShare {
    /// Its part where groups compete, relative to that of others; above 0.
    pub weight: f64,
    /// Its largest part of all threads, from 1 to 100.
    pub percent_max: u32,
}

/// The turns that groups share.
pub struct Turns {
    clock: ClockRef,
    /// Where groups rest.
    runtime: Handle,
    state: Mutex<State>,
}

struct State {
    threads: usize,
    /// Turns that are taken.
    taken: usize,
    lanes: BTreeMap<u64, LaneState>,
    last_lane: u64,
    /// The time of the group that had the least, among those that want turns; never goes back.
    least: f64,
}

struct LaneState {
    share: LaneShare,
    /// Turns at once.
    turns_max: usize,
    /// How long it rests for each second of a turn.
    rest: f64,
    /// Turns that it has or rests from.
    taken: usize,
    /// The seconds of its turns divided by its weight.
    used: f64,
    /// What it still has to rest.
    debt: Duration,
    /// Tasks that want a turn, oldest first.
    waiting: VecDeque<Arc<Seat>>,
    /// The time of all turns.
    busy: Duration,
}

impl LaneState {
    fn new(share: LaneShare, threads: usize) -> Self {
        let mut state = Self {
            share,
            turns_max: threads,
            rest: 0.0,
            taken: 0,
            used: 0.0,
            debt: Duration::ZERO,
            waiting: VecDeque::new(),
            busy: Duration::ZERO,
        };
        state.share(share, threads);
        state
    }

    fn share(&mut self, share: LaneShare, threads: usize) {
        assert!(share.weight > 0.0, "a group has a weight");
        let part = threads as f64 * f64::from(share.percent_max.clamp(1, 100)) / 100.0;
        let turns = part.ceil().max(1.0);
        self.turns_max = turns as usize;
        self.rest = turns / part - 1.0;
        self.share = share;
    }

    fn is_idle(&self) -> bool {
        self.taken == 0 && self.waiting.is_empty()
    }

    /// Counts a turn, of a group that may not have had more than `most` before.
    fn count(&mut self, busy: Duration, least: f64) {
        let most = least + AHEAD_MAX.as_secs_f64() / self.share.weight;
        self.used = self.used.min(most) + busy.as_secs_f64() / self.share.weight;
        self.busy += busy;
        self.debt += busy.mul_f64(self.rest);
    }
}

impl State {
    fn lane(&mut self, id: u64) -> &mut LaneState {
        self.lanes.get_mut(&id).expect("a lane is there until it is dropped")
    }

    /// Puts a task among those that want a turn.
    fn queue(&mut self, seat: &Arc<Seat>) {
        let least = self.least;
        let lane = self.lane(seat.lane.id);
        if lane.is_idle() {
            // It gets nothing for the time in which it wanted nothing.
            lane.used = lane.used.max(least);
        }
        lane.waiting.push_back(Arc::clone(seat));
        seat.set(Stage::Waits);
    }

    /// Gives turns that are free to those that want one, and returns their tasks, which the runtime
    /// has to be told of.
    #[must_use]
    fn call(&mut self) -> Vec<Arc<Seat>> {
        let mut called = Vec::new();
        while self.taken < self.threads {
            let wants =
                |lane: &&mut LaneState| !lane.waiting.is_empty() && lane.taken < lane.turns_max;
            let lanes = self.lanes.values_mut().filter(wants);
            let Some(lane) = lanes.min_by(|a, b| a.used.total_cmp(&b.used)) else { break };
            let seat = lane.waiting.pop_front().expect("it was looked at");
            seat.set(Stage::Called);
            lane.taken += 1;
            self.taken += 1;
            called.push(seat);
        }
        let active = self.lanes.values().filter(|lane| !lane.is_idle());
        let least = active.map(|lane| lane.used).min_by(f64::total_cmp);
        self.least = self.least.max(least.unwrap_or(0.0));
        called
    }
}

/// The part of one group in the turns.
pub struct Lane {
    id: u64,
    turns: Arc<Turns>,
}

impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Turns {
    pub fn new(clock: ClockRef, runtime: Handle, threads: usize) -> Arc<Self> {
        let (lanes, threads) = (BTreeMap::new(), threads.max(1));
        let state = State { threads, taken: 0, lanes, last_lane: 0, least: 0.0 };
        Arc::new(Self { clock, runtime, state: Mutex::new(state) })
    }

    /// The lane of a new group.
    pub fn lane(self: &Arc<Self>, share: LaneShare) -> Arc<Lane> {
        let mut state = self.state.lock();
        state.last_lane += 1;
        let (id, lane) = (state.last_lane, LaneState::new(share, state.threads));
        state.lanes.insert(id, lane);
        Arc::new(Lane { id, turns: Arc::clone(self) })
    }

    /// Somebody has woken a task.
    fn wake(&self, seat: &Arc<Seat>) {
        let mut state = self.state.lock();
        match seat.stage() {
            Stage::Sleeps => {
                state.queue(seat);
                Self::call(state);
            }
            Stage::Computes { .. } => seat.set(Stage::Computes { is_woken: true }),
            Stage::Waits | Stage::Called | Stage::Gone => {}
        }
    }

    /// Whether a task that the runtime polls has a turn.
    fn begin(&self, seat: &Arc<Seat>) -> bool {
        let mut state = self.state.lock();
        if seat.stage() == Stage::Sleeps {
            state.queue(seat);
        }
        let mut called = state.call();
        let is_called = seat.stage() == Stage::Called;
        if is_called {
            seat.set(Stage::Computes { is_woken: false });
            called.retain(|other| !Arc::ptr_eq(other, seat));
        }
        drop(state);
        called.iter().for_each(|seat| seat.runtime.wake());
        is_called
    }

    /// Ends a turn that took this long. A task that could go on wants its next turn before this one
    /// goes to somebody else: otherwise groups would alternate, whatever they weigh.
    fn end(self: &Arc<Self>, seat: &Arc<Seat>, busy: Duration, how: End) {
        let id = seat.lane.id;
        let mut state = self.state.lock();
        let least = state.least;
        state.lane(id).count(busy, least);
        let is_woken = seat.stage() == Stage::Computes { is_woken: true };
        match how {
            End::Ready => seat.set(Stage::Gone),
            End::Pending { goes_on } if goes_on || is_woken => state.queue(seat),
            End::Pending { .. } => seat.set(Stage::Sleeps),
        }
        state.taken -= 1;
        let lane = state.lane(id);
        if lane.debt < REST_MIN {
            lane.taken -= 1;
        } else {
            let rest = self.clock.sleep(std::mem::take(&mut lane.debt));
            let turns = Arc::clone(self);
            self.runtime.spawn(async move {
                rest.await;
                turns.rested(id);
            });
        }
        Self::call(state);
    }

    /// A lane has rested from a turn.
    fn rested(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(lane) = state.lanes.get_mut(&id) {
            lane.taken -= 1;
        }
        Self::call(state);
    }

    /// A task is dropped.
    fn leave(&self, seat: &Arc<Seat>) {
        let mut state = self.state.lock();
        match seat.stage() {
            Stage::Waits => {
                let lane = state.lane(seat.lane.id);
                lane.waiting.retain(|waiting| !Arc::ptr_eq(waiting, seat));
            }
            Stage::Called => {
                state.lane(seat.lane.id).taken -= 1;
                state.taken -= 1;
            }
            Stage::Computes { .. } => unreachable!("its turn ends before it is dropped"),
            Stage::Sleeps | Stage::Gone => {}
        }
        seat.set(Stage::Gone);
        Self::call(state);
    }

    /// Gives turns that are free to those that want one.
    fn call(mut state: MutexGuard<'_, State>) {
        let called = state.call();
        drop(state);
        called.iter().for_each(|seat| seat.runtime.wake());
    }
}

impl Lane {
    /// Changes what the group may have.
    pub fn set(&self, share: LaneShare) {
        let mut state = self.turns.state.lock();
        let threads = state.threads;
        state.lane(self.id).share(share, threads);
        Turns::call(state);
    }

    /// The time of all turns that its group had.
    pub fn busy(&self) -> Duration {
        self.turns.state.lock().lanes.get(&self.id).map_or(Duration::ZERO, |lane| lane.busy)
    }

    /// Work that takes turns.
    pub fn around<T>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> InLane<T> {
        let (lane, runtime) = (Arc::clone(self), AtomicWaker::new());
        let seat = Seat { lane, stage: Mutex::new(Stage::Sleeps), runtime };
        InLane { work: Box::pin(work), seat: Arc::new(seat) }
    }

    /// Work that takes no turns, but whose tasks do.
    pub async fn mark<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|context| {
            let _current = Entered::new(self, None);
            work.as_mut().poll(context)
        })
        .await
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.lanes.remove(&self.id);
    }
}

/// Where a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It waits for something else than a turn, or was never polled.
    Sleeps,
    /// It wants a turn.
    Waits,
    /// It has a turn, and the runtime has to poll it.
    Called,
    /// It is being polled.
    Computes { is_woken: bool },
    /// It has ended.
    Gone,
}

/// How a turn ended.
enum End {
    Ready,
    /// `goes_on`: it has only made room for others.
    Pending {
        goes_on: bool,
    },
}

/// A task as the turns know it, and what its work is woken by.
struct Seat {
    lane: Arc<Lane>,
    /// Changed only by who has the lock of the turns.
    stage: Mutex<Stage>,
    /// The task in the runtime.
    runtime: AtomicWaker,
}

impl Seat {
    fn stage(&self) -> Stage {
        *self.stage.lock()
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock() = stage;
    }
}

impl Wake for Seat {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.lane.turns.wake(self);
    }
}

/// Work that takes a turn for each poll.
pub struct InLane<T> {
    work: Pin<Box<dyn Future<Output = T> + Send>>,
    seat: Arc<Seat>,
}

impl<T> Future for InLane<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { work, seat } = &mut *self;
        seat.runtime.register(context.waker());
        if !seat.lane.turns.begin(seat) {
            return Poll::Pending;
        }
        let mut turn = Turn::new(seat);
        let waker = Waker::from(Arc::clone(seat));
        let current = Entered::new(&seat.lane, Some(turn.began));
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        drop(current);
        if polled.is_pending() {
            // Who has used up its budget is woken by the runtime when that has nothing else to do,
            // which is too late to be counted among those that want a turn.
            turn.how = End::Pending { goes_on: !has_budget_remaining() };
        }
        polled
    }
}

impl<T> Drop for InLane<T> {
    fn drop(&mut self) {
        self.seat.lane.turns.leave(&self.seat);
    }
}

/// A turn, which ends when it is dropped.
struct Turn<'a> {
    seat: &'a Arc<Seat>,
    began: Duration,
    how: End,
}

impl<'a> Turn<'a> {
    fn new(seat: &'a Arc<Seat>) -> Self {
        // Also where the work panics.
        Self { seat, began: seat.lane.turns.clock.now(), how: End::Ready }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let turns = &self.seat.lane.turns;
        let busy = turns.clock.now().saturating_sub(self.began);
        let how = std::mem::replace(&mut self.how, End::Ready);
        turns.end(self.seat, busy, how);
    }
}

/// The lane of this thread's task until it is dropped.
struct Entered(Option<Current>);

impl Entered {
    fn new(lane: &Arc<Lane>, began: Option<Duration>) -> Self {
        Self(CURRENT.replace(Some(Current { lane: Arc::clone(lane), began })))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Has tasks that DataFusion starts take turns in the lane of the task that starts them.
///
/// It is one for the process, as DataFusion wants it; without a lane it changes nothing.
pub fn pass_on_lanes() {
    static INHERIT: Inherit = Inherit;
    // Fails where it was set before, which is the same one.
    let _ = set_join_set_tracer(&INHERIT);
}

struct Inherit;

type Erased = Box<dyn Any + Send>;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, work: BoxFuture<'static, Erased>) -> BoxFuture<'static, Erased> {
        let lane = |current: &Option<Current>| current.as_ref().map(|one| Arc::clone(&one.lane));
        match CURRENT.with_borrow(lane) {
            Some(lane) => lane.around(work).boxed(),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Erased + Send>,
    ) -> Box<dyn FnOnce() -> Erased + Send> {
        work
    }
}

#[cfg(test)]
mod tests;
