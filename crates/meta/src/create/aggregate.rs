//! The functions of columns behind an AGGREGATE KEY.

use freshet_base::{Result, bail};
use freshet_schema::Column;

use crate::spec::{KeyModelSpec, TableSpec};

/// Refuses a key of sketches, which have no order, in the words of Doris.
pub(super) fn check_no_sketch(column: &Column) -> Result<()> {
    match column.ty.sketch() {
        Some(_) => bail!(Unknown, "Key column can not set complex type:{}", column.name),
        None => Ok(()),
    }
}

/// In a table with an AGGREGATE KEY each column behind the key says how its values become one, and
/// no other column does.
pub(super) fn check_aggregates(spec: &TableSpec, columns: &[Column], keys: usize) -> Result<()> {
    let model = spec.key.as_ref().map_or(KeyModelSpec::Duplicate, |key| key.model);
    let word = match model {
        KeyModelSpec::Duplicate => "DUP_KEYS",
        KeyModelSpec::Unique => "UNIQUE_KEYS",
        KeyModelSpec::Aggregate => "AGG_KEYS",
    };
    let wants = |at: usize| model == KeyModelSpec::Aggregate && at >= keys;
    for (at, column) in columns.iter().enumerate() {
        let Column { name, ty, .. } = column;
        match column.aggregate {
            None if wants(at) => bail!(
                Unknown,
                "{word} table should specify aggregate type for non-key column[{name}]: \
                 write SUM, MIN, MAX, REPLACE, REPLACE_IF_NOT_NULL, BITMAP_UNION or HLL_UNION \
                 behind its type"
            ),
            Some(_) if at < keys => {
                bail!(Unknown, "Key column[{name}] should not specify aggregate type.")
            }
            Some(_) if !wants(at) => bail!(
                Unknown,
                "{word} table should not specify aggregate type for non-key column[{name}]"
            ),
            Some(function) if !function.is_of(*ty) => bail!(
                Unknown,
                "Aggregate type {} is not compatible with primitive type {ty} of column[{name}]",
                function.name()
            ),
            _ => {}
        }
    }
    Ok(())
}
