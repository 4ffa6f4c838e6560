//! Transactions of a session: rows gather unseen by others, COMMIT makes them one record.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, Result, bail, err};
use freshet_ingest::{Engine, OwnRows, Transaction};
use freshet_meta::Claim;
use freshet_storage::snapshot::Snapshot;

use crate::process::Process;
use crate::settings::Settings;

/// An open transaction.
pub struct OpenTransaction {
    /// It, as the engine has it.
    inner: Transaction,
    /// What it reads, when it reads one state all the time.
    snapshot: Option<Snapshot>,
    /// Whether it reads one state all the time.
    repeatable_read: bool,
    /// Whether it takes no writes.
    read_only: bool,
    /// Whether it was opened by a statement because autocommit is off.
    implicit: bool,
}

impl OpenTransaction {
    /// The rows that only its session reads.
    pub fn own_rows(&self) -> &OwnRows {
        self.inner.own_rows()
    }

    /// What it reads, when it reads one state all the time.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }
}

/// A transaction that the server rolled back because its client was silent. Until the client has
/// ended it, by COMMIT (which fails) or ROLLBACK, nothing is read or written: a statement that ran
/// would commit by itself, and the client would take it for a part of the transaction.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut {
    /// How long it could be silent.
    patience: Duration,
    /// How many rows it had.
    rows: u64,
    /// Whether it was opened by a statement because autocommit is off.
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

/// What SET TRANSACTION without a scope says of the next transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTransaction {
    /// Whether it reads one state all the time, if that was said.
    pub repeatable_read: Option<bool>,
    /// Whether it takes no writes, if that was said.
    pub read_only: Option<bool>,
}

/// A statement that only opens or ends a transaction, in its plainest form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
}

impl Control {
    /// What a text says, if that is all it says: no parser is needed then.
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

/// What BEGIN asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// WITH LABEL.
    pub label: Option<String>,
    /// READ ONLY.
    pub read_only: bool,
}

/// The transaction of a session, if it has one, and what the next one is to be.
pub struct Transactions {
    process: Arc<Process>,
    open: Option<OpenTransaction>,
    timed_out: Option<TimedOut>,
    /// What SET TRANSACTION said of the next one alone.
    pub next: NextTransaction,
}

impl Transactions {
    /// None yet.
    pub fn new(process: &Arc<Process>) -> Self {
        let (process, next) = (Arc::clone(process), NextTransaction::default());
        Self { process, open: None, timed_out: None, next }
    }

    /// The one that is open.
    pub fn open(&self) -> Option<&OpenTransaction> {
        self.open.as_ref()
    }

    /// Whether the one that is open, or was rolled back, was opened because autocommit is off.
    pub fn is_implicit(&self) -> bool {
        let lost = self.timed_out.as_ref().is_some_and(|lost| lost.implicit);
        lost || self.open.as_ref().is_some_and(|open| open.implicit)
    }

    /// Opens one that BEGIN asks for.
    ///
    /// # Errors
    /// When no ids can be had.
    pub fn begin(
        &mut self,
        engine: &Engine,
        settings: &Settings,
        claim: Option<Claim>,
        read_only: bool,
    ) -> Result<()> {
        let next = std::mem::take(&mut self.next);
        self.open = Some(OpenTransaction {
            inner: engine.begin_transaction(claim)?,
            snapshot: None,
            repeatable_read: next.repeatable_read.unwrap_or(settings.repeatable_read),
            read_only: read_only || next.read_only.unwrap_or(settings.read_only),
            implicit: false,
        });
        self.process.set_in_transaction(true);
        Ok(())
    }

    /// Opens one because autocommit is off.
    fn begin_implicit(&mut self, engine: &Engine, settings: &Settings) -> Result<()> {
        self.begin(engine, settings, None, false)?;
        self.open.as_mut().expect("just opened").implicit = true;
        Ok(())
    }

    /// To be called before a statement reads: a REPEATABLE READ transaction begins there, and
    /// reads one state from there on.
    ///
    /// # Errors
    /// When no ids can be had.
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

    /// To be called before a statement writes: the rows of the transaction that it belongs to.
    ///
    /// # Errors
    /// 1792 in a transaction that takes no writes, and where a statement is such a transaction;
    /// 1205 while a transaction that was rolled back is not ended.
    pub fn writable(&mut self, engine: &Engine, settings: &Settings) -> Result<Option<&OwnRows>> {
        if let Some(lost) = self.timed_out {
            return Err(lost.error());
        }
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

    /// Takes the one that is open, to be committed.
    ///
    /// # Errors
    /// 1205 where it was rolled back already.
    pub fn take(&mut self) -> Result<Option<Transaction>> {
        if let Some(lost) = self.timed_out.take() {
            return Err(lost.error());
        }
        let open = self.open.take();
        self.process.set_in_transaction(false);
        Ok(open.map(|open| open.inner))
    }

    /// ROLLBACK. Without a transaction it does nothing.
    pub fn roll_back(&mut self) {
        self.timed_out = None;
        self.open = None;
        self.process.set_in_transaction(false);
    }

    /// Rolls the open transaction back because its client has been silent for `patience`, and
    /// remembers that for the client. One that holds nothing loses nothing, and stays.
    pub fn time_out(&mut self, patience: Duration) {
        let holds = |open: &OpenTransaction| {
            open.snapshot.is_some() || open.inner.is_labelled() || !open.own_rows().is_empty()
        };
        let Some(open) = self.open.take_if(|open| holds(open)) else { return };
        let (rows, implicit) = (open.own_rows().rows(), open.implicit);
        self.roll_back();
        self.timed_out = Some(TimedOut { patience, rows, implicit });
    }

    /// Refuses to read or write for a transaction that was rolled back, until the client ends it.
    ///
    /// # Errors
    /// 1205.
    pub fn check_alive(&self) -> Result<()> {
        match self.timed_out {
            Some(lost) => Err(lost.error()),
            None => Ok(()),
        }
    }

    /// Refuses what Doris's labelled transactions do not take.
    ///
    /// # Errors
    /// In a transaction that BEGIN WITH LABEL opened.
    pub fn check_unlabelled(&self) -> Result<()> {
        match &self.open {
            Some(open) if open.inner.is_labelled() => Err(err!(
                InTransaction,
                "This is in a transaction, only insert, update, delete, commit, rollback is \
                 acceptable."
            )),
            _ => Ok(()),
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
