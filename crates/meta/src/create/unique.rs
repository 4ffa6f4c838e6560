//! UNIQUE keys of tables without a PRIMARY KEY.

use freshet_base::{ErrorCode, Result, bail, err};
use freshet_schema::{Column, DeclaredKey, DeclaredKeyKind, TableForm};

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
            // Of types that no key has: it is shown.
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
