//! The store as a checkpoint: what is settled up to one LSN, and exactly that.
//!
//! A checkpoint is one commit of what differs between the fold that the store holds and the fold
//! as it is now. What is not a record of the log (databases, users, the log's own state) is
//! committed at once, in the same way: it brings the rest along.

use freshet_base::{Lsn, Result};
use imbl::ordmap::DiffItem;

use crate::fold::Fold;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::store::{Batch, MetaStore};

impl Meta {
    /// Writes what has settled since the last checkpoint; nothing where nothing has changed.
    ///
    /// # Errors
    /// When the disk is full; then it may be tried again.
    pub fn checkpoint(&self) -> Result<()> {
        match self.is_ahead() {
            true => self.commit(Change::default()),
            false => Ok(()),
        }
    }

    /// Whether the store lacks something that has settled.
    pub fn is_ahead(&self) -> bool {
        self.fold().changes != self.saved.load().changes
    }

    /// What the store holds. It may be old by a commit, and is never newer.
    pub fn saved(&self) -> Fold {
        Fold::clone(&self.saved.load())
    }

    /// Everything up to here follows from the store alone.
    pub fn saved_lsn(&self) -> Lsn {
        self.saved.load().settled
    }

    /// Commits what has settled together with `change`, and makes that.
    pub(crate) fn commit(&self, change: Change) -> Result<()> {
        // Held across the commit, since what the store holds is known behind it.
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

/// What brings a store from `old` to `new`.
fn difference(old: &Fold, new: &Fold, store: &dyn MetaStore) -> Result<Batch> {
    let mut batch = Batch::default();
    batch.put.push((keys::SETTLED.to_owned(), keys::encode(&new.settled)));
    for item in old.flushed.diff(&new.flushed) {
        match item {
            DiffItem::Add(id, value) | DiffItem::Update { new: (id, value), .. } => {
                batch.put.push((keys::flushed(*id), keys::encode(value)));
            }
            DiffItem::Remove(id, _) => batch.delete.push(keys::flushed(*id)),
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
    new.catalog.difference(&old.catalog, store, &mut batch)?;
    Ok(batch)
}
