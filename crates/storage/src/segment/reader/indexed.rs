//! The rows of a segment that an index finds.

use std::sync::Arc;

use freshet_base::ColumnId;
use freshet_schema::{TableSchema, encode};

use super::{Segment, at_once};
use crate::error::Result;
use crate::segment::footers::WaitMode;
use crate::segment::key_part::{KeyPart, ValueRange};

/// When an index finds so few rows, no other one is asked.
const FEW_ROWS: usize = 16;

/// What is asked of one index: ranges of its values, in bytes as this segment has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// All columns of the index; `None` for the keys that sort the rows.
    pub columns: Option<Vec<ColumnId>>,
    pub ranges: Vec<ValueRange>,
}

impl Segment {
    /// The columns of each index that it has; `None` if [`Self::read_indexed`] has to read them.
    pub fn known_indexed(&self) -> Option<&[Vec<ColumnId>]> {
        match self.meta.key_part {
            None => Some(&[]),
            Some(_) => self.indexed.get().map(Vec::as_slice),
        }
    }

    /// The columns of each index that it has; reads them at the first call, blocking.
    ///
    /// # Errors
    /// Those of [`Self::keys`].
    pub fn read_indexed(&self) -> Result<&[Vec<ColumnId>]> {
        if let Some(known) = self.known_indexed() {
            return Ok(known);
        }
        let part = at_once(self.keys(WaitMode::Blocking))?;
        let columns = part.iter().flat_map(KeyPart::indexes).map(<[ColumnId]>::to_vec);
        Ok(self.indexed.get_or_init(|| columns.collect()))
    }

    /// Its index by these columns, which is opened at the first call and kept: what it takes in
    /// memory is about a thousandth of what it takes in the file.
    ///
    /// # Errors
    /// Those of [`Self::keys`].
    pub async fn index(
        &self,
        columns: &[ColumnId],
        wait_mode: WaitMode,
    ) -> Result<Option<Arc<KeyPart>>> {
        let known = || {
            let opened = self.indexes.lock();
            let of_these = opened.iter().find(|(of, _)| of == columns);
            of_these.map(|(_, index)| index.clone())
        };
        if let Some(index) = known() {
            return Ok(index);
        }
        let index = match self.keys(wait_mode).await? {
            Some(part) => part.index(columns, wait_mode).await?.map(Arc::new),
            None => None,
        };
        let mut opened = self.indexes.lock();
        // Two may have read it at once.
        if !opened.iter().any(|(of, _)| of == columns) {
            opened.push((columns.to_vec(), index.clone()));
        }
        Ok(index)
    }

    /// A row, dead or not, that has a value in the index of these columns, or else a sort key;
    /// encoded with the columns of `schema`.
    ///
    /// # Errors
    /// Those of [`Self::keys`] and [`Self::rows`].
    pub async fn row_with(
        &self,
        columns: Option<&[ColumnId]>,
        value: &[u8],
        schema: &Arc<TableSchema>,
    ) -> Result<Option<Vec<u8>>> {
        let wait_mode = WaitMode::Awaiting;
        let row = match columns {
            None => match self.sort_keys(wait_mode).await? {
                Some(keys) => {
                    let found = keys.look_up(&[value], wait_mode).await?;
                    found.first().map(|found| found.rows.start)
                }
                None => None,
            },
            Some(columns) => match self.index(columns, wait_mode).await? {
                Some(index) => {
                    let found = index.look_up_values(&[value], wait_mode).await?;
                    found.first().and_then(|found| found.rows.first().copied())
                }
                None => None,
            },
        };
        let Some(row) = row else { return Ok(None) };
        let mut encoded = Vec::new();
        for batch in self.rows(schema, &[row], wait_mode).await? {
            encode(&batch, schema, &mut encoded);
        }
        Ok(Some(encoded))
    }

    /// The rows that one of these probes finds, ascending, dead ones too, and the place of the
    /// probe: of the one that finds fewest. `None` if the segment has none of these indexes, or if
    /// more than `rows_max` rows are found.
    ///
    /// # Errors
    /// Those of [`Self::keys`].
    pub async fn rows_by_index(
        &self,
        probes: &[Probe],
        rows_max: usize,
        wait_mode: WaitMode,
    ) -> Result<Option<(usize, Vec<u32>)>> {
        let mut indexes = Vec::new();
        for (at, probe) in probes.iter().enumerate() {
            let index = match &probe.columns {
                Some(columns) => self.index(columns, wait_mode).await?,
                None => self.sort_keys(wait_mode).await?,
            };
            if let Some(index) = index {
                indexes.push((index.rows_within_at_most(&probe.ranges), at, index));
            }
        }
        indexes.sort_by_key(|(rows, ..)| *rows);
        let mut best: Option<(usize, Vec<u32>)> = None;
        for (_, at, index) in indexes {
            let fewer = match &best {
                None => rows_max,
                Some((_, rows)) if rows.len() <= FEW_ROWS => break,
                Some((_, rows)) => rows.len() - 1,
            };
            let Probe { columns, ranges } = &probes[at];
            let limit = (fewer, columns.is_some());
            let rows = index.rows_within(ranges, limit, wait_mode).await?;
            best = rows.map(|rows| (at, rows)).or(best);
        }
        Ok(best)
    }
}
