//! What names the rows of tables without a PRIMARY KEY, so that their UNIQUE keys are enforced.

use freshet_base::{ErrorCode, Result, bail, err};
use freshet_schema::key::KEY_BYTES_MAX;
use freshet_schema::{COLUMNS_MAX, Column, DeclaredKey, DeclaredKeyKind, TableForm, row_id_column};

use super::sizes::key_bytes_max;
use super::{looked_up, position, rank};
use crate::spec::{DefaultSpec, DistributionSpec, TableSpec};

/// The columns of the key that takes the place of a PRIMARY KEY that a table lacks: as in MySQL,
/// the first UNIQUE whose columns are NOT NULL. None does where rows are divided by other columns.
///
/// # Errors
/// 1071 for one that is too long.
pub(super) fn names_rows(
    spec: &TableSpec,
    columns: &[Column],
    declared: &[DeclaredKey],
) -> Result<Option<Vec<usize>>> {
    let has_primary = declared.iter().any(|key| key.kind == DeclaredKeyKind::Primary);
    if spec.form != TableForm::MySql || spec.key.is_some() || has_primary {
        return Ok(None);
    }
    const NOT_NULL: u8 = 1;
    let unique = declared.iter().filter(|key| key.global.is_none());
    let unique = unique.filter(|key| rank(key, columns) == NOT_NULL);
    for key in unique {
        let places = match looked_up(key, columns, spec.form) {
            Ok(places) => places,
            Err(error) if error.code() == ErrorCode::KeyTooLong => return Err(error),
            // Of types that no key has.
            Err(_) => continue,
        };
        let is_inside =
            |name: &String| places.iter().any(|&at| columns[at].name.eq_ignore_ascii_case(name));
        let is_divided_so = match &spec.distribution {
            None => true,
            Some(DistributionSpec::Hash(names)) => names.iter().all(is_inside),
            Some(_) => false,
        };
        if is_divided_so {
            return Ok(Some(places));
        }
    }
    Ok(None)
}

/// Adds the hidden column by which rows of a table with unique keys are named where nothing else
/// does it, and returns the sort key: the columns that divide the rows, so that a key says where
/// its row is, and the row id. `None` where there is no such key, or no room for the column.
pub(super) fn row_id(
    spec: &TableSpec,
    columns: &mut Vec<Column>,
    declared: &[DeclaredKey],
) -> Option<Vec<usize>> {
    let is_enforced = |key: &DeclaredKey| key.kind == DeclaredKeyKind::Unique;
    let is_asked_for = spec.form == TableForm::MySql
        && spec.key.is_none()
        && declared.iter().any(is_enforced)
        && !declared.iter().any(|key| key.kind == DeclaredKeyKind::Primary);
    if !is_asked_for || columns.len() >= COLUMNS_MAX {
        return None;
    }
    let hashed = spec.distribution.iter().flat_map(|by| match by {
        DistributionSpec::Hash(names) => names.as_slice(),
        DistributionSpec::Random => &[],
    });
    let divides = spec.partition_by.iter().flat_map(|by| &by.columns).chain(hashed);
    let divides = divides.chain(spec.placement.iter().flat_map(|placement| &placement.columns));
    let mut sort_key = Vec::new();
    for at in divides.filter_map(|name| position(columns, name)) {
        if !sort_key.contains(&at) {
            sort_key.push(at);
        }
    }
    let id = columns.iter().map(|column| column.id).max()?.next();
    let row_id = row_id_column(id);
    let bytes = |column: &Column| key_bytes_max(column.ty, spec.form);
    let whole = sort_key.iter().map(|&at| bytes(&columns[at])).sum::<u64>() + bytes(&row_id);
    if whole > KEY_BYTES_MAX as u64 || !sort_key.iter().all(|&at| columns[at].ty.can_be_key()) {
        return None;
    }
    sort_key.push(columns.len());
    columns.push(row_id);
    Some(sort_key)
}

/// Columns of a primary key are NOT NULL, whether or not this was written.
pub(super) fn set_primary_not_null(spec: &TableSpec, columns: &mut [Column]) -> Result<()> {
    let primary = spec.declared_keys.iter().filter(|key| key.kind == DeclaredKeyKind::Primary);
    for name in primary.flat_map(|key| &key.columns) {
        let at = position(columns, name)
            .ok_or_else(|| err!(KeyColumnMissing, "Key column '{name}' doesn't exist in table"))?;
        if spec.columns[at].default == DefaultSpec::Null {
            bail!(InvalidDefault, "Invalid default value for '{name}': a primary key is not NULL");
        }
        columns[at].nullable = false;
    }
    Ok(())
}
