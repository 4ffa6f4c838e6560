//! UNIQUE keys of tables without a PRIMARY KEY.

use freshet_base::{ErrorCode, Result};
use freshet_schema::{Column, DeclaredKey, DeclaredKeyKind, TableForm};

use super::{looked_up, rank};
use crate::spec::{DistributionSpec, TableSpec};

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
    let unique = declared.iter().filter(|key| rank(key, columns) == NOT_NULL);
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
