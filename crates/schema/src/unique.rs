//! What unique keys of one definition of a table are in another one.

use freshet_base::ColumnId;

use crate::{DeclaredKey, DeclaredKeyKind, KeyModel, Table, TableSchema};

/// The comment of unique keys which may have equal values nevertheless; a comment, so that the line
/// remains valid in MySQL. Nothing but exactly this COMMENT says so, whatever else people write; a
/// comment that such a key has stands behind it, in a COMMENT of its own.
pub const NOT_ENFORCED: &str = "not enforced";

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
    /// The key by which rows are sorted and named, if one is enforced so: the PRIMARY KEY, or in a
    /// table without one the first UNIQUE whose columns are NOT NULL, as in MySQL.
    pub fn row_key(&self) -> Option<&DeclaredKey> {
        if self.key_model != KeyModel::Primary {
            return None;
        }
        self.declared_keys.iter().find(|key| self.is_sorted_by(key))
    }

    /// Whether rows are sorted by the columns of a unique key.
    pub fn is_sorted_by(&self, key: &DeclaredKey) -> bool {
        let schema = self.schema();
        let sorted = schema.sort_key.iter().map(|&at| schema.columns[at].id);
        let is_unique = matches!(key.kind, DeclaredKeyKind::Primary | DeclaredKeyKind::Unique);
        // Rows of one key are in one partition, which a global index does not say.
        is_unique && key.global.is_none() && sorted.eq(key.columns.iter().copied())
    }

    /// Whether it is the key by which rows are named.
    pub fn is_row_key(&self, key: &DeclaredKey) -> bool {
        self.row_key().is_some_and(|row_key| std::ptr::eq(row_key, key))
    }

    /// The enforced unique keys beside that by which rows are named.
    pub fn unique_keys(&self) -> impl Iterator<Item = &DeclaredKey> {
        let row_key = self.row_key();
        let is_other = move |key: &&DeclaredKey| {
            let is_it = row_key.is_some_and(|row_key| std::ptr::eq(row_key, *key));
            key.kind == DeclaredKeyKind::Unique && !is_it
        };
        self.declared_keys.iter().filter(is_other)
    }

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
