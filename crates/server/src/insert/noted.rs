//! What is remembered of INSERTs with a label, and of those that leave out rows.

use freshet_base::{Error, ErrorCode, Result};
use freshet_ingest::Loaded;
use freshet_meta::check_label;
use freshet_query::parser::Insert;
use freshet_query::syntax::TableName;
use freshet_schema::Table;

use crate::load_book::LoadNote;
use crate::session::Session;

/// Remembers an INSERT that has ended: a labelled one for SHOW LOAD, and the rows that it has left
/// out.
pub fn note_labelled(session: &mut Session, table: &Table, loaded: &Loaded, rows: u64) {
    let catalog = session.shared.engine.catalog();
    let Some(database) = catalog.database_by_id(table.db) else { return };
    let note = LoadNote {
        label: loaded.label(),
        txn: loaded.txn,
        status: "Success",
        rows_total: rows,
        rows_loaded: rows,
        ..session.note_of(&database.name, &table.name)
    };
    session.note_load(note);
}

/// Remembers an INSERT if it has a label and has failed.
pub fn note_if_failed<T>(session: &mut Session, insert: &Insert, done: &Result<T>) {
    if let (Some(label), Err(error)) = (&insert.label, done) {
        let TableName { database, table } = &insert.table;
        note_failed(session, (database.as_deref(), table), label, error);
    }
}

/// Remembers a labelled INSERT that has failed. One whose label is refused is no load of that
/// label: who asks for the newest one is told of the load that has it.
pub fn note_failed(
    session: &mut Session,
    (database, table): (Option<&str>, &str),
    label: &str,
    error: &Error,
) {
    let is_refused = error.code() == ErrorCode::LabelUsed || check_label(label).is_err();
    let Ok(database) = session.database_of(database) else { return };
    if is_refused {
        return;
    }
    let note = LoadNote {
        label: label.to_owned(),
        status: "Fail",
        message: error.message().to_owned(),
        ..session.note_of(database, table)
    };
    session.note_load(note);
}
