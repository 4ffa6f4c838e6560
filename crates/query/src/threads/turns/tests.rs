use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use freshet_base::clock::Clock;

use super::*;

/// A clock that stands still until it is told.
#[derive(Default)]
struct Still(Mutex<Duration>);

impl Still {
    fn pass(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

impl Clock for Still {
    fn now(&self) -> Duration {
        *self.0.lock()
    }

    fn wall_micros(&self) -> i64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

const SHORT: Duration = Duration::from_millis(1);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
}

fn share(weight: f64, percent_max: u32) -> LaneShare {
    LaneShare { weight, percent_max }
}

/// A runtime of one thread: tasks that were woken, in order.
#[derive(Default)]
struct Woken(Mutex<VecDeque<usize>>);

struct Bell(usize, Arc<Woken>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.0.lock().push_back(self.0);
    }
}

/// Turns on a number of threads, and tasks that one thread polls as they are woken.
struct Tasks {
    time: Arc<Still>,
    turns: Arc<Turns>,
    woken: Arc<Woken>,
    all: Vec<InLane<()>>,
    _runtime: tokio::runtime::Runtime,
}

impl Tasks {
    fn new(threads: usize) -> Self {
        let (time, runtime) = (Arc::new(Still::default()), runtime());
        let clock: ClockRef = Arc::<Still>::clone(&time);
        let turns = Turns::new(clock, runtime.handle().clone(), threads);
        Self { time, turns, woken: Arc::default(), all: Vec::new(), _runtime: runtime }
    }

    /// Starts a task; `poll` is what it does in a turn.
    fn start(
        &mut self,
        lane: &Arc<Lane>,
        mut poll: impl FnMut(&mut Context<'_>) + Send + 'static,
    ) -> usize {
        self.all.push(lane.around(poll_fn(move |context| {
            poll(context);
            Poll::Pending
        })));
        self.woken.0.lock().push_back(self.all.len() - 1);
        self.all.len() - 1
    }

    /// Starts tasks that always have more to do, and counts their turns.
    fn busy(&mut self, lane: &Arc<Lane>, count: usize) -> Arc<AtomicUsize> {
        let turns = Arc::new(AtomicUsize::new(0));
        for _ in 0..count {
            let (time, turns) = (Arc::clone(&self.time), Arc::clone(&turns));
            self.start(lane, move |context| {
                time.pass(SHORT);
                turns.fetch_add(1, Ordering::Relaxed);
                context.waker().wake_by_ref();
            });
        }
        turns
    }

    fn poll(&mut self, task: usize) {
        let waker = Waker::from(Arc::new(Bell(task, Arc::clone(&self.woken))));
        assert!(self.all[task].poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    }

    fn run(&mut self, polls: usize) {
        for _ in 0..polls {
            let Some(task) = self.woken.0.lock().pop_front() else { return };
            self.poll(task);
        }
    }
}

#[test]
fn groups_that_are_busy_have_turns_by_their_weight() {
    for threads in [1, 3] {
        let mut tasks = Tasks::new(threads);
        let heavy = tasks.turns.lane(share(1.0, 100));
        let light = tasks.turns.lane(share(3.0, 100));
        let counts = [tasks.busy(&heavy, 9), tasks.busy(&light, 4)];
        tasks.run(8000);
        let [heavy, light] = counts.map(|count| count.load(Ordering::Relaxed));
        assert!(heavy + light > 7900, "who has no turn is not polled");
        let ratio = light as f64 / heavy as f64;
        assert!((2.9..3.1).contains(&ratio), "{heavy} and {light} turns on {threads} threads");
    }
}

/// One query of several tasks, of which at most one can compute at a time: each wakes the next one.
#[test]
fn a_group_whose_tasks_wait_for_each_other_waits_for_one_turn_of_others_at_most() {
    let mut tasks = Tasks::new(1);
    let heavy = tasks.turns.lane(share(1.0, 100));
    let light = tasks.turns.lane(share(100.0, 100));
    let _ = tasks.busy(&heavy, 6);
    tasks.run(1000);
    let seats = Arc::new(Mutex::new(Vec::<Arc<Seat>>::new()));
    let count = Arc::new(AtomicUsize::new(0));
    for at in 0..4_usize {
        let (time, count) = (Arc::clone(&tasks.time), Arc::clone(&count));
        let others = Arc::clone(&seats);
        let task = tasks.start(&light, move |_| {
            time.pass(SHORT / 10);
            let turn = count.fetch_add(1, Ordering::Relaxed);
            if let Some(next) = others.lock().get((at + 1) % 4).filter(|_| turn >= 4) {
                next.wake_by_ref();
            }
        });
        seats.lock().push(Arc::clone(&tasks.all[task].seat));
    }
    tasks.run(30);
    assert_eq!(count.load(Ordering::Relaxed), 4, "each was polled once, and sleeps");
    let before = heavy.busy();
    seats.lock()[0].wake_by_ref();
    tasks.run(500);
    let turns = count.load(Ordering::Relaxed);
    let lost = (heavy.busy() - before).as_millis();
    // It computes for 0.1 ms each, so at most about every thousandth turn is due to the other.
    assert!(turns > 400 && lost <= 3, "{turns} turns, and {lost} of the heavy group meanwhile");
}

#[test]
fn a_group_that_comes_later_has_nothing_for_the_time_before() {
    let mut tasks = Tasks::new(1);
    let early = tasks.turns.lane(share(1.0, 100));
    let late = tasks.turns.lane(share(1.0, 100));
    let early_turns = tasks.busy(&early, 2);
    tasks.run(5000);
    let late_turns = tasks.busy(&late, 2);
    early_turns.store(0, Ordering::Relaxed);
    tasks.run(1000);
    let [early, late] = [early_turns, late_turns].map(|count| count.load(Ordering::Relaxed));
    assert!(early.abs_diff(late) < 10, "{early} and {late}");
}

#[test]
fn a_group_pays_for_little_of_what_nobody_else_wanted() {
    let mut tasks = Tasks::new(2);
    let large = tasks.turns.lane(share(3.0, 100));
    let small = tasks.turns.lane(share(1.0, 100));
    // The large one has work for one thread only, so the small one has a second for each third
    // that is its due.
    let large_turns = tasks.busy(&large, 1);
    let small_turns = tasks.busy(&small, 2);
    tasks.run(10_000);
    assert!(small_turns.load(Ordering::Relaxed) > 4000);
    for turns in [&large_turns, &small_turns] {
        turns.store(0, Ordering::Relaxed);
    }
    let more = tasks.busy(&large, 3);
    tasks.run(4000);
    // It waits for 1500 turns of the other one, and then has one of four.
    let small = small_turns.load(Ordering::Relaxed);
    assert!((550..700).contains(&small), "{small}");
    assert!(more.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_turn_is_over_after_its_time_and_only_in_a_lane() {
    let mut tasks = Tasks::new(1);
    let lane = tasks.turns.lane(share(1.0, 100));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (time, over) = (Arc::clone(&tasks.time), Arc::clone(&seen));
    tasks.start(&lane, move |_| {
        over.lock().push(is_over());
        time.pass(TURN);
        over.lock().push(is_over());
    });
    assert!(!is_over());
    tasks.run(1);
    assert_eq!(*seen.lock(), [false, true]);
    assert!(!is_over());
}

#[test]
fn who_has_used_up_its_budget_wants_a_turn_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let turns = Turns::new(Arc::new(Still::default()), runtime.handle().clone(), 1);
    let lane = turns.lane(share(1.0, 100));
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    let mut task = lane.around(poll_fn(move |context| {
        counted.fetch_add(1, Ordering::Relaxed);
        while let Poll::Ready(unit) = tokio::task::coop::poll_proceed(context) {
            unit.made_progress();
        }
        Poll::<()>::Pending
    }));
    let seat = Arc::clone(&task.seat);
    runtime.block_on(async {
        tokio::spawn(poll_fn(move |context| {
            assert!(task.poll_unpin(context).is_pending());
            // It has not to wait until the runtime has nothing else to do.
            assert_eq!(task.seat.stage(), Stage::Called);
            Poll::Ready(())
        }))
        .await
        .unwrap();
    });
    assert_eq!((polls.load(Ordering::Relaxed), seat.stage()), (1, Stage::Gone));
    assert_eq!(turns.state.lock().taken, 0);
}

#[test]
fn who_is_dropped_takes_nothing_along() {
    let mut tasks = Tasks::new(1);
    let lane = tasks.turns.lane(share(1.0, 100));
    let _ = tasks.busy(&lane, 4);
    tasks.run(1);
    for _ in 0..4 {
        let stages = tasks.all.iter().map(|task| task.seat.stage()).collect::<Vec<_>>();
        let called = stages.iter().filter(|stage| **stage == Stage::Called).count();
        assert_eq!(called, 1, "{stages:?}");
        // First one that waits or sleeps, at last the one that was called.
        let other = stages.iter().position(|stage| *stage != Stage::Called).unwrap_or(0);
        drop(tasks.all.remove(other));
    }
    let state = tasks.turns.state.lock();
    assert_eq!((state.taken, state.lanes[&lane.id].taken), (0, 0));
    assert!(state.lanes[&lane.id].waiting.is_empty());
}

#[test]
fn a_task_that_panics_gives_its_turn_back() {
    let runtime = runtime();
    let clock = Arc::new(freshet_base::clock::SystemClock::new());
    let turns = Turns::new(clock, runtime.handle().clone(), 1);
    let lane = turns.lane(share(1.0, 100));
    let bad = lane.around(async { panic!("it does") });
    assert!(runtime.block_on(async { tokio::spawn(bad).await }).unwrap_err().is_panic());
    let good = lane.around(async { 7 });
    assert_eq!(runtime.block_on(async { tokio::spawn(good).await.unwrap() }), 7);
}

#[test]
fn a_limited_group_has_few_turns_at_once_and_rests() {
    let mut tasks = Tasks::new(8);
    let lane = tasks.turns.lane(share(1.0, 20));
    let _ = tasks.busy(&lane, 3);
    let taken = |tasks: &Tasks| {
        let state = tasks.turns.state.lock();
        (state.taken, state.lanes[&lane.id].taken)
    };
    // 20 % of 8 threads are 1.6 of them: two turns at once, and a rest of a quarter of their time.
    let mut before = 0;
    for _ in 0..60 {
        tasks.run(1);
        let (now, with_rests) = taken(&tasks);
        assert!(now <= 2 && with_rests <= 2);
        before = before.max(now);
    }
    assert_eq!(before, 2);
    // Two rests of 5 ms are due after 40 ms, and the clock of the test lets none of them end.
    assert_eq!(taken(&tasks), (0, 2), "others may use the threads meanwhile");
    assert_eq!(lane.busy(), Duration::from_millis(40));
    tasks.turns.rested(lane.id);
    assert_eq!(taken(&tasks), (1, 2));
    lane.set(share(1.0, 100));
    assert_eq!(tasks.turns.state.lock().lanes[&lane.id].turns_max, 8);
}

#[test]
fn tasks_that_are_started_inside_take_turns_as_well() {
    use datafusion::common::runtime::SpawnedTask;
    pass_on_lanes();
    let runtime = runtime();
    let clock = Arc::new(freshet_base::clock::SystemClock::new());
    let turns = Turns::new(clock, runtime.handle().clone(), 1);
    let lane = turns.lane(share(1.0, 100));
    let inherited = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&inherited);
    let work = lane.around(async move {
        let inner = SpawnedTask::spawn(async move {
            seen.store(CURRENT.with_borrow(Option::is_some), Ordering::Relaxed);
            7
        });
        inner.await.unwrap()
    });
    assert_eq!(runtime.block_on(async { tokio::spawn(work).await.unwrap() }), 7);
    assert!(inherited.load(Ordering::Relaxed));
    assert!(CURRENT.with_borrow(Option::is_none));
    assert_eq!(turns.state.lock().taken, 0);
}
