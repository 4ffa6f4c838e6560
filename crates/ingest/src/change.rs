//! Statements that compute rows from stored ones: UPDATE, DELETE, INSERT .. ON DUPLICATE KEY
//! UPDATE, SELECT .. FOR UPDATE (keys.md K1, K3, K23).
//!
//! Such a statement locks keys, reads their rows at the end of the log, computes, and writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use freshet_base::{Error, Lsn, Result};
use freshet_meta::Claim;
use freshet_schema::KeyModel;
use freshet_schema::row::RowCells;
use freshet_storage::resolver::{KeyedRows, Place};

use crate::admit::WaitLimit;
use crate::append::PreparedLoad;
use crate::buffer::LoadBuffer;
use crate::counter::UsedIds;
use crate::engine::Engine;
use crate::gate::Pass;
use crate::key_rules::{KeyRules, resolver};
use crate::keyed::seen;
use crate::keyed_own::{OwnKeys, RowsByKey, Step, Told};
use crate::locks::{Hold, LockOwner, PRIMARY};
use crate::meeting::{Course, Meeting, codecs_of, values_of};
use crate::overtaken::{check_current, last_of};
use crate::own_rows::OwnRows;
use crate::ranks::Ranks;
use crate::removals::{RecordLimit, put_all_removals};
use crate::target::{LoadTarget, Loaded};
use crate::uniques::{Found, duplicate_entry, duplicate_row, keys_of};

mod append;
mod locking;
mod whole;

/// What became of a change.
pub enum Written {
    Done(Loaded),
    /// Somebody else has written one of the rows since it looked, where they are not locked, or a
    /// TRUNCATE or DROP PARTITION has removed rows: it may look again.
    Overtaken,
}

/// What is known of rows that are as they were found.
enum Same {
    /// Nobody may write to the table before the record.
    Unlocked,
    /// The transaction holds them. Of each, whether it is a stored row.
    Locked { in_base: Vec<bool> },
}

/// A statement that changes stored rows of a table with keys.
pub struct Change<'a> {
    engine: &'a Engine,
    target: &'a LoadTarget,
    own: Option<OwnRows>,
    rules: KeyRules,
    patience: WaitLimit,
    /// Holds its keys, if it is of no transaction.
    statement: LockOwner,
    /// The label of the load, if it is of no transaction.
    label: Option<Claim>,
    /// The highest LSN of rows that it has seen.
    seen: Lsn,
    /// The end of the log when it first looked.
    end: Option<Lsn>,
    /// Where it has found the stored row of each key when it first looked, if that matters later.
    looked: HashMap<Box<[u8]>, Option<Place>>,
    /// The stored rows that it has read, in a transaction and a table with a UNIQUE KEY.
    read: RowsByKey,
    /// Whether it locks the keys of a table with a UNIQUE KEY, too.
    locks: bool,
    /// How it holds the keys that it locks.
    hold: Hold,
    /// Of rows that are as they were found, since nobody had written to the table.
    same: Option<Same>,
    /// The ids of the rows that it inserts where it meets none: some may be generated.
    met: Option<UsedIds>,
    /// What a transaction is told of rows that come in the way of its rows before its COMMIT.
    told: Told,
    /// `None` where the end of a change of columns lets nobody in.
    pass: Option<Arc<Pass>>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        target: &'a LoadTarget,
        own: Option<OwnRows>,
        rules: KeyRules,
        patience: WaitLimit,
    ) -> Self {
        let statement = LockOwner::new(engine.locks(), rules.connection);
        let (seen, end, label) = (Lsn::ZERO, None, None);
        let (looked, read) = (HashMap::new(), BTreeMap::new());
        let pass = match &own {
            Some(own) => own.pass(target),
            None => target.pass(),
        };
        Self {
            engine,
            target,
            own,
            rules,
            patience,
            statement,
            label,
            seen,
            end,
            looked,
            read,
            locks: false,
            hold: Hold::Alone,
            same: None,
            met: None,
            told: Told::Duplicate,
            pass,
        }
    }

    /// Checks that no change of columns of the table is at its end, before anything is written.
    fn check_pass(&self) -> Result<()> {
        match self.pass {
            Some(_) => Ok(()),
            None => Err(self.target.state.changed()),
        }
    }

    /// Checks that the table has the columns in which rows are read, with the latch held.
    fn check_current(&self) -> Result<()> {
        check_current(&self.target.state, self.target.schema().version)
    }

    /// Gives the load a label. It is free again where the change fails or was overtaken.
    #[must_use]
    pub(crate) fn with_label(self, label: Option<Claim>) -> Self {
        assert!(self.own.is_none(), "a transaction has its own label");
        Self { label, ..self }
    }

    /// Lets the transaction read what it has inserted into a table with a UNIQUE KEY by key, before
    /// it looks for rows: by a sequence column stored rows may stay before them.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub async fn begin(&self) -> Result<()> {
        match self.own.as_ref().filter(|_| self.is_unlocked()) {
            Some(own) => own.begin_changes(self.engine, self.target, self.patience).await,
            None => Ok(()),
        }
    }

    /// Locks the keys of these rows, and returns the row that each has now, encoded with the
    /// columns of the target; of several rows with one key, that of the first.
    ///
    /// # Errors
    /// 1205, 1206 and 1213 for keys that others hold; files that cannot be read.
    pub async fn lock(&mut self, rows: &KeyedRows) -> Result<Vec<Option<Vec<u8>>>> {
        let mut current = vec![None; rows.len() as usize];
        self.begin().await?;
        let Some((places, latch)) = self.lock_keys(rows).await? else { return Ok(current) };
        let mut stored = Vec::new();
        for group in rows.groups() {
            let own = self.own.as_ref();
            match own.and_then(|own| own.changed(self.target, rows.key(group[0]))) {
                Some(row) => {
                    let is_there = |row: &Vec<u8>| !self.target.schema().is_deleted(row);
                    current[group[0] as usize] = row.filter(is_there);
                }
                None => stored.push(group[0] as usize),
            }
        }
        stored.retain(|&at| places[at].is_some());
        let wanted = stored.iter().filter_map(|&at| places[at].as_ref()).collect::<Vec<_>>();
        let read = latch.read(&wanted, self.target.schema()).await?;
        for (at, row) in stored.into_iter().zip(read) {
            // What deletes a key is kept by its sequence, and is no row of the table.
            current[at] = row.filter(|row| !self.target.schema().is_deleted(row));
            if let (true, Some(row)) = (self.is_unlocked() && self.own.is_some(), &current[at]) {
                let key = Box::from(rows.key(at as u32));
                self.read.insert(key, row.as_slice().into());
            }
        }
        Ok(current)
    }

    /// Whether nobody has written to the table since these rows were found as of an LSN, so that
    /// they are what they were. They need not be locked then: the record is refused where somebody
    /// comes before it, and who holds one of the keys is waited for. A transaction locks them.
    /// Otherwise [`Self::lock`] reads them.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub async fn is_unchanged(&mut self, rows: &KeyedRows, as_of: Lsn) -> Result<bool> {
        self.check_pass()?;
        let state = &self.target.state;
        if self.is_unlocked() || rows.is_empty() || last_of(state) > as_of {
            return Ok(false);
        }
        if let Some(own) = &self.own {
            let (clock, deadline) = (self.engine.store.clock(), self.rules.deadline(self.engine));
            let owner = own.owner(self.engine, self.rules.connection);
            owner.lock((self.target.id(), PRIMARY), rows, clock, deadline).await?;
        }
        let mut latch = resolver(self.target).latch().await?;
        let last = last_of(state);
        if last > as_of {
            return Ok(false);
        }
        self.same = Some(match &self.own {
            None => Same::Unlocked,
            Some(_) => {
                let places = latch.find(rows).await?;
                Same::Locked { in_base: places.iter().map(Option::is_some).collect() }
            }
        });
        self.end.get_or_insert(latch.end());
        self.seen = self.seen.max(last);
        Ok(true)
    }

    /// Removes the rows of which [`Self::is_unchanged`] has said that they are as they were found.
    /// Each key is there once.
    ///
    /// # Errors
    /// Those of appending. Nothing was changed then.
    pub async fn remove(mut self, rows: KeyedRows) -> Result<Written> {
        self.check_pass()?;
        let same = self.same.take().expect("other rows are looked at again");
        if let (Some(own), Same::Locked { in_base }) = (self.own.clone(), same) {
            let removed = (0..rows.len()).map(|at| rows.key(at)).collect::<Vec<_>>();
            assert_eq!(removed.len(), in_base.len(), "the same rows are removed");
            let step = self.step_without_rows(&removed, &in_base);
            let done = own.apply(self.engine, self.target, step, self.patience).await;
            return done.map(Written::Done);
        }
        self.same = Some(Same::Unlocked);
        let mut buffer = LoadBuffer::default();
        let (engine, schema, count) = (self.engine, self.target.schema(), rows.len());
        let limit = RecordLimit {
            bytes_max: engine.config().wal_load_bytes_max.bytes() as usize,
            check: &|bytes| engine.appender.check_changes_of(bytes, count as usize),
        };
        put_all_removals(engine.store.pool(), schema, &rows, (&mut buffer, limit)).await?;
        self.append_keyed(buffer, rows).await
    }

    /// A step of a transaction that writes no rows.
    fn step_without_rows(&self, removed: &[&[u8]], in_base: &[bool]) -> Step {
        let (mut nothing, nobody) = (LoadBuffer::default(), KeyedRows::of_keys(std::iter::empty()));
        nothing.begin();
        let seen = (self.seen, self.end.expect("a change has looked"));
        Step::change(self.target, (&nothing, &nobody), removed, (in_base, self.told), seen)
    }

    /// The rows that it has seen are durable up to here once the reply may be sent.
    pub fn seen(&self) -> Lsn {
        self.seen
    }

    /// The end of the log when it first looked, of which nothing may be durable yet.
    pub fn looked_to(&self) -> Lsn {
        self.end.unwrap_or(self.seen)
    }

    /// Locks keys and finds their stored rows.
    async fn lock_keys(
        &mut self,
        rows: &KeyedRows,
    ) -> Result<Option<(Vec<Option<Place>>, freshet_storage::resolver::Latch)>> {
        self.check_pass()?;
        if rows.is_empty() {
            return Ok(None);
        }
        let (engine, table) = (self.engine, self.target.id());
        let deadline = self.rules.deadline(engine);
        let clock = engine.store.clock();
        if self.locks || !self.is_unlocked() {
            let owner = self.owner();
            owner.hold(self.hold, (table, PRIMARY), rows, clock, deadline).await?;
        }
        let mut latch = resolver(self.target).latch().await?;
        self.check_current()?;
        let places = latch.find(rows).await?;
        if self.looks_again() {
            for (at, place) in (0..rows.len()).zip(&places) {
                // What the first look has found counts, even if a TRUNCATE has removed it since.
                self.looked.entry(rows.key(at).into()).or_insert_with(|| place.clone());
            }
        }
        self.end.get_or_insert(latch.end());
        self.seen = self.seen.max(seen(&latch, &places));
        Ok(Some((places, latch)))
    }

    /// Whether it matters later what it has found first: others may write the rows before it does.
    fn looks_again(&self) -> bool {
        self.own.is_some() || self.is_unlocked()
    }

    /// Whether keys of the table need not be locked: who writes there does not look (keys.md K13).
    fn is_unlocked(&self) -> bool {
        self.target.table().key_model == KeyModel::Unique
    }

    /// Writes the rows in `new` in place of those with the keys in `old`, which are locked and
    /// exist: old keys that no new row has are removed.
    ///
    /// # Errors
    /// 1062 when two new rows have one key, or a key that another row has; those of locking and of
    /// appending. Nothing was changed then.
    pub async fn write(self, old: &BTreeSet<Vec<u8>>, new: &LoadBuffer) -> Result<Written> {
        self.write_as(old, new, None).await
    }

    /// As [`Self::write`], of a load that was prepared, in a table with a UNIQUE KEY; its
    /// label stays in its signature unless the rows are written.
    ///
    /// # Errors
    /// Those of [`Self::write`].
    pub(crate) async fn write_as(
        mut self,
        old: &BTreeSet<Vec<u8>>,
        new: &LoadBuffer,
        prepared: Option<PreparedLoad<'_>>,
    ) -> Result<Written> {
        self.check_pass()?;
        let rows = keys_of(self.target, new);
        if old.is_empty() && rows.is_empty() {
            return Ok(Written::Done(Loaded::looked_only(self.seen)));
        }
        if let Some(twice) = rows.groups().find(|group| group.len() > 1) {
            return Err(self.duplicate(new, (&rows, twice[1])).await);
        }
        let fresh = rows.groups().map(|group| group[0]);
        let fresh = fresh.filter(|at| !old.contains(rows.key(*at)));
        // A deleted row that is kept stands where it was seen, or the record is refused.
        if self.target.schema().sequence.is_none() {
            self.check_fresh(new, &rows, fresh.collect()).await?;
        }
        let kept = rows.groups().map(|group| rows.key(group[0])).collect::<BTreeSet<_>>();
        let removed = old.iter().filter(|key| !kept.contains(key.as_slice()));
        let removed = removed.map(Vec::as_slice).collect::<Vec<_>>();
        match self.own.clone() {
            Some(own) => {
                self.check_values(&own, old, new).await?;
                let in_time = self.without_late(&own, new)?;
                let of_these = in_time.as_ref().map(|new| keys_of(self.target, new));
                let (new, rows) =
                    (in_time.as_ref().unwrap_or(new), of_these.as_ref().unwrap_or(&rows));
                let seen = (self.seen, self.end.expect("a change has looked"));
                let (target, engine, patience) = (self.target, self.engine, self.patience);
                let reserved = own.use_ids(engine, target, self.ids_of(new))?;
                let keys = (0..rows.len()).map(|at| rows.key(at));
                let in_base = removed.iter().copied().chain(keys).map(|key| {
                    let looked = self.looked.get(key).expect("a key was looked up");
                    // Where nobody looks at COMMIT, a removal is written for each key.
                    looked.is_some() || self.is_unlocked()
                });
                let in_base = in_base.collect::<Vec<_>>();
                let in_base = (&in_base[..], self.told);
                let step = Step::change(target, (new, rows), &removed, in_base, seen);
                let step = step.of_read(std::mem::take(&mut self.read));
                let loaded = own.apply(engine, target, step, patience).await?;
                Ok(Written::Done(Loaded { lsn: loaded.lsn.max(reserved), ..loaded }))
            }
            None if self.is_unlocked() => self.append_if_unchanged(new, &removed, prepared).await,
            None => self.append(new, &removed).await,
        }
    }

    /// The new rows but those that come too late by the sequence column, since they have a lower
    /// value than the row that they follow from: these change nothing. `None` for all of them.
    fn without_late(&self, own: &OwnRows, new: &LoadBuffer) -> Result<Option<LoadBuffer>> {
        let schema = self.target.schema();
        if schema.sequence.is_none() {
            return Ok(None);
        }
        let (ranks, rows) = (Ranks::of(schema), keys_of(self.target, new));
        let (mut kept, mut count) = (LoadBuffer::default(), 0);
        let out = kept.begin();
        for (row, at) in RowCells::new(schema).rows(new.row_bytes()).zip(0..) {
            let own = own.changed(self.target, rows.key(at)).flatten();
            let before = own.as_deref().or_else(|| self.read.get(rows.key(at)).map(|row| &**row));
            if before.is_none_or(|before| ranks.replaces(row, before)) {
                out.extend_from_slice(row);
                count += 1;
            }
        }
        kept.count(count)?;
        Ok(Some(kept))
    }

    /// The ids in rows, which also an UPDATE may have raised. What it has drawn before it looked
    /// is not good any more if ids have begun again since.
    fn ids_of(&self, rows: &LoadBuffer) -> Option<UsedIds> {
        let (counter, schema) = (self.target.counter()?, self.target.schema());
        let ids = counter.of_rows(schema, rows.row_bytes(), rows.rows());
        UsedIds::join(self.met, ids)
    }

    /// Locks the values that rows of a transaction bring, and checks that in the end no other row
    /// has one of them. A statement of its own does so when it appends.
    async fn check_values(
        &mut self,
        own: &OwnRows,
        old: &BTreeSet<Vec<u8>>,
        new: &LoadBuffer,
    ) -> Result<()> {
        let engine = self.engine;
        if self.target.table().unique_keys().next().is_none() {
            return Ok(());
        }
        let owner = own.owner(engine, self.rules.connection);
        let found = Found::lock(engine, self.target, owner, new, self.rules).await?;
        let Found { latch, target, rows, values, holders, .. } = found;
        self.seen = self.seen.max(holders.seen);
        drop(latch);
        let holders = own.sees(&target, &values, holders);
        match holders.last_conflict(&rows, &values, |key| old.contains(key)) {
            None => Ok(()),
            Some(conflict) => {
                engine.horizon().wait(self.seen).await;
                Err(duplicate_row(&target, new, (&rows, &values), conflict))
            }
        }
    }

    /// Locks the keys and values of new rows and the rows that have them, and says which rows these
    /// are.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub async fn meet(&mut self, new: &LoadBuffer) -> Result<Meeting> {
        self.check_pass()?;
        // A row that comes later would have been met.
        self.told = Told::Again;
        let engine = self.engine;
        let owner = self.owner();
        let found = Found::lock(engine, self.target, owner, new, self.rules).await?;
        let Found { mut latch, target, rows, values, places, holders } = found;
        self.check_current()?;
        let target = &target;
        let seen = seen(&latch, &places).max(holders.seen);
        let holders = match &self.own {
            Some(own) => own.sees(target, &values, holders),
            None => holders,
        };
        let others = holders.others(&rows, |_| true);
        let other_places = latch.find(&others).await?;
        let of_rows = (0..rows.len()).map(|at| rows.key(at)).zip(&places);
        let of_others = (0..others.len()).map(|at| others.key(at)).zip(&other_places);
        let mut stored = BTreeMap::new();
        let mut current = BTreeMap::new();
        for (key, place) in of_rows.chain(of_others) {
            if self.looks_again() {
                self.looked.entry(key.into()).or_insert_with(|| place.clone());
            }
            let changed = self.own.as_ref().and_then(|own| own.changed(target, key));
            match (changed, place) {
                (Some(row), _) => _ = row.map(|row| current.insert(key.to_vec(), row)),
                (None, Some(place)) => _ = stored.insert(key, place),
                (None, None) => {}
            }
        }
        let wanted = stored.values().copied().collect::<Vec<_>>();
        let read = latch.read(&wanted, target.schema()).await?;
        let read = stored.keys().zip(read).filter_map(|(key, row)| Some((key.to_vec(), row?)));
        current.extend(read);
        self.end.get_or_insert(latch.end());
        self.seen = self.seen.max(seen);
        self.met = UsedIds::join(self.met, new.ids());
        Ok(Meeting::new(target, (rows, values), holders, current))
    }

    /// 1062 if what the row with this number of a course becomes shares a value with another row.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub async fn met_by(
        &mut self,
        course: &Course<'_>,
        (number, after): (usize, &[u8]),
    ) -> Result<Option<Error>> {
        let taken = match course.taken(number, after) {
            Some(key) => Some(key),
            None => {
                let mut buffer = LoadBuffer::default();
                buffer.begin().extend_from_slice(after);
                buffer.count(1)?;
                course.taken_by_stored(&self.meet(&buffer).await?)
            }
        };
        Ok(taken.map(|key| duplicate_entry(self.target, key, &[], Some(after))))
    }

    /// Of rows that are to become others one after another, those that would share a value of a key
    /// with another row by then, by number, and 1062 for each: what IGNORE leaves as they are. The
    /// keys that the others bring are locked.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub async fn taken(&mut self, becomes: &[(&[u8], &[u8])]) -> Result<BTreeMap<usize, Error>> {
        let codecs = codecs_of(self.target);
        let changes_key = |(before, after): &(&[u8], &[u8])| {
            values_of(&codecs, before) != values_of(&codecs, after)
        };
        if !becomes.iter().any(changes_key) {
            return Ok(BTreeMap::new());
        }
        let mut new = LoadBuffer::default();
        let out = new.begin();
        becomes.iter().for_each(|(_, after)| out.extend_from_slice(after));
        new.count(becomes.len())?;
        let meeting = self.meet(&new).await?;
        let refused = meeting.refused(becomes.iter().map(|(before, _)| *before));
        if !refused.is_empty() {
            // A reply that tells of a row comes when that is durable.
            self.engine.horizon().wait(self.seen).await;
        }
        let error = |(at, key): (usize, usize)| {
            (at, duplicate_entry(self.target, key, &[], Some(becomes[at].1)))
        };
        Ok(refused.into_iter().map(error).collect())
    }

    /// Locks the keys that some of the new rows bring, and checks that no row has them.
    async fn check_fresh(
        &mut self,
        new: &LoadBuffer,
        rows: &KeyedRows,
        fresh: Vec<u32>,
    ) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let keys = KeyedRows::of_keys(fresh.iter().map(|at| rows.key(*at)));
        let Some((places, latch)) = self.lock_keys(&keys).await? else { return Ok(()) };
        drop(latch);
        for (at, place) in fresh.into_iter().zip(places) {
            let own = self.own.as_ref();
            let own = own.and_then(|own| own.changed(self.target, rows.key(at)));
            let exists = own.map_or(place.is_some(), |row| row.is_some());
            if exists {
                return Err(self.duplicate(new, (rows, at)).await);
            }
        }
        Ok(())
    }

    async fn duplicate(&self, new: &LoadBuffer, (rows, at): (&KeyedRows, u32)) -> Error {
        self.engine.horizon().wait(self.seen).await;
        let row = RowCells::new(self.target.schema()).rows(new.row_bytes()).nth(at as usize);
        duplicate_entry(self.target, PRIMARY, rows.key(at), row)
    }
}
