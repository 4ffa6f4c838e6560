//! Tables with a sequence column: of the rows of a key that with the greatest rank lives, which is
//! its value in that column, and of equal ranks the last one (keys.md K30, RFC 0032).
//!
//! A row that comes too late is dead from its own LSN on. So the key table has the keys whose
//! living row is in the delta, and the newest file that has a key need not have its living row.
//!
//! A row that deletes its key lives as any other. Once it is old, a removal of its key with its
//! delete sign and rank lets it be forgotten (RFC 0047).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int8Type;
use freshet_base::task::yield_core;
use freshet_base::{ColumnId, Lsn};
use freshet_schema::TableSchema;
use freshet_schema::key::{Keys, key_alone};

use super::runs::{RunMarks, RunRow, Wanted};
use super::{KEYS_AT_ONCE, Rows, State, Version};
use crate::delta::DeltaMark;
use crate::error::Result;
use crate::marks::Mark;
use crate::rowset::Rowset;
use crate::segment::{ScanRequest, Segment, WaitMode};

const RANKED: &str = "the table has a sequence column";

/// A value of the sequence column, as bytes in their order; NULL comes first.
pub(super) type Rank = Option<Box<[u8]>>;

/// Whether a row replaces one of its key that came before it.
fn replaces(new: &Rank, before: &Rank) -> bool {
    new >= before
}

/// The ranks of the living rows of the delta.
pub(super) struct Ranks {
    by: ColumnId,
    /// NULL is left out.
    of_rows: HashMap<u64, Box<[u8]>>,
    /// The delete signs of those that have one which says how old they are: copies of stored rows.
    signs: HashMap<u64, i8>,
}

impl Ranks {
    pub fn new(by: ColumnId) -> Self {
        Self { by, of_rows: HashMap::new(), signs: HashMap::new() }
    }

    /// Keeps some rows; others are in files, or do not exist any more.
    pub fn keep(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.of_rows.retain(|row, _| is_kept(*row));
        self.of_rows.shrink_to_fit();
        self.signs.retain(|row, _| is_kept(*row));
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        // A value has at most 16 bytes and one that says that it is not NULL.
        const VALUE_BYTES: usize = 32;
        let of_rows = self.of_rows.capacity() * (size_of::<(u64, Box<[u8]>)>() + VALUE_BYTES);
        (of_rows + self.signs.capacity() * size_of::<(u64, i8)>()) as u64
    }

    fn of(&self, row: u64) -> Rank {
        self.of_rows.get(&row).cloned()
    }

    fn sign_of(&self, row: u64) -> i8 {
        self.signs.get(&row).copied().unwrap_or(0)
    }

    fn enter(&mut self, row: u64, rank: &Rank, sign: i8) {
        if let Some(rank) = rank {
            self.of_rows.insert(row, rank.clone());
        }
        if sign < 0 {
            self.signs.insert(row, sign);
        }
    }

    fn remove(&mut self, row: u64) {
        self.of_rows.remove(&row);
        self.signs.remove(&row);
    }
}

/// The ranks of the rows of a batch, which has the columns of `schema`, by the sequence column; all
/// alike where it lacks that.
fn ranks_of(batch: &RecordBatch, schema: &TableSchema, by: ColumnId) -> Vec<Rank> {
    let Some((values, nulls)) = Keys::of_index(batch, schema, &[by]) else {
        return vec![None; batch.num_rows()];
    };
    let rank = |(at, is_null): (usize, bool)| (!is_null).then(|| Box::from(values.key(at)));
    nulls.into_iter().enumerate().map(rank).collect()
}

/// The delete signs of the rows of a batch that say how old they are; 0 for all others.
fn signs_of(batch: &RecordBatch, schema: &TableSchema) -> Vec<i8> {
    let Some(sign) = schema.delete_sign() else { return vec![0; batch.num_rows()] };
    let signs = batch.column(sign).as_primitive::<Int8Type>();
    signs.values().iter().map(|sign| (*sign).min(0)).collect()
}

/// The same of rows of a segment, whose numbers ascend.
async fn signs_in(segment: &Segment, rows: &[u32], wait_mode: WaitMode) -> Result<Vec<i8>> {
    let schema = segment.schema();
    let Some(at) = schema.delete_sign() else { return Ok(vec![0; rows.len()]) };
    let request = ScanRequest { projection: vec![at], ..ScanRequest::all(schema) };
    let batches = segment.rows_of(&request, rows, wait_mode).await?;
    let signs =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int8Type>().values());
    Ok(signs.map(|sign| (*sign).min(0)).collect())
}

/// The ranks of rows of a segment, whose numbers ascend.
async fn ranks_in(
    segment: &Segment,
    by: ColumnId,
    rows: &[u32],
    wait_mode: WaitMode,
) -> Result<Vec<Rank>> {
    let schema = segment.schema();
    let Some(at) = schema.position_of(by) else { return Ok(vec![None; rows.len()]) };
    let request = ScanRequest { projection: vec![at], ..ScanRequest::all(schema) };
    let alone = key_alone(schema, &[at]);
    let batches = segment.rows_of(&request, rows, wait_mode).await?;
    Ok(batches.iter().flat_map(|batch| ranks_of(batch, &alone, by)).collect())
}

/// Where a row is that lives, or dies.
enum Standing {
    Delta(u64),
    File(RunRow),
    /// Among the rows that come, by its number there.
    New(u32),
}

/// The living row of a key.
#[derive(Default)]
struct Holder {
    standing: Option<Standing>,
    rank: Rank,
    /// Its delete sign if that says how old it is, or 0. That of a row of a file is read where a
    /// row comes that lets it be forgotten.
    sign: i8,
}

impl Holder {
    /// Lets a row come; returns the one that dies by it, which may be the new one itself.
    fn meet(&mut self, new: u32, rank: &Rank, sign: i8) -> Option<Standing> {
        if self.standing.is_some() && !replaces(rank, &self.rank) {
            return Some(Standing::New(new));
        }
        self.rank.clone_from(rank);
        self.sign = sign;
        self.standing.replace(Standing::New(new))
    }

    /// Lets the row that deletes be forgotten which has this rank and this sign; returns it. Else
    /// another one has come in its place, or it is forgotten already.
    fn forget(&mut self, rank: &Rank, sign: i8) -> Option<Standing> {
        if self.sign != sign || self.rank != *rank {
            return None;
        }
        std::mem::take(self).standing
    }
}

/// What dies.
#[derive(Default)]
struct Deaths {
    in_delta: Vec<DeltaMark>,
    in_files: Vec<RunRow>,
}

impl State {
    /// From here on rows live by their ranks.
    pub(super) fn rank_by(&mut self, by: ColumnId) {
        self.ranks.get_or_insert_with(|| Ranks::new(by));
        self.runs.are_ranked = true;
    }

    /// The ranks of the rows of a batch with these columns; none in tables without a sequence
    /// column, which is never taken away.
    pub(super) fn ranks_of(&mut self, batch: &RecordBatch, schema: &TableSchema) -> Vec<Rank> {
        if let Some(by) = schema.sequence {
            self.rank_by(by);
        }
        self.ranks.as_ref().map_or_else(Vec::new, |ranks| ranks_of(batch, schema, ranks.by))
    }

    /// The delete signs of the same rows, as far as they say how old a row is.
    pub(super) fn signs_of(&self, batch: &RecordBatch, schema: &TableSchema) -> Vec<i8> {
        self.ranks.as_ref().map_or_else(Vec::new, |_| signs_of(batch, schema))
    }

    /// Keeps the ranks of some rows of the delta.
    pub(super) fn keep_ranks(&mut self, is_kept: impl Fn(u64) -> bool) {
        if let Some(ranks) = &mut self.ranks {
            ranks.keep(is_kept);
        }
    }

    /// Marks what dies by these rows: earlier versions in the delta and in files, and those of them
    /// that come too late.
    pub(super) async fn ranked_rows(&mut self, rows: Rows<'_>, wait_mode: WaitMode) -> Result<()> {
        let groups = rows.keyed.groups().collect::<Vec<_>>();
        let mut holders = (0..rows.keyed.len()).map(|_| Holder::default()).collect::<Vec<_>>();
        let mut wanted = Vec::new();
        for (group, version) in groups.iter().zip(self.last_versions(&rows.keyed)) {
            match version {
                Some(version) => holders[group[0] as usize] = self.holder(version),
                None => wanted.push(rows.keyed.wanted(group[0], rows.lsn(group[0]))),
            }
        }
        let (found, _) = self.runs.look_up(wanted, 0..self.runs.len(), wait_mode).await?;
        self.put_holders(found, &mut holders, wait_mode).await?;
        let forgets = |group: &&[u32]| group.iter().any(|&at| rows.forgets(at));
        let asked = groups.iter().copied().filter(forgets).map(|group| group[0]);
        self.put_signs(asked, &mut holders, wait_mode).await?;
        // From here on nothing fails.
        let (mut deaths, mut living, mut gone) = (Deaths::default(), Vec::new(), Vec::new());
        for group in groups {
            let holder = &mut holders[group[0] as usize];
            for &at in group {
                let lsn = rows.lsn(at);
                let (rank, sign) = (&rows.ranks[at as usize], rows.signs[at as usize]);
                let dies = match rows.forgets(at) {
                    true => holder.forget(rank, sign),
                    false => holder.meet(at, rank, sign),
                };
                match dies {
                    None => {}
                    // What only removes its key never lives.
                    Some(Standing::New(dead)) if rows.is_removal(dead) => {}
                    Some(Standing::New(dead)) => {
                        deaths.in_delta.push(DeltaMark { row: rows.number(dead), lsn });
                    }
                    Some(Standing::Delta(row)) => deaths.in_delta.push(DeltaMark { row, lsn }),
                    Some(Standing::File(row)) => deaths.in_files.push(RunRow { lsn, ..row }),
                }
            }
            match holder.standing {
                Some(Standing::New(at)) => living.push(at),
                Some(_) => {}
                None => gone.push(group[0]),
            }
        }
        self.mark_dead(deaths);
        if !gone.is_empty() {
            let mut keys = self.keys.write();
            gone.iter().for_each(|&at| keys.remove(rows.keyed.key(at)));
        }
        for some in living.chunks(KEYS_AT_ONCE) {
            let mut keys = self.keys.write();
            for &at in some {
                let version = Version { row: rows.number(at), is_removal: rows.is_removal(at) };
                keys.enter(rows.keyed.key(at), version);
                self.ranks.as_mut().expect(RANKED).enter(
                    version.row,
                    &rows.ranks[at as usize],
                    rows.signs[at as usize],
                );
            }
        }
        if let Some(last) = rows.lsns.last() {
            self.advance(*last);
        }
        Ok(())
    }

    /// As [`Self::ranked_rows`], of the rows of a large load, whose files become the newest sorted
    /// runs. A row is marked because one of greater rank is there, so the marks of an attempt that
    /// was given up are right.
    pub(super) async fn ranked_load(
        &mut self,
        lsn: Lsn,
        rowsets: &[Arc<Rowset>],
        wait_mode: WaitMode,
    ) -> Result<()> {
        self.runs.forget_from(lsn);
        let before = self.runs.len();
        rowsets.iter().for_each(|rowset| self.runs.add(rowset));
        for at in before..self.runs.len() {
            let blocks = self.runs.keys_of(at, wait_mode).await?.blocks();
            for block in 0..blocks {
                self.ranked_block(at, block, lsn, wait_mode).await?;
                yield_core();
            }
        }
        self.advance(lsn);
        Ok(())
    }

    async fn ranked_block(
        &mut self,
        run: usize,
        block: usize,
        lsn: Lsn,
        wait_mode: WaitMode,
    ) -> Result<()> {
        let keys = self.runs.keys_of(run, wait_mode).await?;
        let keys = keys.block_keys(block, wait_mode).await?;
        let place = self.runs.run(run).place();
        let mut holders = keys.iter().map(|_| Holder::default()).collect::<Vec<_>>();
        let known = {
            let known = self.keys.read();
            keys.iter().map(|(key, _)| known.find(key)).collect::<Vec<_>>()
        };
        let mut wanted = Vec::new();
        for (at, (version, (key, _))) in (0..).zip(known.into_iter().zip(&keys)) {
            match version {
                Some(version @ Version { is_removal: false, .. }) => {
                    holders[at as usize] = self.holder(version);
                }
                _ => wanted.push(Wanted { at, key, place, lsn }),
            }
        }
        let (found, _) = self.runs.look_up(wanted, 0..run, wait_mode).await?;
        self.put_holders(found, &mut holders, wait_mode).await?;
        let (segment, marks) = {
            let run = self.runs.run(run);
            (Arc::clone(run.segment()), Arc::clone(run.marks()))
        };
        // Of a load from before the sequence column.
        let removes = segment.meta().removes;
        let is_alone =
            |at: usize| !removes && keys[at].1.len() == 1 && holders[at].standing.is_none();
        let met = (0..keys.len()).filter(|at| !is_alone(*at)).collect::<Vec<_>>();
        let rows = met.iter().flat_map(|&at| keys[at].1.clone());
        let rows = rows.filter(|row| !marks.is_dead(*row)).collect::<Vec<_>>();
        let ranks = match rows.is_empty() {
            true => Vec::new(),
            false => ranks_in(&segment, self.ranks().by, &rows, wait_mode).await?,
        };
        // From here on nothing fails.
        let ranks = rows.into_iter().zip(ranks).collect::<HashMap<_, _>>();
        let (mut deaths, mut own, mut gone) = (Deaths::default(), Vec::new(), Vec::new());
        for at in met {
            for row in keys[at].1.clone() {
                let Some(rank) = ranks.get(&row) else { continue };
                match holders[at].meet(row, rank, 0) {
                    None => {}
                    Some(Standing::New(row)) => own.push(Mark { row, lsn }),
                    Some(Standing::File(row)) => deaths.in_files.push(RunRow { lsn, ..row }),
                    Some(Standing::Delta(row)) => {
                        deaths.in_delta.push(DeltaMark { row, lsn });
                        gone.push(at);
                    }
                }
            }
            match holders[at].standing {
                Some(Standing::New(row)) if removes => own.push(Mark { row, lsn }),
                _ => {}
            }
        }
        RunMarks::new(self.runs.run(run), own).make();
        self.mark_dead(deaths);
        let mut known = self.keys.write();
        gone.iter().for_each(|&at| known.remove(&keys[at].0));
        Ok(())
    }

    /// The living row of a key whose last version in the delta this is.
    fn holder(&self, Version { row, is_removal }: Version) -> Holder {
        match is_removal {
            true => Holder::default(),
            false => {
                let (rank, sign) = (self.ranks().of(row), self.ranks().sign_of(row));
                Holder { standing: Some(Standing::Delta(row)), rank, sign }
            }
        }
    }

    /// Puts rows of files to the keys that were asked for.
    async fn put_holders(
        &self,
        mut found: Vec<RunRow>,
        holders: &mut [Holder],
        wait_mode: WaitMode,
    ) -> Result<()> {
        found.sort_unstable_by_key(|row| (row.run, row.row));
        for of_run in found.chunk_by(|a, b| a.run == b.run) {
            let rows = of_run.iter().map(|row| row.row).collect::<Vec<_>>();
            let segment = self.runs.run(of_run[0].run).segment();
            let ranks = ranks_in(segment, self.ranks().by, &rows, wait_mode).await?;
            for (row, rank) in of_run.iter().zip(ranks) {
                let standing = Some(Standing::File(*row));
                holders[row.at as usize] = Holder { standing, rank, sign: 0 };
            }
        }
        Ok(())
    }

    /// Puts their delete signs to the rows of files at these places.
    async fn put_signs(
        &self,
        asked: impl Iterator<Item = u32>,
        holders: &mut [Holder],
        wait_mode: WaitMode,
    ) -> Result<()> {
        let in_file = |at: u32| match holders[at as usize].standing {
            Some(Standing::File(row)) => Some((row, at)),
            _ => None,
        };
        let mut found = asked.filter_map(in_file).collect::<Vec<_>>();
        found.sort_unstable_by_key(|(row, _)| (row.run, row.row));
        for of_run in found.chunk_by(|a, b| a.0.run == b.0.run) {
            let rows = of_run.iter().map(|(row, _)| row.row).collect::<Vec<_>>();
            let segment = self.runs.run(of_run[0].0.run).segment();
            let signs = signs_in(segment, &rows, wait_mode).await?;
            of_run.iter().zip(signs).for_each(|((_, at), sign)| holders[*at as usize].sign = sign);
        }
        Ok(())
    }

    fn mark_dead(&mut self, Deaths { in_delta, in_files }: Deaths) {
        self.runs.marks(in_files).into_iter().for_each(RunMarks::make);
        let ranks = self.ranks.as_mut().expect(RANKED);
        for mark in &in_delta {
            self.marks.mark(*mark);
            ranks.remove(mark.row);
        }
        self.made.extend(in_delta);
    }

    fn ranks(&self) -> &Ranks {
        self.ranks.as_ref().expect(RANKED)
    }
}
