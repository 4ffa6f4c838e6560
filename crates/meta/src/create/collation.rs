//! Collations of columns, and what they cannot be used for.

use freshet_base::{ColumnId, Result, bail};
use freshet_schema::{Collation, Column, DeclaredKey, DeclaredKeyKind, KeyModel, Table, TableForm};

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
        TableForm::MySql => spec.collation.unwrap_or(Collation::Utf8mb4Bin),
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

/// Texts of keys are found by their bytes, so columns of keys are compared by bytes. Returns the
/// warnings about those for which the table said something else.
pub(super) fn of_keys(
    spec: &TableSpec,
    columns: &mut [Column],
    (key_model, sort_key): (KeyModel, &[usize]),
    declared: &[DeclaredKey],
) -> Result<Vec<String>> {
    let sorted = match key_model {
        KeyModel::Duplicate => &[],
        KeyModel::Unique | KeyModel::Primary | KeyModel::Aggregate => sort_key,
    };
    let unique = declared.iter().filter(|key| key.kind == DeclaredKeyKind::Unique);
    let unique = unique.flat_map(|key| &key.columns).copied();
    let sorted = sorted.iter().map(|&at| columns[at].id);
    let divided = spec.partition_by.iter().flat_map(|by| &by.columns).filter_map(|name| {
        columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).map(|column| column.id)
    });
    let keyed = sorted.chain(unique).chain(divided).collect::<Vec<ColumnId>>();
    let mut warnings = Vec::new();
    for (column, written) in columns.iter_mut().zip(&spec.columns) {
        let said = column.collation;
        if keyed.contains(&column.id) && to_bytes(column, written.collation)? {
            warnings.push(format!(
                "Column '{}' is compared by bytes and not by {}: it is part of a key",
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
            "Column '{}' cannot have COLLATE {}: it is part of a key or of PARTITION BY, whose \
             texts are found by their bytes; write COLLATE utf8mb4_bin, or leave it out of the key",
            column.name,
            written.name()
        );
    }
    column.collation = Collation::Utf8mb4Bin;
    Ok(true)
}

/// Compares a changed column by bytes, where rows are found by them.
///
/// # Errors
/// `NotSupported` if it names a collation that does not.
pub(crate) fn compare_keyed_by_bytes(
    table: &Table,
    written: Option<Collation>,
    new: &mut Column,
) -> Result<()> {
    let schema = table.schema();
    let is_sorted = table.key_model != KeyModel::Duplicate
        && schema.sort_key.iter().any(|&at| schema.columns[at].id == new.id);
    let is_unique = table
        .declared_keys
        .iter()
        .any(|key| key.kind == DeclaredKeyKind::Unique && key.columns.contains(&new.id));
    let is_divided = table.partition_by.as_ref().is_some_and(|by| by.columns.contains(&new.id));
    if is_sorted || is_unique || is_divided {
        to_bytes(new, written)?;
    }
    Ok(())
}
