//! Global indexes of PolarDB-X. On one node such an index is one of the table, and finds rows of
//! all partitions and tablets; what was written of it is kept and shown (RFC 0044).

use std::borrow::Cow;

use freshet_base::ColumnId;

use crate::key::{is_of, length_of};
use crate::{Column, DeclaredKey, DeclaredKeyKind, NOT_ENFORCED, Placement, Table};

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
    /// What it makes MySQL show as the key of a column.
    pub(crate) fn word(&self, column: ColumnId) -> Option<&'static str> {
        let leads = self.columns.first().is_some_and(|part| is_of(*part, column));
        match self.kind {
            DeclaredKeyKind::Primary => self.has(column).then_some("PRI"),
            DeclaredKeyKind::Unique | DeclaredKeyKind::UniqueHint if self.columns.len() == 1 => {
                leads.then_some("UNI")
            }
            _ => leads.then_some("MUL"),
        }
    }
    /// Of how many first characters of a column a part is, or was written; `None` for all of it.
    pub fn first_shown(&self, part: ColumnId, column: &Column) -> Option<u32> {
        length_of(part, std::slice::from_ref(column)).or_else(|| self.form.first_of(column))
    }

    /// What SHOW INDEX says of the order of a column.
    pub fn order_shown(&self, column: &Column) -> &'static str {
        if self.form.is_descending(column) { "D" } else { "A" }
    }

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
    /// What SHOW INDEX says of a key: its comment, with [`NOT_ENFORCED`] where that is so.
    pub fn key_comment<'k>(&self, key: &'k DeclaredKey) -> Cow<'k, str> {
        let is_enforced = !key.kind.is_unique() || self.enforces(key);
        match key.comment.as_str() {
            comment if is_enforced => comment.into(),
            "" => NOT_ENFORCED.into(),
            comment => format!("{comment} ({NOT_ENFORCED})").into(),
        }
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
