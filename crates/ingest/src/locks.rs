//! Locks of keys: who computes rows from stored ones, and every transaction that writes, holds the
//! keys until its marks are made, a transaction until its end (keys.md K1, K6).
//!
//! All locks stand behind one mutex, which is held for a look-up each. Whoever finds no lock at all
//! does not take it: statements of their own transaction hold the latch of their table instead.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use freshet_base::clock::{Clock, Deadline, until};
use freshet_base::{Result, TableId, bail, err};
use freshet_storage::resolver::KeyedRows;
use futures::channel::oneshot;
use parking_lot::Mutex;

/// Locks that one owner may hold.
const LOCKS_MAX: usize = 2_000_000;

/// The number of the primary key among those of a table; unique keys follow it.
pub(crate) const PRIMARY: usize = 0;

/// A table, the number of one of its keys, and a value of that.
type LockKey = (TableId, usize, Box<[u8]>);

/// The locks of all tables.
#[derive(Default)]
pub(crate) struct KeyLocks {
    inner: Mutex<Inner>,
    /// The number of keys that are locked.
    held: AtomicUsize,
    owners: AtomicU64,
}

#[derive(Default)]
struct Inner {
    locks: HashMap<LockKey, Lock>,
    /// The key that an owner waits for.
    waits: HashMap<u64, LockKey>,
}

struct Lock {
    holder: u64,
    /// In the order in which they get it.
    waiters: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A statement or transaction with the keys that it holds; they are released on drop.
pub(crate) struct LockOwner {
    all: Arc<KeyLocks>,
    id: u64,
    held: Mutex<Vec<LockKey>>,
}

/// Takes a waiter out of the queue if it gives up, and passes on what it was given meanwhile.
struct Waiting<'a> {
    owner: &'a LockOwner,
    key: Option<LockKey>,
}

impl KeyLocks {
    /// Whether another owner holds any of these keys.
    pub fn others_hold(
        &self,
        (table, number): (TableId, usize),
        rows: &KeyedRows,
        own: Option<&LockOwner>,
    ) -> bool {
        if self.held.load(Ordering::Acquire) == 0 {
            return false;
        }
        let inner = self.inner.lock();
        let own = own.map(|owner| owner.id);
        rows.groups().any(|group| {
            let key = (table, number, Box::from(rows.key(group[0])));
            inner.locks.get(&key).is_some_and(|lock| Some(lock.holder) != own)
        })
    }

    /// The number of locked keys.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }
}

impl Inner {
    /// Whether `owner` would wait for itself behind the holder of `key`: one owner waits for one
    /// key, so there is one chain to follow.
    fn is_circle(&self, owner: u64, key: &LockKey) -> bool {
        let mut next = Some(key);
        while let Some(lock) = next.and_then(|key| self.locks.get(key)) {
            if lock.holder == owner {
                return true;
            }
            next = self.waits.get(&lock.holder);
        }
        false
    }
}

impl LockOwner {
    pub fn new(all: &Arc<KeyLocks>) -> Self {
        let id = all.owners.fetch_add(1, Ordering::Relaxed);
        Self { all: Arc::clone(all), id, held: Mutex::default() }
    }

    /// Locks the values of these rows in the key of a table with this number, in their order,
    /// waiting for others until `deadline`.
    ///
    /// # Errors
    /// 1205 when that is over, 1213 when it would wait for itself, 1206 when it would hold too many
    /// locks. What it has locked so far stays locked.
    pub async fn lock(
        &self,
        (table, number): (TableId, usize),
        rows: &KeyedRows,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<()> {
        for group in rows.groups() {
            let key = (table, number, Box::from(rows.key(group[0])));
            let Some(wakes) = self.try_lock(&key)? else { continue };
            let mut waiting = Waiting { owner: self, key: Some(key) };
            if until(clock, deadline, wakes).await.is_none() {
                bail!(LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction");
            }
            self.held.lock().extend(waiting.key.take());
        }
        Ok(())
    }

    /// Locks a key that is free or its own; otherwise waits in its queue.
    fn try_lock(&self, key: &LockKey) -> Result<Option<oneshot::Receiver<()>>> {
        let mut inner = self.all.inner.lock();
        if let Some(lock) = inner.locks.get(key) {
            if lock.holder == self.id {
                return Ok(None);
            }
            if inner.is_circle(self.id, key) {
                return Err(err!(
                    Deadlock,
                    "Deadlock found when trying to get lock; try restarting transaction"
                ));
            }
            let (sender, wakes) = oneshot::channel();
            let lock = inner.locks.get_mut(key).expect("as just seen");
            lock.waiters.push_back((self.id, sender));
            inner.waits.insert(self.id, key.clone());
            return Ok(Some(wakes));
        }
        self.take(&mut inner, key)?;
        Ok(None)
    }

    /// Locks a value in the key of a table with this number unless another owner holds it, and
    /// says whether it is locked.
    ///
    /// # Errors
    /// 1206 when it would hold too many locks.
    pub fn lock_free(&self, (table, number): (TableId, usize), value: &[u8]) -> Result<bool> {
        let key = (table, number, Box::from(value));
        let mut inner = self.all.inner.lock();
        if let Some(lock) = inner.locks.get(&key) {
            return Ok(lock.holder == self.id);
        }
        self.take(&mut inner, &key)?;
        Ok(true)
    }

    /// Locks a key that is free.
    fn take(&self, inner: &mut Inner, key: &LockKey) -> Result<()> {
        let mut held = self.held.lock();
        if held.len() >= LOCKS_MAX {
            bail!(
                LockTableFull,
                "The total number of locks exceeds the lock table size: a transaction changes at \
                 most {LOCKS_MAX} rows; use smaller ones"
            );
        }
        let lock = Lock { holder: self.id, waiters: VecDeque::new() };
        inner.locks.insert(key.clone(), lock);
        self.all.held.fetch_add(1, Ordering::AcqRel);
        held.push(key.clone());
        Ok(())
    }

    /// Gives a key to the next one that waits for it.
    fn release(&self, inner: &mut Inner, key: LockKey) {
        let Entry::Occupied(mut lock) = inner.locks.entry(key) else {
            unreachable!("a key that is held is locked");
        };
        assert_eq!(lock.get().holder, self.id, "who releases a key holds it");
        while let Some((next, sender)) = lock.get_mut().waiters.pop_front() {
            inner.waits.remove(&next);
            lock.get_mut().holder = next;
            if sender.send(()).is_ok() {
                return;
            }
        }
        lock.remove();
        self.all.held.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let id = self.owner.id;
        let mut inner = self.owner.all.inner.lock();
        let lock = inner.locks.get_mut(&key).expect("a key that is waited for is locked");
        if lock.holder == id {
            self.owner.release(&mut inner, key);
        } else {
            lock.waiters.retain(|(waiter, _)| *waiter != id);
            inner.waits.remove(&id);
        }
    }
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        let held = std::mem::take(&mut *self.held.lock());
        if held.is_empty() {
            return;
        }
        let mut inner = self.all.inner.lock();
        held.into_iter().for_each(|key| self.release(&mut inner, key));
    }
}
