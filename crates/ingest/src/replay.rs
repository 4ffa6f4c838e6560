//! Replay: applies the log to deltas, labels and versions, in order, as when it was written.
//!
//! It never checks labels and never rejects data. What records say of metadata has settled before,
//! so rows that are already in files do not enter memory, and a replay needs no more memory than
//! was used at the crash. Records are applied to a table as they were originally; the
//! [`TableLog`](freshet_storage::fold::TableLog) skips what metadata and files already contain.
//! Groups that were open at the end of a term end with the first record of a later one. Where the
//! log has none yet they stay open, so a replay can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use freshet_base::budget::Budget;
use freshet_base::{Error, Incarnation, Lsn, Result, TableId, TxnId, err, task};
use freshet_meta::{LabelTime, TermRecord, Truncate};
use freshet_schema::row;
use freshet_storage::delta::Payload;
use freshet_storage::fold::{Barrier, Body, Event, Load, LostTruncate};
use freshet_storage::side::{SideBody, SideEntry};

use crate::append::{convert_later, loaded_rowsets};
use crate::partitions::Divided;
use crate::record::{
    self, BarrierBody, BarrierStamp, EndStamp, Label, Part, PartStamp, Record, SignedLabel,
};
use crate::state::TableState;
use crate::store::Store;

/// Statistics of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Number of records read.
    pub records: u64,
    /// Number of rows added to deltas.
    pub rows: u64,
    /// Number of payload bytes read.
    pub bytes: u64,
}

/// A replay in progress.
pub struct Replay<'a> {
    store: &'a Store,
    /// The memory for all writes.
    memory: &'a Budget,
    /// Tables that may have an open group at this position of the log.
    grouped: BTreeSet<TableId>,
    /// Rows that cannot be read without the given-up record of an ALTER, by table.
    lost: BTreeMap<TableId, u64>,
    /// The last record.
    last: Lsn,
    done: Replayed,
}

impl<'a> Replay<'a> {
    /// A replay into the tables of `store`, which are in the state of metadata.
    pub fn new(store: &'a Store, memory: &'a Budget) -> Self {
        let (grouped, lost, done) = (BTreeSet::new(), BTreeMap::new(), Replayed::default());
        Self { store, memory, grouped, lost, last: Lsn::ZERO, done }
    }

    /// Restores an entry of the side file: rows of a small table that were unflushed when the log
    /// was recycled.
    ///
    /// # Errors
    /// When rows do not match their schema.
    pub fn side(&mut self, entry: &SideEntry) -> Result<()> {
        let Some(state) = self.store.tables.state(entry.table) else { return Ok(()) };
        let (incarnation, version) = (state.incarnation(), state.version());
        // Groups that had ended are already counted. An open one ends later in the log, or with the
        // next term.
        let ends_with = (!entry.open).then_some(version);
        if entry.open {
            self.grouped.insert(entry.table);
        }
        let part = Part {
            table: entry.table,
            schema_version: entry.schema_version,
            rows: entry.rows,
            removals: entry.removals,
            body: match &entry.body {
                SideBody::Rows(bytes) => record::Body::Rows(bytes),
                SideBody::Rowsets(bytes) => record::Body::Rowsets(bytes),
            },
        };
        let body = self.body(&state, incarnation, &part, entry.lsn)?;
        let load = Load { incarnation, txn: entry.txn, ends_with, ended: None, body };
        self.enter(&state, entry.lsn, Event::Load(load));
        Ok(())
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// When the record is invalid for this version.
    pub fn record(&mut self, record: &freshet_wal::Record<'_>) -> Result<()> {
        assert!(self.last < record.lsn, "records are replayed in the order of the log");
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
                    self.label(&label, label.known.unwrap_or(stamp.txn), record);
                }
            }
            Record::GroupEnd(end) => self.end_group(&end, record.lsn),
            Record::Labels(cleaned) => self.store.meta().labels().clean(&cleaned),
            Record::Term(term) => self.begin_term(&term, record.lsn),
            // They had settled before the first record was replayed, but for their labels.
            Record::DatabaseDrop(_) => {}
            Record::Metadata { label, .. } => self.signed(label, record),
            Record::Barrier { body, tables, label } => {
                self.signed(label, record);
                for (at, stamp) in tables.iter().enumerate() {
                    self.barrier((&body, at), stamp, record.lsn);
                }
            }
        }
        Ok(())
    }

    /// Ends the replay.
    pub fn finish(self) -> Replayed {
        for (table, rows) in &self.lost {
            let name = self.store.tables.state(*table).map(|state| state.name());
            tracing::warn!(
                table = name,
                rows,
                "rows cannot be read: the record of the ALTER before them was given up"
            );
        }
        self.done
    }

    fn part(&mut self, lsn: Lsn, stamp: &PartStamp, part: &Part<'_>) -> Result<()> {
        let Some(state) = self.store.tables.state(stamp.table) else { return Ok(()) };
        let PartStamp { incarnation, txn, ends_with, ended, .. } = *stamp;
        let body = self.body(&state, incarnation, part, lsn)?;
        if ends_with.is_none() {
            self.grouped.insert(stamp.table);
        }
        self.enter(&state, lsn, Event::Load(Load { incarnation, txn, ends_with, ended, body }));
        Ok(())
    }

    /// The rows of a load, or [`Body::Settled`] if metadata and files already contain them, or
    /// [`Body::Lost`] if they cannot be read without the record of an ALTER that was given up.
    fn body<'b>(
        &mut self,
        state: &TableState,
        incarnation: Incarnation,
        part: &Part<'b>,
        lsn: Lsn,
    ) -> Result<Body<'b>> {
        let (takes, schema, newest) = {
            let (table, version) = (state.lock(), part.schema_version);
            let log = table.log();
            (log.takes(lsn, incarnation), log.schema(version), log.schema_version())
        };
        if !takes {
            return Ok(Body::Settled);
        }
        if schema.is_none() && part.schema_version < newest {
            *self.lost.entry(state.id).or_default() += u64::from(part.rows);
            return Ok(Body::Lost);
        }
        let schema = schema.ok_or_else(|| {
            err!(
                Corruption,
                "rows of table '{}' name schema version {}, which metadata lacks",
                state.name(),
                part.schema_version
            )
        })?;
        self.done.rows += u64::from(part.rows);
        match part.body {
            record::Body::Rows(bytes) => {
                row::validate(&schema, bytes, part.rows as usize).map_err(|fault| {
                    err!(Corruption, "rows of table '{}' cannot be read: {fault}", state.name())
                })?;
                Ok(Body::Rows {
                    schema_version: part.schema_version,
                    rows: part.rows,
                    removals: part.removals,
                    payload: Payload::Copied(bytes),
                    permit: self.memory.acquire_over(bytes.len() as u64 + 64),
                })
            }
            record::Body::Rowsets(bytes) => {
                let metas = record::decode_rowsets(bytes)?;
                let rowsets = loaded_rowsets(&self.store.files, state, &schema, metas, lsn);
                Ok(Body::Rowsets(rowsets))
            }
        }
    }

    fn enter(&self, state: &TableState, lsn: Lsn, event: Event<'_>) {
        if let Some(chunk) = state.lock().enter(lsn, event) {
            convert_later(self.store.pool(), chunk);
        }
    }

    fn label(&self, label: &Label<'_>, txn: TxnId, record: &freshet_wal::Record<'_>) {
        // The database may have been dropped, and with it its labels.
        if self.store.meta().catalog().database_by_id(label.db).is_none() {
            return;
        }
        let time = LabelTime { wall_micros: label.wall_micros, log_micros: record.time_micros };
        let book = self.store.meta().labels();
        book.replayed(label.db, label.text, label.kind, txn, record.lsn, time);
    }

    fn signed(&self, label: Option<SignedLabel<'_>>, record: &freshet_wal::Record<'_>) {
        if let Some(SignedLabel { label, txn }) = label {
            self.label(&label, txn, record);
        }
    }

    fn end_group(&self, end: &EndStamp, lsn: Lsn) {
        let EndStamp { table, txn, version, .. } = *end;
        if let Some(state) = self.store.tables.state(table) {
            self.enter(&state, lsn, Event::GroupEnd { txn, version });
        }
    }

    /// Applies a barrier to the table that stands `at` this place of its stamp.
    fn barrier(&self, (body, at): (&BarrierBody, usize), stamp: &BarrierStamp, lsn: Lsn) {
        let Some(state) = self.store.tables.state(stamp.table) else { return };
        let barrier = match body {
            BarrierBody::Truncate(_) | BarrierBody::Empty(_) => {
                state.note_truncate(lsn);
                Barrier::Truncate { incarnation: stamp.incarnation }
            }
            BarrierBody::Alter(schema) => Barrier::Alter(Arc::clone(schema)),
            BarrierBody::Divide(changes) => {
                let change = &changes[at];
                let schema = state.lock().log().schema(stamp.schema_version);
                let Some(schema) = schema else { return };
                let files = match state.lock().log().takes(lsn, stamp.incarnation) {
                    true => change.files.clone(),
                    false => Vec::new(),
                };
                let rowsets = loaded_rowsets(&self.store.files, &state, &schema, files, lsn);
                Barrier::Divide(Divided::new(change, &schema, None).division, rowsets)
            }
            BarrierBody::Drop => Barrier::Drop,
        };
        let BarrierStamp { ended, version, .. } = *stamp;
        self.enter(&state, lsn, Event::Barrier { barrier, ended, version });
    }

    /// Ends the groups that the record of a term names. A group that it does not name although it
    /// is open lost its end in a hole: whoever wrote the record had read that end.
    fn begin_term(&mut self, term: &TermRecord, lsn: Lsn) {
        self.store.meta().labels().begin_term(lsn, term.labels);
        let ended = term.ended.iter().map(|left| (left.table, (left.txn, left.version)));
        let ended = ended.collect::<BTreeMap<_, _>>();
        // Another record follows for the tables above.
        let next = match (term.more, ended.last_key_value()) {
            (true, Some((last, _))) => self.grouped.split_off(&TableId(last.get() + 1)),
            _ => BTreeSet::new(),
        };
        let grouped = std::mem::replace(&mut self.grouped, next);
        for table in grouped.into_iter().chain(ended.keys().copied()).collect::<BTreeSet<_>>() {
            let Some(state) = self.store.tables.state(table) else { continue };
            let ended = ended.get(&table).copied();
            if ended.is_some() || state.lock().log().open().is_some() {
                self.enter(&state, lsn, Event::Term { ended });
            }
        }
    }
}

/// Gives new tablets to tables whose TRUNCATE was given up with a hole in the log: later rows have
/// revealed it. No record names tablets that it created; see
/// [`crate::metadata::Settler::save_tablets`].
pub(crate) async fn truncate_lost(store: &Arc<Store>) -> Result<()> {
    for state in store.tables.states() {
        let Some(lost) = state.lock().log().lost_truncate() else { continue };
        let LostTruncate { at, version, incarnation } = lost;
        let (own, id) = (Arc::clone(store), state.id);
        task::run(store.pool(), move || {
            let meta = own.meta();
            let tablets = meta.new_tablets(meta.catalog().require(id)?)?;
            // What it did to generated ids is unknown: they go on.
            let keeps_counter = true;
            let truncate = Truncate { table: id, version, incarnation, tablets, keeps_counter };
            meta.truncate_lost(at, truncate)
        })
        .await?;
        let barrier = Barrier::Truncate { incarnation };
        store.tables.show(at, at, vec![(id, Event::Barrier { barrier, ended: None, version })]);
        let is_cut = store.tables.view(id).is_some_and(|view| view.flushed == at);
        assert!(is_cut, "readers see a TRUNCATE where metadata has it");
        tracing::warn!(table = state.name(), "its TRUNCATE was given up, later rows tell of it");
    }
    Ok(())
}
