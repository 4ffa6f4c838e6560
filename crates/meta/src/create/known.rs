//! The partitions beside which another one is made.

use std::collections::{BTreeMap, HashSet};

use freshet_base::{Result, bail};
use freshet_schema::{PARTITIONS_MAX, Partition, PartitionKey, PartitionValues};

use crate::names;

/// A partition without ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPartition {
    pub name: String,
    /// `None` without PARTITION BY.
    pub values: Option<PartitionValues>,
}

/// Partitions of one table, found by name and values.
pub(crate) struct Known {
    all: Vec<NewPartition>,
    /// In lower case.
    names: HashSet<String>,
    /// From the first key of each range to the one behind its last, and its index.
    ranges: BTreeMap<Vec<u8>, (Option<Vec<u8>>, usize)>,
    /// Those of lists.
    values: HashSet<PartitionKey>,
    /// Whether one takes all others.
    pub has_others: bool,
    /// The number of columns of PARTITION BY.
    columns: usize,
}

impl Known {
    pub fn new(columns: usize) -> Self {
        let (names, values) = (HashSet::new(), HashSet::new());
        let (all, ranges) = (Vec::new(), BTreeMap::new());
        Self { all, names, ranges, values, has_others: false, columns }
    }

    /// Those of a table.
    pub fn of(partitions: &[Partition], columns: usize) -> Self {
        let mut known = Self::new(columns);
        for one in partitions {
            known.push(NewPartition { name: one.name.clone(), values: one.values.clone() });
        }
        known
    }

    pub fn push(&mut self, new: NewPartition) {
        self.names.insert(new.name.to_lowercase());
        match &new.values {
            Some(PartitionValues::List(keys)) => self.values.extend(keys.iter().cloned()),
            Some(PartitionValues::Others(_)) => self.has_others = true,
            Some(values) => {
                let range = values.range(self.columns);
                let at = self.all.len();
                self.ranges.extend(range.map(|(first, end)| (first, (end, at))));
            }
            None => {}
        }
        self.all.push(new);
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn into_all(self) -> Vec<NewPartition> {
        self.all
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.names.contains(&name.to_lowercase())
    }

    /// Checks that another one can have this name.
    ///
    /// # Errors
    /// What MySQL says of names, and of too many partitions.
    pub fn check(&self, name: &str) -> Result<()> {
        names::check_partition(name)?;
        if self.has_name(name) {
            bail!(PartitionExists, "Duplicate partition name {name}");
        }
        if self.len() >= PARTITIONS_MAX {
            bail!(
                TooManyPartitions,
                "Too many partitions (including subpartitions) were defined: limit \
                 {PARTITIONS_MAX}"
            );
        }
        Ok(())
    }

    /// The end of the highest range: `None` in it is MAXVALUE.
    pub fn highest(&self) -> Option<&Option<Vec<u8>>> {
        self.ranges.last_key_value().map(|(_, (end, _))| end)
    }

    /// The upper bound of the highest range that ends below a key; `None` is above all keys.
    pub fn below(&self, end: Option<&[u8]>) -> Option<&PartitionKey> {
        let ends_below = |(known, _): &&(Option<Vec<u8>>, usize)| {
            known.as_deref().is_some_and(|known| end.is_none_or(|end| known < end))
        };
        let (_, at) = self.ranges.values().rev().find(ends_below)?;
        match &self.all[*at].values {
            Some(PartitionValues::Range { upper, .. }) => Some(upper),
            _ => None,
        }
    }

    /// A range that has a key of another one.
    pub fn overlapped(&self, values: &PartitionValues) -> Option<&NewPartition> {
        let (first, end) = values.range(self.columns)?;
        let before = self.ranges.range(..=first.clone()).next_back();
        let before = before.filter(|(_, (known, _))| known.as_ref().is_none_or(|it| *it > first));
        let behind = || self.ranges.range(first.clone()..).next();
        let behind = || behind().filter(|(known, _)| end.as_ref().is_none_or(|end| *known < end));
        before.or_else(behind).map(|(_, (_, at))| &self.all[*at])
    }

    /// Whether a list has one of these values.
    pub fn has_value(&self, keys: &[PartitionKey]) -> bool {
        keys.iter().any(|key| self.values.contains(key))
    }

    /// Whether one takes rows with these values.
    pub fn takes(&self, key: &PartitionKey) -> bool {
        let bytes = key.concat();
        let before = self.ranges.range(..=bytes.clone()).next_back();
        let is_below = |end: &Option<Vec<u8>>| end.as_ref().is_none_or(|end| bytes < *end);
        self.has_others
            || self.values.contains(key)
            || before.is_some_and(|(_, (end, _))| is_below(end))
    }

    /// What of a range no other one has, around a key that none has.
    pub fn free_part(&self, values: PartitionValues, key: &[u8]) -> PartitionValues {
        let PartitionValues::Range { mut lower, mut upper } = values else { return values };
        let bounds = |at: usize| match &self.all[at].values {
            Some(PartitionValues::Range { lower, upper }) => Some((lower, upper)),
            _ => None,
        };
        let whole = PartitionValues::Range { lower: lower.clone(), upper: upper.clone() };
        let Some((first, end)) = whole.range(self.columns) else { return whole };
        let before = self.ranges.range(..=key.to_vec()).next_back();
        if let Some((_, (known, at))) = before
            && known.as_ref().is_some_and(|known| *known > first)
            && let Some((_, its_upper)) = bounds(*at)
        {
            lower = Some(its_upper.clone());
        }
        let behind = self.ranges.range(key.to_vec()..).next();
        if let Some((known, (_, at))) = behind
            && end.is_none_or(|end| *known < end)
            && let Some((Some(its_lower), _)) = bounds(*at)
        {
            upper = its_lower.clone();
        }
        PartitionValues::Range { lower, upper }
    }
}
