//! INSERT .. ON DUPLICATE KEY UPDATE: which row each new one meets, on the first of its keys on
//! which it meets any.

use std::collections::{BTreeMap, HashMap};

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
        let schema = target.schema();
        let indexed = target.table().indexed();
        let unique = indexed.iter().map(|columns| {
            let codec = KeyCodec::of_index(schema, columns);
            codec.expect("columns of a key are never dropped")
        });
        let codecs = std::iter::once(KeyCodec::of_sort_key(schema)).chain(unique).collect();
        Self { rows, values, holders, current, codecs }
    }

    /// The new rows by the row that they meet, as long as no key is changed meanwhile.
    pub fn groups(&mut self) -> Vec<Group> {
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
