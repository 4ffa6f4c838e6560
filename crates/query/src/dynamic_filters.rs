//! Dynamic filters: conditions that a join or a top-k sort derives during execution. What is not
//! yet opened is pruned by them as by conditions that are known before, and rows of files are
//! looked up by indexes: so the few rows of one side of a join find those of the other.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{LiteralGuarantee, conjunction};
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use freshet_base::{ColumnId, RowsetId, TabletId};
use freshet_schema::{Table, Zone};
use freshet_storage::Result;
use freshet_storage::rowset::Slice;
use freshet_storage::segment::{Containers, Prune, ScanRequest};

use crate::indexes::{AskedIndexes, weighed};
use crate::partitions;
use crate::prune::Condition;

/// The dynamic filters of a scan.
#[derive(Clone)]
pub struct DynamicFilters {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema that the filters refer to.
    scanned: SchemaRef,
    zone: Zone,
}

impl fmt::Display for DynamicFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = self.filters.iter().map(ToString::to_string).collect::<Vec<_>>();
        f.write_str(&filters.join(" AND "))
    }
}

impl DynamicFilters {
    /// Filters on columns of the scan's schema `scanned`.
    pub fn new(filters: Vec<Arc<dyn PhysicalExpr>>, scanned: SchemaRef, zone: Zone) -> Self {
        Self { filters, scanned, zone }
    }

    /// A number that grows with each change of a filter.
    pub fn generation(&self) -> u64 {
        self.filters.iter().map(snapshot_generation).sum()
    }

    /// The expressions, which whoever learns looks for to know that somebody listens.
    pub fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.filters.iter()
    }

    /// What the filters say now, added to the request's pruning conditions.
    pub fn learned(&self, request: &ScanRequest, table: &Table) -> Learned {
        // What is said meanwhile is looked at again.
        let generation = self.generation();
        let mut request = request.clone();
        let schema = Arc::clone(&request.schema);
        // A filter whose current state is unavailable is left out.
        let known = |filter: &Arc<_>| snapshot_physical_expr(Arc::clone(filter)).ok();
        let known = conjunction(self.filters.iter().filter_map(known));
        let condition = Condition::new(&known, &self.scanned, &schema, self.zone);
        let condition = condition.map(|condition| Arc::new(condition) as Arc<dyn Prune>);
        let said = LiteralGuarantee::analyze(&known);
        let tablets = partitions::tablets(&said, condition.as_deref(), table, &schema, self.zone);
        let named = weighed::named_in_plan(known, &schema);
        let said = LiteralGuarantee::analyze(&named);
        let indexes = AskedIndexes::new(&named, &said, table, &schema, self.zone);
        if let Some(learned) = condition {
            request.prune = Some(match request.prune.take() {
                Some(asked) => Arc::new(Both::new(asked, learned)),
                None => learned,
            });
        }
        Learned { generation, request: Arc::new(request), tablets, indexes }
    }
}

/// The rows that indexes have found in segments, by rowset and number, whose slices are opened one
/// by one; none where they are not few.
pub type FoundRows = HashMap<(RowsetId, u64), Option<Arc<[u32]>>>;

/// What filters said when they were looked at.
pub struct Learned {
    /// That of the filters then.
    pub generation: u64,
    pub request: Arc<ScanRequest>,
    /// The tablets that may have matching rows; `None` if all may.
    tablets: Option<HashSet<TabletId>>,
    indexes: Option<AskedIndexes>,
}

impl Learned {
    /// A slice, with only the rows that an index finds, if there is one that finds few; `None` if
    /// it has none that match.
    ///
    /// # Errors
    /// Those of reading an index.
    pub async fn narrowed(
        &self,
        slice: &Slice,
        table: &Table,
        found: &mut FoundRows,
    ) -> Result<Option<Slice>> {
        let tablet = slice.rowset.meta().tablet;
        // A large load behind a TRUNCATE has tablets that this definition may not have yet.
        let is_excluded = |kept: &HashSet<TabletId>| {
            !kept.contains(&tablet) && table.tablets().any(|known| known == tablet)
        };
        let may_hold = |prune: &Arc<dyn Prune>| slice.may_hold(prune.as_ref());
        if self.tablets.as_ref().is_some_and(is_excluded)
            || !self.request.prune.as_ref().is_none_or(may_hold)
        {
            return Ok(None);
        }
        let slice = slice.clone();
        let Some(indexes) = self.indexes.as_ref().filter(|_| slice.found.is_none()) else {
            return Ok(Some(slice));
        };
        let segment = (slice.rowset.meta().id, u64::from(slice.segment.meta().id.get()));
        let rows = match found.get(&segment) {
            Some(rows) => rows.clone(),
            None => {
                let rows = indexes.find_in(&slice).await?.map(Arc::from);
                found.insert(segment, rows.clone());
                rows
            }
        };
        Ok(match rows {
            Some(rows) if rows.is_empty() => None,
            Some(rows) => Some(slice.with_found(rows.to_vec())),
            None => Some(slice),
        })
    }
}

/// The conjunction of two pruning conditions.
struct Both {
    parts: [Arc<dyn Prune>; 2],
    columns: Vec<ColumnId>,
}

impl Both {
    fn new(left: Arc<dyn Prune>, right: Arc<dyn Prune>) -> Self {
        let mut columns = [left.columns(), right.columns()].concat();
        columns.sort_unstable();
        columns.dedup();
        Self { parts: [left, right], columns }
    }
}

impl Prune for Both {
    fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let [left, right] = &self.parts;
        let pairs = left.keep(containers).into_iter().zip(right.keep(containers));
        pairs.map(|(left, right)| left && right).collect()
    }
}
