//! Where decoded rows gather: in memory while they fit one record of the log, else in files.

use std::sync::Arc;

use freshet_base::budget::Permit;
use freshet_base::clock::{Deadline, until};
use freshet_base::{Result, err};
use freshet_ingest::{Bulk, Engine, LoadBuffer, TableState};
use freshet_schema::TableSchema;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::accounts::{Holdings, Receiving};

/// Memory is taken in steps of at least this, so that few parts ask for it.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// Memory of writes that one load holds for what has come of it, taken before it is needed.
pub(super) struct Memory<'a> {
    engine: &'a Engine,
    deadline: Deadline,
    receiving: Receiving,
}

impl<'a> Memory<'a> {
    fn new(engine: &'a Engine, holdings: &Arc<Holdings>, deadline: Deadline) -> Self {
        Self { engine, deadline, receiving: Receiving::nothing(holdings, engine) }
    }

    /// Holds at least `bytes` from here on; waits for them where it must.
    ///
    /// # Errors
    /// `OutOfRoom`.
    pub(super) async fn cover(&mut self, bytes: usize) -> Result<()> {
        let held = self.receiving.bytes();
        let Some(missing) = (bytes as u64).checked_sub(held).filter(|&missing| missing > 0) else {
            return Ok(());
        };
        let step = missing.max(MEMORY_STEP_BYTES as u64);
        let patience = self.engine.config().load_patience;
        let soon = Deadline::after(&**self.engine.clock(), patience);
        self.receiving.grow(step, self.engine, soon.min(self.deadline)).await
    }

    /// Holds at least `bytes` from here on, which are in use already.
    pub(super) fn cover_now(&mut self, bytes: usize) {
        self.receiving.resize_over(self.receiving.bytes().max(bytes as u64));
    }

    /// Hands over what it holds.
    pub(super) fn take(&mut self) -> Permit {
        self.receiving.hand_over(self.receiving.bytes())
    }

    /// Hands over `bytes` of what it holds, which it takes if it must: they are in use.
    pub(super) fn split(&mut self, bytes: usize) -> Permit {
        self.cover_now(bytes);
        self.receiving.hand_over(bytes as u64)
    }
}

/// What a sink has gathered at the end.
pub(super) enum Gathered {
    /// Rows for one record.
    Record {
        /// The rows.
        buffer: LoadBuffer,
        /// How many.
        rows: u32,
        /// Their memory.
        permit: Permit,
    },
    /// Rows in files.
    Files(Bulk),
}

/// Takes the rows of one load, in order.
pub(super) struct Sink<'a> {
    engine: &'a Engine,
    holdings: &'a Arc<Holdings>,
    table: &'a Arc<TableState>,
    schema: &'a Arc<TableSchema>,
    deadline: Deadline,
    /// From here on rows go to files.
    record_bytes_max: usize,
    /// Large loads at the same time: each holds much memory until its rows are in files.
    large: &'a Semaphore,
    place: Option<SemaphorePermit<'a>>,
    parts: Vec<(Vec<u8>, u32, Permit)>,
    parts_bytes: usize,
    bulk: Option<Bulk>,
    last: Option<(LoadBuffer, u32, Permit)>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        holdings: &'a Arc<Holdings>,
        table: &'a Arc<TableState>,
        schema: &'a Arc<TableSchema>,
        deadline: Deadline,
        record_bytes_max: usize,
        large: &'a Semaphore,
    ) -> Self {
        Self {
            engine,
            holdings,
            table,
            schema,
            deadline,
            record_bytes_max,
            large,
            place: None,
            parts: Vec::new(),
            parts_bytes: 0,
            bulk: None,
            last: None,
        }
    }

    /// Memory for rows that come here.
    pub(super) fn memory(&self) -> Memory<'a> {
        Memory::new(self.engine, self.holdings, self.deadline)
    }

    /// Waits for its turn among large loads: before it holds much memory.
    ///
    /// # Errors
    /// `OutOfRoom` when the turn does not come in the load's time.
    pub(super) async fn become_large(&mut self) -> Result<()> {
        if self.place.is_none() {
            let turn = until(&**self.engine.clock(), self.deadline, self.large.acquire()).await;
            let place = turn.ok_or_else(|| {
                err!(OutOfRoom, "too many large loads run; the load waited as long as it may")
            })?;
            self.place = Some(place.expect("the semaphore is never closed"));
        }
        Ok(())
    }

    /// Adds rows.
    ///
    /// # Errors
    /// When files cannot be written, or the table is gone.
    pub(super) async fn push(&mut self, rows: Vec<u8>, count: usize, permit: Permit) -> Result<()> {
        self.become_large().await?;
        let count = row_count(count)?;
        if let Some(bulk) = &mut self.bulk {
            return bulk.push(self.engine, rows, count, permit).await;
        }
        self.parts_bytes += rows.len();
        self.parts.push((rows, count, permit));
        if self.parts_bytes > self.record_bytes_max {
            self.go_to_files().await?;
        }
        Ok(())
    }

    /// Adds the last rows, in a buffer that can become a record as it is.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) async fn last(
        &mut self,
        buffer: LoadBuffer,
        count: usize,
        permit: Permit,
    ) -> Result<()> {
        let fits = buffer.payload_bytes() <= self.record_bytes_max;
        if fits && self.parts.is_empty() && self.bulk.is_none() {
            self.last = Some((buffer, row_count(count)?, permit));
            return Ok(());
        }
        self.push(buffer.rows().to_vec(), count, permit).await
    }

    /// What was gathered, and the turn that is given back once it is appended.
    ///
    /// # Errors
    /// When more rows came than a load may have.
    pub(super) fn finish(self) -> Result<(Gathered, Option<SemaphorePermit<'a>>)> {
        if let Some(bulk) = self.bulk {
            return Ok((Gathered::Files(bulk), self.place));
        }
        if let Some((buffer, rows, permit)) = self.last {
            return Ok((Gathered::Record { buffer, rows, permit }, self.place));
        }
        let mut buffer = LoadBuffer::default();
        let bytes = buffer.begin();
        bytes.reserve_exact(self.parts_bytes);
        let mut permit = self.engine.admission().memory().acquire_over(0);
        let mut rows = 0;
        for (part, count, part_permit) in self.parts {
            bytes.extend_from_slice(&part);
            rows = add_rows(rows, count)?;
            permit.merge(part_permit);
        }
        Ok((Gathered::Record { buffer, rows, permit }, self.place))
    }

    async fn go_to_files(&mut self) -> Result<()> {
        let mut bulk = self.engine.bulk(self.table, self.schema)?;
        for (rows, count, permit) in self.parts.drain(..) {
            bulk.push(self.engine, rows, count, permit).await?;
        }
        self.bulk = Some(bulk);
        Ok(())
    }
}

fn row_count(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| too_many_rows())
}

fn add_rows(rows: u32, more: u32) -> Result<u32> {
    rows.checked_add(more).ok_or_else(too_many_rows)
}

fn too_many_rows() -> freshet_base::Error {
    err!(OutOfRoom, "a load may have at most {} rows; send it in parts", u32::MAX)
}
