//! Transactions of a session: rows gather unseen by others, COMMIT makes them one record.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Error, Result, bail, err};
use freshet_ingest::{LabelClaim, Transaction, names};
use freshet_meta::{ClaimOutcome, LabelKind};
use freshet_storage::snapshot::Snapshot;
use parking_lot::Mutex;

use crate::insert::{Reply, Target};
use crate::session::Session;
use crate::statement::told;

/// An open transaction.
pub struct OpenTransaction {
    /// Its rows; shared with the statement that reads them.
    pub rows: Arc<Mutex<Transaction>>,
    /// Its label, where BEGIN gave one.
    label: Option<LabelClaim>,
    /// Its label in replies.
    label_text: String,
    /// What it reads, when it reads one state all the time.
    pub snapshot: Option<Snapshot>,
    /// Whether it reads one state all the time.
    repeatable_read: bool,
    /// Whether it takes no writes.
    read_only: bool,
    /// Whether it was opened by a statement because autocommit is off.
    pub implicit: bool,
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
    pub implicit: bool,
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

    /// Does it.
    ///
    /// # Errors
    /// Those of [`begin`] and [`commit`].
    pub async fn run(self, session: &mut Session) -> Result<()> {
        session.info.clear();
        match self {
            Self::Begin => begin(session, &Begin::default()).await,
            Self::Commit => commit(session).await,
            Self::Rollback => {
                roll_back(session);
                Ok(())
            }
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

/// BEGIN: commits the transaction that is open and opens another one.
///
/// # Errors
/// Those of the commit; a label that is none or is used.
pub async fn begin(session: &mut Session, begin: &Begin) -> Result<()> {
    commit(session).await?;
    session.info.clear();
    let label = match &begin.label {
        Some(label) => Some(claim(session, label).await?),
        None => None,
    };
    if let Some(text) = &begin.label {
        session.info.set(format!("{{'label':'{text}', 'status':'PREPARE', 'txnId':''}}"));
    }
    open(session, label, begin.read_only, false)
}

async fn claim(session: &Session, label: &str) -> Result<LabelClaim> {
    let engine = &session.shared.engine;
    let database = session.database_of(None)?;
    let db = engine.catalog().require_database(database)?.id;
    let kind = LabelKind::Statement;
    match engine.meta().labels().claim(db, label, kind, None)? {
        ClaimOutcome::New(claim) => Ok(LabelClaim { db, kind, claim }),
        ClaimOutcome::Used(used) => {
            if let Some(lsn) = used.lsn {
                engine.horizon().wait(lsn).await;
            }
            Err(used.into())
        }
    }
}

fn open(
    session: &mut Session,
    label: Option<LabelClaim>,
    read_only: bool,
    implicit: bool,
) -> Result<()> {
    let label_text = match &label {
        Some(label) => label.claim.label().to_owned(),
        None => names::transaction_label(session.shared.engine.meta().ids().txn()?),
    };
    let next = std::mem::take(&mut session.next_transaction);
    session.transaction = Some(OpenTransaction {
        rows: Arc::default(),
        label,
        label_text,
        snapshot: None,
        repeatable_read: next.repeatable_read.unwrap_or(session.settings.repeatable_read),
        read_only: read_only || next.read_only.unwrap_or(session.settings.read_only),
        implicit,
    });
    session.process.set_in_transaction(true);
    Ok(())
}

/// Opens a transaction if the session has none and its statements belong to one.
fn ensure_open(session: &mut Session) -> Result<()> {
    if session.transaction.is_none() && !session.settings.autocommit {
        open(session, None, false, true)?;
    }
    Ok(())
}

/// To be called before a statement reads: what the session was told is in what it reads, and a
/// REPEATABLE READ transaction begins there, and reads one state from there on.
///
/// # Errors
/// When no ids can be had; 1205 while a transaction that was rolled back is not ended.
pub async fn before_read(session: &mut Session) -> Result<()> {
    check_alive(session)?;
    told(session).await;
    let wanted = session.next_transaction.repeatable_read;
    if session.transaction.is_none() && wanted.unwrap_or(session.settings.repeatable_read) {
        ensure_open(session)?;
    }
    pin(session);
    Ok(())
}

fn pin(session: &mut Session) {
    let freshness = session.settings.freshness;
    let engine = &session.shared.engine;
    if let Some(open) = &mut session.transaction
        && open.repeatable_read
        && open.snapshot.is_none()
    {
        open.snapshot = Some(engine.snapshot(freshness));
    }
}

/// To be called before a statement writes.
///
/// # Errors
/// 1792 in a transaction that takes no writes, and where a statement is such a transaction; 1205
/// while a transaction that was rolled back is not ended.
pub fn check_writable(session: &mut Session) -> Result<()> {
    check_alive(session)?;
    ensure_open(session)?;
    let read_only = match &session.transaction {
        Some(open) => open.read_only,
        None => {
            let next = std::mem::take(&mut session.next_transaction);
            next.read_only.unwrap_or(session.settings.read_only)
        }
    };
    if read_only {
        bail!(ReadOnlyTransaction, "Cannot execute statement in a READ ONLY transaction.");
    }
    Ok(())
}

/// Adds the rows of the session's buffer to its transaction.
///
/// # Errors
/// 1041 where it would grow too large or no memory is left; a label, which belongs to BEGIN.
pub async fn add(session: &mut Session, target: &Target, rows: u32, reply: Reply) -> Result<u64> {
    let engine = &session.shared.engine;
    let open = session.transaction.as_ref().expect("opened when it was seen to be writable");
    if let Reply::Labelled(given) = &reply
        && given.claim.label() != open.label_text
    {
        bail!(InTransaction, "Transaction insert expect label {}", open.label_text);
    }
    let bytes = session.buffer.rows().len();
    engine.check_transaction(&open.rows.lock(), bytes)?;
    let patience = Deadline::after(&**engine.clock(), engine.config().load_patience);
    let held = engine.admission().hold(bytes as u64, patience).await?;
    let schema = target.plan.schema();
    open.rows.lock().add(&target.state, schema, rows, &session.buffer, held);
    let text = format!("{{'label':'{}', 'status':'PREPARE', 'txnId':''}}", open.label_text);
    session.info.set(text);
    session.row_count = i64::from(rows);
    Ok(u64::from(rows))
}

/// Looks ahead: whether the session's transaction may grow by so many bytes of rows.
///
/// # Errors
/// 1041 where it may not.
pub fn check_room(session: &Session, bytes: usize) -> Result<()> {
    let engine = &session.shared.engine;
    match &session.transaction {
        Some(open) => engine.check_transaction(&open.rows.lock(), bytes),
        None => engine.check_transaction(&Transaction::default(), bytes),
    }
}

/// COMMIT, also the one that DDL and BEGIN imply. Without a transaction it does nothing.
///
/// # Errors
/// No room in the log in time, a table dropped meanwhile, 1205 where it was rolled back already:
/// the transaction is gone then and nothing of it happened.
pub async fn commit(session: &mut Session) -> Result<()> {
    session.info.clear();
    if let Some(lost) = session.timed_out.take() {
        return Err(lost.error());
    }
    let Some(open) = session.transaction.take() else { return Ok(()) };
    session.process.set_in_transaction(false);
    let OpenTransaction { rows, label, label_text, .. } = open;
    let rows = std::mem::take(&mut *rows.lock());
    let engine = &session.shared.engine;
    let patience = engine.config().load_patience;
    if let Some(appended) = engine.commit(rows, label, patience).await? {
        session.acked = session.acked.max(appended.lsn);
        let txn = appended.txn;
        let text = format!("{{'label':'{label_text}', 'status':'VISIBLE', 'txnId':'{txn}'}}");
        session.info.set(text);
    }
    Ok(())
}

/// ROLLBACK. Without a transaction it does nothing.
pub fn roll_back(session: &mut Session) {
    session.timed_out = None;
    session.transaction = None;
    session.process.set_in_transaction(false);
}

/// Rolls the open transaction back because its client is silent, and remembers that for the
/// client. One that holds nothing loses nothing, and stays.
pub fn time_out(session: &mut Session) {
    let holds = |open: &OpenTransaction| {
        open.snapshot.is_some() || open.label.is_some() || !open.rows.lock().is_empty()
    };
    let Some(open) = session.transaction.take_if(|open| holds(open)) else { return };
    let (rows, implicit) = (open.rows.lock().rows(), open.implicit);
    let patience = session.settings.idle_transaction_timeout;
    roll_back(session);
    session.timed_out = Some(TimedOut { patience, rows, implicit });
}

/// Refuses to read or write for a transaction that was rolled back, until the client ends it.
///
/// # Errors
/// 1205.
pub fn check_alive(session: &Session) -> Result<()> {
    match session.timed_out {
        Some(lost) => Err(lost.error()),
        None => Ok(()),
    }
}

/// Refuses what Doris's labelled transactions do not take.
///
/// # Errors
/// In a transaction that BEGIN WITH LABEL opened.
pub fn check_unlabelled(session: &Session) -> Result<()> {
    match &session.transaction {
        Some(open) if open.label.is_some() => Err(err!(
            InTransaction,
            "This is in a transaction, only insert, update, delete, commit, rollback is \
             acceptable."
        )),
        _ => Ok(()),
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
