//! Notes of committed loads go behind the answer to the commit: giving back the blocks of their
//! rows can take longer than writing them did (RFC 0061).
//!
//! Until its note is gone the label of a load tells a start that it is committed. So what forgets
//! labels before their time, or takes a table away from them, waits for notes first.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::TxnId;
use freshet_base::task::Lane;

use super::{PreparedLoads, Slot};

/// How many notes may wait to go; the commits behind them remove their own before they answer.
const GOING_MAX: usize = 32;
/// How often it is looked whether notes are gone.
const LOOK: Duration = Duration::from_millis(1);

/// Notes that wait to go.
#[derive(Default)]
pub(super) struct Going {
    txns: Vec<TxnId>,
    /// Whether a job removes them.
    is_running: bool,
}

impl PreparedLoads {
    /// Says that a load is committed, whose record is durable. Its note goes in the background;
    /// `false` if so many wait for that already that the caller must call [`Self::end_notes`].
    pub fn committed(self: &Arc<Self>, txn: TxnId) -> bool {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(&txn).expect("a load has its slot until its note is gone");
        assert!(matches!(slot, Slot::Ending(_)), "it was taken for its end");
        *slot = Slot::Committed(slot.table(txn));
        drop(slots);
        let mut going = self.going.lock();
        if going.txns.len() >= GOING_MAX {
            return false;
        }
        going.txns.push(txn);
        let is_running = std::mem::replace(&mut going.is_running, true);
        drop(going);
        if !is_running {
            let (loads, ending) = (Arc::clone(self), self.end_begins());
            let remove = move || {
                loads.end_going();
                drop(ending);
            };
            // It waits for the device, which neither flushes nor clients should wait for.
            self.store.pool().execute(Lane::OwnThread, Box::new(remove));
        }
        true
    }

    /// Removes the notes that wait to go, until there are none.
    fn end_going(&self) {
        loop {
            let mut going = self.going.lock();
            let txns = std::mem::take(&mut going.txns);
            if txns.is_empty() {
                going.is_running = false;
                return;
            }
            drop(going);
            self.end_notes(txns);
        }
    }

    /// Removes the notes of committed loads durably, and forgets the loads.
    pub fn end_notes(&self, txns: Vec<TxnId>) {
        if let Err(error) = self.remove_notes(&txns) {
            // Their labels and files may be forgotten before the notes are read again.
            let fatal = &self.store.world.on_fatal;
            fatal(&format!("notes of loads that are committed stay: {error}"));
        }
        let mut slots = self.slots.lock();
        for txn in txns {
            let slot = slots.remove(&txn);
            assert!(matches!(slot, Some(Slot::Committed(_))), "its note has just gone");
        }
    }

    /// Waits until the notes are gone of all loads that are committed by now.
    pub async fn settled(&self) {
        let committed = {
            let slots = self.slots.lock();
            let committed = slots.iter().filter(|(_, slot)| slot.is_committed());
            committed.map(|(txn, _)| *txn).collect::<Vec<_>>()
        };
        let is_there = || {
            let slots = self.slots.lock();
            committed.iter().any(|txn| slots.contains_key(txn))
        };
        while is_there() {
            self.store.clock().sleep(LOOK).await;
        }
    }

    /// The transactions of loads whose notes are there, by transaction.
    pub fn unsettled(&self) -> Vec<TxnId> {
        self.slots.lock().keys().copied().collect()
    }
}
