//! UNIQUE keys of tables without a PRIMARY KEY.

use freshet_schema::{Column, DeclaredKey, DeclaredKeyKind, TableForm};

use super::{looked_up, rank};
use crate::spec::{DistributionSpec, TableSpec};

/// The columns of the key that takes the place of a PRIMARY KEY that a table lacks: as in MySQL,
/// the first UNIQUE whose columns are NOT NULL. None does where rows are divided by other columns.
pub(super) fn names_rows(
    spec: &TableSpec,
    columns: &[Column],
    declared: &[DeclaredKey],
) -> Option<Vec<usize>> {
    let has_primary = declared.iter().any(|key| key.kind == DeclaredKeyKind::Primary);
    if spec.form != TableForm::MySql || spec.key.is_some() || has_primary {
        return None;
    }
    const NOT_NULL: u8 = 1;
    let mut unique = declared.iter().filter(|key| rank(key, columns) == NOT_NULL);
    let names = |key: &DeclaredKey| {
        let places = looked_up(key, columns, spec.form).ok()?;
        let is_inside =
            |name: &String| places.iter().any(|&at| columns[at].name.eq_ignore_ascii_case(name));
        let is_divided_so = match &spec.distribution {
            None => true,
            Some(DistributionSpec::Hash(names)) => names.iter().all(is_inside),
            Some(_) => false,
        };
        is_divided_so.then_some(places)
    };
    unique.find_map(names)
}
