//! How wide columns may be, and those of keys.

use freshet_base::{Result, bail};
use freshet_schema::{
    CHAR_LEN_MAX, ColumnType, DECIMAL_PRECISION_MAX, FSP_MAX, Layout, TableForm, VARCHAR_LEN_MAX,
};

/// Checks the length and digits of a type.
///
/// # Errors
/// What no column can have.
pub(super) fn check_type(name: &str, ty: ColumnType) -> Result<()> {
    let (len, max) = match ty {
        ColumnType::Char { len } | ColumnType::Binary { len } => (len, CHAR_LEN_MAX),
        ColumnType::VarChar { len } | ColumnType::VarBinary { len } => (len, VARCHAR_LEN_MAX),
        ColumnType::Decimal { precision, scale } => {
            if !(1..=DECIMAL_PRECISION_MAX).contains(&precision) {
                bail!(
                    TooBigPrecision,
                    "Too-big precision {precision} specified for '{name}'. Maximum is \
                     {DECIMAL_PRECISION_MAX}."
                );
            }
            (u32::from(scale), u32::from(precision))
        }
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } | ColumnType::Time { fsp } => {
            (u32::from(fsp), u32::from(FSP_MAX))
        }
        _ => return Ok(()),
    };
    if len > max {
        bail!(
            TooLongColumn,
            "Column length too big for column '{name}' (max = {max}): {ty} asks for {len}; use a \
             smaller length, or STRING for long text"
        );
    }
    Ok(())
}

/// The number of bytes of a column in the sort key.
pub(super) fn key_bytes(ty: ColumnType) -> u32 {
    match ty {
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::Binary { len }
        | ColumnType::VarBinary { len }
        | ColumnType::Enum { len }
        | ColumnType::Set { len } => len,
        _ => match ty.layout() {
            Layout::Fixed(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
            Layout::Bytes => u32::MAX,
        },
    }
}

/// The most bytes that the first characters of a value take in a key, or as many bytes.
pub(super) fn first_bytes_max(ty: ColumnType, length: u32) -> u64 {
    u64::from(length) * if ty.is_text() { 4 } else { 1 }
}

/// The most bytes that a value takes in the keys of a table in this syntax.
pub(super) fn key_bytes_max(ty: ColumnType, form: TableForm) -> u64 {
    // A character may take four bytes.
    let of_unit = if ty.counts_characters() && form == TableForm::MySql { 4 } else { 1 };
    u64::from(key_bytes(ty)) * of_unit
}
