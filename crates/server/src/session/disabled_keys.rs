//! ALTER TABLE .. DISABLE KEYS: in dumps it stands in front of the rows of a table, for indexes
//! that are not unique, and ENABLE KEYS behind them.

use freshet_base::TableId;

/// Tables that are remembered; the last ones.
const TABLES_MAX: usize = 256;

/// The tables of which a session has said DISABLE KEYS, and not yet ENABLE KEYS.
#[derive(Default)]
pub struct DisabledKeys(Vec<TableId>);

impl DisabledKeys {
    pub fn disable(&mut self, table: TableId) {
        if self.0.len() == TABLES_MAX {
            self.0.remove(0);
        }
        self.0.push(table);
    }

    /// Whether they were disabled.
    pub fn enable(&mut self, table: TableId) -> bool {
        let before = self.0.len();
        self.0.retain(|disabled| *disabled != table);
        self.0.len() < before
    }
}
