//! CHECK constraints of a table: their names, and the columns that they need.

use freshet_base::{Result, bail, err};
use freshet_schema::{CHECK_BYTES_MAX, CHECKS_MAX, Check, Column, Table};

use crate::names;
use crate::spec::{CheckSpec, ColumnSpec, TableSpec};

/// The constraints of a new table.
pub(crate) fn of_table(spec: &TableSpec, columns: &[Column]) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for column in &spec.columns {
        of_column(&spec.name, column, columns, &mut checks)?;
    }
    for written in &spec.checks {
        add(&spec.name, written, columns, &mut checks)?;
    }
    Ok(checks)
}

/// Adds those behind a column.
fn of_column(
    table: &str,
    column: &ColumnSpec,
    columns: &[Column],
    checks: &mut Vec<Check>,
) -> Result<()> {
    for written in &column.checks {
        if written.columns.iter().any(|name| !name.eq_ignore_ascii_case(&column.name)) {
            let name = name_of(table, written, checks);
            bail!(CheckOfOtherColumn, "Column check constraint '{name}' references other column.");
        }
        add(table, written, columns, checks)?;
    }
    Ok(())
}

/// Refuses constraints behind a column that is added or changed: rows that are there would have to
/// be looked at before it is.
pub(crate) fn refuse_beside(column: &ColumnSpec) -> Result<()> {
    if column.checks.is_empty() {
        return Ok(());
    }
    bail!(
        NotSupported,
        "This version of Freshet doesn't yet support 'CHECK behind a column in ALTER TABLE'; ADD \
         CHECK by a statement of its own"
    )
}

/// Adds a constraint.
pub(crate) fn add(
    table: &str,
    written: &CheckSpec,
    columns: &[Column],
    checks: &mut Vec<Check>,
) -> Result<()> {
    let name = name_of(table, written, checks);
    names::check_column(&name)?;
    if checks.iter().any(|check| check.name.eq_ignore_ascii_case(&name)) {
        bail!(DuplicateCheck, "Duplicate check constraint name '{name}'.");
    }
    if checks.len() >= CHECKS_MAX {
        bail!(Unknown, "Too many check constraints: table '{table}' has {CHECKS_MAX}, the limit");
    }
    if written.text.len() > CHECK_BYTES_MAX {
        bail!(
            TooLong,
            "Check constraint '{name}' has {} bytes, limit {CHECK_BYTES_MAX}",
            written.text.len()
        );
    }
    let mut ids = Vec::with_capacity(written.columns.len());
    for column in &written.columns {
        let found = columns.iter().find(|known| known.name.eq_ignore_ascii_case(column));
        let column = found.ok_or_else(|| {
            err!(
                CheckOfUnknownColumn,
                "Check constraint '{name}' refers to non-existing column '{column}'."
            )
        })?;
        if column.auto_increment.is_some() {
            bail!(
                CheckOfAutoIncrement,
                "Check constraint '{name}' cannot refer to an auto-increment column."
            );
        }
        ids.push(column.id);
    }
    let (text, is_enforced) = (written.text.clone(), written.is_enforced);
    checks.push(Check { name, text, columns: ids, is_enforced });
    Ok(())
}

/// The name as given, or `table_chk_1` and so on.
fn name_of(table: &str, written: &CheckSpec, checks: &[Check]) -> String {
    let number = |check: &Check| {
        let digits = check.name.strip_prefix(table)?.strip_prefix("_chk_")?;
        digits.parse::<u64>().ok()
    };
    let last = checks.iter().filter_map(number).max().unwrap_or(0);
    written.name.clone().unwrap_or_else(|| format!("{table}_chk_{}", last.saturating_add(1)))
}

/// DROP CHECK or DROP CONSTRAINT.
pub(crate) fn drop(table: &Table, name: &str, checks: &mut Vec<Check>) -> Result<()> {
    checks.remove(position(table, name, checks)?);
    Ok(())
}

/// ALTER CHECK .. [NOT] ENFORCED.
pub(crate) fn enforce(
    table: &Table,
    name: &str,
    is_enforced: bool,
    checks: &mut [Check],
) -> Result<()> {
    let at = position(table, name, checks)?;
    checks[at].is_enforced = is_enforced;
    Ok(())
}

fn position(table: &Table, name: &str, checks: &[Check]) -> Result<usize> {
    let at = checks.iter().position(|check| check.name.eq_ignore_ascii_case(name));
    at.ok_or_else(|| {
        err!(NoSuchCheck, "Check constraint '{name}' is not found in the table '{}'.", table.name)
    })
}

/// Refuses to drop or rename a column that a constraint names.
pub(crate) fn check_unnamed(column: &Column, checks: &[Check]) -> Result<()> {
    match checks.iter().find(|check| check.columns.contains(&column.id)) {
        None => Ok(()),
        Some(check) => bail!(
            ColumnOfCheck,
            "Check constraint '{}' uses column '{}', hence column cannot be dropped or renamed.",
            check.name,
            column.name
        ),
    }
}
