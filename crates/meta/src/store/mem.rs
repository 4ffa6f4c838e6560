//! An in-memory store for tests and simulation.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;

use super::{Batch, MetaStore, Pair, StoreError};

/// Metadata in memory.
#[derive(Debug, Default)]
pub struct MemStore {
    map: RwLock<BTreeMap<String, Vec<u8>>>,
}

impl MemStore {
    pub fn new() -> Self {
        Self::default()
    }
}

fn apply(map: &mut BTreeMap<String, Vec<u8>>, batch: &Batch) -> Result<(), StoreError> {
    for (key, expected) in &batch.expect {
        if map.get(key) != expected.as_ref() {
            return Err(StoreError::Conflict(key.clone()));
        }
    }
    map.extend(batch.put.iter().cloned());
    for key in &batch.delete {
        map.remove(key);
    }
    Ok(())
}

impl MetaStore for MemStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.map.read().get(key).cloned())
    }

    fn scan(&self, prefix: &str) -> Result<Vec<Pair>, StoreError> {
        let map = self.map.read();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let pairs = map.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        Ok(pairs.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn commit_all(&self, batches: &[Batch]) -> Vec<Result<(), StoreError>> {
        let mut map = self.map.write();
        batches.iter().map(|batch| apply(&mut map, batch)).collect()
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        apply(&mut self.map.write(), &batch)
    }
}
