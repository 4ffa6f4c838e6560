//! The latch: whoever holds it finds rows by key at the end of the log, appends, and marks what its
//! rows have replaced; nobody else marks or moves rows meanwhile (keys.md K3, K9).

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::lock::Held;
use freshet_schema::row::RowCells;
use freshet_schema::{TableSchema, encode};

use super::many::PIECE_KEYS;
use super::{KEYS_AT_ONCE, KeyedRows, REMOVALS_KEPT, Resolver, RunFile, State, Values, Version};
use crate::delta::{DeltaMark, adapted};
use crate::error::Result;
use crate::marks::{Mark, SegmentMarks};
use crate::rowset::Rowset;
use crate::segment::WaitMode;
use crate::segment::key_part::StoredRow;

/// How often who wants the latch looks whether it is free, before it sleeps.
const LOOKS: usize = 50;
/// What it waits between two looks: some tenths of a microsecond.
const SPINS: usize = 8;

/// Rows stored in a file that are read at once.
const ROWS_AT_ONCE: usize = 1024;

/// Where the living row of a key is.
#[derive(Clone)]
pub enum Place {
    /// A row of the delta, by its number.
    Delta(u64),
    /// A row of a segment.
    File {
        file: Arc<RunFile>,
        row: u32,
        /// Where it is stored as it was encoded.
        stored: Option<StoredRow>,
    },
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Delta(a), Self::Delta(b)) => a == b,
            (Self::File { file: a, row: i, .. }, Self::File { file: b, row: k, .. }) => {
                Arc::ptr_eq(&a.segment, &b.segment) && i == k
            }
            _ => false,
        }
    }
}

impl Place {
    /// What it has in common with equal places, and with no other.
    pub fn id(&self) -> (usize, u64) {
        match self {
            Self::Delta(row) => (0, *row),
            Self::File { file, row, .. } => (Arc::as_ptr(&file.segment).addr(), u64::from(*row)),
        }
    }

    /// Whether it only says that its key is removed, in files that are not in the log yet.
    pub fn is_removed(&self) -> bool {
        matches!(self, Self::File { file, .. } if file.segment.meta().removes)
    }
}

/// What the files of a large load meet.
pub enum Met {
    /// A key that exists, or that two rows of the load have, and the LSN up to which that is so.
    Existing(Vec<u8>, Lsn),
    /// Keys of which others hold some.
    Held(KeyedRows),
    /// A unique key that is younger than the files.
    Unindexed,
}

/// The right to append rows to a keyed table after looking at those that it has. All marks up to
/// the end of the log are made.
pub struct Latch {
    pub(super) state: Held<State>,
}

impl Resolver {
    /// Takes the latch, once all that is in the log is resolved.
    ///
    /// # Errors
    /// Those of [`Self::resolve_to`].
    pub async fn latch(&self) -> Result<Latch> {
        let mut state = match self.soon() {
            Some(state) => state,
            None => self.state.lock().await,
        };
        let end = state.delta.last();
        state.resolve(end, WaitMode::Awaiting).await?;
        Ok(Latch { state })
    }

    /// The state, if it is free at once or within microseconds. Most who hold it do so for some of
    /// these, on another thread: who sleeps meanwhile is woken long after it is free, and while it
    /// is free and many sleep, nobody works.
    fn soon(&self) -> Option<Held<State>> {
        for _ in 0..LOOKS {
            if let Some(state) = self.state.try_lock() {
                return Some(state);
            }
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
        }
        None
    }
}

impl Latch {
    /// The end of the table's log, up to which rows are found.
    pub fn end(&self) -> Lsn {
        self.state.resolved
    }

    /// The living row of each key, by the index of a row with that key; rows with a key that an
    /// earlier one has get that one's place.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment's keys.
    pub async fn find(&mut self, rows: &KeyedRows) -> Result<Vec<Option<Place>>> {
        let state = &mut *self.state;
        let mut places = vec![None; rows.len() as usize];
        let firsts = rows.groups().map(|group| group[0]).collect::<Vec<_>>();
        match firsts.len() > PIECE_KEYS as usize {
            true => state.locate_many(rows, &firsts, &mut places).await?,
            false => state.locate(rows, &firsts, &mut places).await?,
        }
        if rows.are_distinct() {
            return Ok(places);
        }
        for group in rows.groups() {
            let (first, others) = group.split_first().expect("a key has a row");
            others.iter().for_each(|&at| places[at as usize] = places[*first as usize].clone());
        }
        Ok(places)
    }

    /// The rows at these places, each encoded with the columns of `schema`; `None` for those that
    /// a TRUNCATE has removed from memory since they were found.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment.
    pub async fn read(
        &self,
        places: &[&Place],
        schema: &Arc<TableSchema>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut rows = vec![None; places.len()];
        let (mut in_delta, mut in_files, mut stored_rows) = (Vec::new(), Vec::new(), Vec::new());
        for (at, place) in places.iter().enumerate() {
            match place {
                Place::Delta(row) => in_delta.push((*row, at)),
                Place::File { file, stored: Some(stored), .. } => {
                    stored_rows.push((&file.segment, *stored, at));
                }
                Place::File { file, row, .. } => in_files.push((&file.segment, *row, at)),
            }
        }
        in_delta.sort_unstable();
        let numbers = in_delta.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        let read = self.state.delta.encoded_rows(&numbers, schema);
        in_delta.into_iter().zip(read).for_each(|((_, at), row)| rows[at] = row);
        stored_rows.sort_by_key(|(segment, ..)| Arc::as_ptr(segment));
        for of_file in stored_rows.chunk_by(|a, b| Arc::ptr_eq(a.0, b.0)) {
            for some in of_file.chunks(ROWS_AT_ONCE) {
                let segment = some[0].0;
                let stored = some.iter().map(|(_, stored, _)| *stored).collect::<Vec<_>>();
                let read = segment.stored_rows(&stored, WaitMode::Awaiting).await?;
                for ((_, _, at), row) in some.iter().zip(read) {
                    rows[*at] = Some(adapted(&row, segment.schema(), schema));
                }
            }
        }
        in_files.sort_by_key(|(segment, row, _)| (Arc::as_ptr(segment), *row));
        for of_file in in_files.chunk_by(|a, b| Arc::ptr_eq(a.0, b.0)) {
            let numbers = of_file.iter().map(|(_, row, _)| *row).collect::<Vec<_>>();
            let mut encoded = Vec::new();
            for batch in of_file[0].0.rows(schema, &numbers, WaitMode::Awaiting).await? {
                encode(&batch, schema, &mut encoded);
            }
            let (cells, mut rest) = (RowCells::new(schema), encoded.as_slice());
            for (_, _, at) in of_file {
                let (row, behind) = rest.split_at(cells.row_bytes(rest));
                rows[*at] = Some(row.to_vec());
                rest = behind;
            }
            assert!(rest.is_empty(), "the rows that are asked for are read");
        }
        Ok(rows)
    }

    /// The LSN of a row of the delta; `None` for a row in files, which is durable, and for one that
    /// a TRUNCATE has removed, which is durable.
    pub fn lsn_of(&self, place: &Place) -> Option<Lsn> {
        match place {
            Place::Delta(row) => self.state.delta.lsn_of_row(*row),
            Place::File { .. } => None,
        }
    }

    /// What the rows in files of a large load meet first: keys that exist, where it `refuses`
    /// these, and keys that others hold.
    ///
    /// # Errors
    /// Those of [`Self::find`].
    pub async fn meets(
        &mut self,
        rowsets: &[Arc<Rowset>],
        refuses: bool,
        is_held: impl Fn(&KeyedRows) -> bool,
    ) -> Result<Option<Met>> {
        let state = &mut *self.state;
        let before = state.runs.len();
        rowsets.iter().for_each(|rowset| state.runs.add(rowset));
        let met = state.meets(before, refuses, is_held).await;
        state.runs.truncate(before);
        met
    }

    /// Marks what a record has replaced that was appended at `lsn` under this latch: its rows are
    /// the last ones of the delta, the first `removals` of them only remove their key, and each key
    /// is there once. `places` are those of the same keys, found under this latch; they do not
    /// exist any more behind a TRUNCATE at `cut`. `values` are those of the unique indexes. What
    /// partitions have lost since is dead as well, and may be marked once more.
    pub fn appended(
        mut self,
        lsn: Lsn,
        (rows, values): (&KeyedRows, &Values),
        removals: u32,
        places: &[Option<Place>],
        cut: Lsn,
    ) {
        let state = &mut *self.state;
        assert!(state.resolved < lsn, "what is marked was appended after the look-up");
        assert_eq!(places.len(), rows.len() as usize, "each key was looked up");
        assert_eq!(values.all().len(), state.values.len(), "a record is of all unique keys");
        let delta = Arc::clone(&state.delta);
        if cut > state.resolved {
            state.cut(cut);
        }
        for (at, division) in delta.divisions(&state.node, state.resolved) {
            state.divide(at, &division);
        }
        delta.make_known(&state.node, &mut state.marks);
        if cut <= state.resolved {
            state.kill_all(places.iter().flatten(), lsn);
        }
        let first = delta.end_row() - u64::from(rows.len());
        let in_delta = |at: u32| matches!(places[at as usize], Some(Place::Delta(_)));
        let groups = rows.groups().inspect(|group| {
            assert_eq!(group.len(), 1, "a record has each key once");
        });
        let is_kept = |&at: &u32| at >= removals || removals <= REMOVALS_KEPT || in_delta(at);
        let entered = groups.map(|group| group[0]).filter(is_kept);
        let entered = entered.collect::<Vec<_>>();
        for some in entered.chunks(KEYS_AT_ONCE) {
            let versions = some.iter().map(|&at| {
                let version = Version { row: first + u64::from(at), is_removal: at < removals };
                (rows.key(at), version)
            });
            state.keys.write().enter_all(versions);
        }
        for (index, values) in state.values.iter_mut().zip(values.all()) {
            index.enter(values, first, |at| at >= removals);
        }
        state.pass_nodes(lsn);
        state.pass_rows(first + u64::from(rows.len()));
        state.advance(lsn);
    }
}

impl State {
    /// Kills many rows: those of one file are marked together.
    fn kill_all<'p>(&mut self, places: impl Iterator<Item = &'p Place>, lsn: Lsn) {
        let mut of_files = Vec::<(&Arc<SegmentMarks>, Vec<Mark>)>::new();
        let (mut known, mut last) = (HashMap::new(), 0);
        for place in places {
            let Place::File { file, row, .. } = place else {
                self.kill(place, lsn);
                continue;
            };
            let marks = &file.marks;
            // Keys that follow each other are often in one file.
            if !of_files.get(last).is_some_and(|(of, _)| Arc::ptr_eq(of, marks)) {
                last = *known.entry(Arc::as_ptr(marks)).or_insert(of_files.len());
                if last == of_files.len() {
                    of_files.push((marks, Vec::new()));
                }
            }
            of_files[last].1.push(Mark { row: *row, lsn });
        }
        of_files.iter().for_each(|(marks, of_file)| marks.push(of_file));
    }

    pub(super) fn kill(&mut self, place: &Place, lsn: Lsn) {
        match place {
            Place::Delta(row) => {
                let mark = DeltaMark { row: *row, lsn };
                self.marks.mark(mark);
                self.made.push(mark);
            }
            Place::File { file, row, .. } => file.marks.push(&[Mark { row: *row, lsn }]),
        }
    }
}
