//! The rounds of a change of columns: what is in files that were not there before is added to the
//! new table, and what has died in others is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;
use freshet_base::{Error, Incarnation, Lsn, Result, RowsetId, bail, task};
use freshet_meta::NewForm;
use freshet_schema::convert::RowConverter;
use freshet_schema::{GroupCommitMode, KeyModel, RowCells, Rules, Table, TableSchema, encode};
use freshet_storage::Rowset;
use freshet_storage::delta::Freshness;
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::marks::DeadRows;
use freshet_storage::resolver::KeyedRows;
use freshet_storage::rowset::Slice;
use freshet_storage::segment::ScanRequest;

use super::job::{Job, Rewriting};
use crate::admit::WaitLimit;
use crate::buffer::LoadBuffer;
use crate::change::Written;
use crate::decode::{Completion, Warnings};
use crate::engine::Engine;
use crate::key_rules::{KeyRules, OnExisting};
use crate::load::{Destination, Load};
use crate::removals::with_removals;
use crate::state::TableState;
use crate::target::{LoadTarget, Loaded};
use crate::unkeyed::{Affected, Copies, RowChange};

/// Encoded rows of one load into the new table, about.
const LOAD_BYTES: usize = 256 << 20;
/// Rows that are removed at once.
const REMOVED_MAX: usize = 2_000;
/// How long it waits for memory and log space.
const PATIENCE: WaitLimit = WaitLimit::For(Duration::from_secs(600));

/// What of a table is copied.
pub(super) struct Copying<'a> {
    job: &'a Job<'a>,
    schema: Arc<TableSchema>,
    target: LoadTarget,
    /// Between two batches.
    rows: Option<Box<Conversion>>,
    incarnation: Incarnation,
    /// Of each rowset that is copied, the dead rows of each segment that were left out or removed.
    copied: BTreeMap<RowsetId, Vec<DeadRows>>,
    seen: Lsn,
    /// The last record of the new table.
    loaded: Lsn,
}

/// Rows on their way.
struct Conversion {
    converter: RowConverter,
    completion: Completion,
    rules: Rules,
    from: Arc<TableSchema>,
    to: Arc<TableSchema>,
    /// Rows that are converted.
    rows: u64,
}

impl Conversion {
    fn convert(&mut self, batch: &RecordBatch) -> Result<(Vec<u8>, u32)> {
        let (mut encoded, mut converted) = (Vec::new(), Vec::new());
        encode(batch, &self.from, &mut encoded);
        let count = self.converter.convert(&encoded, self.rows, &mut converted)?;
        let before = self.rows;
        self.rows += u64::from(count);
        if self.completion.is_nothing() {
            return Ok((converted, count));
        }
        let (cells, mut out) = (RowCells::new(&self.to), Vec::with_capacity(converted.len()));
        // Nobody reads the warnings: what an expression loses is an error in a form that is strict.
        let mut warnings = Warnings::default();
        for (row, number) in cells.rows(&converted).zip(before + 1..) {
            let start = out.len();
            out.extend_from_slice(row);
            self.completion.complete(&mut out, start, number, &self.rules, &mut warnings)?;
        }
        Ok((out, count))
    }
}

impl<'a> Copying<'a> {
    pub fn begin(
        job: &'a Job<'a>,
        how: &dyn Rewriting,
        (before, form): (&Table, &NewForm),
        target: LoadTarget,
    ) -> Result<Self> {
        let schema = Arc::clone(before.schema());
        let sources = form.all_sources(before, target.table());
        let (rules, now) = how.rules();
        let columns = (&schema, target.schema());
        let converter = RowConverter::new(columns, &sources, now, rules)?;
        let completion = how.completion(&target)?;
        let (from, to) = (Arc::clone(&schema), Arc::clone(target.schema()));
        job.progress.rows.store(0, Ordering::Relaxed);
        let conversion = Conversion { converter, completion, rules, from, to, rows: 0 };
        Ok(Self {
            job,
            schema,
            target,
            rows: Some(Box::new(conversion)),
            incarnation: job.state.incarnation(),
            copied: BTreeMap::new(),
            seen: Lsn::ZERO,
            loaded: Lsn::ZERO,
        })
    }

    pub fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// The place of the log up to which the new table has what the old one has.
    pub fn seen(&self) -> Lsn {
        self.seen
    }

    /// Whether rows of a key are stored in parts.
    fn is_in_parts(&self) -> bool {
        self.target.table().key_model == KeyModel::Aggregate
    }

    fn engine(&self) -> &'a Arc<Engine> {
        self.job.engine
    }

    /// Brings the new table to a later place of the log, and returns how many rows that took.
    /// `None` where what was copied is gone.
    pub async fn round(&mut self) -> Result<Option<u64>> {
        let (engine, state) = (self.engine(), self.job.state);
        engine.flush_for(state.id, FlushReason::Alter).await?;
        let Some(view) = engine.store.tables.view(state.id) else { return Err(state.gone()) };
        let seen = view.flushed;
        if let Some(resolver) = &view.resolver {
            resolver.resolve_to(seen).await?;
        }
        if state.incarnation() != self.incarnation || view.schema.version != self.schema.version {
            return Ok(None);
        }
        let rowsets = view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
        let rowsets = rowsets.collect::<Vec<_>>();
        let is_there = |id: &RowsetId| rowsets.iter().any(|rowset| rowset.meta().id == *id);
        if !self.copied.keys().all(is_there) {
            return Ok(None);
        }
        let rows = rowsets.iter().map(|rowset| rowset.rows_at(seen)).sum();
        self.job.progress.of.store(rows, Ordering::Relaxed);
        let Some(removed) = self.remove_dead(&rowsets, seen).await? else { return Ok(None) };
        let is_new = |rowset: &&Arc<Rowset>| !self.copied.contains_key(&rowset.meta().id);
        let new = rowsets.iter().filter(is_new).cloned().collect::<Vec<_>>();
        let added = self.add(&new, seen).await?;
        self.seen = seen;
        Ok(Some(removed + added))
    }

    /// Removes what has died in files that are copied. `None` where it is not known which rows of
    /// the new table these are.
    async fn remove_dead(&mut self, rowsets: &[Arc<Rowset>], seen: Lsn) -> Result<Option<u64>> {
        let mut count = 0;
        for rowset in rowsets {
            let id = rowset.meta().id;
            for (at, slice) in rowset.slices(seen).enumerate() {
                let Some(before) = self.copied.get(&id).map(|dead| &dead[at]) else { continue };
                let died = slice.dead.rows().filter(|row| !before.contains(*row));
                let died = died.collect::<Vec<_>>();
                if died.is_empty() {
                    continue;
                }
                // What they have become in the new table has no name.
                if self.is_in_parts() {
                    return Ok(None);
                }
                let rows = self.rows.as_ref().expect("no batch is converted");
                if !rows.converter.is_repeatable() {
                    return Ok(None);
                }
                let dead = slice.dead.clone();
                // Rows of a key are replaced by later ones with its sequence, here as there.
                if self.schema.sequence.is_none() {
                    let rows = u32::try_from(slice.segment.meta().rows);
                    let rows = rows.expect("a segment numbers its rows in 32 bits");
                    let only = Slice { dead: DeadRows::all_but(rows, &died), ..slice };
                    self.remove(&only).await?;
                }
                count += died.len() as u64;
                let known = self.copied.get_mut(&id).expect("it was just found");
                known[at] = dead;
            }
        }
        Ok(Some(count))
    }

    async fn remove(&mut self, slice: &Slice) -> Result<()> {
        let request = ScanRequest { batch_rows: REMOVED_MAX, ..ScanRequest::all(&self.schema) };
        let mut scan = slice.segment.scan_awaiting(&request, slice.share, &slice.dead).await?;
        while let Some(batch) = scan.next_batch().await {
            self.job.check_running()?;
            let (rows, count) = self.converted(batch?).await?;
            let loaded = self.remove_rows(&rows, count).await?;
            self.loaded = self.loaded.max(loaded.lsn);
        }
        Ok(())
    }

    /// Removes rows of the new table.
    async fn remove_rows(&self, rows: &[u8], count: u32) -> Result<Loaded> {
        let (engine, target) = (self.engine(), &self.target);
        match target.table().key_model {
            KeyModel::Primary => {
                let keys = KeyedRows::of_encoded(rows, (count, 0), target.table(), target.schema());
                let mut change = engine.change(target, None, KeyRules::default(), PATIENCE);
                change.lock(&keys).await?;
                let old = (0..count).map(|at| keys.key(at).to_vec()).collect::<BTreeSet<_>>();
                let mut nothing = LoadBuffer::default();
                nothing.begin();
                match change.write(&old, &nothing).await? {
                    Written::Done(loaded) => Ok(loaded),
                    Written::Overtaken => Err(lost(target)),
                }
            }
            KeyModel::Unique => {
                let mut buffer = with_removals(target, rows, &vec![true; count as usize])?;
                let alone = Destination::Group(GroupCommitMode::Off);
                engine.load(target, alone, PATIENCE).commit(&mut buffer).await
            }
            KeyModel::Duplicate => {
                let cells = RowCells::new(target.schema());
                let change = |row: &[u8]| RowChange { old: row.to_vec(), new: None };
                let changes = cells.rows(rows).map(change).collect::<Vec<_>>();
                let changed = engine.change_rows(target, None, &changes, Copies::One, PATIENCE);
                match changed.await? {
                    Affected::Rows(_, loaded) => Ok(loaded),
                    Affected::Overtaken => Err(lost(target)),
                }
            }
            KeyModel::Aggregate => unreachable!("where parts of a key die, the copy begins again"),
        }
    }

    /// Adds the rows of files.
    async fn add(&mut self, rowsets: &[Arc<Rowset>], seen: Lsn) -> Result<u64> {
        let (engine, target) = (self.engine(), self.target.clone());
        let rules = KeyRules { on_existing: OnExisting::Refuse, ..KeyRules::default() };
        let begin = || {
            let alone = Destination::Group(GroupCommitMode::Off);
            engine.load(&target, alone, PATIENCE).with_keys(rules)
        };
        let request = ScanRequest::all(&self.schema);
        let (mut load, mut bytes, mut added) = (begin(), 0, 0);
        for rowset in rowsets {
            let slices = rowset.slices(seen).collect::<Vec<_>>();
            for slice in &slices {
                let scan = slice.segment.scan_awaiting(&request, slice.share, &slice.dead);
                let mut scan = scan.await?;
                while let Some(batch) = scan.next_batch().await {
                    self.job.check_running()?;
                    let (rows, count) = self.converted(batch?).await?;
                    added += u64::from(count);
                    bytes += rows.len();
                    self.push(&mut load, rows, count).await?;
                    self.job.progress.rows.fetch_add(count.into(), Ordering::Relaxed);
                    if bytes >= LOAD_BYTES {
                        let full = std::mem::replace(&mut load, begin());
                        self.commit(full).await?;
                        bytes = 0;
                    }
                }
            }
            let dead = slices.into_iter().map(|slice| slice.dead).collect();
            self.copied.insert(rowset.meta().id, dead);
        }
        if bytes > 0 {
            self.commit(load).await?;
        }
        Ok(added)
    }

    async fn push(&self, load: &mut Load<'_>, rows: Vec<u8>, count: u32) -> Result<()> {
        let engine = self.engine();
        if count == 0 {
            return Ok(());
        }
        let ids = self.target.counter();
        load.use_ids(ids.and_then(|ids| ids.of_rows(self.target.schema(), &rows, count)));
        let deadline = PATIENCE.soon(&engine.admission);
        let memory = engine.take_memory(rows.len() as u64, deadline).await?;
        load.push(rows.into(), count as usize, memory).await
    }

    async fn commit(&mut self, load: Load<'_>) -> Result<()> {
        let loaded = load.commit(&mut LoadBuffer::default()).await?;
        self.loaded = self.loaded.max(loaded.lsn);
        Ok(())
    }

    /// Converts a batch on a thread that may compute.
    async fn converted(&mut self, batch: RecordBatch) -> Result<(Vec<u8>, u32)> {
        let mut rows = self.rows.take().expect("one batch is converted at a time");
        let convert = move || {
            let converted = rows.convert(&batch);
            (rows, converted)
        };
        let (rows, converted) = task::run(self.engine().store.pool(), convert).await;
        self.rows = Some(rows);
        converted
    }

    /// Checks that the new table has as many rows as the old one has now. Of tables with an
    /// AGGREGATE KEY, whose rows are parts that become one at any time, nothing is known.
    ///
    /// # Errors
    /// 1062 where rows have become one, since their keys are the same in new columns.
    pub async fn check_count(&self) -> Result<()> {
        if self.is_in_parts() {
            return Ok(());
        }
        let engine = self.engine();
        let Some(old) = engine.store.tables.view(self.job.state.id) else {
            return Err(self.job.state.gone());
        };
        let rowsets = old.tablets.iter().flat_map(|tablet| &tablet.rowsets);
        let rows = rowsets.map(|rowset| rowset.rows_at(self.seen)).sum::<u64>();
        engine.horizon().wait(self.loaded).await;
        let snapshot = engine.snapshot(Freshness::Committed);
        let Some(new) = snapshot.table(self.target.id()).map_err(Error::from)? else {
            return Err(lost(&self.target));
        };
        new.resolved().await?;
        let copied = new.rows();
        if copied == rows {
            return Ok(());
        }
        if copied < rows && self.target.table().key_model == KeyModel::Unique {
            bail!(
                DuplicateKey,
                "Duplicate entry for key 'UNIQUE KEY': {rows} rows of table '{}' would become \
                 {copied}, since keys of some are the same in the new columns",
                self.target.table().name
            );
        }
        bail!(
            Internal,
            "{copied} of {rows} rows of table '{}' were copied; it stays as it is",
            self.target.table().name
        )
    }

    /// Lets generated ids of the new table go on behind those of the old one. Those that only name
    /// rows are none of a column that users see.
    pub async fn move_counter(&self, old: &TableState) -> Result<()> {
        let hides = self.schema.row_id().is_some() && self.schema.shown_auto_increment().is_none();
        if hides && self.target.schema().row_id().is_none() {
            return Ok(());
        }
        let Some(next) = old.counter.as_ref().map(|counter| counter.next()) else { return Ok(()) };
        self.engine().ddl().move_counter(self.target.id(), next).await
    }
}

fn lost(target: &LoadTarget) -> Error {
    freshet_base::err!(
        Internal,
        "a row that died is not in the copy of table '{}'; it stays as it is",
        target.table().name
    )
}
