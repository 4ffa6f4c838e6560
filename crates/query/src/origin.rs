//! The table column that a column of a plan is read from, kept in field metadata.

use arrow::datatypes::Field;
use freshet_schema::{ColumnType, DeclaredKeyKind, Table, TableSchema};
use serde::{Deserialize, Serialize};

/// Column flags of the MySQL protocol.
pub mod flags {
    pub const NOT_NULL: u16 = 1;
    /// Part of the primary key.
    pub const PRIMARY_KEY: u16 = 2;
    /// Part of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// Part of a non-unique key.
    pub const MULTIPLE_KEY: u16 = 8;
    /// TEXT or BLOB.
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    /// Shown with leading zeros.
    pub const ZEROFILL: u16 = 64;
    /// Binary collation.
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const SET: u16 = 2048;
    /// Numeric.
    pub const NUMBER: u16 = 32_768;
}

/// The table column that a result column is read from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ColumnOrigin {
    pub database: String,
    pub table: String,
    /// The column's name as it was created.
    pub column: String,
    pub ty: ColumnType,
    /// NOT NULL and key [`flags`].
    pub flags: u16,
    /// The list of an ENUM or SET.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl ColumnOrigin {
    /// The metadata key in a field.
    pub const KEY: &'static str = "freshet";

    /// The origin of column `at` of a table.
    pub fn of(database: &str, table: &Table, schema: &TableSchema, at: usize) -> Self {
        let column = &schema.columns[at];
        let mut set = if column.nullable { 0 } else { flags::NOT_NULL };
        if column.auto_increment.is_some() {
            set |= flags::AUTO_INCREMENT;
        }
        for key in table.declared_keys.iter().filter(|key| key.has(column.id)) {
            set |= match key.kind {
                DeclaredKeyKind::Primary => flags::PRIMARY_KEY,
                DeclaredKeyKind::Unique if table.is_row_key(key) => flags::PRIMARY_KEY,
                DeclaredKeyKind::Unique | DeclaredKeyKind::UniqueHint => flags::UNIQUE_KEY,
                DeclaredKeyKind::Index | DeclaredKeyKind::InvisibleIndex => flags::MULTIPLE_KEY,
            };
        }
        Self {
            database: database.to_owned(),
            table: table.name.clone(),
            column: column.name.clone(),
            ty: column.ty,
            flags: set,
            labels: column.labels.to_vec(),
        }
    }

    /// The value for a field's metadata.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("names and types are JSON")
    }

    /// The origin in a field's metadata.
    pub fn decode(field: &Field) -> Option<Self> {
        serde_json::from_str(field.metadata().get(Self::KEY)?).ok()
    }
}
