//! Dynamic filters: conditions that a join or a top-k sort derives during execution, used to prune
//! files that are not yet opened.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use freshet_base::ColumnId;
use freshet_schema::TableSchema;
use freshet_storage::segment::{Containers, Prune, ScanRequest};

use crate::prune::Condition;
use freshet_schema::Zone;

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

    /// Adds the current filters to the request's pruning conditions.
    pub fn narrowed(&self, request: &ScanRequest) -> ScanRequest {
        let mut request = request.clone();
        if let Some(condition) = self.condition(&request.schema) {
            let learned = Arc::new(condition) as Arc<dyn Prune>;
            request.prune = Some(match request.prune.take() {
                Some(asked) => Arc::new(Both::new(asked, learned)),
                None => learned,
            });
        }
        request
    }

    fn condition(&self, schema: &TableSchema) -> Option<Condition> {
        let known = self.filters.iter().map(|filter| snapshot_physical_expr(Arc::clone(filter)));
        // A filter whose current state is unavailable is left out.
        let known = conjunction(known.filter_map(Result::ok));
        Condition::new(&known, &self.scanned, schema, self.zone)
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
