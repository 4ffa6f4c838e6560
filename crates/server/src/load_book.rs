//! What is remembered of recent loads, for SHOW LOAD, SHOW STREAM LOAD and SHOW LOAD WARNINGS.
//!
//! Kept in memory: whether a label was used is known to metadata, and does not depend on this.
//! Loads of groups are remembered by `information_schema.group_commits`, and here only if rows of
//! them were rejected.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::{Result, TxnId};
use freshet_ingest::Engine;
use parking_lot::Mutex;

use crate::error_log::{ErrorLog, ErrorLogLimits};

/// Maximum number of loads remembered.
const NOTES_MAX: usize = 1000;
/// Bytes of a message or comment that are remembered.
const TEXT_BYTES_MAX: usize = 512;

/// How a load came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadKind {
    Insert,
    Stream,
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
    pub user: String,
    pub comment: String,
}

impl LoadNote {
    pub fn is_failed(&self) -> bool {
        self.status == "Fail"
    }
}

pub struct LoadBook {
    /// The reasons of rejected rows.
    pub error_log: ErrorLog,
    notes: Mutex<VecDeque<Arc<LoadNote>>>,
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
        Ok(Arc::new(Self { error_log, notes: Mutex::default() }))
    }

    pub fn add(&self, mut note: LoadNote) {
        for text in [&mut note.message, &mut note.comment] {
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            }
        }
        let mut notes = self.notes.lock();
        if notes.len() == NOTES_MAX {
            notes.pop_front();
        }
        notes.push_back(Arc::new(note));
    }

    /// The loads of a database, oldest first.
    pub fn of(&self, database: &str) -> Vec<Arc<LoadNote>> {
        let notes = self.notes.lock();
        notes.iter().filter(|note| note.database == database).cloned().collect()
    }

    /// The last load with a label.
    pub fn find(&self, database: &str, label: &str) -> Option<Arc<LoadNote>> {
        let notes = self.notes.lock();
        let is_it = |note: &&Arc<LoadNote>| note.database == database && note.label == label;
        notes.iter().rev().find(is_it).cloned()
    }
}
