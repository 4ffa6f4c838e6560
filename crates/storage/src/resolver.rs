//! The resolver of a keyed table: it finds what each version of a key has replaced, and marks it as
//! dead (keys.md K19, RFC 0012).
//!
//! It takes the records of the log in their order, whoever runs it, one at a time: the background,
//! or a reader, flush or merge that needs marks up to some LSN. Look-ups come first and may fail or
//! be given up; marks, and what is known of keys, change together afterwards.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::budget::{Budget, Permit};
use freshet_base::lock::FairLock;
use freshet_base::task::{Lane, Pool, run_in, yield_core};
use freshet_schema::{Distribution, Table};
use parking_lot::RwLock;

mod added;
mod equal;
mod key_table;
mod keyed_rows;
mod latch;
mod load;
mod many;
mod ranked;
mod runs;
mod swap;
#[cfg(test)]
mod tests;
mod values;
mod watch;

pub use added::{AddedValues, IndexedFiles, NewUnique, Taken};
use equal::Unkeyed;
pub use equal::{Equal, EqualRows};
use key_table::KeyTable;
pub(crate) use key_table::Version;
pub use keyed_rows::KeyedRows;
pub use latch::{Latch, Met, Place};
pub use many::{PIECE_KEYS, PIECES_BESIDE};
use ranked::{Rank, Ranks};
pub use runs::RunFile;
use runs::{RunMarks, Runs};
pub(crate) use swap::EndedSwap;
pub(crate) use swap::flushed_to;
pub use swap::{FlushSwap, FlushedRows, MergeSwap, Swap, dead, died};
use values::ValueTable;
pub use values::Values;
pub use watch::{Overtaken, Watch};

use crate::delta::{Chunk, Delta, DeltaMark, DeltaMarks, EntryRows, Node, Step};
use crate::division::Division;
use crate::error::Result;
use crate::segment::{WaitMode, at_once};
use crate::sync::{AtomicU64, Ordering};
use crate::tablet::TabletFiles;

/// The memory of the keys of all tables.
#[derive(Clone)]
pub struct KeyMemory {
    /// For filters of files; without any left, parts of a filter are read when they are needed.
    pub filters: Budget,
    /// For the keys of rows in memory, with those rows: more than its limit when rows are there.
    pub writes: Budget,
}

impl KeyMemory {
    /// Without limits, for tools and tests.
    pub fn unlimited() -> Self {
        let budget = Budget::new("memory of keys", u64::MAX);
        Self { filters: budget.clone(), writes: budget }
    }
}

/// Keys that are entered or looked up at once, before others have their turn.
const KEYS_AT_ONCE: usize = 1024;

/// A removal of a row in files, or of none, needs no version of its key: the mark says it. In a
/// record of so many or fewer it has one, so that who brings the key again is not sent to files.
const REMOVALS_KEPT: u32 = if cfg!(test) { 2 } else { 1024 };

/// Makes the marks of one table.
pub struct Resolver {
    delta: Arc<Delta>,
    /// Held by whoever resolves, and while files are replaced: the latch of keys.md.
    state: Arc<FairLock<State>>,
    resolved: Arc<AtomicU64>,
    /// The number of the first row of the delta whose marks are not made.
    next_row: Arc<AtomicU64>,
    /// Written by whoever has the state, read by point reads as well.
    keys: Arc<RwLock<KeyTable>>,
    /// For filters of files.
    filters: Budget,
    is_unkeyed: bool,
}

/// What the resolver knows, as of `resolved`.
pub(crate) struct State {
    delta: Arc<Delta>,
    /// The first node that is not resolved as a whole.
    node: Arc<Node>,
    /// All marks up to here are made.
    resolved: Lsn,
    /// The last TRUNCATE up to there: no key is found below it.
    cut: Lsn,
    shared: Arc<AtomicU64>,
    shared_row: Arc<AtomicU64>,
    distribution: Distribution,
    keys: Arc<RwLock<KeyTable>>,
    /// Of each unique index beside the primary key.
    values: Vec<ValueTable>,
    runs: Runs,
    marks: DeltaMarks,
    /// The marks on rows of the delta, for the files that these rows go to.
    made: Vec<DeltaMark>,
    /// The memory of keys and marks.
    permit: Permit,
    /// In tables without a unique key.
    unkeyed: Option<Unkeyed>,
    /// In tables with a sequence column.
    ranks: Option<Ranks>,
}

impl Resolver {
    /// The resolver of a table whose records up to `flushed` are in `tablets`.
    pub fn new(
        table: &Table,
        delta: &Arc<Delta>,
        flushed: Lsn,
        tablets: &[TabletFiles],
        memory: &KeyMemory,
    ) -> Self {
        let resolved = Arc::new(AtomicU64::new(flushed.get()));
        let next_row = Arc::new(AtomicU64::new(delta.first_row()));
        let (keys, filters) = (Arc::default(), memory.filters.clone());
        let is_unkeyed = !table.key_model.is_keyed();
        let unkeyed = is_unkeyed.then(|| Unkeyed::new(delta));
        let values = table.indexed().into_iter();
        let values = values.map(|columns| ValueTable::new(columns, table.schema()));
        let mut state = State {
            delta: Arc::clone(delta),
            node: delta.head(),
            resolved: flushed,
            cut: Lsn::ZERO,
            shared: Arc::clone(&resolved),
            shared_row: Arc::clone(&next_row),
            distribution: table.distribution.clone(),
            keys: Arc::clone(&keys),
            values: values.collect(),
            runs: Runs::new(tablets, memory.filters.clone()),
            marks: DeltaMarks::default(),
            made: Vec::new(),
            permit: memory.writes.acquire_over(0),
            unkeyed,
            ranks: None,
        };
        if let Some(by) = table.schema().sequence {
            state.rank_by(by);
        }
        let (delta, state) = (Arc::clone(delta), Arc::new(FairLock::new(state)));
        Self { delta, state, resolved, next_row, keys, filters, is_unkeyed }
    }

    /// All marks up to here are made.
    pub fn resolved(&self) -> Lsn {
        Lsn(self.resolved.load(Ordering::Acquire))
    }

    /// Whether all marks up to `lsn` are made.
    pub fn is_resolved(&self, lsn: Lsn) -> bool {
        // In this order: what comes later is above both.
        let last = match self.is_unkeyed {
            true => self.delta.removed().max(self.delta.truncated()),
            false => self.delta.last(),
        };
        let resolved = self.resolved();
        resolved >= lsn || resolved >= last
    }

    /// How many rows of the delta of a keyed table have no marks yet.
    pub fn rows_behind(&self) -> u64 {
        if self.is_unkeyed || self.is_resolved(Lsn(u64::MAX)) {
            return 0;
        }
        self.delta.end_row().saturating_sub(self.next_row.load(Ordering::Acquire))
    }

    /// The last versions of these keys in the delta.
    pub(crate) fn versions(&self, keys: &[&[u8]]) -> Vec<Option<Version>> {
        self.keys.read().find_all(keys.iter().copied())
    }

    /// The memory for filters of files.
    pub(crate) fn filters(&self) -> &Budget {
        &self.filters
    }

    /// Makes the marks up to `lsn`, which is in the log.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment's keys; the marks up to
    /// [`Self::resolved`] are made.
    pub async fn resolve_to(&self, lsn: Lsn) -> Result<()> {
        if self.is_resolved(lsn) {
            return Ok(());
        }
        self.state.lock().await.resolve(lsn, WaitMode::Awaiting).await
    }

    /// Like [`Self::resolve_to`], for who must not keep its own thread busy with the rows of
    /// others: they are looked up on one of `pool` that waits for nothing but the device, since
    /// everybody who writes to the table waits meanwhile.
    ///
    /// # Errors
    /// Those of [`Self::resolve_to`].
    pub async fn resolve_beside(&self, pool: &dyn Pool, lsn: Lsn) -> Result<()> {
        if self.is_resolved(lsn) {
            return Ok(());
        }
        // Most who wait here find that the one before them has looked up their rows, too.
        let mut state = self.state.lock().await;
        if state.resolved >= lsn {
            return Ok(());
        }
        let look_up = move || at_once(state.resolve(lsn, WaitMode::Blocking));
        run_in(pool, Lane::Read, look_up).await
    }

    /// Like [`Self::resolve_to`], blocking, unless another resolves at present.
    ///
    /// # Errors
    /// Those of [`Self::resolve_to`].
    pub fn try_resolve_to(&self, lsn: Lsn) -> Result<()> {
        match self.state.try_lock() {
            Some(mut state) => at_once(state.resolve(lsn, WaitMode::Blocking)),
            None => Ok(()),
        }
    }
}

/// The rows of some entries of a chunk, which have one schema.
struct Rows<'a> {
    lsns: &'a [Lsn],
    is_removal: &'a [bool],
    /// The number of the first one.
    first: u64,
    keyed: KeyedRows,
    /// For each unique index.
    values: Vec<KeyedRows>,
    /// In tables with a sequence column.
    ranks: Vec<Rank>,
    /// There as well, the delete signs that say how old a row is; 0 for all others.
    signs: Vec<i8>,
}

impl Rows<'_> {
    fn lsn(&self, at: u32) -> Lsn {
        self.lsns[at as usize]
    }

    fn is_removal(&self, at: u32) -> bool {
        self.is_removal[at as usize]
    }

    /// Whether it lets the row of its key be forgotten that has the same delete sign.
    fn forgets(&self, at: u32) -> bool {
        self.is_removal(at) && self.signs[at as usize] < 0
    }

    fn number(&self, at: u32) -> u64 {
        self.first + u64::from(at)
    }
}

impl State {
    pub async fn resolve(&mut self, to: Lsn, wait_mode: WaitMode) -> Result<()> {
        if self.delta.last() > self.resolved && to > self.resolved {
            let delta = Arc::clone(&self.delta);
            for chunk in delta.chunks(&self.node) {
                chunk.make_known(&mut self.marks);
                for step in chunk.steps(self.resolved, to) {
                    match step {
                        Step::Rows(entries) if self.unkeyed.is_some() => {
                            self.removals(&chunk, entries, wait_mode).await?;
                        }
                        Step::Rowsets(lsn, rowsets) if self.unkeyed.is_some() => {
                            self.runs.forget_from(lsn);
                            rowsets.iter().for_each(|rowset| self.runs.add(rowset));
                            self.advance(lsn);
                        }
                        Step::Rows(entries) => self.rows(&chunk, entries, wait_mode).await?,
                        Step::Rowsets(lsn, rowsets) => self.load(lsn, &rowsets, wait_mode).await?,
                        Step::Truncate(lsn) => self.cut(lsn),
                        Step::Divide(lsn, division) => self.divide(lsn, &division),
                    }
                    yield_core();
                }
            }
            self.pass_nodes(to);
        }
        self.advance(to);
        Ok(())
    }

    fn advance(&mut self, to: Lsn) {
        self.account();
        self.resolved = self.resolved.max(to);
        self.shared.store(self.resolved.get(), Ordering::Release);
    }

    /// All rows of the delta below this number have their marks.
    fn pass_rows(&self, next: u64) {
        self.shared_row.fetch_max(next, Ordering::AcqRel);
    }

    fn account(&mut self) {
        let made = self.made.capacity() * size_of::<DeltaMark>();
        let keys = self.keys.read().memory_bytes();
        let values = self.values.iter().map(ValueTable::memory_bytes).sum::<u64>();
        let ranks = self.ranks.as_ref().map_or(0, Ranks::memory_bytes);
        self.permit.resize_over(keys + values + ranks + made as u64);
    }

    /// Lets go of nodes that are resolved as a whole.
    fn pass_nodes(&mut self, to: Lsn) {
        while let Some(chunk) = self.node.chunk()
            && chunk.last().is_none_or(|last| last <= to)
        {
            let next = Arc::clone(self.node.next());
            self.node = next;
        }
    }

    /// Nothing before `lsn` exists for those who see it. Others may still read what came before,
    /// so marks that belong to files which a flush is writing stay.
    fn cut(&mut self, lsn: Lsn) {
        *self.keys.write() = KeyTable::default();
        self.values.iter_mut().for_each(ValueTable::clear);
        self.keep_ranks(|_| false);
        self.runs.clear();
        self.cut = lsn;
        self.advance(lsn);
        self.pass_nodes(lsn);
        if let Some(unkeyed) = &mut self.unkeyed {
            unkeyed.begins(Arc::clone(&self.node));
        }
    }

    /// The keys of partitions that are gone do not exist behind `lsn`, nor what their rows have of
    /// unique values; their marks stay, as in [`Self::cut`].
    fn divide(&mut self, lsn: Lsn, division: &Division) {
        if let Some(lost) = division.lost() {
            // A row of the delta that lives is the last one of its key.
            let mut gone = HashSet::new();
            self.keys.write().forget(|key, version| {
                let is_gone = lost.has(key);
                gone.extend(is_gone.then_some(version.row));
                is_gone
            });
            self.values.iter_mut().for_each(|index| index.forget(&gone));
            self.keep_ranks(|row| !gone.contains(&row));
        }
        self.runs.lose(division.tablets());
        // Files at the same place follow. To do this once more changes nothing.
        self.advance(Lsn(lsn.get() - 1));
    }

    /// What says in which bucket a row is, if there are several.
    fn divides(&self) -> Option<&Distribution> {
        self.runs.has_several_buckets.then_some(&self.distribution)
    }

    /// Resolves the rows of some entries.
    async fn rows(
        &mut self,
        chunk: &Chunk,
        entries: Range<usize>,
        wait_mode: WaitMode,
    ) -> Result<()> {
        let EntryRows { lsns, is_removal, first, batches } = chunk.rows_of(entries)?;
        let mut from = 0;
        for (schema, batch) in batches {
            let to = from + batch.num_rows();
            let rows = Rows {
                lsns: &lsns[from..to],
                is_removal: &is_removal[from..to],
                first: first + from as u64,
                keyed: KeyedRows::of_batch(&batch, &is_removal[from..to], &schema, self.divides()),
                values: self.values.iter().map(|index| index.of_batch(&batch, &schema)).collect(),
                ranks: self.ranks_of(&batch, &schema),
                signs: self.signs_of(&batch, &schema),
            };
            match self.ranks.is_some() {
                true => self.ranked_rows(rows, wait_mode).await?,
                false => self.versions(rows, wait_mode).await?,
            }
            from = to;
            self.pass_rows(first + to as u64);
        }
        assert_eq!(from, lsns.len(), "the rows of entries are the rows that are resolved");
        Ok(())
    }

    /// The last version of each key in the delta, in the order of keys.
    fn last_versions(&self, keyed: &KeyedRows) -> Vec<Option<Version>> {
        self.keys.read().find_all(keyed.groups().map(|group| keyed.key(group[0])))
    }

    /// Marks what these rows replace: earlier versions in the delta, in files, and among them.
    async fn versions(&mut self, rows: Rows<'_>, wait_mode: WaitMode) -> Result<()> {
        let keyed = &rows.keyed;
        let (mut wanted, mut died) = (Vec::new(), Vec::new());
        let keeps_removals = keyed.len() <= REMOVALS_KEPT;
        let mut lasts = Vec::new();
        for (group, version) in keyed.groups().zip(self.last_versions(keyed)) {
            let (first, lsn) = (group[0], rows.lsn(group[0]));
            let is_row = |at: &u32| !rows.is_removal(*at);
            if version.is_some() || keeps_removals || group.iter().any(is_row) {
                lasts.push(group[group.len() - 1]);
            }
            match version {
                Some(Version { is_removal: true, .. }) => {}
                Some(Version { row, .. }) => died.push(DeltaMark { row, lsn }),
                None => wanted.push(keyed.wanted(first, lsn)),
            }
            // What only removes its key never lives.
            let pairs = group.windows(2).filter(|pair| !rows.is_removal(pair[0]));
            died.extend(
                pairs.map(|pair| DeltaMark { row: rows.number(pair[0]), lsn: rows.lsn(pair[1]) }),
            );
        }
        let (found, _) = self.runs.look_up(wanted, 0..self.runs.len(), wait_mode).await?;
        // From here on nothing fails.
        self.runs.marks(found).into_iter().for_each(RunMarks::make);
        died.iter().for_each(|mark| self.marks.mark(*mark));
        self.made.extend(died);
        for some in lasts.chunks(KEYS_AT_ONCE) {
            let versions = some.iter().map(|&last| {
                let version = Version { row: rows.number(last), is_removal: rows.is_removal(last) };
                (keyed.key(last), version)
            });
            self.keys.write().enter_all(versions);
        }
        for (index, values) in self.values.iter_mut().zip(&rows.values) {
            let is_row = |at: u32| !rows.is_removal(at);
            index.enter(values, rows.first, is_row);
        }
        if let Some(last) = rows.lsns.last() {
            self.advance(*last);
        }
        Ok(())
    }
}
