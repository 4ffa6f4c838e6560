//! The rows of a delta record by record, as a side file keeps them.

use std::sync::Arc;

use freshet_base::Lsn;
use freshet_schema::encode;

use super::node::{Chunk, Event};
use crate::error::Result;
use crate::side::SideEntry;
use crate::view::TableView;

/// What a small table adds to a side file.
pub struct SideRows {
    /// Its rows above its files, up to the LSN asked for, record by record.
    pub entries: Vec<SideEntry>,
    /// How many versions its records above that LSN gave it.
    pub versions_after: u64,
}

impl TableView {
    /// Whether a side file can hold what stands above the files up to `up_to`: rows, and no
    /// large load, whose rows are files. Nor may a run end above it that left a group open: no
    /// record says that this group ended, so replay must meet its loads in the log.
    pub fn fits_side_file(&self, up_to: Lsn) -> bool {
        let hinders = |(lsn, event): &(Lsn, Event)| match event {
            Event::Rowsets(_) => *lsn > self.flushed,
            Event::RunEnd(_) => *lsn > up_to && *lsn > self.flushed,
            Event::Cut | Event::Schema(_) | Event::Drop | Event::GroupEnd(_) => false,
        };
        !self.delta.chunks(&self.head).iter().any(|chunk| chunk.events.iter().any(hinders))
    }

    /// What stands above the files up to `up_to`, for a side file. `chunks` are all of the delta
    /// from the view's head on; encoding them takes its time and needs no lock.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict their schema.
    pub fn side_rows(&self, chunks: &[Arc<Chunk>], up_to: Lsn) -> Result<SideRows> {
        let versions_after = chunks.iter().map(|chunk| versions_after(chunk, up_to)).sum();
        let mut entries = Vec::new();
        for chunk in chunks {
            self.chunk_entries(chunk, up_to, &mut entries)?;
        }
        Ok(SideRows { entries, versions_after })
    }

    fn chunk_entries(&self, chunk: &Arc<Chunk>, to: Lsn, out: &mut Vec<SideEntry>) -> Result<()> {
        for (index, entry) in chunk.entries.iter().enumerate() {
            if entry.lsn <= self.flushed || entry.lsn > to {
                continue;
            }
            let rows = chunk.rows_before(index) as usize..entry.rows_end as usize;
            let mut batches = Vec::new();
            chunk.rolled().select(std::slice::from_ref(&rows), &mut batches)?;
            let schema = &chunk.schemas[usize::from(entry.schema)];
            let mut bytes = Vec::new();
            for (_, batch) in &batches {
                encode(batch, schema, &mut bytes);
            }
            out.push(SideEntry {
                table: self.table.id,
                lsn: entry.lsn,
                txn: entry.txn,
                schema_version: schema.version,
                rows: u32::try_from(rows.len()).expect("a record has few rows"),
                bytes,
            });
        }
        Ok(())
    }
}

/// Every group, load alone and large load that ends above `lsn` gave the table a version.
fn versions_after(chunk: &Chunk, lsn: Lsn) -> u64 {
    let loads = chunk.entries.iter().filter(|entry| entry.lsn > lsn && entry.ends_group);
    let gives_version = |event: &Event| match event {
        Event::GroupEnd(_) | Event::RunEnd(_) | Event::Rowsets(_) => true,
        Event::Cut | Event::Schema(_) | Event::Drop => false,
    };
    let events = chunk.events.iter().filter(|(at, event)| *at > lsn && gives_version(event));
    (loads.count() + events.count()) as u64
}
