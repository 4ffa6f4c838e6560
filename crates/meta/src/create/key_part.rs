//! The columns of keys by which rows are looked up, and the first characters of columns (RFC 0056).

use freshet_base::{ColumnId, Result, bail, err};
use freshet_schema::key::{first_of, is_of, length_of};
use freshet_schema::{
    Column, ColumnType, DeclaredKey, DeclaredKeyKind, KeyForm, TableForm, is_beginning,
};

use super::check_key_bytes;
use super::sizes::{first_bytes_max, key_bytes, key_bytes_max};
use crate::spec::DeclaredKeySpec;

/// A column in a key, or of a unique one the first characters that the key names.
pub(super) fn key_part(written: &DeclaredKeySpec, column: &Column) -> Result<ColumnId> {
    if written.kind != DeclaredKeyKind::Unique {
        return Ok(column.id);
    }
    match first_of_column(written, column) {
        Some((_, length)) => first_part(column, *length),
        None => Ok(column.id),
    }
}

/// The first characters of a column in a unique key, or all of it where it has no more of them.
fn first_part(column: &Column, length: u32) -> Result<ColumnId> {
    if length == 0 {
        bail!(EmptyKeyPart, "Key part '{}' length cannot be 0", column.name);
    }
    let whole = match column.ty {
        ColumnType::Text | ColumnType::Blob => None,
        ty if ty.is_collated() || ty.is_binary() => Some(key_bytes(ty)),
        _ => Some(0),
    };
    match whole {
        Some(whole) if length > whole => bail!(
            WrongPrefixKey,
            "Incorrect prefix key; the used key part isn't a string, the used length is longer \
             than the key part, or the storage engine doesn't support unique prefix keys: \
             '{}({length})'",
            column.name
        ),
        Some(whole) if length == whole => Ok(column.id),
        _ => {
            check_key_bytes(first_bytes_max(column.ty, length))?;
            let part = first_of(column.id, length);
            part.ok_or_else(|| {
                err!(
                    NotSupported,
                    "Column '{}' has been added to a table that had too many columns for a key of \
                     its first characters: make the table anew",
                    column.name
                )
            })
        }
    }
}

fn first_of_column<'w>(written: &'w DeclaredKeySpec, column: &Column) -> Option<&'w (String, u32)> {
    written.first.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name))
}

/// What SHOW says again of a key of these columns.
pub(super) fn key_form(written: &DeclaredKeySpec, columns: &[Column]) -> KeyForm {
    let of_key = |column: &&Column| is_among(&written.columns, column);
    let is_descending = |column: &&Column| is_among(&written.descending, column);
    let first = |column: &Column| {
        let (_, length) = first_of_column(written, column)?;
        is_beginning(column.ty, *length).then_some((column.id, *length))
    };
    let (is_btree, of_all) = (written.is_btree, || columns.iter().filter(of_key));
    KeyForm {
        is_btree,
        descending: of_all().filter(is_descending).map(|column| column.id).collect(),
        first: match written.kind {
            // Those of a unique key are in its parts.
            DeclaredKeyKind::Primary | DeclaredKeyKind::Unique => Vec::new(),
            _ => of_all().filter_map(first).collect(),
        },
    }
}

fn is_among(names: &[String], column: &Column) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(&column.name))
}

/// The columns of a key by which rows are looked up; they may stand anywhere in the table.
pub(crate) fn looked_up(
    key: &DeclaredKey,
    columns: &[Column],
    form: TableForm,
) -> Result<Vec<usize>> {
    let place = |part: &ColumnId| {
        let at = columns.iter().position(|column| is_of(*part, column.id));
        (at.expect("a declared key has its columns"), length_of(*part, columns))
    };
    let parts = key.columns.iter().map(place).collect::<Vec<_>>();
    for (column, first) in parts.iter().map(|&(at, first)| (&columns[at], first)) {
        if column.ty.is_json() {
            bail!(
                JsonKey,
                "JSON column '{}' supports indexing only via generated columns on a specified \
                 JSON path.",
                column.name
            );
        }
        if first.is_none() && matches!(column.ty, ColumnType::Text | ColumnType::Blob) {
            bail!(
                BlobKey,
                "BLOB/TEXT column '{}' used in key specification without a key length",
                column.name
            );
        }
    }
    let bytes = |&(at, first): &(usize, Option<u32>)| {
        let ty = columns[at].ty;
        first.map_or_else(|| key_bytes_max(ty, form), |first| first_bytes_max(ty, first))
    };
    check_key_bytes(parts.iter().map(bytes).sum())?;
    Ok(parts.into_iter().map(|(at, _)| at).collect())
}

/// Makes a unique key one that is only shown: by whole columns, with lengths that are shown.
pub(crate) fn make_hint(key: &mut DeclaredKey, columns: &[Column]) {
    key.kind = DeclaredKeyKind::UniqueHint;
    for part in &mut key.columns {
        let column = columns.iter().find(|column| is_of(*part, column.id));
        let id = column.expect("a declared key has its columns").id;
        key.form.first.extend(length_of(*part, columns).map(|length| (id, length)));
        *part = id;
    }
}

/// Makes a unique key that was only shown one that is enforced, by what it shows.
///
/// # Errors
/// Those of a unique key of first characters.
pub(crate) fn make_enforced(key: &mut DeclaredKey, columns: &[Column]) -> Result<()> {
    key.kind = DeclaredKeyKind::Unique;
    for part in &mut key.columns {
        let column = columns.iter().find(|column| is_of(*part, column.id));
        let column = column.expect("a declared key has its columns");
        if let Some(length) = key.form.first_of(column) {
            *part = first_part(column, length)?;
        }
    }
    key.form.first.clear();
    Ok(())
}
