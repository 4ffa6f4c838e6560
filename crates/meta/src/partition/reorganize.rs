//! REORGANIZE, SPLIT and MERGE PARTITION: which partitions take the place of which.

use freshet_base::{Error, Result, bail, err};
use freshet_schema::{Partition, PartitionMethod, PartitionValues, Table, TableForm};

use crate::create::{Known, NewPartition, one_more};
use crate::spec::{PartitionSpec, ValueSpec, ValuesSpec};

/// What becomes of the partitions of a table.
pub(super) struct Reorganized {
    pub kept: Vec<Partition>,
    pub removed: Vec<Partition>,
    pub made: Vec<NewPartition>,
}

/// # Errors
/// 1507 for partitions that there are none, 1519 and 1520 for ranges apart or of other values, and
/// those of ADD PARTITION.
pub(super) fn planned(
    table: &Table,
    from: &[String],
    into: &[PartitionSpec],
) -> Result<Reorganized> {
    let by = table.partition_by.as_ref().expect("it is divided");
    let at = places(table, from, "REORGANIZE")?;
    let is_range = by.method == PartitionMethod::Range;
    // In the form of Doris ranges may leave gaps, and every row looks for its partition.
    let is_whole = is_range && table.form == TableForm::MySql;
    if is_whole && !at.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        return Err(apart());
    }
    let (removed, kept): (Vec<_>, Vec<_>) =
        table.partitions.iter().enumerate().partition(|(found, _)| at.contains(found));
    // A range begins where the one below it ends, and others are above.
    let is_below = |found: usize| !is_whole || at.first().is_some_and(|first| found < *first);
    let below = kept.iter().filter(|(found, _)| is_below(*found));
    let below = below.map(|(_, one)| Partition::clone(one)).collect::<Vec<_>>();
    let mut known = Known::of(&below, by.columns.len());
    let columns = &table.schema().columns;
    let mut made = Vec::with_capacity(into.len());
    for spec in into {
        let is_taken = |one: &Partition| one.is_named(&spec.name);
        if kept.iter().any(|(_, one)| is_taken(one)) {
            bail!(PartitionExists, "Duplicate partition name {}", spec.name);
        }
        let new = one_more(by, columns, table.form, &known, spec)?;
        known.push(new.clone());
        made.push(new);
    }
    if is_whole {
        check_end(table, &at, by.columns.len(), &made)?;
    }
    if kept.iter().any(|(_, one)| matches!(one.values, Some(PartitionValues::Others(_)))) {
        check_listed(&removed, &made)?;
    }
    let of = |all: Vec<(usize, &Partition)>| all.into_iter().map(|(_, one)| one.clone()).collect();
    Ok(Reorganized { kept: of(kept), removed: of(removed), made })
}

/// The indices of partitions.
fn places(table: &Table, from: &[String], what: &str) -> Result<Vec<usize>> {
    let mut at = Vec::with_capacity(from.len());
    for name in from {
        match table.partition_at(name) {
            Some(found) if !at.contains(&found) => at.push(found),
            _ => bail!(
                NoSuchPartition,
                "Error in list of partitions to {what}: table '{}' has no partition '{name}', or \
                 it is named twice",
                table.name
            ),
        }
    }
    Ok(at)
}

fn apart() -> Error {
    err!(PartitionsApart, "When reorganizing a set of partitions they must be in consecutive order")
}

/// One partition becomes two, at a value.
///
/// # Errors
/// 1507 for a partition that there is not, 1480 for one of a list, 1493 for a value that it lacks.
pub(super) fn split(
    table: &Table,
    from: &str,
    at: &[ValueSpec],
    into: &[String; 2],
) -> Result<Reorganized> {
    let by = table.partition_by.as_ref().expect("it is divided");
    let places = places(table, std::slice::from_ref(&from.to_owned()), "SPLIT")?;
    let old = &table.partitions[places[0]];
    let columns = by.columns.len();
    let spec = PartitionSpec {
        name: into[0].clone(),
        if_not_exists: false,
        values: ValuesSpec::LessThan(at.to_vec()),
    };
    let first = one_more(by, &table.schema().columns, table.form, &Known::new(columns), &spec)?;
    let (
        Some(PartitionValues::Range { upper: at, .. }),
        Some(PartitionValues::Range { lower, upper }),
    ) = (first.values, &old.values)
    else {
        bail!(PartitionValues, "SPLIT PARTITION .. AT is for ranges, and '{from}' is a list");
    };
    let below = PartitionValues::Range { lower: lower.clone(), upper: at.clone() };
    let above = PartitionValues::Range { lower: Some(at), upper: upper.clone() };
    if below.is_empty(columns) || above.is_empty(columns) {
        bail!(
            RangeNotIncreasing,
            "VALUES LESS THAN value must be strictly increasing for each partition: '{from}' is \
             not cut by the value of SPLIT PARTITION .. AT"
        );
    }
    let made = into.iter().zip([below, above]);
    let made = made.map(|(name, values)| NewPartition { name: name.clone(), values: Some(values) });
    Ok(exchanged(table, &places, made.collect()))
}

/// Some partitions become one, which has their values.
///
/// # Errors
/// 1507 for partitions that there are none, 1519 for ranges apart.
pub(super) fn merged(table: &Table, from: &[String], to: &str) -> Result<Reorganized> {
    let by = table.partition_by.as_ref().expect("it is divided");
    let mut at = places(table, from, "MERGE")?;
    at.sort_unstable();
    let old = at.iter().map(|&at| table.partitions[at].values.clone());
    let mut all = old.collect::<Option<Vec<_>>>().expect("it is divided").into_iter();
    let Some(mut values) = all.next() else { return Err(apart()) };
    for next in all {
        match (&mut values, next) {
            (PartitionValues::List(keys), PartitionValues::List(more)) => keys.extend(more),
            (PartitionValues::Others(_), PartitionValues::List(_)) => {}
            (list @ PartitionValues::List(_), others @ PartitionValues::Others(_)) => {
                *list = others;
            }
            (
                PartitionValues::Range { upper, .. },
                PartitionValues::Range { lower: Some(lower), upper: next },
            ) if *upper == lower => *upper = next,
            _ => return Err(apart()),
        }
    }
    assert!(!values.is_empty(by.columns.len()), "partitions that are shown have values");
    let made = vec![NewPartition { name: to.to_owned(), values: Some(values) }];
    Ok(exchanged(table, &at, made))
}

/// New partitions in the place of those at `places`.
fn exchanged(table: &Table, places: &[usize], made: Vec<NewPartition>) -> Reorganized {
    let numbered = table.partitions.iter().cloned().enumerate();
    let (removed, kept) = numbered.partition::<Vec<_>, _>(|(at, _)| places.contains(at));
    let of = |all: Vec<(usize, Partition)>| all.into_iter().map(|(_, one)| one).collect();
    Reorganized { kept: of(kept), removed: of(removed), made }
}

/// Rows with other values are in the partition of DEFAULT, which stays.
fn check_listed(removed: &[(usize, &Partition)], made: &[NewPartition]) -> Result<()> {
    let keys = |values: &Option<PartitionValues>| match values {
        Some(PartitionValues::List(keys)) => keys.clone(),
        _ => Vec::new(),
    };
    let before = removed.iter().flat_map(|(_, one)| keys(&one.values)).collect::<Vec<_>>();
    if made.iter().flat_map(|one| keys(&one.values)).all(|key| before.contains(&key)) {
        return Ok(());
    }
    bail!(
        PartitionsElsewhere,
        "REORGANIZE PARTITION gives a value that the partition of DEFAULT has: name that partition \
         among those that are reorganized, and write it again behind INTO"
    );
}

/// Ranges end where they ended before, or further up where nothing is above.
fn check_end(table: &Table, at: &[usize], columns: usize, made: &[NewPartition]) -> Result<()> {
    let end = |values: Option<&PartitionValues>| Some(values?.range(columns)?.1);
    let last = at.last().copied().unwrap_or_default();
    let before = end(table.partitions[last].values.as_ref()).flatten();
    let after = end(made.last().and_then(|one| one.values.as_ref())).flatten();
    let is_higher = match (&before, &after) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(before), Some(after)) => after >= before,
    };
    let is_last = last + 1 == table.partitions.len();
    if before == after && !made.is_empty() || is_last && is_higher && !made.is_empty() {
        return Ok(());
    }
    bail!(
        PartitionsElsewhere,
        "Reorganize of range partitions cannot change total ranges except for last partition where \
         it can extend the range"
    );
}
