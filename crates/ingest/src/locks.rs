//! Locks of keys: who computes rows from stored ones, and every transaction that writes, holds the
//! keys until its marks are made, a transaction until its end (keys.md K1, K6).
//!
//! All locks stand behind one mutex, which is held for some look-ups. Whoever finds no lock at all
//! does not take it: statements of their own transaction hold the latch of their table instead.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use freshet_base::clock::{Clock, Deadline, until};
use freshet_base::{Error, Result, TableId, bail, err};
use freshet_storage::resolver::KeyedRows;
use futures::channel::oneshot;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::Mutex;

/// Locks that one owner may hold.
const LOCKS_MAX: usize = 2_000_000;

/// Keys that are locked while others wait for the mutex.
const KEYS_AT_ONCE: usize = 1024;

/// The number of the primary key among those of a table; unique keys follow it.
pub(crate) const PRIMARY: usize = 0;

/// A value of one of the keys of a table, and its hash.
#[derive(Clone)]
struct LockKey {
    hash: u64,
    table: TableId,
    /// The number of the key.
    number: usize,
    value: Arc<[u8]>,
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.hash, (other.table, other.number), &other.value)
    }
}

impl LockKey {
    fn is(&self, hash: u64, of: (TableId, usize), value: &[u8]) -> bool {
        self.hash == hash && (self.table, self.number) == of && *self.value == *value
    }
}

/// A key that another owner holds, and what wakes who waits for it.
type Queued = (LockKey, oneshot::Receiver<()>);

/// The locks of all tables.
#[derive(Default)]
pub(crate) struct KeyLocks {
    inner: Mutex<Inner>,
    hasher: DefaultHashBuilder,
    /// The number of keys that are locked.
    held: AtomicUsize,
    owners: AtomicU64,
}

#[derive(Default)]
struct Inner {
    locks: HashTable<Lock>,
    /// The key that an owner waits for.
    waits: HashMap<u64, LockKey>,
}

struct Lock {
    key: LockKey,
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
        of: (TableId, usize),
        rows: &KeyedRows,
        own: Option<&LockOwner>,
    ) -> bool {
        if self.held.load(Ordering::Acquire) == 0 {
            return false;
        }
        let inner = self.inner.lock();
        let own = own.map(|owner| owner.id);
        rows.groups().any(|group| {
            let value = rows.key(group[0]);
            let lock = inner.lock(self.hash(of, value), of, value);
            lock.is_some_and(|lock| Some(lock.holder) != own)
        })
    }

    /// The number of locked keys.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    fn hash(&self, of: (TableId, usize), value: &[u8]) -> u64 {
        self.hasher.hash_one((of, value))
    }
}

impl Inner {
    fn lock(&self, hash: u64, of: (TableId, usize), value: &[u8]) -> Option<&Lock> {
        self.locks.find(hash, |lock| lock.key.is(hash, of, value))
    }

    fn lock_of(&self, key: &LockKey) -> Option<&Lock> {
        self.locks.find(key.hash, |lock| lock.key == *key)
    }

    fn lock_mut(&mut self, key: &LockKey) -> Option<&mut Lock> {
        self.locks.find_mut(key.hash, |lock| lock.key == *key)
    }

    /// Whether `owner` would wait for itself behind the holder of `key`: one owner waits for one
    /// key, so there is one chain to follow.
    fn is_circle(&self, owner: u64, key: &LockKey) -> bool {
        let mut next = Some(key);
        while let Some(lock) = next.and_then(|key| self.lock_of(key)) {
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
        of: (TableId, usize),
        rows: &KeyedRows,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<()> {
        let firsts = rows.groups().map(|group| group[0]).collect::<Vec<_>>();
        let mut rest = firsts.as_slice();
        while !rest.is_empty() {
            // Others have their turn.
            let some = &rest[..rest.len().min(KEYS_AT_ONCE)];
            let (done, held) = self.lock_until_held(of, (rows, some))?;
            rest = &rest[done..];
            let Some((key, wakes)) = held else { continue };
            let mut waiting = Waiting { owner: self, key: Some(key) };
            if until(clock, deadline, wakes).await.is_none() {
                bail!(LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction");
            }
            self.held.lock().extend(waiting.key.take());
        }
        Ok(())
    }

    /// Locks the keys of some rows that are free or its own, up to the first one that another owner
    /// holds: it waits in the queue of that. Returns with how many keys it is done.
    fn lock_until_held(
        &self,
        of: (TableId, usize),
        (rows, some): (&KeyedRows, &[u32]),
    ) -> Result<(usize, Option<Queued>)> {
        let mut inner = self.all.inner.lock();
        for (at, row) in some.iter().enumerate() {
            let Some(held) = self.take(&mut inner, of, rows.key(*row))? else { continue };
            if inner.is_circle(self.id, &held) {
                return Err(err!(
                    Deadlock,
                    "Deadlock found when trying to get lock; try restarting transaction"
                ));
            }
            let (sender, wakes) = oneshot::channel();
            let lock = inner.lock_mut(&held).expect("as just seen");
            lock.waiters.push_back((self.id, sender));
            inner.waits.insert(self.id, held.clone());
            return Ok((at + 1, Some((held, wakes))));
        }
        Ok((some.len(), None))
    }

    /// Locks a value in the key of a table with this number unless another owner holds it, and
    /// says whether it is locked.
    ///
    /// # Errors
    /// 1206 when it would hold too many locks.
    pub fn lock_free(&self, of: (TableId, usize), value: &[u8]) -> Result<bool> {
        let mut inner = self.all.inner.lock();
        Ok(self.take(&mut inner, of, value)?.is_none())
    }

    /// Locks a value that is free or its own; otherwise returns the lock that another owner holds.
    fn take(
        &self,
        inner: &mut Inner,
        of: (TableId, usize),
        value: &[u8],
    ) -> Result<Option<LockKey>> {
        let hash = self.all.hash(of, value);
        let is_it = |lock: &Lock| lock.key.is(hash, of, value);
        let free = match inner.locks.entry(hash, is_it, |lock| lock.key.hash) {
            Entry::Occupied(lock) if lock.get().holder == self.id => return Ok(None),
            Entry::Occupied(lock) => return Ok(Some(lock.get().key.clone())),
            Entry::Vacant(free) => free,
        };
        let mut held = self.held.lock();
        if held.len() >= LOCKS_MAX {
            return Err(too_many());
        }
        let key = LockKey { hash, table: of.0, number: of.1, value: Arc::from(value) };
        free.insert(Lock { key: key.clone(), holder: self.id, waiters: VecDeque::new() });
        self.all.held.fetch_add(1, Ordering::AcqRel);
        held.push(key);
        Ok(None)
    }

    /// Gives a key to the next one that waits for it.
    fn release(&self, inner: &mut Inner, key: &LockKey) {
        let Inner { locks, waits } = inner;
        let Ok(mut lock) = locks.find_entry(key.hash, |lock| lock.key == *key) else {
            unreachable!("a key that is held is locked");
        };
        assert_eq!(lock.get().holder, self.id, "who releases a key holds it");
        while let Some((next, sender)) = lock.get_mut().waiters.pop_front() {
            waits.remove(&next);
            lock.get_mut().holder = next;
            if sender.send(()).is_ok() {
                return;
            }
        }
        lock.remove();
        self.all.held.fetch_sub(1, Ordering::AcqRel);
    }
}

fn too_many() -> Error {
    err!(
        LockTableFull,
        "The total number of locks exceeds the lock table size: a transaction changes at most \
         {LOCKS_MAX} rows; use smaller ones"
    )
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let id = self.owner.id;
        let mut inner = self.owner.all.inner.lock();
        let lock = inner.lock_mut(&key).expect("a key that is waited for is locked");
        if lock.holder == id {
            self.owner.release(&mut inner, &key);
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
        held.iter().for_each(|key| self.release(&mut inner, key));
    }
}
