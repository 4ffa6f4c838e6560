//! Opens the files of a table at startup, as listed by metadata.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use freshet_base::io::{Fs, FsRef};
use freshet_base::{Lsn, TableId, TabletId};
use freshet_meta::{MarkFileMeta, RowsetMeta};
use freshet_schema::Table;

use crate::error::{Error, Result};
use crate::layout::DataDir;
use crate::marks::{DeadRows, MarkFile, SegmentMarks, SegmentPlace};
use crate::rowset::Rowset;
use crate::segment::SegmentAccess;
use crate::view::TabletFiles;

/// A violation found in a store's files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub file: PathBuf,
    /// The offset in bytes, if the violation is at one place.
    pub offset: Option<u64>,
    /// The violation.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.file.display(), self.what),
            None => write!(f, "{}: {}", self.file.display(), self.what),
        }
    }
}

impl From<Error> for Finding {
    fn from(error: Error) -> Self {
        match error {
            Error::Corruption { file, offset, what } => Self { file, offset: Some(offset), what },
            Error::Io { doing, path, source } => {
                Self { file: path, offset: None, what: format!("cannot {doing} it: {source}") }
            }
            Error::NoPartition(what) | Error::Internal(what) => {
                Self { file: PathBuf::new(), offset: None, what }
            }
        }
    }
}

/// Opens the rowsets that metadata lists for `table`. Footers are read when first needed. Files
/// that are missing or have another length are reported; those missing or too short are refused by
/// name when they are read.
///
/// # Errors
/// [`Error::Internal`] when metadata is inconsistent: overlapping rowsets, or a schema version or
/// tablet that the table never had.
pub fn open_table(
    fs: &FsRef,
    segments: &Arc<SegmentAccess>,
    dir: &DataDir,
    table: &Table,
    metas: impl IntoIterator<Item = RowsetMeta>,
) -> Result<(Vec<TabletFiles>, Vec<Finding>)> {
    let mut by_tablet: BTreeMap<TabletId, Vec<RowsetMeta>> = BTreeMap::new();
    for meta in metas {
        by_tablet.entry(meta.tablet).or_default().push(meta);
    }
    let mut tablets = Vec::new();
    let mut findings = Vec::new();
    for partition in &table.partitions {
        for &id in &partition.tablets {
            let metas = by_tablet.remove(&id).unwrap_or_default();
            findings.extend(compare_lengths(fs, dir, table, id, &metas));
            let rowsets = open_tablet(segments, dir, table, id, metas)?;
            tablets.push(TabletFiles { id, partition: partition.id, rowsets });
        }
    }
    match by_tablet.keys().next() {
        None => Ok((tablets, findings)),
        Some(tablet) => {
            let table = &table.name;
            Err(Error::Internal(format!("metadata names tablet {tablet}, not of table `{table}`")))
        }
    }
}

fn open_tablet(
    segments: &Arc<SegmentAccess>,
    dir: &DataDir,
    table: &Table,
    tablet: TabletId,
    mut metas: Vec<RowsetMeta>,
) -> Result<Vec<Arc<Rowset>>> {
    metas.sort_by_key(|meta| meta.lsn_first);
    if let Some(pair) = metas.windows(2).find(|pair| pair[0].lsn_last >= pair[1].lsn_first) {
        let (a, b) = (pair[0].id, pair[1].id);
        return Err(Error::Internal(format!("rowsets {a} and {b} of tablet {tablet} overlap")));
    }
    let dir = dir.tablet(table.id, tablet);
    let open = |meta: RowsetMeta| {
        let version = meta.schema_version;
        let schema = table.history.at(version).ok_or_else(|| {
            let (id, name) = (meta.id, &table.name);
            Error::Internal(format!("rowset {id} names schema {version}, not of table `{name}`"))
        })?;
        Ok(Arc::new(Rowset::new(segments, &dir, meta, schema)))
    };
    metas.into_iter().map(open).collect()
}

/// The rows of each segment that are dead by the mark files that metadata lists for a keyed table.
pub struct StoredMarks {
    dead: HashMap<SegmentPlace, (u32, Vec<u32>)>,
}

impl StoredMarks {
    /// Reads the mark files of a table.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] of the first file that is missing or damaged.
    pub fn read(
        fs: &dyn Fs,
        dir: &DataDir,
        table: TableId,
        files: &[MarkFileMeta],
    ) -> Result<Self> {
        let mut dead = HashMap::<_, (u32, Vec<u32>)>::new();
        for meta in files {
            let file = MarkFile::open(fs, &dir.marks(table, meta.number), table, meta)?;
            for (place, rows) in file.segments() {
                let all = dead.entry(place).or_insert((rows, Vec::new()));
                all.1.extend(file.dead(place, rows)?);
            }
        }
        Ok(Self { dead })
    }

    /// A rowset with its stored marks, in a view up to `flushed`.
    ///
    /// # Errors
    /// [`Error::Corruption`] when marks are of a segment of another length, or name a row twice.
    pub fn of(&self, rowset: &Rowset, flushed: Lsn) -> Result<Rowset> {
        let marks = rowset.segments().iter().map(|segment| {
            let (tablet, id) = (rowset.meta().tablet, rowset.meta().id);
            let place = SegmentPlace { tablet, rowset: id, segment: segment.meta().id };
            let rows = u32::try_from(segment.meta().rows).unwrap_or(u32::MAX);
            let (of, mut dead) = self.dead.get(&place).cloned().unwrap_or((rows, Vec::new()));
            dead.sort_unstable();
            let is_once =
                dead.is_sorted_by(|a, b| a < b) && dead.last().is_none_or(|&row| row < rows);
            if of != rows || !is_once {
                let what = format!("the marks of its {rows} rows contradict each other");
                return Err(Error::corruption(segment.path(), 0, what));
            }
            Ok(Arc::new(SegmentMarks::new(rows, flushed, DeadRows::new(rows, dead))))
        });
        Ok(rowset.with_marks(marks.collect::<Result<Vec<_>>>()?))
    }
}

/// Compares the lengths of a tablet's files with metadata.
fn compare_lengths(
    fs: &FsRef,
    dir: &DataDir,
    table: &Table,
    tablet: TabletId,
    metas: &[RowsetMeta],
) -> Vec<Finding> {
    if metas.is_empty() {
        return Vec::new();
    }
    let dir = dir.tablet(table.id, tablet);
    let entries = match fs.list(&dir) {
        Ok(entries) => entries,
        Err(error) => return vec![Error::io("list", &dir, error).into()],
    };
    let lengths = entries.into_iter().map(|entry| (entry.path, entry.len_bytes));
    let lengths = lengths.collect::<HashMap<_, _>>();
    let segments = metas.iter().flat_map(|meta| &meta.segments);
    let differ = segments.filter_map(|segment| {
        let file = dir.join(&segment.file);
        let what = match lengths.get(&file) {
            None => "it is missing".to_owned(),
            Some(&bytes) if bytes != segment.bytes => {
                format!("it is {bytes} bytes long and was written with {}", segment.bytes)
            }
            Some(_) => return None,
        };
        Some(Finding { file, offset: None, what })
    });
    differ.collect()
}

#[cfg(test)]
mod tests;
