//! Table scan: reads slices of files and rows in memory, distributed to the partitions of a plan.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, PruningMetrics,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    apply_expression_roots,
};
use freshet_base::Lsn;
use freshet_storage::hidden::HiddenKeys;
use freshet_storage::rowset::Slice;
use freshet_storage::segment::{Pruned, Scan, ScanRequest};
use freshet_storage::snapshot::TableSnapshot;
use futures::StreamExt;

use crate::dynamic_filters::{DynamicFilters, FoundRows, Learned};
use crate::error::external;
use crate::indexes::IndexUse;
use crate::operator::leaf_operator;
use crate::pruned::PruningCounts;
use crate::shown::shown;
use crate::yielding::yielding;
use freshet_schema::Zone;

/// Rows per batch.
pub const BATCH_ROWS: usize = 8192;

/// Texts of nested values in a batch, in bytes; a longer batch is divided.
const NESTED_BYTES_MAX: usize = 8 << 20;

/// A part of a table that one thread reads at a time.
#[derive(Clone)]
pub enum Morsel {
    /// A slice of a file.
    File(Slice),
    /// Rows in memory, with all columns.
    Memory(InMemory),
}

/// Rows in memory.
#[derive(Clone)]
pub struct InMemory {
    /// Where they stand in the log, as [`TableSnapshot::delta_parts`] says it.
    pub lsn: Lsn,
    /// Their number among the parts of their table.
    pub number: u32,
    pub rows: RecordBatch,
}

impl Morsel {
    pub fn rows(&self) -> u64 {
        match self {
            Self::File(slice) => slice.rows,
            Self::Memory(memory) => memory.rows.num_rows() as u64,
        }
    }
}

/// Distributes morsels over `count` partitions, largest first, each to the partition with the
/// fewest rows so far. A small table remains one partition, so that its rows keep their order as
/// users expect.
pub fn spread(mut morsels: Vec<Morsel>, count: usize) -> Vec<Vec<Morsel>> {
    if morsels.iter().map(Morsel::rows).sum::<u64>() <= BATCH_ROWS as u64 {
        return vec![morsels];
    }
    morsels.sort_by_key(|morsel| std::cmp::Reverse(morsel.rows()));
    let mut threads = vec![(0_u64, Vec::new()); count.max(1)];
    for morsel in morsels {
        let least = threads.iter_mut().min_by_key(|(rows, _)| *rows).expect("at least one thread");
        least.0 += morsel.rows();
        least.1.push(morsel);
    }
    threads.retain(|(_, morsels)| !morsels.is_empty());
    threads.into_iter().map(|(_, morsels)| morsels).collect()
}

/// Where a row stands in the log: what decides which of several values of a key is the last one.
/// A scan shows it behind the columns of the table, as [`PLACE_COLUMNS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Place {
    /// At or below the LSN of the row, and above those of older rowsets and parts in memory.
    lsn: u64,
    /// The order of the rows with the same `lsn`.
    row: u64,
}

/// The names of the columns of `Place`, which no column of a table can have: names do not end
/// with a blank.
pub const PLACE_COLUMNS: [&str; 2] = ["lsn ", "row "];

impl Place {
    /// The number of bits of a row's number in its slice of a file, or part of memory.
    const ROW_BITS: u32 = 32;
    /// The number of bits of a slice's number in its segment.
    const SHARE_BITS: u32 = 12;

    /// That of the first row of a slice. A slice is read in the order of its rows.
    fn of_slice(slice: &Slice) -> Self {
        let (segment, share) = (u64::from(slice.segment.meta().id.get()), slice.share.at as u64);
        let fits = share < 1 << Self::SHARE_BITS && segment < 1 << 20;
        assert!(fits, "slice {share} of segment {segment} has a place in its rowset");
        let row = ((segment << Self::SHARE_BITS) | share) << Self::ROW_BITS;
        Self { lsn: slice.rowset.lsns().0.get(), row }
    }

    fn of_memory(memory: &InMemory) -> Self {
        Self { lsn: memory.lsn.get(), row: u64::from(memory.number) << Self::ROW_BITS }
    }
}

/// The scan of a table.
pub struct ScanExec {
    table: String,
    left: PruningCounts,
    /// Keeps the snapshot pinned, and is checked to be still open, while the scan runs.
    snapshot: Arc<TableSnapshot>,
    partitions: Vec<Vec<Morsel>>,
    request: Arc<ScanRequest>,
    /// The columns of its batches: those of the request, and behind all columns of the table those
    /// of [`Place`].
    projection: Arc<[usize]>,
    zone: Zone,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    learned: Option<DynamicFilters>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// A scan of `partitions` of a table; `request` defines what is read, `schema` the batches,
    /// whose columns its `projection` names.
    pub fn new(
        (database, snapshot): (&str, Arc<TableSnapshot>),
        partitions: Vec<Vec<Morsel>>,
        left: PruningCounts,
        request: ScanRequest,
        (schema, projection): (SchemaRef, Vec<usize>),
        zone: Zone,
        statistics: Statistics,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table: format!("{database}.{}", snapshot.table.name),
            left,
            snapshot,
            partitions,
            request: Arc::new(request),
            projection: projection.into(),
            zone,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
            learned: None,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan with dynamic filters.
    fn learning(&self, filters: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            table: self.table.clone(),
            left: self.left.clone(),
            snapshot: Arc::clone(&self.snapshot),
            partitions: self.partitions.clone(),
            request: Arc::clone(&self.request),
            projection: Arc::clone(&self.projection),
            zone: self.zone,
            statistics: Arc::clone(&self.statistics),
            properties: Arc::clone(&self.properties),
            learned: Some(DynamicFilters::new(filters, self.schema(), self.zone)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScanExec({})", self.table)
    }
}

/// A table that an operator scans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// The names of those that are read, where PARTITION BY divides the table.
    pub partitions: Option<Arc<str>>,
    pub index: IndexUse,
    /// Its name with that of its database.
    pub table: String,
    /// The rows that may have to be read, after pruning; `None` where row policies hide some.
    pub rows: Option<u64>,
}

impl Scanned {
    /// A table of which row policies hide rows, and so how many there are and where.
    pub fn hidden(table: &str) -> Self {
        let (partitions, index) = (None, IndexUse::default());
        Self { partitions, index, table: table.to_owned(), rows: None }
    }

    /// How rows are found, in the words of MySQL.
    pub fn access(&self) -> &'static str {
        match &self.index {
            IndexUse { used: Some(_), by_values: true, .. } => "ref",
            IndexUse { used: Some(_), by_values: false, .. } => "range",
            _ => "ALL",
        }
    }
}

impl ScanExec {
    /// What it scans, for EXPLAIN.
    pub fn scanned(&self) -> Scanned {
        let PruningCounts { names, index, .. } = self.left.clone();
        let rows = Some(self.rows());
        Scanned { table: self.table.clone(), partitions: names, index, rows }
    }

    /// The rows that may have to be read, after pruning.
    fn rows(&self) -> u64 {
        self.partitions.iter().flatten().map(Morsel::rows).sum()
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let morsels = self.partitions.iter().flatten();
        let memory = morsels.clone().filter(|morsel| matches!(morsel, Morsel::Memory(_))).count();
        let rows = self.rows();
        let slices = morsels.count() - memory;
        let pruned = if self.request.prune.is_some() { ", prunes by bounds" } else { "" };
        write!(
            f,
            "ScanExec: {}, {rows} rows in {slices} slices of files and {memory} of memory, \
             {}{pruned}{}",
            self.table, self.left, self.left.index,
        )?;
        self.left.write_names(f)?;
        match &self.learned {
            Some(learned) => write!(f, ", learns {learned}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
    leaf_operator!("ScanExec", with expressions);

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.learned.iter().flat_map(DynamicFilters::exprs), f)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let reader = Reader {
            snapshot: Arc::clone(&self.snapshot),
            counts: Counts::new(&self.metrics, partition),
            learned: self.learned.clone(),
            narrowed: None,
            found: FoundRows::new(),
            morsels: self.partitions[partition].clone().into(),
            scan: None,
            pending: VecDeque::new(),
            request: Arc::clone(&self.request),
            projection: Arc::clone(&self.projection),
            place: Place::default(),
            schema: self.schema(),
            zone: self.zone,
            hidden: self.snapshot.hidden(),
        };
        let stream = futures::stream::unfold(reader, |mut reader| async {
            let item = reader.next().await?;
            Some((item, reader))
        });
        let stream = RecordBatchStreamAdapter::new(self.schema(), stream.boxed());
        Ok(yielding(stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters = child.parent_filters.iter().map(|parent| Arc::clone(&parent.filter));
        let filters = filters.filter(|filter| snapshot_generation(filter) > 0).collect::<Vec<_>>();
        // The filters only prune files and parts of them, not single rows.
        let result = FilterPushdownPropagation::all_unsupported(child);
        Ok(match filters.is_empty() {
            true => result,
            false => result.with_updated_node(Arc::new(self.learning(filters))),
        })
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&self.statistics),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }
}

/// Metrics of one partition.
struct Counts {
    rows_read: Count,
    slices: PruningMetrics,
    row_groups: PruningMetrics,
    pages: PruningMetrics,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let pruning = |name| MetricBuilder::new(metrics).pruning_metrics(name, partition);
        Self {
            rows_read: MetricBuilder::new(metrics).counter("rows_read", partition),
            slices: pruning("slices"),
            row_groups: pruning("row_groups"),
            pages: pruning("pages"),
        }
    }

    fn pruned(&self, by: &Pruned) {
        self.row_groups.add_pruned(by.row_groups - by.row_groups_left);
        self.row_groups.add_matched(by.row_groups_left);
        self.pages.add_pruned(by.pages - by.pages_left);
        self.pages.add_matched(by.pages_left);
    }
}

/// Reads the batches of one partition.
struct Reader {
    snapshot: Arc<TableSnapshot>,
    counts: Counts,
    learned: Option<DynamicFilters>,
    /// What they said when they were looked at.
    narrowed: Option<Arc<Learned>>,
    /// What indexes have found by it.
    found: FoundRows,
    morsels: VecDeque<Morsel>,
    scan: Option<Scan>,
    pending: VecDeque<RecordBatch>,
    request: Arc<ScanRequest>,
    projection: Arc<[usize]>,
    /// Where the next row stands.
    place: Place,
    schema: SchemaRef,
    zone: Zone,
    /// Rows of files with these keys are left out.
    hidden: Option<HiddenKeys>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if let Err(error) = self.snapshot.check_open() {
            self.stop();
            return Some(Err(external(error.into())));
        }
        loop {
            if let Some(batch) = self.pending.pop_front() {
                if self.divide(&batch) {
                    continue;
                }
                return Some(self.finished(batch));
            }
            if let Some(scan) = &mut self.scan {
                match scan.next_batch().await {
                    Some(Ok(batch)) => {
                        self.pending.push_back(self.seen(batch));
                        continue;
                    }
                    Some(Err(error)) => {
                        self.stop();
                        return Some(Err(external(error.into())));
                    }
                    None => self.scan = None,
                }
            }
            match self.morsels.pop_front()? {
                Morsel::Memory(memory) => self.open_memory(&memory),
                Morsel::File(slice) => {
                    if let Err(error) = self.open_slice(&slice).await {
                        self.stop();
                        return Some(Err(external(error.into())));
                    }
                }
            }
        }
    }

    /// Whether the nested values of a batch are so long that its halves are read by themselves,
    /// which are then next: as arrays they are larger than as texts.
    fn divide(&mut self, batch: &RecordBatch) -> bool {
        let columns = self.request.projection.iter().zip(batch.columns());
        let nested = columns.filter(|(at, _)| self.request.schema.columns[**at].ty.is_nested());
        let bytes = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum::<usize>();
        let bytes = nested.map(|(_, texts)| bytes(texts.as_string_view().views())).sum::<usize>();
        let rows = batch.num_rows();
        let is_long = rows > 1 && bytes > NESTED_BYTES_MAX;
        if is_long {
            self.pending.push_front(batch.slice(rows / 2, rows - rows / 2));
            self.pending.push_front(batch.slice(0, rows / 2));
        }
        is_long
    }

    /// The rows of a file that the session sees.
    fn seen(&self, batch: RecordBatch) -> RecordBatch {
        let Some(hidden) = &self.hidden else { return batch };
        let read = with_key(&self.request.projection, hidden);
        let place = |column: &usize| read.iter().position(|at| at == column);
        let places = hidden.columns().iter().filter_map(place).collect::<Vec<_>>();
        let wanted = (0..self.request.projection.len()).collect::<Vec<_>>();
        hidden.seen(&batch, &places).project(&wanted).expect("what is wanted is read")
    }

    /// A request for files: with the columns of hidden keys, too.
    fn of_files(&self, request: &Arc<ScanRequest>) -> Arc<ScanRequest> {
        let Some(hidden) = &self.hidden else { return Arc::clone(request) };
        let mut request = ScanRequest::clone(request);
        request.projection = with_key(&request.projection, hidden);
        Arc::new(request)
    }

    /// Ends the stream after an error.
    fn stop(&mut self) {
        self.morsels.clear();
        self.pending.clear();
        self.scan = None;
    }

    /// What the dynamic filters say now.
    fn learned_now(&mut self) -> Option<Arc<Learned>> {
        let filters = self.learned.as_ref()?;
        let is_known = |known: &&Arc<Learned>| known.generation == filters.generation();
        if self.narrowed.as_ref().filter(is_known).is_none() {
            let learned = filters.learned(&self.request, &self.snapshot.table);
            self.narrowed = Some(Arc::new(learned));
            self.found.clear();
        }
        self.narrowed.clone()
    }

    /// Opens a slice, unless the dynamic filters now exclude it.
    async fn open_slice(&mut self, slice: &Slice) -> freshet_storage::Result<()> {
        let (request, slice) = match self.learned_now() {
            None => (Arc::clone(&self.request), slice.clone()),
            Some(learned) => {
                let narrowed = learned.narrowed(slice, &self.snapshot.table, &mut self.found);
                let Some(slice) = narrowed.await? else {
                    self.counts.slices.add_pruned(1);
                    return Ok(());
                };
                (Arc::clone(&learned.request), slice)
            }
        };
        self.counts.slices.add_matched(1);
        let scan = slice.scan(&self.of_files(&request)).await?;
        self.place = Place::of_slice(&slice);
        self.counts.pruned(&scan.pruned());
        self.scan = Some(scan);
        Ok(())
    }

    fn open_memory(&mut self, memory: &InMemory) {
        self.place = Place::of_memory(memory);
        let batch =
            memory.rows.project(&self.request.projection).expect("a projection names columns");
        let mut at = 0;
        while at < batch.num_rows() {
            let rows = BATCH_ROWS.min(batch.num_rows() - at);
            self.pending.push_back(batch.slice(at, rows));
            at += rows;
        }
    }

    /// Converts a batch to the plan's schema, with instants as local time of the session.
    fn finished(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        self.counts.rows_read.add(rows);
        let place = self.place;
        self.place.row += rows as u64;
        let mut stored = batch.columns().iter();
        let of_table = self.request.schema.columns.len();
        let columns = self.projection.iter().map(|&at| -> Result<ArrayRef> {
            if at < of_table {
                let column = stored.next().expect("a batch has the columns that were asked for");
                return shown(&self.request.schema.columns[at], column, self.zone)
                    .map_err(external);
            }
            Ok(match at - of_table {
                0 => Arc::new(UInt64Array::from_value(place.lsn, rows)),
                _ => Arc::new(UInt64Array::from_iter_values(place.row..place.row + rows as u64)),
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The columns that are wanted, and behind them those of the key.
fn with_key(wanted: &[usize], hidden: &HiddenKeys) -> Vec<usize> {
    let of_key = hidden.columns().iter().filter(|column| !wanted.contains(column));
    wanted.iter().chain(of_key).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use arrow::datatypes::{DataType, Field, Schema};

    #[test]
    fn parts_spread_evenly() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let morsel = |rows: i32| {
            let values = Int32Array::from_iter_values(0..rows);
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]);
            Morsel::Memory(InMemory { lsn: Lsn(1), number: 0, rows: batch.unwrap() })
        };
        let threads = spread(vec![morsel(1000), morsel(10_000), morsel(4000), morsel(6000)], 2);
        let rows = |thread: &Vec<Morsel>| thread.iter().map(Morsel::rows).sum::<u64>();
        assert_eq!(threads.iter().map(rows).collect::<Vec<_>>(), [11_000, 10_000]);
        assert_eq!(spread(Vec::new(), 2).len(), 1);
        let few = spread(vec![morsel(1), morsel(10), morsel(4)], 2);
        let each = |thread: &Vec<Morsel>| thread.iter().map(Morsel::rows).collect::<Vec<_>>();
        assert_eq!(few.iter().map(each).collect::<Vec<_>>(), [[1, 10, 4]]);
    }
}
