//! What is remembered of labelled INSERTs.

use freshet_base::Error;
use freshet_ingest::Loaded;
use freshet_schema::Table;

use crate::load_book::{LoadKind, LoadNote};
use crate::session::Session;

/// Remembers a labelled INSERT that has ended, for SHOW LOAD.
pub fn note_labelled(session: &Session, table: &Table, loaded: &Loaded, rows: u64) {
    let catalog = session.shared.engine.catalog();
    let Some(database) = catalog.database_by_id(table.db) else { return };
    let note = LoadNote {
        label: loaded.label(),
        txn: loaded.txn,
        status: "Success",
        message: String::new(),
        rows_total: rows + session.filtered,
        rows_loaded: rows,
        rows_filtered: session.filtered,
        ..note_of(session, &database.name, &table.name)
    };
    session.shared.book.add(note);
}

/// Remembers a labelled INSERT that has failed.
pub fn note_failed(
    session: &Session,
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
    session.shared.book.add(note);
}

fn note_of(session: &Session, database: &str, table: &str) -> LoadNote {
    let now = session.shared.engine.clock().wall_micros();
    LoadNote {
        client: session.client.peer.to_string(),
        user: session.client.account.name.clone(),
        ..LoadNote::of(LoadKind::Insert, (database, table), now)
    }
}
