//! Unique keys beside the primary key: which rows have the values that a statement brings, and what
//! becomes of rows that meet them (keys.md K1, K6; RFC 0018).
//!
//! A row is named by its primary key, wherever it is: stored, changed by the transaction, or one of
//! the statement.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use freshet_base::{Error, Lsn, Result, err};
use freshet_schema::key::KeyCodec;
use freshet_schema::row::RowCells;
use freshet_storage::resolver::{KeyedRows, Latch, Place, Values};

use crate::buffer::LoadBuffer;
use crate::engine::Engine;
use crate::key_rules::{Conflict, Decided, KeyRules, OnExisting, resolver};
use crate::locks::{LockOwner, PRIMARY};
use crate::target::LoadTarget;

/// For each unique key, and each of a statement's rows, which living row has its value.
pub(crate) struct Holders {
    of: Vec<Vec<Option<Box<[u8]>>>>,
    /// The highest LSN of these rows.
    pub seen: Lsn,
}

pub(crate) fn keys_of(target: &LoadTarget, buffer: &LoadBuffer) -> KeyedRows {
    let counts = (buffer.rows(), buffer.removals());
    KeyedRows::of_encoded(buffer.row_bytes(), counts, target.table(), target.schema())
}

pub(crate) fn values_of(target: &LoadTarget, buffer: &LoadBuffer) -> Values {
    let counts = (buffer.rows(), buffer.removals());
    Values::of_encoded(buffer.row_bytes(), counts, target.table(), target.schema())
}

impl Holders {
    /// The stored rows that have these values; `places` are those of the primary keys of `rows`.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub async fn find(
        latch: &mut Latch,
        target: &LoadTarget,
        (rows, places): (&KeyedRows, &[Option<Place>]),
        values: &Values,
    ) -> Result<Self> {
        if values.is_empty() {
            return Ok(Self { of: Vec::new(), seen: Lsn::ZERO });
        }
        let mut found = Vec::with_capacity(values.all().len());
        for (index, values) in values.all().iter().enumerate() {
            found.push(latch.find_values(index, values).await?);
        }
        if found.iter().flatten().all(Option::is_none) {
            let of = found.into_iter().map(|places| vec![None; places.len()]);
            return Ok(Self { of: of.collect(), seen: Lsn::ZERO });
        }
        let mut keys = HashMap::<_, Box<[u8]>>::new();
        for (place, at) in places.iter().zip(0..) {
            keys.extend(place.iter().map(|place| (place.id(), Box::from(rows.key(at)))));
        }
        let others = found.iter().flatten().flatten();
        let others = others.filter(|place| !keys.contains_key(&place.id()));
        let others = others.map(|place| (place.id(), place)).collect::<BTreeMap<_, _>>();
        let places = others.values().copied().collect::<Vec<_>>();
        let read = latch.read(&places, target.schema()).await?;
        let codec = KeyCodec::of_sort_key(target.schema());
        // What a TRUNCATE has removed since then has no value any more.
        for (id, row) in others.keys().zip(read) {
            let Some(row) = row else { continue };
            let mut key = Vec::new();
            codec.put(&row, &mut key);
            keys.insert(*id, key.into());
        }
        let seen = found.iter().flatten().flatten().filter_map(|place| latch.lsn_of(place));
        let seen = seen.fold(Lsn::ZERO, Lsn::max);
        let holder = |place: Option<Place>| place.and_then(|place| keys.get(&place.id()).cloned());
        let of = found.into_iter().map(|places| places.into_iter().map(holder).collect());
        Ok(Self { of: of.collect(), seen })
    }

    /// The primary key of the row that has the value of row `at` in the index with this number.
    pub fn holder(&self, index: usize, at: u32) -> Option<&[u8]> {
        self.of[index][at as usize].as_deref()
    }

    /// Whether any value has a holder.
    fn has_any(&self) -> bool {
        self.of.iter().flatten().any(Option::is_some)
    }

    /// The keys of holders that are not among `rows`, and that `is_new` accepts.
    pub fn others(&self, rows: &KeyedRows, is_new: impl Fn(&[u8]) -> bool) -> KeyedRows {
        if !self.has_any() {
            return KeyedRows::of_keys(std::iter::empty());
        }
        let own = set_of(rows);
        let all = self.of.iter().flatten().flatten().map(|key| &**key).collect::<BTreeSet<_>>();
        KeyedRows::of_keys(all.into_iter().filter(|key| !own.contains(key) && is_new(key)))
    }

    /// What a transaction sees: `own` says which of its own rows has a value, and stored rows that
    /// it `has_changed` do not exist for it.
    #[must_use]
    pub fn seen_by(
        mut self,
        values: &Values,
        own: impl Fn(usize, &[u8]) -> Option<Box<[u8]>>,
        has_changed: impl Fn(&[u8]) -> bool,
    ) -> Self {
        for (index, values) in values.all().iter().enumerate() {
            for &at in values.groups().flatten() {
                let holder = &mut self.of[index][at as usize];
                let stored = holder.take().filter(|key| !has_changed(key));
                *holder = own(index, values.key(at)).or(stored);
            }
        }
        self
    }

    /// The first of a statement's rows that shares a value with another one of them, or with a row
    /// that they neither replace nor remove.
    pub fn last_conflict(
        &self,
        rows: &KeyedRows,
        values: &Values,
        is_removed: impl Fn(&[u8]) -> bool,
    ) -> Option<Conflict> {
        if values.is_empty() {
            return None;
        }
        let own = if self.has_any() { set_of(rows) } else { HashSet::new() };
        let mut first = None::<Conflict>;
        for (index, values) in values.all().iter().enumerate() {
            for group in values.groups() {
                let is_other = |at: &&u32| {
                    let holder = self.holder(index, **at);
                    holder.is_some_and(|key| !own.contains(key) && !is_removed(key))
                };
                let met = group.iter().find(is_other).or(group.get(1));
                first = first.into_iter().chain(met.map(|at| (*at, index + 1))).min();
            }
        }
        first
    }
}

/// What a statement that locks what it meets has found.
pub(crate) struct Found {
    pub latch: Latch,
    /// With the unique keys that it has under the latch.
    pub target: LoadTarget,
    pub rows: KeyedRows,
    /// Of its unique keys.
    pub values: Values,
    pub places: Vec<Option<Place>>,
    /// The stored rows that have its values; they are locked.
    pub holders: Holders,
}

impl Found {
    /// Locks the keys of the rows in a buffer and their values, and the rows that have these.
    ///
    /// # Errors
    /// 1205, 1206 and 1213 for keys that others hold; files that cannot be read.
    pub async fn lock(
        engine: &Engine,
        target: &LoadTarget,
        owner: &LockOwner,
        buffer: &LoadBuffer,
        rules: KeyRules,
    ) -> Result<Self> {
        let (clock, deadline, table) = (engine.store.clock(), rules.deadline(engine), target.id());
        let (mut target, rows) = (target.clone(), keys_of(target, buffer));
        let mut values = values_of(&target, buffer);
        for (number, rows) in std::iter::once(&rows).chain(values.all()).enumerate() {
            owner.lock((table, number), rows, clock, deadline).await?;
        }
        let mut locked = BTreeSet::<Box<[u8]>>::new();
        loop {
            let mut latch = resolver(&target).latch().await?;
            if !latch.has_unique_keys_of(target.table()) {
                drop(latch);
                target = target.with_unique_keys_of_now(&engine.store.tables)?;
                values = values_of(&target, buffer);
                for (values, number) in values.all().iter().zip(1..) {
                    owner.lock((table, number), values, clock, deadline).await?;
                }
                continue;
            }
            let places = latch.find(&rows).await?;
            let holders = Holders::find(&mut latch, &target, (&rows, &places), &values).await?;
            let others = holders.others(&rows, |key| !locked.contains(key));
            if others.is_empty() {
                return Ok(Self { latch, target, rows, values, places, holders });
            }
            // Nobody waits for a key with the latch in hand (K5).
            drop(latch);
            owner.lock((table, PRIMARY), &others, clock, deadline).await?;
            locked.extend((0..others.len()).map(|at| Box::from(others.key(at))));
        }
    }
}

fn set_of(rows: &KeyedRows) -> HashSet<&[u8]> {
    (0..rows.len()).map(|at| rows.key(at)).collect()
}

/// A primary key that a statement has touched.
#[derive(Default)]
struct Touched {
    /// Whether a row had it before the statement.
    existed: bool,
    /// The row of the statement that has it now.
    now: Option<u32>,
}

/// What a statement does to its rows and to others, row by row.
struct Course<'a> {
    rows: &'a KeyedRows,
    values: &'a Values,
    holders: &'a Holders,
    /// Of each index and row, whether it has a value that others can have.
    counts: Vec<Vec<bool>>,
    touched: BTreeMap<&'a [u8], Touched>,
    /// Of each index, the last row of the statement that took a value.
    taken: Vec<HashMap<&'a [u8], u32>>,
    lives: Vec<bool>,
}

/// Decides about rows in the order in which they come, by all keys; `exists` says whether the
/// primary key of a row does before the statement.
pub(crate) fn decide_by_all(
    rows: &KeyedRows,
    values: &Values,
    holders: &Holders,
    exists: impl Fn(u32) -> bool,
    on_existing: OnExisting,
) -> Decided {
    let count = rows.len() as usize;
    let counts = values.all().iter().map(|values| {
        let mut counts = vec![false; count];
        values.groups().flatten().for_each(|&at| counts[at as usize] = true);
        counts
    });
    let mut course = Course {
        rows,
        values,
        holders,
        counts: counts.collect(),
        touched: BTreeMap::new(),
        taken: vec![HashMap::new(); values.all().len()],
        lives: vec![false; count],
    };
    let (mut refused, mut skipped, mut replaced) = (None, Vec::new(), 0);
    for at in 0..rows.len() {
        let rivals = course.rivals(at, &exists);
        match (rivals.first(), on_existing) {
            (Some((key, _)), OnExisting::Refuse) => {
                refused = Some((at, *key));
                break;
            }
            (Some((key, _)), OnExisting::Skip) => skipped.push((at, *key)),
            _ => {
                replaced += course.replace(rivals);
                course.insert(at);
            }
        }
    }
    let kept = (0..rows.len()).filter(|at| course.lives[*at as usize]).collect();
    let removed = course.touched.iter().filter(|(_, key)| key.existed && key.now.is_none());
    let removed = removed.map(|(key, _)| key.to_vec()).collect();
    Decided { kept, refused, skipped, replaced, removed }
}

impl<'a> Course<'a> {
    /// The living rows that a row meets, with the number of the key, in the order of keys.
    fn rivals(&self, at: u32, exists: impl Fn(u32) -> bool) -> Vec<(usize, &'a [u8])> {
        let key = self.rows.key(at);
        let is_there = match self.touched.get(key) {
            Some(touched) => touched.now.is_some(),
            None => exists(at),
        };
        let mut rivals = Vec::new();
        rivals.extend(is_there.then_some((PRIMARY, key)));
        for (index, values) in self.values.all().iter().enumerate() {
            if !self.counts[index][at as usize] {
                continue;
            }
            let own = self.taken[index].get(values.key(at));
            let own = own.filter(|other| self.lives[**other as usize]);
            let own = own.map(|other| self.rows.key(*other));
            let stored = self.holders.holder(index, at);
            let stored = stored.filter(|key| !self.touched.contains_key(*key));
            rivals.extend(own.or(stored).map(|key| (index + 1, key)));
        }
        rivals
    }

    /// Removes rows, and returns how many they were.
    fn replace(&mut self, rivals: Vec<(usize, &'a [u8])>) -> u64 {
        let rivals = rivals.into_iter().map(|(_, key)| key).collect::<BTreeSet<_>>();
        for key in &rivals {
            let stored = Touched { existed: true, now: None };
            let touched = self.touched.entry(key).or_insert(stored);
            if let Some(row) = touched.now.take() {
                self.lives[row as usize] = false;
            }
        }
        rivals.len() as u64
    }

    fn insert(&mut self, at: u32) {
        self.touched.entry(self.rows.key(at)).or_default().now = Some(at);
        for (index, values) in self.values.all().iter().enumerate() {
            if self.counts[index][at as usize] {
                self.taken[index].insert(values.key(at), at);
            }
        }
        self.lives[at as usize] = true;
    }
}

/// 1062 in MySQL's words, of a value in the key with this number, or of the row that has it, where
/// that is known.
pub(crate) fn duplicate_entry(
    target: &LoadTarget,
    number: usize,
    value: &[u8],
    row: Option<&[u8]>,
) -> Error {
    let (table, schema) = (target.table(), target.schema());
    let (codec, name) = key_of(target, number);
    let text = match row {
        Some(row) => codec.row_text(schema, row),
        None => codec.text(schema, value).expect("the key of a row is a key"),
    };
    err!(DuplicateKey, "Duplicate entry '{text}' for key '{}.{name}'", table.name)
}

/// The key with this number, and its name.
pub(crate) fn key_of(target: &LoadTarget, number: usize) -> (KeyCodec, &str) {
    let (table, schema) = (target.table(), target.schema());
    let unique = number.checked_sub(1).and_then(|at| table.unique_keys().nth(at));
    let (codec, name) = match unique {
        Some(key) => (KeyCodec::of_index(schema, &key.columns), key.name.as_str()),
        None => {
            let name = table.row_key().map_or("PRIMARY", |key| key.name.as_str());
            (Some(KeyCodec::of_sort_key(schema)), name)
        }
    };
    (codec.expect("columns of a key are never dropped"), name)
}

/// 1062 for one of the rows of a statement, which are in `buffer`.
pub(crate) fn duplicate_row(
    target: &LoadTarget,
    buffer: &LoadBuffer,
    (rows, values): (&KeyedRows, &Values),
    (at, number): Conflict,
) -> Error {
    let of = number.checked_sub(1).map_or(rows, |index| &values.all()[index]);
    let row = RowCells::new(target.schema()).rows(buffer.row_bytes()).nth(at as usize);
    duplicate_entry(target, number, of.key(at), row)
}
