//! What is flushed: each table's files hold exactly its records up to its flushed LSN.
//!
//! Every change of a table's files also changes the value at `/flushed/{table}`, and applies
//! only where that value stands as it was read. So of two changes at the same time one reads
//! again, and what a DROP removes is all there is.

use std::sync::Arc;

use freshet_base::{Incarnation, Lsn, PartitionId, Result, TableId, TabletId, Version, err};
use freshet_schema::Table;
use serde::{Deserialize, Serialize};

use crate::ddl::retry;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::rowset::RowsetMeta;
use crate::store::{Batch, StoreError};

/// How far the files of a table reach. Incarnations stand in the table's partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flushed {
    /// Files hold the table's records up to here, the log those above.
    pub lsn: Lsn,
    /// The table's version, counted over records up to `version_lsn`.
    pub version: Version,
    /// At or above `lsn`: recycling the log counts versions without writing files.
    pub version_lsn: Lsn,
    /// Rises with every change of the table's files.
    changes: u64,
}

impl Flushed {
    /// Where a table created when the log stood at `lsn` begins.
    pub(crate) fn new() -> Self {
        Self { version: Version(1), ..Self::default() }
    }

    pub(crate) fn advanced(self, lsn: Lsn, version: Version) -> Self {
        assert!(lsn >= self.lsn, "a table's flushed LSN never goes back");
        Self { lsn, changes: self.changes + 1, ..self }.counted(lsn, version)
    }

    /// The same with versions counted up to `lsn`, unless they are counted further already.
    pub(crate) fn counted(self, lsn: Lsn, version: Version) -> Self {
        if lsn < self.version_lsn {
            return self;
        }
        assert!(version >= self.version, "versions of a table rise in log order");
        Self { version, version_lsn: lsn, ..self }
    }

    fn changed(self) -> Self {
        Self { changes: self.changes + 1, ..self }
    }
}

/// A flush to make visible.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Whose.
    pub table: TableId,
    /// The flushed LSN it starts from.
    pub from: Lsn,
    /// The flushed LSN after it.
    pub to: Lsn,
    /// The table's version, counted over its records up to `to`.
    pub version: Version,
    /// The new files; none where the range holds no rows.
    pub rowsets: Vec<RowsetMeta>,
}

/// What became of a [`Publish`] or [`Truncate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome<T = ()> {
    /// It stands in metadata.
    Applied(T),
    /// The table stands elsewhere: its files are to be dropped.
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

impl Meta {
    /// Every table with its files, as recovery starts from.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub fn tables_on_open(&self) -> Result<Vec<StoredTable>> {
        let catalog = self.catalog();
        let mut tables = catalog.tables().cloned().collect::<Vec<_>>();
        tables.sort_by_key(|table| table.id);
        tables
            .into_iter()
            .map(|table| {
                let flushed = self.flushed(table.id)?.ok_or_else(|| {
                    err!(Corruption, "metadata of table '{}' lacks its flushed LSN", table.name)
                })?;
                let mut rowsets = Vec::new();
                for tablet in table.tablets() {
                    rowsets.extend(self.rowsets(tablet)?);
                }
                Ok(StoredTable { table, flushed, rowsets })
            })
            .collect()
    }

    /// How far the files of a table reach; `None` for one that does not exist.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub fn flushed(&self, table: TableId) -> Result<Option<Flushed>> {
        Ok(self.read_flushed(table)?.map(|(flushed, _)| flushed))
    }

    /// The files of a tablet, in LSN order.
    ///
    /// # Errors
    /// When metadata cannot be read.
    pub fn rowsets(&self, tablet: TabletId) -> Result<Vec<RowsetMeta>> {
        let pairs = self.store.scan(&keys::rowsets(tablet))?;
        pairs.iter().map(|(key, bytes)| keys::decode(key, bytes)).collect()
    }

    /// Makes a flush visible, where the table stands exactly at its `from`.
    ///
    /// # Errors
    /// When the disk is full; then it may be tried again.
    ///
    /// # Panics
    /// When its rowsets do not lie in its LSN range.
    pub fn publish(&self, publish: &Publish) -> Result<PublishOutcome> {
        self.publish_all(std::slice::from_ref(publish)).pop().expect("one answer per publish")
    }

    /// Makes flushes of several tables visible with one commit; each applies or not by itself.
    ///
    /// # Panics
    /// When two are of one table, or rowsets do not lie in their LSN range.
    pub fn publish_all(&self, publishes: &[Publish]) -> Vec<Result<PublishOutcome>> {
        let mut tables = publishes.iter().map(|publish| publish.table).collect::<Vec<_>>();
        tables.sort_unstable();
        assert!(tables.windows(2).all(|pair| pair[0] != pair[1]), "one flush a table at a time");
        let mut answers = publishes.iter().map(|_| None).collect::<Vec<_>>();
        while answers.iter().any(Option::is_none) {
            self.publish_open(publishes, &mut answers);
        }
        answers.into_iter().map(|answer| answer.expect("the loop ends when all are set")).collect()
    }

    /// One try of all publishes without an answer; those that met another change stay open.
    fn publish_open(&self, publishes: &[Publish], answers: &mut [Option<Result<PublishOutcome>>]) {
        let (mut places, mut batches) = (Vec::new(), Vec::new());
        for (place, publish) in publishes.iter().enumerate() {
            if answers[place].is_some() {
                continue;
            }
            match self.plan_publish(publish) {
                Ok(PublishOutcome::Applied(batch)) => {
                    places.push(place);
                    batches.push(batch);
                }
                Ok(PublishOutcome::Stale { stands }) => {
                    answers[place] = Some(Ok(PublishOutcome::Stale { stands }));
                }
                Ok(PublishOutcome::Gone) => answers[place] = Some(Ok(PublishOutcome::Gone)),
                Err(error) => answers[place] = Some(Err(error)),
            }
        }
        for (place, result) in places.into_iter().zip(self.store.commit_all(&batches)) {
            answers[place] = match result {
                Ok(()) => Some(Ok(PublishOutcome::Applied(()))),
                Err(StoreError::Conflict(_)) => None,
                Err(error) => Some(Err(error.into())),
            };
        }
    }

    fn plan_publish(&self, publish: &Publish) -> Result<PublishOutcome<Batch>> {
        let Publish { table, from, to, version, ref rowsets } = *publish;
        assert!(from <= to, "a flush moves the flushed LSN forward: {publish:?}");
        let Some((flushed, bytes)) = self.read_flushed(table)? else {
            return Ok(PublishOutcome::Gone);
        };
        if flushed.lsn != from {
            return Ok(PublishOutcome::Stale { stands: flushed.lsn });
        }
        let mut batch = flushed_batch(table, bytes, &flushed.advanced(to, version));
        for rowset in rowsets {
            rowset.check();
            assert!(
                from < rowset.lsn_first && rowset.lsn_last <= to,
                "a flush of ({from}, {to}] writes rows of that range: {rowset:?}"
            );
            batch.put.push((keys::rowset(rowset), keys::encode(rowset)));
        }
        Ok(PublishOutcome::Applied(batch))
    }

    /// Puts the result of a compaction in place of its inputs, which must be adjacent.
    /// `false` where an input is no longer there: the new files are to be dropped.
    ///
    /// # Errors
    /// When the disk is full; then it may be tried again.
    ///
    /// # Panics
    /// When the new rowsets cover other LSNs than the old.
    pub fn replace_rowsets(
        &self,
        table: TableId,
        tablet: TabletId,
        removed: &[RowsetMeta],
        added: &[RowsetMeta],
    ) -> Result<bool> {
        check_replacement(tablet, removed, added);
        loop {
            let Some((flushed, bytes)) = self.read_flushed(table)? else { return Ok(false) };
            let current = self.rowsets(tablet)?;
            let Some(at) = current.iter().position(|rowset| Some(rowset) == removed.first()) else {
                return Ok(false);
            };
            if current.get(at..at + removed.len()) != Some(removed) {
                return Ok(false);
            }
            let mut batch = flushed_batch(table, bytes, &flushed.changed());
            let put = added.iter().map(|rowset| (keys::rowset(rowset), keys::encode(rowset)));
            batch.put.extend(put);
            batch.delete.extend(removed.iter().map(keys::rowset));
            match self.store.commit(batch) {
                Ok(()) => return Ok(true),
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
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
        retry(|| self.try_truncate(truncate))
    }

    fn try_truncate(&self, truncate: &Truncate) -> Result<PublishOutcome<Truncated>> {
        let Truncate { table, from, to, version, .. } = *truncate;
        self.change(|catalog| {
            let (Some(old), Some((flushed, bytes))) =
                (catalog.table_by_id(table), self.read_flushed(table)?)
            else {
                return Ok((None, PublishOutcome::Gone));
            };
            if flushed.lsn != from {
                return Ok((None, PublishOutcome::Stale { stands: flushed.lsn }));
            }
            let (new, old_tablets) = self.emptied(old, &truncate.incarnations)?;
            let mut batch = flushed_batch(table, bytes, &flushed.advanced(to, version));
            batch.put.push((keys::table(table), keys::encode(&new)));
            self.delete_rowsets(&mut batch, old_tablets.iter().copied())?;
            let new = Arc::new(new);
            let mut catalog = catalog.clone();
            catalog.put_table(new.clone());
            let truncated = Truncated { table: new, old_tablets };
            Ok((Some(Change { batch, catalog }), PublishOutcome::Applied(truncated)))
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

    pub(crate) fn read_flushed(&self, table: TableId) -> Result<Option<(Flushed, Vec<u8>)>> {
        let key = keys::flushed(table);
        match self.store.get(&key)? {
            None => Ok(None),
            Some(bytes) => Ok(Some((keys::decode(&key, &bytes)?, bytes))),
        }
    }

    pub(crate) fn delete_rowsets(
        &self,
        batch: &mut Batch,
        tablets: impl Iterator<Item = TabletId>,
    ) -> Result<()> {
        for tablet in tablets {
            let pairs = self.store.scan(&keys::rowsets(tablet))?;
            batch.delete.extend(pairs.into_iter().map(|(key, _)| key));
        }
        Ok(())
    }
}

/// The change of a table's `/flushed` from the bytes that stand there.
pub(crate) fn flushed_batch(table: TableId, stands: Vec<u8>, new: &Flushed) -> Batch {
    let key = keys::flushed(table);
    Batch {
        expect: vec![(key.clone(), Some(stands))],
        put: vec![(key, keys::encode(new))],
        delete: Vec::new(),
    }
}

/// Whether a change met another one and should read again.
pub(crate) fn is_conflict(error: &freshet_base::Error) -> bool {
    use std::error::Error;
    let source = error.source().and_then(|source| source.downcast_ref::<StoreError>());
    matches!(source, Some(StoreError::Conflict(_)))
}

fn check_replacement(tablet: TabletId, removed: &[RowsetMeta], added: &[RowsetMeta]) {
    assert!(!removed.is_empty(), "a compaction has inputs");
    assert!(
        removed.iter().chain(added).all(|rowset| rowset.tablet == tablet),
        "a compaction stays inside its tablet"
    );
    let (first, last) = (removed[0].lsn_first, removed[removed.len() - 1].lsn_last);
    for rowset in added {
        rowset.check();
        assert!(
            first <= rowset.lsn_first && rowset.lsn_last <= last,
            "a compaction covers the LSNs of its inputs, {first} to {last}: {rowset:?}"
        );
    }
    let keys = added.iter().map(keys::rowset).collect::<Vec<_>>();
    assert!(
        removed.iter().all(|rowset| !keys.contains(&keys::rowset(rowset))),
        "new rowsets have new ids"
    );
}

#[cfg(test)]
mod tests;
