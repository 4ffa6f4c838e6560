//! Loads, from encoded rows to a position in the log.
//!
//! [`Engine::load`] begins a load, [`Load::push`] adds rows, [`Load::commit`] appends it with those
//! in the last buffer. All waiting happens here: for memory, for the files of a large load, for log
//! space. A load that is dropped before it is committed releases everything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::Deadline;
use freshet_base::{Incarnation, Result, bail, task};
use freshet_meta::{Claim, NotedRows, RowsetMeta};
use freshet_schema::{DELETE_SIGN, GroupCommitMode, KeyModel};

use crate::admit::WaitLimit;
use crate::append::{Appended, PartBody, PartLoad, Signed, SmallLoad};
use crate::behind::wait_for_keys;
use crate::buffer::{LoadBuffer, too_many_rows};
use crate::change::Change;
use crate::counter::UsedIds;
use crate::engine::Engine;
use crate::gate::Pass;
use crate::key_rules::KeyRules;
use crate::keyed::KeyedLoad;
use crate::keyed_files::KeyedFiles;
use crate::large_load::LargeLoad;
use crate::looked::merge_own;
use crate::own_rows::OwnRows;
use crate::prepared::WholeRows;
use crate::removals::{put_signed, with_removals};
use crate::spooled::SpooledRows;
use crate::sweep::InFlight;
use crate::target::{KeyOutcome, LoadTarget, Loaded};
use crate::unkeyed::{self, Affected, Copies, RowChange};

mod catch_up;
mod pieces;

/// How often it is looked whether a gate has opened.
pub(crate) const GATE_PAUSE: Duration = Duration::from_millis(5);
/// Memory is reserved in steps of at least this size, so that small pieces need few reservations.
const MEMORY_STEP_BYTES: u64 = 64 << 10;

/// The destination of a load's rows.
pub enum Destination<'a> {
    /// The log, in a group with other loads, or as a group of its own if the mode is off. A load
    /// that is too large for a record is always a group of its own.
    Group(GroupCommitMode),
    /// The same, with a label given by the client.
    Label(Claim, GroupCommitMode),
    /// An open transaction.
    Transaction(&'a OwnRows),
}

/// A load that has ended without a record.
pub(crate) struct Staged {
    /// The incarnation of the table for which its rows were written.
    pub incarnation: Incarnation,
    pub rows: u32,
    pub ids: Option<UsedIds>,
    pub body: StagedBody,
}

pub(crate) enum StagedBody {
    /// In synced files, which the sweep leaves alone.
    Files {
        metas: Vec<RowsetMeta>,
        in_flight: InFlight,
    },
    Rows(WholeRows),
    /// In a file without a name, as a note has them.
    Spooled(SpooledRows, NotedRows),
}

/// A load in progress.
pub struct Load<'a> {
    engine: &'a Engine,
    target: &'a LoadTarget,
    destination: Destination<'a>,
    patience: WaitLimit,
    key_rules: KeyRules,
    /// Pushed rows with their number and memory.
    pieces: Vec<(Bytes, u32, Permit)>,
    pieces_bytes: usize,
    /// The files of a large load.
    files: Option<Box<LargeLoad>>,
    /// Memory reserved for rows in the buffer.
    held: Option<Permit>,
    /// The ids in pushed rows.
    ids: Option<UsedIds>,
    /// `None` where the end of a change of columns lets nobody in.
    pass: Option<Arc<Pass>>,
    /// Whether rows of it are in the file of its transaction.
    spools: bool,
}

impl Load<'_> {
    /// The table that it loads into.
    pub fn target(&self) -> &LoadTarget {
        self.target
    }

    /// Whether it shares a group, if it is small enough.
    pub(crate) fn is_grouped(&self) -> bool {
        match self.destination {
            Destination::Group(mode) | Destination::Label(_, mode) => mode != GroupCommitMode::Off,
            Destination::Transaction(_) => false,
        }
    }

    /// Sets what happens to rows whose key exists, in a table with a primary key.
    #[must_use]
    pub fn with_keys(mut self, rules: KeyRules) -> Self {
        self.key_rules = rules;
        self
    }

    /// Says which ids pushed rows have, of an AUTO_INCREMENT column.
    pub fn use_ids(&mut self, ids: Option<UsedIds>) {
        self.ids = UsedIds::join(self.ids, ids);
    }

    /// The ids in pushed rows.
    pub fn ids(&self) -> Option<UsedIds> {
        self.ids
    }

    /// Adds rows with memory reserved by the caller; not for transactions. If the load becomes too
    /// large for a record, its rows are written to files.
    ///
    /// # Errors
    /// When files cannot be written, or the table no longer exists.
    pub async fn push(&mut self, rows: Bytes, count: usize, memory: Permit) -> Result<()> {
        self.check_pass()?;
        let count = u32::try_from(count).map_err(|_| too_many_rows())?;
        self.pieces_bytes += rows.len();
        self.pieces.push((rows, count, memory));
        match self.files.is_none() && self.engine.appender.takes_record_of(self.pieces_bytes) {
            true => Ok(()),
            false => self.go_to_files().await,
        }
    }

    /// Adds rows of which those in `deletes` remove their key, to a load of a table with unique
    /// keys that is too large for a record, or is prepared.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub async fn push_deleting(
        &mut self,
        rows: Bytes,
        deletes: Vec<bool>,
        mut memory: Permit,
    ) -> Result<()> {
        let schema = self.target.schema();
        if schema.sequence.is_some() {
            let mut signed = Vec::with_capacity(rows.len());
            put_signed(schema, &rows, &deletes, &mut signed);
            memory.resize_over(signed.len() as u64);
            return self.push(signed.into(), deletes.len(), memory).await;
        }
        self.go_to_files().await?;
        self.engine.ddl.make_partitions(self.target, &rows, 0).await?;
        let files = self.files.as_mut().expect("they have just gone there");
        files.push_deleting(rows, deletes, memory).await
    }

    /// Gives the load a label, which shares no group.
    pub fn label(&mut self, claim: Claim) {
        self.destination = Destination::Label(claim, GroupCommitMode::Off);
    }

    /// Reserves memory for the rows in `buffer`, and takes them out of it if they are too large for
    /// a record.
    ///
    /// # Errors
    /// `OutOfRoom` when memory is not available in time or the transaction would become too large;
    /// those of [`Self::push`].
    pub async fn reserve_for(&mut self, buffer: &mut LoadBuffer) -> Result<()> {
        self.check_pass()?;
        self.hold(buffer.row_bytes().len()).await?;
        match self.destination {
            Destination::Transaction(_) if buffer.is_signed() => self.check_signed(buffer),
            Destination::Transaction(own) => {
                let ids = buffer.ids();
                let how = (!self.spools, self.patience);
                if own.make_room_for(self.engine, self.target, buffer, how).await? {
                    self.use_ids(ids);
                    (self.spools, self.held) = (true, None);
                }
                Ok(())
            }
            _ if self.fits_record(buffer) => Ok(()),
            _ => self.take(buffer).await,
        }
    }

    /// Adds memory for the rows in the last buffer.
    pub fn add_memory(&mut self, memory: Permit) {
        match &mut self.held {
            Some(held) => held.merge(memory),
            None => self.held = Some(memory),
        }
    }

    /// Writes all rows so far to synced files, and later ones as well, even if they are few: only a
    /// small record remains to be written.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub async fn to_files(&mut self) -> Result<()> {
        self.check_pass()?;
        self.go_to_files().await?;
        self.files.as_mut().expect("they have just gone there").write().await
    }

    /// Commits the rows added so far and those in `buffer`. On success nothing can fail any more;
    /// the reply waits for the horizon.
    ///
    /// # Errors
    /// When space is not available in time, when the table was dropped meanwhile, or when it was
    /// truncated after rows had been written to files. On error nothing was loaded.
    pub async fn commit(mut self, buffer: &mut LoadBuffer) -> Result<Loaded> {
        self.check_pass()?;
        let Self { engine, target, patience, key_rules, .. } = self;
        let alone = Destination::Group(GroupCommitMode::Off);
        let (mode, label) = match std::mem::replace(&mut self.destination, alone) {
            Destination::Transaction(own) => {
                let all_in_buffer = self.pieces.is_empty() && self.files.is_none();
                assert!(all_in_buffer, "rows of a transaction come in its buffer");
                // Its memory is reserved anew: nobody waits for the share of transactions while
                // holding memory.
                let (ids, spools) = (self.ids, self.spools);
                drop(self);
                let marks = buffer.take_marks();
                if !marks.is_empty() {
                    let rows = (buffer.row_bytes(), &marks[..]);
                    return merge_own(engine, target, own, rows, patience).await;
                }
                buffer.use_ids(ids);
                return own.load(engine, target, buffer, (patience, spools), key_rules).await;
            }
            Destination::Group(mode) => (mode, None),
            Destination::Label(claim, mode) => (mode, Some(claim)),
        };
        let given = label.as_ref().map(|label| Arc::from(label.label()));
        self.order(buffer).await?;
        if !self.fits_record(buffer) {
            self.take(buffer).await?;
            let Appended { lsn, txn } = self.append_files(label).await?;
            return Ok(Loaded::alone(lsn, txn, given));
        }
        assert!(self.files.is_none(), "a load that has written files is a large one");
        if self.comes_in_pieces() {
            return self.commit_pieces(buffer, mode, label).await;
        }
        let mut whole = LoadBuffer::default();
        let buffer = self.whole(buffer, &mut whole)?;
        engine.ddl.make_partitions(target, buffer.row_bytes(), buffer.removals()).await?;
        let bytes = buffer.payload_bytes();
        let (table, schema_version) = (&target.state, target.schema().version);
        let signed = Signed::Label(label);
        let load = SmallLoad { table, schema_version, mode, signed, looked_up: None };
        // Without rows there is nothing to look for, and a label to be kept.
        if target.table().key_model == KeyModel::Primary && buffer.rows() > 0 {
            let keyed = KeyedLoad { engine, target, rules: key_rules, patience, computed: None };
            return keyed.commit(load, buffer, self.held).await;
        }
        wait_for_keys(engine, table, || patience.soon(&engine.admission)).await?;
        let admitted = engine.admission.admit(bytes, self.held, patience).await?;
        let (Appended { lsn, txn }, _) = engine.appender.append_rows(load, buffer, admitted)?;
        Ok(Loaded { lsn, txn: Some(txn), mode, given, keys: KeyOutcome::default() })
    }

    /// What keeps a change of columns from its end.
    pub(crate) fn pass(&self) -> Option<Arc<Pass>> {
        self.pass.clone()
    }

    /// Checks that no change of columns of the table is at its end, before anything is written.
    fn check_pass(&self) -> Result<()> {
        match self.pass {
            Some(_) => Ok(()),
            None => Err(self.target.state.changed()),
        }
    }

    /// Whether all rows, including those in `buffer`, fit in one record.
    fn fits_record(&self, buffer: &LoadBuffer) -> bool {
        let bytes = self.pieces_bytes + buffer.payload_bytes();
        self.files.is_none() && self.engine.appender.takes_record_of(bytes)
    }

    async fn go_to_files(&mut self) -> Result<()> {
        if self.files.is_none() {
            let (state, schema) = (&self.target.state, self.target.schema());
            self.files = Some(Box::new(LargeLoad::begin(&self.engine.flusher, state, schema)?));
        }
        let files = self.files.as_mut().expect("just made");
        for (rows, count, memory) in self.pieces.drain(..) {
            self.engine.ddl.make_partitions(self.target, &rows, 0).await?;
            files.push(rows, count, memory).await?;
        }
        Ok(())
    }

    /// Takes the rows out of `buffer`.
    async fn take(&mut self, buffer: &mut LoadBuffer) -> Result<()> {
        if buffer.rows() == 0 {
            return Ok(());
        }
        self.use_ids(buffer.ids());
        self.hold(buffer.row_bytes().len()).await?;
        let memory = self.held.take().expect("rows have bytes, and their memory is held");
        let is_paid = memory.bytes() >= buffer.row_bytes().len() as u64;
        assert!(is_paid, "rows that leave the buffer take their memory along");
        let marks = buffer.take_marks();
        let (rows, count) = buffer.take();
        match marks.is_empty() {
            true => self.push(rows, count as usize, memory).await,
            false => self.push_deleting(rows, marks, memory).await,
        }
    }

    /// Checks that rows which may delete are not too many for a transaction: what it changes of
    /// stored rows stays in memory.
    fn check_signed(&self, buffer: &LoadBuffer) -> Result<()> {
        if self.engine.takes_record_of(buffer.payload_bytes()) {
            return Ok(());
        }
        bail!(
            OutOfRoom,
            "a statement with rows that delete ({DELETE_SIGN}) has at most {} of rows in a \
             transaction; COMMIT first, or send fewer",
            self.engine.config().wal_load_bytes_max
        );
    }

    /// Brings rows of which some delete their key in the order of a record, if it takes them; they
    /// go to files else.
    async fn order(&mut self, buffer: &mut LoadBuffer) -> Result<()> {
        if !buffer.is_marked() || !self.fits_record(buffer) {
            return Ok(());
        }
        assert!(self.pieces.is_empty(), "rows that delete go to files, or stay in their buffer");
        self.use_ids(buffer.ids());
        let marks = buffer.take_marks();
        let (rows, target) = (buffer.take().0, self.target.clone());
        let order = move || {
            let ordered = with_removals(&target, &rows, &marks);
            ordered.map(|ordered| (ordered, rows, marks))
        };
        let (ordered, rows, marks) = task::run(&**self.engine.pool(), order).await?;
        if self.fits_record(&ordered) {
            *buffer = ordered;
            return Ok(());
        }
        self.hold(rows.len()).await?;
        let memory = self.held.take().expect("rows have bytes, and their memory is held");
        self.push_deleting(rows, marks, memory).await
    }

    /// Ensures that memory is reserved for this many bytes in the buffer; waits if necessary.
    async fn hold(&mut self, bytes: usize) -> Result<()> {
        let held = self.held.as_ref().map_or(0, Permit::bytes);
        let missing = (bytes as u64).saturating_sub(held);
        if missing > 0 {
            let step = missing.max(MEMORY_STEP_BYTES);
            let deadline = self.patience.soon(&self.engine.admission);
            let memory = self.engine.take_memory(step, deadline).await?;
            self.add_memory(memory);
        }
        Ok(())
    }

    /// All rows in one buffer: in that of the last ones, unless others came before them.
    fn whole<'b>(
        &mut self,
        last: &'b mut LoadBuffer,
        whole: &'b mut LoadBuffer,
    ) -> Result<&'b mut LoadBuffer> {
        // A request without rows may never have begun its buffer, which then lacks space for the
        // head.
        if self.pieces.is_empty() && last.payload_bytes() > 0 {
            last.use_ids(self.ids);
            return Ok(last);
        }
        self.join(last, whole)?;
        Ok(whole)
    }

    /// Concatenates small pieces and the rows of the last buffer in one buffer.
    fn join(&mut self, last: &LoadBuffer, whole: &mut LoadBuffer) -> Result<()> {
        whole.begin().reserve_exact(self.pieces_bytes + last.row_bytes().len());
        for (rows, count, memory) in std::mem::take(&mut self.pieces) {
            whole.resume().extend_from_slice(&rows);
            whole.count(count as usize)?;
            self.add_memory(memory);
        }
        whole.resume().extend_from_slice(last.row_bytes());
        let bytes = self.pieces_bytes + last.row_bytes().len();
        assert_eq!(whole.row_bytes().len(), bytes, "the pieces of a load are its rows");
        whole.use_ids(UsedIds::join(self.ids, last.ids()));
        whole.count(last.rows() as usize)
    }

    async fn append_files(mut self, label: Option<Claim>) -> Result<Appended> {
        self.go_to_files().await?;
        assert!(self.pieces.is_empty(), "all rows of a large load go to files");
        let engine = self.engine;
        let deadline = self.patience.late(&engine.admission);
        let files = self.files.expect("a large load has gone to files");
        let parts = vec![PartLoad { ids: self.ids, ..files.finish().await? }];
        if self.target.table().key_model == KeyModel::Primary {
            let large = KeyedFiles { engine, target: self.target, rules: self.key_rules };
            return large.append(parts, &mut label.into(), deadline).await;
        }
        wait_for_keys(engine, &self.target.state, || deadline).await?;
        let room = engine.appender.room_for(&parts, deadline).await?;
        let appended = engine.appender.append_parts(parts, &mut label.into(), room);
        appended.map(|(appended, _)| appended)
    }

    /// Ends a load without a record: its rows are in synced files, or, where they are few enough
    /// for a record and nobody looks for their keys, as they were given.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub(crate) async fn staged(mut self, buffer: &mut LoadBuffer) -> Result<Staged> {
        self.check_pass()?;
        if self.fits_record(buffer) && self.target.table().key_model != KeyModel::Primary {
            return self.staged_rows(buffer).await;
        }
        self.go_to_files().await?;
        self.take(buffer).await?;
        let files = self.files.expect("they have just gone there");
        let PartLoad { began_in, rows, body, .. } = files.finish().await?;
        let PartBody::Rowsets { metas, in_flight } = body else {
            bail!(Internal, "the rows of a large load are in files");
        };
        let body = StagedBody::Files { metas, in_flight };
        Ok(Staged { incarnation: began_in, rows, ids: self.ids, body })
    }

    async fn staged_rows(mut self, buffer: &mut LoadBuffer) -> Result<Staged> {
        let (engine, target) = (self.engine, self.target);
        engine.store.disk.may_grow()?;
        engine.appender.check_flushable(&target.state)?;
        assert!(self.files.is_none(), "rows that fit in a record go to no files");
        self.hold(buffer.row_bytes().len()).await?;
        let ids = UsedIds::join(self.ids, buffer.ids());
        let (pieces, rows) = match self.comes_in_pieces() {
            true => self.take_pieces(buffer)?,
            false => {
                let mut whole = LoadBuffer::default();
                let (rows, count) = self.whole(buffer, &mut whole)?.take();
                (vec![rows], count)
            }
        };
        for piece in &pieces {
            engine.ddl.make_partitions(target, piece, 0).await?;
        }
        let slices = pieces.iter().map(|piece| &piece[..]);
        target.state.check_slices(target.schema().version, slices, 0)?;
        let group = target.state.lock();
        if group.is_gone() {
            return Err(target.state.gone());
        }
        let incarnation = group.log().incarnation();
        drop(group);
        let memory = self.held.unwrap_or_else(|| engine.memory().acquire_over(0));
        let body = StagedBody::Rows(WholeRows::new(pieces, memory));
        Ok(Staged { incarnation, rows, ids, body })
    }
}

impl Engine {
    /// Begins a load. It reserves nothing until it gets rows.
    pub fn load<'a>(
        &'a self,
        target: &'a LoadTarget,
        destination: Destination<'a>,
        patience: WaitLimit,
    ) -> Load<'a> {
        let pass = match &destination {
            Destination::Transaction(own) => own.pass(target),
            Destination::Group(_) | Destination::Label(..) => target.pass(),
        };
        Load {
            pass,
            spools: false,
            engine: self,
            target,
            destination,
            patience,
            key_rules: KeyRules::default(),
            pieces: Vec::new(),
            pieces_bytes: 0,
            files: None,
            held: None,
            ids: None,
        }
    }

    /// Commits a load without rows, which has its label nevertheless.
    pub(crate) async fn load_nothing(
        &self,
        target: &LoadTarget,
        label: Option<Claim>,
        patience: WaitLimit,
    ) -> Result<Loaded> {
        let destination = match label {
            Some(claim) => Destination::Label(claim, GroupCommitMode::Off),
            None => Destination::Group(GroupCommitMode::Off),
        };
        let load = self.load(target, destination, patience);
        load.commit(&mut LoadBuffer::default()).await
    }

    /// Begins a statement that changes rows of `target`, in a transaction or for itself.
    pub fn change<'a>(
        &'a self,
        target: &'a LoadTarget,
        own: Option<OwnRows>,
        rules: KeyRules,
        patience: WaitLimit,
    ) -> Change<'a> {
        Change::new(self, target, own, rules, patience)
    }

    /// Changes rows of a table without a unique key, in a transaction or as a statement of its own.
    /// Nobody else removes rows of the table from the look at them until the record is in the log;
    /// loads go on.
    ///
    /// # Errors
    /// Those of admission and appending, and files that cannot be read. Nothing was changed then.
    pub async fn change_rows(
        &self,
        target: &LoadTarget,
        own: Option<&OwnRows>,
        changes: &[RowChange],
        copies: Copies,
        patience: WaitLimit,
    ) -> Result<Affected> {
        match own {
            Some(own) => own.change_rows(self, target, changes, copies, patience).await,
            None => unkeyed::change_rows(self, target, changes, copies, patience).await,
        }
    }
}

/// The table that the catalog has under a name, for a load that cannot be begun again: no change
/// of columns takes its place as long as the answer is held.
///
/// # Errors
/// 1049 and 1146; 1205 where a change of columns does not end until `deadline`.
pub async fn enter(
    engine: &Engine,
    database: &str,
    table: &str,
    deadline: Deadline,
) -> Result<LoadTarget> {
    loop {
        if let Ok(entered) = engine.target(database, table)?.entered() {
            return Ok(entered);
        }
        if deadline.left(&**engine.clock()).is_zero() {
            bail!(
                LockWaitTimeout,
                "Lock wait timeout exceeded; try restarting transaction: the end of a change of \
                 columns of table '{database}.{table}' lets nobody write"
            );
        }
        engine.clock().sleep(GATE_PAUSE).await;
    }
}
