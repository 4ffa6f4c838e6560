//! What unique keys of one definition of a table are in another one.

use freshet_base::ColumnId;

use crate::{DeclaredKey, Table, TableSchema};

impl TableSchema {
    /// Whether these columns have the same bytes in keys of rows of both.
    pub fn has_same(&self, other: &Self, columns: &[ColumnId]) -> bool {
        let of = |schema: &Self, id| {
            let column = &schema.columns[schema.position_of(id)?];
            Some((column.nullable, column.ty.arrow(), column.key_collation()))
        };
        columns.iter().all(|id| of(self, *id).is_some_and(|own| of(other, *id) == Some(own)))
    }
}

impl Table {
    /// The enforced unique keys that it has and `other` has not, by their columns.
    pub fn unique_keys_beyond(&self, other: &Self) -> Vec<&DeclaredKey> {
        let mut others = other.indexed();
        let is_new = |key: &&DeclaredKey| {
            let known = others.iter().position(|columns| *columns == key.columns);
            known.map(|at| others.swap_remove(at)).is_none()
        };
        self.unique_keys().filter(is_new).collect()
    }
}
