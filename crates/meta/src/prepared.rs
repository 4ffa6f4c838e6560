//! Loads that are prepared and wait for their commit (RFC 0014).

use freshet_base::{DbId, Incarnation, SchemaVersion, TableId, TxnId};

use crate::rowset::RowsetMeta;

/// What a note on disk says of a prepared load: all that its record will have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedNote {
    pub txn: TxnId,
    /// The database of the label.
    pub db: DbId,
    pub label: String,
    pub table: TableId,
    /// The incarnation of the table for which its rows were written.
    pub incarnation: Incarnation,
    /// The schema version of its rows.
    pub schema_version: SchemaVersion,
    pub rows: u32,
    /// The synced files. Their LSNs are given by the commit.
    pub rowsets: Vec<RowsetMeta>,
    /// Its encoded rows, where they stand behind the note and not in files.
    pub noted: Option<NotedRows>,
    /// Of a partial update, whose rows stand behind the note: they are completed by the commit.
    pub partial: Option<NotedPartial>,
    /// Whether its commit joins a group, if its rows stand behind the note.
    pub is_grouped: bool,
    /// The highest id in its rows, of an AUTO_INCREMENT column.
    pub highest_id: Option<u64>,
    /// When it is aborted, by the clock of labels.
    pub expires_micros: i64,
}

/// What the rows of a partial update have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotedPartial {
    /// For each column of the schema version, whether the rows have it; where each row has its own,
    /// all that any may have.
    pub given: Vec<bool>,
    /// The columns without which there is no new row.
    pub required: Vec<u32>,
    /// Whether each row has columns of its own: behind the rows stand as many bytes for each row as
    /// there are columns, which say so.
    pub is_flexible: bool,
    /// Whether a row whose key is new is refused.
    pub refuses_new: bool,
    /// Whether a row has no columns at all, and deletes its key.
    pub deletes: bool,
}

/// Encoded rows behind a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotedRows {
    pub bytes: u64,
    /// CRC-32C.
    pub checksum: u32,
}
