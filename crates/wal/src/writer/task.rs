//! The writer task: writes everything queued and advances the horizon, in a loop.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use freshet_base::io::File;
use freshet_base::{LogPosition, Lsn};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::Wal;
use crate::buffer::AlignedBuffer;
use crate::head::Head;
use crate::queue::Batch;
use crate::recycle::Slot;
use crate::room::Priority;

/// The next action of the writer.
enum Turn {
    /// Write the batches just taken from the queue.
    Write,
    /// The log is idle, and no later batch head records its last record as durable.
    Idle,
    /// Everything is written, and the log is to stop.
    Stop,
}

/// State of the writer between turns.
struct WriterState {
    batches: Vec<Batch>,
    /// The end of the last durable batch.
    position: LogPosition,
    /// Buffer to assemble batches that are not contiguous in memory.
    scratch: AlignedBuffer,
    /// The last durable record appended by a caller, as opposed to an idle record.
    last_of_callers: Lsn,
    /// The highest LSN that a durable batch head records as durable.
    durable_recorded: Lsn,
    idle: Option<IdleTimer>,
}

/// Expires if nothing is written while it runs.
struct IdleTimer {
    horizon: Lsn,
    sleep: BoxFuture<'static, ()>,
}

impl WriterState {
    /// Whether a restart could not know that the last record was acknowledged.
    fn needs_idle_record(&self) -> bool {
        self.last_of_callers > self.durable_recorded
    }
}

impl Wal {
    /// Writes appended records until [`Wal::stop`], or until a write fails. Writes block: in
    /// production it runs on a dedicated thread. To be called once.
    pub async fn run(self: Arc<Self>) {
        self.write_until_stopped().await;
        self.has_ended.store(true, Ordering::Release);
        self.stopper.wake();
    }

    async fn write_until_stopped(&self) {
        let mut state = WriterState {
            batches: Vec::new(),
            position: self.term.after,
            scratch: AlignedBuffer::new(self.options.batch_bytes()),
            // Records at the end of the previous term are readable from now on, so they must not
            // get lost.
            last_of_callers: self.term.after.lsn,
            durable_recorded: self.term.durable_recorded,
            idle: None,
        };
        loop {
            match self.next_turn(&mut state).await {
                Turn::Write => {
                    yield_now().await;
                    if let Err(message) = self.write_batches(&mut state).await {
                        // Nothing is ever acknowledged again.
                        (self.world.on_fatal)(&message);
                        return;
                    }
                }
                Turn::Idle => self.queue_idle_record(&mut state),
                Turn::Stop => return,
            }
        }
    }

    /// Waits for work. The only timer is that of idleness: while one batch is written, the next one
    /// accumulates.
    fn next_turn<'a>(&'a self, state: &'a mut WriterState) -> impl Future<Output = Turn> + 'a {
        poll_fn(move |context| {
            self.writer.register(context.waker());
            let stopping = {
                let mut log = self.log.lock();
                if !log.queue.is_empty() {
                    log.queue.take(&mut state.batches);
                    return Poll::Ready(Turn::Write);
                }
                log.writer_sleeps = true;
                log.stopping
            };
            // While the log is held there is no room for it, and it must not be forgotten.
            match (stopping, state.needs_idle_record() && !self.space.is_held()) {
                (true, true) => Poll::Ready(Turn::Idle),
                (true, false) => Poll::Ready(Turn::Stop),
                (false, true) => self.poll_idle(state, context).map(|()| Turn::Idle),
                (false, false) => Poll::Pending,
            }
        })
    }

    /// Ready once nothing was written for `idle_after`. The timer keeps running while batches are
    /// written, and is restarted only when it expires: a timer per batch would cost more than the
    /// batch.
    fn poll_idle(&self, state: &mut WriterState, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let timer = state.idle.get_or_insert_with(|| IdleTimer {
                horizon: self.horizon.get(),
                sleep: self.world.clock.sleep(self.options.idle_after),
            });
            std::task::ready!(timer.sleep.poll_unpin(context));
            let was_idle = timer.horizon == self.horizon.get();
            state.idle = None;
            if was_idle {
                return Poll::Ready(());
            }
        }
    }

    /// Queues an idle record, whose batch head records everything before it as durable. If there is
    /// no space for it the log is full, and records that free space will have the same effect.
    fn queue_idle_record(&self, state: &mut WriterState) {
        state.durable_recorded = state.last_of_callers;
        if let Some(room) = self.space.try_reserve(0, Priority::Privileged) {
            self.append_idle(room);
        }
    }

    async fn write_batches(&self, state: &mut WriterState) -> Result<(), String> {
        let mut batches = std::mem::take(&mut state.batches);
        for mut batch in batches.drain(..) {
            let slot = self.place(batch.block_bytes());
            let head = self.seal(&mut batch, state.position);
            self.write_batch(&batch, &slot, &mut state.scratch).map_err(|error| {
                let last = head.last();
                let path = slot.file.log_file.path.display();
                let offset = slot.offset;
                format!("log write up to LSN {last} failed: {path} at byte {offset}: {error}")
            })?;
            yield_now().await;
            self.finish_batch(batch, &head, state);
        }
        state.batches = batches;
        Ok(())
    }

    fn place(&self, block_bytes: u64) -> Slot {
        let slot = self.files.lock().place(block_bytes);
        if slot.switched {
            self.space.switch_file();
        }
        slot
    }

    /// Completes a batch with its head.
    fn seal(&self, batch: &mut Batch, before: LogPosition) -> Head {
        let head = Head {
            term: self.term.term,
            index: before.index.next(),
            previous: before.term,
            first: batch.first(),
            records: batch.records,
            frames_bytes: batch.frames_bytes(),
            durable: self.horizon.get(),
            time_micros: batch.time_micros,
        };
        assert!(head.follows(before), "batches stand in the log as they follow each other");
        assert_eq!(head.durable, before.lsn, "a batch is written when those before are durable");
        batch.close(&head.encode(&self.salt));
        head
    }

    /// Writes a batch to the device; durable on return.
    fn write_batch(
        &self,
        batch: &Batch,
        slot: &Slot,
        scratch: &mut AlignedBuffer,
    ) -> io::Result<()> {
        self.world.failpoints.pass("wal-before-write")?;
        let started = self.world.clock.now();
        match batch.contiguous() {
            Some(bytes) => slot.file.file.write_all_at(bytes, slot.offset)?,
            None => write_through(scratch, batch.parts(), &*slot.file.file, slot.offset)?,
        }
        let took = self.world.clock.now().saturating_sub(started);
        self.world.failpoints.pass("wal-after-write")?;
        let metrics = &self.world.metrics;
        metrics.wal_sync_seconds.observe(took.as_secs_f64());
        metrics.wal_syncs.inc();
        metrics.wal_bytes.inc_by(batch.block_bytes());
        metrics.wal_records.inc_by(u64::from(batch.records));
        Ok(())
    }

    /// Publishes that a batch is durable.
    fn finish_batch(&self, batch: Batch, head: &Head, state: &mut WriterState) {
        let block_bytes = batch.block_bytes();
        state.position = head.position();
        self.files.lock().wrote(head.first, state.position, block_bytes);
        self.horizon.advance(head.last());
        self.space.written(batch.charge_bytes, block_bytes);
        state.durable_recorded = head.durable;
        if batch.of_callers {
            state.last_of_callers = head.last();
        }
        let buffer = batch.into_buffer();
        let surplus = self.log.lock().queue.give_back(buffer);
        drop(surplus);
    }
}

/// Writes concatenated `parts` through `scratch`: one synced write if they fit, several for a
/// larger record.
fn write_through<'a>(
    scratch: &mut AlignedBuffer,
    parts: impl Iterator<Item = &'a [u8]>,
    file: &dyn File,
    mut offset: u64,
) -> io::Result<()> {
    scratch.clear();
    for mut part in parts {
        while !part.is_empty() {
            if scratch.left() == 0 {
                file.write_all_at(scratch.bytes(), offset)?;
                offset += scratch.len() as u64;
                scratch.clear();
            }
            let (now, later) = part.split_at(part.len().min(scratch.left()));
            scratch.push(now);
            part = later;
        }
    }
    file.write_all_at(scratch.bytes(), offset)
}

/// Lets other tasks run first. On a single thread this is the only way to observe the state between
/// a write and the advance of the horizon. It costs tens of nanoseconds on a dedicated thread.
fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
