//! The threads that plan and execute queries.
//!
//! DataFusion's planner passes and functions over a batch cannot be interrupted. So no computation
//! runs on the server's threads: a statement waits there and can give up at any time, regardless of
//! the thread that computes for it.
//!
//! Execution and the planning of small queries share one set of threads. Large queries are planned
//! on separate threads with a low priority; if none is free, they wait in a queue. A cancelled
//! planning job ends at its next check of the [`Cancellation`]; until then a substitute thread
//! serves the queue.

mod plans;
mod portion;
mod turns;

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use freshet_base::clock::ClockRef;
use freshet_base::task::{TimeSlice, set_time_slice};
use freshet_base::{Error, Result, err};
use futures::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::error::mapped;
use crate::evaluation::{Evaluation, Warnings};
use crate::interrupt::Cancellation;
use plans::Plans;
pub use portion::Portion;
use portion::Progress;
pub use turns::{Lane, LaneShare, Turns, is_over};

/// Stack size of threads that parse, plan or execute: sufficient for the deepest statement that the
/// parser accepts. Unused stack takes no memory.
pub const STACK_BYTES: usize = 64 << 20;
/// Number of batches buffered for the reader.
const BATCHES_WAITING: usize = 1;

/// The threads that plan a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanSize {
    /// Planning takes no longer than a batch of a query.
    Small,
    /// Planning may take seconds.
    Large,
}

/// The threads for queries and for large plans; clones share them.
#[derive(Clone)]
pub struct Threads {
    shared: Arc<Shared>,
    /// Where the tasks of queries take turns; `None`: they run as they come.
    lane: Option<Arc<Lane>>,
}

struct Shared {
    /// `None` only during drop.
    queries: Option<Runtime>,
    plans: Arc<Plans>,
}

impl Threads {
    /// Starts this number of threads for queries and for large plans.
    ///
    /// # Errors
    /// When threads cannot be created.
    pub fn start(queries: usize, plans: usize) -> Result<Self> {
        let failed = |error| Error::io("start the threads of queries", error);
        let queries = Builder::new_multi_thread()
            .worker_threads(queries.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(|| set_time_slice(TimeSlice::Long))
            .enable_all()
            .build()
            .map_err(failed)?;
        let plans = Plans::start(plans.max(1)).map_err(failed)?;
        turns::pass_on_lanes();
        let shared = Arc::new(Shared { queries: Some(queries), plans });
        Ok(Self { shared, lane: None })
    }

    /// The same threads for queries that take turns in a lane.
    #[must_use]
    pub fn within(&self, lane: Option<Arc<Lane>>) -> Self {
        Self { shared: Arc::clone(&self.shared), lane }
    }

    /// Turns on the query threads.
    pub fn turns(&self, clock: ClockRef, threads: usize) -> Arc<Turns> {
        Turns::new(clock, self.handle().clone(), threads)
    }

    #[cfg(test)]
    fn plans_alive(&self) -> usize {
        self.shared.plans.alive()
    }

    fn handle(&self) -> &Handle {
        let queries = self.shared.queries.as_ref();
        queries.expect("threads are there until they are dropped").handle()
    }

    /// Runs work on the query threads. Dropping the returned task cancels it.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Task<T> {
        let interrupt = Cancellation::default();
        let marked = interrupt.clone().around(work);
        let handle = match &self.lane {
            Some(lane) => self.handle().spawn(lane.around(marked)),
            None => self.handle().spawn(marked),
        };
        Task { handle, interrupt }
    }

    /// Runs a planning job. Dropping the future cancels it.
    ///
    /// # Errors
    /// Those of the job; 1041 if the queue is full.
    pub async fn plan<T: Send + 'static>(
        &self,
        size: PlanSize,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match size {
            PlanSize::Small => self.spawn(work).await,
            PlanSize::Large => {
                let runtime = self.handle().clone();
                let interrupt = Cancellation::default();
                let marked = interrupt.clone().around(work);
                let lane = self.lane.clone();
                let work = move || match lane {
                    Some(lane) => runtime.block_on(lane.mark(marked)),
                    None => runtime.block_on(marked),
                };
                self.shared.plans.run(interrupt, work).await
            }
        }
    }

    /// Starts a query: `prepare` returns the stream of batches, which is then read on the query
    /// threads. The flag that `prepare` gets is set when the reader gives up, also while it waits
    /// for this future: whatever computes for the query has to look at it.
    ///
    /// # Errors
    /// Those of `prepare` and of the first batch; 1041 if the queue is full.
    pub async fn query<T: Send + 'static, P>(
        &self,
        size: PlanSize,
        prepare: impl FnOnce(Cancellation) -> P,
    ) -> Result<(T, Rows)>
    where
        P: Future<Output = Result<(T, SendableRecordBatchStream)>> + Send + 'static,
    {
        let stop = StopOnDrop::default();
        let prepare = prepare(stop.0.clone());
        if size == PlanSize::Large {
            let planned = self.plan(size, prepare).await?;
            return self.started(stop, async move { Ok(planned) }).await;
        }
        // A single task does both, so that a small query does not switch threads.
        self.started(stop, prepare).await
    }

    /// Returns with the beginning of the rows: a query of one batch, as most are, wakes its reader
    /// once.
    async fn started<T: Send + 'static>(
        &self,
        stop: StopOnDrop,
        prepare: impl Future<Output = Result<(T, SendableRecordBatchStream)>> + Send + 'static,
    ) -> Result<(T, Rows)> {
        let (started, first) = oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_WAITING);
        let task = self.spawn(async move {
            let (head, mut stream) = prepare.await?;
            let beginning = beginning(&mut stream).await?;
            // What an ended stream holds, memory and files, is released before the reader knows.
            let rest = (!beginning.ended).then_some(stream);
            match (started.send((head, beginning)), rest) {
                (Ok(()), Some(stream)) => pump(stream, sender).await,
                // Ended, or cancelled.
                _ => Ok(()),
            }
        });
        match first.await {
            Ok((head, Beginning { ready, ended })) => {
                let task = (!ended).then_some(task);
                Ok((
                    head,
                    Rows {
                        ready,
                        batches,
                        task,
                        portion: Progress::of(Portion::ALL),
                        evaluation: None,
                        _stop: stop,
                    },
                ))
            }
            Err(_) => match task.await {
                Err(error) => Err(error),
                Ok(()) => Err(err!(Internal, "a query ended before it began")),
            },
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.plans.close();
        if let Some(queries) = self.queries.take() {
            // Does not wait for running computations.
            queries.shutdown_background();
        }
    }
}

/// Cancels the execution of a query when its reader is gone.
#[derive(Default)]
struct StopOnDrop(Cancellation);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// The first batch of a query, and what the stream has to say behind it without waiting.
struct Beginning {
    ready: VecDeque<RecordBatch>,
    /// Whether no batch follows.
    ended: bool,
}

/// Reads the beginning. The stream is polled once more without a waker, so whoever reads on must do
/// so at once: half-way it may hold what other queries wait for.
async fn beginning(stream: &mut SendableRecordBatchStream) -> Result<Beginning> {
    let mut ready = VecDeque::with_capacity(2);
    let mut read = Some(stream.next().await);
    while let Some(Some(batch)) = read {
        ready.push_back(batch.map_err(mapped)?);
        read = if ready.len() < 2 { stream.next().now_or_never() } else { None };
    }
    Ok(Beginning { ready, ended: read.is_some() })
}

/// Sends batches to the reader.
async fn pump(
    mut stream: SendableRecordBatchStream,
    batches: mpsc::Sender<RecordBatch>,
) -> Result<()> {
    while let Some(batch) = stream.next().await {
        if batches.send(batch.map_err(mapped)?).await.is_err() {
            // The reader has dropped the query.
            return Ok(());
        }
    }
    Ok(())
}

/// A task on the query threads; dropping it cancels it.
pub struct Task<T> {
    handle: JoinHandle<Result<T>>,
    interrupt: Cancellation,
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(joined.unwrap_or_else(|error| Err(ended(error))))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.interrupt.set();
        self.handle.abort();
    }
}

fn ended(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*panic),
        Err(_) => err!(ShuttingDown, "Server shutdown in progress"),
    }
}

/// The error of a statement that panicked.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    err!(Internal, "Internal error: {}", text.unwrap_or("of an unknown kind"))
}

/// The rows of a running query. Dropping them cancels it.
pub struct Rows {
    ready: VecDeque<RecordBatch>,
    batches: mpsc::Receiver<RecordBatch>,
    /// `None` once nothing follows `ready`.
    task: Option<Task<()>>,
    portion: Progress,
    evaluation: Option<Evaluation>,
    _stop: StopOnDrop,
}

impl Rows {
    /// Attaches the evaluation whose warnings are returned.
    #[must_use]
    pub fn of(mut self, evaluation: Evaluation) -> Self {
        self.evaluation = Some(evaluation);
        self
    }

    /// All warnings up to now.
    pub fn warnings(&self) -> Warnings {
        self.evaluation.as_ref().map_or_else(Warnings::default, Evaluation::warnings)
    }

    /// Only these of the rows.
    #[must_use]
    pub fn part(mut self, portion: Portion) -> Self {
        self.portion = Progress::of(portion);
        self
    }

    /// The number of all rows so far, if those are counted that are not returned.
    pub fn found(&self) -> Option<u64> {
        self.portion.found()
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// Errors of execution; nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.portion.is_over() {
            let Some(batch) = self.produced().await? else { return Ok(None) };
            let passed = self.portion.pass(&batch);
            if passed.num_rows() > 0 || batch.num_rows() == 0 {
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    async fn produced(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.ready.pop_front() {
            return Ok(Some(batch));
        }
        let Some(task) = &mut self.task else { return Ok(None) };
        if let Some(batch) = self.batches.recv().await {
            return Ok(Some(batch));
        }
        let ended = task.await;
        self.task = None;
        ended.map(|()| None)
    }

    /// All remaining rows.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub async fn collect(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

#[cfg(test)]
mod tests;
