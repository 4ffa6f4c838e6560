//! INSERT .. ON DUPLICATE KEY UPDATE: which row each new one meets, on the first of its keys on
//! which it meets any. And UPDATE IGNORE: which rows would meet another one.

use std::collections::{BTreeMap, HashMap, HashSet};

use freshet_schema::key::KeyCodec;
use freshet_storage::resolver::{KeyedRows, Values};

use crate::locks::PRIMARY;
use crate::target::LoadTarget;
use crate::uniques::Holders;

/// A row, stored or new, with the new rows that meet it.
pub struct Group {
    /// Its primary key.
    pub key: Vec<u8>,
    /// The stored row; `None` if the first new row is inserted.
    pub current: Option<Vec<u8>>,
    /// In their order.
    pub rows: Vec<u32>,
}

/// What a new row meets.
pub enum Met {
    /// The row with this number.
    Row(usize),
    /// A stored row that none has met so far, which gets the next number: its primary key, and the
    /// row.
    Stored(Vec<u8>, Vec<u8>),
    /// None: it gets the next number itself.
    Nothing,
}

/// New rows one after another, each of which meets rows as those before it have left them: where
/// keys change, it matters which comes first.
pub struct Course<'m> {
    meeting: &'m Meeting,
    values: Vec<Vec<(usize, &'m [u8])>>,
    /// Of each key the values that rows have now, and their numbers.
    taken: Vec<HashMap<Vec<u8>, usize>>,
    /// The primary keys of stored rows that have a number.
    known: HashSet<&'m [u8]>,
}

/// New rows and what they meet. Their keys are locked.
pub struct Meeting {
    rows: KeyedRows,
    values: Values,
    holders: Holders,
    current: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of the primary key and then of each unique key.
    codecs: Vec<KeyCodec>,
}

impl Meeting {
    pub(crate) fn new(
        target: &LoadTarget,
        (rows, values): (KeyedRows, Values),
        holders: Holders,
        current: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Self {
        Self { rows, values, holders, current, codecs: codecs_of(target) }
    }

    /// The new rows by the row that they meet, as long as no key is changed meanwhile.
    pub fn groups(&mut self) -> Vec<Group> {
        if self.codecs.len() == 1 && self.rows.are_distinct() {
            return self.groups_of_one();
        }
        let mut groups = Vec::<Group>::new();
        // Of each key the new rows that are inserted, and the groups of rows that were there.
        let mut inserted = vec![HashMap::<&[u8], usize>::new(); self.codecs.len()];
        let mut known = HashMap::<&[u8], usize>::new();
        let values = self.values_of_rows();
        for at in 0..self.rows.len() {
            let own = &values[at as usize];
            let met = own.iter().find_map(|(number, value)| {
                if let Some(group) = inserted[*number].get(value) {
                    return Some((*group, None));
                }
                let key = match number.checked_sub(1) {
                    None => self.current.contains_key(*value).then_some(*value),
                    Some(index) => self.holders.holder(index, at),
                };
                let key = key.filter(|key| self.current.contains_key(*key))?;
                Some((known.get(key).copied().unwrap_or(groups.len()), Some(key)))
            });
            let (group, stored) = met.unwrap_or((groups.len(), None));
            if let Some(group) = groups.get_mut(group) {
                group.rows.push(at);
                continue;
            }
            match stored {
                Some(key) => _ = known.insert(key, group),
                None => own.iter().for_each(|(number, value)| {
                    inserted[*number].insert(value, group);
                }),
            }
            let key = stored.unwrap_or(self.rows.key(at)).to_vec();
            groups.push(Group { current: stored.map(|_| Vec::new()), key, rows: vec![at] });
        }
        for group in groups.iter_mut().filter(|group| group.current.is_some()) {
            group.current = self.current.remove(&group.key);
        }
        groups
    }

    /// As [`Self::groups`], where no two new rows have one key, and there are no further keys.
    fn groups_of_one(&mut self) -> Vec<Group> {
        let Self { rows, current, .. } = self;
        let group = |at: u32| {
            let key = rows.key(at).to_vec();
            let current = current.remove(&key);
            Group { key, current, rows: vec![at] }
        };
        (0..rows.len()).map(group).collect()
    }

    /// The new rows one after another, instead of [`Self::groups`].
    pub fn course(&self) -> Course<'_> {
        let (values, taken) = (self.values_of_rows(), vec![HashMap::new(); self.codecs.len()]);
        Course { meeting: self, values, taken, known: HashSet::new() }
    }

    /// Whether two rows differ in a key.
    pub fn is_key_changed(&self, before: &[u8], after: &[u8]) -> bool {
        self.values_of(before) != self.values_of(after)
    }

    /// Of the keys on which the only new row meets a stored one, the number, and the primary key of
    /// that.
    fn stored(&self) -> impl Iterator<Item = (usize, &[u8])> {
        assert_eq!(self.rows.len(), 1, "one row is asked about");
        let values = self.values_of_rows().swap_remove(0).into_iter();
        let key = move |(number, value): (usize, _)| match number.checked_sub(1) {
            None => Some((number, value)),
            Some(index) => self.holders.holder(index, 0).map(|key| (number, key)),
        };
        values.filter_map(key).filter(|(_, key)| self.current.contains_key(*key))
    }

    /// Of each key the value that a row has, if it is not NULL.
    fn values_of(&self, row: &[u8]) -> Vec<(usize, Vec<u8>)> {
        values_of(&self.codecs, row)
    }

    /// Of rows that were `before` and become the new rows one after another, those that would get a
    /// value which another row has by then, by number, and the key. They stay as they are.
    pub(crate) fn refused<'r>(
        &self,
        before: impl Iterator<Item = &'r [u8]>,
    ) -> BTreeMap<usize, usize> {
        // Of each key the values that rows of the statement have got so far, and those that they
        // had.
        let mut taken = vec![HashSet::<&[u8]>::new(); self.codecs.len()];
        let mut left = vec![HashSet::<Vec<u8>>::new(); self.codecs.len()];
        let (after, mut refused) = (self.values_of_rows(), BTreeMap::new());
        for ((before, after), at) in before.zip(&after).zip(0_u32..) {
            let had = self.values_of(before);
            let is_in = |values: &[(usize, Vec<u8>)], number: usize, value: &[u8]| {
                values.iter().any(|(key, known)| *key == number && known == value)
            };
            let brings = || after.iter().filter(|(key, value)| !is_in(&had, *key, value));
            let is_taken = |(key, value): &&(usize, &[u8])| {
                let is_left = || left[*key].contains(*value);
                taken[*key].contains(value) || self.is_held(*key, value, at) && !is_left()
            };
            if let Some((key, _)) = brings().find(is_taken) {
                refused.insert(at as usize, *key);
                continue;
            }
            brings().for_each(|(key, value)| _ = taken[*key].insert(value));
            let is_kept = |key: usize, value: &[u8]| after.contains(&(key, value));
            let gone = had.iter().filter(|(key, value)| !is_kept(*key, value));
            gone.for_each(|(key, value)| _ = left[*key].insert(value.clone()));
        }
        refused
    }

    /// Whether a row had a value of the new row `at` before the statement.
    fn is_held(&self, number: usize, value: &[u8], at: u32) -> bool {
        let key = match number.checked_sub(1) {
            None => Some(value),
            Some(index) => self.holders.holder(index, at),
        };
        key.is_some_and(|key| self.current.contains_key(key))
    }

    /// Whether other rows of the statement than `at` have a key that an update with it gives up or
    /// takes: then it matters which comes first.
    pub fn interferes(&self, at: u32, before: &[u8], after: &[u8]) -> bool {
        self.codecs.iter().enumerate().any(|(number, codec)| {
            let (mut old, mut new) = (Vec::new(), Vec::new());
            codec.put(before, &mut old);
            codec.put(after, &mut new);
            let of = number.checked_sub(1).map_or(&self.rows, |index| &self.values.all()[index]);
            let mut others = of.groups().flatten().filter(|other| **other != at);
            old != new && others.any(|other| of.key(*other) == old || of.key(*other) == new)
        })
    }

    /// Of each row its keys, with their numbers, but for those with NULL.
    fn values_of_rows(&self) -> Vec<Vec<(usize, &[u8])>> {
        let rows = (0..self.rows.len()).map(|at| vec![(PRIMARY, self.rows.key(at))]);
        let mut all = rows.collect::<Vec<_>>();
        for (values, number) in self.values.all().iter().zip(1..) {
            for &at in values.groups().flatten() {
                all[at as usize].push((number, values.key(at)));
            }
        }
        all
    }
}

/// Of the primary key of a table and then of each unique key.
pub(crate) fn codecs_of(target: &LoadTarget) -> Vec<KeyCodec> {
    let schema = target.schema();
    let indexed = target.table().indexed();
    let unique = indexed.iter().map(|columns| {
        let codec = KeyCodec::of_index(schema, columns);
        codec.expect("columns of a key are never dropped")
    });
    std::iter::once(KeyCodec::of_sort_key(schema)).chain(unique).collect()
}

/// Of each of these keys the value that a row has, if it is not NULL.
pub(crate) fn values_of(codecs: &[KeyCodec], row: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let of = |(number, codec): (usize, &KeyCodec)| match number {
        PRIMARY => {
            let mut key = Vec::new();
            codec.put(row, &mut key);
            Some((number, key))
        }
        _ => {
            let (values, nulls) = codec.values_of_rows(row);
            (!nulls[0]).then(|| (number, values.key(0).to_vec()))
        }
    };
    codecs.iter().enumerate().filter_map(of).collect()
}

impl Course<'_> {
    /// What the new row with this index meets, on the first of its keys on which it meets any.
    pub fn meets(&mut self, at: u32) -> Met {
        let meeting = self.meeting;
        for &(number, value) in &self.values[at as usize] {
            if let Some(row) = self.taken[number].get(value) {
                return Met::Row(*row);
            }
            let key = match number.checked_sub(1) {
                None => Some(value),
                Some(index) => meeting.holders.holder(index, at),
            };
            // One that has a number has given the value up.
            let stored = key.and_then(|key| meeting.current.get_key_value(key));
            if let Some((key, row)) = stored.filter(|(key, _)| self.known.insert(key)) {
                return Met::Stored(key.clone(), row.clone());
            }
        }
        Met::Nothing
    }

    /// The key on which what the row with this number becomes shares a value with another one.
    pub(crate) fn taken(&self, number: usize, after: &[u8]) -> Option<usize> {
        let values = self.meeting.values_of(after);
        let is_taken = |(key, value): &&(usize, Vec<u8>)| {
            self.taken[*key].get(value).is_some_and(|row| *row != number)
        };
        values.iter().find(is_taken).map(|(key, _)| *key)
    }

    /// The same of stored rows that have no number, if `met` is what that row alone meets.
    pub(crate) fn taken_by_stored(&self, met: &Meeting) -> Option<usize> {
        met.stored().find(|(_, key)| !self.known.contains(key)).map(|(number, _)| number)
    }

    /// Says that the row with this number, which was `before`, if it was there, is `after`.
    pub fn becomes(&mut self, number: usize, before: Option<&[u8]>, after: &[u8]) {
        for (key, value) in before.map_or_else(Vec::new, |row| self.meeting.values_of(row)) {
            if self.taken[key].get(&value) == Some(&number) {
                self.taken[key].remove(&value);
            }
        }
        for (key, value) in self.meeting.values_of(after) {
            self.taken[key].insert(value, number);
        }
    }
}
