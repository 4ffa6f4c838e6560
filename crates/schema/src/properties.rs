//! What properties of a table say that are kept as written.

use crate::Properties;

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
