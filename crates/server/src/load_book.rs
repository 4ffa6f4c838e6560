//! What is remembered of recent loads, for SHOW LOAD, SHOW STREAM LOAD and SHOW LOAD WARNINGS, and
//! of their rejected rows, for `information_schema.load_rejects`.
//!
//! Kept in memory: whether a label was used is known to metadata, and does not depend on this.
//! Loads of groups are remembered by `information_schema.group_commits`, and here only if rows of
//! them were rejected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Result, TxnId};
use freshet_ingest::Engine;
use freshet_ingest::rejects::{Reject, log_of};
use freshet_meta::{Account, Actor, Catalog, Object, Privilege, authorize, is_restricted};
use parking_lot::Mutex;

use crate::error_log::{ErrorLog, ErrorLogLimits};

/// Maximum number of loads remembered.
const NOTES_MAX: usize = 1000;
/// Bytes of a message or comment that are remembered.
const TEXT_BYTES_MAX: usize = 512;

/// Bytes of rejected rows that are remembered, of all loads together.
const REJECTS_BYTES_MAX: usize = 16 << 20;
/// What an entry costs beside its texts, about.
const ENTRY_BYTES: usize = 128;

/// How a load came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadKind {
    Insert,
    Stream,
}

impl LoadKind {
    /// What a load may that has asked for nothing else, as far as is known.
    pub const fn allowance(self) -> Allowance {
        let seconds = match self {
            Self::Stream => 259_200,
            Self::Insert => 14_400,
        };
        Allowance { timeout: Duration::from_secs(seconds), max_filter_ratio: 0.0 }
    }
}

/// What a load may, as it has asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Allowance {
    /// The time it may take; of a load of two phases, until its commit.
    pub timeout: Duration,
    /// The fraction of rows that it may leave out, 0 to 1.
    pub max_filter_ratio: f64,
}

/// A load that has ended.
#[derive(Clone, Debug)]
pub struct LoadNote {
    pub kind: LoadKind,
    pub database: String,
    pub table: String,
    pub label: String,
    pub txn: Option<TxnId>,
    /// `Success`, `Fail` or `Label Already Exists`.
    pub status: &'static str,
    pub message: String,
    /// Of its rejected rows.
    pub error_url: Option<String>,
    pub rows_total: u64,
    pub rows_loaded: u64,
    pub rows_filtered: u64,
    pub rows_unselected: u64,
    pub body_bytes: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub began_micros: i64,
    pub ended_micros: i64,
    pub client: String,
    /// Who has sent it.
    pub account: Account,
    pub comment: String,
    pub allowance: Allowance,
}

impl LoadNote {
    /// A load into a table that has begun and ended at `now`, of which nothing else is known.
    pub fn of(kind: LoadKind, (database, table): (&str, &str), account: Account, now: i64) -> Self {
        Self {
            kind,
            database: database.to_owned(),
            table: table.to_owned(),
            label: String::new(),
            txn: None,
            status: "",
            message: String::new(),
            error_url: None,
            rows_total: 0,
            rows_loaded: 0,
            rows_filtered: 0,
            rows_unselected: 0,
            body_bytes: 0,
            began_micros: now,
            ended_micros: now,
            client: String::new(),
            account,
            comment: String::new(),
            allowance: kind.allowance(),
        }
    }

    pub fn is_failed(&self) -> bool {
        self.status == "Fail"
    }

    /// Whether it has loaded something, or is prepared: a label has one such load at most.
    pub fn is_done(&self) -> bool {
        self.status == "Success"
    }

    /// Whether somebody may see the rows that it has rejected: who has sent it, and who may read
    /// all rows of the table.
    pub fn shows_rows_to(&self, catalog: &Catalog, actor: Actor<'_>) -> bool {
        if self.account == *actor.account {
            return true;
        }
        let (database, table) = (self.database.as_str(), self.table.as_str());
        let object = Object::Table(database, table);
        if authorize(catalog, actor, Privilege::Select, object).is_err() {
            return false;
        }
        let known = catalog.require_table(database, table);
        known.map_or(true, |table| !is_restricted(catalog, actor, table))
    }

    /// What is said of it: an error may quote values of its rows.
    pub fn message_for(&self, catalog: &Catalog, actor: Actor<'_>) -> &str {
        match !self.is_failed() || self.shows_rows_to(catalog, actor) {
            true => &self.message,
            false => "told to who has sent it, and to who may read the table",
        }
    }

    /// Its error log, for who may see the rows in it.
    pub fn error_url_for(&self, catalog: &Catalog, actor: Actor<'_>) -> Option<&str> {
        let url = self.error_url.as_deref()?;
        self.shows_rows_to(catalog, actor).then_some(url)
    }
}

/// The rows that a load has rejected.
#[derive(Clone, Debug)]
pub struct RejectedLoad {
    pub note: Arc<LoadNote>,
    /// The first of them.
    pub rows: Vec<Reject>,
}

impl RejectedLoad {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.rows.iter().map(|row| ENTRY_BYTES + row.bytes()).sum::<usize>()
    }
}

/// The rows that recent loads have rejected, oldest load first.
#[derive(Default)]
struct RejectedLoads {
    loads: VecDeque<Arc<RejectedLoad>>,
    bytes: usize,
}

impl RejectedLoads {
    /// Adds those of a load; the oldest go where they are too many.
    fn add(&mut self, load: RejectedLoad) {
        self.bytes += load.bytes();
        self.loads.push_back(Arc::new(load));
        while self.bytes > REJECTS_BYTES_MAX || self.loads.len() > NOTES_MAX {
            let oldest = self.loads.pop_front().expect("what has bytes has loads");
            self.bytes -= oldest.bytes();
        }
    }
}

pub struct LoadBook {
    /// The reasons of rejected rows.
    pub error_log: ErrorLog,
    notes: Mutex<VecDeque<Arc<LoadNote>>>,
    rejected: Mutex<RejectedLoads>,
}

impl LoadBook {
    /// # Errors
    /// When the directory of error logs cannot be created or read.
    pub fn open(
        engine: &Engine,
        limits: ErrorLogLimits,
        draw: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Result<Arc<Self>> {
        let error_log = ErrorLog::open(engine, limits, draw)?;
        let (notes, rejected) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { error_log, notes, rejected }))
    }

    /// Remembers a load.
    pub fn add(&self, mut note: LoadNote) -> Arc<LoadNote> {
        for text in [&mut note.message, &mut note.comment] {
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            }
        }
        let mut notes = self.notes.lock();
        if notes.len() == NOTES_MAX {
            notes.pop_front();
        }
        let note = Arc::new(note);
        notes.push_back(Arc::clone(&note));
        note
    }

    /// Remembers rows that a load has rejected.
    pub fn add_rejected(&self, note: Arc<LoadNote>, rows: Vec<Reject>) {
        self.rejected.lock().add(RejectedLoad { note, rows });
    }

    /// The error log of this name. That of a statement is no file: it is made of the rows that are
    /// remembered.
    ///
    /// # Errors
    /// `NoSuchTable`, for its status 404, when there is no such log, or no more.
    pub async fn read_log(&self, name: &str) -> Result<Vec<u8>> {
        let is_it = |load: &&Arc<RejectedLoad>| {
            let url = load.note.error_url.as_deref().and_then(|url| url.rsplit_once("file="));
            load.note.kind == LoadKind::Insert && url.is_some_and(|(_, own)| own == name)
        };
        let load = self.rejected.lock().loads.iter().find(is_it).cloned();
        match load {
            Some(load) => Ok(log_of(&load.rows, load.note.rows_filtered).into_bytes()),
            None => self.error_log.read(name).await,
        }
    }

    /// The loads whose rejected rows are remembered, oldest first.
    pub fn rejected(&self) -> Vec<Arc<RejectedLoad>> {
        self.rejected.lock().loads.iter().cloned().collect()
    }

    /// The loads of a database, oldest first.
    pub fn of(&self, database: &str) -> Vec<Arc<LoadNote>> {
        let notes = self.notes.lock();
        notes.iter().filter(|note| note.database == database).cloned().collect()
    }

    /// The load that has used a label.
    pub fn find(&self, database: &str, label: &str) -> Option<Arc<LoadNote>> {
        let notes = self.notes.lock();
        let is_it = |note: &&Arc<LoadNote>| {
            note.database == database && note.label == label && note.is_done()
        };
        notes.iter().rev().find(is_it).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(label: &str) -> Arc<LoadNote> {
        let account = Account { name: "app".to_owned(), host: "%".to_owned() };
        let note = LoadNote::of(LoadKind::Stream, ("d", "t"), account, 0);
        Arc::new(LoadNote { label: label.to_owned(), status: "Fail", ..note })
    }

    #[test]
    fn rejected_rows_have_a_limit_and_the_oldest_go() {
        let mut kept = RejectedLoads::default();
        let load = |label: &str| {
            let line = "x".repeat(REJECTS_BYTES_MAX / 3);
            let row = Reject { row: 1, line, column: None, reason: "because".to_owned() };
            RejectedLoad { note: note(label), rows: vec![row] }
        };
        for label in ["a", "b", "c", "d"] {
            kept.add(load(label));
        }
        let labels = kept.loads.iter().map(|load| load.note.label.as_str()).collect::<Vec<_>>();
        assert_eq!(labels, ["c", "d"]);
        assert_eq!(kept.bytes, kept.loads.iter().map(|load| load.bytes()).sum::<usize>());
    }
}
