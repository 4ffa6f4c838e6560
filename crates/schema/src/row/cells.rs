//! Finds cells in encoded rows without decoding any.

use super::cell_at;
use crate::{Layout, TableSchema};

/// Where the cells of rows of one schema are. The rows must be written by `RowWriter` or checked
/// by `validate`.
pub struct RowCells {
    layouts: Vec<Layout>,
    /// Where the cells of the leading columns begin, as long as no NULL and no cell of
    /// [`Layout::Bytes`] stands before them; at least that of the first column.
    starts: Vec<usize>,
}

impl RowCells {
    pub fn new(schema: &TableSchema) -> Self {
        let layouts = schema.columns.iter().map(|column| column.ty.layout()).collect::<Vec<_>>();
        let mut starts = vec![layouts.len().div_ceil(8)];
        for layout in &layouts {
            let Layout::Fixed(width) = layout else { break };
            starts.push(starts[starts.len() - 1] + width);
        }
        Self { layouts, starts }
    }

    /// The content of a cell of the row at the front of `bytes`; `None` for NULL.
    ///
    /// # Panics
    /// When `bytes` do not begin with a row of the schema.
    #[inline]
    pub fn cell<'a>(&self, bytes: &'a [u8], column: usize) -> Option<&'a [u8]> {
        if is_null(bytes, column) {
            return None;
        }
        let start = self.start(bytes, column);
        let cell = cell_at(bytes, start, self.layouts[column]);
        Some(&bytes[cell.expect("rows are whole")])
    }

    /// As [`Self::cell`], with the length in front that a cell of [`Layout::Bytes`] has in its row.
    ///
    /// # Panics
    /// As [`Self::cell`].
    pub fn encoded<'a>(&self, bytes: &'a [u8], column: usize) -> Option<&'a [u8]> {
        if is_null(bytes, column) {
            return None;
        }
        Some(&bytes[self.start(bytes, column)..self.start(bytes, column + 1)])
    }

    /// Where the cell of a column begins in the row at the front of `bytes`.
    ///
    /// # Panics
    /// As [`Self::cell`].
    pub fn offset(&self, bytes: &[u8], column: usize) -> usize {
        self.start(bytes, column)
    }

    /// The length of the row at the front of `bytes`.
    ///
    /// # Panics
    /// When `bytes` do not begin with a row of the schema.
    #[inline]
    pub fn row_bytes(&self, bytes: &[u8]) -> usize {
        self.start(bytes, self.layouts.len())
    }

    /// The whole rows at the front of `bytes`, which may end within another one: their length, and
    /// how many they are.
    pub fn whole_rows(&self, bytes: &[u8]) -> (usize, usize) {
        let (mut end, mut rows) = (0, 0);
        while let Some(length) = self.whole_row(&bytes[end..]) {
            (end, rows) = (end + length, rows + 1);
        }
        (end, rows)
    }

    /// The length of the row at the front of `bytes`; `None` if its end is not there.
    fn whole_row(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.len() < self.starts[0] {
            return None;
        }
        let mut columns = self.layouts.iter().enumerate().filter(|(at, _)| !is_null(bytes, *at));
        columns.try_fold(self.starts[0], |start, (_, layout)| {
            cell_at(bytes, start, *layout).map(|cell| cell.end)
        })
    }

    /// The rows in `bytes`, which follow each other.
    ///
    /// # Panics
    /// The iterator, when `bytes` are not whole rows of the schema.
    pub fn rows<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (row, behind) = rest.split_at(self.row_bytes(rest));
            rest = behind;
            Some(row)
        })
    }

    /// Where the cell of a column begins, or the next row behind the last column.
    #[inline]
    fn start(&self, bytes: &[u8], column: usize) -> usize {
        let from = column.min(self.starts.len() - 1);
        let from = (0..from).find(|&at| is_null(bytes, at)).unwrap_or(from);
        let mut start = self.starts[from];
        for at in (from..column).filter(|&at| !is_null(bytes, at)) {
            start = cell_at(bytes, start, self.layouts[at]).expect("rows are whole").end;
        }
        start
    }
}

#[inline]
fn is_null(row: &[u8], column: usize) -> bool {
    row[column >> 3] >> (column & 7) & 1 == 1
}
