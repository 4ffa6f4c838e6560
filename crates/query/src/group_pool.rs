//! The memory of the queries of one workload group.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// How the message of a group that has used up its memory begins.
pub const OF_GROUP: &str = "workload group ";

/// A part of the memory of all queries. What is taken counts in both, so that a group may have the
/// whole of its part only while others leave it.
pub struct GroupPool {
    name: Arc<str>,
    percent: u32,
    own: FairSpillPool,
    own_bytes: usize,
    all: Arc<dyn MemoryPool>,
}

impl GroupPool {
    /// The part of `percent` of the `all_bytes` in `all`.
    pub fn new(name: &Arc<str>, percent: u32, all: &Arc<dyn MemoryPool>, all_bytes: usize) -> Self {
        let own_bytes = (all_bytes as u128 * u128::from(percent) / 100) as usize;
        let own = FairSpillPool::new(own_bytes);
        Self { name: Arc::clone(name), percent, own, own_bytes, all: Arc::clone(all) }
    }
}

impl fmt::Debug for GroupPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupPool").field(&self.name).field(&self.own_bytes).finish()
    }
}

impl fmt::Display for GroupPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group({}, {})", self.name, self.own_bytes)
    }
}

impl MemoryPool for GroupPool {
    fn name(&self) -> &str {
        "group"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.own.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        // It stays of this kind, by which operators know to spill.
        self.own.try_grow(reservation, additional).map_err(|_| {
            DataFusionError::ResourcesExhausted(format!(
                "{OF_GROUP}'{}' gives its queries, {} bytes or {} % of query_memory (memory_limit)",
                self.name, self.own_bytes, self.percent
            ))
        })?;
        self.all
            .try_grow(reservation, additional)
            .inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.own_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_ends_at_its_part_and_others_have_the_rest() {
        let all: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let pool = |name: &str, percent| -> Arc<dyn MemoryPool> {
            Arc::new(GroupPool::new(&Arc::from(name), percent, &all, 1000))
        };
        let (small, large) = (pool("small", 30), pool("large", 90));
        let taken = |pool: &Arc<dyn MemoryPool>| MemoryConsumer::new("c").register(pool);
        let (a, b) = (taken(&small), taken(&large));
        a.try_grow(300).unwrap();
        let refused = crate::error::mapped(a.try_grow(1).unwrap_err());
        assert!(refused.message().contains("workload group 'small'"), "{refused}");
        assert!(refused.message().contains("300 bytes or 30 %"), "{refused}");
        b.try_grow(700).unwrap();
        let refused = crate::error::mapped(b.try_grow(1).unwrap_err());
        assert!(refused.message().contains("query_memory"), "{refused}");
        assert!(!refused.message().contains("workload group"), "{refused}");
        drop(a);
        b.try_grow(200).unwrap();
        assert_eq!((small.reserved(), large.reserved(), all.reserved()), (0, 900, 900));
        drop(b);
        assert_eq!(all.reserved(), 0);
    }
}
