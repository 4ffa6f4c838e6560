//! Collations of columns, and what they cannot be used for.

use freshet_base::{Result, bail};
use freshet_schema::{Collation, Column, KeyModel, Table, TableForm};

use crate::spec::{ColumnSpec, TableSpec};

/// The collation of texts that are compared by bytes, as in tables that are older than collations.
pub(crate) fn by_bytes(form: TableForm) -> Collation {
    match form {
        TableForm::Olap => Collation::Binary,
        TableForm::MySql => Collation::Utf8mb4Bin,
    }
}

/// The collation of columns that name none.
pub(crate) fn default_collation(spec: &TableSpec) -> Collation {
    match spec.form {
        TableForm::Olap => Collation::Binary,
        TableForm::MySql => spec.collation.or(spec.of_charset).unwrap_or(Collation::Utf8mb4Bin),
    }
}

/// The collation of a column of a table whose columns have `otherwise` where they name none.
pub(crate) fn of_column(written: &ColumnSpec, form: TableForm, otherwise: Collation) -> Collation {
    match form {
        TableForm::Olap => written.collation.unwrap_or(otherwise),
        TableForm::MySql => written.collation.or(written.of_charset).unwrap_or(otherwise),
    }
}

/// Checks the COLLATE of a table.
///
/// # Errors
/// `NotSupported` in Doris's syntax, which compares by bytes.
pub(crate) fn check_table(spec: &TableSpec) -> Result<()> {
    match spec.collation {
        Some(collation) if spec.form == TableForm::Olap && !collation.is_by_bytes() => bail!(
            NotSupported,
            "Table '{}' cannot have COLLATE {}: a table in the syntax of Doris (DISTRIBUTED BY, \
             DUPLICATE KEY and the like) compares texts by bytes; write COLLATE in the query, or \
             create the table in the syntax of MySQL",
            spec.name,
            collation.name()
        ),
        _ => Ok(()),
    }
}

/// Checks the COLLATE of a column.
///
/// # Errors
/// `NotSupported` in Doris's syntax, which compares by bytes.
pub(crate) fn check_written(written: &ColumnSpec, form: TableForm) -> Result<()> {
    match written.collation {
        Some(collation) if form == TableForm::Olap && !collation.is_by_bytes() => bail!(
            NotSupported,
            "Column '{}' cannot have COLLATE {}: a table in the syntax of Doris compares texts by \
             bytes; write COLLATE in the query, or create the table in the syntax of MySQL",
            written.name,
            collation.name()
        ),
        _ => Ok(()),
    }
}

/// Partitions are found by the bytes of texts, so columns of PARTITION BY are compared by bytes.
/// Returns the warnings about those for which the table said something else.
///
/// # Errors
/// `NotSupported` if a column itself says something else.
pub(super) fn of_divided(spec: &TableSpec, columns: &mut [Column]) -> Result<Vec<String>> {
    let names = spec.partition_by.iter().flat_map(|by| &by.columns).collect::<Vec<_>>();
    let mut warnings = Vec::new();
    for (column, written) in columns.iter_mut().zip(&spec.columns) {
        let said = column.collation;
        let is_divided = names.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
        if is_divided && to_bytes(column, written.collation)? {
            warnings.push(format!(
                "Column '{}' is compared by bytes and not by {}: it is part of PARTITION BY",
                column.name,
                said.name()
            ));
        }
    }
    Ok(warnings)
}

/// Compares a column by bytes, if it is a text that is not. Returns whether it was one.
fn to_bytes(column: &mut Column, written: Option<Collation>) -> Result<bool> {
    if !column.ty.is_text() || column.collation.is_by_bytes() {
        return Ok(false);
    }
    if let Some(written) = written {
        bail!(
            NotSupported,
            "Column '{}' cannot have COLLATE {}: it is part of PARTITION BY, whose texts are found \
             by their bytes; write COLLATE utf8mb4_bin",
            column.name,
            written.name()
        );
    }
    column.collation = Collation::Utf8mb4Bin;
    column.keyed_by_weights = false;
    Ok(true)
}

/// Leaves the collation of a column as it is by which rows are sorted and found, in a new
/// definition of the column.
///
/// # Errors
/// `NotSupported` if that names another one.
pub(crate) fn keep_collation(
    table: &Table,
    old: &Column,
    written: Option<Collation>,
    new: &mut Column,
) -> Result<()> {
    if table.partition_by.as_ref().is_some_and(|by| by.columns.contains(&new.id)) {
        to_bytes(new, written)?;
        return Ok(());
    }
    let schema = table.schema();
    let is_sorted_by = schema.sort_key.iter().any(|&at| schema.columns[at].id == new.id);
    let is_hashed = table.distribution.has(new.id);
    let is_unique = table.unique_keys().any(|key| key.has(new.id));
    if !is_sorted_by && !is_hashed && !is_unique {
        return Ok(());
    }
    new.keyed_by_weights = old.keyed_by_weights;
    let is_enforced = is_unique || is_sorted_by && table.key_model != KeyModel::Duplicate;
    let (before, after) = (old.collation, new.collation);
    let is_same = before == after || before.is_by_bytes() && after.is_by_bytes();
    if is_same || !new.ty.is_text() || !is_enforced && old.key_collation().is_none() {
        return Ok(());
    }
    if let Some(written) = written {
        bail!(
            NotSupported,
            "Can not change the collation of column '{}' from {} to {}: rows are sorted and found \
             by it; create a table with the new column, copy the rows by INSERT .. SELECT, and \
             exchange both by ALTER TABLE .. REPLACE WITH TABLE",
            old.name,
            before.name(),
            written.name()
        );
    }
    new.collation = before;
    Ok(())
}
