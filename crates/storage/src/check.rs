//! Verifies all files of a table, for `freshet check`.

use std::sync::Arc;

use freshet_schema::key::{KeyColumns, KeyComparator, KeyWords};

use crate::error::{Error, Result};
use crate::marks::DeadRows;
use crate::recover::Finding;
use crate::rowset::Rowset;
use crate::segment::key_part::IndexWriter;
use crate::segment::{ScanRequest, Segment, Share, WaitMode, at_once};
use crate::view::TabletFiles;

/// All violations in these tablets: of checksums, row counts, sort order, key ranges.
pub fn check(tablets: &[TabletFiles]) -> Vec<Finding> {
    let rowsets = tablets.iter().flat_map(|tablet| &tablet.rowsets);
    rowsets.flat_map(|rowset| check_rowset(rowset)).collect()
}

fn check_rowset(rowset: &Rowset) -> Vec<Finding> {
    let segments = rowset.segments().iter();
    segments.filter_map(|segment| check_segment(rowset, segment).err()).map(Finding::from).collect()
}

/// Stops at the first violation in a file, since others may be its consequences.
fn check_segment(rowset: &Rowset, segment: &Arc<Segment>) -> Result<()> {
    segment.verify()?;
    let schema = rowset.schema();
    let wrong = |what: String| Error::corruption(segment.path(), 0, what);
    let mut rows = 0;
    let mut before = None;
    let mut indexes = Vec::new();
    if let Some(keys) = at_once(segment.keys(WaitMode::Blocking))? {
        indexes.extend(keys.indexes().map(|columns| IndexWriter::new(columns.to_vec())));
    }
    for batch in segment.scan(&ScanRequest::all(schema), Share::WHOLE, &DeadRows::default())? {
        let batch = batch?;
        indexes.iter_mut().for_each(|index| index.push(&batch, schema));
        let columns = KeyColumns::new(&batch, schema);
        let keys = KeyWords::of(&columns, schema);
        let range = segment.meta().keys;
        let mut firsts = (0..batch.num_rows()).map(|row| keys.row(row)[0]);
        if firsts.any(|key| key < range.min || key > range.max) {
            return Err(wrong(format!("a row near {rows} lies outside the key range")));
        }
        if let Some((before, last)) = &before
            && KeyComparator::of(before, &columns).compare(*last, 0).is_gt()
        {
            return Err(wrong(format!("row {rows} comes before its predecessor")));
        }
        let inside = KeyComparator::of(&columns, &columns);
        if let Some(row) = (1..batch.num_rows()).find(|&row| inside.compare(row - 1, row).is_gt()) {
            return Err(wrong(format!("row {} comes before its predecessor", rows + row)));
        }
        rows += batch.num_rows();
        before = batch.num_rows().checked_sub(1).map(|last| (columns, last));
    }
    if rows as u64 != segment.meta().rows {
        return Err(wrong(format!("it holds {rows} rows, not {}", segment.meta().rows)));
    }
    check_indexes(segment, indexes)
}

/// Compares what indexes hold with the values in the rows.
fn check_indexes(segment: &Segment, indexes: Vec<IndexWriter>) -> Result<()> {
    let Some(keys) = at_once(segment.keys(WaitMode::Blocking))? else { return Ok(()) };
    for index in indexes {
        let stored = at_once(keys.index(index.columns(), WaitMode::Blocking))?;
        let stored = stored.expect("an index that the file names is there");
        let mut entries = index.entries();
        for block in 0..stored.blocks() {
            for (value, row) in at_once(stored.block_values(block, WaitMode::Blocking))? {
                if entries.next() != Some((value.as_slice(), row)) {
                    let what = "an index has another value than its row";
                    return Err(Error::corruption(segment.path(), 0, what));
                }
            }
        }
    }
    Ok(())
}
