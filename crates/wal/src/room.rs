//! Log space, reserved at admission so that an append never finds the log full.
//!
//! When a record does not fit into the rest of a file, that rest is wasted. So the guaranteed
//! capacity of a file is its size minus the maximum size of a record. Each record is charged with
//! the blocks that it fills if it is alone in its batch. Counted like this, all reserved records
//! fit into the existing files, in any order and any batches.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::budget::NoRoom;
use freshet_base::clock::{Clock, Deadline, until};
use futures::channel::oneshot;

use crate::file::next_block;
use crate::record::{BATCH_HEAD_BYTES, frame_bytes};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Accounts for the space in all files.
pub(crate) struct LogSpace {
    file_bytes: u64,
    record_bytes_max: u64,
    kept_bytes: u64,
    state: Mutex<State>,
    waiting: AtomicUsize,
}

struct State {
    /// Number of files ready to be written from their start.
    ready_files: u64,
    /// Space left in the current file.
    current_left_bytes: u64,
    /// Space reserved by rooms and by records not written yet.
    promised_bytes: u64,
    waiters: Waiters,
    /// Whether only the first record of the term may be appended.
    held: bool,
}

/// Waiters for space, each queue in the order of arrival.
#[derive(Default)]
struct Waiters {
    /// Served first, since the records they wait for make it possible to free space.
    publishes: VecDeque<Waiter>,
    loads: VecDeque<Waiter>,
}

struct Waiter {
    charge_bytes: u64,
    wake: oneshot::Sender<Room>,
}

impl Waiters {
    fn of(&mut self, priority: Priority) -> &mut VecDeque<Waiter> {
        match priority {
            Priority::Load => &mut self.loads,
            Priority::Publish => &mut self.publishes,
            Priority::Privileged | Priority::Term => {
                unreachable!("ends, barriers and terms have their room or fail")
            }
        }
    }

    fn count(&self) -> usize {
        self.publishes.len() + self.loads.len()
    }

    /// Whether a new request must wait for others: loads wait for all waiters, others only for
    /// those of their own priority.
    fn are_before(&self, priority: Priority) -> bool {
        match priority {
            Priority::Load => self.count() > 0,
            Priority::Publish => !self.publishes.is_empty(),
            Priority::Privileged | Priority::Term => false,
        }
    }

    /// Removes cancelled waiters from the front of the queues; returns the priority to serve next.
    fn next_priority(&mut self) -> Option<Priority> {
        [Priority::Publish, Priority::Load].into_iter().find(|priority| {
            let queue = self.of(*priority);
            while queue.front().is_some_and(|waiter| waiter.wake.is_canceled()) {
                queue.pop_front();
            }
            !queue.is_empty()
        })
    }
}

/// The priority of a reservation. Loads leave a reserve for records that free space; the results of
/// flushes and merges leave half of that reserve to ends of groups and barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    Load,
    Publish,
    Privileged,
    /// The first record of a term, for which all others are held.
    Term,
}

/// Space in the log for one record. It is released on drop, and consumed by an append.
pub struct Room {
    space: Arc<LogSpace>,
    charge_bytes: u64,
}

impl Room {
    /// The reserved bytes: the size of the record rounded up to whole blocks.
    pub fn charge_bytes(&self) -> u64 {
        self.charge_bytes
    }

    /// Transfers the reservation to the appended record.
    pub(crate) fn into_charge(mut self) -> u64 {
        std::mem::take(&mut self.charge_bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.charge_bytes > 0 {
            self.space.state.lock().give_back(self.charge_bytes);
            self.space.serve();
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({} bytes)", self.charge_bytes)
    }
}

/// Size of the blocks of a record that is alone in its batch, including the batch head; `bytes` is
/// the size of its stamp and payload.
pub(crate) fn charge_bytes(bytes: usize) -> u64 {
    next_block((BATCH_HEAD_BYTES + frame_bytes(0, bytes)) as u64)
}

impl LogSpace {
    pub(crate) fn new(file_bytes: u64, record_bytes_max: u64, kept_bytes: u64) -> Self {
        let state = State {
            ready_files: 0,
            current_left_bytes: 0,
            promised_bytes: 0,
            waiters: Waiters::default(),
            held: false,
        };
        let waiting = AtomicUsize::new(0);
        Self { file_bytes, record_bytes_max, kept_bytes, state: Mutex::new(state), waiting }
    }

    /// Whether `charge_bytes` is within the limit for a record.
    fn fits_a_record(&self, charge_bytes: u64) -> bool {
        charge_bytes <= self.record_bytes_max
    }

    /// Total space that may be reserved by `priority` and others together.
    fn capacity_bytes(&self, state: &State, priority: Priority) -> u64 {
        let sure_of_current = state.current_left_bytes.saturating_sub(self.record_bytes_max);
        let sure_of_ready = state.ready_files * (self.file_bytes - self.record_bytes_max);
        let kept_bytes = match priority {
            Priority::Load => self.kept_bytes,
            Priority::Publish => self.kept_bytes / 2,
            Priority::Privileged | Priority::Term => 0,
        };
        (sure_of_current + sure_of_ready).saturating_sub(kept_bytes)
    }

    /// Space that loads can still reserve.
    pub(crate) fn free_bytes(&self) -> u64 {
        let state = self.state.lock();
        self.capacity_bytes(&state, Priority::Load).saturating_sub(state.promised_bytes)
    }

    /// The part of the reserve for records that free space that is still there.
    pub(crate) fn kept_bytes_left(&self) -> u64 {
        let state = self.state.lock();
        let left = self.capacity_bytes(&state, Priority::Privileged);
        left.saturating_sub(state.promised_bytes).min(self.kept_bytes)
    }

    /// Whether all records but the first of a term are held.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().held
    }

    /// Holds all records but the first of a term, or lets them in.
    pub(crate) fn hold(self: &Arc<Self>, held: bool) {
        self.state.lock().held = held;
        self.serve();
    }

    fn take(&self, state: &mut State, charge_bytes: u64, priority: Priority) -> bool {
        if state.held && priority != Priority::Term {
            return false;
        }
        let after = state.promised_bytes + charge_bytes;
        let fits = after <= self.capacity_bytes(state, priority);
        if fits {
            state.promised_bytes = after;
        }
        fits
    }

    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize, priority: Priority) -> Option<Room> {
        let charge_bytes = charge_bytes(bytes);
        if !self.fits_a_record(charge_bytes) {
            return None;
        }
        let mut state = self.state.lock();
        if state.waiters.are_before(priority) {
            return None;
        }
        self.take(&mut state, charge_bytes, priority).then(|| self.room(charge_bytes))
    }

    pub(crate) async fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        priority: Priority,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Room, NoRoom> {
        if let Some(room) = self.try_reserve(bytes, priority) {
            return Ok(room);
        }
        let charge_bytes = charge_bytes(bytes);
        if !self.fits_a_record(charge_bytes) {
            return Err(NoRoom::Never);
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.waiters.of(priority).push_back(Waiter { charge_bytes, wake });
            self.waiting.store(state.waiters.count(), Ordering::Release);
        }
        // Space may have become free between the first attempt and the queueing.
        self.serve();
        match until(clock, deadline, woken).await {
            Some(Ok(room)) => Ok(room),
            Some(Err(_)) | None => Err(NoRoom::TimedOut),
        }
    }

    fn room(self: &Arc<Self>, charge_bytes: u64) -> Room {
        Room { space: Arc::clone(self), charge_bytes }
    }

    /// Number of waiters.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Adds files that are ready to be written from their start.
    pub(crate) fn add_files(self: &Arc<Self>, files: u64) {
        self.state.lock().ready_files += files;
        self.serve();
    }

    /// The writer continues in a file with `left_bytes` left; called at the start of the log.
    pub(crate) fn resume_file(&self, left_bytes: u64) {
        self.state.lock().current_left_bytes = left_bytes;
    }

    /// The writer continues in the next ready file.
    pub(crate) fn switch_file(&self) {
        let mut state = self.state.lock();
        assert!(state.ready_files > 0, "a file was promised, so one is ready");
        state.ready_files -= 1;
        state.current_left_bytes = self.file_bytes;
    }

    /// Records with reservations of `charge_bytes` have filled `written_bytes` of the current file.
    pub(crate) fn written(self: &Arc<Self>, charge_bytes: u64, written_bytes: u64) {
        assert!(written_bytes <= charge_bytes, "a record fills no more than it was promised");
        {
            let mut state = self.state.lock();
            assert!(written_bytes <= state.current_left_bytes, "a write ends inside its file");
            state.current_left_bytes -= written_bytes;
            state.give_back(charge_bytes);
        }
        self.serve();
    }

    /// Grants space to waiters in order until the next one does not fit; a large request is never
    /// overtaken indefinitely by smaller ones.
    fn serve(self: &Arc<Self>) {
        if self.waiting() == 0 {
            return;
        }
        while let Some(Waiter { charge_bytes, wake }) = self.next_served() {
            // If the waiter was cancelled meanwhile, dropping its room serves the next one.
            drop(wake.send(self.room(charge_bytes)));
        }
    }

    fn next_served(&self) -> Option<Waiter> {
        let mut state = self.state.lock();
        let first = state.waiters.next_priority().and_then(|priority| {
            let queue = state.waiters.of(priority);
            let bytes = queue.front().expect("one of its priority waits").charge_bytes;
            let fits = self.take(&mut state, bytes, priority);
            if fits { state.waiters.of(priority).pop_front() } else { None }
        });
        self.waiting.store(state.waiters.count(), Ordering::Release);
        first
    }
}

impl State {
    fn give_back(&mut self, charge_bytes: u64) {
        assert!(self.promised_bytes >= charge_bytes, "room came back that was never given");
        self.promised_bytes -= charge_bytes;
    }
}

#[cfg(test)]
mod tests;
