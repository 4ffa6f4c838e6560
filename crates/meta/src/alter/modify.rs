//! MODIFY COLUMN, CHANGE COLUMN and ORDER BY.
//!
//! Rows that are there keep their form, and are converted when they are read. So a type may change
//! only to one that holds every value of the old one.

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::{
    Collation, Column, ColumnType, DeclaredKey, DefaultValue, LengthUnit, Table, holds_all_of,
};

use super::{ColumnPlace, check_key_first, check_placement, find, require};
use crate::create::{column, keep_collation, labels, new_default};
use crate::spec::{ColumnSpec, DefaultSpec};
use crate::{generated, names};

/// Gives the column `from` the definition `written`, and moves it to `place`.
pub(super) fn modify(
    table: &Table,
    columns: &mut Vec<Column>,
    (from, is_key): (&str, bool),
    written: &ColumnSpec,
    place: Option<&ColumnPlace>,
) -> Result<()> {
    let at = require(columns, from)?;
    let old = columns[at].clone();
    let mut new = column(written, old.id, table.form, table.collation)?;
    if new.name != old.name {
        check_placement(table, old.id, from)?;
        names::check_column(&new.name)?;
        if find(columns, &new.name).is_some_and(|other| other != at) {
            bail!(DuplicateColumn, "Duplicate column name '{}'", new.name);
        }
    }
    new.generated = generated::of_column(written, columns, table.form)?;
    generated::check_modified(&old, &new, columns)?;
    check_sequence(table, &old, &new)?;
    check_type(table, &old, &new)?;
    if old.aggregate != new.aggregate
        || (old.aggregate.is_some() && old.ty.arrow() != new.ty.arrow())
    {
        bail!(
            NotSupported,
            "Can not change the aggregation of column '{from}', nor its type: rows that are there \
             have become one by it; {OTHER_WAY}"
        );
    }
    let is_sorted_by = is_key_column(table, old.id);
    if is_sorted_by {
        keep_collation(table, &old, written.collation, &mut new)?;
    }
    if is_key && !is_sorted_by {
        bail!(
            NotSupported,
            "Can not make column '{from}' a key column: files are not sorted by it"
        );
    }
    if old.nullable != new.nullable && (is_sorted_by || old.nullable) {
        bail!(
            NotSupported,
            "Can not change column '{from}' from {} to {}: {}; {OTHER_WAY}",
            null_of(&old),
            null_of(&new),
            if is_sorted_by { "it is part of a key" } else { "rows that are there may have NULL" }
        );
    }
    if old.auto_increment.is_some() != new.auto_increment.is_some() {
        bail!(NotSupported, "Can not give or take AUTO_INCREMENT of column '{from}'; {OTHER_WAY}");
    }
    new.auto_increment = old.auto_increment;
    new.before = before(table, &old, &new)?;
    columns.remove(at);
    let to = match place {
        None => at,
        Some(ColumnPlace::First) => 0,
        Some(ColumnPlace::Last) => columns.len(),
        Some(ColumnPlace::After(name)) => {
            let unknown = || err!(UnknownColumn, "Unknown column '{name}' in '{}'", table.name);
            find(columns, name).ok_or_else(unknown)? + 1
        }
    };
    columns.insert(to, new);
    check_key_first(table, columns)
}

/// CONVERT TO CHARACTER SET: gives all columns of texts a collation.
pub(super) fn convert(table: &Table, columns: &mut [Column], to: Collation) -> Result<()> {
    let is_text = |column: &&mut Column| column.ty.is_text() && !column.ty.is_document();
    let known = columns.to_vec();
    for column in columns.iter_mut().filter(is_text) {
        let from = column.collation;
        if from == to || from.is_by_bytes() && to.is_by_bytes() {
            column.collation = to;
            continue;
        }
        generated::check_unnamed(column, &known)?;
        if is_key_column(table, column.id) || column.aggregate.is_some() {
            bail!(
                NotSupported,
                "Can not convert column '{}' from {} to {}: rows are sorted, found or aggregated \
                 by how it compares; {OTHER_WAY}",
                column.name,
                from.name(),
                to.name()
            );
        }
        labels::check_distinct(column, to)?;
        column.collation = to;
    }
    Ok(())
}

/// ALTER COLUMN: gives a column another default, or none.
pub(super) fn set_default(
    table: &Table,
    columns: &mut [Column],
    name: &str,
    default: &DefaultSpec,
) -> Result<()> {
    let at = require(columns, name)?;
    let old = &columns[at];
    if old.auto_increment.is_some() {
        bail!(InvalidDefault, "Invalid default value for '{name}': its values are generated");
    }
    if old.generated.is_some() {
        bail!(WrongUsage, "Incorrect usage of DEFAULT and generated column: column '{name}'");
    }
    let new = Column { default: new_default(default, old)?, ..old.clone() };
    let before = before(table, old, &new)?;
    columns[at] = Column { before, ..new };
    Ok(())
}

/// The longest character of UTF-8.
const CHARACTER_BYTES_MAX: u32 = 4;

/// What to do about a change that rows cannot follow when they are read.
const OTHER_WAY: &str = "create a table with the new column, copy the rows by INSERT .. SELECT, \
                         and exchange both by ALTER TABLE .. REPLACE WITH TABLE";

fn null_of(column: &Column) -> &'static str {
    if column.nullable { "NULL" } else { "NOT NULL" }
}

/// Whether files are sorted by a column, or rows found or distributed by it.
fn is_key_column(table: &Table, id: ColumnId) -> bool {
    let schema = table.schema();
    let is_sorted_by = schema.sort_key.iter().any(|&at| schema.columns[at].id == id);
    let is_hashed = table.distribution.has(id);
    // Files with another type than the current one are not looked up by an index.
    let is_found_by = |key: &DeclaredKey| key.kind.is_unique() && key.has(id);
    let is_declared = table.declared_keys.iter().any(is_found_by);
    let is_divided_by = table.partition_by.as_ref().is_some_and(|by| by.columns.contains(&id));
    is_sorted_by || is_hashed || is_declared || is_divided_by
}

fn check_sequence(table: &Table, old: &Column, new: &Column) -> Result<()> {
    let is_same = (old.ty, old.nullable) == (new.ty, new.nullable);
    if table.schema().sequence == Some(old.id) && !is_same {
        bail!(
            NotSupported,
            "Can not alter sequence column[{}]: rows that are there are compared by it; \
             {OTHER_WAY}",
            old.name
        );
    }
    Ok(())
}

fn check_type(table: &Table, old: &Column, new: &Column) -> Result<()> {
    let (from, to) = (old.ty, new.ty);
    labels::check_change(old, new)?;
    if (from.is_nested() || to.is_nested()) && !is_same_type(old, new) {
        bail!(
            NotSupported,
            "Can not change {} to {}: column '{}'; {OTHER_WAY}",
            old.type_text(),
            new.type_text(),
            old.name
        );
    }
    if !is_long_enough(old, new) {
        bail!(
            NotSupported,
            "Shorten type length is prohibited, column '{}' is {} and cannot become {}",
            old.name,
            old.type_text(),
            new.type_text()
        );
    }
    if from == to && old.non_negative == new.non_negative {
        return Ok(());
    }
    if let (Some(before), Some(after)) = (length_of(from), length_of(to))
        && after < before
    {
        bail!(
            NotSupported,
            "Shorten type length is prohibited, column '{}' is {from} and cannot become {to}",
            old.name
        );
    }
    if !holds_all_of(to, from) || (new.non_negative && !old.non_negative) {
        bail!(
            NotSupported,
            "Can not change {from} to {to}: column '{}' may have values that {to} does not hold; \
             {OTHER_WAY}",
            old.name
        );
    }
    let is_same_in_files = from.arrow() == to.arrow();
    if !is_same_in_files && (is_key_column(table, old.id) || old.auto_increment.is_some()) {
        bail!(
            NotSupported,
            "Can not modify distribution column or key column '{}' from {from} to {to}: rows are \
             sorted and found by its bytes; {OTHER_WAY}",
            old.name
        );
    }
    Ok(())
}

/// Whether both have the same type, with all that is inside.
fn is_same_type(old: &Column, new: &Column) -> bool {
    old.ty == new.ty && old.elements == new.elements
}

/// Whether a column that becomes a TEXT or BLOB has room there for all that it may have.
fn is_long_enough(old: &Column, new: &Column) -> bool {
    if !matches!(new.ty, ColumnType::Text | ColumnType::Blob) {
        return true;
    }
    let bytes = match old.ty {
        // A plain one may have a value that is a byte longer than a MEDIUMTEXT takes. It stays.
        ColumnType::Text | ColumnType::Blob => return old.lob_size <= new.lob_size,
        ColumnType::Enum { len } | ColumnType::Set { len } => {
            len.saturating_mul(CHARACTER_BYTES_MAX)
        }
        ColumnType::Char { len } | ColumnType::VarChar { len }
            if old.length_unit == LengthUnit::Characters =>
        {
            len.saturating_mul(CHARACTER_BYTES_MAX)
        }
        // Any other type becomes a short text, or none without being converted.
        ty => length_of(ty).unwrap_or(0),
    };
    bytes <= new.lob_size.stored_bytes_max()
}

fn length_of(ty: ColumnType) -> Option<u32> {
    match ty {
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::Binary { len }
        | ColumnType::VarBinary { len } => Some(len),
        _ => None,
    }
}

/// What rows show that are older than the column: as before, whatever the default is now.
fn before(table: &Table, old: &Column, new: &Column) -> Result<Option<String>> {
    let first = &table.history.versions()[0];
    if old.before.is_some() || old.default == new.default || first.position_of(old.id).is_some() {
        return Ok(old.before.clone());
    }
    match &old.default {
        Some(DefaultValue::Literal(text)) => Ok(Some(text.clone())),
        // There is no text that stands for NULL.
        _ => bail!(
            NotSupported,
            "Can not change the default of column '{}': rows older than the column show what it \
             was added with; {OTHER_WAY}",
            old.name
        ),
    }
}

/// ORDER BY: puts all columns in a new order.
pub(super) fn reorder(table: &Table, columns: &mut Vec<Column>, names: &[String]) -> Result<()> {
    if names.len() != columns.len() {
        bail!(
            Unknown,
            "Reorder stmt should contains all columns: table '{}' has {}, and {} are named",
            table.name,
            columns.len(),
            names.len()
        );
    }
    let mut ordered = Vec::with_capacity(columns.len());
    for name in names {
        let column = &columns[require(columns, name)?];
        if ordered.iter().any(|other: &Column| other.id == column.id) {
            bail!(ColumnTwice, "Column '{name}' specified twice");
        }
        ordered.push(column.clone());
    }
    *columns = ordered;
    check_key_first(table, columns)
}
