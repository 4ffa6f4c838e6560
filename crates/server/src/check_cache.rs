//! The CHECK constraints of tables that were compiled.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::{SchemaVersion, TableId};
use freshet_query::row_checks::CompiledChecks;
use parking_lot::Mutex;

/// Compiled constraints that are kept at most; then all are compiled anew.
const KEPT_MAX: usize = 256;

/// Compiled constraints by table and schema version.
#[derive(Default)]
pub struct CheckCache(Mutex<HashMap<(TableId, SchemaVersion), Arc<CompiledChecks>>>);

impl CheckCache {
    /// Those of a schema version, if they are known.
    pub fn get(&self, key: (TableId, SchemaVersion)) -> Option<Arc<CompiledChecks>> {
        self.0.lock().get(&key).cloned()
    }

    /// Keeps those of a schema version.
    pub fn put(&self, key: (TableId, SchemaVersion), compiled: &Arc<CompiledChecks>) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(compiled));
    }
}
