//! The rows of a transaction before COMMIT: buffered in the session, visible only to it, and
//! committed as one log record.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use bytes::Bytes;
use freshet_base::{Incarnation, Lsn, Result, TableId, bail};
use freshet_meta::Claim;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{GroupCommitMode, TableSchema, history};
use parking_lot::Mutex;

use crate::admit::{HeldMemory, WaitLimit};
use crate::append::{PartBody, PartLoad};
use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::large_load::LargeLoad;
use crate::names;
use crate::record::{PART_HEAD_BYTES, TABLES_MAX};
use crate::state::TableState;
use crate::target::{LoadTarget, Loaded};

/// An open transaction; dropping it rolls it back.
pub struct Transaction {
    own: OwnRows,
    claim: Option<Claim>,
}

impl Transaction {
    pub fn own_rows(&self) -> &OwnRows {
        &self.own
    }

    /// Whether the client gave a label.
    pub fn is_labelled(&self) -> bool {
        self.claim.is_some()
    }
}

/// The rows of an open transaction, shared between clones: loads append to them, and statements of
/// the session read them in addition to committed rows.
#[derive(Clone)]
pub struct OwnRows(Arc<Own>);

struct Own {
    /// That of the client, or one that is generated for the first rows: a transaction that only
    /// reads takes no id, so it can begin before the term has.
    label: OnceLock<Arc<str>>,
    parts: Mutex<Vec<TableRows>>,
}

struct TableRows {
    table: Arc<TableState>,
    schema: Arc<TableSchema>,
    incarnation: Incarnation,
    rows: u32,
    bytes: Vec<u8>,
    held: HeldMemory,
}

impl OwnRows {
    /// Its label; `None` for a transaction without rows to which the client gave none.
    pub fn label(&self) -> Option<&str> {
        self.0.label.get().map(AsRef::as_ref)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.parts.lock().is_empty()
    }

    /// The number of rows in all tables.
    pub fn rows(&self) -> u64 {
        rows_of(&self.0.parts.lock())
    }

    /// The session's uncommitted rows of a table, converted to `schema`.
    pub fn overlay(&self, table: TableId, schema: &TableSchema) -> Option<RecordBatch> {
        let parts = self.0.parts.lock();
        let part = parts.iter().find(|part| part.table.id == table)?;
        let batch = columns(&part.schema, &part.bytes, part.rows);
        let adapted = history::adapt(&batch, &part.schema, schema);
        assert_eq!(adapted.num_rows(), batch.num_rows(), "an ALTER keeps every row");
        Some(adapted)
    }

    /// Checks that the transaction with these additional rows stays within its limits.
    ///
    /// # Errors
    /// `OutOfRoom`, with advice.
    pub(crate) fn check_room(&self, engine: &Engine, more: &LoadBuffer) -> Result<()> {
        let parts = self.0.parts.lock();
        let limit = engine.config().transaction_bytes_max;
        let bytes = bytes_of(&parts) + more.row_bytes().len();
        if bytes as u64 > limit.bytes() {
            bail!(
                OutOfRoom,
                "the transaction holds {} rows and would pass {limit}; COMMIT more often",
                rows_of(&parts)
            );
        }
        if parts.len() >= TABLES_MAX {
            bail!(OutOfRoom, "a transaction writes at most {TABLES_MAX} tables; COMMIT more often");
        }
        // A record counts rows in 32 bits.
        if rows_of(&parts) + u64::from(more.rows()) > u64::from(u32::MAX) {
            bail!(OutOfRoom, "a transaction writes at most {} rows; COMMIT more often", u32::MAX);
        }
        Ok(())
    }

    /// Adds the rows of `buffer` once memory is reserved for them.
    ///
    /// # Errors
    /// `OutOfRoom`; no rows were added then.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        target: &LoadTarget,
        buffer: &LoadBuffer,
        patience: WaitLimit,
    ) -> Result<Loaded> {
        self.check_room(engine, buffer)?;
        // Ids are given out once the term has begun; nobody waits for that while holding memory.
        engine.begun().await?;
        let bytes = buffer.row_bytes().len() as u64;
        let held = engine.admission.hold(bytes, patience.soon(&engine.admission)).await?;
        if self.0.label.get().is_none() {
            let label = names::transaction_label(engine.meta().ids().txn()?);
            let set = self.0.label.set(Arc::from(label));
            assert!(set.is_ok(), "a session runs one statement at a time");
        }
        self.add(target, buffer, held);
        let given = self.0.label.get().cloned();
        Ok(Loaded { lsn: Lsn::ZERO, txn: None, mode: GroupCommitMode::Off, given })
    }

    fn add(&self, target: &LoadTarget, buffer: &LoadBuffer, held: HeldMemory) {
        let (schema, rows) = (target.schema(), buffer.rows());
        let mut parts = self.0.parts.lock();
        let part = part_of(&mut parts, target, held);
        if part.schema.version == schema.version {
            part.bytes.extend_from_slice(buffer.row_bytes());
        } else {
            // The table was altered meanwhile: all rows are converted to the newer schema version.
            let newer = part.schema.version.max(schema.version);
            let adapted = if newer == schema.version { schema } else { &part.schema };
            let adapted = Arc::clone(adapted);
            let mut bytes = Vec::new();
            let before = (&part.schema, part.bytes.as_slice(), part.rows);
            for (from, encoded, count) in [before, (schema, buffer.row_bytes(), rows)] {
                let batch = history::adapt(&columns(from, encoded, count), from, &adapted);
                assert_eq!(batch.num_rows(), count as usize, "an ALTER keeps every row");
                freshet_schema::encode(&batch, &adapted, &mut bytes);
            }
            part.bytes = bytes;
            part.schema = adapted;
        }
        part.rows += rows;
    }
}

fn part_of<'a>(
    parts: &'a mut Vec<TableRows>,
    target: &LoadTarget,
    held: HeldMemory,
) -> &'a mut TableRows {
    match parts.iter().position(|part| part.table.id == target.id()) {
        Some(at) => {
            parts[at].held.merge(held);
            &mut parts[at]
        }
        None => {
            let incarnation = target.state.incarnation();
            parts.push(TableRows {
                table: Arc::clone(&target.state),
                schema: Arc::clone(target.schema()),
                incarnation,
                rows: 0,
                bytes: Vec::new(),
                held,
            });
            parts.last_mut().expect("just pushed")
        }
    }
}

fn rows_of(parts: &[TableRows]) -> u64 {
    parts.iter().map(|part| u64::from(part.rows)).sum()
}

fn bytes_of(parts: &[TableRows]) -> usize {
    parts.iter().map(|part| part.bytes.len()).sum()
}

fn columns(schema: &TableSchema, bytes: &[u8], rows: u32) -> RecordBatch {
    let mut builder = ColumnsBuilder::new(schema, rows as usize);
    builder.append(bytes, rows as usize);
    let batch = builder.finish();
    assert_eq!(batch.num_rows(), rows as usize, "a transaction reads the rows that it wrote");
    batch
}

impl Engine {
    /// Opens a transaction with the label given by the client, or without one.
    pub fn begin_transaction(&self, claim: Option<Claim>) -> Transaction {
        let given = claim.as_ref().map(|claim| Arc::from(claim.label()));
        let label = given.map_or_else(OnceLock::new, OnceLock::from);
        let own = Own { label, parts: Mutex::default() };
        Transaction { own: OwnRows(Arc::new(own)), claim }
    }

    /// Commits a transaction as one record, atomically. An empty one appends nothing.
    ///
    /// # Errors
    /// `OutOfRoom` when there is no log space in time, `NoSuchTable` when a table was dropped,
    /// `SnapshotTooOld` when rows are in files and a table was truncated. In all cases the
    /// transaction is rolled back.
    pub async fn commit(
        &self,
        transaction: Transaction,
        patience: WaitLimit,
    ) -> Result<Option<Loaded>> {
        let Transaction { own, claim } = transaction;
        let rows = std::mem::take(&mut *own.0.parts.lock());
        if rows.is_empty() {
            return Ok(None);
        }
        let deadline = patience.soon(&self.admission);
        let spills = !self.appender.takes_record_of(bytes_of(&rows) + rows.len() * PART_HEAD_BYTES);
        let mut parts = Vec::with_capacity(rows.len());
        for part in rows {
            parts.push(match spills {
                true => self.spill(part).await?,
                false => part.into_load(),
            });
        }
        let room = self.appender.room_for(&parts, deadline).await?;
        let appended = self.appender.append_parts(parts, claim, room)?;
        let given = own.0.label.get().cloned();
        assert!(given.is_some(), "a transaction with rows has a label");
        Ok(Some(Loaded::alone(appended.lsn, appended.txn, given)))
    }

    /// Writes the rows of a part to synced files for its record to refer to.
    async fn spill(&self, part: TableRows) -> Result<PartLoad> {
        let mut large = LargeLoad::begin(&self.flusher, &part.table, &part.schema)?;
        large.push(Bytes::from(part.bytes), part.rows, part.held.memory).await?;
        // A TRUNCATE since the first row makes the COMMIT fail, not only one since the files were
        // written.
        Ok(PartLoad { began_in: part.incarnation, ..large.finish().await? })
    }
}

impl TableRows {
    fn into_load(self) -> PartLoad {
        PartLoad {
            table: self.table,
            schema: self.schema,
            began_in: self.incarnation,
            rows: self.rows,
            body: PartBody::Rows { bytes: Bytes::from(self.bytes), permit: self.held.memory },
        }
    }
}
