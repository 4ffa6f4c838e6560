//! Point reads: the rows with given keys, without a plan and without a snapshot (keys.md K22).
//!
//! What is read is the table exactly at one LSN: the horizon, or above it, where a key has changed
//! since or files reach further. The key table knows only the last version of a key, so a read
//! that meets a later one goes on at its LSN. Whoever answers waits until the log is durable up to
//! there.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::task::Pool;
use freshet_base::{Lsn, TableId};
use freshet_schema::TableSchema;

use crate::delta::adapted;
use crate::error::Result;
use crate::marks::SegmentMarks;
use crate::resolver::{Resolver, Version};
use crate::rowset::Rowset;
use crate::segment::{Segment, WaitMode};
use crate::view::TableView;
use crate::views::Views;

/// How often a read goes on, at a later LSN or behind what is looked up first.
const ATTEMPTS: usize = 16;

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
    /// Which rows of before are replaced is to be found first.
    Behind(Arc<Resolver>),
    /// It has to be read by a snapshot.
    Unfit,
}

/// The rows with these keys, which are sorted and each asked for once, at `horizon` or behind it.
/// Nothing blocks the thread: what was written without looking (keys.md S1) is looked up on one of
/// `pool`. `None` where a snapshot is needed: the table is not keyed, has changed its columns, or
/// stores no rows.
///
/// # Errors
/// [`crate::Error::Io`], [`crate::Error::Corruption`] of a segment.
pub async fn read(
    (views, pool): (&Views, &dyn Pool),
    table: TableId,
    schema: &TableSchema,
    keys: &[&[u8]],
    horizon: Lsn,
) -> Result<Option<PointRows>> {
    assert!(keys.is_sorted(), "keys are read in their order");
    let mut at = horizon;
    for _ in 0..ATTEMPTS {
        match attempt(views, table, schema, keys, at).await? {
            Found::Rows(rows) => return Ok(Some(PointRows { rows, at })),
            Found::Later(lsn) => {
                assert!(lsn > at, "a read goes on at a later LSN");
                at = lsn;
            }
            Found::Behind(resolver) => resolver.resolve_beside(pool, at).await?,
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
    let Some(resolver) = &before.resolver else { return Ok(Found::Unfit) };
    if !resolver.is_resolved(at) {
        return Ok(Found::Behind(Arc::clone(resolver)));
    }
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
    let mut rows = vec![None; keys.len()];
    let mut left = Vec::new();
    for (number, version) in versions.into_iter().enumerate() {
        if let Some(Version { row, is_removal }) = version
            && let Some((lsn, row)) = view.delta.row_from(&before.head, row, schema)
        {
            if lsn > at {
                return Ok(Found::Later(lsn));
            }
            rows[number] = (!is_removal).then(|| Bytes::from(row));
            continue;
        }
        left.push(number);
    }
    let search = Search { view: &view, schema, keys, at };
    match search.in_files(&loads, left, &mut rows).await? {
        true => Ok(Found::Rows(rows.into_iter().flatten().collect())),
        false => Ok(Found::Unfit),
    }
}

/// The search for keys in the files of a view, as they are at `at`.
struct Search<'a> {
    view: &'a TableView,
    schema: &'a TableSchema,
    /// All keys, sorted.
    keys: &'a [&'a [u8]],
    at: Lsn,
}

impl Search<'_> {
    /// Finds the rows with the keys of these numbers: of each the newest segment that has it
    /// decides (K16). False where one is there as columns only.
    async fn in_files(
        &self,
        loads: &[Arc<Rowset>],
        mut left: Vec<usize>,
        rows: &mut [Option<Bytes>],
    ) -> Result<bool> {
        let tablets = self.view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().rev());
        for rowset in loads.iter().rev().chain(tablets) {
            let marks = rowset.marks().expect("the rowsets of a keyed table have marks");
            for segment in rowset.segments().iter().zip(marks).rev() {
                if left.is_empty() {
                    return Ok(true);
                }
                if !self.in_segment(segment, &mut left, rows).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Takes the keys that a segment has out of those that are `left`.
    async fn in_segment(
        &self,
        (segment, marks): (&Arc<Segment>, &Arc<SegmentMarks>),
        left: &mut Vec<usize>,
        rows: &mut [Option<Bytes>],
    ) -> Result<bool> {
        // Most segments lack the key, which takes no lock and no memory to see.
        if let Some(keys) = segment.opened_keys()
            && !left.iter().any(|number| keys.may_have_key(self.keys[*number]))
        {
            return Ok(true);
        }
        let resolver = self.view.resolver.as_ref().expect("a keyed table has a resolver");
        let part = segment.look_ups(resolver.filters(), WaitMode::Awaiting).await?;
        let wanted = left.iter().map(|number| self.keys[*number]).collect::<Vec<_>>();
        let found = part.look_up(&wanted, WaitMode::Awaiting).await?;
        let (mut numbers, mut places) = (Vec::new(), Vec::new());
        for found in &found {
            let last = found.rows.end - 1;
            let alive = found.rows.clone().rev().find(|&row| !marks.is_dead_at(row, self.at));
            match (alive, found.stored) {
                (None, _) => {}
                (Some(row), Some(stored)) if row == last => {
                    numbers.push(left[found.at]);
                    places.push(stored);
                }
                (Some(_), _) => return Ok(false),
            }
        }
        let stored = part.stored_rows(&places, WaitMode::Awaiting).await?;
        for (number, row) in numbers.into_iter().zip(stored) {
            rows[number] = Some(match segment.schema().version == self.schema.version {
                true => row,
                false => Bytes::from(adapted(&row, segment.schema(), self.schema)),
            });
        }
        let mut gone = found.iter().map(|found| found.at).peekable();
        let mut at = 0..;
        left.retain(|_| gone.next_if_eq(&at.next().expect("it has no end")).is_none());
        Ok(true)
    }
}
