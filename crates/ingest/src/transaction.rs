//! A transaction's rows until COMMIT: kept by the session, readable by nobody else, and one
//! record in the log when it commits.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::{Incarnation, Result, TableId, bail};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{TableSchema, history};

use crate::append::{Appended, LabelClaim, LoadBuffer, PartBody, PartLoad};
use crate::engine::Engine;
use crate::record::{PART_HEAD_BYTES, TABLES_MAX};
use crate::state::TableState;

/// Rows that a session has inserted and not committed.
#[derive(Default)]
pub struct Transaction {
    parts: Vec<Part>,
}

struct Part {
    table: Arc<TableState>,
    schema: Arc<TableSchema>,
    incarnation: Incarnation,
    rows: u32,
    bytes: Vec<u8>,
    held: Held,
}

/// What rows of a transaction hold until it ends.
#[derive(Debug)]
pub struct Held {
    /// Their memory, which goes with them.
    pub memory: Permit,
    /// Their part of what all open transactions may hold.
    pub share: Permit,
}

impl Held {
    fn merge(&mut self, other: Self) {
        self.memory.merge(other.memory);
        self.share.merge(other.share);
    }
}

impl Transaction {
    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Encoded bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// Adds the rows of `buffer`, whose memory is held.
    pub fn add(
        &mut self,
        table: &Arc<TableState>,
        schema: &Arc<TableSchema>,
        rows: u32,
        buffer: &LoadBuffer,
        held: Held,
    ) {
        let part = self.part(table, schema, held);
        if part.schema.version == schema.version {
            part.bytes.extend_from_slice(buffer.rows());
        } else {
            // The table was altered meanwhile: all rows go on in the newer version.
            let newer = part.schema.version.max(schema.version);
            let target = if newer == schema.version { schema } else { &part.schema };
            let target = Arc::clone(target);
            let mut bytes = Vec::new();
            for (from, encoded, count) in
                [(&part.schema, part.bytes.as_slice(), part.rows), (schema, buffer.rows(), rows)]
            {
                let batch = history::adapt(&columns(from, encoded, count), from, &target);
                freshet_schema::encode(&batch, &target, &mut bytes);
            }
            part.bytes = bytes;
            part.schema = target;
        }
        part.rows += rows;
    }

    fn part(
        &mut self,
        table: &Arc<TableState>,
        schema: &Arc<TableSchema>,
        held: Held,
    ) -> &mut Part {
        match self.parts.iter().position(|part| part.table.id == table.id) {
            Some(at) => {
                self.parts[at].held.merge(held);
                &mut self.parts[at]
            }
            None => {
                let incarnation = table.log.lock().incarnation;
                self.parts.push(Part {
                    table: Arc::clone(table),
                    schema: Arc::clone(schema),
                    incarnation,
                    rows: 0,
                    bytes: Vec::new(),
                    held,
                });
                self.parts.last_mut().expect("just pushed")
            }
        }
    }

    /// The session's own rows of a table as columns of `schema`, for its reads.
    pub fn overlay(&self, table: TableId, schema: &TableSchema) -> Option<RecordBatch> {
        let part = self.parts.iter().find(|part| part.table.id == table)?;
        let batch = columns(&part.schema, &part.bytes, part.rows);
        Some(history::adapt(&batch, &part.schema, schema))
    }

    /// How many rows of all tables.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.rows)).sum()
    }

    /// The bytes of the record that COMMIT would append.
    pub fn record_bytes(&self) -> usize {
        self.bytes() + self.parts.len() * PART_HEAD_BYTES
    }
}

fn columns(schema: &TableSchema, bytes: &[u8], rows: u32) -> RecordBatch {
    let mut builder = ColumnsBuilder::new(schema, rows as usize);
    builder.append(bytes, rows as usize);
    builder.finish()
}

impl Engine {
    /// Whether so many bytes of rows go into the log themselves; what is larger writes files of
    /// its own, which a small record names.
    pub fn takes_record_of(&self, bytes: usize) -> bool {
        bytes as u64 <= self.config().wal_load_bytes_max.bytes()
            && self.wal().takes_record_of(bytes + RECORD_SPARE_BYTES)
    }

    /// Commits a transaction as one record: all of it or nothing. An empty one appends nothing.
    ///
    /// # Errors
    /// `OutOfRoom` when the log has no room in time, `NoSuchTable` when a table was dropped;
    /// the transaction is gone in both cases and nothing of it happened.
    pub async fn commit(
        &self,
        transaction: Transaction,
        label: Option<LabelClaim>,
        patience: std::time::Duration,
    ) -> Result<Option<Appended>> {
        if transaction.is_empty() {
            return Ok(None);
        }
        let deadline = Deadline::after(&**self.clock(), patience);
        let record_bytes = transaction.record_bytes();
        let spilled = !self.takes_record_of(record_bytes);
        let mut parts = Vec::with_capacity(transaction.parts.len());
        let mut expected = Vec::new();
        for part in transaction.parts {
            expected.push((part.table.id, part.incarnation));
            parts.push(match spilled {
                true => self.spill(part).await?,
                false => part.into_load(),
            });
        }
        let room = self.room_for(&parts, deadline).await?;
        self.append_parts(parts, &expected, label, room).map(Some)
    }

    /// Writes the rows of a part to synced files that its record will name.
    async fn spill(&self, part: Part) -> Result<PartLoad> {
        let mut bulk = self.bulk(&part.table, &part.schema)?;
        bulk.push(self, part.bytes, part.rows, part.held.memory).await?;
        bulk.finish(self).await
    }

    /// Refuses to let a transaction grow past what one may hold.
    ///
    /// # Errors
    /// `OutOfRoom`, saying what to do.
    pub fn check_transaction(&self, transaction: &Transaction, more_bytes: usize) -> Result<()> {
        let limit = self.config().transaction_bytes_max;
        let bytes = transaction.bytes() as u64 + more_bytes as u64;
        if bytes > limit.bytes() {
            bail!(
                OutOfRoom,
                "the transaction holds {} rows and would pass {limit}; COMMIT more often",
                transaction.rows()
            );
        }
        if transaction.parts.len() >= TABLES_MAX {
            bail!(OutOfRoom, "a transaction writes at most {TABLES_MAX} tables; COMMIT more often");
        }
        Ok(())
    }
}

/// Room for stamp and label beside the parts of a record.
const RECORD_SPARE_BYTES: usize = 8 << 10;

impl Part {
    fn into_load(self) -> PartLoad {
        PartLoad {
            table: self.table,
            schema: self.schema,
            rows: self.rows,
            body: PartBody::Rows { bytes: Bytes::from(self.bytes), permit: self.held.memory },
        }
    }
}
