//! What statements that change rows have in common: their replies, and when they give up.

use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Lsn, Result, bail};
use freshet_ingest::{LoadTarget, Loaded, names};
use freshet_meta::{Object, Privilege};
use freshet_query::change::{Change, ChangeKind, Columns, LockWait, Reads};
use freshet_query::through::Through;
use freshet_schema::{KeyModel, TableForm};
use freshet_wire::Capabilities;

use crate::reply::{Reply, check_running};
use crate::session::{Session, Told};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The tries of a statement that begins again where nobody locks rows, and others write them, or
/// alter their table, meanwhile.
pub struct Tries {
    told: Told,
    patience: Duration,
    until: Deadline,
    count: u64,
    /// Whether its transaction had read its snapshot before.
    has_read: bool,
}

impl Tries {
    /// It waits as long as for rows that others lock.
    pub fn begin(session: &Session) -> Self {
        let patience = session.settings.lock_wait;
        let until = Deadline::after(&**session.shared.engine.clock(), patience);
        let has_read = session.transactions.open().is_some_and(|open| open.snapshot().is_some());
        Self { told: session.told(), patience, until, count: 0, has_read }
    }

    pub fn is_first(&self) -> bool {
        self.count == 0
    }

    /// Notes that a try was overtaken.
    ///
    /// # Errors
    /// 1213 when it took too long, and at once in a transaction whose snapshot has rows that are
    /// not there any more, of a table without keys; 1317 and 3024.
    pub async fn again(&mut self, session: &mut Session, target: &LoadTarget) -> Result<()> {
        check_running(session)?;
        self.count += 1;
        if !self.has_read {
            session.transactions.forget_snapshot();
        } else if !target.table().key_model.is_keyed() {
            bail!(
                Deadlock,
                "others changed rows of table '{}' since this transaction began to read; try \
                 restarting transaction",
                target.table().name
            );
        }
        if self.until.left(&**session.shared.engine.clock()).is_zero() {
            bail!(
                Deadlock,
                "others wrote the same rows of table '{}' while they were changed, {} times in \
                 {} s (innodb_lock_wait_timeout); try restarting transaction",
                target.table().name,
                self.count,
                self.patience.as_secs()
            );
        }
        session.forget_since(&self.told)?;
        session.shared.engine.clock().sleep(PAUSE).await;
        Ok(())
    }
}

/// The columns of a table, or of the view that it is changed through, and what its keys begin with.
struct ColumnsOf<'a>(&'a LoadTarget, Option<&'a Through>);

impl Columns for ColumnsOf<'_> {
    fn is_column(&self, name: &str) -> bool {
        match self.1 {
            None => self.0.schema().position(name).is_some(),
            Some(view) => view.names().any(|known| known.eq_ignore_ascii_case(name)),
        }
    }

    fn begins_key(&self, name: &str) -> bool {
        let (table, schema) = (self.0.table(), self.0.schema());
        let name = self.1.map_or(Some(name), |view| view.below(name));
        let Some(at) = name.and_then(|name| schema.position(name)) else { return false };
        let declared = table.declared_keys.iter();
        let mut first = declared.filter_map(|key| key.columns.first());
        let is_sorted = table.form == TableForm::Olap && schema.sort_key.first() == Some(&at);
        is_sorted || first.any(|id| *id == schema.columns[at].id)
    }
}

/// Whether the table that a statement changes is read as by a SELECT. Otherwise it reads columns
/// that it may read, or none.
///
/// # Errors
/// 1142 and 1143.
pub fn reads(session: &Session, change: &Change, target: &LoadTarget) -> Result<bool> {
    let view = change.view.as_deref();
    let read = change.reads(&ColumnsOf(target, view));
    if view.is_some() {
        // What is behind it is read with the rights of the view.
        if !matches!(&read, Reads::Columns(columns) if columns.is_empty()) {
            let database = session.database_of(change.target.database.as_deref())?;
            let view = Object::Table(database, &change.target.table);
            session.authorize(Privilege::Select, view)?;
        }
        return Ok(true);
    }
    // A view may read the table, with the rights of the user.
    let catalog = session.shared.engine.catalog();
    let is_of_user = |database: Option<&str>, name: &str| {
        let view = database.or(session.database.as_deref()).map(|home| catalog.view(home, name));
        view.flatten().is_some_and(|view| view.invoker)
    };
    let columns = match read {
        Reads::Table => return Ok(true),
        Reads::Columns(_) if change.has_subquery_of(is_of_user) => return Ok(true),
        Reads::Columns(columns) if columns.is_empty() => return Ok(false),
        Reads::Columns(columns) => columns,
    };
    let database = session.database_of(change.target.database.as_deref())?;
    let place = (database, change.target.table.as_str());
    session.check_columns(Privilege::Select, place, columns.iter().map(String::as_str))?;
    Ok(false)
}

/// Refuses a change that neither a key nor LIMIT narrows, where the session wants that.
///
/// # Errors
/// 1175.
pub fn check_safe(session: &Session, change: &Change, target: &LoadTarget) -> Result<()> {
    if session.settings.safe_updates
        && !change.is_narrow(&ColumnsOf(target, change.view.as_deref()))
    {
        bail!(
            UpdateWithoutKey,
            "You are using safe update mode and you tried to update a table without a WHERE that \
             uses a KEY column."
        );
    }
    Ok(())
}

/// The reply to a statement that has changed rows of one table, as [`affected`].
pub fn report(
    session: &mut Session,
    kind: &ChangeKind,
    (target, loaded): (&LoadTarget, &Loaded),
    matched: u64,
    changed: u64,
) -> Reply {
    let affected = affected(session, kind, loaded.lsn, matched, changed);
    if let (ChangeKind::Delete, TableForm::Olap, Some(txn)) =
        (kind, target.table().form, loaded.txn)
    {
        let label = names::delete_label(txn);
        session.info.set(format!("{{'label':'{label}', 'status':'VISIBLE', 'txnId':'{txn}'}}"));
    }
    Reply::Done { affected }
}

/// Notes that a statement was of `matched` rows, and has changed some of them, with what is in the
/// log up to this LSN; returns how many its client is told.
pub fn affected(
    session: &mut Session,
    kind: &ChangeKind,
    lsn: Lsn,
    matched: u64,
    changed: u64,
) -> u64 {
    session.acked = session.acked.max(lsn);
    if kind == &ChangeKind::Delete {
        return changed;
    }
    let warnings = session.diagnostics.count;
    session.info.set(format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"));
    match session.client.capabilities.contains(Capabilities::FOUND_ROWS) {
        true => matched,
        false => changed,
    }
}

/// Why rows of a table cannot be changed or locked.
pub fn refused(change: &Change, target: &LoadTarget) -> freshet_base::Error {
    let (word, instead) = match &change.kind {
        ChangeKind::Update { .. } => ("UPDATE in a transaction", "INSERT"),
        ChangeKind::Delete => ("DELETE in a transaction", "TRUNCATE"),
        ChangeKind::Lock { wait: LockWait::Skip, .. } => {
            ("FOR UPDATE SKIP LOCKED", "FOR UPDATE, which locks the table")
        }
        ChangeKind::Lock { .. } => ("FOR UPDATE", "a SELECT without it"),
    };
    let name = &target.table().name;
    let (has, hint) = match target.table().key_model {
        KeyModel::Aggregate => ("has an AGGREGATE KEY", "do it outside of a transaction"),
        _ => ("has no PRIMARY KEY", "create the table with one, or use the other statement"),
    };
    freshet_base::err!(
        NotSupported,
        "{word} is not supported for table '{name}', which {has}: {hint} ({instead})"
    )
}
