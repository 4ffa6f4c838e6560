//! Large loads: their rows are in sorted files, and their keys are taken from there.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::task::yield_core;

use super::runs::{RunMarks, Wanted};
use super::{State, Version};
use crate::delta::DeltaMark;
use crate::error::Result;
use crate::marks::Mark;
use crate::rowset::Rowset;
use crate::segment::WaitMode;

/// What a large load replaces.
#[derive(Default)]
struct Found {
    marks: Vec<RunMarks>,
    died: Vec<DeltaMark>,
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
        // An earlier attempt may have been given up.
        self.runs.forget_from(lsn);
        let before = self.runs.len();
        rowsets.iter().for_each(|rowset| self.runs.add(rowset));
        let found = self.load_versions(lsn, before, wait_mode).await?;
        // From here on nothing fails.
        found.marks.into_iter().for_each(RunMarks::make);
        found.died.iter().for_each(|mark| self.marks.mark(*mark));
        self.made.extend(found.died);
        found.gone.iter().for_each(|key| self.keys.remove(key));
        self.advance(lsn);
        Ok(())
    }

    /// What the rows of the runs from `before` on replace.
    async fn load_versions(
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
                let bucket = self.runs.run(at).bucket();
                // Of equal keys in a segment the last row is the newest.
                let others = keys.iter().flat_map(|(_, rows)| rows.start..rows.end - 1);
                own.extend(others.map(|row| Mark { row, lsn }));
                let wanted = keys.iter().map(|(key, _)| Wanted { key, bucket, lsn }).collect();
                let (marks, left) = self.runs.look_up(wanted, before..at, wait_mode).await?;
                found.marks.extend(marks);
                let mut wanted = Vec::new();
                for left in left {
                    let Some(Version { row, is_removal }) = self.keys.find(left.key) else {
                        wanted.push(left);
                        continue;
                    };
                    found.died.extend((!is_removal).then_some(DeltaMark { row, lsn }));
                    found.gone.push(left.key.to_vec());
                }
                let (marks, _) = self.runs.look_up(wanted, 0..before, wait_mode).await?;
                found.marks.extend(marks);
                yield_core();
            }
            found.marks.push(RunMarks::new(self.runs.run(at), own));
        }
        Ok(found)
    }
}
