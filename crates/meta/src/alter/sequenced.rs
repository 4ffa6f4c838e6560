//! ENABLE FEATURE "SEQUENCE_LOAD": a table gets a sequence column (RFC 0032).

use freshet_base::{ColumnId, Result, bail};
use freshet_schema::{Column, KeyModel, Table, hidden_columns};

use super::SchemaChange;
use crate::create::sequenced::{check_count, named_type};

/// The sequence column of a table behind these changes; one that they enable is added, with the
/// delete sign, behind `columns`, with ids from `next` on. Rows that are there have NULL in it.
///
/// # Errors
/// For a table without a UNIQUE KEY, or with a sequence column; for types that are none.
pub(super) fn enabled(
    table: &Table,
    changes: &[SchemaChange],
    columns: &mut Vec<Column>,
    next: ColumnId,
) -> Result<Option<ColumnId>> {
    let mut sequence = table.schema().sequence;
    for change in changes {
        let SchemaChange::EnableSequence { ty } = change else { continue };
        if table.key_model != KeyModel::Unique {
            bail!(
                Unknown,
                "Cannot enable sequence support in table '{}': it has no UNIQUE KEY",
                table.name
            );
        }
        if sequence.is_some() {
            bail!(Unknown, "table '{}' already has a sequence column", table.name);
        }
        columns.extend(hidden_columns(next, Some(named_type(ty)?)));
        check_count(&table.name, columns)?;
        sequence = Some(next);
    }
    Ok(sequence)
}
