//! Foreign keys: they are kept as they were declared, shown, and not enforced (RFC 0069).

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::{Column, ForeignKey, Table, TableSchema};

use crate::names;
use crate::spec::ForeignKeySpec;

/// Maximum number of foreign keys of a table; each shows some hundred bytes.
const FOREIGN_KEYS_MAX: usize = 64;

/// What a statement changes of the foreign keys of a table. Others are left alone, since a RENAME
/// may change what they reference before its record comes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForeignChange {
    /// The names of those that it drops.
    pub dropped: Vec<String>,
    pub added: Vec<ForeignKey>,
}

impl ForeignChange {
    /// What makes `after` of `before`.
    pub fn between(before: &[ForeignKey], after: &[ForeignKey]) -> Self {
        let dropped = before.iter().filter(|key| !after.contains(key));
        let added = after.iter().filter(|key| !before.contains(key));
        Self {
            dropped: dropped.map(|key| key.name.clone()).collect(),
            added: added.cloned().collect(),
        }
    }

    /// Changes the foreign keys of a table.
    pub(crate) fn apply(&self, known: &mut Vec<ForeignKey>) {
        let is_taken =
            |name: &str| self.added.iter().any(|new| new.name.eq_ignore_ascii_case(name));
        known.retain(|key| !self.dropped.contains(&key.name) && !is_taken(&key.name));
        known.extend(self.added.iter().cloned());
    }
}

/// Takes those away of whose columns one is gone, as behind a hole in the log that has swallowed
/// a DROP FOREIGN KEY, or an ADD COLUMN.
pub(crate) fn retain_whole(known: &mut Vec<ForeignKey>, schema: &TableSchema) {
    let is_there = |id| schema.position_of(id).is_some();
    known.retain(|key| key.columns.iter().all(|id| is_there(*id)));
}

/// Adds the foreign key that was written for `table` to those that it has. Returns a warning that
/// it is not enforced.
///
/// # Errors
/// 1059 and 1166 for a name that it cannot have, 1072 for a column that is not there, 1239 for
/// another number of referenced columns, 1826 for a name that is taken.
pub fn add(
    table: &str,
    written: &ForeignKeySpec,
    columns: &[Column],
    known: &mut Vec<ForeignKey>,
) -> Result<String> {
    let name = match &written.name {
        Some(name) => name.clone(),
        None => free_name(table, known),
    };
    names::check_constraint(&name)?;
    if known.iter().any(|key| key.name.eq_ignore_ascii_case(&name)) {
        bail!(DuplicateForeignKey, "Duplicate foreign key constraint name '{name}'");
    }
    if known.len() >= FOREIGN_KEYS_MAX {
        bail!(Unknown, "table '{table}' has {FOREIGN_KEYS_MAX} foreign keys, which is the limit");
    }
    if written.columns.len() != written.referenced.len() {
        bail!(
            WrongForeignKey,
            "Incorrect foreign key definition for '{name}': Key reference and table reference \
             don't match"
        );
    }
    let id = |name: &String| {
        let found = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        found
            .map(|column| column.id)
            .ok_or_else(|| err!(KeyColumnMissing, "Key column '{name}' doesn't exist in table"))
    };
    let warning = format!(
        "FOREIGN KEY '{name}' is kept as information and not enforced: rows may name rows of '{}' \
         that are not there, and what its ON DELETE and ON UPDATE say is not done",
        written.table
    );
    known.push(ForeignKey {
        columns: written.columns.iter().map(id).collect::<Result<_>>()?,
        name,
        database: written.database.clone(),
        table: written.table.clone(),
        referenced: written.referenced.clone(),
        on_delete: written.on_delete,
        on_update: written.on_update,
    });
    Ok(warning)
}

/// As MySQL names those that have no name: by the table and the next number.
fn free_name(table: &str, known: &[ForeignKey]) -> String {
    let head = format!("{table}_ibfk_");
    let number = |key: &ForeignKey| key.name.strip_prefix(&head)?.parse::<u32>().ok();
    let last = known.iter().filter_map(number).max().unwrap_or(0);
    format!("{head}{}", u64::from(last) + 1)
}

/// Takes a foreign key away.
///
/// # Errors
/// 1091 if there is none of this name.
pub fn drop(name: &str, known: &mut Vec<ForeignKey>) -> Result<()> {
    let at = known.iter().position(|key| key.name.eq_ignore_ascii_case(name));
    let at = at.ok_or_else(|| {
        err!(CannotDropColumn, "Can't DROP '{name}'; check that column/key exists")
    })?;
    known.remove(at);
    Ok(())
}

/// Refuses to drop a column of a foreign key.
///
/// # Errors
/// 1828.
pub fn check_unneeded(name: &str, column: ColumnId, table: &Table) -> Result<()> {
    match table.foreign_keys.iter().find(|key| key.columns.contains(&column)) {
        Some(key) => bail!(
            ColumnOfForeignKey,
            "Cannot drop column '{name}': needed in a foreign key constraint '{}'",
            key.name
        ),
        None => Ok(()),
    }
}
