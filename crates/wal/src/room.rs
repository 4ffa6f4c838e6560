//! Log room: taken at admission, so that an append never finds the log full.
//!
//! A file is left for the next one when a record does not fit, so a file is only sure to take
//! its bytes less one record of the largest size. Counted with that, and each record with the
//! blocks that it fills when it is alone in its batch, whatever order and batches the records
//! come in, they find their place in the files that are ready now.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::budget::NoRoom;
use freshet_base::clock::{Clock, Deadline, until};
use futures::channel::oneshot;

use crate::file::next_block;
use crate::record::{BATCH_HEAD_BYTES, frame_bytes};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// What is known of the space of all files.
pub(crate) struct Ledger {
    file_bytes: u64,
    record_bytes_max: u64,
    kept_bytes: u64,
    state: Mutex<State>,
    waiting: AtomicUsize,
}

struct State {
    /// Files that nothing of this turn stands in yet.
    ready_files: u64,
    /// What is left of the file being written.
    current_left_bytes: u64,
    /// Promised to rooms and to records not written yet.
    promised_bytes: u64,
    waiters: Waiters,
}

/// Who waits for room, each queue in the order of arrival.
#[derive(Default)]
struct Waiters {
    /// Served first: what they publish is what frees room.
    publishes: VecDeque<Waiter>,
    loads: VecDeque<Waiter>,
}

struct Waiter {
    charge_bytes: u64,
    wake: oneshot::Sender<Room>,
}

impl Waiters {
    fn of(&mut self, class: Class) -> &mut VecDeque<Waiter> {
        match class {
            Class::Load => &mut self.loads,
            Class::Publish => &mut self.publishes,
            Class::Privileged => unreachable!("ends and barriers have their room or fail"),
        }
    }

    fn count(&self) -> usize {
        self.publishes.len() + self.loads.len()
    }

    /// Whether a newcomer has to stand behind somebody: loads wait for all, and nobody overtakes
    /// one of its own class.
    fn are_before(&self, class: Class) -> bool {
        match class {
            Class::Load => self.count() > 0,
            Class::Publish => !self.publishes.is_empty(),
            Class::Privileged => false,
        }
    }

    /// Forgets those in front who went away, and says which class is next.
    fn next_class(&mut self) -> Option<Class> {
        [Class::Publish, Class::Load].into_iter().find(|class| {
            let queue = self.of(*class);
            while queue.front().is_some_and(|waiter| waiter.wake.is_canceled()) {
                queue.pop_front();
            }
            !queue.is_empty()
        })
    }
}

/// Who asks: loads leave alone what is kept back for what frees room, and what flushes and merges
/// publish leaves half of that to ends of groups and barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Load,
    Publish,
    Privileged,
}

/// The place of one record in the log, given back on drop, handed over by an append.
pub struct Room {
    ledger: Arc<Ledger>,
    charge_bytes: u64,
}

impl Room {
    /// Bytes of the log that it stands for: more than the record, up to whole blocks.
    pub fn charge_bytes(&self) -> u64 {
        self.charge_bytes
    }

    /// Hands the promise over to the record that was appended.
    pub(crate) fn into_charge(mut self) -> u64 {
        std::mem::take(&mut self.charge_bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.charge_bytes > 0 {
            self.ledger.state.lock().give_back(self.charge_bytes);
            self.ledger.serve();
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({} bytes)", self.charge_bytes)
    }
}

/// The blocks of a record that is alone in its batch, with the head; `bytes` are those of stamp
/// and payload.
pub(crate) fn charge_bytes(bytes: usize) -> u64 {
    next_block((BATCH_HEAD_BYTES + frame_bytes(0, bytes)) as u64)
}

impl Ledger {
    pub(crate) fn new(file_bytes: u64, record_bytes_max: u64, kept_bytes: u64) -> Self {
        let state = State {
            ready_files: 0,
            current_left_bytes: 0,
            promised_bytes: 0,
            waiters: Waiters::default(),
        };
        let waiting = AtomicUsize::new(0);
        Self { file_bytes, record_bytes_max, kept_bytes, state: Mutex::new(state), waiting }
    }

    /// Whether one record may have `charge_bytes`.
    fn fits_a_record(&self, charge_bytes: u64) -> bool {
        charge_bytes <= self.record_bytes_max
    }

    /// What can be promised to `class` in all.
    fn capacity_bytes(&self, state: &State, class: Class) -> u64 {
        let sure_of_current = state.current_left_bytes.saturating_sub(self.record_bytes_max);
        let sure_of_ready = state.ready_files * (self.file_bytes - self.record_bytes_max);
        let kept_bytes = match class {
            Class::Load => self.kept_bytes,
            Class::Publish => self.kept_bytes / 2,
            Class::Privileged => 0,
        };
        (sure_of_current + sure_of_ready).saturating_sub(kept_bytes)
    }

    /// What loads can still take.
    pub(crate) fn free_bytes(&self) -> u64 {
        let state = self.state.lock();
        self.capacity_bytes(&state, Class::Load).saturating_sub(state.promised_bytes)
    }

    fn take(&self, state: &mut State, charge_bytes: u64, class: Class) -> bool {
        let after = state.promised_bytes + charge_bytes;
        let fits = after <= self.capacity_bytes(state, class);
        if fits {
            state.promised_bytes = after;
        }
        fits
    }

    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize, class: Class) -> Option<Room> {
        let charge_bytes = charge_bytes(bytes);
        if !self.fits_a_record(charge_bytes) {
            return None;
        }
        let mut state = self.state.lock();
        if state.waiters.are_before(class) {
            return None;
        }
        self.take(&mut state, charge_bytes, class).then(|| self.room(charge_bytes))
    }

    pub(crate) async fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        class: Class,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Room, NoRoom> {
        if let Some(room) = self.try_reserve(bytes, class) {
            return Ok(room);
        }
        let charge_bytes = charge_bytes(bytes);
        if !self.fits_a_record(charge_bytes) {
            return Err(NoRoom::Never);
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.waiters.of(class).push_back(Waiter { charge_bytes, wake });
            self.waiting.store(state.waiters.count(), Ordering::Release);
        }
        // Room may have come back between the first try and the queueing.
        self.serve();
        match until(clock, deadline, woken).await {
            Some(Ok(room)) => Ok(room),
            Some(Err(_)) | None => Err(NoRoom::TimedOut),
        }
    }

    fn room(self: &Arc<Self>, charge_bytes: u64) -> Room {
        Room { ledger: Arc::clone(self), charge_bytes }
    }

    /// How many wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// More files are ready.
    pub(crate) fn add_files(self: &Arc<Self>, files: u64) {
        self.state.lock().ready_files += files;
        self.serve();
    }

    /// The writer goes on in a file of which `left_bytes` are left, as the log starts.
    pub(crate) fn resume_file(&self, left_bytes: u64) {
        self.state.lock().current_left_bytes = left_bytes;
    }

    /// The writer goes on in the next ready file.
    pub(crate) fn switch_file(&self) {
        let mut state = self.state.lock();
        assert!(state.ready_files > 0, "a file was promised, so one is ready");
        state.ready_files -= 1;
        state.current_left_bytes = self.file_bytes;
    }

    /// Records that were promised `charge_bytes` fill `written_bytes` of the current file.
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

    /// Hands room to waiters in their order, as far as it reaches: a large one in front is not
    /// overtaken for ever by small ones behind it.
    fn serve(self: &Arc<Self>) {
        if self.waiting() == 0 {
            return;
        }
        while let Some(Waiter { charge_bytes, wake }) = self.next_served() {
            // A waiter that went away meanwhile drops the room, which serves the next one.
            drop(wake.send(self.room(charge_bytes)));
        }
    }

    fn next_served(&self) -> Option<Waiter> {
        let mut state = self.state.lock();
        let first = state.waiters.next_class().and_then(|class| {
            let queue = state.waiters.of(class);
            let bytes = queue.front().expect("one of its class waits").charge_bytes;
            let fits = self.take(&mut state, bytes, class);
            if fits { state.waiters.of(class).pop_front() } else { None }
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
