//! How rows are distributed over the tablets of a partition.

use freshet_base::ColumnId;

use crate::{PartitionExpr, TimePart};

/// How rows are distributed over the tablets of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// By the hash of these columns.
    Hash(Vec<ColumnId>),
    /// By parts of moments, at least one, and whole columns: by the number of a part that stands
    /// alone, and by the hash of several.
    Parts(Vec<(ColumnId, Option<TimePart>)>),
    /// By the number of an expression over one column.
    Computed(Box<PartitionExpr>),
    /// Evenly, regardless of their values.
    Random,
}

impl Distribution {
    /// The columns whose values count.
    pub fn columns(&self) -> Vec<ColumnId> {
        match self {
            Self::Hash(columns) => columns.clone(),
            Self::Parts(parts) => parts.iter().map(|(id, _)| *id).collect(),
            Self::Computed(expr) => vec![expr.numbers.id],
            Self::Random => Vec::new(),
        }
    }

    /// Whether the values of a column count.
    pub fn has(&self, column: ColumnId) -> bool {
        match self {
            Self::Hash(columns) => columns.contains(&column),
            Self::Parts(parts) => parts.iter().any(|(id, _)| *id == column),
            Self::Computed(expr) => expr.numbers.id == column,
            Self::Random => false,
        }
    }

    /// The column whose part alone divides the rows.
    pub fn part_alone(&self) -> Option<(ColumnId, TimePart)> {
        match self {
            Self::Parts(parts) => match parts[..] {
                [(id, Some(part))] => Some((id, part)),
                _ => None,
            },
            _ => None,
        }
    }
}
