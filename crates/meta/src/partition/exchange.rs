//! Partitions that change places: REPLACE PARTITION takes temporary ones for those of the table,
//! EXCHANGE PARTITION the rows of another table.

use freshet_base::{Error, Result, TableId, bail, err};
use freshet_schema::key::length_of;
use freshet_schema::{
    Column, DeclaredKey, DeclaredKeyKind, Partition, PartitionBy, PartitionMethod, PartitionValues,
    Table, TableSchema,
};

use super::{Repartition, sort, unknown_partition};
use crate::create::{Known, NewPartition};
use crate::meta::Meta;

/// REPLACE PARTITION (..) WITH TEMPORARY PARTITION (..).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacing {
    pub from: Vec<String>,
    /// The temporary ones.
    pub by: Vec<String>,
    /// Whether both must have the same values.
    pub is_strict: bool,
    /// Whether the temporary ones keep their names; otherwise they get those that they replace, if
    /// they are as many.
    pub keeps_names: bool,
}

/// What changes in one of the two tables of an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchanged {
    pub table: TableId,
    pub change: Repartition,
    /// The partitions whose rows go to the new partitions of the other table.
    pub gives: Vec<usize>,
}

impl Meta {
    /// What REPLACE PARTITION changes: the table, and then its temporary partitions.
    ///
    /// # Errors
    /// 1735 for partitions that there are none, 1493 for values that do not fit.
    pub fn replacing(&self, id: TableId, replacing: &Replacing) -> Result<[Exchanged; 2]> {
        let catalog = self.catalog();
        let table = catalog.require(id)?;
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        check_unique_in_partition(table, "REPLACE PARTITION")?;
        let unknown = |name: &String| unknown_partition(table, name);
        let Some(temporary) = catalog.temporary_partitions(id) else {
            return Err(replacing.by.first().map_or_else(not_divided, unknown));
        };
        let gone = places(table, &replacing.from)?;
        let taken = places(temporary, &replacing.by)?;
        let (removed, kept) = parted(table, &gone);
        let (given, stay) = parted(temporary, &taken);
        if replacing.is_strict {
            check_same_values(by, &removed, &given)?;
        }
        let keeps_names = replacing.keeps_names || removed.len() != given.len();
        let mut known = Known::of(&kept, by.columns.len());
        let mut partitions = kept.clone();
        for (at, one) in given.iter().enumerate() {
            let name = if keeps_names { &one.name } else { &removed[at].name };
            let values = one.values.clone().expect("partitions of a divided table have values");
            known.check(name)?;
            check_free(&known, by, name, &values)?;
            let new = NewPartition { name: name.clone(), values: Some(values) };
            known.push(new.clone());
            partitions.push(self.partition_of(new, one.buckets(), table.incarnation())?);
        }
        sort(by, &mut partitions);
        let change = Repartition { removed, ..Repartition::of(by.clone(), partitions) };
        let of_table = Exchanged { table: id, change, gives: Vec::new() };
        let by = temporary.partition_by.clone().expect("temporary partitions have values");
        let change = Repartition { removed: given, ..Repartition::of(by, stay) };
        Ok([of_table, Exchanged { table: temporary.id, change, gives: taken }])
    }

    /// What INSERT OVERWRITE .. PARTITION changes: partitions get the rows that those of the same
    /// names have in `filled`, which was made like the table. Those of `filled` are `gives`.
    ///
    /// # Errors
    /// 1505 for a table without partitions, 1735 for an unknown one, 1235 where rows of other
    /// partitions may have a value that is unique.
    pub fn overwriting(&self, id: TableId, filled: TableId, names: &[String]) -> Result<Exchanged> {
        let catalog = self.catalog();
        let (table, filled) = (catalog.require(id)?, catalog.require(filled)?);
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        check_unique_in_partition(table, "INSERT OVERWRITE .. PARTITION")?;
        let mut partitions = table.partitions.clone();
        let mut removed = Vec::new();
        for at in places(table, names)? {
            let old = &table.partitions[at];
            let new = NewPartition { name: old.name.clone(), values: old.values.clone() };
            removed.push(old.clone());
            partitions[at] = self.partition_of(new, old.buckets(), table.incarnation())?;
        }
        // What it had is not kept: a statement that overwrites rows says so.
        let change = Repartition { removed, ..Repartition::of(by.clone(), partitions) };
        Ok(Exchanged { table: id, change, gives: places(filled, names)? })
    }

    /// What EXCHANGE PARTITION changes: the table with partitions, and then the other one.
    ///
    /// # Errors
    /// 1505 for a table without partitions, 1735 for an unknown one, 1732 if the other table has
    /// some, 1736 if the tables differ, 1731 if they do in what they say of all their rows.
    pub fn exchanging(&self, id: TableId, name: &str, other: TableId) -> Result<[Exchanged; 2]> {
        let catalog = self.catalog();
        let (table, other) = (catalog.require(id)?, catalog.require(other)?);
        let Some(by) = &table.partition_by else { return Err(not_divided()) };
        if other.partition_by.is_some() {
            bail!(
                ExchangeDivided,
                "Table to exchange with partition is partitioned: '{}'",
                other.name
            );
        }
        let at = table.partition_at(name).ok_or_else(|| unknown_partition(table, name))?;
        check_unique_in_partition(table, "EXCHANGE PARTITION")?;
        check_alike(table, other)?;
        let old = table.partitions[at].clone();
        let mut partitions = table.partitions.clone();
        let new = NewPartition { name: old.name.clone(), values: old.values.clone() };
        partitions[at] = self.partition_of(new, old.buckets(), table.incarnation())?;
        let removed = vec![old];
        let change = Repartition { removed, ..Repartition::of(by.clone(), partitions) };
        let of_table = Exchanged { table: id, change, gives: vec![at] };
        let change = self.emptied(table, other)?;
        Ok([of_table, Exchanged { table: other.id, change, gives: vec![0] }])
    }

    /// New tablets for a table without partitions, all of whose rows go. They are named by a range
    /// that has them all, of the columns that divide the table which takes them.
    fn emptied(&self, divided: &Table, table: &Table) -> Result<Repartition> {
        let by = divided.partition_by.as_ref().expect("it is divided");
        let column = |id: &_| {
            let at = divided.schema().position_of(*id).expect("PARTITION BY is of its columns");
            table.schema().columns[at].id
        };
        let by = PartitionBy {
            method: PartitionMethod::Range,
            columns: by.columns.iter().map(column).collect(),
            function: None,
            computed: None,
            has_columns_word: false,
            auto: None,
        };
        let all = PartitionValues::Range { lower: None, upper: Vec::new() };
        let old = &table.partitions[0];
        let removed = vec![Partition { values: Some(all), ..old.clone() }];
        let new = NewPartition { name: old.name.clone(), values: None };
        let partitions = vec![self.partition_of(new, table.buckets, table.incarnation())?];
        Ok(Repartition { removed, ..Repartition::of(by, partitions) })
    }
}

pub(crate) fn not_divided() -> Error {
    err!(NotPartitioned, "Partition management on a not partitioned table is not possible")
}

/// Refuses rows that come as a partition, where a value of them may be in another partition.
///
/// # Errors
/// 1235.
pub(crate) fn check_unique_in_partition(table: &Table, what: &str) -> Result<()> {
    match table.unique_across_partitions() {
        Some(key) => bail!(
            NotSupported,
            "This version of Freshet doesn't yet support '{what}' of a table whose UNIQUE GLOBAL \
             INDEX '{}' lacks a column of PARTITION BY: rows of other partitions may have its \
             values; INSERT .. SELECT the rows, or drop the index first",
            key.name
        ),
        None => Ok(()),
    }
}

/// The indices of partitions.
fn places(table: &Table, names: &[String]) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let at = table.partition_at(name).ok_or_else(|| unknown_partition(table, name))?;
        if places.contains(&at) {
            bail!(PartitionExists, "Duplicate partition name {name}");
        }
        places.push(at);
    }
    Ok(places)
}

/// The partitions at these places, and the others.
fn parted(table: &Table, places: &[usize]) -> (Vec<Partition>, Vec<Partition>) {
    let those = places.iter().map(|&at| table.partitions[at].clone()).collect();
    let others = table.partitions.iter().enumerate().filter(|(at, _)| !places.contains(at));
    (those, others.map(|(_, one)| one.clone()).collect())
}

/// Checks that partitions take the same rows as others: ranges that follow each other count as one.
fn check_same_values(by: &PartitionBy, from: &[Partition], to: &[Partition]) -> Result<()> {
    let columns = by.columns.len();
    let is_same = match by.method {
        PartitionMethod::Range => joined(from, columns) == joined(to, columns),
        PartitionMethod::List => values(from) == values(to),
    };
    if is_same {
        return Ok(());
    }
    bail!(
        PartitionValues,
        "the temporary partitions do not take the same values as the partitions that they replace; \
         PROPERTIES (\"strict_range\" = \"false\") allows that"
    )
}

fn joined(partitions: &[Partition], columns: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let range = |one: &Partition| one.values.as_ref().and_then(|values| values.range(columns));
    let mut ranges = partitions.iter().filter_map(range).collect::<Vec<_>>();
    ranges.sort_unstable();
    let mut joined: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    for (first, end) in ranges {
        match joined.last_mut() {
            Some((_, before)) if before.as_ref() == Some(&first) => *before = end,
            _ => joined.push((first, end)),
        }
    }
    joined
}

fn values(partitions: &[Partition]) -> Vec<&Vec<Vec<u8>>> {
    let keys = partitions.iter().filter_map(|one| match &one.values {
        Some(PartitionValues::List(keys)) => Some(keys),
        _ => None,
    });
    let mut keys = keys.flatten().collect::<Vec<_>>();
    keys.sort_unstable();
    keys
}

/// Checks that no partition which stays takes these values.
fn check_free(known: &Known, by: &PartitionBy, name: &str, values: &PartitionValues) -> Result<()> {
    let taken = match (by.method, values) {
        (PartitionMethod::List, PartitionValues::List(keys)) => known.has_value(keys),
        _ => known.overlapped(values).is_some(),
    };
    if taken {
        bail!(
            RangeNotIncreasing,
            "Partition '{name}' is intersected with range of a partition that is not replaced"
        );
    }
    Ok(())
}

/// Checks that rows of one table can be rows of another.
fn check_alike(table: &Table, other: &Table) -> Result<()> {
    let (columns, others) = (table.schema(), other.schema());
    let same_columns = columns.columns.len() == others.columns.len()
        && columns.columns.iter().zip(&others.columns).all(|(a, b)| is_same_column(a, b));
    let sequence = |schema: &TableSchema| schema.sequence.and_then(|id| schema.position_of(id));
    let same_keys = table.key_model == other.key_model
        && sequence(columns) == sequence(others)
        && columns.sort_key == others.sort_key
        && keys(table, columns) == keys(other, others);
    // Rows of both may have the same id.
    let number_rows = table.has_row_ids() || other.has_row_ids();
    if !same_columns || !same_keys || number_rows {
        bail!(
            ExchangeDifferent,
            "Tables have different definitions: '{}' and '{}'",
            table.name,
            other.name
        );
    }
    let differs =
        |what| err!(ExchangeOption, "Non matching attribute '{what}' between partition and table");
    if table.form != other.form {
        return Err(differs("ENGINE"));
    }
    if table.policies.iter().chain(&other.policies).next().is_some() {
        bail!(
            NotSupported,
            "EXCHANGE PARTITION of a table with row policies, which would show other rows: DROP \
             them first"
        );
    }
    let checks = |schema: &TableSchema| {
        let texts = schema.checks.iter().map(|check| (check.text.clone(), check.is_enforced));
        texts.collect::<Vec<_>>()
    };
    if checks(columns) != checks(others) {
        return Err(differs("CHECK"));
    }
    Ok(())
}

fn is_same_column(a: &Column, b: &Column) -> bool {
    let text = |column: &Column| column.generated.as_ref().map(|how| how.text.clone());
    let types = (a.ty, a.non_negative, a.nullable, a.length_unit, &a.aggregate, &a.labels);
    a.name.eq_ignore_ascii_case(&b.name)
        && types == (b.ty, b.non_negative, b.nullable, b.length_unit, &b.aggregate, &b.labels)
        && (a.collation, a.key_collation()) == (b.collation, b.key_collation())
        && a.auto_increment.is_some() == b.auto_increment.is_some()
        && text(a) == text(b)
        && a.elements.len() == b.elements.len()
        && a.elements.iter().zip(b.elements.iter()).all(|(a, b)| is_same_column(a, b))
}

/// The place of a column, and of how many first characters of it a key is.
type Part = (Option<usize>, Option<u32>);

/// The keys of a table, by the places of their columns.
fn keys(table: &Table, schema: &TableSchema) -> Vec<(DeclaredKeyKind, Vec<Part>)> {
    let part = |id: &_| (schema.position_of(*id), length_of(*id, &schema.columns));
    let place = |key: &DeclaredKey| (key.kind, key.columns.iter().map(part).collect::<Vec<_>>());
    let mut keys = table.declared_keys.iter().map(place).collect::<Vec<_>>();
    keys.sort_by(|a, b| a.1.cmp(&b.1));
    keys
}
