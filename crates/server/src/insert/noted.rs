//! What is remembered of INSERTs with a label, and of those that leave out rows.

use freshet_base::Error;
use freshet_ingest::Loaded;
use freshet_schema::Table;

use crate::load_book::{LoadKind, LoadNote};
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
        ..note_of(session, &database.name, &table.name)
    };
    add(session, note);
}

/// Remembers a labelled INSERT that has failed.
pub fn note_failed(
    session: &mut Session,
    (database, table): (Option<&str>, &str),
    label: &str,
    error: &Error,
) {
    let Ok(database) = session.database_of(database) else { return };
    let note = LoadNote {
        label: label.to_owned(),
        status: "Fail",
        message: error.message().to_owned(),
        ..note_of(session, database, table)
    };
    add(session, note);
}

/// Remembers the rows that a statement has left out, if it has: one that has failed, or loaded
/// nothing.
pub fn note_left_out(session: &mut Session, error: Option<&Error>) {
    let Some(left_out) = &session.left_out else { return };
    let (status, message) = match error {
        Some(error) => ("Fail", error.message().to_owned()),
        None => ("Success", String::new()),
    };
    let note = note_of(session, &left_out.database, &left_out.table);
    add(session, LoadNote { status, message, ..note });
}

/// Remembers a load, with the rows that its statement has left out.
fn add(session: &mut Session, mut note: LoadNote) {
    let book = &session.shared.book;
    let Some(left_out) = session.left_out.take() else {
        book.add(note);
        return;
    };
    let filtered = left_out.rejects.count();
    (note.rows_filtered, note.rows_total) = (filtered, left_out.taken + filtered);
    note.error_url = Some(left_out.url);
    book.add_rejected(book.add(note), left_out.rejects.into_kept());
}

fn note_of(session: &Session, database: &str, table: &str) -> LoadNote {
    let (now, account) = (session.shared.engine.clock().wall_micros(), &session.client.account);
    let of = (database, table);
    LoadNote {
        client: session.client.peer.to_string(),
        ..LoadNote::of(LoadKind::Insert, of, account.clone(), now)
    }
}
