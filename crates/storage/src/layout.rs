//! Paths of data files: `{data}/{table}/{tablet}/{rowset}-{segment}.parquet`, and those of marks:
//! `{data}/{table}/marks/{number}.marks`.

use std::path::{Path, PathBuf};

use freshet_base::{RowsetId, SegmentId, TableId, TabletId};

/// The directory of all data files.
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

impl DataDir {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn table(&self, table: TableId) -> PathBuf {
        self.0.join(table.to_string())
    }

    /// A mark file of a table.
    pub fn marks(&self, table: TableId, number: RowsetId) -> PathBuf {
        self.table(table).join("marks").join(format!("{number}.marks"))
    }

    pub fn tablet(&self, table: TableId, tablet: TabletId) -> PathBuf {
        self.table(table).join(tablet.to_string())
    }
}

/// The file name of a segment. A segment that is written again, because its file could not be
/// synced, has the name of the next attempt.
pub fn segment_file(rowset: RowsetId, segment: SegmentId, attempt: u32) -> String {
    match attempt {
        0 => format!("{rowset}-{segment}.parquet"),
        _ => format!("{rowset}-{segment}-{attempt}.parquet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_file_it_is() {
        let dir = DataDir::new("/data").tablet(TableId(3), TabletId(5));
        let file = dir.join(segment_file(RowsetId(7), SegmentId(0), 0));
        assert_eq!(file, Path::new("/data/3/5/7-0.parquet"));
        assert_eq!(segment_file(RowsetId(7), SegmentId(1), 2), "7-1-2.parquet");
    }
}
