//! What statements that change rows have in common: their replies, and when they give up.

use freshet_ingest::{LoadTarget, Loaded};
use freshet_query::change::{Change, ChangeKind};
use freshet_schema::KeyModel;
use freshet_wire::Capabilities;

use crate::reply::Reply;
use crate::session::Session;

/// How often a statement begins again where nobody locks rows, and others write them meanwhile.
pub const TRIES_MAX: u32 = 100;

/// The error of a statement that was overtaken again and again.
pub fn overtaken(target: &LoadTarget) -> freshet_base::Error {
    freshet_base::err!(
        Deadlock,
        "others wrote the same rows of table '{}' {TRIES_MAX} times while they were changed; try \
         restarting transaction",
        target.table().name
    )
}

/// The reply to a statement that was of `matched` rows, and has changed some of them.
pub fn report(
    session: &mut Session,
    kind: &ChangeKind,
    loaded: &Loaded,
    matched: u64,
    changed: u64,
) -> Reply {
    session.acked = session.acked.max(loaded.lsn);
    if kind == &ChangeKind::Delete {
        return Reply::Done { affected: changed };
    }
    let warnings = session.diagnostics.count;
    session.info.set(format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"));
    let affected = if session.client.capabilities.contains(Capabilities::FOUND_ROWS) {
        matched
    } else {
        changed
    };
    Reply::Done { affected }
}

/// Why rows of a table cannot be changed or locked.
pub fn refused(change: &Change, target: &LoadTarget) -> freshet_base::Error {
    let (word, instead) = match &change.kind {
        ChangeKind::Update { .. } => ("UPDATE in a transaction", "INSERT"),
        ChangeKind::Delete => ("DELETE in a transaction", "TRUNCATE"),
        ChangeKind::Lock(_) => ("FOR UPDATE", "a SELECT without it"),
    };
    let name = &target.table().name;
    let (has, hint) = match target.table().key_model {
        KeyModel::Unique => (
            "has a UNIQUE KEY, whose rows nobody locks",
            "do it outside of a transaction, or load the rows that replace others",
        ),
        KeyModel::Aggregate => ("has an AGGREGATE KEY", "do it outside of a transaction"),
        _ => ("has no PRIMARY KEY", "create the table with one, or use the other statement"),
    };
    freshet_base::err!(
        NotSupported,
        "{word} is not supported for table '{name}', which {has}: {hint} ({instead})"
    )
}
