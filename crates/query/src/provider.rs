//! A table of a snapshot as DataFusion's [`TableProvider`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::mem;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{
    ColumnStatistics, Constraint, Constraints, DFSchema, Result, ScalarValue, Statistics,
    internal_err, plan_datafusion_err,
};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::LiteralGuarantee;
use datafusion::physical_plan::ExecutionPlan;
use freshet_base::{ColumnId, Error, TabletId};
use freshet_schema::{Column, KeyModel, Table, TableSchema, nested};
use freshet_storage::rowset::{Rowset, Slice, key_bounds, known_ranges};
use freshet_storage::segment::{ColumnRange, Prune, ScanRequest};
use freshet_storage::snapshot::TableSnapshot;
use futures::future::join_all;

use crate::beginnings;
use crate::coercibility::Derived;
use crate::convert;
use crate::error::external;
use crate::functions::{column_default, meaning};
use crate::indexes::{AskedIndexes, IndexUse, labelled, weighed};
use crate::origin::ColumnOrigin;
use crate::partitions;
use crate::prune::{Condition, without_zone};
use crate::pruned::PruningCounts;
use crate::scan::{BATCH_ROWS, InMemory, Morsel, PLACE_COLUMNS, ScanExec, spread};
use crate::shown::is_instant;
use freshet_schema::Zone;

/// Approximate number of rows in a slice of a file, so that threads share a table evenly.
const SLICE_ROWS: u64 = 128 * 1024;
/// Planning reads missing footers if the scan needs at most this many. Their bounds improve the
/// plan; with more files, planning does without the missing ones.
const FOOTERS_PLANNED_MAX: usize = 64;

/// A table of a snapshot.
pub struct StoredTable {
    database: String,
    /// With the partitions that are read, if these are named.
    full_name: String,
    snapshot: Arc<TableSnapshot>,
    zone: Zone,
    schema: SchemaRef,
    constraints: Constraints,
    /// By column, why a query must not read it.
    denied: Vec<Option<Error>>,
}

impl StoredTable {
    /// A table as of a snapshot, by its database and name; instants are displayed in `zone`.
    pub fn new((database, name): (&str, &str), snapshot: TableSnapshot, zone: Zone) -> Self {
        let schema = planned_schema(database, &snapshot, snapshot.schema.shown());
        let (database, full_name) = (database.to_owned(), name.to_owned());
        let constraints = Constraints::new_unverified(unique_keys(&snapshot));
        let snapshot = Arc::new(snapshot);
        let denied = Vec::new();
        Self { database, full_name, snapshot, zone, schema, constraints, denied }
    }

    /// Its name with that of its database, as `d.t`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.database, self.full_name)
    }

    /// The same table, with its hidden columns.
    #[must_use]
    pub fn showing_hidden(self) -> Self {
        let all = &self.snapshot.schema.columns;
        let schema = planned_schema(&self.database, &self.snapshot, all);
        Self { schema, ..self }
    }

    /// The same table, of which columns must not be read that `denied` has something to say of.
    pub fn guarded(&self, denied: impl Fn(&str) -> Option<Error>) -> Self {
        let denied = self.columns().columns.iter().map(|column| denied(&column.name)).collect();
        Self { denied, ..self.unguarded() }
    }

    /// The same table, with what `told` makes of what it denies; `None` if it denies nothing.
    pub fn denying(&self, told: impl Fn(Error) -> Error) -> Option<Self> {
        if self.denied.iter().all(Option::is_none) {
            return None;
        }
        let error = |denied: &Error| told(Error::new(denied.code(), denied.message().to_owned()));
        let denied = self.denied.iter().map(|denied| denied.as_ref().map(error)).collect();
        Some(Self { denied, ..self.unguarded() })
    }

    /// The same table, of which all columns may be read.
    pub fn unguarded(&self) -> Self {
        Self {
            database: self.database.clone(),
            full_name: self.full_name.clone(),
            snapshot: Arc::clone(&self.snapshot),
            zone: self.zone,
            schema: Arc::clone(&self.schema),
            constraints: self.constraints.clone(),
            denied: Vec::new(),
        }
    }

    /// # Errors
    /// Why one of these columns must not be read.
    pub fn check_rights(&self, projection: &[usize]) -> Result<()> {
        match projection.iter().find_map(|at| self.denied.get(*at)?.as_ref()) {
            None => Ok(()),
            Some(denied) => Err(external(Error::new(denied.code(), denied.message().to_owned()))),
        }
    }

    /// Its database and name.
    pub fn place(&self) -> (String, String) {
        (self.database.clone(), self.full_name.clone())
    }

    /// Its definition.
    pub fn table(&self) -> &Table {
        &self.snapshot.table
    }

    /// Its columns as of the snapshot.
    pub fn columns(&self) -> &Arc<TableSchema> {
        &self.snapshot.schema
    }

    /// The number of rows in these files and in memory, and the columns' bounds if all necessary
    /// footers are cached. A few missing footers are read first, since the scan needs them anyway.
    async fn statistics(&self, files: &[Slice], projection: &[usize]) -> Statistics {
        let segments = files.iter().map(|slice| &slice.segment);
        if segments.clone().count() <= FOOTERS_PLANNED_MAX {
            // The error of an unreadable footer is reported by the scan.
            join_all(segments.clone().map(|segment| segment.read_footer())).await;
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = files.iter().map(|slice| slice.rows).sum::<u64>();
        let columns = projection.iter().map(|&at| self.columns().columns[at].id);
        let ranges = match self.snapshot.delta_rows() {
            0 => known_ranges(segments, &columns.collect::<Vec<_>>()),
            // There are no bounds for rows in memory.
            _ => vec![None; projection.len()],
        };
        let columns = projection.iter().zip(ranges);
        Statistics {
            num_rows: Precision::Exact(count(rows + self.snapshot.delta_rows())),
            total_byte_size: Precision::Inexact(count(self.snapshot.bytes())),
            column_statistics: columns.map(|(&at, range)| self.bounds(at, range)).collect(),
        }
    }

    fn bounds(&self, at: usize, range: Option<ColumnRange>) -> ColumnStatistics {
        let mut statistics = ColumnStatistics::new_unknown();
        let column = &self.columns().columns[at];
        // Files older than a change of the type have bounds of the type before.
        let is_of_type = |range: &ColumnRange| {
            *range.min.data_type() == column.ty.arrow() && column.ty.sketch().is_none()
        };
        // Bounds of nested values are texts.
        let range = range.filter(|_| !column.ty.is_nested());
        let Some(range) = range.filter(is_of_type) else { return statistics };
        if is_instant(column) && self.zone != Zone::UTC {
            return statistics;
        }
        let one = |array: &_| ScalarValue::try_from_array(&without_zone(array), 0).ok();
        let exact = column.ty.is_integer() || matches!(column.ty.arrow(), DataType::Date32);
        let precise =
            |value| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };
        if let (Some(min), Some(max)) = (one(&range.min), one(&range.max)) {
            statistics.min_value = precise(min);
            statistics.max_value = precise(max);
        }
        if let Some(nulls) = range.null_count {
            statistics.null_count = Precision::Exact(usize::try_from(nulls).unwrap_or(usize::MAX));
        }
        statistics
    }

    /// The segments that may contain matching rows, oldest first; with a `limit`, only as many as
    /// have about that many rows. Rows in memory count first, because reading them needs no file.
    fn files(&self, asked: &ScanPruning, limit: Option<usize>) -> (Vec<Slice>, PruningCounts) {
        let snapshot = &self.snapshot;
        let table = &snapshot.table;
        let is_kept = |tablet| asked.tablets.as_ref().is_none_or(|kept| kept.contains(&tablet));
        // A large load behind a TRUNCATE has tablets that this definition may not have yet.
        let may_hold = |rowset: &&Arc<Rowset>| {
            let tablet = rowset.meta().tablet;
            is_kept(tablet) || !table.tablets().any(|known| known == tablet)
        };
        let tablets = snapshot.tablets.iter().filter(|tablet| is_kept(tablet.id));
        let rowsets = tablets.flat_map(|tablet| &tablet.rowsets);
        let loaded = snapshot.loaded.iter().filter(may_hold);
        let mut rowsets = rowsets.chain(loaded).cloned().collect::<Vec<_>>();
        let partitions = table.shown_partitions().map(|(_, partition)| partition);
        let kept = partitions
            .clone()
            .map(|partition| partition.tablets.iter().filter(|tablet| is_kept(**tablet)).count());
        let kept = kept.collect::<Vec<_>>();
        let named = partitions.zip(&kept).filter(|(_, kept)| **kept > 0);
        let names = table.partition_by.as_ref().map(|_| {
            named.map(|(partition, _)| &*partition.name).collect::<Vec<_>>().join(",").into()
        });
        let mut left = PruningCounts {
            names,
            partitions: [kept.iter().filter(|kept| **kept > 0).count(), kept.len()],
            tablets: [kept.iter().sum(), table.tablets().count()],
            rowsets: [0, snapshot.rowsets().count()],
            segments: [0, snapshot.rowsets().map(|rowset| rowset.segments().len()).sum()],
            index: IndexUse::default(),
        };
        rowsets.sort_by_key(|rowset| rowset.meta().lsn_first);
        let mut files =
            rowsets.iter().flat_map(|rowset| rowset.slices(snapshot.horizon)).collect::<Vec<_>>();
        if let Some(prune) = &asked.prune
            && !files.is_empty()
        {
            let mut keep = prune.keep(&key_bounds(files.iter())).into_iter();
            files.retain(|_| keep.next().expect("pruning decides about every container"));
        }
        let is_same = |a: &Slice, b: &Slice| Arc::ptr_eq(&a.rowset, &b.rowset);
        left.rowsets[0] = files.chunk_by(is_same).count();
        left.segments[0] = files.len();
        if let (Some(first), true) = (snapshot.rowsets().next(), asked.prune.is_some()) {
            let count =
                |level, [left, of]: [usize; 2]| first.access().count_pruning(level, of, left);
            count("partition", left.partitions);
            count("tablet", left.tablets);
            count("rowset", left.rowsets);
            count("segment", left.segments);
        }
        let wanted = limit.map_or(u64::MAX, |limit| limit as u64);
        let mut rows = self.snapshot.delta_rows();
        let more = |slice: &Slice| {
            let more = rows < wanted;
            rows += slice.rows;
            more
        };
        (files.into_iter().take_while(more).collect(), left)
    }

    fn asked(&self, state: &dyn Session, filters: &[Expr]) -> Result<ScanPruning> {
        let Some(filter) = conjunction(filters.iter().cloned()) else {
            return Ok(ScanPruning::default());
        };
        let filter = labelled::named(meaning::bare(filter)?, self.columns())?;
        let filter = beginnings::with_bounds(filter, self.columns());
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let expr = state.create_physical_expr(filter.clone(), &schema)?;
        let (table, columns, zone) = (&self.snapshot.table, self.columns(), self.zone);
        let condition = Condition::new(&expr, &self.schema, columns, zone);
        let prune = condition.map(|condition| Arc::new(condition) as Arc<dyn Prune>);
        let said = LiteralGuarantee::analyze(&expr);
        let tablets = partitions::tablets(&said, prune.as_deref(), table, columns, zone);
        let indexes = match weighed::columns(columns, &self.schema) {
            None => AskedIndexes::new(&expr, &said, table, columns, zone),
            Some(schema) => {
                let named = weighed::named(filter, columns)?;
                let expr = state.create_physical_expr(named, &DFSchema::try_from(schema)?)?;
                let said = LiteralGuarantee::analyze(&expr);
                AskedIndexes::new(&expr, &said, table, columns, zone)
            }
        };
        Ok(ScanPruning { prune, tablets, indexes })
    }
}

/// What the filters of a scan imply for pruning.
#[derive(Default)]
struct ScanPruning {
    prune: Option<Arc<dyn Prune>>,
    tablets: Option<HashSet<TabletId>>,
    indexes: Option<AskedIndexes>,
}

/// A table without a snapshot, for cached plans: it only has columns, is bound to a snapshot before
/// execution, and pins neither memory nor files.
pub struct UnboundTable {
    place: (String, String),
    schema: SchemaRef,
}

impl UnboundTable {
    /// Removes the snapshot of a table.
    pub fn new(table: &StoredTable) -> Self {
        Self { place: table.place(), schema: Arc::clone(&table.schema) }
    }

    /// Its database and name.
    pub fn place(&self) -> (String, String) {
        self.place.clone()
    }
}

impl fmt::Debug for UnboundTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnboundTable({}.{})", self.place.0, self.place.1)
    }
}

#[async_trait]
impl TableProvider for UnboundTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("{self:?} is read before it is bound to a snapshot")
    }
}

/// The columns that a scan reads: all where the planner names none.
pub fn columns_read(schema: &SchemaRef, projection: Option<&Vec<usize>>) -> Vec<usize> {
    projection.map_or_else(|| (0..schema.fields().len()).collect(), Clone::clone)
}

/// Column names in lower case, since they are case-insensitive in MySQL, with their origin as
/// metadata. A table with an AGGREGATE KEY also shows where its rows stand in the log.
fn planned_schema(database: &str, snapshot: &TableSnapshot, shown: &[Column]) -> SchemaRef {
    let fields = shown.iter().enumerate().map(|(at, column)| {
        let ty = match column.ty.arrow() {
            _ if column.ty.sketch().is_some() => convert::SKETCH,
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(unit, None),
            _ if column.ty.is_nested() => nested::query_type(column),
            other => other,
        };
        let origin = ColumnOrigin::of(database, &snapshot.table, &snapshot.schema, at);
        let mut metadata = HashMap::from([(ColumnOrigin::KEY.to_owned(), origin.encode())]);
        if let Some(derived) = Derived::stored(column) {
            metadata.insert(Derived::KEY.to_owned(), derived.encode());
        }
        column_default::say(column, &mut metadata);
        Field::new(column.name.to_lowercase(), ty, column.nullable).with_metadata(metadata)
    });
    let mut fields = fields.collect::<Vec<_>>();
    if snapshot.table.key_model == KeyModel::Aggregate {
        fields.extend(PLACE_COLUMNS.map(|name| Field::new(name, DataType::UInt64, false)));
    }
    Arc::new(Schema::new(fields))
}

/// The keys without NULL of which no two rows have the same: rows that are grouped by one are alike
/// in all columns.
fn unique_keys(snapshot: &TableSnapshot) -> Vec<Constraint> {
    let (table, schema) = (&snapshot.table, &snapshot.schema);
    let has_key = table.key_model == KeyModel::Primary && schema.row_id().is_none();
    let key = has_key.then(|| schema.sort_key.clone());
    let others = table.unique_keys().filter_map(|key| {
        let place = |id: &ColumnId| {
            let at = schema.columns.iter().position(|column| column.id == *id)?;
            (!schema.columns[at].nullable).then_some(at)
        };
        key.columns.iter().map(place).collect::<Option<Vec<_>>>()
    });
    key.into_iter().chain(others).map(Constraint::PrimaryKey).collect()
}

impl fmt::Debug for StoredTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTable({}.{})", self.database, self.snapshot.table.name)
    }
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = columns_read(&self.schema, projection);
        self.check_rights(&projection)?;
        // What is dead is known before anything is counted or read.
        self.snapshot.resolved().await.map_err(|error| external(error.into()))?;
        // Rows removed by a filter do not count towards the limit.
        let hides = self.snapshot.hidden().is_some();
        let limit = limit.filter(|_| filters.is_empty() && !hides);
        let asked = self.asked(state, filters)?;
        let (mut files, mut left) = self.files(&asked, limit);
        if let Some(indexes) = &asked.indexes {
            let found = indexes.find(files).await;
            (files, left.index) = found.map_err(|error| external(error.into()))?;
        }
        let memory = self.snapshot.seen_parts().map_err(|error| external(error.into()))?;
        let of_table = self.columns().columns.len();
        let stored = projection.iter().copied().filter(|at| *at < of_table).collect::<Vec<_>>();
        let mut statistics = self.statistics(&files, &stored).await;
        // Where its rows stand is asked for behind the columns of the table.
        let unknown = ColumnStatistics::new_unknown();
        statistics.column_statistics.resize(projection.len(), unknown);
        // Dead rows may have given the bounds of a column.
        if self.snapshot.loses_rows() {
            let inexact = |column: &mut ColumnStatistics| *column = mem::take(column).to_inexact();
            statistics.column_statistics.iter_mut().for_each(inexact);
        }
        if files.len() < left.segments[1] || hides || left.index.used.is_some() {
            statistics = statistics.to_inexact();
        }
        let slices = files.into_iter().flat_map(|file| file.divide(SLICE_ROWS)).map(Morsel::File);
        let memory = (0..).zip(memory).map(|(number, (lsn, rows))| InMemory { lsn, number, rows });
        let morsels = slices.chain(memory.map(Morsel::Memory)).collect();
        let schema = Arc::new(
            self.schema.project(&projection).map_err(|error| plan_datafusion_err!("{error}"))?,
        );
        let request = ScanRequest {
            schema: Arc::clone(self.columns()),
            projection: stored,
            prune: asked.prune,
            batch_rows: BATCH_ROWS,
        };
        let partitions = spread(morsels, state.config().target_partitions());
        let table = (self.database.as_str(), Arc::clone(&self.snapshot));
        Ok(Arc::new(ScanExec::new(
            table,
            partitions,
            left,
            request,
            (schema, projection),
            self.zone,
            statistics,
        )))
    }
}
