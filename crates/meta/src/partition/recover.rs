//! Partitions that come back from the recycle bin, and those that leave it for good (RFC 0046).

use freshet_base::{Error, PartitionId, Result, TableId, bail, err};
use freshet_schema::{DeclaredKey, PartitionValues, Table};

use super::{Repartition, check_names_beside, check_unique_in_partition, count, not_divided, sort};
use crate::create::{Known, NewPartition, range_text};
use crate::fold::{Resting, StoredResting};
use crate::meta::Meta;
use crate::names;

impl Meta {
    /// What RECOVER PARTITION changes, and what it brings back: the partition with this id, or the
    /// one of this name that was dropped last. It gets a new id.
    ///
    /// # Errors
    /// 1507 if the recycle bin has no such partition, 1517 if the name is taken, 1493 and 1495 if
    /// another partition has its values, 1235 if its rows may violate a key of the table.
    pub fn recovering(
        &self,
        id: TableId,
        (name, partition): (&str, Option<PartitionId>),
        new_name: Option<&str>,
    ) -> Result<(StoredResting, Repartition)> {
        let fold = self.fold();
        let table = fold.catalog.require(id)?;
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        let is_it = |one: &StoredResting| {
            let known = &one.resting.partition;
            known.is_named(name) && partition.is_none_or(|id| id == known.id)
        };
        let found = fold.resting_of(id).into_iter().filter(is_it);
        let newest = found.max_by_key(|one| (one.resting.dropped_micros, one.resting.partition.id));
        let stored = newest.ok_or_else(|| not_in_bin(table, name))?;
        check_keys(table, &stored.resting)?;
        let new_name = new_name.unwrap_or(&stored.resting.partition.name);
        names::check_partition(new_name)?;
        let known = Known::of(&table.partitions, by.columns.len());
        if known.has_name(new_name) {
            bail!(
                PartitionExists,
                "Duplicate partition name {new_name}: partition[{new_name}] already exist in \
                 table[{}]; RECOVER PARTITION .. AS gives it another name",
                table.name
            );
        }
        check_values(table, &stored.resting, &known)?;
        let values = stored.resting.partition.values.clone();
        let new = NewPartition { name: new_name.to_owned(), values };
        known.check(new_name)?;
        let buckets = stored.resting.partition.buckets();
        count(&table.partitions, buckets)?;
        let mut partitions = table.partitions.clone();
        partitions.push(self.partition_of(new, buckets, table.incarnation())?);
        check_names_beside(&fold.catalog, table, &partitions)?;
        sort(by, &mut partitions);
        let forgotten = vec![stored.resting.partition.id];
        let record = Repartition { forgotten, ..Repartition::of(by.clone(), partitions) };
        Ok((stored, record))
    }

    /// What the end of partitions in the recycle bin changes; `None` if none of them is there.
    pub fn forgetting(&self, id: TableId, those: &[PartitionId]) -> Option<Repartition> {
        let fold = self.fold();
        let table = fold.catalog.table_by_id(id)?;
        let by = table.partition_by.clone()?;
        let is_there = |one: &&PartitionId| fold.resting.contains_key(&(id, **one));
        let forgotten = those.iter().filter(is_there).copied().collect::<Vec<_>>();
        let partitions = table.partitions.clone();
        let record = Repartition { forgotten, ..Repartition::of(by, partitions) };
        (!record.forgotten.is_empty()).then_some(record)
    }
}

fn not_in_bin(table: &Table, name: &str) -> Error {
    err!(
        NoSuchPartition,
        "No partition named '{name}' in table '{}' in the recycle bin: SHOW CATALOG RECYCLE BIN \
         lists what was dropped without FORCE and is kept still",
        table.name
    )
}

/// That the rows of a partition have different values in all unique keys that the table has now.
fn check_keys(table: &Table, resting: &Resting) -> Result<()> {
    check_unique_in_partition(table, "RECOVER PARTITION")?;
    let is_known = |key: &DeclaredKey| resting.keys.iter().any(|one| one.columns == key.columns);
    let mut unique = table.declared_keys.iter().filter(|key| key.kind.is_unique());
    match unique.find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) => bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'RECOVER PARTITION' into a table that has \
             got the unique key '{}' since: rows of '{}' may have its values twice; drop the key \
             first",
            key.name,
            resting.partition.name
        ),
    }
}

/// That no partition has got values of one in the recycle bin since: rows which were written while
/// it was gone stay where they are.
fn check_values(table: &Table, resting: &Resting, known: &Known) -> Result<()> {
    let name = &resting.partition.name;
    let Some(values) = &resting.partition.values else { return Err(not_divided()) };
    if let PartitionValues::List(keys) = values {
        if known.has_value(keys) {
            bail!(
                ListTwice,
                "Can not recover partition[{name}]. Partition item conflict: another partition of \
                 '{}' has a value of it; DROP or REORGANIZE that one first",
                table.name
            );
        }
        return Ok(());
    }
    let Some(other) = known.overlapped(values) else { return Ok(()) };
    let by = table.partition_by.as_ref().expect("it is divided");
    let columns = by.columns_of(&table.schema().columns);
    let range = |values| range_text(&columns, values);
    bail!(
        RangeNotIncreasing,
        "Can not recover partition[{name}]. Range conflict: {} is intersected with range {} of \
         '{}'; DROP or REORGANIZE that one first",
        range(values),
        other.values.as_ref().map(range).unwrap_or_default(),
        other.name
    )
}
