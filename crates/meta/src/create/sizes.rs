//! How wide the columns of keys may be.

use freshet_schema::ColumnType;

/// The number of bytes of a column in the sort key.
pub(super) fn key_bytes(ty: ColumnType) -> u32 {
    match ty {
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::VarBinary { len }
        | ColumnType::Enum { len }
        | ColumnType::Set { len } => len,
        _ => match ty.layout() {
            freshet_schema::Layout::Fixed(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
            freshet_schema::Layout::Bytes => u32::MAX,
        },
    }
}
