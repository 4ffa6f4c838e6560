//! Replay: applies the log to deltas, labels and versions, in order, as when it was written.
//!
//! It never checks labels and never rejects data. Metadata records have been applied before, so
//! rows that are already in files do not enter memory, and a replay needs no more memory than was
//! used at the crash. Records are applied to a table as they were originally; the
//! [`TableLog`](freshet_storage::fold::TableLog) skips what metadata and files already contain.
//! Groups that were open at the end of a term end with it, in table order; nothing is written for
//! that, so a replay can be repeated.

use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{Error, Incarnation, Lsn, Result, SchemaVersion, TableId, Term, TxnId, err};
use freshet_meta::LabelTime;
use freshet_schema::{TableSchema, row};
use freshet_storage::delta::Payload;
use freshet_storage::fold::{Barrier, Body, Event, Load};
use freshet_storage::side::{SideBody, SideEntry};

use crate::engine::Engine;
use crate::record::{self, BarrierAction, BarrierStamp, EndStamp, Label, Part, PartStamp, Record};
use crate::state::TableState;

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
    engine: &'a Arc<Engine>,
    /// Tables that may have an open group at this position of the log.
    grouped: BTreeSet<TableId>,
    /// The term of the last record.
    term: Term,
    last: Lsn,
    done: Replayed,
}

impl<'a> Replay<'a> {
    /// A replay into `engine`, whose tables are in the state of metadata.
    pub fn new(engine: &'a Arc<Engine>) -> Self {
        let recycled = engine.meta().log_state().recycled;
        Self {
            engine,
            grouped: BTreeSet::new(),
            term: recycled.term,
            last: recycled.lsn,
            done: Replayed::default(),
        }
    }

    /// Restores an entry of the side file: rows of a small table that were unflushed when the log
    /// was recycled.
    ///
    /// # Errors
    /// When rows do not match their schema.
    pub fn side(&mut self, entry: &SideEntry) -> Result<()> {
        let Some(state) = self.engine.table_state(entry.table) else { return Ok(()) };
        let (incarnation, version) = (state.incarnation(), state.version());
        // Groups that had ended are already counted. An open one ends later in the log or with its
        // term.
        let ends_with = (!entry.open).then_some(version);
        if entry.open {
            self.grouped.insert(entry.table);
        }
        let part = Part {
            table: entry.table,
            schema_version: entry.schema_version,
            rows: entry.rows,
            body: match &entry.body {
                SideBody::Rows(bytes) => record::Body::Rows(bytes),
                SideBody::Rowsets(bytes) => record::Body::Rowsets(bytes),
            },
        };
        let body = self.body(&state, incarnation, &part, entry.lsn)?;
        let load = Load { incarnation, txn: entry.txn, ends_with, body };
        self.enter(&state, entry.lsn, Event::Load(load));
        Ok(())
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// When the record is invalid for this version, or metadata cannot be written.
    pub async fn record(&mut self, record: &freshet_wal::Record<'_>) -> Result<()> {
        if std::mem::replace(&mut self.term, record.term) != record.term {
            self.end_run();
        }
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
                    self.label(&label, stamp.txn, record);
                }
            }
            Record::GroupEnd(end) => self.end_group(&end, record.lsn),
            // It was applied to metadata before the first record was replayed.
            Record::Metadata(_) => {}
            Record::DatabaseDrop(id) => self.engine.remove_database(id).map_err(at)?,
            Record::Barrier { action, tables } => {
                for barrier in &tables {
                    self.barrier(action, barrier, record.lsn).await.map_err(at)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the last term, and with it all open groups.
    pub fn finish(mut self) -> Replayed {
        self.end_run();
        self.done
    }

    fn part(&mut self, lsn: Lsn, stamp: &PartStamp, part: &Part<'_>) -> Result<()> {
        let Some(state) = self.engine.table_state(stamp.table) else { return Ok(()) };
        let PartStamp { incarnation, txn, ends_with, .. } = *stamp;
        let body = self.body(&state, incarnation, part, lsn)?;
        if ends_with.is_none() {
            self.grouped.insert(stamp.table);
        }
        self.enter(&state, lsn, Event::Load(Load { incarnation, txn, ends_with, body }));
        Ok(())
    }

    /// The rows of a load, or [`Body::Settled`] if metadata and files already contain them.
    fn body<'b>(
        &mut self,
        state: &TableState,
        incarnation: Incarnation,
        part: &Part<'b>,
        lsn: Lsn,
    ) -> Result<Body<'b>> {
        let (takes, schema) = {
            let table = state.lock();
            (table.log().takes(lsn, incarnation), table.log().schema(part.schema_version))
        };
        if !takes {
            return Ok(Body::Settled);
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
                let memory = self.engine.memory();
                Ok(Body::Rows {
                    schema_version: part.schema_version,
                    rows: part.rows,
                    payload: Payload::Copied(bytes),
                    permit: memory.acquire_over(bytes.len() as u64 + 64),
                })
            }
            record::Body::Rowsets(bytes) => {
                let metas = record::decode_rowsets(bytes)?;
                let rowsets = self.engine.loaded_rowsets(state.id, &schema, metas, lsn);
                Ok(Body::Rowsets(rowsets))
            }
        }
    }

    fn enter(&self, state: &TableState, lsn: Lsn, event: Event<'_>) {
        if let Some(chunk) = state.lock().enter(lsn, event) {
            self.engine.roll_later(chunk);
        }
    }

    fn label(&self, label: &Label<'_>, txn: TxnId, record: &freshet_wal::Record<'_>) {
        let time = LabelTime { wall_micros: label.wall_micros, log_micros: record.time_micros };
        let book = self.engine.meta().labels();
        book.replayed(label.db, label.text, label.kind, txn, record.lsn, time);
    }

    fn end_group(&self, end: &EndStamp, lsn: Lsn) {
        let EndStamp { table, txn, version, .. } = *end;
        if let Some(state) = self.engine.table_state(table) {
            self.enter(&state, lsn, Event::GroupEnd { txn, version });
        }
    }

    async fn barrier(&self, action: BarrierAction, stamp: &BarrierStamp, lsn: Lsn) -> Result<()> {
        let Some(state) = self.engine.table_state(stamp.table) else { return Ok(()) };
        let barrier = match action {
            BarrierAction::Truncate => Barrier::Truncate { incarnation: stamp.incarnation },
            BarrierAction::Alter => Barrier::Alter(self.schema(&state, stamp.schema_version)?),
            BarrierAction::Drop => Barrier::Drop { with_database: false },
        };
        let (ended, version) = match stamp.ended {
            Some((txn, version)) => (Some(txn), version),
            None => (None, state.version()),
        };
        self.enter(&state, lsn, Event::Barrier { barrier, ended, version });
        // As during normal operation, the barrier holds even if metadata cannot be updated, which
        // is retried.
        if let Err(error) = self.engine.settle_barriers(&state).await {
            tracing::warn!(table = state.name(), %error, "metadata follows a barrier later");
        }
        Ok(())
    }

    /// A schema version that metadata has adopted, or at least prepared.
    fn schema(&self, state: &TableState, version: SchemaVersion) -> Result<Arc<TableSchema>> {
        let meta = self.engine.meta();
        if let Some(table) = meta.catalog().table_by_id(state.id)
            && let Some(schema) = table.history.at(version)
        {
            return Ok(Arc::clone(schema));
        }
        let prepared = meta.prepared_schema(state.id)?;
        prepared.filter(|schema| schema.version == version).ok_or_else(|| {
            err!(
                Corruption,
                "the log says that table '{}' has schema version {version}, metadata lacks it",
                state.name()
            )
        })
    }

    /// Ends all groups that were open at the end of the term.
    fn end_run(&mut self) {
        for table in std::mem::take(&mut self.grouped) {
            if let Some(state) = self.engine.table_state(table) {
                self.enter(&state, self.last, Event::RunEnd);
            }
        }
    }
}
