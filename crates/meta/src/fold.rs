//! The fold of the log's metadata records: definitions, flushed LSNs and rowsets, as one value in
//! memory that each record changes.
//!
//! Its functions do no I/O, allocate no ids and read no clock, so the same records always produce
//! the same value. The store contains a checkpoint of it (`checkpoint.rs`), its value at one LSN.
//! Newer changes follow from the log.

use std::sync::Arc;

use freshet_base::{Incarnation, Lsn, PartitionId, Result, RowsetId, TableId, TabletId, Version};
use freshet_base::{SchemaVersion, err};
use freshet_schema::Table;
use imbl::OrdMap;

use crate::catalog::Catalog;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::rowset::RowsetMeta;
use crate::store::{Batch, MetaStore};

/// How far a table is flushed. Incarnations are in the table's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushed {
    /// Records up to this LSN are in files, those above it in the log.
    pub lsn: Lsn,
    /// The table's version at `version_lsn`.
    pub version: Version,
    /// At or above `lsn`: recycling the log counts versions without writing files.
    pub version_lsn: Lsn,
}

impl Flushed {
    /// The state of a new table.
    pub(crate) fn new() -> Self {
        Self { version: Version(1), ..Self::default() }
    }

    pub(crate) fn advanced(self, lsn: Lsn, version: Version) -> Self {
        assert!(lsn >= self.lsn, "a table's flushed LSN never goes back");
        Self { lsn, ..self }.counted(lsn, version)
    }

    /// Updates the version to that at `lsn`, unless it is counted further already.
    pub(crate) fn counted(self, lsn: Lsn, version: Version) -> Self {
        if lsn < self.version_lsn {
            return self;
        }
        assert!(version >= self.version, "versions of a table rise in log order");
        Self { version, version_lsn: lsn, ..self }
    }
}

/// The result of a flush: its rowsets become part of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish {
    pub table: TableId,
    /// The flushed LSN before it.
    pub from: Lsn,
    /// The flushed LSN after it.
    pub to: Lsn,
    /// The table's version at `to`.
    pub version: Version,
    /// The schema version at `to`.
    pub schema_version: SchemaVersion,
    /// The new rowsets; empty if the range contains no rows.
    pub rowsets: Vec<RowsetMeta>,
}

/// The result of a merge: the new rowset replaces the merged ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    pub table: TableId,
    pub tablet: TabletId,
    /// The merged rowsets: adjacent ones, in LSN order.
    pub removed: Vec<RowsetId>,
    /// The new rowset.
    pub added: RowsetMeta,
}

/// The content of a metadata record in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaEvent {
    /// A flush.
    Publish(Publish),
    /// A merge.
    Replace(Replacement),
}

/// The result of a change that assumes a certain flushed LSN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome<T = ()> {
    /// It has settled.
    Applied(T),
    /// The table has another flushed LSN: nothing changes, and the new files are to be deleted.
    Stale {
        /// The actual flushed LSN.
        stands: Lsn,
    },
    /// The table does not exist any more: the new files are to be deleted.
    Gone,
}

/// A TRUNCATE whose barrier is in the log.
#[derive(Clone, Debug)]
pub struct Truncate {
    pub table: TableId,
    /// The flushed LSN before it: all rows of the table below the barrier are flushed or removed.
    pub from: Lsn,
    /// The LSN of the barrier.
    pub to: Lsn,
    /// The table's version at the barrier.
    pub version: Version,
    /// The truncated partitions with their new incarnations from the log.
    pub incarnations: Vec<(PartitionId, Incarnation)>,
}

/// The result of a TRUNCATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truncated {
    /// The table with new, empty tablets.
    pub table: Arc<Table>,
    /// The old tablets, whose files can be deleted once older snapshots are gone.
    pub old_tablets: Vec<TabletId>,
}

/// The metadata of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTable {
    pub table: Arc<Table>,
    /// How far it is flushed.
    pub flushed: Flushed,
    /// Its rowsets by tablet, in LSN order.
    pub rowsets: Vec<RowsetMeta>,
}

/// Metadata at one LSN. Cheap to clone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fold {
    /// Records up to here have settled.
    pub(crate) settled: Lsn,
    /// Incremented by every change.
    pub(crate) changes: u64,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) flushed: OrdMap<TableId, Flushed>,
    /// Ordered so that the rowsets of a tablet are adjacent and in LSN order.
    pub(crate) rowsets: OrdMap<(TabletId, Lsn, RowsetId), Arc<RowsetMeta>>,
}

impl Fold {
    /// Loads the fold from a store.
    pub(crate) fn load(store: &dyn MetaStore) -> Result<Self> {
        let catalog = Arc::new(Catalog::load(store)?);
        let mut fold = Self { catalog: Arc::clone(&catalog), ..Self::default() };
        if let Some(bytes) = store.get(keys::SETTLED)? {
            fold.settled = keys::decode(keys::SETTLED, &bytes)?;
        }
        for table in catalog.tables() {
            let key = keys::flushed(table.id);
            let bytes = store.get(&key)?.ok_or_else(|| {
                err!(Corruption, "metadata of table '{}' lacks its flushed LSN", table.name)
            })?;
            fold.flushed.insert(table.id, keys::decode(&key, &bytes)?);
        }
        for (key, bytes) in store.scan(keys::ROWSETS)? {
            fold.add(keys::decode(&key, &bytes)?);
        }
        Ok(fold)
    }

    /// All tables with their rowsets.
    pub fn tables(&self) -> Vec<StoredTable> {
        let stored = |table: &Arc<Table>| {
            let rowsets = table.tablets().flat_map(|tablet| self.rowsets(tablet));
            StoredTable {
                table: Arc::clone(table),
                flushed: self.flushed[&table.id],
                rowsets: rowsets.map(RowsetMeta::clone).collect(),
            }
        };
        self.catalog.tables().map(stored).collect()
    }

    /// The rowsets of a tablet, in LSN order.
    pub(crate) fn rowsets(&self, tablet: TabletId) -> impl Iterator<Item = &RowsetMeta> {
        let of_tablet =
            (tablet, Lsn::ZERO, RowsetId(0))..=(tablet, Lsn(u64::MAX), RowsetId(u64::MAX));
        self.rowsets.range(of_tablet).map(|(_, rowset)| &**rowset)
    }

    fn add(&mut self, rowset: RowsetMeta) {
        rowset.check();
        self.rowsets.insert((rowset.tablet, rowset.lsn_first, rowset.id), Arc::new(rowset));
    }

    fn remove_rowsets(&mut self, tablets: impl Iterator<Item = TabletId>) {
        for tablet in tablets {
            let of_tablet =
                self.rowsets(tablet).map(|rowset| (tablet, rowset.lsn_first, rowset.id));
            for key in of_tablet.collect::<Vec<_>>() {
                self.rowsets.remove(&key);
            }
        }
    }

    /// Sets how far a table is flushed.
    pub(crate) fn set_flushed(&mut self, table: TableId, flushed: Flushed) {
        self.changes += 1;
        self.flushed.insert(table, flushed);
    }

    /// Inserts the definition of a table, replacing the one with the same id.
    pub(crate) fn put_table(&mut self, table: &Arc<Table>) {
        self.changes += 1;
        Arc::make_mut(&mut self.catalog).put_table(Arc::clone(table));
        if !self.flushed.contains_key(&table.id) {
            self.flushed.insert(table.id, Flushed::new());
        }
    }

    /// Removes a table and the metadata of its rowsets.
    pub(crate) fn remove_table(&mut self, id: TableId) {
        let Some(table) = self.catalog.table_by_id(id).cloned() else { return };
        self.changes += 1;
        self.remove_rowsets(table.tablets());
        self.flushed.remove(&id);
        Arc::make_mut(&mut self.catalog).remove_table(id);
    }

    /// Applies a flush if the table is flushed exactly up to its `from`.
    ///
    /// # Panics
    /// When its rowsets are outside of its LSN range.
    pub(crate) fn publish(&mut self, publish: &Publish) -> PublishOutcome {
        let Publish { table, from, to, version, ref rowsets, .. } = *publish;
        assert!(from <= to, "a flush moves the flushed LSN forward: {publish:?}");
        let Some(flushed) = self.flushed.get(&table).copied() else { return PublishOutcome::Gone };
        if flushed.lsn != from {
            return PublishOutcome::Stale { stands: flushed.lsn };
        }
        let lies_within = |rowset: &RowsetMeta| from < rowset.lsn_first && rowset.lsn_last <= to;
        assert!(
            rowsets.iter().all(lies_within),
            "a flush of ({from}, {to}] writes rows of that range: {publish:?}"
        );
        self.set_flushed(table, flushed.advanced(to, version));
        rowsets.iter().for_each(|rowset| self.add(rowset.clone()));
        PublishOutcome::Applied(())
    }

    /// Applies a merge. Returns `false` if an input no longer exists; the new files are then to be
    /// deleted.
    ///
    /// # Panics
    /// When the new rowset exceeds the LSN range of the old ones, or those are not adjacent.
    pub(crate) fn replace(&mut self, replacement: &Replacement) -> bool {
        let Replacement { tablet, ref removed, ref added, .. } = *replacement;
        assert!(!removed.is_empty(), "a merge has inputs");
        assert!(!removed.contains(&added.id), "a new rowset has a new id");
        let current = self.rowsets(tablet).collect::<Vec<_>>();
        let Some(at) = current.iter().position(|rowset| rowset.id == removed[0]) else {
            return false;
        };
        let inputs = &current[at..(at + removed.len()).min(current.len())];
        if !inputs.iter().map(|rowset| rowset.id).eq(removed.iter().copied()) {
            return false;
        }
        let (first, last) = (inputs[0].lsn_first, inputs[inputs.len() - 1].lsn_last);
        assert!(
            added.tablet == tablet && first <= added.lsn_first && added.lsn_last <= last,
            "a merge covers the LSNs of its inputs, {first} to {last}: {added:?}"
        );
        let inputs = inputs.iter().map(|rowset| (tablet, rowset.lsn_first, rowset.id));
        for key in inputs.collect::<Vec<_>>() {
            self.rowsets.remove(&key);
        }
        self.changes += 1;
        self.add(added.clone());
        true
    }

    /// Applies a record. Returns `false` if it does not match the current state; only `settled`
    /// changes then.
    ///
    /// # Panics
    /// When the event is invalid, or `lsn` is out of order.
    pub(crate) fn settle(&mut self, lsn: Lsn, event: &MetaEvent) -> bool {
        assert!(self.settled < lsn, "records settle in the order of the log");
        self.settled = lsn;
        match event {
            MetaEvent::Publish(publish) => self.publish(publish) == PublishOutcome::Applied(()),
            MetaEvent::Replace(replacement) => self.replace(replacement),
        }
    }

    fn truncate(&mut self, truncate: &Truncate, truncated: &Truncated) {
        let Truncate { table, to, version, .. } = *truncate;
        let flushed = self.flushed[&table].advanced(to, version);
        self.set_flushed(table, flushed);
        self.put_table(&truncated.table);
        self.remove_rowsets(truncated.old_tablets.iter().copied());
    }
}

impl Meta {
    /// How far a table is flushed; `None` if it does not exist.
    pub fn flushed(&self, table: TableId) -> Option<Flushed> {
        self.fold().flushed.get(&table).copied()
    }

    /// The rowsets of a tablet, in LSN order.
    pub fn rowsets(&self, tablet: TabletId) -> Vec<RowsetMeta> {
        self.fold().rowsets(tablet).cloned().collect()
    }

    /// Applies the record at `lsn`; see `Fold::settle`. Records are applied in log order, each once
    /// it is durable.
    pub fn settle(&self, lsn: Lsn, event: &MetaEvent) -> bool {
        self.edit(|fold| fold.settle(lsn, event))
    }

    /// Replaces the tablets of truncated partitions with new, empty ones if the table is flushed
    /// exactly up to `from`. The flushed LSN then becomes that of the barrier.
    ///
    /// # Errors
    /// When the disk is full. The log already contains the barrier, so it must be retried.
    ///
    /// # Panics
    /// When the table lacks one of the partitions, or an incarnation is not newer.
    pub fn truncate(&self, truncate: &Truncate) -> Result<PublishOutcome<Truncated>> {
        self.change(|catalog| {
            let (Some(old), Some(flushed)) =
                (catalog.table_by_id(truncate.table), self.flushed(truncate.table))
            else {
                return Ok((None, PublishOutcome::Gone));
            };
            if flushed.lsn != truncate.from {
                return Ok((None, PublishOutcome::Stale { stands: flushed.lsn }));
            }
            let (new, old_tablets) = self.emptied(old, &truncate.incarnations)?;
            let truncated = Truncated { table: Arc::new(new), old_tablets };
            let (truncate, settled) = (truncate.clone(), truncated.clone());
            let edit = move |fold: &mut Fold| fold.truncate(&truncate, &settled);
            let change = Change { edit: Box::new(edit), batch: Batch::default() };
            Ok((Some(change), PublishOutcome::Applied(truncated)))
        })
    }

    /// The table with new tablets in these partitions, and the replaced tablets.
    fn emptied(
        &self,
        old: &Table,
        incarnations: &[(PartitionId, Incarnation)],
    ) -> Result<(Table, Vec<TabletId>)> {
        let mut new = old.clone();
        let mut old_tablets = Vec::new();
        for &(id, incarnation) in incarnations {
            let partition = new.partitions.iter_mut().find(|partition| partition.id == id);
            let partition = partition.expect("a TRUNCATE names partitions that the table has");
            assert!(incarnation > partition.incarnation, "a TRUNCATE raises incarnations");
            partition.incarnation = incarnation;
            for tablet in &mut partition.tablets {
                old_tablets.push(std::mem::replace(tablet, self.ids().tablet()?));
            }
        }
        Ok((new, old_tablets))
    }
}

#[cfg(test)]
mod tests;
