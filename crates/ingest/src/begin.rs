//! The first record of a term (cluster.md 44). It ends the groups that earlier terms left open,
//! reserves ids, and says how long labels are kept. Reads are served before it is durable; until
//! then the log holds every other record, so loads and statements that append wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Error, LogPosition, Lsn, Result, Retry, TableId, err};
use freshet_meta::{LeftOpen, MetaEvent, TermRecord, disk};
use freshet_storage::fold::Event;
use freshet_wal::{Room, WalStats};

use crate::engine::Engine;
use crate::record::Kind;

/// How often those who wait for the record look whether it is durable.
const LOOK: Duration = Duration::from_millis(5);
/// The delay of another attempt, after the log had no room for the record.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// One of so many failures is in the server's log: about one a minute.
const FAILURES_SILENT: u64 = 120;
/// The number of groups that one record ends: about 16 KiB, which every log file takes.
const ENDED_MAX: usize = 500;

/// What a start does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Frees the log up to a position.
    Free(LogPosition),
    Append,
}

/// Each start takes up to two blocks of the room that is kept back. If it did so whatever is left,
/// many starts on a full log would leave none for the next one, nor for a DROP that frees room.
fn step(stats: &WalStats, kept_bytes: u64) -> Step {
    match stats.full_to {
        Some(position) if stats.kept_bytes_left < kept_bytes / 2 => Step::Free(position),
        // With no full file there is nothing to free.
        _ => Step::Append,
    }
}

impl Engine {
    /// Begins the term in the background.
    pub(crate) fn begin(self: &Arc<Self>) {
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
        self.begun.load(Ordering::Acquire)
    }

    /// Waits until the record of the term has settled.
    ///
    /// # Errors
    /// `OutOfRoom` after `load_patience`.
    pub async fn begun(&self) -> Result<()> {
        if self.has_begun() {
            return Ok(());
        }
        let deadline = Deadline::after(&**self.clock(), self.config().load_patience);
        while !self.has_begun() {
            if self.clock().now() >= deadline.0 {
                return Err(not_begun());
            }
            self.clock().sleep(LOOK).await;
        }
        Ok(())
    }

    async fn try_begin(self: &Arc<Self>) -> Result<()> {
        self.failpoints().pass("term-record").map_err(|e| Error::io("begin the term", e))?;
        if let Step::Free(position) = step(&self.wal().stats(), self.config().wal_kept_bytes()) {
            // Even if that fails: a DROP can free disk and log, and needs the record before it.
            if let Err(error) = self.free_before_term(position).await {
                tracing::warn!(%error, "a start cannot free the log");
            }
        }
        let records = self.term_records();
        let rooms = records.iter().map(|(_, payload)| self.wal().try_reserve_term(payload.len()));
        let rooms = rooms.collect::<Option<Vec<_>>>().ok_or_else(no_room)?;
        let mut last = self.wal().stats().next_lsn;
        assert_eq!(last, self.wal().stats().term_first, "nothing of a term is before its record");
        for ((term, payload), room) in records.into_iter().zip(rooms) {
            last = self.append_term(term, &payload, room)?;
        }
        self.horizon().wait(last).await;
        self.settler.settle_due();
        assert!(self.meta().settled() >= last, "the record of the term has settled");
        self.wal().release();
        self.begun.store(true, Ordering::Release);
        self.keeper().wake();
        Ok(())
    }

    /// The record of this term, or several where many groups are open, with their payloads.
    fn term_records(&self) -> Vec<(TermRecord, Vec<u8>)> {
        let left_open = |state: &Arc<crate::state::TableState>| {
            let table = state.lock();
            let version = table.log().version().next();
            table.log().open().map(|txn| LeftOpen { table: state.id, txn, version })
        };
        let mut left = self.table_states().iter().filter_map(left_open).collect::<Vec<_>>();
        let mut records = Vec::new();
        loop {
            let rest = left.split_off(left.len().min(ENDED_MAX));
            let ended = std::mem::replace(&mut left, rest);
            let (ids, labels) = (self.meta().ids().of_term(), self.config().labels);
            let term = TermRecord { ended, more: !left.is_empty(), ids, labels };
            let payload = disk::encode(&term);
            records.push((term, payload));
            if left.is_empty() {
                return records;
            }
        }
    }

    fn append_term(&self, term: TermRecord, payload: &[u8], room: Room) -> Result<Lsn> {
        let (lsn, _) = self.wal().append(Kind::Term as u8, payload, room, |lsn, _| {
            for LeftOpen { table, txn, version } in &term.ended {
                let state = self.table_state(*table).expect("no table goes before the term begins");
                state.lock().enter(lsn, Event::Term { ended: Some((*txn, *version)) });
            }
            self.meta().labels().begin_term(lsn, term.labels);
            let event = MetaEvent::Term(term);
            Ok::<_, Error>(self.settler.settle_later(lsn, event, None, None))
        })?;
        Ok(lsn)
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

fn no_room() -> Error {
    let error = err!(
        OutOfRoom,
        "the log has no room for the first record of this start, so only reads are served; if a \
         disk is full free some space, then retry"
    );
    error.with_retry(Retry::After(NO_ROOM_PAUSE))
}

#[cfg(test)]
mod tests {
    use freshet_base::{BatchIndex, Term};

    use super::*;

    #[test]
    fn a_start_that_finds_less_than_half_of_the_kept_room_frees_log_first() {
        let position = LogPosition { lsn: Lsn(9), index: BatchIndex(3), term: Term(1) };
        let stats = |kept_bytes_left, full_to| WalStats {
            next_lsn: Lsn(10),
            durable_lsn: Lsn(9),
            live_files: Vec::new(),
            full_to,
            term_first: Lsn(10),
            ready_files: 1,
            files_max: 4,
            live_bytes: 0,
            free_bytes: 0,
            kept_bytes_left,
            room_waiters: 0,
        };
        let step = |left, full_to| step(&stats(left, full_to), 100);
        assert_eq!(step(49, Some(position)), Step::Free(position));
        assert_eq!(step(50, Some(position)), Step::Append);
        assert_eq!(step(0, None), Step::Append);
    }
}
