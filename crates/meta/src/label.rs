//! Labels given by clients: each identifies at most one load.
//!
//! A label is claimed before its load is appended, and then belongs to the load's record. It is
//! kept in memory immediately, and stored with the commit that allows the record's log file to be
//! reused; until then replay of the log restores it.
//!
//! It is kept for the time guaranteed for its kind, and never removed to make space for others: a
//! load accepted a second time would duplicate rows without anybody noticing. When a database has
//! the maximum number of labels, new ones are rejected, which clients notice and can wait for.
//! Labels age by the clock of the log, so that a jump of the system time does not expire them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{ClockRef, LogClock};
use freshet_base::{DbId, Error, Lsn, Result, Retry, TxnId, bail, err};
use parking_lot::Mutex;

use crate::keys;
use crate::store::{Batch, MetaStore};

mod clean;
mod limits;

pub use clean::CleanedLabels;
use limits::LimitsInLog;
pub use limits::{LabelKind, LabelLimits};

/// Maximum length of a label, in characters.
pub const LABEL_CHARS_MAX: usize = 128;
const LABEL_REGEX: &str = "^[-_A-Za-z0-9:]{1,128}$";

/// The state of a label's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelState {
    Running,
    /// Its rows are durable in files and wait for their commit.
    Prepared,
    /// Committed and readable.
    Visible,
}

impl LabelState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Prepared => "PRECOMMITTED",
            Self::Visible => "VISIBLE",
        }
    }
}

/// A label whose load is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelRecord {
    pub db: DbId,
    pub label: String,
    /// `Statement` also for stream loads whose record was stored before it said so.
    pub kind: LabelKind,
    /// The transaction of its load.
    pub txn: TxnId,
    /// The LSN of the load's record.
    pub lsn: Lsn,
    /// When it was committed, in microseconds since 1970-01-01 UTC.
    pub finished_micros: i64,
    /// When it expires, by the clock of the log.
    pub expires_micros: i64,
}

impl LabelRecord {
    /// The state of its load while the log is durable up to `horizon`: above it nothing is
    /// guaranteed or readable yet.
    pub fn state_at(&self, horizon: Lsn) -> LabelState {
        match self.lsn <= horizon {
            true => LabelState::Visible,
            false => LabelState::Running,
        }
    }
}

/// When the load of a label was committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelTime {
    /// Microseconds since 1970-01-01 UTC, as in its record; for display only.
    pub wall_micros: i64,
    /// The log time of its record, from which its age is computed.
    pub log_micros: i64,
}

/// The load that already uses a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsedLabel {
    pub label: String,
    pub kind: LabelKind,
    /// The transaction of the load; `None` while it writes its rows.
    pub txn: Option<TxnId>,
    /// The state of the load.
    pub state: LabelState,
    /// The LSN of its record: a reply that reports the use must wait until the horizon reaches it.
    pub lsn: Option<Lsn>,
}

/// The error for a label that is already used, in Doris's words.
impl From<UsedLabel> for Error {
    fn from(used: UsedLabel) -> Self {
        let txn = used.txn.map_or("-1".to_owned(), |txn| txn.to_string());
        let (label, state) = (&used.label, used.state.name());
        err!(
            LabelUsed,
            "Label [{label}] has already been used, relate to txn [{txn}], status [{state}]."
        )
    }
}

/// The result of a claim.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The caller owns the label.
    New(Claim),
    /// Another load uses it.
    Used(UsedLabel),
}

impl ClaimOutcome {
    /// Returns the claim.
    ///
    /// # Errors
    /// If another load uses the label.
    pub fn or_refuse(self) -> Result<Claim> {
        match self {
            Self::New(claim) => Ok(claim),
            Self::Used(used) => Err(used.into()),
        }
    }
}

/// A label owned by one load; dropping it without a commit releases the label.
#[derive(Debug)]
pub struct Claim {
    book: Arc<LabelRegistry>,
    db: DbId,
    label: String,
    kind: LabelKind,
    wall_micros: i64,
    committed: bool,
}

impl Claim {
    /// The database of the label.
    pub fn db(&self) -> DbId {
        self.db
    }

    /// The retention of the label.
    pub fn kind(&self) -> LabelKind {
        self.kind
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    /// Sets and returns the wall-clock time for the load's record, in microseconds since 1970-01-01
    /// UTC.
    pub fn dated(&mut self) -> i64 {
        self.wall_micros = self.book.wall.wall_micros();
        self.wall_micros
    }

    /// Says that its load waits for its commit, as this transaction.
    pub fn prepared(&self, txn: TxnId) {
        self.book.prepare(self.db, &self.label, txn);
    }

    /// Assigns the label to the load's record with the record's log time; from now on it is used.
    /// To be called as soon as the record has its position in the log.
    pub fn appended(mut self, txn: TxnId, lsn: Lsn, log_micros: i64) {
        self.committed = true;
        let time = LabelTime { wall_micros: self.wall_micros, log_micros };
        self.book.finish(self.db, &self.label, self.kind, txn, lsn, time);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.committed {
            self.book.release(self.db, &self.label);
        }
    }
}

#[derive(Debug)]
enum Entry {
    Running(LabelKind),
    Prepared(LabelKind, TxnId),
    Finished(Arc<LabelRecord>),
}

#[derive(Debug, Default)]
struct DbLabels {
    entries: HashMap<String, Entry>,
    /// Finished labels by expiry. Each record of the log has at most one label.
    finished: BTreeMap<(i64, Lsn), Arc<LabelRecord>>,
    /// Finished labels that the store lacks.
    unsaved: BTreeMap<Lsn, Arc<LabelRecord>>,
    running: usize,
    /// Expired labels that the store still contains.
    to_delete: BTreeSet<String>,
}

impl DbLabels {
    fn insert(&mut self, record: Arc<LabelRecord>, is_saved: bool) {
        let label = record.label.clone();
        match self.entries.insert(label, Entry::Finished(Arc::clone(&record))) {
            Some(Entry::Running(_) | Entry::Prepared(..)) => self.running -= 1,
            Some(Entry::Finished(before)) => {
                self.finished.remove(&(before.expires_micros, before.lsn));
                self.unsaved.remove(&before.lsn);
            }
            None => {}
        }
        if !is_saved {
            self.unsaved.insert(record.lsn, Arc::clone(&record));
        }
        self.finished.insert((record.expires_micros, record.lsn), record);
    }

    /// Removes expired labels.
    fn trim(&mut self, now_micros: i64) {
        while let Some(first) = self.finished.first_entry() {
            if first.key().0 > now_micros {
                return;
            }
            let record = first.remove();
            self.entries.remove(&record.label);
            if self.unsaved.remove(&record.lsn).is_none() {
                self.to_delete.insert(record.label.clone());
            }
        }
    }

    /// The time until another label can be added; `None` if it can be added now.
    fn full_for(&self, finished_max: usize, now_micros: i64) -> Option<Duration> {
        if self.finished.len() + self.running < finished_max {
            return None;
        }
        let first_micros = self.finished.first_key_value().map_or(now_micros, |(key, _)| key.0);
        let micros = u64::try_from(first_micros.saturating_sub(now_micros)).unwrap_or(0);
        Some(Duration::from_micros(micros))
    }
}

/// The labels of all databases.
pub struct LabelRegistry {
    limits: Mutex<LimitsInLog>,
    clock: Arc<LogClock>,
    wall: ClockRef,
    databases: Mutex<HashMap<DbId, DbLabels>>,
}

impl std::fmt::Debug for LabelRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LabelRegistry({:?})", self.limits.lock().last())
    }
}

/// Changes of the store in one commit.
#[derive(Debug, Default)]
pub(crate) struct LabelChanges {
    put: Vec<Arc<LabelRecord>>,
    delete: Vec<(DbId, String)>,
    clock_micros: i64,
    /// The limits at the position up to which labels are saved.
    limits: Option<(Lsn, LabelLimits)>,
}

impl LabelChanges {
    pub fn batch(&self) -> Batch {
        let put = |record: &Arc<LabelRecord>| {
            (keys::label(record.db, &record.label), keys::encode(record.as_ref()))
        };
        let clock = (keys::LABEL_CLOCK.to_owned(), keys::encode(&self.clock_micros));
        let limits = |(_, limits): &(Lsn, LabelLimits)| {
            (keys::LABEL_LIMITS.to_owned(), keys::encode(limits))
        };
        let others = [clock].into_iter().chain(self.limits.iter().map(limits));
        Batch {
            put: self.put.iter().map(put).chain(others).collect(),
            delete: self.delete.iter().map(|(db, label)| keys::label(*db, label)).collect(),
            ..Batch::default()
        }
    }
}

impl LabelRegistry {
    pub(crate) fn load(store: &dyn MetaStore, clock: ClockRef) -> Result<Self> {
        let limits = match store.get(keys::LABEL_LIMITS)? {
            Some(bytes) => Some(keys::decode::<LabelLimits>(keys::LABEL_LIMITS, &bytes)?),
            None => None,
        };
        let limits = Mutex::new(LimitsInLog::new(limits));
        let saved_micros = match store.get(keys::LABEL_CLOCK)? {
            Some(bytes) => Some(keys::decode::<i64>(keys::LABEL_CLOCK, &bytes)?),
            None => None,
        };
        let wall = ClockRef::clone(&clock);
        let clock = Arc::new(LogClock::new(clock, saved_micros));
        let mut databases = HashMap::<DbId, DbLabels>::new();
        for (key, bytes) in store.scan(keys::LABELS)? {
            let record = keys::decode::<LabelRecord>(&key, &bytes)?;
            databases.entry(record.db).or_default().insert(Arc::new(record), true);
        }
        for labels in databases.values_mut() {
            labels.trim(clock.now_micros());
        }
        Ok(Self { limits, clock, wall, databases: Mutex::new(databases) })
    }

    /// Claims a label for a load.
    ///
    /// # Errors
    /// An invalid label; too many running loads with labels; too many labels that have not expired
    /// yet.
    pub fn claim(self: &Arc<Self>, db: DbId, label: &str, kind: LabelKind) -> Result<ClaimOutcome> {
        check_label(label)?;
        let limits = self.limits();
        let mut databases = self.databases.lock();
        let labels = databases.entry(db).or_default();
        let now_micros = self.clock.now_micros();
        labels.trim(now_micros);
        if let Some(entry) = labels.entries.get(label) {
            return Ok(ClaimOutcome::Used(used(label, entry)));
        }
        if labels.running >= limits.running_max {
            bail!(
                OutOfRoom,
                "current running txns on db {db} is {}, larger than limit {}",
                labels.running,
                limits.running_max
            );
        }
        if let Some(wait) = labels.full_for(limits.finished_max, now_micros) {
            return Err(full(limits, wait));
        }
        labels.entries.insert(label.to_owned(), Entry::Running(kind));
        labels.running += 1;
        let (book, label, wall_micros) = (self.clone(), label.to_owned(), self.wall.wall_micros());
        Ok(ClaimOutcome::New(Claim { book, db, label, kind, wall_micros, committed: false }))
    }

    /// Claims the label of a load that was prepared before a restart, whatever the limits.
    ///
    /// # Errors
    /// When a load in the log has it.
    pub fn claim_prepared(
        self: &Arc<Self>,
        (db, label, kind): (DbId, &str, LabelKind),
        txn: TxnId,
    ) -> std::result::Result<Claim, UsedLabel> {
        let mut databases = self.databases.lock();
        let labels = databases.entry(db).or_default();
        if let Some(entry) = labels.entries.get(label) {
            return Err(used(label, entry));
        }
        labels.entries.insert(label.to_owned(), Entry::Prepared(kind, txn));
        labels.running += 1;
        let (book, label, wall_micros) = (self.clone(), label.to_owned(), self.wall.wall_micros());
        Ok(Claim { book, db, label, kind, wall_micros, committed: false })
    }

    fn prepare(&self, db: DbId, label: &str, txn: TxnId) {
        let mut databases = self.databases.lock();
        // The database, and its labels with it, may have been dropped.
        let entry = databases.get_mut(&db).and_then(|labels| labels.entries.get_mut(label));
        if let Some(entry) = entry
            && let Entry::Running(kind) = *entry
        {
            *entry = Entry::Prepared(kind, txn);
        }
    }

    /// The limits at the end of the log.
    pub fn limits(&self) -> LabelLimits {
        self.limits.lock().last()
    }

    /// Enters the record of a term at `lsn`: labels behind it are kept as it says. Called in the
    /// order of the log.
    pub fn begin_term(&self, lsn: Lsn, limits: LabelLimits) {
        self.limits.lock().enter(lsn, limits);
    }

    /// The use of a label, if it is used.
    pub fn get(&self, db: DbId, label: &str) -> Option<UsedLabel> {
        let databases = self.databases.lock();
        databases.get(&db)?.entries.get(label).map(|entry| used(label, entry))
    }

    /// The finished labels of a database, in the order in which they expire.
    pub fn finished(&self, db: DbId) -> Vec<Arc<LabelRecord>> {
        let databases = self.databases.lock();
        let Some(labels) = databases.get(&db) else { return Vec::new() };
        labels.finished.values().cloned().collect()
    }

    /// The labels of a database whose loads run or wait for their commit, by name.
    pub fn running(&self, db: DbId) -> Vec<UsedLabel> {
        let databases = self.databases.lock();
        let Some(labels) = databases.get(&db) else { return Vec::new() };
        let is_running = |entry: &Entry| !matches!(entry, Entry::Finished(_));
        let running = labels.entries.iter().filter(|(_, entry)| is_running(entry));
        let mut running = running.map(|(label, entry)| used(label, entry)).collect::<Vec<_>>();
        running.sort_unstable_by(|a, b| a.label.cmp(&b.label));
        running
    }

    /// The clock by which labels age.
    pub fn clock(&self) -> &Arc<LogClock> {
        &self.clock
    }

    /// Adds the label of a replayed record; never rejects one.
    pub fn replayed(
        &self,
        db: DbId,
        label: &str,
        kind: LabelKind,
        txn: TxnId,
        lsn: Lsn,
        time: LabelTime,
    ) {
        // Labels already in the store need no change.
        if self.get(db, label).is_none_or(|used| used.lsn != Some(lsn)) {
            self.finish(db, label, kind, txn, lsn, time);
        }
    }

    fn finish(
        &self,
        db: DbId,
        label: &str,
        kind: LabelKind,
        txn: TxnId,
        lsn: Lsn,
        time: LabelTime,
    ) {
        let limits = self.limits.lock().at(lsn);
        let record = LabelRecord {
            db,
            label: label.to_owned(),
            kind,
            txn,
            lsn,
            finished_micros: time.wall_micros,
            expires_micros: limits.expires_micros(kind, time.log_micros),
        };
        let mut databases = self.databases.lock();
        databases.entry(db).or_default().insert(Arc::new(record), false);
    }

    fn release(&self, db: DbId, label: &str) {
        let mut databases = self.databases.lock();
        // The database, and its labels with it, may have been dropped.
        let Some(labels) = databases.get_mut(&db) else { return };
        if matches!(labels.entries.get(label), Some(Entry::Running(_) | Entry::Prepared(..))) {
            labels.entries.remove(label);
            labels.running -= 1;
        }
    }

    /// Removes the labels of a dropped database.
    pub(crate) fn forget(&self, db: DbId) {
        self.databases.lock().remove(&db);
    }

    /// A batch with the current time of the label clock.
    pub(crate) fn clock_batch(&self) -> Batch {
        LabelChanges { clock_micros: self.clock.now_micros(), ..LabelChanges::default() }.batch()
    }

    /// The changes that bring the store up to date with labels up to `lsn`.
    pub(crate) fn save(&self, lsn: Lsn) -> LabelChanges {
        let now_micros = self.clock.now_micros();
        let limits = Some((lsn, self.limits.lock().at(lsn)));
        let mut changes =
            LabelChanges { clock_micros: now_micros, limits, ..LabelChanges::default() };
        for (db, labels) in self.databases.lock().iter_mut() {
            labels.trim(now_micros);
            let put = labels.unsaved.range(..=lsn).map(|(_, record)| Arc::clone(record));
            let put = put.collect::<Vec<_>>();
            let again = put.iter().map(|record| record.label.as_str()).collect::<HashSet<_>>();
            let delete = labels.to_delete.iter().filter(|label| !again.contains(label.as_str()));
            changes.delete.extend(delete.map(|label| (*db, label.clone())));
            changes.put.extend(put);
        }
        // Sorted, since the order of hash maps varies: the same work must make the same disk
        // accesses.
        changes.put.sort_unstable_by_key(|record| record.lsn);
        changes.delete.sort_unstable();
        changes
    }

    /// Notes that `changes` is in the store.
    pub(crate) fn saved(&self, changes: &LabelChanges) {
        if let Some((lsn, _)) = changes.limits {
            self.limits.lock().saved(lsn);
        }
        let mut databases = self.databases.lock();
        for record in &changes.put {
            let Some(labels) = databases.get_mut(&record.db) else { continue };
            labels.to_delete.remove(&record.label);
            if labels.unsaved.remove(&record.lsn).is_none() {
                // It expired meanwhile.
                labels.to_delete.insert(record.label.clone());
            }
        }
        for (db, label) in &changes.delete {
            if let Some(labels) = databases.get_mut(db) {
                labels.to_delete.remove(label);
            }
        }
    }
}

fn full(limits: LabelLimits, wait: Duration) -> Error {
    let LabelLimits { keep, keep_streaming, finished_max, .. } = limits;
    let error = err!(
        OutOfRoom,
        "the database remembers {finished_max} labels, which is all that labels_max allows, \
         and none may be forgotten yet: those of stream loads are kept for {} of service, \
         those of statements for {}. The next place is free in {}; until then load without a \
         label, or raise labels_max",
        Readable(keep_streaming),
        Readable(keep),
        Readable(wait)
    );
    error.with_retry(Retry::After(wait))
}

/// Formats a duration for error messages.
struct Readable(Duration);

impl std::fmt::Display for Readable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0..60 => write!(f, "{}s", seconds.max(1)),
            60..3600 => write!(f, "{}m {}s", seconds / 60, seconds % 60),
            _ => write!(f, "{}h {}m", seconds / 3600, seconds / 60 % 60),
        }
    }
}

fn used(label: &str, entry: &Entry) -> UsedLabel {
    let (kind, txn, state, lsn) = match entry {
        Entry::Running(kind) => (*kind, None, LabelState::Running, None),
        Entry::Prepared(kind, txn) => (*kind, Some(*txn), LabelState::Prepared, None),
        Entry::Finished(record) => {
            (record.kind, Some(record.txn), LabelState::Visible, Some(record.lsn))
        }
    };
    UsedLabel { label: label.to_owned(), kind, txn, state, lsn }
}

/// Checks that a text may be a label.
///
/// # Errors
/// In Doris's words.
pub fn check_label(label: &str) -> Result<()> {
    let fits = (1..=LABEL_CHARS_MAX).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'));
    if !fits {
        bail!(
            WrongArguments,
            "Label format error. regex: {LABEL_REGEX}, label: {}",
            label.chars().take(LABEL_CHARS_MAX + 1).collect::<String>()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
