//! Prepared loads: their rows are durable in files and belong to nobody until the client commits
//! them, or aborts them, or lets their time run out (RFC 0014).
//!
//! A note on disk has what the record of the load will have, so a prepared load holds back no log
//! and outlives a restart. Its place in the order is that of its record, which is appended by the
//! commit. The note goes behind the answer to that; one that a crash has left behind is told by its
//! label, which stands in the record. Rows that are few enough for a record stand behind the note,
//! in the same file (RFC 0045), and in memory too, as long as there is enough (RFC 0064).

mod going;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use freshet_base::budget::{Budget, Permit};
use freshet_base::io::Fs;
use freshet_base::task::Lane;
use freshet_base::{DbId, Error, Result, TableId, TxnId, bail, err};
use freshet_meta::{Claim, LabelKind, LabelState, NotedRows, PreparedNote};
use freshet_schema::TableSchema;
use parking_lot::Mutex;

use crate::layout::prepared_dir;
use crate::note::{self, NOTES, NotedParts};
use crate::store::Store;
use crate::sweep::{InFlight, Sweeper};

use going::Going;

/// How many aborted loads are remembered for replies.
const ABORTED_MAX: usize = 10_000;
/// When an abort that failed is tried again.
const RETRY_MICROS: i64 = 1_000_000;
/// Rows that wait for their commit may hold the memory for writes divided by this.
const KEPT_PARTS: u64 = 8;

/// A prepared load, as a client names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreparedId<'a> {
    Txn(TxnId),
    Label(&'a str),
}

/// How a prepared load ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreparedEnd {
    Commit,
    Abort,
}

/// The table of a prepared load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreparedTable {
    pub txn: TxnId,
    pub db: DbId,
    pub table: TableId,
}

/// A load that waits for its end.
pub(crate) struct Prepared {
    pub note: PreparedNote,
    pub claim: Option<Claim>,
    /// The rows behind its note, for which there is memory.
    pub kept: Option<WholeRows>,
    /// Keeps its files.
    pub _in_flight: InFlight,
}

/// All rows of a load that fits in a record, with their memory.
pub(crate) struct WholeRows {
    /// The encoded rows, in the pieces in which they were decoded.
    pub pieces: Vec<Bytes>,
    pub memory: Permit,
    /// Their part of what all prepared loads may keep.
    share: Option<Permit>,
}

impl WholeRows {
    pub fn new(pieces: Vec<Bytes>, mut memory: Permit) -> Self {
        memory.resize_over(bytes_of(&pieces));
        Self { pieces, memory, share: None }
    }

    /// All rows in one piece.
    pub fn joined(&self) -> Bytes {
        match &self.pieces[..] {
            [all] => all.clone(),
            pieces => pieces.concat().into(),
        }
    }

    /// The same as part of what is kept, if it fits.
    fn kept(mut self, share: &Budget) -> Option<Self> {
        self.share = Some(share.try_acquire(bytes_of(&self.pieces))?);
        Some(self)
    }
}

fn bytes_of(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// What a transaction is doing.
enum Slot {
    Waiting(Box<Prepared>),
    /// It is being committed or aborted.
    Ending(PreparedTable),
    /// It is committed, and its note is still to go.
    Committed(PreparedTable),
}

impl Slot {
    fn table(&self, txn: TxnId) -> PreparedTable {
        match self {
            Self::Waiting(prepared) => {
                let PreparedNote { db, table, .. } = prepared.note;
                PreparedTable { txn, db, table }
            }
            Self::Ending(table) | Self::Committed(table) => *table,
        }
    }

    const fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }
}

/// All prepared loads.
pub(crate) struct PreparedLoads {
    store: Arc<Store>,
    sweeper: Arc<Sweeper>,
    dir: PathBuf,
    slots: Mutex<BTreeMap<TxnId, Slot>>,
    going: Mutex<Going>,
    /// The memory of rows that wait for their commit, together.
    share: Budget,
    aborted: Mutex<VecDeque<(DbId, TxnId)>>,
    /// Ends that run.
    ending: AtomicUsize,
    bound: Mutex<Bound>,
}

/// What a table is bound to beside the loads that wait: a load is found by its database. No table
/// is in both lists.
#[derive(Default)]
struct Bound {
    /// Loads of these are being written down.
    arriving: Vec<TableId>,
    /// These go to another database.
    moving: Vec<TableId>,
}

/// A load that is being written down, whose table stays in its database.
pub(crate) struct Arriving(Arc<PreparedLoads>, TableId);

/// Tables that go to another database, for which no load is prepared meanwhile.
pub(crate) struct Moving(Arc<PreparedLoads>, Vec<TableId>);

impl PreparedLoads {
    pub fn new(store: Arc<Store>, sweeper: Arc<Sweeper>) -> Self {
        let dir = prepared_dir(&store.config.data_dir);
        let (slots, going, aborted) = Default::default();
        let share_bytes = store.config.write_memory_bytes.bytes() / KEPT_PARTS;
        Self {
            store,
            sweeper,
            dir,
            slots,
            going,
            share: Budget::new("memory of prepared loads", share_bytes),
            aborted,
            ending: AtomicUsize::new(0),
            bound: Mutex::default(),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.ending.load(Ordering::Acquire) > 0
    }

    /// Takes over the loads that were prepared before the start, once the log is replayed.
    ///
    /// # Errors
    /// When a note is damaged.
    pub fn adopt(&self) -> Result<()> {
        let fs = self.store.fs();
        let listed = fs.list(&self.dir).map_err(|error| Error::io("list prepared loads", error))?;
        for entry in listed {
            let is_note = |extension: &std::ffi::OsStr| NOTES.iter().any(|one| extension == *one);
            if !entry.path.extension().is_some_and(is_note) {
                // A note that was not written to its end: its load was not told to be prepared.
                let removed = fs.remove_file(&entry.path);
                removed.map_err(|error| Error::io("remove what is left of a note", error))?;
                continue;
            }
            let note = note::read(fs, &entry.path)?;
            match self.reclaim(&note) {
                Ok(claim) => self.insert(note, claim),
                Err(why) => {
                    tracing::info!(txn = %note.txn, label = note.label, %why, "a note goes");
                    self.remove_note(note.txn)?;
                }
            }
        }
        Ok(())
    }

    /// The label of a load that is still prepared, or why it is not.
    fn reclaim(&self, note: &PreparedNote) -> Result<Claim, String> {
        let Some(state) = self.store.tables.state(note.table).filter(|state| !state.is_dropped())
        else {
            return Err("its table was dropped".to_owned());
        };
        if state.incarnation() != note.incarnation {
            return Err("its table was truncated".to_owned());
        }
        let first = note.rowsets.first().map(|rowset| rowset.id);
        let view = self.store.tables.view(note.table);
        let is_stored = view.is_some_and(|view| {
            view.rowsets().iter().any(|rowset| Some(rowset.meta().id) == first)
        });
        if is_stored {
            return Err("it was committed".to_owned());
        }
        let key = (note.db, note.label.as_str(), LabelKind::Streaming);
        let claimed = self.store.meta().labels().claim_prepared(key, note.txn);
        claimed.map_err(|used| match used.txn == Some(note.txn) {
            true => "it was committed".to_owned(),
            false => "its label is another load's".to_owned(),
        })
    }

    fn insert(&self, note: PreparedNote, claim: Claim) {
        let mut in_flight = self.sweeper.in_flight();
        note.rowsets.iter().for_each(|rowset| in_flight.add(rowset.id));
        self.enter(Prepared { note, claim: Some(claim), kept: None, _in_flight: in_flight });
    }

    fn enter(&self, prepared: Prepared) {
        let txn = prepared.note.txn;
        let before = self.slots.lock().insert(txn, Slot::Waiting(Box::new(prepared)));
        assert!(before.is_none(), "the id of a transaction is given once");
    }

    fn path(&self, txn: TxnId, extension: &str) -> PathBuf {
        self.dir.join(format!("{txn}.{extension}"))
    }

    /// Writes the note of a load with the rows behind it, and enters the load; all or nothing of
    /// that remains. The rows stay in memory if there is enough.
    pub fn write(&self, mut prepared: Prepared) -> Result<()> {
        let (fs, txn) = (self.store.fs(), prepared.note.txn);
        let rows = prepared.kept.as_ref().map(|rows| &rows.pieces[..]);
        prepared.note.noted = rows.map(note::noted);
        let extension = note::extension(&prepared.note);
        let head = note::written(&prepared.note);
        let rows = rows.unwrap_or_default().iter().map(|piece| &piece[..]);
        let parts = std::iter::once(&head[..]).chain(rows).collect::<Vec<_>>();
        let written = fs.write_parts_atomic(&self.path(txn, extension), &parts);
        prepared.kept = prepared.kept.and_then(|rows| rows.kept(&self.share));
        self.enter_written(prepared, written)
    }

    /// As [`Self::write`], of rows that `write` puts into the file of a path, behind the bytes of
    /// the note. The caller has looked whether there is room for them.
    pub fn write_with(
        &self,
        mut prepared: Prepared,
        noted: NotedRows,
        write: impl FnOnce(&dyn Fs, &Path, &[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        let fs = self.store.fs();
        prepared.note.noted = Some(noted);
        let path = self.path(prepared.note.txn, note::extension(&prepared.note));
        let written = write(fs, &path, &note::written(&prepared.note));
        self.enter_written(prepared, written)
    }

    fn enter_written(&self, prepared: Prepared, written: std::io::Result<()>) -> Result<()> {
        let txn = prepared.note.txn;
        let Err(error) = written else {
            if let Some(claim) = &prepared.claim {
                claim.prepared(txn);
            }
            self.enter(prepared);
            return Ok(());
        };
        // It may be there all the same, and would be taken over by the next start.
        if let Err(again) = self.remove_note(txn) {
            let fatal = &self.store.world.on_fatal;
            fatal(&format!("a note of a prepared load is neither written nor removed: {again}"));
        }
        Err(Error::io("write the note of a prepared load", error))
    }

    /// Opens the rows of a partial update behind a note.
    pub fn open_parts(
        &self,
        noted: (&PreparedNote, NotedRows),
        of: (&TableSchema, usize),
    ) -> Result<NotedParts> {
        let path = self.path(noted.0.txn, note::extension(noted.0));
        NotedParts::open(self.store.fs(), &path, noted, of)
    }

    /// Reads the rows behind a note.
    pub fn read_rows(&self, (txn, extension): (TxnId, &str), noted: NotedRows) -> Result<Vec<u8>> {
        note::read_rows(self.store.fs(), &self.path(txn, extension), noted)
    }

    /// Removes a note durably; none may be there.
    fn remove_note(&self, txn: TxnId) -> Result<()> {
        self.remove_notes(&[txn])
    }

    /// Removes notes durably; none may be there.
    fn remove_notes(&self, txns: &[TxnId]) -> Result<()> {
        let fs = self.store.fs();
        let failed = |error| Error::io("remove the note of a prepared load", error);
        for txn in txns {
            for extension in std::iter::once("tmp").chain(NOTES) {
                match fs.remove_file(&self.path(*txn, extension)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(failed(error));
                    }
                    _ => {}
                }
            }
        }
        fs.sync_dir(&self.dir).map_err(failed)
    }

    /// Aborts loads whose time has run out.
    pub fn abort_expired(self: &Arc<Self>) {
        let now = self.store.meta().labels().clock().now_micros();
        let is_due = |(txn, slot): (&TxnId, &Slot)| match slot {
            Slot::Waiting(prepared) if prepared.note.expires_micros <= now => Some(*txn),
            _ => None,
        };
        let due = self.slots.lock().iter().filter_map(is_due).collect::<Vec<_>>();
        for txn in due {
            let Ok(prepared) = self.begin_end(txn) else { continue };
            tracing::info!(%txn, label = prepared.note.label, "a prepared load has expired");
            let (loads, ending) = (Arc::clone(self), self.end_begins());
            let abort = move || {
                if let Err(error) = loads.abort(prepared) {
                    tracing::warn!(%txn, %error, "it is tried again");
                }
                drop(ending);
            };
            self.store.pool().execute(Lane::Background, Box::new(abort));
        }
    }

    /// Frees the memory of rows that wait for their commit, which then reads them from their
    /// files.
    pub fn free_memory(&self) {
        let kept_by = |slot: &mut Slot| match slot {
            Slot::Waiting(prepared) => prepared.kept.take(),
            Slot::Ending(_) | Slot::Committed(_) => None,
        };
        // Freed behind the lock.
        let freed = self.slots.lock().values_mut().filter_map(kept_by).collect::<Vec<_>>();
        drop(freed);
    }

    pub fn end_begins(self: &Arc<Self>) -> Ending {
        self.ending.fetch_add(1, Ordering::AcqRel);
        Ending(Arc::clone(self))
    }

    /// Takes a load for its end.
    pub fn begin_end(&self, txn: TxnId) -> Result<Box<Prepared>> {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(&txn) else { return Err(not_found(txn)) };
        let table = slot.table(txn);
        match std::mem::replace(slot, Slot::Ending(table)) {
            Slot::Waiting(prepared) => Ok(prepared),
            Slot::Ending(_) => bail!(OutOfRoom, "transaction [{txn}] is being ended; try again"),
            Slot::Committed(_) => {
                *slot = Slot::Committed(table);
                Err(visible(txn))
            }
        }
    }

    /// Puts a load back whose end has failed.
    pub fn put_back(&self, prepared: Box<Prepared>) {
        let before = self.slots.lock().insert(prepared.note.txn, Slot::Waiting(prepared));
        assert!(matches!(before, Some(Slot::Ending(_))), "it was taken for its end");
    }

    /// All loads that are not committed, by transaction.
    pub fn list(&self) -> Vec<PreparedTable> {
        let slots = self.slots.lock();
        let open = slots.iter().filter(|(_, slot)| !slot.is_committed());
        open.map(|(txn, slot)| slot.table(*txn)).collect()
    }

    /// Begins to write a load of a table down; `None` if the table goes to another database, or is
    /// not in that of the load any more.
    pub fn arrives(
        self: &Arc<Self>,
        table: TableId,
        is_home: impl Fn() -> bool,
    ) -> Option<Arriving> {
        let mut bound = self.bound.lock();
        if bound.moving.contains(&table) || !is_home() {
            return None;
        }
        bound.arriving.push(table);
        Some(Arriving(Arc::clone(self), table))
    }

    /// Begins to move tables to other databases; the one for which a load waits, or arrives, if
    /// there is one.
    pub fn move_tables(self: &Arc<Self>, tables: Vec<TableId>) -> Result<Moving, TableId> {
        let mut bound = self.bound.lock();
        // In this order: a load that has been written down waits before it has arrived.
        let waits = |table: &&TableId| bound.arriving.contains(*table) || self.holds(**table);
        if let Some(table) = tables.iter().find(waits) {
            return Err(*table);
        }
        bound.moving.extend(&tables);
        Ok(Moving(Arc::clone(self), tables))
    }

    /// Whether a load of a table waits for its end, or its note does.
    pub fn holds(&self, table: TableId) -> bool {
        self.slots.lock().iter().any(|(txn, slot)| slot.table(*txn).table == table)
    }

    /// Whether somebody has still to end a load of a table, or a load is being prepared for it.
    pub fn is_awaited(&self, table: TableId) -> bool {
        let is_arriving = self.bound.lock().arriving.contains(&table);
        let slots = self.slots.lock();
        let mut open = slots.iter().filter(|(_, slot)| !slot.is_committed());
        is_arriving || open.any(|(txn, slot)| slot.table(*txn).table == table)
    }

    /// Ends a load without its rows. Its files are swept.
    pub fn abort(&self, mut prepared: Box<Prepared>) -> Result<()> {
        let txn = prepared.note.txn;
        if let Err(error) = self.remove_note(txn) {
            let soon = self.store.meta().labels().clock().now_micros() + RETRY_MICROS;
            prepared.note.expires_micros = prepared.note.expires_micros.max(soon);
            self.put_back(prepared);
            return Err(error);
        }
        let mut aborted = self.aborted.lock();
        if aborted.len() == ABORTED_MAX {
            aborted.pop_front();
        }
        aborted.push_back((prepared.note.db, txn));
        drop(aborted);
        // Its label is free before it is unknown.
        drop(prepared);
        self.slots.lock().remove(&txn);
        Ok(())
    }

    /// Why a transaction is none of those prepared, in Doris's words.
    fn unknown(&self, db: DbId, txn: TxnId) -> Error {
        if self.aborted.lock().contains(&(db, txn)) {
            return err!(WrongArguments, "transaction [{txn}] is already aborted");
        }
        let finished = self.store.meta().labels().finished(db);
        let is_visible = finished.iter().any(|record| record.txn == txn);
        match is_visible {
            true => visible(txn),
            false => not_found(txn),
        }
    }

    /// Finds a load of a database; others are not told of.
    pub fn find(&self, db: DbId, id: PreparedId<'_>) -> Result<PreparedTable> {
        let of = |txn: TxnId| {
            let slots = self.slots.lock();
            slots.get(&txn).filter(|slot| !slot.is_committed()).map(|slot| slot.table(txn))
        };
        let txn = match id {
            PreparedId::Txn(txn) => txn,
            PreparedId::Label(label) => {
                let Some(used) = self.store.meta().labels().get(db, label) else {
                    bail!(WrongArguments, "transaction with label [{label}] not found");
                };
                match (used.txn, used.state) {
                    (Some(txn), LabelState::Prepared | LabelState::Visible) => txn,
                    _ => bail!(
                        WrongArguments,
                        "the load with label [{label}] is still running, not pre-committed."
                    ),
                }
            }
        };
        of(txn).filter(|found| found.db == db).ok_or_else(|| self.unknown(db, txn))
    }
}

fn visible(txn: TxnId) -> Error {
    err!(LabelUsed, "transaction [{txn}] is already visible, not pre-committed.")
}

fn not_found(txn: TxnId) -> Error {
    err!(WrongArguments, "transaction [{txn}] not found")
}

/// An end that runs.
pub(crate) struct Ending(Arc<PreparedLoads>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ending.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let arriving = &mut self.0.bound.lock().arriving;
        let at = arriving.iter().position(|table| *table == self.1);
        arriving.swap_remove(at.expect("a load that arrives is listed"));
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.bound.lock().moving.retain(|table| !self.1.contains(table));
    }
}
