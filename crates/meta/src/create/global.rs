//! GLOBAL and CLUSTERED INDEX of PolarDB-X: what may be said of them (RFC 0044).

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::{Column, DeclaredKey, GlobalIndex, Placement};

use super::partition::check_clause;
use super::{buckets, placement, position};
use crate::spec::{DeclaredKeySpec, GlobalIndexSpec};

/// What was written of a key with these columns that is GLOBAL or CLUSTERED.
///
/// # Errors
/// 1064 for one without a name or with columns that it covers anyway, 1060 for columns that it
/// names twice, 1072 for unknown ones, 1503 for a clause with columns that it has not, and those of
/// partitions that are wrong.
pub(super) fn of_key(
    written: &DeclaredKeySpec,
    key: &[ColumnId],
    columns: &[Column],
) -> Result<Option<GlobalIndex>> {
    let Some(global) = &written.global else { return Ok(None) };
    let GlobalIndexSpec { clustered, covering, placement: clause, partition_by, buckets: count } =
        global;
    let kind = if *clustered { "CLUSTERED" } else { "GLOBAL" };
    let Some(name) = &written.name else {
        let named = written.columns.join(", ");
        bail!(Syntax, "A {kind} INDEX must have a name: that of ({named}) has none");
    };
    if *clustered && !covering.is_empty() {
        bail!(Syntax, "CLUSTERED INDEX '{name}' covers all columns: leave COVERING out");
    }
    let mut ids = Vec::with_capacity(covering.len());
    for column in covering {
        let missing = || {
            err!(
                KeyColumnMissing,
                "Key column '{column}' doesn't exist in table: COVERING of index '{name}'"
            )
        };
        let id = columns[position(columns, column).ok_or_else(missing)?].id;
        if key.contains(&id) || ids.contains(&id) {
            bail!(
                DuplicateColumn,
                "Duplicate column name '{column}': index '{name}' has it already, and COVERING \
                 names it"
            );
        }
        ids.push(id);
    }
    let placement = clause.as_ref().map(|clause| placement(clause, columns)).transpose()?;
    let placed = placement.iter().flat_map(|placement| &placement.columns);
    if let Some(id) = placed.copied().find(|id| !key.contains(id)) {
        let column = columns.iter().find(|column| column.id == id).map_or("", |one| &one.name);
        bail!(
            PartitionKey,
            "{kind} INDEX '{name}' must include all columns of its partitioning clause: it lacks \
             column '{column}'"
        );
    }
    if let Some(by) = partition_by {
        check_clause(by, columns)?;
    }
    buckets(*count, 1)?;
    Ok(Some(GlobalIndex { clustered: *clustered, covering: ids, placement }))
}

/// Checks that a key is not global in a table that has its rows in one place.
///
/// # Errors
/// 1235.
pub(crate) fn check_table(key: &DeclaredKey, of_table: Option<&Placement>) -> Result<()> {
    let words = ["SINGLE", "BROADCAST"];
    let is = |word: &&&str| of_table.is_some_and(|clause| clause.text.eq_ignore_ascii_case(word));
    match words.iter().find(is) {
        Some(word) if key.global.is_some() => bail!(
            NotSupported,
            "A {word} table has no GLOBAL INDEX ('{}'): write INDEX, which finds all its rows",
            key.name
        ),
        _ => Ok(()),
    }
}

/// Refuses a unique global index which there is a reason not to enforce.
///
/// # Errors
/// 1235.
pub(crate) fn check_unique_global(key: &DeclaredKey, why_not: Option<&str>) -> Result<()> {
    match why_not {
        Some(why) if key.global.is_some() => {
            bail!(NotSupported, "UNIQUE GLOBAL INDEX '{}' cannot be enforced: {why}", key.name)
        }
        _ => Ok(()),
    }
}
