//! Global indexes of PolarDB-X. On one node such an index is one of the table, and finds rows of
//! all partitions and tablets; what was written of it is kept and shown (RFC 0044).

use freshet_base::ColumnId;

use crate::{DeclaredKey, NOT_ENFORCED, Placement, Table};

/// What was written of a global index beside its key columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalIndex {
    /// CLUSTERED: it covers all columns.
    pub clustered: bool,
    /// The columns of COVERING.
    pub covering: Vec<ColumnId>,
    /// The clause that says where its entries are.
    pub placement: Option<Placement>,
}

impl DeclaredKey {
    /// What SHOW INDEX says of its type, as PolarDB-X does.
    pub const fn index_type(&self) -> &'static str {
        if self.global.is_some() { "GLOBAL" } else { "BTREE" }
    }

    /// What SHOW INDEX says of its key columns, beside the comment of the index.
    pub const fn part_comment(&self) -> &'static str {
        if self.global.is_some() { "INDEX" } else { "" }
    }

    /// The clause that says where its entries are.
    pub fn placement(&self) -> Option<&Placement> {
        self.global.as_ref()?.placement.as_ref()
    }

    /// Whether COVERING names a column.
    pub fn is_covering(&self, column: ColumnId) -> bool {
        self.global.as_ref().is_some_and(|global| global.covering.contains(&column))
    }
}

impl Table {
    /// What SHOW INDEX says of a key.
    pub fn key_comment<'k>(&self, key: &'k DeclaredKey) -> &'k str {
        if key.kind.is_unique() && !self.enforces(key) { NOT_ENFORCED } else { &key.comment }
    }

    /// The columns that an index covers beside its key columns.
    pub fn covered_by(&self, key: &DeclaredKey) -> Vec<ColumnId> {
        let Some(global) = &key.global else { return Vec::new() };
        if !global.clustered {
            return global.covering.clone();
        }
        let all = self.schema().shown().iter().map(|column| column.id);
        all.filter(|id| !key.columns.contains(id)).collect()
    }

    /// An enforced unique key whose values do not say in which partition a row is, so that two
    /// partitions could have rows of one value.
    pub fn unique_across_partitions(&self) -> Option<&DeclaredKey> {
        let by = self.partition_by.as_ref()?;
        let lacks = |key: &&DeclaredKey| by.columns.iter().any(|id| !key.columns.contains(id));
        self.unique_keys().find(lacks)
    }
}
