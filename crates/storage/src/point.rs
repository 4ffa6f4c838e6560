//! Point reads: the rows with given keys, without a plan and without a snapshot (keys.md K22).
//!
//! What is read is the table exactly at one LSN: the horizon, or above it, where a key has changed
//! since or files reach further. The key table knows only the last version of a key, so a read
//! that meets a later one goes on at its LSN. Whoever answers waits until the log is durable up to
//! there.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::{Lsn, TableId};
use freshet_schema::TableSchema;

use crate::delta::adapted;
use crate::error::Result;
use crate::marks::SegmentMarks;
use crate::resolver::Version;
use crate::rowset::Rowset;
use crate::segment::{Segment, WaitMode};
use crate::view::TableView;
use crate::views::Views;

/// How often a read goes on at a later LSN.
const ATTEMPTS: usize = 8;

/// The rows of a point read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointRows {
    /// In the order of the keys that were asked for, encoded with the columns that were asked for.
    pub rows: Vec<Bytes>,
    /// The state of the table is that at this LSN, up to which the log must be durable before they
    /// are shown to anybody.
    pub at: Lsn,
}

/// What one attempt has found.
enum Found {
    Rows(Vec<Bytes>),
    /// The table can only be read at this LSN or behind it.
    Later(Lsn),
    /// It has to be read by a snapshot.
    Unfit,
}

/// The rows with these keys, each of which is asked for once, at `horizon` or behind it. Nothing
/// blocks the thread. `None` where a snapshot is needed: the table is not keyed, has
/// changed its columns, stores no rows, or does not know all its marks yet.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment.
pub async fn read(
    views: &Views,
    table: TableId,
    schema: &TableSchema,
    keys: &[&[u8]],
    horizon: Lsn,
) -> Result<Option<PointRows>> {
    let mut at = horizon;
    for _ in 0..ATTEMPTS {
        match attempt(views, table, schema, keys, at).await? {
            Found::Rows(rows) => return Ok(Some(PointRows { rows, at })),
            Found::Later(lsn) => {
                assert!(lsn > at, "a read goes on at a later LSN");
                at = lsn;
            }
            Found::Unfit => break,
        }
    }
    Ok(None)
}

async fn attempt(
    views: &Views,
    table: TableId,
    schema: &TableSchema,
    keys: &[&[u8]],
    at: Lsn,
) -> Result<Found> {
    // This view keeps the rows of the delta that the key table names.
    let Some(before) = views.table(table) else { return Ok(Found::Unfit) };
    let resolver = before.resolver.as_ref().filter(|resolver| resolver.is_resolved(at));
    let Some(resolver) = resolver else { return Ok(Found::Unfit) };
    let versions = resolver.versions(keys);
    // In this order: a swap shows its view first, and forgets keys second (K2).
    let Some(view) = views.table(table) else { return Ok(Found::Unfit) };
    let truncated = view.delta.truncated().max(view.delta.lost());
    let end = view.flushed.max(view.delta.loaded()).max(truncated);
    if end > at {
        return Ok(Found::Later(end));
    }
    // Its files, of which the view shows some, do not exist any more.
    if truncated > view.flushed || view.table.schema().version != schema.version {
        return Ok(Found::Unfit);
    }
    let loads = match view.delta.loaded() > view.flushed {
        true => view.delta.loads(&view.head, view.flushed, at),
        false => Vec::new(),
    };
    let mut rows = Vec::with_capacity(keys.len());
    for (key, version) in keys.iter().zip(versions) {
        if let Some(Version { row, is_removal }) = version
            && let Some((lsn, row)) = view.delta.row_from(&before.head, row, schema)?
        {
            if lsn > at {
                return Ok(Found::Later(lsn));
            }
            rows.extend((!is_removal).then(|| Bytes::from(row)));
            continue;
        }
        match in_files(&view, &loads, key, at).await? {
            InFiles::Row(segment, row) if segment.schema().version == schema.version => {
                rows.push(row);
            }
            InFiles::Row(segment, row) => {
                rows.push(Bytes::from(adapted(&row, segment.schema(), schema)));
            }
            InFiles::None => {}
            InFiles::NotStored => return Ok(Found::Unfit),
        }
    }
    Ok(Found::Rows(rows))
}

/// What the files of a view have of a key.
enum InFiles {
    Row(Arc<Segment>, Bytes),
    None,
    /// The row is there as columns only.
    NotStored,
}

/// The row with a key that is alive at `at`: the newest segment that has the key decides (K16).
async fn in_files(view: &TableView, loads: &[Arc<Rowset>], key: &[u8], at: Lsn) -> Result<InFiles> {
    let tablets = view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().rev());
    for rowset in loads.iter().rev().chain(tablets) {
        let marks = rowset.marks().expect("the rowsets of a keyed table have marks");
        for (segment, marks) in rowset.segments().iter().zip(marks).rev() {
            if let Some(found) = in_segment(view, segment, marks, key, at).await? {
                return Ok(found);
            }
        }
    }
    Ok(InFiles::None)
}

/// `None` if the segment does not have the key.
async fn in_segment(
    view: &TableView,
    segment: &Arc<Segment>,
    marks: &SegmentMarks,
    key: &[u8],
    at: Lsn,
) -> Result<Option<InFiles>> {
    let resolver = view.resolver.as_ref().expect("a keyed table has a resolver");
    let keys = segment.look_ups(resolver.filters(), WaitMode::Awaiting).await?;
    let found = keys.look_up(&[key], WaitMode::Awaiting).await?.pop();
    let Some(found) = found else { return Ok(None) };
    let last = found.rows.end - 1;
    let alive = found.rows.rev().find(|&row| !marks.is_dead_at(row, at));
    Ok(Some(match (alive, found.stored) {
        (None, _) => InFiles::None,
        (Some(row), Some(stored)) if row == last => {
            InFiles::Row(Arc::clone(segment), keys.stored_row(stored, WaitMode::Awaiting).await?)
        }
        (Some(_), _) => InFiles::NotStored,
    }))
}
