//! The one road of a load: from encoded rows to a place in the log.
//!
//! [`Engine::load`] begins one, [`Load::push`] and [`Load::gather`] give it rows, [`Load::commit`]
//! appends it. What waits, waits here: for memory, for the files of a large load, for room in the
//! log. Dropped before it is committed, a load gives everything back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::{DbId, Lsn, Result, TableId, TxnId, err};
use freshet_schema::{GroupCommitMode, Table, TableSchema};

use crate::append::{Appended, SmallLoad};
use crate::buffer::{LoadBuffer, too_many_rows};
use crate::bulk::Bulk;
use crate::engine::Engine;
use crate::labels::LabelClaim;
use crate::names;
use crate::state::TableState;
use crate::transaction::OwnRows;

/// Memory is taken in steps of at least this, so that few pieces ask for it.
const MEMORY_STEP_BYTES: u64 = 64 << 10;

/// A table to load into, looked up once.
#[derive(Clone)]
pub struct LoadTarget {
    pub(crate) state: Arc<TableState>,
    table: Arc<Table>,
}

impl LoadTarget {
    pub(crate) fn new(state: Arc<TableState>, table: Arc<Table>) -> Self {
        Self { state, table }
    }

    /// Its id.
    pub fn id(&self) -> TableId {
        self.table.id
    }

    /// Its database.
    pub fn db(&self) -> DbId {
        self.table.db
    }

    /// Its definition when it was looked up.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What rows are encoded under. The table may be altered meanwhile: readers adapt them.
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.table.schema()
    }
}

/// Where the rows of a load go.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Into the log, in a group with others or, where the mode is off, alone. What is too large
    /// for a record is always alone.
    Group(GroupCommitMode),
    /// Into the log, alone, under a label that the client gave.
    Label(LabelClaim),
    /// Into an open transaction.
    Transaction(&'a OwnRows),
}

/// How long a load waits for memory and log room: never longer at a time than `load_patience`.
#[derive(Clone, Copy, Debug)]
pub enum WaitLimit {
    /// So long, from when it begins to wait: the clock is asked only then.
    For(Duration),
    /// Until then, all in all.
    Until(Deadline),
}

impl WaitLimit {
    /// Until when to wait for what others give back soon.
    pub(crate) fn soon(self, engine: &Engine) -> Deadline {
        let clock = &**engine.clock();
        let most = engine.config().load_patience;
        match self {
            Self::For(time) => Deadline::after(clock, most.min(time)),
            Self::Until(deadline) => Deadline::after(clock, most).min(deadline),
        }
    }

    /// Until when a load waits that has written its files: those would be for nothing.
    fn late(self, engine: &Engine) -> Deadline {
        match self {
            Self::For(_) => self.soon(engine),
            Self::Until(deadline) => deadline,
        }
    }
}

/// A load that is in the log, or in a transaction: nothing can fail or be cancelled any more.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// It is acknowledged and readable once the horizon has reached this; zero in a transaction.
    pub lsn: Lsn,
    /// What the reply reports; none in a transaction.
    pub txn: Option<TxnId>,
    /// Which loads it shares its group with.
    pub mode: GroupCommitMode,
    /// The label of a client, or of the transaction.
    pub given: Option<Arc<str>>,
}

impl Loaded {
    pub(crate) fn alone(appended: Appended, given: Option<Arc<str>>) -> Self {
        let Appended { lsn, txn } = appended;
        Self { lsn, txn: Some(txn), mode: GroupCommitMode::Off, given }
    }

    /// The label that the reply tells: where none was given it follows from the transaction id.
    pub fn label(&self) -> String {
        match (&self.given, self.txn, self.mode) {
            (Some(given), ..) => given.to_string(),
            (None, None, _) => String::new(),
            (None, Some(txn), GroupCommitMode::Off) => names::load_label(txn),
            (None, Some(txn), _) => names::group_label(txn),
        }
    }

    /// Whether it has ended, in Doris's word: a group goes on, a transaction too.
    pub fn status(&self) -> &'static str {
        match (self.txn, self.mode) {
            (Some(_), GroupCommitMode::Off) => "VISIBLE",
            _ => "PREPARE",
        }
    }
}

/// A load that has begun.
pub struct Load<'a> {
    rows: Gathered<'a>,
    destination: Destination<'a>,
}

impl Load<'_> {
    /// Adds rows whose memory is at hand, outside of transactions. What is too large for a record
    /// goes to files.
    ///
    /// # Errors
    /// When files cannot be written, or the table is gone.
    pub async fn push(&mut self, rows: Bytes, count: usize, memory: Permit) -> Result<()> {
        let rows_count = u32::try_from(count).map_err(|_| too_many_rows())?;
        self.rows.push(Piece { rows, count: rows_count, memory }).await
    }

    /// Takes memory for the rows that have come into `buffer` so far, and takes them out of it
    /// where they are too large for a record.
    ///
    /// # Errors
    /// `OutOfRoom` when there is no memory in time, or the transaction would grow too large;
    /// those of [`Self::push`].
    pub async fn gather(&mut self, buffer: &mut LoadBuffer) -> Result<()> {
        self.rows.hold(buffer.row_bytes().len()).await?;
        match self.destination {
            Destination::Transaction(own) => own.check_room(self.rows.engine, buffer),
            _ if self.rows.fits_record(buffer) => Ok(()),
            _ => self.rows.take(buffer).await,
        }
    }

    /// Gives the load the memory of the rows that its last buffer holds.
    pub fn pay(&mut self, memory: Permit) {
        self.rows.pay(memory);
    }

    /// Brings what has come into synced files, however little it is, and lets the rest follow:
    /// what is left to do is one small record.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub async fn to_files(&mut self) -> Result<()> {
        self.rows.go_to_files().await?;
        let engine = self.rows.engine;
        self.rows.files.as_mut().expect("they have just gone there").write(engine).await
    }

    /// Loads what it has and the rows of `buffer`. On return nothing can fail any more; a reply
    /// waits for the horizon.
    ///
    /// # Errors
    /// No room in time, a table dropped meanwhile, rows in files that meet a TRUNCATE; nothing
    /// happened then.
    pub async fn commit(self, buffer: &mut LoadBuffer) -> Result<Loaded> {
        let Self { rows, destination } = self;
        match destination {
            Destination::Transaction(own) => own.load(rows, buffer).await,
            Destination::Group(mode) => rows.append(mode, None, buffer).await,
            Destination::Label(claim) => {
                rows.append(GroupCommitMode::Off, Some(claim), buffer).await
            }
        }
    }
}

/// Rows that came at once.
struct Piece {
    rows: Bytes,
    count: u32,
    memory: Permit,
}

/// What a load has of rows, and for them.
pub(crate) struct Gathered<'a> {
    pub engine: &'a Engine,
    pub target: &'a LoadTarget,
    pub patience: WaitLimit,
    pieces: Vec<Piece>,
    pieces_bytes: usize,
    /// Where the rows of a large load go.
    files: Option<Box<Bulk>>,
    /// The memory of rows that are in the buffer.
    held: Option<Permit>,
}

impl Gathered<'_> {
    /// Whether all rows are still in the buffer.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.files.is_none()
    }

    /// Whether all there is, the rows in `buffer` included, can be one record.
    fn fits_record(&self, buffer: &LoadBuffer) -> bool {
        let bytes = self.pieces_bytes + buffer.payload_bytes();
        self.files.is_none() && self.engine.takes_record_of(bytes)
    }

    async fn push(&mut self, piece: Piece) -> Result<()> {
        if let Some(files) = &mut self.files {
            return files.push(self.engine, piece.rows, piece.count, piece.memory).await;
        }
        self.pieces_bytes += piece.rows.len();
        self.pieces.push(piece);
        match self.engine.takes_record_of(self.pieces_bytes) {
            true => Ok(()),
            false => self.go_to_files().await,
        }
    }

    async fn go_to_files(&mut self) -> Result<()> {
        if self.files.is_none() {
            let LoadTarget { state, table } = self.target;
            self.files = Some(Box::new(self.engine.bulk(state, table.schema())?));
        }
        let files = self.files.as_mut().expect("just made");
        for Piece { rows, count, memory } in self.pieces.drain(..) {
            files.push(self.engine, rows, count, memory).await?;
        }
        Ok(())
    }

    /// Takes the rows out of the buffer.
    async fn take(&mut self, buffer: &mut LoadBuffer) -> Result<()> {
        if buffer.rows() == 0 {
            return Ok(());
        }
        self.hold(buffer.row_bytes().len()).await?;
        let memory = self.held.take().expect("rows have bytes, and their memory is held");
        let (rows, count) = buffer.take();
        self.push(Piece { rows, count, memory }).await
    }

    fn pay(&mut self, memory: Permit) {
        match &mut self.held {
            Some(held) => held.merge(memory),
            None => self.held = Some(memory),
        }
    }

    /// Holds memory for so many bytes in the buffer; waits for it where it must.
    async fn hold(&mut self, bytes: usize) -> Result<()> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        let missing = (bytes as u64).saturating_sub(held);
        if missing > 0 {
            let step = missing.max(MEMORY_STEP_BYTES);
            let deadline = self.patience.soon(self.engine);
            let memory = self.engine.take_memory(step, deadline).await?;
            self.pay(memory);
        }
        Ok(())
    }

    async fn append(
        mut self,
        mode: GroupCommitMode,
        label: Option<LabelClaim>,
        buffer: &mut LoadBuffer,
    ) -> Result<Loaded> {
        let given = label.as_ref().map(|label| Arc::from(label.text()));
        if !self.fits_record(buffer) {
            self.take(buffer).await?;
            self.go_to_files().await?;
            return Ok(Loaded::alone(self.append_files(label).await?, given));
        }
        let mut whole = LoadBuffer::default();
        // A body without a row may never have begun its buffer, which has no place for a head then.
        let buffer = match self.pieces.is_empty() && buffer.payload_bytes() > 0 {
            true => buffer,
            false => self.join(buffer, &mut whole)?,
        };
        let (engine, bytes) = (self.engine, buffer.payload_bytes());
        let admission = engine.admission();
        let admitted = match self.held {
            None => match admission.try_admit(bytes) {
                Some(admitted) => admitted,
                None => admission.admit(bytes, self.patience.soon(engine)).await?,
            },
            Some(memory) => {
                admission.admit_paid(bytes, memory, || self.patience.soon(engine)).await?
            }
        };
        let schema_version = self.target.schema().version;
        let load = SmallLoad { table: &self.target.state, schema_version, mode, label };
        let Appended { lsn, txn } = engine.append_rows(load, buffer, admitted)?;
        Ok(Loaded { lsn, txn: Some(txn), mode, given })
    }

    /// Puts pieces that are small together into one buffer, before the rows that it holds.
    fn join<'b>(
        &mut self,
        last: &LoadBuffer,
        whole: &'b mut LoadBuffer,
    ) -> Result<&'b mut LoadBuffer> {
        whole.begin().reserve_exact(self.pieces_bytes + last.row_bytes().len());
        for Piece { rows, count, memory } in std::mem::take(&mut self.pieces) {
            whole.resume().extend_from_slice(&rows);
            whole.count(count as usize)?;
            self.pay(memory);
        }
        whole.resume().extend_from_slice(last.row_bytes());
        whole.count(last.rows() as usize)?;
        Ok(whole)
    }

    async fn append_files(self, label: Option<LabelClaim>) -> Result<Appended> {
        let engine = self.engine;
        let deadline = self.patience.late(engine);
        let files = self.files.expect("a large load has gone to files");
        let parts = vec![files.finish(engine).await?];
        let room = engine.room_for(&parts, deadline).await?;
        engine.append_parts(parts, label, room)
    }
}

impl Engine {
    /// Begins a load. It takes nothing before it is given rows.
    pub fn load<'a>(
        &'a self,
        target: &'a LoadTarget,
        destination: Destination<'a>,
        patience: WaitLimit,
    ) -> Load<'a> {
        let rows = Gathered {
            engine: self,
            target,
            patience,
            pieces: Vec::new(),
            pieces_bytes: 0,
            files: None,
            held: None,
        };
        Load { rows, destination }
    }

    /// A table to load into.
    ///
    /// # Errors
    /// 1049 and 1146.
    pub fn target(&self, database: &str, table: &str) -> Result<LoadTarget> {
        let catalog = self.catalog();
        let table = catalog.require_table(database, table)?;
        let state = self
            .table_state(table.id)
            .ok_or_else(|| err!(NoSuchTable, "Table '{database}.{}' doesn't exist", table.name))?;
        Ok(LoadTarget::new(state, Arc::clone(table)))
    }

    /// Where the group ends that a load has joined: resolves when it has.
    pub async fn end_of_group(&self, target: &LoadTarget, loaded: &Loaded) -> Lsn {
        let Some(txn) = loaded.txn else { return loaded.lsn };
        let ended = target.state.wait_end(txn);
        // A sender that is gone went with its table; the rows are durable all the same.
        ended.await.map_or(loaded.lsn, |lsn| lsn.max(loaded.lsn))
    }

    /// Whether so many bytes of rows go into the log themselves; what is larger writes files of
    /// its own, which a small record names.
    pub(crate) fn takes_record_of(&self, bytes: usize) -> bool {
        bytes as u64 <= self.config().wal_load_bytes_max.bytes()
            && self.wal().takes_record_of(bytes + RECORD_SPARE_BYTES)
    }

    /// Takes memory of writes, waiting until `deadline`.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn take_memory(&self, bytes: u64, deadline: Deadline) -> Result<Permit> {
        self.admission().memory_until(bytes, deadline).await
    }
}

/// Room for stamp and label beside the parts of a record.
const RECORD_SPARE_BYTES: usize = 8 << 10;
