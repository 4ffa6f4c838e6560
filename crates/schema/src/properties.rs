//! What properties of a table say that are kept as written.

use crate::{KeyModel, Properties, Table};

/// The property of tables with a UNIQUE KEY that stores encoded rows beside their keys.
pub const STORE_ROW_COLUMN: &str = "store_row_column";

impl Properties {
    /// `light_schema_change`: whether its loads may share groups, as in Doris.
    pub fn is_light(&self) -> bool {
        !self.has("light_schema_change", "false")
    }

    /// `pause_load`: whether ALTER TABLE .. PAUSE LOAD has paused its loads.
    pub fn is_paused(&self) -> bool {
        self.has("pause_load", "true")
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.others.iter().any(|(key, is)| key == name && is.eq_ignore_ascii_case(value))
    }
}

impl Table {
    /// Whether encoded rows are stored beside their keys, for who reads one of them (keys.md K14).
    /// Not beside a sequence column: there a row may be one that deletes its key.
    pub fn stores_rows(&self) -> bool {
        match self.key_model {
            KeyModel::Primary => true,
            KeyModel::Unique => {
                self.schema().delete_sign().is_none()
                    && self.properties.has(STORE_ROW_COLUMN, "true")
            }
            KeyModel::Duplicate | KeyModel::Aggregate => false,
        }
    }
}
