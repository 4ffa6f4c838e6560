//! REORGANIZE PARTITION: which partitions take the place of which.

use freshet_base::{Result, bail};
use freshet_schema::{Partition, PartitionMethod, PartitionValues, Table, TableForm};

use crate::create::{Known, NewPartition, one_more};
use crate::spec::PartitionSpec;

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
    if table.form != TableForm::MySql {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'REORGANIZE PARTITION' of a table in the \
             form of Doris"
        );
    }
    let mut at = Vec::with_capacity(from.len());
    for name in from {
        match table.partition_at(name) {
            Some(found) if !at.contains(&found) => at.push(found),
            _ => bail!(
                NoSuchPartition,
                "Error in list of partitions to REORGANIZE: table '{}' has no partition '{name}', \
                 or it is named twice",
                table.name
            ),
        }
    }
    let is_range = by.method == PartitionMethod::Range;
    if is_range && !at.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        bail!(
            PartitionsApart,
            "When reorganizing a set of partitions they must be in consecutive order"
        );
    }
    let (removed, kept): (Vec<_>, Vec<_>) =
        table.partitions.iter().enumerate().partition(|(found, _)| at.contains(found));
    // A range begins where the one below it ends, and others are above.
    let is_below = |found: usize| !is_range || at.first().is_some_and(|first| found < *first);
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
    if is_range {
        check_end(table, &at, by.columns.len(), &made)?;
    }
    let of = |all: Vec<(usize, &Partition)>| all.into_iter().map(|(_, one)| one.clone()).collect();
    Ok(Reorganized { kept: of(kept), removed: of(removed), made })
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
