//! What others write between a look at stored rows and a record that was computed from them
//! (keys.md K12): the keys of a large load that have to be looked at again.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::task::yield_core;

use super::runs::Wanted;
use super::{KeyedRows, Latch, Place, State};
use crate::delta::{Chunk, EntryRows, Node, Step};
use crate::error::Result;
use crate::rowset::Rowset;
use crate::segment::WaitMode;

/// A place in the log of a table, up to which it is known what was written. The records behind it
/// stay in memory.
pub struct Watch {
    node: Arc<Node>,
    seen: Lsn,
}

/// Keys of a load that others have written.
pub type Overtaken = BTreeSet<Box<[u8]>>;

impl Latch {
    /// Watches what is written from here on.
    pub fn watch(&self) -> Watch {
        Watch { node: Arc::clone(&self.state.node), seen: self.state.resolved }
    }

    /// The last row of each key in files that are not in the log yet, by the index of a row with
    /// that key. Each key is there once.
    ///
    /// # Errors
    /// Those of [`Self::find`].
    pub async fn find_in(
        &mut self,
        own: &[Arc<Rowset>],
        rows: &KeyedRows,
    ) -> Result<Vec<Option<Place>>> {
        let state = &mut *self.state;
        let before = state.runs.len();
        own.iter().for_each(|rowset| state.runs.add(rowset));
        let wanted = rows.groups().map(|group| rows.wanted(group[0], state.resolved)).collect();
        let all = before..state.runs.len();
        let found = state.runs.look_up(wanted, all, WaitMode::Awaiting).await;
        let mut places = vec![None; rows.len() as usize];
        for found in found.iter().flat_map(|(found, _)| found) {
            let file = Arc::clone(state.runs.run(found.run).file());
            let (row, stored) = (found.row, found.stored);
            places[found.at as usize] = Some(Place::File { file, row, stored });
        }
        state.runs.truncate(before);
        found.map(|_| places)
    }

    /// The keys in files that are not in the log yet which others have written since, or removed;
    /// `None` if rows do not exist any more by a TRUNCATE or a change of partitions.
    ///
    /// # Errors
    /// Those of [`Self::find`].
    pub async fn overtaken(
        &mut self,
        watch: &mut Watch,
        own: &[Arc<Rowset>],
    ) -> Result<Option<Overtaken>> {
        let state = &mut *self.state;
        let before = state.runs.len();
        own.iter().for_each(|rowset| state.runs.add(rowset));
        let overtaken = state.overtaken(watch, before).await;
        state.runs.truncate(before);
        watch.seen = state.resolved;
        watch.node = Arc::clone(&state.node);
        overtaken
    }
}

impl State {
    /// As [`Latch::overtaken`], of the runs from `before` on.
    async fn overtaken(&mut self, watch: &Watch, before: usize) -> Result<Option<Overtaken>> {
        let (delta, to) = (Arc::clone(&self.delta), self.resolved);
        let mut all = Overtaken::new();
        if to <= watch.seen {
            return Ok(Some(all));
        }
        for chunk in delta.chunks(&watch.node) {
            for step in chunk.steps(watch.seen, to) {
                match step {
                    Step::Rows(entries) => {
                        let rows = self.keys_of_entries(&chunk, entries)?;
                        for rows in rows {
                            self.own_among(&rows, before, &mut all).await?;
                        }
                    }
                    Step::Rowsets(_, rowsets) => {
                        self.own_in_files(&rowsets, before, &mut all).await?;
                    }
                    Step::Divide(_, division) if division.lost().is_none() => {}
                    Step::Truncate(_) | Step::Divide(..) => return Ok(None),
                }
                yield_core();
            }
        }
        Ok(Some(all))
    }

    fn keys_of_entries(&self, chunk: &Chunk, entries: Range<usize>) -> Result<Vec<KeyedRows>> {
        let EntryRows { is_removal, batches, .. } = chunk.rows_of(entries)?;
        let (mut from, mut all) = (0, Vec::with_capacity(batches.len()));
        let divides = self.divides();
        for (schema, batch) in &batches {
            let to = from + batch.num_rows();
            all.push(KeyedRows::of_batch(batch, &is_removal[from..to], schema, divides));
            from = to;
        }
        Ok(all)
    }

    /// Which of these keys the runs from `before` on have.
    async fn own_among(
        &mut self,
        rows: &KeyedRows,
        before: usize,
        all: &mut Overtaken,
    ) -> Result<()> {
        let wanted = rows.groups().map(|group| rows.wanted(group[0], self.resolved)).collect();
        let own = before..self.runs.len();
        let (found, _) = self.runs.look_up(wanted, own, WaitMode::Awaiting).await?;
        all.extend(found.iter().map(|found| Box::from(rows.key(found.at))));
        Ok(())
    }

    /// The same of the keys in the files of a large load.
    async fn own_in_files(
        &mut self,
        rowsets: &[Arc<Rowset>],
        before: usize,
        all: &mut Overtaken,
    ) -> Result<()> {
        let (own, lsn) = (before..self.runs.len(), self.resolved);
        rowsets.iter().for_each(|rowset| self.runs.add(rowset));
        for at in own.end..self.runs.len() {
            let blocks = self.runs.keys_of(at, WaitMode::Awaiting).await?.blocks();
            for block in 0..blocks {
                let keys = self.runs.keys_of(at, WaitMode::Awaiting).await?;
                let keys = keys.block_keys(block, WaitMode::Awaiting).await?;
                let place = self.runs.run(at).place();
                let wanted = (0..).zip(&keys).map(|(at, (key, _))| Wanted { at, key, place, lsn });
                let look_up = self.runs.look_up(wanted.collect(), own.clone(), WaitMode::Awaiting);
                let (found, _) = look_up.await?;
                all.extend(found.iter().map(|row| Box::from(keys[row.at as usize].0.as_slice())));
            }
        }
        self.runs.truncate(own.end);
        Ok(())
    }
}
