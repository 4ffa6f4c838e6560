//! Statements that lock rows and change none: SELECT .. FOR UPDATE and FOR SHARE.

use std::collections::BTreeMap;

use freshet_base::{Lsn, Result};
use freshet_storage::resolver::KeyedRows;

use super::Change;
use crate::locks::{Hold, LockOwner, PRIMARY};
use crate::overtaken::last_of;

impl Change<'_> {
    /// Who holds the keys: the transaction, or the statement alone.
    pub(super) fn owner(&self) -> &LockOwner {
        let of_transaction = self.own.as_ref();
        of_transaction.map_or(&self.statement, |own| own.owner(self.engine, self.rules.connection))
    }

    /// Locks the keys of a table with a UNIQUE KEY, which only statements lock that say so: loads
    /// replace rows there without looking, and a COMMIT compares what it has read (RFC 0052).
    #[must_use]
    pub fn locking(self) -> Self {
        Self { locks: true, ..self }
    }

    /// Lets others share the keys that it locks: it only reads the rows (RFC 0057).
    #[must_use]
    pub fn sharing(self) -> Self {
        Self { hold: Hold::Shared, ..self }
    }

    /// Locks the keys of these rows without reading them, but for what a COMMIT compares. Returns
    /// up to where the log has to be read to see what they are now.
    ///
    /// # Errors
    /// Those of [`Self::lock`]; `OutOfRoom`.
    pub async fn hold(&mut self, rows: &KeyedRows) -> Result<Lsn> {
        self.check_pass()?;
        if self.is_unlocked() {
            self.lock(rows).await?;
            self.keep_read().await?;
        } else {
            let (clock, deadline) = (self.engine.store.clock(), self.rules.deadline(self.engine));
            let owner = self.owner();
            owner.hold(self.hold, (self.target.id(), PRIMARY), rows, clock, deadline).await?;
        }
        self.seen = self.seen.max(last_of(&self.target.state));
        Ok(self.seen)
    }

    /// The keys of the table that others hold so that it would have to wait for them.
    pub fn taken_keys(&self) -> Vec<Box<[u8]>> {
        let owner = self.owner();
        owner.taken(self.hold, (self.target.id(), PRIMARY))
    }

    /// Locks the keys of the first of these rows that nobody else holds, `most` at most, and
    /// returns them.
    ///
    /// # Errors
    /// 1206 for too many locks.
    pub fn lock_free(&mut self, rows: &KeyedRows, most: u64) -> Result<KeyedRows> {
        self.check_pass()?;
        let owner = self.owner();
        let mut locked = Vec::new();
        for at in 0..rows.len() {
            if locked.len() as u64 >= most {
                break;
            }
            if owner.lock_free(self.hold, (self.target.id(), PRIMARY), rows.key(at))? {
                locked.push(rows.key(at));
            }
        }
        Ok(KeyedRows::of_keys(locked.into_iter()))
    }

    /// Forgets the rows that it has read: nothing follows from them, and a COMMIT compares none.
    #[must_use]
    pub(crate) fn forgetting(self) -> Self {
        Self { read: BTreeMap::new(), ..self }
    }

    /// Keeps the rows that it has read in its transaction, whose COMMIT compares them if it changes
    /// the table: it has locked them for what follows.
    ///
    /// # Errors
    /// `OutOfRoom`.
    pub async fn keep_read(&mut self) -> Result<()> {
        let (Some(own), false) = (self.own.clone(), self.read.is_empty()) else { return Ok(()) };
        let step = self.step_without_rows(&[], &[]);
        let step = step.of_read(std::mem::take(&mut self.read));
        own.apply(self.engine, self.target, step, self.patience).await.map(drop)
    }
}
