//! The first record of a term (cluster.md 44).

use freshet_base::{TableId, TxnId, Version};

use crate::ids::IdEnds;
use crate::label::LabelLimits;

/// How a process begins: what earlier ones left open ends, and what holds from here on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TermRecord {
    /// The commit groups that earlier terms left open, by table.
    pub ended: Vec<LeftOpen>,
    /// Whether another record of this term ends groups of tables above these.
    pub more: bool,
    /// Ids below these ends are reserved.
    pub ids: IdEnds,
    /// How long labels are kept whose records stand behind this one, and how many.
    pub labels: LabelLimits,
}

/// A commit group that was open when its process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOpen {
    pub table: TableId,
    /// The transaction of its loads.
    pub txn: TxnId,
    /// The version that its end gives the table.
    pub version: Version,
}
