//! Ids from blocks reserved in metadata: never assigned twice, not even after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use freshet_base::{DbId, PartitionId, Result, RowsetId, TableId, TabletId, TxnId};
use parking_lot::Mutex;

use crate::keys;
use crate::store::{Batch, MetaStore};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdKind {
    Database,
    Table,
    Partition,
    Tablet,
    Rowset,
    Txn,
}

impl IdKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Database => "db",
            Self::Table => "table",
            Self::Partition => "partition",
            Self::Tablet => "tablet",
            Self::Rowset => "rowset",
            Self::Txn => "txn",
        }
    }

    /// The number of ids reserved at once. A crash skips the unused ones, so blocks of ids that
    /// users see are small; that of transactions is large enough for seconds of loads.
    const fn block(self) -> u64 {
        match self {
            Self::Database | Self::Table | Self::Partition => 100,
            Self::Tablet => 1_000,
            Self::Rowset => 10_000,
            Self::Txn => 1_000_000,
        }
    }
}

#[derive(Debug)]
pub struct IdBlock {
    kind: IdKind,
    store: Arc<dyn MetaStore>,
    next: AtomicU64,
    /// Ids below this are reserved.
    end: AtomicU64,
    reserving: Mutex<()>,
}

impl IdBlock {
    fn open(store: &Arc<dyn MetaStore>, kind: IdKind) -> Result<Self> {
        let key = keys::ids(kind.name());
        let start = match store.get(&key)? {
            Some(bytes) => keys::decode(&key, &bytes)?,
            None => 1,
        };
        let block = Self {
            kind,
            store: store.clone(),
            next: AtomicU64::new(start),
            end: AtomicU64::new(start),
            reserving: Mutex::default(),
        };
        block.reserve(start)?;
        Ok(block)
    }

    /// The next id. This is a single atomic addition, unless the block is used up and a commit is
    /// necessary.
    ///
    /// # Errors
    /// When the next block cannot be reserved because the disk is full.
    pub fn take(&self) -> Result<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if id >= self.end.load(Ordering::Acquire) {
            self.reserve(id)?;
        }
        Ok(id)
    }

    /// Reserves the next block once half of the last one is used. To be called regularly from a
    /// thread that may block, so that [`IdBlock::take`] does not have to.
    ///
    /// # Errors
    /// When the disk is full; a later call can retry.
    pub fn refill(&self) -> Result<()> {
        match self.needs_refill() {
            true => self.reserve(self.end.load(Ordering::Acquire)),
            false => Ok(()),
        }
    }

    /// Whether half of the last block is used.
    pub fn needs_refill(&self) -> bool {
        self.left() < self.kind.block() / 2
    }

    /// The number of ids available without a commit.
    pub fn left(&self) -> u64 {
        let end = self.end.load(Ordering::Acquire);
        end.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Reserves ids up to a block past `id`.
    fn reserve(&self, id: u64) -> Result<()> {
        let _one = self.reserving.lock();
        if id < self.end.load(Ordering::Acquire) {
            return Ok(());
        }
        let end = id + self.kind.block();
        let put = vec![(keys::ids(self.kind.name()), keys::encode(&end))];
        self.store.commit(Batch { put, ..Batch::default() })?;
        self.end.store(end, Ordering::Release);
        Ok(())
    }
}

/// The ids of all kinds.
#[derive(Debug)]
pub struct Ids {
    databases: IdBlock,
    tables: IdBlock,
    partitions: IdBlock,
    tablets: IdBlock,
    rowsets: IdBlock,
    txns: IdBlock,
}

impl Ids {
    /// Opens the ids of a store; reserves a block of each kind.
    pub(crate) fn open(store: &Arc<dyn MetaStore>) -> Result<Self> {
        Ok(Self {
            databases: IdBlock::open(store, IdKind::Database)?,
            tables: IdBlock::open(store, IdKind::Table)?,
            partitions: IdBlock::open(store, IdKind::Partition)?,
            tablets: IdBlock::open(store, IdKind::Tablet)?,
            rowsets: IdBlock::open(store, IdKind::Rowset)?,
            txns: IdBlock::open(store, IdKind::Txn)?,
        })
    }

    pub fn database(&self) -> Result<DbId> {
        self.databases.take().map(DbId)
    }

    pub fn table(&self) -> Result<TableId> {
        self.tables.take().map(TableId)
    }

    pub fn partition(&self) -> Result<PartitionId> {
        self.partitions.take().map(PartitionId)
    }

    pub fn tablet(&self) -> Result<TabletId> {
        self.tablets.take().map(TabletId)
    }

    pub fn rowset(&self) -> Result<RowsetId> {
        self.rowsets.take().map(RowsetId)
    }

    pub fn txn(&self) -> Result<TxnId> {
        self.txns.take().map(TxnId)
    }

    /// Reserves blocks ahead of need; see [`IdBlock::refill`].
    ///
    /// # Errors
    /// When the disk is full.
    pub fn refill(&self) -> Result<()> {
        self.tablets.refill()?;
        self.rowsets.refill()?;
        self.txns.refill()
    }

    /// Whether [`Ids::refill`] is needed.
    pub fn needs_refill(&self) -> bool {
        [&self.tablets, &self.rowsets, &self.txns].iter().any(|block| block.needs_refill())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemStore;

    #[test]
    fn ids_rise_through_blocks_and_never_come_twice() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let ids = Ids::open(&store).unwrap();
        let first = (0..250).map(|_| ids.table().unwrap().get()).collect::<Vec<_>>();
        assert_eq!(first, (1..=250).collect::<Vec<_>>());
        // A crash here: the next start knows only the store.
        let again = Ids::open(&store).unwrap();
        assert!(again.table().unwrap().get() > 250);
    }

    #[test]
    fn a_refill_keeps_taking_free_of_commits() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let block = IdBlock::open(&store, IdKind::Table).unwrap();
        for _ in 0..1_000 {
            assert!(block.left() > 0);
            block.take().unwrap();
            block.refill().unwrap();
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn threads_share_a_block_without_sharing_an_id() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let block = Arc::new(IdBlock::open(&store, IdKind::Table).unwrap());
        let take = |block: Arc<IdBlock>| (0..500).map(|_| block.take().unwrap()).collect();
        let threads = [(); 4].map(|()| {
            let block = block.clone();
            std::thread::spawn(move || -> Vec<u64> { take(block) })
        });
        let mut all = threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2_000);
    }
}
