//! The threads that compute for statements.
//!
//! Nothing in DataFusion ends when it is told to: a pass of its planner takes as long as it takes,
//! and so does a function over a batch. So whoever has to answer at once computes nothing here: a
//! statement waits on a thread of its server, and is free to give up, whatever the thread that
//! computes for it does meanwhile.
//!
//! Queries, and the planning of small ones, share threads. The planning of large ones has threads
//! of its own that give way to all others, and what finds none of them free waits in a queue. A
//! plan that was given up ends at the next look at its [`Interrupt`]; until then another thread
//! stands in, so that those who wait do not wait for it.

mod plans;

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use freshet_base::task::{TimeSlice, set_time_slice};
use freshet_base::{Error, Result, err};
use futures::StreamExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::error::mapped;
use crate::evaluation::{Evaluation, Warnings};
use crate::interrupt::Interrupt;
use plans::Plans;

/// The stack of a thread that parses, plans or runs queries: enough for a statement as deep as
/// the parser lets through. What is not used takes no memory.
pub const STACK_BYTES: usize = 64 << 20;
/// Batches that wait for whoever reads them.
const BATCHES_WAITING: usize = 1;

/// Which threads plan a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// It takes no longer than a batch of a query.
    Small,
    /// It may take seconds.
    Large,
}

/// The threads of queries and those of large plans.
pub struct Threads {
    /// Absent only while it is dropped.
    queries: Option<Runtime>,
    plans: Arc<Plans>,
}

impl Threads {
    /// Starts so many threads for queries, and for large plans.
    ///
    /// # Errors
    /// When the system gives no more threads.
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
        Ok(Self { queries: Some(queries), plans })
    }

    /// How many threads for large plans live.
    #[cfg(test)]
    fn plans_alive(&self) -> usize {
        self.plans.alive()
    }

    fn handle(&self) -> &Handle {
        self.queries.as_ref().expect("threads are there until they are dropped").handle()
    }

    /// Runs work on the threads of queries. Dropping what it returns gives the work up.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Task<T> {
        let interrupt = Interrupt::default();
        let handle = self.handle().spawn(interrupt.clone().around(work));
        Task { handle, interrupt }
    }

    /// Plans something. Dropping the future gives it up.
    ///
    /// # Errors
    /// Those of the work; 1041 where too many wait.
    pub async fn plan<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match lane {
            Lane::Small => self.spawn(work).await,
            Lane::Large => {
                let runtime = self.handle().clone();
                let interrupt = Interrupt::default();
                let marked = interrupt.clone().around(work);
                self.plans.run(interrupt, move || runtime.block_on(marked)).await
            }
        }
    }

    /// Begins a query: what `prepare` makes is read on the threads of queries.
    ///
    /// # Errors
    /// Those of the preparation; 1041 where too many wait.
    pub async fn query<T: Send + 'static>(
        &self,
        lane: Lane,
        prepare: impl Future<Output = Result<(T, SendableRecordBatchStream)>> + Send + 'static,
    ) -> Result<(T, Rows)> {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING);
        if lane == Lane::Large {
            let (head, stream) = self.plan(lane, prepare).await?;
            return Ok((head, Rows::new(batches, self.spawn(pump(stream, sender)))));
        }
        // One task does both: who asks for little is not sent from thread to thread.
        let (prepared, head) = oneshot::channel();
        let task = self.spawn(async move {
            let (head, stream) = prepare.await?;
            match prepared.send(head) {
                Ok(()) => pump(stream, sender).await,
                // Nobody waits for it any more.
                Err(_) => Ok(()),
            }
        });
        match head.await {
            Ok(head) => Ok((head, Rows::new(batches, task))),
            Err(_) => match task.await {
                Err(error) => Err(error),
                Ok(()) => Err(err!(Internal, "a query ended before it began")),
            },
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.plans.close();
        if let Some(queries) = self.queries.take() {
            // What still computes is not waited for.
            queries.shutdown_background();
        }
    }
}

/// Hands over batch after batch.
async fn pump(
    mut stream: SendableRecordBatchStream,
    batches: mpsc::Sender<RecordBatch>,
) -> Result<()> {
    while let Some(batch) = stream.next().await {
        if batches.send(batch.map_err(mapped)?).await.is_err() {
            // Nobody reads any more.
            return Ok(());
        }
    }
    Ok(())
}

/// Work on a thread of queries; dropped, it is given up.
pub struct Task<T> {
    handle: JoinHandle<Result<T>>,
    interrupt: Interrupt,
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

/// The error of a statement whose work panicked.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    err!(Internal, "Internal error: {}", text.unwrap_or("of an unknown kind"))
}

/// The rows of a running query. Dropping it stops the query.
pub struct Rows {
    batches: mpsc::Receiver<RecordBatch>,
    task: Option<Task<()>>,
    evaluation: Option<Evaluation>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(evaluation) = &self.evaluation {
            evaluation.stop();
        }
    }
}

impl Rows {
    fn new(batches: mpsc::Receiver<RecordBatch>, task: Task<()>) -> Self {
        Self { batches, task: Some(task), evaluation: None }
    }

    /// The same as those of an evaluation.
    #[must_use]
    pub fn of(mut self, evaluation: Evaluation) -> Self {
        self.evaluation = Some(evaluation);
        self
    }

    /// What evaluating had to say so far.
    pub fn warnings(&self) -> Warnings {
        self.evaluation.as_ref().map_or_else(Warnings::default, Evaluation::warnings)
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// What went wrong while executing; nothing follows it.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.batches.recv().await {
            return Ok(Some(batch));
        }
        match &mut self.task {
            Some(task) => {
                let ended = task.await;
                self.task = None;
                ended.map(|()| None)
            }
            None => Ok(None),
        }
    }

    /// All rows that are left.
    ///
    /// # Errors
    /// As [`Self::next`].
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
