//! Replay: the log into deltas, labels and counts, in order, as if it were written now.
//!
//! It never consults labels and never rejects data. Per table part of a record it compares the
//! LSN with the flushed LSN, and the incarnation; labels and versions are taken from every
//! record, also from those whose rows are in files already. Groups that a run left open end
//! with it, in table order; nothing is written for that, so doing it again changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use freshet_base::{
    ByteSize, Error, ErrorCode, Incarnation, Lsn, Result, SchemaVersion, TableId, TxnId, Version,
    err,
};
use freshet_meta::RowsetMeta;
use freshet_schema::row;
use freshet_storage::delta::{DeltaEntry, Payload};
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::side::SideEntry;

use crate::engine::Engine;
use crate::group::PendingCut;
use crate::record::{self, BarrierAction, BarrierStamp, Body, Label, Part, PartStamp, Record};
use crate::state::TableState;

/// A replay on a full disk tries a flush whenever so much more of the memory is in use.
const FLUSH_TRIES: u64 = 16;

/// What a replay did, for the log of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Records read.
    pub records: u64,
    /// Rows put into deltas.
    pub rows: u64,
    /// Payload bytes read.
    pub bytes: u64,
}

/// A replay under way.
pub struct Replay<'a> {
    engine: &'a Arc<Engine>,
    /// Versions below this are counted already, by table.
    counted: HashMap<TableId, Lsn>,
    /// Groups open at this place of the log.
    open: BTreeMap<TableId, TxnId>,
    /// Where the runs begin that are still to come, first one last.
    run_starts: Vec<Lsn>,
    last: Lsn,
    /// On a full disk: the memory in use at which a flush is tried again.
    flushes_from_bytes: u64,
    done: Replayed,
}

impl<'a> Replay<'a> {
    /// A replay into `engine`, whose tables stand as metadata says; versions are counted up to
    /// the LSNs in `counted`; runs begin at `run_starts`.
    pub fn new(
        engine: &'a Arc<Engine>,
        counted: HashMap<TableId, Lsn>,
        mut run_starts: Vec<Lsn>,
    ) -> Self {
        run_starts.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            engine,
            counted,
            open: BTreeMap::new(),
            run_starts,
            last: Lsn::ZERO,
            flushes_from_bytes: 0,
            done: Replayed::default(),
        }
    }

    /// Puts back what small tables had unflushed when the log was recycled.
    ///
    /// # Errors
    /// Rows that contradict their schema.
    pub fn side(&mut self, entry: &SideEntry) -> Result<()> {
        let Some(state) = self.engine.table_state(entry.table) else { return Ok(()) };
        let rows = RowsToPush {
            lsn: entry.lsn,
            txn: entry.txn,
            // No group lives through a restart, and these ended before.
            ends_group: true,
            schema_version: entry.schema_version,
            rows: entry.rows,
            bytes: &entry.bytes,
        };
        self.push_rows(&state, &rows)
    }

    /// Takes one record, in order.
    ///
    /// # Errors
    /// A record that no server of this version wrote, or metadata that cannot be written.
    pub async fn record(&mut self, record: &freshet_wal::Record<'_>) -> Result<()> {
        while self.run_starts.pop_if(|start| *start <= record.lsn).is_some() {
            self.end_run();
        }
        // Before the record is taken: what is in files then is followed by at least this record
        // of its run, which is how the next replay knows that no group had ended yet.
        self.keep_budget().await?;
        self.last = record.lsn;
        self.done.records += 1;
        self.done.bytes += record.payload.len() as u64;
        let at = |error: Error| error.context(format_args!("log record {}", record.lsn));
        let decoded = record::decode(record.kind, record.stamp, record.payload).map_err(at)?;
        match decoded {
            Record::Load { parts, label } => {
                for (stamp, part) in &parts {
                    self.part(record.lsn, stamp, part).map_err(at)?;
                }
                if let (Some(label), Some((stamp, _))) = (label, parts.first()) {
                    self.label(&label, stamp.txn, record.lsn);
                }
            }
            Record::GroupEnd(end) => self.end_group(end.table, end.txn, end.version, record.lsn),
            Record::DatabaseDrop(id) => self.engine.remove_database(id).map_err(at)?,
            Record::Barrier { action, tables } => {
                for barrier in &tables {
                    self.barrier(action, barrier, record.lsn).await.map_err(at)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the last run, and with it every group that is open.
    pub fn finish(mut self) -> Replayed {
        self.end_run();
        self.done
    }

    fn part(&mut self, lsn: Lsn, stamp: &PartStamp, part: &Part<'_>) -> Result<()> {
        let Some(state) = self.engine.table_state(stamp.table) else { return Ok(()) };
        self.make_up_for_holes(&state, stamp.incarnation, lsn);
        let is_end_noted = self.count(stamp, lsn);
        if !belongs(&state, stamp.incarnation) {
            return Ok(());
        }
        match part.body {
            Body::Rows(bytes) => self.push_rows(
                &state,
                &RowsToPush {
                    lsn,
                    txn: stamp.txn,
                    ends_group: stamp.ends_with.is_some() && !is_end_noted,
                    schema_version: part.schema_version,
                    rows: part.rows,
                    bytes,
                },
            ),
            Body::Rowsets(json) => self.push_rowsets(&state, lsn, part, json),
        }
    }

    /// Somebody may have accepted the loss of a TRUNCATE. Rows behind it tell of it by their
    /// incarnation: it counts, or they would be lost as well.
    fn make_up_for_holes(&self, state: &TableState, incarnation: Incarnation, lsn: Lsn) {
        let is_newer = incarnation > state.log.lock().incarnation;
        if is_newer && lsn > self.flushed(state.id) {
            push_cut(state, incarnation, Lsn(lsn.get() - 1));
        }
    }

    /// Takes the version of a load that ends its group, or notes that its group is open.
    /// Returns whether the end stands in the delta already.
    fn count(&mut self, stamp: &PartStamp, lsn: Lsn) -> bool {
        let Some(version) = stamp.ends_with else {
            // Also below the LSN that versions are counted to: the group may end above it.
            self.open.insert(stamp.table, stamp.txn);
            return false;
        };
        let was_open = self.open.get(&stamp.table) == Some(&stamp.txn);
        if was_open {
            self.end_group(stamp.table, stamp.txn, version, lsn);
        } else {
            self.set_version(stamp.table, version, lsn);
        }
        was_open
    }

    fn push_rows(&mut self, state: &TableState, rows: &RowsToPush<'_>) -> Result<()> {
        let view = self.engine.views().load();
        let Some(view) = view.tables.get(&state.id) else { return Ok(()) };
        if rows.lsn <= view.flushed {
            return Ok(());
        }
        let schema = view.table.history.at(rows.schema_version).ok_or_else(|| {
            err!(
                Corruption,
                "rows of table '{}' name schema version {}, which metadata lacks",
                state.name(),
                rows.schema_version
            )
        })?;
        row::validate(schema, rows.bytes, rows.rows as usize).map_err(|fault| {
            err!(Corruption, "rows of table '{}' cannot be read: {fault}", state.name())
        })?;
        let permit = self.engine.memory().acquire_over(rows.bytes.len() as u64 + 64);
        let entry = DeltaEntry {
            lsn: rows.lsn,
            txn: rows.txn,
            ends_group: rows.ends_group,
            schema_version: rows.schema_version,
            rows: rows.rows,
            payload: Payload::Copied(rows.bytes),
        };
        state.log.lock().last_lsn = rows.lsn;
        if let Some(chunk) = state.delta.push_rows(entry, permit) {
            self.engine.roll_later(chunk);
        }
        self.done.rows += u64::from(rows.rows);
        Ok(())
    }

    fn push_rowsets(
        &mut self,
        state: &TableState,
        lsn: Lsn,
        part: &Part<'_>,
        json: &[u8],
    ) -> Result<()> {
        let view = self.engine.views().load();
        let Some(view) = view.tables.get(&state.id) else { return Ok(()) };
        if lsn <= view.flushed {
            return Ok(());
        }
        let metas: Vec<RowsetMeta> = serde_json::from_slice(json)
            .map_err(|error| err!(Corruption, "files of a large load cannot be read: {error}"))?;
        let schema = view.table.history.at(part.schema_version).ok_or_else(|| {
            err!(Corruption, "a large load of '{}' names an unknown schema", state.name())
        })?;
        let rowsets = self.engine.loaded_rowsets(state.id, schema, metas, lsn);
        state.delta.push_rowsets(lsn, rowsets);
        state.log.lock().last_lsn = lsn;
        self.done.rows += u64::from(part.rows);
        Ok(())
    }

    fn label(&self, label: &Label<'_>, txn: TxnId, lsn: Lsn) {
        let book = self.engine.meta().labels();
        book.replayed(label.db, label.text, label.kind, txn, lsn, label.time);
    }

    fn end_group(&mut self, table: TableId, txn: TxnId, version: Version, lsn: Lsn) {
        self.open.remove(&table);
        self.note_end(table, txn, lsn);
        self.set_version(table, version, lsn);
    }

    async fn barrier(
        &mut self,
        action: BarrierAction,
        barrier: &BarrierStamp,
        lsn: Lsn,
    ) -> Result<()> {
        if let Some((txn, version)) = barrier.ended {
            self.end_group(barrier.table, txn, version, lsn);
        }
        let Some(state) = self.engine.table_state(barrier.table) else { return Ok(()) };
        let flushed = self.flushed(barrier.table);
        match action {
            BarrierAction::Truncate if lsn > flushed => {
                push_cut(&state, barrier.incarnation, lsn);
                Ok(())
            }
            BarrierAction::Truncate => Ok(()),
            BarrierAction::Alter => self.engine.replay_alter(&state, barrier.schema_version, lsn),
            BarrierAction::Drop => self.engine.replay_drop(&state),
        }
    }

    /// Ends all groups that the run left open, in table order.
    fn end_run(&mut self) {
        for (table, txn) in std::mem::take(&mut self.open) {
            let Some(state) = self.engine.table_state(table) else { continue };
            if self.is_counted(table, self.last) {
                continue;
            }
            let mut log = state.log.lock();
            log.version = log.version.next();
            state.delta.end_run(txn, self.last.max(state.delta.last()));
        }
    }

    /// Tells the delta that a group ended, so that flushes of later see it.
    fn note_end(&self, table: TableId, txn: TxnId, lsn: Lsn) {
        if lsn > self.flushed(table)
            && let Some(state) = self.engine.table_state(table)
        {
            state.delta.end_group(txn, lsn);
        }
    }

    fn set_version(&self, table: TableId, version: Version, lsn: Lsn) {
        if self.is_counted(table, lsn) {
            return;
        }
        if let Some(state) = self.engine.table_state(table) {
            let mut log = state.log.lock();
            assert!(version > log.version, "versions of a table rise in log order");
            log.version = version;
        }
    }

    fn is_counted(&self, table: TableId, lsn: Lsn) -> bool {
        self.counted.get(&table).is_some_and(|counted| lsn <= *counted)
    }

    fn flushed(&self, table: TableId) -> Lsn {
        self.engine.views().load().tables.get(&table).map_or(Lsn::ZERO, |view| view.flushed)
    }

    /// Brings rows into files as at any other time when memory runs short. Where the disk has no
    /// room for them they stay in memory, which had them before the start as well.
    async fn keep_budget(&mut self) -> Result<()> {
        while let Some(largest) = self.engine.largest_under_pressure() {
            let memory = self.engine.memory();
            let (used, limit) = (memory.used_bytes(), memory.limit_bytes());
            // Loads and replay do not count to the byte alike, and memory may have been full.
            let most = limit + limit / 4;
            if used < self.flushes_from_bytes {
                return Ok(());
            }
            match self.engine.settle(&largest, FlushReason::Memory).await {
                Ok(()) => {}
                Err(error) if self.engine.disk_gave_room_for(&error) => {}
                Err(error) if error.code() == ErrorCode::DiskFull && used <= most => {
                    self.flushes_from_bytes = used + limit / FLUSH_TRIES;
                }
                Err(error) if error.code() == ErrorCode::DiskFull => {
                    return Err(error.context(format_args!(
                        "the log holds more rows than fit in write_memory ({}), and the disk has \
                         no room for them: free some space under {}, or raise write_memory",
                        ByteSize(limit),
                        self.engine.config().data_dir.display()
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

struct RowsToPush<'a> {
    lsn: Lsn,
    txn: TxnId,
    ends_group: bool,
    schema_version: SchemaVersion,
    rows: u32,
    bytes: &'a [u8],
}

/// Empties a table as a TRUNCATE at `lsn` did.
fn push_cut(state: &TableState, incarnation: Incarnation, lsn: Lsn) {
    let mut log = state.log.lock();
    log.incarnation = incarnation;
    log.last_lsn = lsn;
    let version = log.version;
    log.cuts.push(PendingCut { lsn, version, incarnation });
    state.delta.push_cut(lsn);
}

/// Whether rows of this incarnation are still of the table.
fn belongs(state: &TableState, incarnation: Incarnation) -> bool {
    state.log.lock().incarnation == incarnation
}
