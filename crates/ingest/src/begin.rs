//! The first record of a term (cluster.md 44). It ends the groups that earlier terms left open,
//! reserves ids, and says how long labels are kept. Reads are served before it is durable; until
//! then the log holds every other record, so loads and statements that append wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{Deadline, until};
use freshet_base::{Error, LogPosition, Lsn, Result, Retry, TableId, err};
use freshet_meta::{LeftOpen, MetaEvent, TermRecord, disk};
use freshet_storage::fold::Event;
use freshet_wal::Room;

use crate::engine::Engine;
use crate::record::Kind;
use crate::state::TableState;

/// The delay of another attempt, after the log had no room for the record.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// Every so many failures one is logged: about one a minute.
const FAILURES_SILENT: u64 = 120;
/// The number of groups that one record ends: about 16 KiB, which every log file takes.
const ENDED_MAX: usize = 500;

/// The position up to which a start frees the log before it appends. Each start takes up to two
/// blocks of the room that is kept back. If it did so whatever is left, many starts on a full log
/// would leave none for the next one, nor for a DROP that frees room. With no full file there is
/// nothing to free.
fn frees_first(
    full_to: Option<LogPosition>,
    kept_bytes_left: u64,
    kept_bytes: u64,
) -> Option<LogPosition> {
    full_to.filter(|_| kept_bytes_left < kept_bytes / 2)
}

impl Engine {
    /// Begins the term in the background.
    pub(crate) fn begin(self: &Arc<Self>) {
        assert!(!self.has_begun(), "a start begins one term");
        let (engine, appends) = (Arc::clone(self), self.appends());
        // None is of this term, since a CREATE waits for its record.
        let catalog = self.meta().catalog();
        let left = catalog.tables().filter(|table| table.unlisted).map(|table| table.id);
        let left = left.collect::<Vec<TableId>>();
        let begin = async move {
            let _appends = appends;
            let mut failures = 0_u64;
            while !engine.keeper().is_stopping() {
                match engine.try_begin().await {
                    Ok(()) => {
                        left.iter().for_each(|table| engine.drop_unlisted_later(*table));
                        break;
                    }
                    Err(error) => {
                        if failures.is_multiple_of(FAILURES_SILENT) {
                            tracing::warn!(%error, "loads and DDL wait: the term cannot begin");
                        }
                        failures += 1;
                        engine.clock().sleep(NO_ROOM_PAUSE).await;
                    }
                }
            }
        };
        self.pool().spawn("begin", Box::pin(begin));
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
        let clock = &**self.clock();
        let deadline = Deadline::after(clock, self.config().load_patience);
        until(clock, deadline, self.begun.wait()).await.copied().ok_or_else(not_begun)
    }

    async fn try_begin(self: &Arc<Self>) -> Result<()> {
        self.failpoints().pass("term-record").map_err(|e| Error::io("begin the term", e))?;
        let stats = self.wal().stats();
        let kept_bytes = self.config().wal_kept_bytes();
        if let Some(position) = frees_first(stats.full_to, stats.kept_bytes_left, kept_bytes) {
            // Even if that fails: a DROP can free disk and log, and needs the record before it.
            if let Err(error) = self.free_before_term(position).await {
                tracing::warn!(%error, "a start cannot free the log");
            }
        }
        let records = self.term_records();
        let rooms = records.iter().map(|(_, payload)| self.wal().try_reserve_term(payload.len()));
        let rooms = rooms.collect::<Option<Vec<_>>>();
        let rooms = rooms.ok_or_else(|| err!(OutOfRoom, "the log has no room for its record"))?;
        let mut last = self.wal().stats().next_lsn;
        assert_eq!(last, self.wal().stats().term_first, "nothing of a term is before its record");
        for ((term, payload), room) in records.into_iter().zip(rooms) {
            let lsn = self.append_term(term, &payload, room);
            assert!(lsn >= last, "the records that begin a term follow each other");
            last = lsn;
        }
        self.horizon().wait(last).await;
        self.settler.settle_due();
        assert!(self.meta().settled() >= last, "the record of the term has settled");
        let is_open = |state: &Arc<TableState>| state.lock().log().open().is_some();
        assert!(!self.table_states().iter().any(is_open), "no group outlives a term");
        self.wal().release();
        self.begun.set(()).expect("a term begins once");
        self.keeper().wake();
        Ok(())
    }

    /// The record of this term, or several where many groups are open, with their payloads.
    fn term_records(&self) -> Vec<(TermRecord, Vec<u8>)> {
        let left_open = |state: &Arc<TableState>| {
            let table = state.lock();
            let version = table.log().version().next();
            table.log().open().map(|txn| LeftOpen { table: state.id, txn, version })
        };
        let left = self.table_states().iter().filter_map(left_open).collect::<Vec<_>>();
        let in_order = left.is_sorted_by(|a, b| a.table < b.table);
        assert!(in_order, "a term ends groups in the order of their tables");
        let (ids, labels) = (self.meta().ids().of_term(), self.config().labels);
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
        let appended = self.wal().append(Kind::Term as u8, payload, room, |lsn, _| {
            for LeftOpen { table, txn, version } in &term.ended {
                let state = self.table_state(*table).expect("no table goes before the term begins");
                state.lock().enter(lsn, Event::Term { ended: Some((*txn, *version)) });
            }
            self.meta().labels().begin_term(lsn, term.labels);
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

#[cfg(test)]
mod tests {
    use freshet_base::{BatchIndex, Term};

    use super::*;

    #[test]
    fn a_start_that_finds_less_than_half_of_the_kept_room_frees_log_first() {
        let position = Some(LogPosition { lsn: Lsn(9), index: BatchIndex(3), term: Term(1) });
        assert_eq!(frees_first(position, 49, 100), position);
        assert_eq!(frees_first(position, 50, 100), None);
        assert_eq!(frees_first(None, 0, 100), None);
    }
}
