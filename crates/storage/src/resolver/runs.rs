//! Sorted runs: the segments of a table that are searched by key (keys.md K16).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use freshet_base::budget::Budget;
use freshet_base::task::PoolRef;
use freshet_base::{ColumnId, Lsn, TabletId};
use freshet_schema::TableSchema;
use freshet_schema::hash::Place;

use super::KEYS_AT_ONCE;
use crate::error::{Error, Result};
use crate::marks::{Mark, SegmentMarks};
use crate::rowset::Rowset;
use crate::segment::key_part::{KeyPart, StoredRow};
use crate::segment::{Segment, WaitMode, at_once};
use crate::tablet::TabletFiles;

/// A segment that is searched by key.
pub struct Run {
    /// The bucket of its rows; `None` if its tablet is not known yet.
    bucket: Option<Bucket>,
    tablet: TabletId,
    /// The last LSN of its rowset.
    last: Lsn,
    file: Arc<RunFile>,
    opened: Opened,
}

/// The file of a run: who has found a row in it shares this.
pub struct RunFile {
    pub segment: Arc<Segment>,
    pub marks: Arc<SegmentMarks>,
}

/// The parts of a run's file that were needed so far.
#[derive(Default)]
struct Opened {
    keys: Option<Arc<KeyPart>>,
    /// By the columns of the index.
    indexes: Vec<(Vec<ColumnId>, KeyPart)>,
}

/// A bucket, and how many its partition has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    at: u32,
    of: u32,
}

/// What is known of the place of a row.
#[derive(Clone, Copy, Debug)]
pub enum RowPlace {
    /// That by which it is in a bucket.
    Row(Place),
    /// Its bucket, of a partition that is not known.
    Bucket(Bucket),
}

impl Bucket {
    /// Those of the tablets of a view.
    fn of_tablets(tablets: &[TabletFiles]) -> HashMap<TabletId, Self> {
        let of_partition = tablets.chunk_by(|a, b| a.partition == b.partition);
        let numbered = of_partition.flat_map(|tablets| {
            let of = tablets.len() as u32;
            tablets.iter().zip(0..).map(move |(tablet, at)| (tablet.id, Self { at, of }))
        });
        numbered.collect()
    }

    /// Whether it may have a row.
    fn may_have(self, place: RowPlace) -> bool {
        match place {
            RowPlace::Row(place) => place.bucket(self.of) == self.at,
            // Where partitions have as many buckets, rows of one key are in the same.
            RowPlace::Bucket(other) => other.of != self.of || other.at == self.at,
        }
    }
}

/// A key to look up.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Which of those that are asked for.
    pub at: u32,
    pub key: &'a [u8],
    /// `None` if nothing is known.
    pub place: Option<RowPlace>,
    /// The row that is found dies here.
    pub lsn: Lsn,
}

/// A row of a run that is alive, with a key that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct RunRow {
    /// The `at` of the key.
    pub at: u32,
    /// The index of the run.
    pub run: usize,
    /// Its number in the segment.
    pub row: u32,
    /// That of the key.
    pub lsn: Lsn,
    /// Where the row is stored.
    pub stored: Option<StoredRow>,
}

/// Marks to make on the segment of a run.
pub struct RunMarks {
    segment: Arc<SegmentMarks>,
    marks: Vec<Mark>,
}

impl RunMarks {
    pub fn new(run: &Run, marks: Vec<Mark>) -> Self {
        Self { segment: Arc::clone(run.marks()), marks }
    }

    /// The rows that are marked.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.marks.iter().map(|mark| mark.row)
    }

    /// Makes them.
    pub fn make(mut self) {
        self.marks.sort_by_key(|mark| mark.lsn);
        self.segment.push(&self.marks);
    }
}

/// The sorted runs of a table; of those in one tablet, the oldest first.
pub struct Runs {
    runs: Vec<Run>,
    /// Of the tablets of the view.
    buckets: HashMap<TabletId, Bucket>,
    /// Whether a partition has more than one bucket.
    pub has_several_buckets: bool,
    /// Tablets of partitions that are gone, which a view may still have.
    lost: HashSet<TabletId>,
    /// For filters.
    memory: Budget,
    /// Whether the living row of a key may be older than dead ones.
    pub are_ranked: bool,
}

impl Runs {
    pub fn new(tablets: &[TabletFiles], memory: Budget) -> Self {
        let (runs, buckets, lost) = (Vec::new(), HashMap::new(), HashSet::new());
        let (has_several_buckets, are_ranked) = (false, false);
        let mut runs = Self { runs, buckets, has_several_buckets, lost, memory, are_ranked };
        runs.renew(tablets, Lsn::ZERO);
        runs
    }

    /// Takes over the files of a view up to `flushed`; large loads above it stay.
    pub fn renew(&mut self, tablets: &[TabletFiles], flushed: Lsn) {
        self.buckets = Bucket::of_tablets(tablets);
        self.has_several_buckets = self.buckets.values().any(|bucket| bucket.of > 1);
        self.lost.retain(|tablet| self.buckets.contains_key(tablet));
        let (mut loads, mut known) = (Vec::new(), HashMap::new());
        for run in self.runs.drain(..) {
            match run.last > flushed {
                true => loads.push(run),
                false => _ = known.insert(Arc::as_ptr(run.segment()), run.opened),
            }
        }
        for rowset in tablets.iter().flat_map(|tablet| &tablet.rowsets) {
            self.add(rowset);
        }
        for run in &mut self.runs {
            run.opened = known.remove(&Arc::as_ptr(run.segment())).unwrap_or_default();
        }
        self.runs.extend(loads);
    }

    /// Adds the newest rowset of its tablet.
    pub fn add(&mut self, rowset: &Rowset) {
        let tablet = rowset.meta().tablet;
        if self.lost.contains(&tablet) {
            return;
        }
        let bucket = self.buckets.get(&tablet).copied();
        let marks = rowset.marks().expect("the rowsets of a keyed table have marks");
        let runs = rowset.segments().iter().zip(marks).map(|(segment, marks)| {
            let (segment, marks) = (Arc::clone(segment), Arc::clone(marks));
            let (last, file) = (rowset.lsns().1, Arc::new(RunFile { segment, marks }));
            Run { bucket, tablet, last, file, opened: Opened::default() }
        });
        self.runs.extend(runs);
    }

    /// Forgets the large loads from `lsn` on.
    pub fn forget_from(&mut self, lsn: Lsn) {
        self.runs.retain(|run| run.last < lsn);
    }

    /// Forgets the files of a view up to `flushed`.
    pub fn forget_to(&mut self, flushed: Lsn) {
        self.runs.retain(|run| run.last > flushed);
    }

    /// Forgets the runs of tablets that are gone, now and when a view still has them.
    pub fn lose(&mut self, tablets: impl Iterator<Item = TabletId>) {
        self.lost.extend(tablets);
        self.runs.retain(|run| !self.lost.contains(&run.tablet));
    }

    /// Forgets the runs behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.runs.truncate(len);
    }

    /// Forgets all runs, whose rows do not exist any more.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn run(&self, at: usize) -> &Run {
        &self.runs[at]
    }

    /// The keys of a run.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn keys_of(&mut self, at: usize, wait_mode: WaitMode) -> Result<&KeyPart> {
        let run = &mut self.runs[at];
        if run.opened.keys.is_none() {
            run.opened.keys = Some(run.file.segment.look_ups(&self.memory, wait_mode).await?);
        }
        Ok(run.opened.keys.as_ref().expect("they were just opened"))
    }

    /// Whether one of some runs lacks the index by these columns, or has one of them in another
    /// form than `schema`.
    ///
    /// # Errors
    /// Those of [`Self::keys_of`].
    pub async fn lacks_index(
        &mut self,
        range: Range<usize>,
        columns: &[ColumnId],
        schema: &TableSchema,
    ) -> Result<bool> {
        for at in range {
            let is_same = self.runs[at].segment().schema().has_same(schema, columns);
            let keys = self.keys_of(at, WaitMode::Awaiting).await?;
            if !is_same || !keys.indexes().any(|of| of == columns) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The index of a run by these columns.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn index_of(
        &mut self,
        at: usize,
        columns: &[ColumnId],
        wait_mode: WaitMode,
    ) -> Result<&KeyPart> {
        let known = self.runs[at].opened.indexes.iter().position(|(of, _)| of == columns);
        let place = match known {
            Some(place) => place,
            None => {
                let index = self.keys_of(at, wait_mode).await?.index(columns, wait_mode).await?;
                let run = &mut self.runs[at];
                let mut index = index.ok_or_else(|| {
                    let what = "a segment lacks the index of a unique key";
                    Error::corruption(run.segment().path(), 0, what)
                })?;
                index.load_filter_within(&self.memory, wait_mode).await?;
                run.opened.indexes.push((columns.to_vec(), index));
                run.opened.indexes.len() - 1
            }
        };
        let (_, index) = &self.runs[at].opened.indexes[place];
        Ok(index)
    }

    /// The rows with these values of an index in a range of the runs, but for those that `is_dead`;
    /// of each value one. `wanted` is sorted by value.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn look_up_values(
        &mut self,
        columns: &[ColumnId],
        wanted: Vec<Wanted<'_>>,
        range: Range<usize>,
        is_dead: &(dyn Fn(usize, u32) -> bool + Send + Sync),
        wait_mode: WaitMode,
    ) -> Result<Vec<RunRow>> {
        let (mut open, mut all) = (wanted, Vec::new());
        // A value may be in several runs; in all but one its rows are dead.
        for at in range.rev() {
            if open.is_empty() {
                break;
            }
            let values = open.iter().map(|wanted| wanted.key).collect::<Vec<_>>();
            let index = self.index_of(at, columns, wait_mode).await?;
            let found = index.look_up_values(&values, wait_mode).await?;
            let marks = self.runs[at].marks();
            let mut is_found = vec![false; open.len()];
            for found in found {
                let lives = |row: &u32| !marks.is_dead(*row) && !is_dead(at, *row);
                let Some(row) = found.rows.into_iter().find(lives) else { continue };
                is_found[found.at] = true;
                let Wanted { at: number, lsn, .. } = open[found.at];
                all.push(RunRow { at: number, run: at, row, lsn, stored: None });
            }
            let mut is_found = is_found.into_iter();
            open.retain(|_| !is_found.next().expect("each value is found or not"));
        }
        Ok(all)
    }

    /// The marks that kill these rows.
    pub fn marks(&self, mut rows: Vec<RunRow>) -> Vec<RunMarks> {
        rows.sort_by_key(|row| row.run);
        let of_run = |rows: &[RunRow]| {
            let marks = rows.iter().map(|&RunRow { row, lsn, .. }| Mark { row, lsn });
            RunMarks::new(&self.runs[rows[0].run], marks.collect())
        };
        rows.chunk_by(|a, b| a.run == b.run).map(of_run).collect()
    }

    /// The living rows with these keys in a range of the runs, and the keys that none of them has.
    /// The newest run that has a key decides: its row may be dead, and then all older ones are,
    /// unless rows are ranked. `wanted` is sorted by key.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn look_up<'a>(
        &mut self,
        wanted: Vec<Wanted<'a>>,
        range: Range<usize>,
        wait_mode: WaitMode,
    ) -> Result<(Vec<RunRow>, Vec<Wanted<'a>>)> {
        let (mut open, mut all) = (Open::new(wanted), Vec::new());
        for at in range.rev() {
            if open.is_empty() {
                break;
            }
            let places = open.inside(self.runs[at].bucket);
            if places.is_empty() {
                continue;
            }
            self.keys_of(at, wait_mode).await?;
            let (run, are_ranked) = (self.runs[at].searched(at), self.are_ranked);
            run.look_up(&places, are_ranked, (&mut open, &mut all), wait_mode).await?;
        }
        Ok((all, open.left()))
    }

    /// All runs with their keys, to be searched while this stays as it is.
    ///
    /// # Errors
    /// Those of [`Self::keys_of`].
    pub async fn opened(&mut self, wait_mode: WaitMode) -> Result<OpenRuns> {
        for at in 0..self.runs.len() {
            self.keys_of(at, wait_mode).await?;
        }
        let runs = self.runs.iter().map(|run| OpenRun {
            bucket: run.bucket,
            keys: Arc::clone(run.opened.keys.as_ref().expect("it was just opened")),
            marks: Arc::clone(run.marks()),
        });
        Ok(OpenRuns { runs: runs.collect(), are_ranked: self.are_ranked })
    }
}

/// Runs whose keys are open, for several threads.
pub struct OpenRuns {
    runs: Vec<OpenRun>,
    are_ranked: bool,
}

struct OpenRun {
    bucket: Option<Bucket>,
    keys: Arc<KeyPart>,
    marks: Arc<SegmentMarks>,
}

impl OpenRuns {
    /// As [`Runs::look_up`] in all of them, blocking.
    ///
    /// # Errors
    /// Those of [`Runs::look_up`].
    pub fn look_up(&self, wanted: Vec<Wanted<'_>>) -> Result<Vec<RunRow>> {
        let (mut open, mut all) = (Open::new(wanted), Vec::new());
        for (at, run) in self.runs.iter().enumerate().rev() {
            if open.is_empty() {
                break;
            }
            let places = open.inside(run.bucket);
            if places.is_empty() {
                continue;
            }
            let searched = SearchedRun { at, keys: &run.keys, marks: &run.marks };
            let found = (&mut open, &mut all);
            at_once(searched.look_up(&places, self.are_ranked, found, WaitMode::Blocking))?;
        }
        Ok(all)
    }

    /// The pool with the threads for reads; `None` without any.
    pub fn pool(&self) -> Option<PoolRef> {
        self.runs.first().and_then(|run| run.keys.pool())
    }
}

/// Keys that are looked for, of which more and more are found.
struct Open<'a> {
    wanted: Vec<Wanted<'a>>,
    /// Those of them that are found. They stay until they are many: each run finds a part of the
    /// keys, and moving all others for it takes longer than passing over them.
    is_found: Vec<bool>,
    found: usize,
}

impl<'a> Open<'a> {
    fn new(wanted: Vec<Wanted<'a>>) -> Self {
        Self { is_found: vec![false; wanted.len()], wanted, found: 0 }
    }

    fn is_empty(&self) -> bool {
        self.found == self.wanted.len()
    }

    /// Which of those that are not found may be in a run of this bucket, by their places.
    fn inside(&self, bucket: Option<Bucket>) -> Vec<usize> {
        let is_inside = |wanted: &Wanted<'_>| match (bucket, wanted.place) {
            (Some(bucket), Some(place)) => bucket.may_have(place),
            _ => true,
        };
        let is_open = |&place: &usize| !self.is_found[place] && is_inside(&self.wanted[place]);
        (0..self.wanted.len()).filter(is_open).collect()
    }

    /// The key at this place is found.
    fn close(&mut self, place: usize) {
        assert!(!self.is_found[place], "a key is looked for until it is found");
        self.is_found[place] = true;
        self.found += 1;
    }

    /// Forgets those that are found if they are most; places are others then.
    fn tidy(&mut self) {
        if self.found * 2 > self.wanted.len() {
            let mut is_found = self.is_found.iter();
            self.wanted.retain(|_| !is_found.next().expect("each key is found or not"));
            self.is_found.clear();
            self.is_found.resize(self.wanted.len(), false);
            self.found = 0;
        }
    }

    /// Those that no run has.
    fn left(self) -> Vec<Wanted<'a>> {
        let all = self.wanted.into_iter().zip(self.is_found);
        all.filter(|(_, is_found)| !is_found).map(|(wanted, _)| wanted).collect()
    }
}

/// The keys of a run, and which of its rows are dead.
struct SearchedRun<'r> {
    /// The index of the run.
    at: usize,
    keys: &'r KeyPart,
    marks: &'r SegmentMarks,
}

impl SearchedRun<'_> {
    /// Looks for those of the `open` keys that are at these places, and adds the rows that it finds
    /// to `all`; their keys do not stay open.
    async fn look_up(
        self,
        places: &[usize],
        are_ranked: bool,
        (open, all): (&mut Open<'_>, &mut Vec<RunRow>),
        wait_mode: WaitMode,
    ) -> Result<()> {
        let keys = places.iter().map(|&place| open.wanted[place].key).collect::<Vec<_>>();
        let found = self.keys.look_up(&keys, wait_mode).await?;
        if found.is_empty() {
            return Ok(());
        }
        for some in found.chunks(KEYS_AT_ONCE) {
            let living = self.marks.living(some.iter().map(|found| found.rows.clone()));
            for (found, alive) in some.iter().zip(living) {
                let (place, last) = (places[found.at], found.rows.end - 1);
                if alive.is_some() || !are_ranked {
                    open.close(place);
                }
                let Wanted { at: number, lsn, .. } = open.wanted[place];
                all.extend(alive.map(|row| {
                    let stored = found.stored.filter(|_| row == last);
                    RunRow { at: number, run: self.at, row, lsn, stored }
                }));
            }
        }
        open.tidy();
        Ok(())
    }
}

impl Run {
    /// What a look-up needs, once its keys are open.
    fn searched(&self, at: usize) -> SearchedRun<'_> {
        let keys = self.opened.keys.as_ref().expect("the keys of a run are opened first");
        SearchedRun { at, keys, marks: self.marks() }
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.file.segment
    }

    pub fn marks(&self) -> &Arc<SegmentMarks> {
        &self.file.marks
    }

    /// Both.
    pub fn file(&self) -> &Arc<RunFile> {
        &self.file
    }

    /// Whether its rows only remove their keys. They have marks once their load is resolved.
    pub fn removes(&self) -> bool {
        self.file.segment.meta().removes
    }

    /// The last LSN of its rowset.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// What is known of the place of its rows.
    pub fn place(&self) -> Option<RowPlace> {
        self.bucket.map(RowPlace::Bucket)
    }
}
