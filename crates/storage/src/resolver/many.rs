//! Where the rows of some keys are, under the latch; of many keys by several threads.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_base::task::{Lane, run_each};
use parking_lot::RwLock;

use super::runs::{OpenRuns, RunRow, Wanted};
use super::{KeyTable, KeyedRows, Place, State, Version};
use crate::error::Result;
use crate::segment::WaitMode;

/// Of many keys, those that one thread works on at once, such as to look them up in memory and then
/// in all files: what is known of so many stays in its cache meanwhile.
pub const PIECE_KEYS: u32 = if cfg!(test) { 3 } else { 1 << 14 };
/// Pieces that are worked on beside each other.
pub const PIECES_BESIDE: usize = 4;

/// Where the rows of some keys are.
struct Located {
    /// The `at` of a key with the number of its row.
    in_delta: Vec<(u32, u64)>,
    in_files: Vec<RunRow>,
}

/// What look-ups need, which stays as it is while the latch is held.
struct Searched {
    keys: Arc<RwLock<KeyTable>>,
    runs: OpenRuns,
    resolved: Lsn,
}

impl Searched {
    /// Where the rows of these keys are; blocking.
    fn locate(&self, rows: &KeyedRows, firsts: &[u32]) -> Result<Located> {
        let (in_delta, wanted) = in_delta(&self.keys, (rows, firsts), self.resolved);
        Ok(Located { in_delta, in_files: self.runs.look_up(wanted)? })
    }
}

/// The rows in memory of the keys of the rows with these indices, and the look-ups of the others.
fn in_delta<'r>(
    keys: &RwLock<KeyTable>,
    (rows, firsts): (&'r KeyedRows, &[u32]),
    lsn: Lsn,
) -> (Vec<(u32, u64)>, Vec<Wanted<'r>>) {
    let versions = keys.read().find_all(firsts.iter().map(|&at| rows.key(at)));
    let (mut in_delta, mut wanted) = (Vec::new(), Vec::new());
    for (&at, version) in firsts.iter().zip(versions) {
        match version {
            Some(Version { is_removal: true, .. }) => {}
            Some(Version { row, .. }) => in_delta.push((at, row)),
            None => wanted.push(rows.wanted(at, lsn)),
        }
    }
    (in_delta, wanted)
}

impl State {
    /// Sets the places of the rows with these indices, whose keys are different ones.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment's keys.
    pub(super) async fn locate(
        &mut self,
        rows: &KeyedRows,
        firsts: &[u32],
        places: &mut [Option<Place>],
    ) -> Result<()> {
        let (in_delta, wanted) = in_delta(&self.keys, (rows, firsts), self.resolved);
        let all = 0..self.runs.len();
        let (in_files, _) = self.runs.look_up(wanted, all, WaitMode::Awaiting).await?;
        self.put(Located { in_delta, in_files }, places);
        Ok(())
    }

    /// As [`Self::locate`], of many, on the threads for reads: these wait for nothing but the
    /// device, and so for nobody who waits for the latch.
    ///
    /// # Errors
    /// Those of [`Self::locate`].
    pub(super) async fn locate_many(
        &mut self,
        rows: &KeyedRows,
        firsts: &[u32],
        places: &mut [Option<Place>],
    ) -> Result<()> {
        let runs = self.runs.opened(WaitMode::Awaiting).await?;
        let pool = runs.pool();
        let (keys, resolved) = (Arc::clone(&self.keys), self.resolved);
        let searched = Arc::new(Searched { keys, runs, resolved });
        let Some(pool) = pool else {
            for piece in firsts.chunks(PIECE_KEYS as usize) {
                self.put(searched.locate(rows, piece)?, places);
            }
            return Ok(());
        };
        let jobs = firsts.chunks(PIECE_KEYS as usize).map(|piece| {
            let (searched, rows, piece) = (Arc::clone(&searched), rows.clone(), piece.to_vec());
            move || searched.locate(&rows, &piece)
        });
        let state = &*self;
        run_each(
            &*pool,
            (Lane::Read, PIECES_BESIDE),
            jobs,
            |located: Result<Located>| -> Result<()> {
                state.put(located?, places);
                Ok(())
            },
        )
        .await
    }

    fn put(&self, located: Located, places: &mut [Option<Place>]) {
        for (at, row) in located.in_delta {
            places[at as usize] = Some(Place::Delta(row));
        }
        for found in located.in_files {
            let file = Arc::clone(self.runs.run(found.run).file());
            let (row, stored) = (found.row, found.stored);
            places[found.at as usize] = Some(Place::File { file, row, stored });
        }
    }
}
