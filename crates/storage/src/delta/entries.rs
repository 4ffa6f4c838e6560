//! Extracts the rows of a delta by record, for side files.

use std::collections::HashSet;
use std::sync::Arc;

use freshet_base::{Lsn, TxnId};
use freshet_meta::disk;
use freshet_schema::encode;

use super::node::{Chunk, Event};
use super::read::{count, divide, is_lost};
use crate::division::Division;
use crate::error::Result;
use crate::side::{SideBody, SideEntry};
use crate::view::TableView;

impl TableView {
    /// Calls `put` with the unflushed records up to `up_to`, in the format of a side file; at most
    /// one chunk at a time is in memory twice. Returns the number of versions created by records
    /// above `up_to`. `chunks` must be all chunks of the delta from the view's head on. Encoding
    /// takes a while but needs no lock.
    ///
    /// # Errors
    /// Those of `put`, and [`crate::Error::Internal`] when columns do not match their schema.
    pub fn side_rows(
        &self,
        chunks: &[Arc<Chunk>],
        up_to: Lsn,
        mut put: impl FnMut(SideEntry) -> Result<()>,
    ) -> Result<u64> {
        let ended = chunks.iter().flat_map(|chunk| &chunk.events).filter(|(at, _)| *at <= up_to);
        let ended = ended.filter_map(|(_, event)| match event {
            Event::GroupEnd(txn) => Some(*txn),
            _ => None,
        });
        let ended = ended.collect::<HashSet<_>>();
        let divisions = self.delta.divisions(&self.head, self.flushed);
        let divisions = divisions.into_iter().filter(|(at, _)| *at <= up_to).collect::<Vec<_>>();
        divide(chunks, &divisions);
        for chunk in chunks {
            let mut entries = Vec::new();
            self.chunk_entries(chunk, up_to, &ended, &mut entries)?;
            self.large_loads(chunk, up_to, &divisions, &mut entries);
            entries.sort_by_key(|entry: &SideEntry| entry.lsn);
            entries.into_iter().try_for_each(&mut put)?;
        }
        Ok(chunks.iter().map(|chunk| versions_after(chunk, up_to)).sum())
    }

    /// The large loads of a chunk: each is a group of its own with its rows in files.
    fn large_loads(
        &self,
        chunk: &Chunk,
        to: Lsn,
        divisions: &[(Lsn, Arc<Division>)],
        out: &mut Vec<SideEntry>,
    ) {
        for (lsn, event) in chunk.events.iter().filter(|(lsn, _)| *lsn > self.flushed && *lsn <= to)
        {
            let Event::Rowsets(rowsets) = event else { continue };
            let rowsets = rowsets.iter().filter(|rowset| !is_lost(divisions, *lsn, rowset));
            let Some(first) = rowsets.clone().next() else { continue };
            let metas = rowsets.map(|rowset| rowset.meta().clone()).collect::<Vec<_>>();
            out.push(SideEntry {
                table: self.table.id,
                lsn: *lsn,
                txn: TxnId(0),
                open: false,
                schema_version: first.schema().version,
                rows: 0,
                removals: 0,
                body: SideBody::Rowsets(disk::encode(&metas)),
            });
        }
    }

    fn chunk_entries(
        &self,
        chunk: &Arc<Chunk>,
        to: Lsn,
        ended: &HashSet<TxnId>,
        out: &mut Vec<SideEntry>,
    ) -> Result<()> {
        for (index, entry) in chunk.entries.iter().enumerate() {
            if entry.lsn <= self.flushed || entry.lsn > to {
                continue;
            }
            let first = chunk.rows_before(index) as usize;
            let removals = first..first + entry.removals as usize;
            // What was lost with its partition is not made up for by anything in the log.
            let removals = count(&chunk.marks.uncut(removals, to));
            let rows = chunk.marks.uncut(first..entry.rows_end as usize, to);
            let mut batches = Vec::new();
            chunk.columns().select(&rows, &mut batches)?;
            let taken = batches.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
            assert_eq!(taken, count(&rows), "rows in memory are rows in the side file");
            let schema = &chunk.schemas[usize::from(entry.schema)];
            let mut bytes = Vec::new();
            for (_, batch) in &batches {
                encode(batch, schema, &mut bytes);
            }
            out.push(SideEntry {
                table: self.table.id,
                lsn: entry.lsn,
                txn: entry.txn,
                open: !entry.ends_group && !ended.contains(&entry.txn),
                schema_version: schema.version,
                rows: u32::try_from(taken).expect("a record has few rows"),
                removals: u32::try_from(removals).expect("a record has few rows"),
                body: SideBody::Rows(bytes),
            });
        }
        Ok(())
    }
}

/// The number of versions created above `lsn`: one by the end of each group, each load with a group
/// of its own, and each large load.
fn versions_after(chunk: &Chunk, lsn: Lsn) -> u64 {
    let loads = chunk.entries.iter().filter(|entry| entry.lsn > lsn && entry.ends_group);
    let is_divided = |lsn: &Lsn| {
        let mut events = chunk.events.iter();
        events.any(|(at, event)| at == lsn && matches!(event, Event::Divide(_)))
    };
    let gives_version = |at: &Lsn, event: &Event| match event {
        Event::GroupEnd(_) => true,
        // Files that come with a change of partitions make no version.
        Event::Rowsets(_) => !is_divided(at),
        Event::Truncate | Event::Divide(_) | Event::Schema(_) | Event::Drop => false,
    };
    let events = chunk.events.iter().filter(|(at, event)| *at > lsn && gives_version(at, event));
    (loads.count() + events.count()) as u64
}
