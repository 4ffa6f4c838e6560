//! Assigns ids, and reserves them: by a record of the log ahead of need, by a commit in a burst.

use freshet_base::{DbId, PartitionId, Result, RowsetId, TableId, TabletId, TxnId};

use crate::ids::{IdBlocks, IdEnds, IdKind};
use crate::meta::{Change, Meta};

/// Assigns ids of all kinds.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a>(&'a Meta);

impl Meta {
    pub fn ids(&self) -> Ids<'_> {
        Ids(self)
    }
}

impl<'a> Ids<'a> {
    pub fn database(self) -> Result<DbId> {
        self.take(IdKind::Database).map(DbId)
    }

    pub fn table(self) -> Result<TableId> {
        self.take(IdKind::Table).map(TableId)
    }

    pub fn partition(self) -> Result<PartitionId> {
        self.take(IdKind::Partition).map(PartitionId)
    }

    pub fn tablet(self) -> Result<TabletId> {
        self.take(IdKind::Tablet).map(TabletId)
    }

    pub fn rowset(self) -> Result<RowsetId> {
        self.take(IdKind::Rowset).map(RowsetId)
    }

    pub fn txn(self) -> Result<TxnId> {
        self.take(IdKind::Txn).map(TxnId)
    }

    /// The ends to reserve by the record of a term: a block of each kind.
    pub fn of_term(self) -> IdEnds {
        self.0.fold().ids.further(1)
    }

    /// The ends to reserve by a record ([`crate::MetaEvent::Reserve`]), once more than half of a
    /// block is used. To be asked regularly, so that taking an id needs no commit.
    pub fn refilled(self) -> Option<IdEnds> {
        self.blocks().refilled()
    }

    /// The next id of a kind. If its block is used up before a record has reserved the next one,
    /// this commits.
    ///
    /// # Errors
    /// When the disk is full.
    fn take(self, kind: IdKind) -> Result<u64> {
        let block = self.blocks().of(kind);
        let id = block.next();
        if block.is_reserved(id) {
            return Ok(id);
        }
        // Held during the commit, since others that wait here will need none. Whoever commits
        // takes no ids meanwhile, so nobody waits for this lock with that of commits.
        let _one = block.reserving.lock();
        if !block.is_reserved(id) {
            let ends = IdEnds::default().with(kind, block.end_from(id));
            self.0.commit(Change::of_fold(move |fold| {
                fold.reserve(ends);
            }))?;
        }
        Ok(id)
    }

    fn blocks(self) -> &'a IdBlocks {
        self.0.id_blocks.get().expect("a start begins before any id is taken")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fold::MetaEvent;
    use crate::store::{MemStore, MetaStore};
    use crate::test::{begin, begin_term, meta, open};

    /// The end of the reserved table ids that is in a store.
    fn saved(store: &Arc<dyn MetaStore>) -> u64 {
        open(store.clone()).saved().ids.of(IdKind::Table)
    }

    fn take(meta: &Meta, count: usize) -> Vec<TableId> {
        (0..count).map(|_| meta.ids().table().unwrap()).collect()
    }

    #[test]
    fn ids_rise_through_blocks_and_never_come_twice() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let meta = begin(store.clone());
        assert_eq!(take(&meta, 250), (1..=250).map(TableId).collect::<Vec<_>>());
        assert_eq!(meta.fold().ids, meta.saved().ids, "a burst commits");
        // A crash here: the next start knows only the store.
        assert!(begin(store).ids().table().unwrap().get() > 250);
    }

    #[test]
    fn a_refill_keeps_taking_free_of_commits() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let meta = begin(store.clone());
        let reserved = saved(&store);
        let mut records = Vec::new();
        for _ in 0..1_000 {
            meta.ids().table().unwrap();
            if let Some(ends) = meta.ids().refilled() {
                records.push(MetaEvent::Reserve(ends));
                assert!(meta.settle_next(records.last().unwrap()));
            }
        }
        assert_eq!(saved(&store), reserved);
        assert_eq!(records.len(), 10);
        // A crash here: the next start settles the records that the store lacks.
        let again = open(store.clone());
        assert!(records.iter().all(|record| again.settle_next(record)));
        assert_eq!(again.fold().ids, meta.fold().ids);
        begin_term(&again);
        assert_eq!(again.ids().table().unwrap().get(), reserved + 1_000);
        assert_eq!(again.fold().ids.of(IdKind::Table), reserved + 1_100);
    }

    #[test]
    fn ids_that_a_lost_log_file_may_have_reserved_are_left_out() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        let meta = begin(store.clone());
        let given = take(&meta, 10).pop().unwrap().get();
        // A record reserved more, which settled, and whose file is lost before a checkpoint.
        let ends = meta.fold().ids.further(1);
        assert!(meta.settle_next(&MetaEvent::Reserve(ends)));
        open(store.clone()).give_up_ids(1).unwrap();
        assert!(saved(&store) >= ends.of(IdKind::Table));
        let next = begin(store).ids().table().unwrap().get();
        assert!(next >= ends.of(IdKind::Table) && next > given);
    }

    #[test]
    fn a_record_raises_only_ends_that_are_lower() {
        let meta = meta();
        take(&meta, 60);
        let ends = meta.ids().refilled().unwrap();
        // Before it settles, a burst uses up the block, and another one.
        take(&meta, 200);
        let reserved = meta.fold().ids;
        assert!(!meta.settle_next(&MetaEvent::Reserve(ends)));
        assert_eq!(meta.fold().ids, reserved);
    }

    #[test]
    fn all_kinds_are_refilled_by_one_record() {
        let meta = meta();
        for _ in 0..60 {
            meta.ids().database().unwrap();
            meta.ids().partition().unwrap();
        }
        let before = meta.fold().ids;
        assert!(meta.settle_next(&MetaEvent::Reserve(meta.ids().refilled().unwrap())));
        assert_eq!(meta.ids().refilled(), None);
        let raised = |kind: &IdKind| meta.fold().ids.of(*kind) > before.of(*kind);
        let raised = IdKind::ALL.into_iter().filter(raised).collect::<Vec<_>>();
        assert_eq!(raised, [IdKind::Database, IdKind::Partition]);
    }

    #[test]
    fn a_tool_reserves_nothing() {
        let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
        drop(begin(store.clone()));
        let reserved = saved(&store);
        let tool = open(store.clone());
        tool.settled_to(freshet_base::Lsn(7));
        tool.next_log_file().unwrap();
        assert_eq!(saved(&store), reserved);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn threads_share_a_block_without_sharing_an_id() {
        let meta = Arc::new(meta());
        let threads = [(); 4].map(|()| {
            let meta = meta.clone();
            std::thread::spawn(move || take(&meta, 500))
        });
        let mut all = threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2_000);
    }
}
