//! Refusals under the append lock: what a statement has looked at is not so any more (keys.md K8).

use freshet_base::{Error, ErrorCode, Incarnation, Lsn, Result, SchemaVersion, bail, err};
use freshet_storage::fold::TableLog;

use crate::state::TableState;

/// What a load of a keyed table has looked at before its append, under the latch of the table.
#[derive(Clone, Copy, Debug)]
pub struct LookedUp {
    /// The end of the table's log when it first looked.
    pub end: Lsn,
    /// Whether rows were computed, left out or counted because of stored ones. A TRUNCATE since
    /// then makes them void (keys.md K8).
    pub is_derived: bool,
    /// Whether nothing at all may have entered the table since, of whatever key.
    pub is_last: bool,
}

impl LookedUp {
    /// What was looked at up to `end`, and must be all that has entered the table.
    pub fn last(end: Lsn) -> Self {
        Self { end, is_derived: true, is_last: true }
    }

    /// Whether others have written to the table since, so that who was refused may look again.
    pub(crate) fn is_overtaken(&self, table: &TableState) -> bool {
        last_of(table) > self.end
    }
}

/// Refuses to look at rows in columns that their table has no more, with the latch held: what they
/// have in a column that was added would be lost. Begun again, the statement has the new ones.
///
/// # Errors
/// 1412.
pub(crate) fn check_current(table: &TableState, columns: SchemaVersion) -> Result<()> {
    if table.schema_version() == columns {
        return Ok(());
    }
    bail!(
        TableChanged,
        "Table definition has changed, please retry transaction: columns of table '{}' changed \
         while the statement waited for its rows",
        table.name()
    )
}

/// Where a table was last written to.
pub(crate) fn last_of(table: &TableState) -> Lsn {
    table.delta.last().max(table.cut())
}

/// Refuses rows that were computed from others which a TRUNCATE has removed since.
pub(crate) fn check_cut(table: &TableState, looked_up: Option<LookedUp>) -> Result<()> {
    match looked_up {
        Some(LookedUp { end, is_derived: true, .. }) if table.cut() > end => Err(was_cut(table)),
        _ => Ok(()),
    }
}

/// A TRUNCATE, or a change of partitions, has removed rows that a statement has looked at.
pub(crate) fn was_cut(table: &TableState) -> Error {
    err!(
        Deadlock,
        "table '{}' was truncated, or its partitions changed, while the statement changed its \
         rows; try restarting transaction",
        table.name()
    )
}

/// Refuses rows of a table without a unique key that name others by their values, if its columns
/// have changed since.
pub(crate) fn check_columns(
    table: &TableState,
    looked_up: Option<LookedUp>,
    (of_rows, current): (SchemaVersion, SchemaVersion),
) -> Result<()> {
    let is_derived = looked_up.is_some_and(|looked_up| looked_up.is_derived);
    if table.is_keyed || !is_derived || of_rows == current {
        return Ok(());
    }
    Err(err!(
        Deadlock,
        "columns of table '{}' changed while the statement changed its rows; try restarting \
         transaction",
        table.name()
    ))
}

/// Refuses rows with other generated columns than the table has now: nobody would compute them.
pub(crate) fn check_generated(
    table: &TableState,
    log: &TableLog,
    of_rows: SchemaVersion,
    is_staged: bool,
) -> Result<()> {
    // A prepared load that cannot be committed any more is told so by its code.
    let code = if is_staged { ErrorCode::SnapshotTooOld } else { ErrorCode::Deadlock };
    if of_rows == log.schema_version() {
        return Ok(());
    }
    match (log.schema(of_rows), log.schema(log.schema_version())) {
        (Some(of_rows), Some(current)) if !of_rows.generates_as(&current) => Err(Error::new(
            code,
            format!(
                "generated columns of table '{}' changed while the statement ran; nothing was \
                 changed, try restarting transaction",
                table.name()
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses rows that were written for the table before a TRUNCATE.
pub(crate) fn check_incarnation(
    table: &TableState,
    log: &TableLog,
    of_rows: Incarnation,
) -> Result<()> {
    if of_rows != log.incarnation() {
        bail!(
            SnapshotTooOld,
            "table '{}' was truncated while the load ran; nothing was loaded, send it again",
            table.name()
        );
    }
    Ok(())
}

/// Checks rows of a transaction, and of a load in files. Whole rows of the latter which were
/// computed of stored ones have all columns that these have. Called under the lock of the table.
pub(crate) fn check(
    table: &TableState,
    looked_up: Option<LookedUp>,
    versions: (SchemaVersion, SchemaVersion),
) -> Result<()> {
    check_cut(table, looked_up)?;
    check_last(table, looked_up)?;
    match looked_up {
        Some(LookedUp { is_last: true, .. }) if versions.0 != versions.1 => Err(err!(
            SnapshotTooOld,
            "columns of table '{}' changed while the load ran; nothing was loaded, send it again",
            table.name()
        )),
        _ => check_columns(table, looked_up, versions),
    }
}

/// Called under the lock of the table.
pub(crate) fn check_last(table: &TableState, looked_up: Option<LookedUp>) -> Result<()> {
    match looked_up {
        Some(LookedUp { end, is_last: true, .. }) if table.delta.last() > end => Err(err!(
            Deadlock,
            "rows were written to table '{}' all the time while the statement changed its rows; \
             try restarting transaction",
            table.name()
        )),
        _ => Ok(()),
    }
}
