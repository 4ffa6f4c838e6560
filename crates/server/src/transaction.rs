//! Transactions of a session: rows are collected invisibly to others, and COMMIT writes them as one
//! record.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, Result, TableId, bail, err};
use freshet_ingest::{Engine, OwnRows, Savepoint, Transaction};
use freshet_meta::{Claim, LABEL_CHARS_MAX};
use freshet_storage::snapshot::Snapshot;

use crate::latest::Latest;
use crate::process::Process;
use crate::settings::Settings;

/// What a savepoint stands for.
pub struct Kept {
    pub rows: Savepoint,
    /// By the INSERTs of the transaction before it, and the table of the last one.
    pub inserted: Option<(TableId, Inserted)>,
}

/// The sums that SHOW LAST INSERT tells of a transaction.
#[derive(Clone, Copy, Default, Debug)]
pub struct Inserted {
    pub rows: u64,
    /// Rows filtered out.
    pub filtered: u64,
}

/// The most savepoints of a transaction.
const SAVEPOINTS_MAX: usize = 256;

pub struct OpenTransaction {
    inner: Transaction,
    /// Its snapshot, once it has read under REPEATABLE READ.
    snapshot: Option<Snapshot>,
    /// What the statement that runs reads of tables that it locks.
    latest: Option<Arc<Latest>>,
    /// Whether all its reads use one snapshot.
    repeatable_read: bool,
    read_only: bool,
    /// Whether a statement opened it because autocommit is off.
    implicit: bool,
    /// In the order in which they were set, with names in lower case.
    savepoints: Vec<(String, Kept)>,
}

impl OpenTransaction {
    /// The uncommitted rows, visible to its session only.
    pub fn own_rows(&self) -> &OwnRows {
        self.inner.own_rows()
    }

    /// Its snapshot, once it has read under REPEATABLE READ.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// What the statement that runs reads of tables that it locks.
    pub fn latest(&self) -> Option<&Arc<Latest>> {
        self.latest.as_ref()
    }
}

/// A transaction that the server rolled back on its idle timeout. Until the client ends it by
/// COMMIT (which fails) or ROLLBACK, reads and writes are refused: a statement would commit on its
/// own although the client believes it to be part of the transaction.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut {
    /// The timeout.
    patience: Duration,
    /// The number of its uncommitted rows.
    rows: u64,
    /// Whether a statement opened it because autocommit is off.
    implicit: bool,
}

impl TimedOut {
    fn error(self) -> Error {
        let Self { patience, rows, .. } = self;
        err!(
            LockWaitTimeout,
            "The transaction was rolled back, since it was idle for longer than \
             idle_transaction_timeout ({} s): none of its {rows} rows are stored; end it with \
             ROLLBACK and begin again",
            patience.as_secs()
        )
    }
}

/// Why a session may neither read nor write until its client says ROLLBACK or COMMIT.
#[derive(Clone, Debug)]
enum Lost {
    TimedOut(TimedOut),
    /// BEGIN WITH LABEL was refused: what follows would be committed statement by statement,
    /// although the client believes it to be one transaction.
    Refused(String),
}

impl Lost {
    fn error(&self) -> Error {
        match self {
            Self::TimedOut(lost) => lost.error(),
            Self::Refused(label) => err!(
                InTransaction,
                "BEGIN WITH LABEL {label} was refused, so there is no transaction that this \
                 statement could be part of; end it with ROLLBACK and begin again"
            ),
        }
    }
}

/// SET TRANSACTION without a scope, which applies to the next transaction only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTransaction {
    pub repeatable_read: Option<bool>,
    pub read_only: Option<bool>,
}

/// BEGIN, COMMIT or ROLLBACK without any options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    Begin,
    Commit,
    Rollback,
}

impl Control {
    /// Recognises such a text without the parser.
    pub fn of(sql: &[u8]) -> Option<Self> {
        let text = sql.trim_ascii();
        let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        if is("commit") {
            Some(Self::Commit)
        } else if is("rollback") {
            Some(Self::Rollback)
        } else if is("begin") || is("start transaction") {
            Some(Self::Begin)
        } else {
            None
        }
    }
}

/// The options of BEGIN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    pub label: Option<String>,
    pub read_only: bool,
}

/// The open transaction of a session, if any, and the characteristics of the next one.
pub struct Transactions {
    process: Arc<Process>,
    open: Option<OpenTransaction>,
    /// How many have been opened.
    opened: u64,
    lost: Option<Lost>,
    /// SET TRANSACTION without a scope.
    pub next: NextTransaction,
    /// Whether UNLOCK TABLES commits: LOCK TABLES was the last of these that the client sent.
    pub locks_tables: bool,
}

impl Transactions {
    pub fn new(process: &Arc<Process>) -> Self {
        let (process, next) = (Arc::clone(process), NextTransaction::default());
        Self { process, open: None, opened: 0, lost: None, next, locks_tables: false }
    }

    pub fn open(&self) -> Option<&OpenTransaction> {
        self.open.as_ref()
    }

    /// The number of the open transaction among those of the session.
    pub fn number(&self) -> Option<u64> {
        self.open.as_ref().map(|_| self.opened)
    }

    /// What a transaction is like that follows the open one with AND CHAIN.
    pub fn chained(&self) -> NextTransaction {
        match &self.open {
            Some(open) => NextTransaction {
                repeatable_read: Some(open.repeatable_read),
                read_only: Some(open.read_only),
            },
            None => self.next,
        }
    }

    /// Whether the transaction, open or timed out, was opened because autocommit is off.
    pub fn is_implicit(&self) -> bool {
        let lost = matches!(&self.lost, Some(Lost::TimedOut(TimedOut { implicit: true, .. })));
        lost || self.open.as_ref().is_some_and(|open| open.implicit)
    }

    /// Opens a transaction for BEGIN.
    ///
    /// # Errors
    /// When no ids can be allocated.
    pub fn begin(
        &mut self,
        engine: &Engine,
        settings: &Settings,
        claim: Option<Claim>,
        read_only: bool,
    ) -> Result<()> {
        let next = std::mem::take(&mut self.next);
        self.opened += 1;
        self.open = Some(OpenTransaction {
            inner: engine.begin_transaction(claim),
            snapshot: None,
            latest: None,
            repeatable_read: next.repeatable_read.unwrap_or(settings.repeatable_read),
            read_only: read_only || next.read_only.unwrap_or(settings.read_only),
            implicit: false,
            savepoints: Vec::new(),
        });
        let open = self.open.as_ref().expect("just opened");
        let (repeatable_read, read_only) = (open.repeatable_read, open.read_only);
        let now_micros = engine.clock().wall_micros();
        self.process.begin_transaction(now_micros, repeatable_read, read_only);
        Ok(())
    }

    /// Opens a transaction because autocommit is off.
    fn begin_implicit(&mut self, engine: &Engine, settings: &Settings) -> Result<()> {
        self.begin(engine, settings, None, false)?;
        self.open.as_mut().expect("just opened").implicit = true;
        Ok(())
    }

    /// Called before a statement reads: a REPEATABLE READ transaction takes its snapshot at its
    /// first read.
    ///
    /// # Errors
    /// When no ids can be allocated.
    pub fn before_read(&mut self, engine: &Engine, settings: &Settings) -> Result<()> {
        let repeatable_read = self.next.repeatable_read.unwrap_or(settings.repeatable_read);
        if self.open.is_none() && repeatable_read && !settings.autocommit {
            self.begin_implicit(engine, settings)?;
        }
        if let Some(open) = &mut self.open
            && open.repeatable_read
            && open.snapshot.is_none()
        {
            open.snapshot = Some(engine.snapshot(settings.freshness));
        }
        Ok(())
    }

    /// Lets the open transaction read one snapshot, that of now; false if it does so anyway.
    pub fn pin(&mut self, engine: &Engine, settings: &Settings) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| !open.repeatable_read) else {
            return false;
        };
        open.snapshot = Some(engine.snapshot(settings.freshness));
        true
    }

    /// Lets it read what is committed, behind [`Self::pin`].
    pub fn unpin(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| !open.repeatable_read) {
            open.snapshot = None;
        }
    }

    /// Lets the open transaction read these tables as they are now, until it is told otherwise.
    pub fn read_latest(&mut self, latest: Option<Latest>) {
        if let Some(open) = &mut self.open {
            open.latest = latest.map(Arc::new);
        }
    }

    /// Lets its next read be its first one: what that reads is younger.
    pub fn forget_snapshot(&mut self) {
        if let Some(open) = &mut self.open {
            open.snapshot = None;
        }
    }

    /// Whether a statement that only reads sees what is committed when it begins, and nothing else:
    /// no snapshot of its transaction, and no rows that it has changed.
    pub fn reads_anew(&self, settings: &Settings) -> bool {
        let repeatable_read = self.next.repeatable_read.unwrap_or(settings.repeatable_read);
        match &self.open {
            _ if self.lost.is_some() => false,
            Some(open) => !open.repeatable_read && open.own_rows().is_empty(),
            None => settings.autocommit || !repeatable_read,
        }
    }

    /// Called before a statement writes: the uncommitted rows of the transaction it belongs to.
    ///
    /// # Errors
    /// 1792 in a read-only transaction, also one of a single statement; 1205 after an idle timeout,
    /// until the client ends the transaction.
    pub fn writable(&mut self, engine: &Engine, settings: &Settings) -> Result<Option<&OwnRows>> {
        self.check_alive()?;
        if self.open.is_none() && !settings.autocommit {
            self.begin_implicit(engine, settings)?;
        }
        let read_only = match &self.open {
            Some(open) => open.read_only,
            None => {
                let next = std::mem::take(&mut self.next);
                next.read_only.unwrap_or(settings.read_only)
            }
        };
        if read_only {
            bail!(ReadOnlyTransaction, "Cannot execute statement in a READ ONLY transaction.");
        }
        Ok(self.open.as_ref().map(OpenTransaction::own_rows))
    }

    /// The rows of the open transaction, which begins here if autocommit is off.
    ///
    /// # Errors
    /// When no ids can be allocated.
    pub fn own_rows(&mut self, engine: &Engine, settings: &Settings) -> Result<Option<&OwnRows>> {
        if self.open.is_none() && !settings.autocommit {
            self.begin_implicit(engine, settings)?;
        }
        Ok(self.open.as_ref().map(OpenTransaction::own_rows))
    }

    /// SAVEPOINT: replaces one of the same name.
    ///
    /// # Errors
    /// 1041 when there are too many.
    pub fn set_savepoint(&mut self, name: &str, kept: Kept) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let name = name.to_lowercase();
        open.savepoints.retain(|(known, _)| *known != name);
        if open.savepoints.len() >= SAVEPOINTS_MAX {
            bail!(
                OutOfRoom,
                "a transaction has at most {SAVEPOINTS_MAX} savepoints; RELEASE those that are not \
                 needed"
            );
        }
        open.savepoints.push((name, kept));
        Ok(())
    }

    /// ROLLBACK TO: takes back what was written since the savepoint, which stays. Returns what was
    /// inserted before it.
    ///
    /// # Errors
    /// 1305 for an unknown one; 1205 after an idle timeout.
    pub fn roll_back_to(&mut self, name: &str) -> Result<Option<(TableId, Inserted)>> {
        let (open, at) = self.savepoint(name)?;
        open.savepoints.truncate(at + 1);
        let kept = &open.savepoints[at].1;
        open.inner.own_rows().restore(&kept.rows);
        Ok(kept.inserted)
    }

    /// RELEASE SAVEPOINT: forgets it and those after it.
    ///
    /// # Errors
    /// As [`Self::roll_back_to`].
    pub fn release(&mut self, name: &str) -> Result<()> {
        let (open, at) = self.savepoint(name)?;
        open.savepoints.truncate(at);
        Ok(())
    }

    fn savepoint(&mut self, name: &str) -> Result<(&mut OpenTransaction, usize)> {
        self.check_alive()?;
        let wanted = name.to_lowercase();
        let open = self.open.as_mut();
        let found = open.and_then(|open| {
            let at = open.savepoints.iter().position(|(known, _)| *known == wanted)?;
            Some((open, at))
        });
        found.ok_or_else(|| err!(UnknownFunction, "SAVEPOINT {name} does not exist"))
    }

    /// Takes the open transaction to commit it.
    ///
    /// # Errors
    /// 1205 if it was rolled back on its idle timeout.
    pub fn take(&mut self) -> Result<Option<Transaction>> {
        if let Some(lost) = self.lost.take() {
            return Err(lost.error());
        }
        let open = self.open.take();
        self.process.end_transaction();
        Ok(open.map(|open| open.inner))
    }

    /// ROLLBACK; without a transaction it does nothing.
    pub fn roll_back(&mut self) {
        self.lost = None;
        self.open = None;
        self.process.end_transaction();
    }

    /// Rolls the open transaction back after its idle timeout `patience`, and remembers it as
    /// [`TimedOut`]. A transaction without rows or snapshot stays open.
    pub fn time_out(&mut self, patience: Duration) {
        let holds = |open: &OpenTransaction| {
            open.snapshot.is_some() || open.inner.is_labelled() || !open.own_rows().is_empty()
        };
        let Some(open) = self.open.take_if(|open| holds(open)) else { return };
        let (rows, implicit) = (open.own_rows().rows(), open.implicit);
        self.roll_back();
        self.lost = Some(Lost::TimedOut(TimedOut { patience, rows, implicit }));
    }

    /// Refuses reads and writes after an idle timeout and after a BEGIN that was refused, until the
    /// client ends the transaction.
    ///
    /// # Errors
    /// 1205 after an idle timeout.
    pub fn check_alive(&self) -> Result<()> {
        match &self.lost {
            Some(lost) => Err(lost.error()),
            None => Ok(()),
        }
    }

    /// Notes that BEGIN WITH LABEL was refused.
    pub fn refuse(&mut self, label: &str) {
        self.roll_back();
        self.lost = Some(Lost::Refused(label.chars().take(LABEL_CHARS_MAX).collect()));
    }

    /// Forgets that a BEGIN was refused, for the next one.
    pub fn forget_refused(&mut self) {
        self.lost.take_if(|lost| matches!(lost, Lost::Refused(_)));
    }

    /// Whether a transaction is open that began WITH LABEL.
    pub fn is_labelled(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.inner.is_labelled())
    }

    /// Refuses what is not allowed in labelled transactions, as in Doris.
    ///
    /// # Errors
    /// In a transaction opened by BEGIN WITH LABEL, and where that was refused.
    pub fn check_unlabelled(&self) -> Result<()> {
        if let Some(refused @ Lost::Refused(_)) = &self.lost {
            return Err(refused.error());
        }
        match self.is_labelled() {
            true => Err(err!(
                InTransaction,
                "This is in a transaction, only insert, update, delete, commit, rollback is \
                 acceptable."
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Control;

    #[test]
    fn plain_words_need_no_parser() {
        assert_eq!(Control::of(b" Commit ; "), Some(Control::Commit));
        assert_eq!(Control::of(b"START TRANSACTION"), Some(Control::Begin));
        assert_eq!(Control::of(b"rollback"), Some(Control::Rollback));
        assert_eq!(Control::of(b"start transaction read only"), None);
        assert_eq!(Control::of(b"commit; select 1"), None);
    }
}
