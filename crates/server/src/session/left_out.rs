//! Rows that the running statement has left out, until it is known what becomes of the others.

use freshet_base::Error;
use freshet_ingest::rejects::Rejects;

use super::Session;
use crate::load_book::{Allowance, LoadKind, LoadNote};

/// Rows that are bad or of no partition.
#[derive(Debug)]
pub struct LeftOut {
    pub database: String,
    pub table: String,
    pub rejects: Rejects,
    /// How many rows were taken.
    pub taken: u64,
    /// Where the reasons are read.
    pub url: String,
}

impl Session {
    /// Remembers the rows that a statement has left out, if it has: one that has failed, or loaded
    /// nothing.
    pub fn note_left_out(&mut self, error: Option<&Error>) {
        let Some(left_out) = &self.left_out else { return };
        let (status, message) = match error {
            Some(error) => ("Fail", error.message().to_owned()),
            None => ("Success", String::new()),
        };
        let note = self.note_of(&left_out.database, &left_out.table);
        self.note_load(LoadNote { status, message, ..note });
    }

    /// Remembers a load, with the rows that its statement has left out.
    pub fn note_load(&mut self, mut note: LoadNote) {
        let book = &self.shared.book;
        let Some(left_out) = self.left_out.take() else {
            book.add(note);
            return;
        };
        let filtered = left_out.rejects.count();
        (note.rows_filtered, note.rows_total) = (filtered, left_out.taken + filtered);
        note.error_url = Some(left_out.url);
        book.add_rejected(book.add(note), left_out.rejects.into_kept());
    }

    /// What is remembered of each INSERT.
    pub fn note_of(&self, database: &str, table: &str) -> LoadNote {
        let (now, account) = (self.shared.engine.clock().wall_micros(), &self.client.account);
        let of = (database, table);
        let catalog = self.shared.engine.catalog();
        let form = catalog.require_table(database, table).ok().map(|table| table.form);
        let ratio = form.and_then(|form| self.settings.filter_ratio(form));
        LoadNote {
            client: self.client.peer.to_string(),
            allowance: Allowance {
                timeout: self.settings.insert_timeout.time(),
                max_filter_ratio: ratio.unwrap_or_default(),
            },
            ..LoadNote::of(LoadKind::Insert, of, account.clone(), now)
        }
    }
}
