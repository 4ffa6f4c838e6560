//! Garbage collection of unreferenced files: those of replaced rowsets once their last reader is
//! gone, and those left by a crash or a failed flush.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use freshet_base::Lsn;
use freshet_base::io::Fs;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::rowset::Rowset;
use crate::segment::Segment;

/// Rowsets that have been replaced, but may still be used by readers or a metadata checkpoint.
#[derive(Default)]
pub struct Retired(Mutex<State>);

#[derive(Default)]
struct State {
    replaced: Vec<RetiredRowset>,
    /// Those that no view has any more, while the recycle bin has their files.
    resting: Vec<ReadRowset>,
}

struct RetiredRowset {
    /// The LSN of the record that replaced it.
    at: Lsn,
    rowset: ReadRowset,
}

/// The files of a rowset, and who may read them.
struct ReadRowset {
    /// Views that differ in marks have rowsets of their own for the same segments.
    segments: Vec<Weak<Segment>>,
    files: Vec<PathBuf>,
}

impl ReadRowset {
    fn of(rowset: &Rowset) -> Self {
        let files = rowset.segments().iter().map(|segment| segment.path().to_path_buf()).collect();
        let segments = rowset.segments().iter().map(Arc::downgrade).collect();
        Self { segments, files }
    }

    fn has(&self, file: &Path) -> bool {
        self.files.iter().any(|held| held == file)
    }

    fn is_unread(&self) -> bool {
        self.segments.iter().all(|segment| segment.strong_count() == 0)
    }
}

impl Retired {
    /// Registers a rowset replaced by the record at `at`, after the view without it was published.
    pub fn add(&self, at: Lsn, rowset: &Arc<Rowset>) {
        let mut rowset = ReadRowset::of(rowset);
        let mut state = self.0.lock();
        // One that comes from the recycle bin was opened anew: those who read it before it went
        // there have opened it themselves.
        let is_same = |resting: &mut ReadRowset| rowset.files.iter().any(|file| resting.has(file));
        let before = state.resting.extract_if(.., is_same).collect::<Vec<_>>();
        rowset.segments.extend(before.into_iter().flat_map(|resting| resting.segments));
        state.replaced.push(RetiredRowset { at, rowset });
    }

    /// Registers a rowset that went to the recycle bin, after the view without it was published:
    /// its readers are asked when [`Self::add`] is told of its files.
    pub fn add_resting(&self, rowset: &Arc<Rowset>) {
        self.0.lock().resting.push(ReadRowset::of(rowset));
    }

    /// Whether a reader may still open `file`, so that the sweep must not delete it. What the
    /// recycle bin had may have gone with its table, which tells nobody of its files.
    pub fn holds(&self, file: &Path) -> bool {
        let state = self.0.lock();
        state.replaced.iter().any(|retired| retired.rowset.has(file))
            || state.resting.iter().any(|resting| resting.has(file) && !resting.is_unread())
    }

    /// Deletes the files of rowsets without readers, if the durable metadata, up to `saved`,
    /// reflects their replacement. Returns the number of files.
    ///
    /// # Errors
    /// [`Error::Io`] of the first file that cannot be deleted; the sweep will find it.
    pub fn remove_free(&self, fs: &dyn Fs, saved: Lsn) -> Result<usize> {
        let is_free =
            |retired: &mut RetiredRowset| retired.at <= saved && retired.rowset.is_unread();
        let free = {
            let mut state = self.0.lock();
            state.resting.retain(|resting| !resting.is_unread());
            state.replaced.extract_if(.., is_free).collect::<Vec<_>>()
        };
        let files = free.into_iter().flat_map(|retired| retired.rowset.files).collect::<Vec<_>>();
        for file in &files {
            remove(fs, file)?;
        }
        Ok(files.len())
    }
}

/// Finds unreferenced files. A file is deleted only if two sweeps, at least a grace period apart,
/// found it unreferenced: references move from work in progress to the log to metadata, and a
/// single check may miss a reference that is moving.
pub struct Sweep {
    grace: Duration,
    /// Unreferenced files, and when each was first found to be so.
    unnamed: HashMap<PathBuf, Duration>,
}

impl Sweep {
    /// Unreferenced files are kept for `grace`.
    pub fn new(grace: Duration) -> Self {
        Self { grace, unnamed: HashMap::new() }
    }

    /// Checks all files under `root` at the monotonic time `now`, and returns the deleted ones.
    /// `named` returns whether a file is referenced by work in progress, the log, metadata or a
    /// reader; it must check in this order, since references move in the same order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn run(
        &mut self,
        fs: &dyn Fs,
        root: &Path,
        now: Duration,
        named: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>> {
        let mut unnamed = HashMap::new();
        let mut removed = Vec::new();
        for file in files(fs, root)? {
            if named(&file) {
                continue;
            }
            let since = self.unnamed.get(&file).copied();
            if since.is_some_and(|since| now.saturating_sub(since) >= self.grace) {
                remove(fs, &file)?;
                removed.push(file);
            } else {
                unnamed.insert(file, since.unwrap_or(now));
            }
        }
        self.unnamed = unnamed;
        Ok(removed)
    }
}

/// All files under `root`, recursively.
fn files(fs: &dyn Fs, root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let entries = match fs.list(&dir) {
            // The directory was dropped during the sweep.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| Error::io("list", &dir, error))?,
        };
        for entry in entries {
            if entry.is_dir { dirs.push(entry.path) } else { files.push(entry.path) }
        }
    }
    Ok(files)
}

fn remove(fs: &dyn Fs, file: &Path) -> Result<()> {
    match fs.remove_file(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| Error::io("remove", file, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use freshet_base::io::{Mode, RealFs};
    use freshet_base::{RowsetId, SchemaVersion, TabletId};
    use freshet_meta::{KeyRange, RowsetMeta, SegmentMeta};

    use super::*;
    use crate::testing::schema;

    fn touch(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        RealFs.create_dir_all(path.parent().unwrap()).unwrap();
        RealFs.open(&path, Mode::CreateNew).unwrap();
        path
    }

    const GRACE: Duration = Duration::from_secs(10);

    #[test]
    fn only_what_two_sweeps_a_grace_apart_found_unnamed_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = touch(dir.path(), "1/2/kept.parquet");
        let orphan = touch(dir.path(), "1/2/orphan.parquet");
        let named = |file: &Path| file == kept;
        let mut sweep = Sweep::new(GRACE);
        let mut at =
            |seconds| sweep.run(&RealFs, dir.path(), Duration::from_secs(seconds), &named).unwrap();
        assert!(at(0).is_empty());
        assert!(at(9).is_empty());
        assert_eq!(at(10), std::slice::from_ref(&orphan));
        assert!(RealFs.exists(&kept) && !RealFs.exists(&orphan));
    }

    #[test]
    fn a_file_that_is_named_in_between_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), "1/2/moving.parquet");
        let is_named = Cell::new(false);
        let named = |_: &Path| is_named.get();
        let mut sweep = Sweep::new(GRACE);
        let mut at = |seconds| {
            sweep.run(&RealFs, dir.path(), Duration::from_secs(seconds), &named).unwrap().len()
        };
        assert_eq!(at(0), 0);
        is_named.set(true);
        assert_eq!(at(20), 0);
        is_named.set(false);
        assert_eq!(at(25), 0);
        assert_eq!(at(35), 1);
    }

    /// A rowset of one file.
    fn rowset_of(dir: &Path) -> Arc<Rowset> {
        let segment = SegmentMeta {
            id: freshet_base::SegmentId(0),
            file: "a.parquet".to_owned(),
            rows: 1,
            bytes: 0,
            data_bytes: 0,
            key_part: None,
            footer_checksum: 0,
            keys: KeyRange { min: 0, max: 9 },
            removes: false,
        };
        let meta = RowsetMeta {
            id: RowsetId(1),
            tablet: TabletId(1),
            lsn_first: Lsn(1),
            lsn_last: Lsn(1),
            schema_version: SchemaVersion(1),
            segments: vec![segment],
            rows: 1,
        };
        let segments = crate::testing::files(dir).segments;
        Arc::new(Rowset::new(&segments, dir, meta, &schema(1)))
    }

    #[test]
    fn a_replaced_rowset_stays_until_its_last_reader_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = touch(dir.path(), "a.parquet");
        let rowset = rowset_of(dir.path());
        let retired = Retired::default();
        retired.add(Lsn(7), &rowset);
        assert_eq!(retired.remove_free(&RealFs, Lsn(7)).unwrap(), 0);
        assert!(retired.holds(&path));
        drop(rowset);
        assert_eq!(retired.remove_free(&RealFs, Lsn(6)).unwrap(), 0, "metadata may name it");
        assert_eq!(retired.remove_free(&RealFs, Lsn(7)).unwrap(), 1);
        assert!(!retired.holds(&path) && !RealFs.exists(&path));
    }

    #[test]
    fn files_from_the_recycle_bin_stay_until_those_who_read_them_before_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = touch(dir.path(), "a.parquet");
        let (read, copied) = (rowset_of(dir.path()), rowset_of(dir.path()));
        let retired = Retired::default();
        retired.add_resting(&read);
        assert!(retired.holds(&path), "a snapshot reads them, though their table may go");
        assert_eq!(retired.remove_free(&RealFs, Lsn(9)).unwrap(), 0);
        retired.add(Lsn(9), &copied);
        drop(copied);
        assert_eq!(retired.remove_free(&RealFs, Lsn(9)).unwrap(), 0, "a snapshot reads them");
        assert!(retired.holds(&path));
        drop(read);
        assert_eq!(retired.remove_free(&RealFs, Lsn(9)).unwrap(), 1);
        assert!(!RealFs.exists(&path));
    }

    #[test]
    fn files_that_go_with_the_recycle_bin_of_a_table_are_kept_for_who_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = touch(dir.path(), "a.parquet");
        let read = rowset_of(dir.path());
        let retired = Retired::default();
        retired.add_resting(&read);
        assert!(retired.holds(&path));
        drop(read);
        assert!(!retired.holds(&path), "the sweep may remove them, or the recycle bin has them");
    }
}
