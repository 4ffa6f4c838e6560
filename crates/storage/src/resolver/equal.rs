//! Removals in a table whose rows have no unique key: a row is named by its values (RFC 0022).
//!
//! Each removal takes away one living row with the same values that was written before it. Which
//! one of several does not matter, since nobody can tell them apart. In a table with an AGGREGATE
//! KEY a removal names a key, and takes away all rows of that key.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use freshet_base::Lsn;
use freshet_base::task::{yield_core, yield_now};
use freshet_schema::key::{KeyCodec, KeyWords, Keys, key_alone};
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, encode, history};

use super::State;
use super::latch::{Latch, Place};
use crate::delta::{Chunk, Delta, EntryRows, Node, divide};
use crate::error::Result;
use crate::segment::{ScanRequest, Segment, Share, WaitMode, at_once};

/// Rows that are added without a pause.
const ADDED_AT_ONCE: usize = 4096;

/// What the resolver of a table without a unique key knows besides.
pub(super) struct Unkeyed {
    /// The first node of the delta that is not in files.
    head: Arc<Node>,
}

impl Unkeyed {
    pub fn new(delta: &Delta) -> Self {
        Self { head: delta.head() }
    }

    /// Rows before this node are in files, or gone.
    pub fn begins(&mut self, head: Arc<Node>) {
        self.head = head;
    }
}

/// Rows that are to be found by their values, or in a table with an AGGREGATE KEY by their key.
pub struct EqualRows {
    schema: Arc<TableSchema>,
    is_combined: bool,
    codec: KeyCodec,
    /// By what a row is known, with its number here.
    ids: HashMap<Vec<u8>, u32>,
    /// The sort keys of all of them: most other rows differ in these.
    keys: HashSet<Vec<u8>>,
    /// One encoded row of each.
    rows: Vec<Vec<u8>>,
}

/// A living row that is equal to one that was asked for.
#[derive(Clone)]
pub struct Equal {
    pub place: Place,
    /// The LSN of its record, or one between that and the end of its file.
    lsn: Lsn,
}

impl EqualRows {
    /// No rows yet, of a table with these columns.
    pub fn new(schema: &Arc<TableSchema>) -> Self {
        Self {
            schema: Arc::clone(schema),
            is_combined: schema.is_combined(),
            codec: KeyCodec::of_sort_key(schema),
            ids: HashMap::new(),
            keys: HashSet::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, encoded with the columns of the schema; returns its number, which equal rows
    /// share.
    pub fn add(&mut self, row: &[u8]) -> u32 {
        let mut key = Vec::new();
        self.codec.put(row, &mut key);
        let id = if self.is_combined { key.clone() } else { row.to_vec() };
        let next = u32::try_from(self.rows.len()).expect("a statement changes few rows");
        let number = *self.ids.entry(id).or_insert(next);
        if number == next {
            self.rows.push(row.to_vec());
            self.keys.insert(key);
        }
        number
    }

    /// Whether the table has a sort key; one whose first column cannot be in it has none.
    fn is_sorted(&self) -> bool {
        !self.schema.sort_key.is_empty()
    }

    /// Adds rows; returns their numbers. It may be ended on the way.
    pub async fn add_all<'a>(&mut self, rows: impl Iterator<Item = &'a [u8]> + Send) -> Vec<u32> {
        let mut numbers = Vec::new();
        for row in rows {
            numbers.push(self.add(row));
            if numbers.len() % ADDED_AT_ONCE == 0 {
                yield_now().await;
            }
        }
        numbers
    }

    /// How many different rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row, by its number.
    pub fn row(&self, number: u32) -> &[u8] {
        &self.rows[number as usize]
    }

    /// The leading words of their sort keys, ascending, for the bounds of segments.
    fn words(&self) -> Vec<u64> {
        if !self.is_sorted() {
            return Vec::new();
        }
        let mut builder =
            freshet_schema::columns::ColumnsBuilder::new(&self.schema, self.rows.len());
        self.rows.iter().for_each(|row| builder.append(row, 1));
        let words = KeyWords::new(&builder.finish(), &self.schema);
        let mut words = (0..self.rows.len()).map(|row| words.row(row)[0]).collect::<Vec<_>>();
        words.sort_unstable();
        words
    }

    /// The rows of a batch with all columns that are equal to some, with the numbers of these.
    fn in_batch(&self, batch: &RecordBatch) -> Vec<(u32, u32)> {
        if !self.is_sorted() {
            return self.by_values(batch).into_iter().map(|(at, id)| (at as u32, id)).collect();
        }
        let keys = Keys::of_batch(batch, &self.schema);
        let candidates = self.with_keys(&keys);
        if self.is_combined || candidates.is_empty() {
            return self.by_key(&keys, candidates);
        }
        let numbers = UInt32Array::from(candidates.clone());
        let taken = take_record_batch(batch, &numbers).expect("these are rows of the batch");
        self.by_values(&taken).into_iter().map(|(at, id)| (candidates[at], id)).collect()
    }

    fn with_keys(&self, keys: &Keys) -> Vec<u32> {
        let has = |row: &u32| self.keys.contains(keys.key(*row as usize));
        (0..keys.len() as u32).filter(has).collect()
    }

    fn by_key(&self, keys: &Keys, rows: Vec<u32>) -> Vec<(u32, u32)> {
        let found = |row: u32| Some((row, *self.ids.get(keys.key(row as usize))?));
        rows.into_iter().filter_map(found).collect()
    }

    fn by_values(&self, batch: &RecordBatch) -> Vec<(usize, u32)> {
        let mut encoded = Vec::new();
        encode(batch, &self.schema, &mut encoded);
        let cells = RowCells::new(&self.schema);
        let rows = cells.rows(&encoded).enumerate();
        rows.filter_map(|(at, row)| Some((at, *self.ids.get(row)?))).collect()
    }

    /// The rows of a segment that are equal to some, with the numbers of these, dead or not. The
    /// sort key tells most others apart; where there is none, all columns are read.
    async fn in_segment(&self, segment: &Segment, wait_mode: WaitMode) -> Result<Vec<(u32, u32)>> {
        let key = self.is_sorted().then(|| key_alone(&self.schema, &self.schema.sort_key));
        let mut request = ScanRequest::all(&self.schema);
        if key.is_some() {
            request.projection.clone_from(&self.schema.sort_key);
        }
        let none = crate::marks::DeadRows::default();
        let mut scan = segment.scan_with(&request, Share::WHOLE, &none, wait_mode).await?;
        let (mut start, mut found, mut candidates) = (0, Vec::new(), Vec::new());
        while let Some(batch) = scan.next_batch().await {
            let batch = batch?;
            if let Some(key) = &key {
                let keys = Keys::of_batch(&batch, key);
                let rows = self.with_keys(&keys);
                if self.is_combined {
                    let equal = self.by_key(&keys, rows).into_iter();
                    found.extend(equal.map(|(row, id)| (start + row, id)));
                } else {
                    candidates.extend(rows.into_iter().map(|row| start + row));
                }
            } else {
                let equal = self.by_values(&batch).into_iter();
                found.extend(equal.map(|(at, id)| (start + at as u32, id)));
            }
            start += batch.num_rows() as u32;
            yield_core();
            // A statement may be ended here.
            if wait_mode == WaitMode::Awaiting {
                yield_now().await;
            }
        }
        if candidates.is_empty() {
            return Ok(found);
        }
        let mut before = 0;
        for batch in segment.rows(&self.schema, &candidates, wait_mode).await? {
            let equal = self.by_values(&batch).into_iter();
            found.extend(equal.map(|(at, id)| (candidates[before + at], id)));
            before += batch.num_rows();
        }
        Ok(found)
    }
}

impl State {
    /// Carries out the removals in these entries, in their order.
    pub(super) async fn removals(
        &mut self,
        chunk: &Chunk,
        entries: Range<usize>,
        wait_mode: WaitMode,
    ) -> Result<()> {
        let removed = chunk.removed(entries)?;
        let runs = removed.chunk_by(|a, b| a.1.version == b.1.version);
        for removed in runs.map(<[_]>::to_vec).collect::<Vec<_>>() {
            let mut rows = EqualRows::new(&removed[0].1);
            let mut wanted = Vec::new();
            for (lsn, schema, batch) in &removed {
                let mut encoded = Vec::new();
                encode(batch, schema, &mut encoded);
                let cells = RowCells::new(schema);
                wanted.extend(cells.rows(&encoded).map(|row| (*lsn, rows.add(row))));
            }
            let last = removed[removed.len() - 1].0;
            let mut found = self.find_equal(&rows, last, wait_mode).await?;
            found.iter_mut().for_each(|equal| equal.sort_by_key(|equal| equal.lsn));
            let oldest_first = found.into_iter().map(|equal| equal.into_iter().peekable());
            let mut found = oldest_first.collect::<Vec<_>>();
            // From here on nothing fails.
            for (lsn, id) in wanted {
                while let Some(equal) = found[id as usize].next_if(|equal| equal.lsn < lsn) {
                    self.kill(&equal.place, lsn);
                    if !rows.is_combined {
                        break;
                    }
                }
            }
            self.advance(last);
        }
        Ok(())
    }

    /// The rows that live at `horizon` and are equal to each of these.
    async fn find_equal(
        &mut self,
        rows: &EqualRows,
        horizon: Lsn,
        wait_mode: WaitMode,
    ) -> Result<Vec<Vec<Equal>>> {
        let mut found = vec![Vec::new(); rows.len()];
        self.equal_in_delta(rows, horizon, &mut found)?;
        let words = rows.words();
        for at in 0..self.runs.len() {
            let run = self.runs.run(at);
            let (file, lsn) = (Arc::clone(run.file()), run.last());
            let (segment, range) = (&file.segment, file.segment.meta().keys);
            let first = words.partition_point(|word| *word < range.min);
            let may_have = words.get(first).is_some_and(|word| *word <= range.max);
            // Words of other versions of the columns may be others.
            if rows.is_sorted() && !may_have && segment.schema().version == rows.schema.version {
                continue;
            }
            for (row, id) in rows.in_segment(segment, wait_mode).await? {
                if !file.marks.is_dead(row) {
                    let place = Place::File { file: Arc::clone(&file), row, stored: None };
                    found[id as usize].push(Equal { place, lsn });
                }
            }
        }
        Ok(found)
    }

    fn equal_in_delta(
        &mut self,
        rows: &EqualRows,
        horizon: Lsn,
        found: &mut [Vec<Equal>],
    ) -> Result<()> {
        let head = &self.unkeyed.as_ref().expect("a table without a unique key").head;
        let chunks = self.delta.chunks(head);
        // Rows that were lost with their partitions are none of them.
        let mut divisions = self.delta.divisions(head, Lsn::ZERO);
        divisions.retain(|(at, _)| *at <= horizon);
        divide(&chunks, &divisions);
        for chunk in chunks {
            chunk.make_known(&mut self.marks);
            let EntryRows { lsns, is_removal, first, batches } = chunk.rows_above(self.cut)?;
            let mut start = 0;
            for (schema, batch) in batches {
                let batch = history::adapt(&batch, &schema, &rows.schema);
                for (row, id) in rows.in_batch(&batch) {
                    let at = start + row as usize;
                    let (number, lsn) = (first + at as u64, lsns[at]);
                    let lives = lsn <= horizon
                        && !is_removal[at]
                        && !self.marks.is_dead_at(number, horizon);
                    if lives {
                        let place = Place::Delta(number);
                        found[id as usize].push(Equal { place, lsn });
                    }
                }
                start += batch.num_rows();
                yield_core();
            }
        }
        Ok(())
    }
}

impl Latch {
    /// The living rows at the end of the log that are equal to each of these.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment.
    pub async fn find_equal(&mut self, rows: &EqualRows) -> Result<Vec<Vec<Equal>>> {
        let end = self.end();
        self.state.find_equal(rows, end, WaitMode::Awaiting).await
    }

    /// Marks rows that were found under this latch, which a record at `lsn` has removed.
    ///
    /// # Panics
    /// When a TRUNCATE stands between the look and the record, which is refused there.
    pub fn removed(mut self, lsn: Lsn, rows: &[Equal]) {
        let state = &mut *self.state;
        // What came meanwhile has removed nothing, since that needs the latch.
        let before = at_once(state.resolve(Lsn(lsn.get() - 1), WaitMode::Blocking));
        before.expect("loads of a table without a unique key are not looked up");
        rows.iter().for_each(|equal| state.kill(&equal.place, lsn));
        state.pass_nodes(lsn);
        state.advance(lsn);
    }
}
