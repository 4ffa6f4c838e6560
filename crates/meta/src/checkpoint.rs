//! Checkpoints: the store contains exactly what has settled up to one LSN.
//!
//! A checkpoint is one commit of the differences between the fold in the store and the current
//! fold. Changes that are not records of the log (databases, users, the state of the log itself)
//! are committed immediately in the same way, which includes everything settled so far.

use freshet_base::{Lsn, Result};
use imbl::ordmap::DiffItem;

use crate::fold::Fold;
use crate::ids::IdKind;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::store::{Batch, MetaStore};

impl Meta {
    /// Commits what has settled since the last checkpoint; does nothing if nothing has changed.
    ///
    /// # Errors
    /// When the disk is full; it can be retried.
    pub fn checkpoint(&self) -> Result<()> {
        match self.is_ahead() {
            true => self.commit(Change::default()),
            false => Ok(()),
        }
    }

    /// Whether something has settled that the store lacks.
    pub fn is_ahead(&self) -> bool {
        self.fold().changes != self.saved.load().changes
    }

    /// The contents of the store. It may lag behind by one commit and is never ahead.
    pub fn saved(&self) -> Fold {
        Fold::clone(&self.saved.load())
    }

    /// The LSN of the last checkpoint; everything up to it is in the store.
    pub fn saved_lsn(&self) -> Lsn {
        self.saved.load().settled
    }

    /// Commits what has settled together with `change`, then applies `change` in memory.
    pub(crate) fn commit(&self, change: Change) -> Result<()> {
        // Held during the commit, since the contents of the store are known only after it.
        let _one = self.saving.lock();
        let mut next = self.fold();
        (change.edit)(&mut next);
        let mut batch = difference(&self.saved.load(), &next, self.store.as_ref())?;
        batch.append(change.batch);
        self.store.commit(batch)?;
        self.saved.store(std::sync::Arc::new(next));
        self.edit(change.edit);
        Ok(())
    }
}

/// The changes that turn a store with `old` into one with `new`.
fn difference(old: &Fold, new: &Fold, store: &dyn MetaStore) -> Result<Batch> {
    let mut batch = Batch::default();
    batch.put.push((keys::SETTLED.to_owned(), keys::encode(&new.settled)));
    for kind in IdKind::ALL {
        if old.ids.of(kind) != new.ids.of(kind) {
            batch.put.push((keys::ids(kind.name()), keys::encode(&new.ids.of(kind))));
        }
    }
    for item in old.flushed.diff(&new.flushed) {
        match item {
            DiffItem::Add(id, value) | DiffItem::Update { new: (id, value), .. } => {
                batch.put.push((keys::flushed(*id), keys::encode(value)));
            }
            DiffItem::Remove(id, _) => batch.delete.push(keys::flushed(*id)),
        }
    }
    for item in old.counters.diff(&new.counters) {
        match item {
            DiffItem::Add(id, value) | DiffItem::Update { new: (id, value), .. } => {
                batch.put.push((keys::counter(*id), keys::encode(value)));
            }
            DiffItem::Remove(id, _) => batch.delete.push(keys::counter(*id)),
        }
    }
    for item in old.rowsets.diff(&new.rowsets) {
        match item {
            DiffItem::Add(_, rowset) => {
                batch.put.push((keys::rowset(rowset), keys::encode(&**rowset)));
            }
            DiffItem::Remove(_, rowset) => batch.delete.push(keys::rowset(rowset)),
            DiffItem::Update { .. } => unreachable!("a rowset never changes"),
        }
    }
    for item in old.marks.diff(&new.marks) {
        match item {
            DiffItem::Add((table, number), file) => {
                batch.put.push((keys::mark_file(*table, *number), keys::encode(file)));
            }
            DiffItem::Remove((table, number), _) => {
                batch.delete.push(keys::mark_file(*table, *number));
            }
            DiffItem::Update { .. } => unreachable!("a mark file never changes"),
        }
    }
    for item in old.resting.diff(&new.resting) {
        match item {
            DiffItem::Add((table, partition), resting) => {
                batch.put.push((keys::resting(*table, *partition), keys::encode(&**resting)));
            }
            DiffItem::Remove((table, partition), _) => {
                batch.delete.push(keys::resting(*table, *partition));
            }
            DiffItem::Update { .. } => unreachable!("a partition in the recycle bin never changes"),
        }
    }
    new.catalog.difference(&old.catalog, store, &mut batch)?;
    Ok(batch)
}
