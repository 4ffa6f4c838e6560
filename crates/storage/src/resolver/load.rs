//! Large loads: their rows are in sorted files, and their keys are taken from there.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::task::yield_core;

use super::runs::{RunMarks, RunRow, Wanted};
use super::{KEYS_AT_ONCE, KeyedRows, Met, State, Version};
use crate::delta::DeltaMark;
use crate::error::Result;
use crate::marks::Mark;
use crate::rowset::Rowset;
use crate::segment::WaitMode;

/// What a large load replaces.
#[derive(Default)]
pub(super) struct Found {
    /// Of each of its runs, the rows that later ones of the same run replace.
    pub marks: Vec<RunMarks>,
    pub rows: Vec<RunRow>,
    pub died: Vec<DeltaMark>,
    /// Keys whose last version in the delta is replaced.
    gone: Vec<Vec<u8>>,
}

impl State {
    /// Marks what the rows of a large load replace: in the delta, in older files, and in the load.
    /// Its files become the newest sorted runs.
    pub(super) async fn load(
        &mut self,
        lsn: Lsn,
        rowsets: &[Arc<Rowset>],
        wait_mode: WaitMode,
    ) -> Result<()> {
        // Its files may be the first with a sequence column.
        let by = rowsets.iter().find_map(|rowset| rowset.schema().sequence);
        by.into_iter().for_each(|by| self.rank_by(by));
        if self.ranks.is_some() {
            return self.ranked_load(lsn, rowsets, wait_mode).await;
        }
        // An earlier attempt may have been given up.
        self.runs.forget_from(lsn);
        let before = self.runs.len();
        rowsets.iter().for_each(|rowset| self.runs.add(rowset));
        let mut found = self.load_versions(lsn, before, wait_mode).await?;
        // From here on nothing fails.
        found.marks.extend(self.runs.marks(found.rows));
        found.marks.into_iter().for_each(RunMarks::make);
        found.died.iter().for_each(|mark| self.marks.mark(*mark));
        self.made.extend(found.died);
        for some in found.gone.chunks(KEYS_AT_ONCE) {
            let mut keys = self.keys.write();
            some.iter().for_each(|key| keys.remove(key));
        }
        self.advance(lsn);
        Ok(())
    }

    /// What the rows of the runs from `before` on meet first.
    pub(super) async fn meets(
        &mut self,
        before: usize,
        refuses: bool,
        is_held: impl Fn(&KeyedRows) -> bool,
    ) -> Result<Option<Met>> {
        let (lsn, wait_mode) = (self.resolved, WaitMode::Awaiting);
        for at in before..self.runs.len() {
            let blocks = self.runs.keys_of(at, wait_mode).await?.blocks();
            for block in 0..blocks {
                let keys = self.runs.keys_of(at, wait_mode).await?;
                let keys = keys.block_keys(block, wait_mode).await?;
                let rows = KeyedRows::of_keys(keys.iter().map(|(key, _)| key.as_slice()));
                if is_held(&rows) {
                    return Ok(Some(Met::Held(rows)));
                }
                if !refuses {
                    continue;
                }
                if let Some((key, _)) = keys.iter().find(|(_, rows)| rows.len() > 1) {
                    return Ok(Some(Met::Existing(key.clone(), Lsn::ZERO)));
                }
                let place = self.runs.run(at).place();
                let mut wanted = Vec::new();
                for ((key, _), number) in keys.iter().zip(0..) {
                    match self.keys.read().find(key) {
                        None => wanted.push(Wanted { at: number, key, place, lsn }),
                        Some(Version { is_removal: true, .. }) => {}
                        Some(_) => return Ok(Some(Met::Existing(key.clone(), lsn))),
                    }
                }
                // A key that was removed may still be there twice in the load.
                let own = keys.iter().zip(0..).map(|((key, _), at)| Wanted { at, key, place, lsn });
                let (twice, _) = self.runs.look_up(own.collect(), before..at, wait_mode).await?;
                let (found, _) = self.runs.look_up(wanted, 0..before, wait_mode).await?;
                if let Some(row) = twice.first().or(found.first()) {
                    return Ok(Some(Met::Existing(keys[row.at as usize].0.clone(), lsn)));
                }
                yield_core();
            }
        }
        Ok(None)
    }

    /// What the rows of the runs from `before` on replace.
    pub(super) async fn load_versions(
        &mut self,
        lsn: Lsn,
        before: usize,
        wait_mode: WaitMode,
    ) -> Result<Found> {
        let mut found = Found::default();
        for at in before..self.runs.len() {
            let blocks = self.runs.keys_of(at, wait_mode).await?.blocks();
            let mut own = Vec::new();
            for block in 0..blocks {
                let keys = self.runs.keys_of(at, wait_mode).await?;
                let keys = keys.block_keys(block, wait_mode).await?;
                let place = self.runs.run(at).place();
                // Of equal keys in a segment the last row is the newest. What only removes its key
                // never lives.
                let last = u32::from(!self.runs.run(at).removes());
                let others = keys.iter().flat_map(|(_, rows)| rows.start..rows.end - last);
                own.extend(others.map(|row| Mark { row, lsn }));
                let wanted = (0..).zip(&keys).map(|(at, (key, _))| Wanted { at, key, place, lsn });
                let look_up = self.runs.look_up(wanted.collect(), before..at, wait_mode);
                let (rows, left) = look_up.await?;
                found.rows.extend(rows.into_iter().filter(|row| !self.runs.run(row.run).removes()));
                let mut wanted = Vec::new();
                for left in left {
                    let known = self.keys.read().find(left.key);
                    let Some(Version { row, is_removal }) = known else {
                        wanted.push(left);
                        continue;
                    };
                    found.died.extend((!is_removal).then_some(DeltaMark { row, lsn }));
                    found.gone.push(left.key.to_vec());
                }
                let (rows, _) = self.runs.look_up(wanted, 0..before, wait_mode).await?;
                found.rows.extend(rows);
                yield_core();
            }
            found.marks.push(RunMarks::new(self.runs.run(at), own));
        }
        Ok(found)
    }
}
