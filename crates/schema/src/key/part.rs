//! Parts of keys: a column, or the first characters of one, as in `UNIQUE KEY (name(10))`.
//!
//! A part is named by a [`ColumnId`]: that of the column, with the number of characters in the bits
//! above for first ones. So metadata and files, which name a key by its columns, tell both apart
//! (RFC 0056).

use freshet_base::ColumnId;

use crate::{Column, DeclaredKey, TableSchema};

/// The bits of the id of a column of whose values keys may have the first characters.
const ID_BITS: u32 = 20;
/// The most characters that a part of a key says, more than a key has bytes.
const LENGTH_MAX: u32 = (1 << (u32::BITS - ID_BITS)) - 1;

/// The part with the first `length` characters of a column's values, or bytes of binary ones;
/// `None` for none, or more than a part says, and of a column with a very high id.
pub fn first_of(column: ColumnId, length: u32) -> Option<ColumnId> {
    let fits = (1..=LENGTH_MAX).contains(&length) && column.get() >> ID_BITS == 0;
    fits.then(|| ColumnId(length << ID_BITS | column.get()))
}

/// Whether a part is of a column, as a whole or by its first characters.
pub fn is_of(part: ColumnId, column: ColumnId) -> bool {
    part == column || column_of(part) == column
}

/// Of how many first characters of one of these columns a part is; `None` for a whole column.
pub fn length_of(part: ColumnId, columns: &[Column]) -> Option<u32> {
    placed(columns, part)?.1
}

fn column_of(part: ColumnId) -> ColumnId {
    ColumnId(part.get() & ((1 << ID_BITS) - 1))
}

/// The place of the column that a part is of, and of how many first characters.
fn placed(columns: &[Column], part: ColumnId) -> Option<(usize, Option<u32>)> {
    let place = |id| columns.iter().position(|column| column.id == id);
    if let Some(at) = place(part) {
        return Some((at, None));
    }
    let length = part.get() >> ID_BITS;
    let at = (length > 0).then(|| place(column_of(part))).flatten()?;
    Some((at, Some(length)))
}

impl TableSchema {
    /// The index of the column with this id, or of whose first characters a part of a key is.
    pub fn position_of(&self, id: ColumnId) -> Option<usize> {
        placed(&self.columns, id).map(|(at, _)| at)
    }
}

impl DeclaredKey {
    /// Whether it has a column, or the first characters of it.
    pub fn has(&self, column: ColumnId) -> bool {
        self.columns.iter().any(|part| is_of(*part, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_of_its_column() {
        for (id, length) in [(1, 1), (7, 255), ((1 << ID_BITS) - 1, LENGTH_MAX)] {
            let part = first_of(ColumnId(id), length).unwrap();
            assert!(is_of(part, ColumnId(id)) && part != ColumnId(id), "{id}, {length}");
            assert!(!is_of(part, ColumnId(id ^ 1)));
            assert_ne!(Some(part), first_of(ColumnId(id), length % LENGTH_MAX + 1));
        }
        assert_eq!(first_of(ColumnId(1), 0), None);
        assert_eq!(first_of(ColumnId(1), LENGTH_MAX + 1), None);
        assert_eq!(first_of(ColumnId(1 << ID_BITS), 1), None);
    }
}
