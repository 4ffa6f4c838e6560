//! The fold of the log's metadata records: definitions, flushed LSNs, rowsets and reserved ids, as
//! one value in memory that each record changes.
//!
//! Its functions do no I/O, allocate no ids and read no clock, so the same records always produce
//! the same value. The store contains a checkpoint of it (`checkpoint.rs`), its value at one LSN.
//! Newer changes follow from the log.

mod event;
mod renaming;
mod resting;

use std::collections::HashSet;
use std::sync::Arc;

use freshet_base::{
    DbId, Lsn, PartitionId, Result, RowsetId, SchemaVersion, TableId, TabletId, Version, err,
};
use freshet_schema::{Partition, Table, TableSchema};
use imbl::OrdMap;

use crate::catalog::{Catalog, Database};
use crate::ids::{IdEnds, IdKind};
use crate::rowset::{MarkFileMeta, RowsetMeta};
use crate::store::MetaStore;
use crate::{foreign, keys};

pub use event::{Definition, Divide, MetaEvent, Moved, NewMarks, Publish, Replacement, Truncate};
use renaming::renamed;
pub use resting::{Resting, StoredResting};

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

    pub(crate) fn flushed_to(self, lsn: Lsn, version: Version) -> Self {
        assert!(lsn >= self.lsn, "a table's flushed LSN never goes back");
        Self { lsn, ..self }.with_version(lsn, version)
    }

    /// Updates the version to that at `lsn`, unless it is counted further already.
    pub(crate) fn with_version(self, lsn: Lsn, version: Version) -> Self {
        if lsn < self.version_lsn {
            return self;
        }
        assert!(version >= self.version, "versions of a table rise in log order");
        Self { version, version_lsn: lsn, ..self }
    }
}

/// The metadata of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTable {
    pub table: Arc<Table>,
    /// How far it is flushed.
    pub flushed: Flushed,
    /// Its rowsets by tablet, in LSN order.
    pub rowsets: Vec<RowsetMeta>,
    /// Its mark files, by number.
    pub marks: Vec<MarkFileMeta>,
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
    /// The mark files of each table, by number.
    pub(crate) marks: OrdMap<(TableId, RowsetId), MarkFileMeta>,
    /// The ends of the reserved ids.
    pub(crate) ids: IdEnds,
    /// The ends of generated ids (AUTO_INCREMENT), of tables where they have moved.
    pub(crate) counters: OrdMap<TableId, u64>,
    /// Partitions in the recycle bin. Their rowsets are among the others.
    pub(crate) resting: OrdMap<(TableId, PartitionId), Arc<Resting>>,
}

impl Fold {
    /// Loads the fold from a store.
    pub(crate) fn load(store: &dyn MetaStore) -> Result<Self> {
        let catalog = Arc::new(Catalog::load(store)?);
        let mut fold = Self { catalog: Arc::clone(&catalog), ..Self::default() };
        if let Some(bytes) = store.get(keys::SETTLED)? {
            fold.settled = keys::decode(keys::SETTLED, &bytes)?;
        }
        for kind in IdKind::ALL {
            let key = keys::ids(kind.name());
            if let Some(bytes) = store.get(&key)? {
                fold.ids = fold.ids.with(kind, keys::decode(&key, &bytes)?);
            }
        }
        for table in catalog.tables() {
            let key = keys::flushed(table.id);
            let bytes = store.get(&key)?.ok_or_else(|| {
                err!(Corruption, "metadata of table '{}' lacks its flushed LSN", table.name)
            })?;
            fold.flushed.insert(table.id, keys::decode(&key, &bytes)?);
            let key = keys::counter(table.id);
            if let Some(bytes) = store.get(&key)? {
                fold.counters.insert(table.id, keys::decode(&key, &bytes)?);
            }
        }
        for (key, bytes) in store.scan(keys::ROWSETS)? {
            fold.add(keys::decode(&key, &bytes)?);
        }
        for (key, bytes) in store.scan(keys::RESTING)? {
            let resting = keys::decode::<Resting>(&key, &bytes)?;
            fold.resting.insert((resting.table, resting.partition.id), Arc::new(resting));
        }
        for table in catalog.tables() {
            for (key, bytes) in store.scan(&keys::marks(table.id))? {
                fold.add_marks(table.id, keys::decode(&key, &bytes)?);
            }
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
                marks: self.marks(table.id).collect(),
            }
        };
        self.catalog.tables().map(stored).collect()
    }

    /// Ids below these ends may have been given.
    pub fn reserved_ids(&self) -> IdEnds {
        self.ids
    }

    /// The rowsets of a tablet, in LSN order.
    pub(crate) fn rowsets(&self, tablet: TabletId) -> impl Iterator<Item = &RowsetMeta> {
        let of_tablet =
            (tablet, Lsn::ZERO, RowsetId(0))..=(tablet, Lsn(u64::MAX), RowsetId(u64::MAX));
        self.rowsets.range(of_tablet).map(|(_, rowset)| &**rowset)
    }

    /// The mark files of a table, by number.
    pub fn marks(&self, table: TableId) -> impl Iterator<Item = MarkFileMeta> {
        let of_table = (table, RowsetId(0))..=(table, RowsetId(u64::MAX));
        self.marks.range(of_table).map(|(_, file)| *file)
    }

    /// The first generated id of a table that was never given.
    pub fn counter(&self, table: &Table) -> Option<u64> {
        let schema = table.schema();
        let start = schema.columns[schema.auto_increment()?].auto_increment;
        self.counters.get(&table.id).copied().or(start)
    }

    fn set_counter(&mut self, table: TableId, end: u64) -> bool {
        let is_known = self.catalog.table_by_id(table).is_some();
        if is_known {
            self.changes += 1;
            self.counters.insert(table, end);
        }
        is_known
    }

    fn add_marks(&mut self, table: TableId, file: MarkFileMeta) {
        let before = self.marks.insert((table, file.number), file);
        assert!(before.is_none(), "the number of a mark file is given once");
    }

    fn remove_marks(&mut self, table: TableId) {
        for file in self.marks(table).collect::<Vec<_>>() {
            self.marks.remove(&(table, file.number));
        }
    }

    fn add(&mut self, rowset: RowsetMeta) {
        rowset.check();
        self.rowsets.insert((rowset.tablet, rowset.lsn_first, rowset.id), Arc::new(rowset));
    }

    pub(crate) fn remove_rowsets(&mut self, tablets: impl Iterator<Item = TabletId>) {
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
    fn put_table(&mut self, table: Arc<Table>) {
        self.changes += 1;
        if !self.flushed.contains_key(&table.id) {
            self.flushed.insert(table.id, Flushed::new());
        }
        Arc::make_mut(&mut self.catalog).put_table(table);
    }

    /// Removes a table and the metadata of its rowsets.
    pub(crate) fn remove_table(&mut self, id: TableId) -> bool {
        let Some(table) = self.catalog.table_by_id(id).cloned() else { return false };
        self.changes += 1;
        self.remove_rowsets(table.tablets());
        self.remove_marks(id);
        self.forget_all(id);
        self.flushed.remove(&id);
        self.counters.remove(&id);
        Arc::make_mut(&mut self.catalog).remove_table(id);
        true
    }

    /// Removes a database with all its tables, listed or not.
    fn remove_database(&mut self, id: DbId) -> bool {
        let Some(database) = self.catalog.database_by_id(id).cloned() else { return false };
        for table in self.catalog.tables_of(id) {
            self.remove_table(table.id);
        }
        self.changes += 1;
        Arc::make_mut(&mut self.catalog).remove_database(&database);
        true
    }

    /// Puts a database into the recycle bin, or takes it out of there under a name.
    fn bin_database(
        &mut self,
        id: DbId,
        dropped_micros: Option<i64>,
        name: Option<&String>,
    ) -> bool {
        let Some(database) = self.catalog.database_by_id(id) else { return false };
        if database.dropped_micros.is_some() == dropped_micros.is_some() {
            return false;
        }
        let name = name.unwrap_or(&database.name).clone();
        let next = Database { name, dropped_micros, ..Database::clone(database) };
        self.changes += 1;
        Arc::make_mut(&mut self.catalog).put_database(next);
        true
    }

    /// Applies a flush if the table is flushed exactly up to its `from`. Otherwise a TRUNCATE or
    /// DROP came before it, or an earlier flush was given up with a hole in the log; returns
    /// `false`.
    ///
    /// # Panics
    /// When its rowsets are outside of its LSN range.
    pub(crate) fn publish(&mut self, publish: &Publish) -> bool {
        let Publish { table, from, to, version, schema_version, ref rowsets, marks } = *publish;
        assert!(from <= to, "a flush moves the flushed LSN forward: {publish:?}");
        let lies_within = |rowset: &RowsetMeta| from < rowset.lsn_first && rowset.lsn_last <= to;
        assert!(
            rowsets.iter().all(lies_within),
            "a flush of ({from}, {to}] writes rows of that range: {publish:?}"
        );
        let Some(definition) = self.catalog.table_by_id(table) else { return false };
        let flushed = self.flushed[&table];
        // The record of an ALTER or TRUNCATE may have been given up as well.
        let is_known = |rowset: &RowsetMeta| definition.tablets().any(|id| id == rowset.tablet);
        let has_schema = definition.history.at(schema_version).is_some();
        if flushed.lsn != from || !has_schema || !rowsets.iter().all(is_known) {
            return false;
        }
        self.set_flushed(table, flushed.flushed_to(to, version));
        rowsets.iter().for_each(|rowset| self.add(rowset.clone()));
        if let Some(NewMarks { file, is_whole }) = marks {
            if is_whole {
                self.remove_marks(table);
            }
            self.add_marks(table, file);
        }
        true
    }

    /// Applies a merge. Returns `false` if an input no longer exists; the new files are then to be
    /// deleted.
    ///
    /// # Panics
    /// When the new rowset exceeds the LSN range of the old ones, or those are not adjacent.
    pub(crate) fn replace(&mut self, replacement: &Replacement) -> bool {
        let Replacement { table, tablet, ref removed, ref added, marks } = *replacement;
        assert!(!removed.is_empty(), "a merge has inputs");
        assert!(!removed.contains(&added.id), "a new rowset has a new id");
        // The files of a partition in the recycle bin stay as they are.
        let rests = self.rests(table, added);
        let current = self.rowsets(tablet).filter(|_| !rests).collect::<Vec<_>>();
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
        // Nothing is left of rows that were all dead.
        if added.rows > 0 {
            self.add(added.clone());
        }
        if let Some(file) = marks {
            self.add_marks(table, file);
        }
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
            MetaEvent::Publish(publish) => self.publish(publish),
            MetaEvent::Replace(replacement) => self.replace(replacement),
            MetaEvent::Create(table) => self.create(table),
            MetaEvent::Define { table, change } => self.define(*table, change),
            MetaEvent::Rename(tables) => {
                self.placed(tables).is_some_and(|moved| self.rename(&moved))
            }
            MetaEvent::Move(moved) => self.rename(moved),
            MetaEvent::Divide(tables) => {
                tables.iter().filter(|change| self.divide_and_rest(change)).count() > 0
            }
            MetaEvent::Exchange { old, new } => self.exchange(*old, *new),
            MetaEvent::Truncate(tables) => {
                tables.iter().filter(|table| self.truncate(lsn, table)).count() > 0
            }
            MetaEvent::Drop(tables) => {
                tables.iter().filter(|table| self.remove_table(**table)).count() > 0
            }
            MetaEvent::DropDatabase(id) => self.remove_database(*id),
            MetaEvent::BinDatabase { database, at_micros } => {
                self.bin_database(*database, Some(*at_micros), None)
            }
            MetaEvent::RecoverDatabase { database, name } => {
                self.catalog.database(name).is_none()
                    && self.bin_database(*database, None, Some(name))
            }
            MetaEvent::Reserve(ends) => self.reserve(*ends),
            // The ends of its groups, and what it says of labels, enter with rows and labels.
            MetaEvent::Term(term) => self.reserve(term.ids),
            MetaEvent::Counter { table, end } => self.set_counter(*table, *end),
        }
    }

    /// Reserves ids up to these ends. Returns `false` if none is higher, as after a commit that
    /// came before the record.
    pub(crate) fn reserve(&mut self, ends: IdEnds) -> bool {
        // Counted in any case: a commit applies this to the store's copy and to memory, which may
        // have got there meanwhile, and both have to count alike.
        self.changes += 1;
        let raised = self.ids.max(ends);
        std::mem::replace(&mut self.ids, raised) != raised
    }

    /// Adds a table if its database exists and has no other table of its name.
    fn create(&mut self, table: &Arc<Table>) -> bool {
        let is_known = self.catalog.table_by_id(table.id).is_some();
        let fits = !is_known && (table.unlisted || self.is_free(table, &table.name));
        if fits && self.catalog.database_by_id(table.db).is_some() {
            self.put_table(Arc::clone(table));
            return true;
        }
        false
    }

    fn define(&mut self, id: TableId, change: &Definition) -> bool {
        let Some(table) = self.catalog.table_by_id(id) else { return false };
        let mut next = Table::clone(table);
        match change {
            Definition::Name(name) if self.is_free(table, name) => next = renamed(table, name),
            Definition::Listed if self.is_free(table, &table.name) => next.unlisted = false,
            Definition::Recovered(name)
                if table.dropped_micros.is_some() && self.is_free(table, name) =>
            {
                next = Table { unlisted: false, dropped_micros: None, ..renamed(table, name) };
            }
            Definition::Dropped { at_micros } if !table.unlisted => {
                (next.unlisted, next.dropped_micros) = (true, Some(*at_micros));
            }
            Definition::Name(_)
            | Definition::Listed
            | Definition::Recovered(_)
            | Definition::Dropped { .. } => return false,
            Definition::Properties(properties) => next.properties = properties.clone(),
            Definition::Comment(comment) => next.comment.clone_from(comment),
            Definition::Collation(collation) => next.collation = *collation,
            Definition::Buckets { count, auto } => {
                (next.buckets, next.buckets_auto) = (*count, *auto);
            }
            Definition::Sequence(_) if table.sequence.is_none() => return false,
            Definition::Sequence(sequence) => next.sequence = Some(*sequence),
            Definition::Keys(keys, foreign) => {
                next.declared_keys.clone_from(keys);
                foreign.apply(&mut next.foreign_keys);
                foreign::retain_whole(&mut next.foreign_keys, table.schema());
            }
            Definition::Policies(policies) => next.policies.clone_from(policies),
            Definition::Partitions(partitions) => return self.divide(id, partitions, None),
            Definition::Schema(schema) => {
                if schema.version <= table.schema().version {
                    return false;
                }
                next.history = table.history.with(TableSchema::clone(schema));
                foreign::retain_whole(&mut next.foreign_keys, schema);
                let last = schema.columns.iter().map(|column| column.id.next()).max();
                next.next_column = next.next_column.max(last.unwrap_or_default());
            }
        }
        self.put_table(Arc::new(next));
        true
    }

    fn divide_and_rest(&mut self, change: &Divide) -> bool {
        let divided = self.divide(change.table, &change.partitions, change.rests_micros);
        if divided {
            change.forgotten.iter().for_each(|one| self.forget(change.table, *one));
        }
        divided
    }

    /// Gives a table other partitions. Those with ids that it had keep their files; others go to
    /// the recycle bin, or are gone.
    fn divide(&mut self, id: TableId, partitions: &[Partition], rests: Option<i64>) -> bool {
        let Some(table) = self.catalog.table_by_id(id).cloned() else { return false };
        let is_divided = |one: &Partition| one.values.is_some();
        if partitions.iter().any(|one| is_divided(one) != table.partition_by.is_some()) {
            return false;
        }
        let next = Table { partitions: partitions.to_vec(), ..Table::clone(&table) };
        let kept = next.tablets().collect::<HashSet<_>>();
        let is_gone = |one: &&Partition| !one.tablets.iter().any(|id| kept.contains(id));
        for gone in table.partitions.iter().filter(is_gone) {
            match rests {
                Some(at_micros) => self.rest(&table, gone.clone(), at_micros),
                None => self.remove_rowsets(gone.tablets.iter().copied()),
            }
        }
        self.put_table(Arc::new(next));
        true
    }

    /// Lists table `new`, which is not, under the name of `old`, which is not listed any more.
    fn exchange(&mut self, old: TableId, new: TableId) -> bool {
        let tables = self.catalog.table_by_id(old).zip(self.catalog.table_by_id(new));
        let Some((old, new)) = tables else { return false };
        let is_hidden = new.unlisted && new.dropped_micros.is_none();
        if old.unlisted || !is_hidden || (old.db, &old.name) != (new.db, &new.name) {
            return false;
        }
        let old = Arc::new(Table { unlisted: true, ..Table::clone(old) });
        let new = Arc::new(Table { unlisted: false, ..Table::clone(new) });
        self.put_table(old);
        self.put_table(new);
        true
    }

    /// Leaves out schema versions up to `lost` of a table.
    pub(crate) fn skip_schemas(&mut self, table: TableId, lost: SchemaVersion) {
        let schema = self.catalog.table_by_id(table).map(|table| Arc::clone(table.schema()));
        let Some(schema) = schema.filter(|schema| schema.version <= lost) else { return };
        let (columns, sort_key) = (schema.columns.clone(), schema.sort_key.clone());
        let next = TableSchema::new(lost.next(), columns, sort_key);
        let next =
            next.with_checks(schema.checks.clone()).sequenced_by(schema.sequence).hiding_row_id();
        let next = Arc::new(next);
        self.define(table, &Definition::Schema(next));
    }

    /// Replaces the tablets of a table by new, empty ones.
    ///
    /// # Panics
    /// When their number differs, or the incarnation is not newer.
    pub(crate) fn truncate(&mut self, at: Lsn, truncate: &Truncate) -> bool {
        let Truncate { table: id, version, incarnation, ref tablets, keeps_counter } = *truncate;
        let Some(table) = self.catalog.table_by_id(id).cloned() else { return false };
        assert_eq!(tablets.len(), table.tablets().count(), "a TRUNCATE numbers all tablets");
        let mut next = Table::clone(&table);
        let mut tablets = tablets.iter();
        for partition in &mut next.partitions {
            assert!(incarnation > partition.incarnation, "a TRUNCATE raises incarnations");
            partition.incarnation = incarnation;
            partition.tablets.iter_mut().zip(&mut tablets).for_each(|(old, new)| *old = *new);
        }
        self.remove_rowsets(table.tablets());
        self.remove_marks(id);
        self.set_flushed(id, self.flushed[&id].flushed_to(at, version));
        self.put_table(Arc::new(next));
        if !keeps_counter && table.schema().auto_increment().is_some() {
            self.set_counter(id, 1);
        }
        true
    }
}

#[cfg(test)]
mod tests;
