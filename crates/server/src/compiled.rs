//! What was compiled of the definitions of tables.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Values that are kept at most; then all are compiled anew.
const KEPT_MAX: usize = 256;

/// Compiled values by what they are of.
pub struct Compiled<K, T: ?Sized>(Mutex<HashMap<K, Arc<T>>>);

impl<K, T: ?Sized> Default for Compiled<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: ?Sized> Compiled<K, T> {
    /// That of a key, if it is known.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        self.0.lock().get(key).cloned()
    }

    /// Keeps that of a key.
    pub fn put(&self, key: K, compiled: &Arc<T>) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(compiled));
    }
}
