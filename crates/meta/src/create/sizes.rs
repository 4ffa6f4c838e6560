//! How wide the columns of keys may be.

use freshet_schema::{ColumnType, Layout, TableForm};

/// The number of bytes of a column in the sort key.
pub(super) fn key_bytes(ty: ColumnType) -> u32 {
    match ty {
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::VarBinary { len }
        | ColumnType::Enum { len }
        | ColumnType::Set { len } => len,
        _ => match ty.layout() {
            Layout::Fixed(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
            Layout::Bytes => u32::MAX,
        },
    }
}

/// The most bytes that a value takes in the keys of a table in this syntax.
pub(super) fn key_bytes_max(ty: ColumnType, form: TableForm) -> u64 {
    // A character may take four bytes.
    let of_unit = if ty.counts_characters() && form == TableForm::MySql { 4 } else { 1 };
    u64::from(key_bytes(ty)) * of_unit
}
