//! The term, and its first record (cluster.md 44). It ends the groups that earlier terms left open,
//! reserves ids, and says how long labels are kept. Reads are served before it is durable; until
//! then the log holds every other record, so loads and statements that append wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::clock::{Deadline, until};
use freshet_base::{Error, Lsn, Result, Retry, err};
use freshet_meta::{LeftOpen, MetaEvent, TermRecord, disk};
use freshet_storage::fold::Event;
use freshet_wal::Room;
use tokio::sync::SetOnce;

use crate::metadata::Settler;
use crate::record::Kind;
use crate::state::TableState;
use crate::store::Store;

/// The delay of another attempt, after the log had no room for the record.
pub(crate) const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// The number of groups that one record ends: about 16 KiB, which every log file takes.
const ENDED_MAX: usize = 500;

/// The term of this process: whether it has begun, and what may still append to it.
pub(crate) struct Term {
    pub store: Arc<Store>,
    settler: Arc<Settler>,
    /// Number of tasks that may still append to the log.
    appending: AtomicUsize,
    /// Whether its record has settled.
    begun: SetOnce<()>,
}

/// A guard for background work that may append to the log; a stop waits for it.
pub(crate) struct Appends(Arc<Term>);

impl Drop for Appends {
    fn drop(&mut self) {
        let before = self.0.appending.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "work that may append ends once");
    }
}

impl Term {
    pub fn new(store: Arc<Store>, settler: Arc<Settler>) -> Self {
        Self { store, settler, appending: AtomicUsize::new(0), begun: SetOnce::new() }
    }

    /// Whether background work may still append to the log.
    pub fn is_busy(&self) -> bool {
        self.appending.load(Ordering::Acquire) > 0
    }

    /// Prevents the log from ending until the returned guard is dropped.
    pub fn appends(self: &Arc<Self>) -> Appends {
        self.appending.fetch_add(1, Ordering::AcqRel);
        Appends(Arc::clone(self))
    }

    /// Whether the record of the term has settled.
    pub fn has_begun(&self) -> bool {
        self.begun.initialized()
    }

    /// Waits until the record of the term has settled.
    ///
    /// # Errors
    /// `OutOfRoom` after `load_patience`.
    pub async fn begun(&self) -> Result<()> {
        if self.has_begun() {
            return Ok(());
        }
        let clock = self.store.clock();
        let deadline = Deadline::after(clock, self.store.config.load_patience);
        until(clock, deadline, self.begun.wait()).await.copied().ok_or_else(not_begun)
    }

    /// Appends its record and waits until that has settled.
    ///
    /// # Errors
    /// `OutOfRoom` when the log is full; nothing was appended then.
    pub async fn begin(&self) -> Result<()> {
        assert!(!self.has_begun(), "a start begins one term");
        let records = self.term_records();
        let rooms =
            records.iter().map(|(_, payload)| self.store.wal.try_reserve_term(payload.len()));
        let rooms = rooms.collect::<Option<Vec<_>>>();
        let rooms = rooms.ok_or_else(|| err!(OutOfRoom, "the log has no room for its record"))?;
        let stats = self.store.wal.stats();
        let mut last = stats.next_lsn;
        assert_eq!(last, stats.term_first, "nothing of a term is before its record");
        for ((term, payload), room) in records.into_iter().zip(rooms) {
            let lsn = self.append_term(term, &payload, room);
            assert!(lsn >= last, "the records that begin a term follow each other");
            last = lsn;
        }
        self.store.horizon().wait(last).await;
        self.settler.settle_due();
        assert!(self.store.meta().settled() >= last, "the record of the term has settled");
        let is_open = |state: &Arc<TableState>| state.lock().log().open().is_some();
        assert!(!self.store.tables.states().iter().any(is_open), "no group outlives a term");
        self.store.wal.release();
        self.begun.set(()).expect("a term begins once");
        self.store.keeper.wake();
        Ok(())
    }

    /// The record of this term, or several where many groups are open, with their payloads.
    fn term_records(&self) -> Vec<(TermRecord, Vec<u8>)> {
        let left_open = |state: &Arc<TableState>| {
            let table = state.lock();
            let version = table.log().version().next();
            table.log().open().map(|txn| LeftOpen { table: state.id, txn, version })
        };
        let left = self.store.tables.states().iter().filter_map(left_open).collect::<Vec<_>>();
        let in_order = left.is_sorted_by(|a, b| a.table < b.table);
        assert!(in_order, "a term ends groups in the order of their tables");
        let (ids, labels) = (self.store.meta().ids().of_term(), self.store.config.labels);
        let count = left.len().div_ceil(ENDED_MAX).max(1);
        let record = |number: usize| {
            let ended = left.iter().skip(number * ENDED_MAX).take(ENDED_MAX).copied().collect();
            let term = TermRecord { ended, more: number + 1 < count, ids, labels };
            let payload = disk::encode(&term);
            (term, payload)
        };
        (0..count).map(record).collect()
    }

    fn append_term(&self, term: TermRecord, payload: &[u8], room: Room) -> Lsn {
        let appended = self.store.wal.append(Kind::Term as u8, payload, room, |lsn, _| {
            for LeftOpen { table, txn, version } in &term.ended {
                let state =
                    self.store.tables.state(*table).expect("no table goes before the term begins");
                state.lock().enter(lsn, Event::Term { ended: Some((*txn, *version)) });
            }
            self.store.meta().labels().begin_term(lsn, term.labels);
            let event = MetaEvent::Term(term);
            Ok::<_, Infallible>(self.settler.settle_later(lsn, event, None, None))
        });
        let Ok((lsn, _)) = appended;
        lsn
    }
}

fn not_begun() -> Error {
    let error = err!(
        OutOfRoom,
        "the server has not finished its start, so only reads are served; if a disk is full free \
         some space, then retry"
    );
    error.with_retry(Retry::After(NO_ROOM_PAUSE))
}
