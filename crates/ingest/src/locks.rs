//! Locks of keys: who computes rows from stored ones, and every transaction that writes, holds the
//! keys until its marks are made, a transaction until its end (keys.md K1, K6).
//!
//! A key is held alone, or shared by those that read its row and want it to stay as it is (FOR
//! SHARE, RFC 0057).
//!
//! All locks stand behind one mutex, which is held for some look-ups. Whoever finds no lock at all
//! does not take it: statements of their own transaction hold the latch of their table instead.

use std::collections::{HashMap, HashSet, VecDeque};
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

/// Waits that are told of at once.
const WAITS_MAX: usize = 10_000;

/// How a key is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// Beside others that share it.
    Shared,
    Alone,
}

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

/// A key that is waited for, and what wakes who waits for it.
struct Queued<'a>(Waiting<'a>, oneshot::Receiver<()>);

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
    waits: HashMap<Owner, LockKey>,
}

/// Who holds keys or waits for one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Owner {
    number: u64,
    /// See [`KeyRules::connection`](crate::KeyRules::connection).
    connection: u32,
}

/// That somebody waits for a key which somebody else holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockWait {
    pub table: TableId,
    /// The number of the key: 0 for the primary one, behind which are the unique ones; of no key
    /// for the whole table.
    pub key: usize,
    /// The connection that waits, or 0, and whether it wants the key beside others.
    pub waiting: u32,
    pub shares: bool,
    /// The connection that holds it, or 0, and whether it does so beside others.
    pub blocking: u32,
    pub is_shared: bool,
}

struct Lock {
    key: LockKey,
    hold: Hold,
    holder: Owner,
    /// Those that share it with the holder.
    sharers: Vec<Owner>,
    /// In the order in which they get it.
    waiters: VecDeque<Waiter>,
}

struct Waiter {
    owner: Owner,
    hold: Hold,
    wakes: oneshot::Sender<()>,
}

/// A statement or transaction with the keys that it holds; they are released on drop.
pub(crate) struct LockOwner {
    all: Arc<KeyLocks>,
    id: Owner,
    held: Mutex<Vec<LockKey>>,
}

/// Takes a waiter out of the queue if it gives up, and passes on what it was given meanwhile.
struct Waiting<'a> {
    owner: &'a LockOwner,
    key: Option<LockKey>,
    /// It shares the key, and waits to have it alone.
    has_share: bool,
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
            lock.is_some_and(|lock| lock.holders().any(|holder| Some(holder) != own))
        })
    }

    /// The number of locked keys.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Who waits for whom, as far as there is room to say it.
    pub fn waits(&self) -> Vec<LockWait> {
        let inner = self.inner.lock();
        inner
            .waits
            .iter()
            .flat_map(|(owner, key)| inner.waits_of(*owner, key))
            .take(WAITS_MAX)
            .collect()
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

    /// That `owner` waits for those that hold `key`.
    fn waits_of(&self, owner: Owner, key: &LockKey) -> impl Iterator<Item = LockWait> {
        let lock = self.lock_of(key).into_iter();
        lock.flat_map(move |lock| {
            let waiter = lock.waiters.iter().find(|waiter| waiter.owner == owner);
            let shares = waiter.is_some_and(|waiter| waiter.hold == Hold::Shared);
            let others = lock.holders().filter(move |holder| *holder != owner);
            others.map(move |holder| LockWait {
                table: lock.key.table,
                key: lock.key.number,
                waiting: owner.connection,
                shares,
                blocking: holder.connection,
                is_shared: lock.hold == Hold::Shared,
            })
        })
    }

    /// Whether `owner` would wait for itself behind the holders of `key`. Who waits behind others
    /// in the queue waits for the same holders as they do.
    fn is_circle(&self, owner: Owner, key: &LockKey) -> bool {
        let (mut waits, mut known) = (vec![(owner, key)], HashSet::new());
        while let Some((waiter, key)) = waits.pop() {
            let Some(lock) = self.lock_of(key) else { continue };
            for holder in lock.holders().filter(|holder| *holder != waiter) {
                if holder == owner {
                    return true;
                }
                if let (true, Some(key)) = (known.insert(holder), self.waits.get(&holder)) {
                    waits.push((holder, key));
                }
            }
        }
        false
    }
}

impl Lock {
    fn holders(&self) -> impl Iterator<Item = Owner> {
        std::iter::once(self.holder).chain(self.sharers.iter().copied())
    }

    fn is_held_by(&self, owner: Owner) -> bool {
        self.holders().any(|holder| holder == owner)
    }

    /// Whether `owner` may hold it beside those that hold it.
    fn admits(&self, owner: Owner, hold: Hold) -> bool {
        match (self.is_held_by(owner), hold) {
            (true, Hold::Shared) => true,
            (true, Hold::Alone) => self.sharers.is_empty(),
            (false, hold) => hold == Hold::Shared && self.hold == Hold::Shared,
        }
    }

    /// Whether `owner` would get it so at once. Nobody who shares it passes by those that wait for
    /// it.
    fn lets_in(&self, owner: Owner, hold: Hold) -> bool {
        (self.is_held_by(owner) || self.waiters.is_empty()) && self.admits(owner, hold)
    }

    /// Lets `owner` hold it, which may; whether it did not before.
    fn give(&mut self, owner: Owner, hold: Hold) -> bool {
        if !self.is_held_by(owner) {
            self.sharers.push(owner);
            return true;
        }
        if hold == Hold::Alone {
            self.hold = Hold::Alone;
        }
        false
    }

    /// Takes it from who holds it; whether nobody does any more.
    fn leave(&mut self, owner: Owner) -> bool {
        let at = self.sharers.iter().position(|sharer| *sharer == owner);
        match at {
            Some(at) => _ = self.sharers.swap_remove(at),
            None => {
                assert_eq!(self.holder, owner, "who releases a key holds it");
                let Some(next) = self.sharers.pop() else { return true };
                self.holder = next;
            }
        }
        false
    }

    /// Gives it to those that wait in front, as far as they may have it; whether anybody holds it
    /// then.
    fn pass_on(&mut self, mut is_free: bool, waits: &mut HashMap<Owner, LockKey>) -> bool {
        while let Some(next) = self.waiters.front()
            && (is_free || self.admits(next.owner, next.hold))
        {
            let Some(next) = self.waiters.pop_front() else { break };
            waits.remove(&next.owner);
            // Who has just given up is passed over.
            if next.wakes.send(()).is_err() {
                continue;
            }
            if is_free {
                (self.holder, self.hold, is_free) = (next.owner, next.hold, false);
            } else {
                self.give(next.owner, next.hold);
            }
        }
        !is_free
    }
}

impl LockOwner {
    /// One whose keys are held for a connection, or for none (0).
    pub fn new(all: &Arc<KeyLocks>, connection: u32) -> Self {
        let id = Owner { number: all.owners.fetch_add(1, Ordering::Relaxed), connection };
        Self { all: Arc::clone(all), id, held: Mutex::default() }
    }

    /// Locks the values of these rows in the key of a table with this number, in their order,
    /// waiting for others until `deadline`, and holds them alone.
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
        self.hold(Hold::Alone, of, rows, clock, deadline).await
    }

    /// As [`Self::lock`], shared or alone.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub async fn hold(
        &self,
        hold: Hold,
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
            let (done, queued) = self.lock_until_held(hold, of, (rows, some))?;
            rest = &rest[done..];
            let Some(Queued(waiting, wakes)) = queued else { continue };
            if until(clock, deadline, wakes).await.is_none() {
                bail!(LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction");
            }
            waiting.done();
        }
        Ok(())
    }

    /// Locks the keys of some rows that are free or its own, up to the first one that another owner
    /// holds: it waits in the queue of that. Returns with how many keys it is done.
    fn lock_until_held(
        &self,
        hold: Hold,
        of: (TableId, usize),
        (rows, some): (&KeyedRows, &[u32]),
    ) -> Result<(usize, Option<Queued<'_>>)> {
        let mut inner = self.all.inner.lock();
        for (at, row) in some.iter().enumerate() {
            let Some(key) = self.take(&mut inner, hold, of, rows.key(*row))? else { continue };
            if inner.is_circle(self.id, &key) {
                return Err(err!(
                    Deadlock,
                    "Deadlock found when trying to get lock; try restarting transaction"
                ));
            }
            let (sender, wakes) = oneshot::channel();
            let lock = inner.lock_mut(&key).expect("as just seen");
            let has_share = lock.is_held_by(self.id);
            let waiter = Waiter { owner: self.id, hold, wakes: sender };
            match has_share {
                // Those in front of it would wait for it.
                true => lock.waiters.push_front(waiter),
                false => lock.waiters.push_back(waiter),
            }
            inner.waits.insert(self.id, key.clone());
            let waiting = Waiting { owner: self, key: Some(key), has_share };
            return Ok((at + 1, Some(Queued(waiting, wakes))));
        }
        Ok((some.len(), None))
    }

    /// Locks a value in the key of a table with this number unless it would have to wait, and says
    /// whether it is locked.
    ///
    /// # Errors
    /// 1206 when it would hold too many locks.
    pub fn lock_free(&self, hold: Hold, of: (TableId, usize), value: &[u8]) -> Result<bool> {
        let mut inner = self.all.inner.lock();
        Ok(self.take(&mut inner, hold, of, value)?.is_none())
    }

    /// The values in the key of a table with this number that it would have to wait for.
    pub fn taken(&self, hold: Hold, of: (TableId, usize)) -> Vec<Box<[u8]>> {
        let inner = self.all.inner.lock();
        let of_table = inner.locks.iter().filter(|lock| (lock.key.table, lock.key.number) == of);
        let taken = of_table.filter(|lock| !lock.lets_in(self.id, hold));
        taken.map(|lock| Box::from(&*lock.key.value)).collect()
    }

    /// Locks a value that it may hold so; otherwise returns the key that others hold.
    fn take(
        &self,
        inner: &mut Inner,
        hold: Hold,
        of: (TableId, usize),
        value: &[u8],
    ) -> Result<Option<LockKey>> {
        let hash = self.all.hash(of, value);
        let is_it = |lock: &Lock| lock.key.is(hash, of, value);
        let mut held = self.held.lock();
        let key = match inner.locks.entry(hash, is_it, |lock| lock.key.hash) {
            Entry::Occupied(mut lock) => {
                let lock = lock.get_mut();
                if !lock.lets_in(self.id, hold) {
                    return Ok(Some(lock.key.clone()));
                }
                let is_own = lock.is_held_by(self.id);
                if !is_own && held.len() >= LOCKS_MAX {
                    return Err(too_many());
                }
                if !lock.give(self.id, hold) {
                    return Ok(None);
                }
                lock.key.clone()
            }
            Entry::Vacant(_) if held.len() >= LOCKS_MAX => return Err(too_many()),
            Entry::Vacant(free) => {
                let key = LockKey { hash, table: of.0, number: of.1, value: Arc::from(value) };
                free.insert(Lock {
                    key: key.clone(),
                    hold,
                    holder: self.id,
                    sharers: Vec::new(),
                    waiters: VecDeque::new(),
                });
                self.all.held.fetch_add(1, Ordering::AcqRel);
                key
            }
        };
        held.push(key);
        Ok(None)
    }

    /// Leaves a key to those that wait for it.
    fn release(&self, inner: &mut Inner, key: &LockKey) {
        let Inner { locks, waits } = inner;
        let Ok(mut lock) = locks.find_entry(key.hash, |lock| lock.key == *key) else {
            unreachable!("a key that is held is locked");
        };
        let is_free = lock.get_mut().leave(self.id);
        if !lock.get_mut().pass_on(is_free, waits) {
            lock.remove();
            self.all.held.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn too_many() -> Error {
    err!(
        LockTableFull,
        "The total number of locks exceeds the lock table size: a transaction changes at most \
         {LOCKS_MAX} rows; use smaller ones"
    )
}

impl Waiting<'_> {
    /// It has the key.
    fn done(mut self) {
        let key = self.key.take().filter(|_| !self.has_share);
        self.owner.held.lock().extend(key);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let id = self.owner.id;
        let mut inner = self.owner.all.inner.lock();
        let Inner { locks, waits } = &mut *inner;
        waits.remove(&id);
        // Whoever held it may have passed it over and ended.
        let Some(lock) = locks.find_mut(key.hash, |lock| lock.key == key) else { return };
        if let Some(at) = lock.waiters.iter().position(|waiter| waiter.owner == id) {
            lock.waiters.remove(at);
            // Those behind it may have waited for it alone.
            lock.pass_on(false, waits);
        } else if !self.has_share && lock.is_held_by(id) {
            self.owner.release(&mut inner, &key);
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

#[cfg(test)]
mod tests;
