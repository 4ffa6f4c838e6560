//! Files without a name, which go with their load, however that ends; and rows in them, which are
//! needed more than once.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::io::{FileRef, Mode};
use freshet_base::{Error, Result, bail, task};
use freshet_ingest::Engine;

use super::piece::Decoded;

/// The directory of such files in the data directory.
const DIR: &str = "spill";
/// A body ends where less than this would be left on the disk.
const DISK_LEFT_BYTES: u64 = 256 << 20;

/// Creates a file without a name; `number` is for the name that it has at first.
///
/// # Errors
/// When it cannot be created.
pub(super) async fn create(engine: &Engine, number: u64) -> Result<FileRef> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.join(DIR));
    let path = dir.join(format!("body-{number:016x}"));
    let made = task::run(&**engine.pool(), move || {
        fs.create_dir_all(&dir)?;
        let file = fs.open(&path, Mode::CreateNew)?;
        fs.remove_file(&path)?;
        Ok(file)
    });
    made.await.map_err(|error| Error::io("create a file for the body of a load", error))
}

/// Writes bytes behind those that a file has.
///
/// # Errors
/// When the disk is full.
pub(super) async fn write(engine: &Engine, file: FileRef, bytes: Bytes, at: u64) -> Result<()> {
    let (fs, dir) = (Arc::clone(engine.fs()), engine.config().data_dir.clone());
    let written = task::run(&**engine.pool(), move || {
        let left = fs.available_bytes(&dir)?;
        if left < DISK_LEFT_BYTES + bytes.len() as u64 {
            return Ok(Some(left));
        }
        file.write_all_at(&bytes, at)?;
        Ok(None)
    });
    let failed = |error: std::io::Error| Error::io("write the body of a load to a file", error);
    match written.await.map_err(failed)? {
        None => Ok(()),
        Some(left) => bail!(
            DiskFull,
            "the body of the load does not fit on the disk, which has {left} bytes left"
        ),
    }
}

/// Decoded rows in a file.
pub(super) struct SpooledRows {
    file: FileRef,
    written: u64,
    steps: Vec<SpooledStep>,
}

/// Some rows, and behind them which columns each has.
#[derive(Clone, Copy)]
struct SpooledStep {
    rows_bytes: usize,
    given: usize,
    count: usize,
}

/// Rows that are read back.
#[derive(Default)]
pub(super) struct ReadRows {
    pub rows: Vec<u8>,
    pub count: usize,
    pub given: Vec<bool>,
}

impl SpooledRows {
    /// # Errors
    /// When no file can be created.
    pub(super) async fn create(engine: &Engine, number: u64) -> Result<Self> {
        let file = create(engine, number).await?;
        Ok(Self { file, written: 0, steps: Vec::new() })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// When the disk is full.
    pub(super) async fn push(&mut self, engine: &Engine, step: Decoded) -> Result<()> {
        let Decoded { rows, count, given, permit: _permit, .. } = step;
        self.steps.push(SpooledStep { rows_bytes: rows.len(), given: given.len(), count });
        let mut bytes = rows;
        bytes.extend(given.iter().map(|given| u8::from(*given)));
        let (file, at) = (Arc::clone(&self.file), self.written);
        self.written += bytes.len() as u64;
        write(engine, file, bytes.into(), at).await
    }

    /// Reads all rows, some at a time.
    pub(super) fn read(&self) -> RowsReader<'_> {
        RowsReader { rows: self, next: 0, at: 0 }
    }
}

/// Reads rows back in their order.
pub(super) struct RowsReader<'a> {
    rows: &'a SpooledRows,
    next: usize,
    at: u64,
}

impl RowsReader<'_> {
    /// The next rows, of about so many bytes; `None` behind the last ones.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) async fn next(&mut self, engine: &Engine, bytes: usize) -> Result<Option<ReadRows>> {
        let mut all = ReadRows::default();
        while let Some(step) = self.rows.steps.get(self.next).copied()
            && all.rows.len() < bytes
        {
            let (file, at) = (Arc::clone(&self.rows.file), self.at);
            let length = step.rows_bytes + step.given;
            let read = move || {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, at).map(|()| bytes)
            };
            let read = task::run(&**engine.pool(), read).await;
            let read = read.map_err(|error| Error::io("read the rows of a load", error))?;
            let (rows, given) = read.split_at(step.rows_bytes);
            all.rows.extend_from_slice(rows);
            all.given.extend(given.iter().map(|given| *given == 1));
            all.count += step.count;
            (self.next, self.at) = (self.next + 1, at + length as u64);
        }
        Ok((all.count > 0).then_some(all))
    }
}
