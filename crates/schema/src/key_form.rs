//! How a key was written where that changes nothing about it: SHOW says it again, since programs
//! compare definitions, and dumps are read by other servers.

use freshet_base::ColumnId;

use crate::{Column, ColumnType};

/// What was written of a key that is of no effect here.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct KeyForm {
    /// USING BTREE.
    pub is_btree: bool,
    /// Columns with DESC: queries read an index from either end.
    pub descending: Vec<ColumnId>,
    /// Columns of a key that is not unique, or not enforced, with how many first characters were
    /// written: the whole value is in the index.
    pub first: Vec<(ColumnId, u32)>,
}

impl KeyForm {
    /// How many first characters of a column were written, as long as it has more of them.
    pub fn first_of(&self, column: &Column) -> Option<u32> {
        let (_, length) = *self.first.iter().find(|(id, _)| *id == column.id)?;
        is_beginning(column.ty, length).then_some(length)
    }

    /// Whether DESC was written behind a column.
    pub fn is_descending(&self, column: &Column) -> bool {
        self.descending.contains(&column.id)
    }
}

/// Whether values of a type may have more characters, or bytes, than these, so that they are the
/// beginning of one.
pub fn is_beginning(ty: ColumnType, length: u32) -> bool {
    match ty {
        _ if length == 0 => false,
        ColumnType::Char { len }
        | ColumnType::VarChar { len }
        | ColumnType::Binary { len }
        | ColumnType::VarBinary { len } => length < len,
        ColumnType::Text | ColumnType::Blob => true,
        _ => false,
    }
}
