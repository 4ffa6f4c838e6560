//! What the log has made of metadata: definitions, how far files reach, and the files, as one
//! value in memory that changes record by record.
//!
//! Its functions do no I/O, take no id and ask no clock, so whoever settles the same records has
//! the same value. The store holds a checkpoint of it (`checkpoint.rs`): the value as it was at
//! one LSN. What is newer follows from the log.

use std::sync::Arc;

use freshet_base::{Incarnation, Lsn, PartitionId, Result, RowsetId, TableId, TabletId, Version};
use freshet_base::{SchemaVersion, err};
use freshet_schema::Table;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::rowset::RowsetMeta;
use crate::store::{Batch, MetaStore};

/// How far the files of a table reach. Incarnations stand in the table's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flushed {
    /// Files hold the table's records up to here, the log those above.
    pub lsn: Lsn,
    /// The table's version, counted over records up to `version_lsn`.
    pub version: Version,
    /// At or above `lsn`: recycling the log counts versions without writing files.
    pub version_lsn: Lsn,
}

impl Flushed {
    /// Where a table begins.
    pub(crate) fn new() -> Self {
        Self { version: Version(1), ..Self::default() }
    }

    pub(crate) fn advanced(self, lsn: Lsn, version: Version) -> Self {
        assert!(lsn >= self.lsn, "a table's flushed LSN never goes back");
        Self { lsn, ..self }.counted(lsn, version)
    }

    /// The same with versions counted up to `lsn`, unless they are counted further already.
    pub(crate) fn counted(self, lsn: Lsn, version: Version) -> Self {
        if lsn < self.version_lsn {
            return self;
        }
        assert!(version >= self.version, "versions of a table rise in log order");
        Self { version, version_lsn: lsn, ..self }
    }
}

/// A flush: its files become part of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Publish {
    /// Whose.
    pub table: TableId,
    /// The flushed LSN it starts from.
    pub from: Lsn,
    /// The flushed LSN after it.
    pub to: Lsn,
    /// The table's version, counted over its records up to `to`.
    pub version: Version,
    /// Its columns at `to`.
    pub schema_version: SchemaVersion,
    /// The new files; none where the range holds no rows.
    pub rowsets: Vec<RowsetMeta>,
}

/// A merge: its files take the place of those it read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replacement {
    /// Whose.
    pub table: TableId,
    /// The tablet.
    pub tablet: TabletId,
    /// What was merged: neighbours, in the order of their LSNs.
    pub removed: Vec<RowsetId>,
    /// What it was merged into.
    pub added: RowsetMeta,
}

/// What a record of the log says of metadata.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetaEvent {
    /// A flush.
    Publish(Publish),
    /// A merge.
    Replace(Replacement),
}

/// What became of a change that starts from one flushed LSN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome<T = ()> {
    /// It has settled.
    Applied(T),
    /// The table stands elsewhere: nothing happens, and its files are to be dropped.
    Stale {
        /// The flushed LSN that stands.
        stands: Lsn,
    },
    /// There is no such table any more: its files are to be dropped.
    Gone,
}

/// A TRUNCATE whose barrier the log holds.
#[derive(Clone, Debug)]
pub struct Truncate {
    /// Of which table.
    pub table: TableId,
    /// The flushed LSN it starts from: all of the table below the barrier is flushed or dead.
    pub from: Lsn,
    /// The LSN of the barrier.
    pub to: Lsn,
    /// The table's version at the barrier.
    pub version: Version,
    /// The truncated partitions with the incarnations that the log gave them.
    pub incarnations: Vec<(PartitionId, Incarnation)>,
}

/// What a TRUNCATE left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truncated {
    /// The table with new, empty tablets.
    pub table: Arc<Table>,
    /// The old tablets, whose files nobody needs once old snapshots are gone.
    pub old_tablets: Vec<TabletId>,
}

/// A table as metadata holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTable {
    /// Its definition.
    pub table: Arc<Table>,
    /// How far its files reach.
    pub flushed: Flushed,
    /// Its files, tablet by tablet, in LSN order.
    pub rowsets: Vec<RowsetMeta>,
}

/// Metadata at one LSN. Cloning is cheap.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fold {
    /// Records up to here have settled.
    pub(crate) settled: Lsn,
    /// Rises with every change.
    pub(crate) changes: u64,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) flushed: OrdMap<TableId, Flushed>,
    /// Those of a tablet stand together, in the order of their LSNs.
    pub(crate) rowsets: OrdMap<(TabletId, Lsn, RowsetId), Arc<RowsetMeta>>,
}

impl Fold {
    /// What a store holds.
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

    /// Every table with its files.
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

    /// The files of a tablet, in LSN order.
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

    /// Where the files of a table reach, it having one.
    pub(crate) fn set_flushed(&mut self, table: TableId, flushed: Flushed) {
        self.changes += 1;
        self.flushed.insert(table, flushed);
    }

    /// Puts in the definition of a table, in place of the one of its id, if there is one.
    pub(crate) fn put_table(&mut self, table: &Arc<Table>) {
        self.changes += 1;
        Arc::make_mut(&mut self.catalog).put_table(Arc::clone(table));
        if !self.flushed.contains_key(&table.id) {
            self.flushed.insert(table.id, Flushed::new());
        }
    }

    /// Removes a table and what is known of its files.
    pub(crate) fn remove_table(&mut self, id: TableId) {
        let Some(table) = self.catalog.table_by_id(id).cloned() else { return };
        self.changes += 1;
        self.remove_rowsets(table.tablets());
        self.flushed.remove(&id);
        Arc::make_mut(&mut self.catalog).remove_table(id);
    }

    /// Settles a flush, where the table stands exactly at its `from`.
    ///
    /// # Panics
    /// When its rowsets do not lie in its LSN range.
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

    /// Settles a merge. `false` where an input is no longer there: the new files are to be
    /// dropped.
    ///
    /// # Panics
    /// When the new rowset covers other LSNs than the old, or those are not neighbours.
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

    /// Settles what a record says. `false` where it does not fit what stands: then nothing happens.
    ///
    /// # Panics
    /// When it could stand in no log, or not there.
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
    /// How far the files of a table reach; `None` for one that does not exist.
    pub fn flushed(&self, table: TableId) -> Option<Flushed> {
        self.fold().flushed.get(&table).copied()
    }

    /// The files of a tablet, in LSN order.
    pub fn rowsets(&self, tablet: TabletId) -> Vec<RowsetMeta> {
        self.fold().rowsets(tablet).cloned().collect()
    }

    /// Settles what the record at `lsn` says; see `Fold::settle`. Records settle in the order of
    /// the log, each once it is durable.
    pub fn settle(&self, lsn: Lsn, event: &MetaEvent) -> bool {
        self.edit(|fold| fold.settle(lsn, event))
    }

    /// Swaps the tablets of truncated partitions for new, empty ones, where the table stands
    /// exactly at `from`; its flushed LSN is the barrier's then.
    ///
    /// # Errors
    /// When the disk is full: the log holds the barrier, so it must be tried again.
    ///
    /// # Panics
    /// When it names a partition that the table lacks, or an incarnation that is not newer.
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

    /// The table with new tablets in these partitions, and the tablets it had there.
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
