//! Encoded rows in a file without a name, which are needed more than once.

use std::io;
use std::path::Path;
use std::sync::Arc;

use freshet_base::Result;
use freshet_base::io::{FileRef, Fs, Mode};
use freshet_meta::NotedRows;
use freshet_schema::TableSchema;

use crate::buffer::row_count;
use crate::counter::{Counter, UsedIds};
use crate::engine::Engine;
use crate::looked::has_deleting;
use crate::spool;

/// Encoded rows in a file, in steps.
pub struct SpooledRows {
    file: FileRef,
    written: u64,
    steps: Vec<Step>,
}

/// Some rows, and behind them which columns each has.
#[derive(Clone, Copy)]
struct Step {
    at: u64,
    rows_bytes: usize,
    given: usize,
    count: usize,
    deletes: bool,
    checksum: u32,
}

/// Rows that are read back.
#[derive(Default)]
pub struct ReadRows {
    pub rows: Vec<u8>,
    pub count: usize,
    /// For each row, where each has its own, which columns of the table it has.
    pub given: Vec<bool>,
}

impl SpooledRows {
    /// Creates the file, which has a name of its own at first.
    ///
    /// # Errors
    /// When no file can be created.
    pub async fn create(engine: &Engine, name: &str) -> Result<Self> {
        let file = spool::create(engine, name).await?;
        Ok(Self { file, written: 0, steps: Vec::new() })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// When the disk is full.
    pub async fn push(
        &mut self,
        engine: &Engine,
        (rows, given): (Vec<u8>, &[bool]),
        count: usize,
    ) -> Result<()> {
        let (rows_bytes, mut bytes) = (rows.len(), rows);
        bytes.extend(given.iter().map(|given| u8::from(*given)));
        let (at, deletes, given) = (self.written, has_deleting(given, count), given.len());
        let checksum = spool::checksum(&bytes);
        self.steps.push(Step { at, rows_bytes, given, count, deletes, checksum });
        self.written += bytes.len() as u64;
        spool::write(engine, Arc::clone(&self.file), bytes.into(), at).await
    }

    /// Reads all rows, some at a time.
    pub fn read(&self) -> RowsReader<'_> {
        RowsReader { rows: self, next: 0 }
    }

    /// Whether each row says which columns it has.
    pub(crate) fn is_flexible(&self) -> bool {
        self.steps.iter().any(|step| step.given > 0)
    }

    /// Whether a row deletes its key.
    pub(crate) fn has_deleting(&self) -> bool {
        self.steps.iter().any(|step| step.deletes)
    }

    /// How many rows there are.
    ///
    /// # Errors
    /// `OutOfRoom` above the maximum of a load.
    pub(crate) fn count(&self) -> Result<u32> {
        row_count(self.steps.iter().map(|step| step.count).sum())
    }

    /// What a note says of these rows, all of them one behind the other and then what each has, and
    /// the ids in them. Reads all; on a thread that may block.
    ///
    /// # Errors
    /// When the file cannot be read, or has other bytes than were written.
    pub(crate) fn noted(
        &self,
        schema: &TableSchema,
        counter: Option<&Counter>,
    ) -> Result<(NotedRows, Option<UsedIds>)> {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let mut ids = None;
        for step in &self.steps {
            let bytes = self.read_step(step)?;
            let rows = &bytes[..step.rows_bytes];
            digest.update(rows);
            let of_step = counter.map(|ids| ids.of_rows(schema, rows, step.count as u32));
            ids = UsedIds::join(ids, of_step.flatten());
        }
        for step in self.steps.iter().filter(|step| step.given > 0) {
            digest.update(&self.read_step(step)?[step.rows_bytes..]);
        }
        let checksum = u32::try_from(digest.finalize()).expect("the checksum has 32 bits");
        Ok((NotedRows { bytes: self.written, checksum }, ids))
    }

    /// Writes a file of `head` and these rows behind it, as `noted` counts them, all or nothing of
    /// it. On a thread that may block.
    ///
    /// # Errors
    /// When the files cannot be read or written.
    pub(crate) fn write_behind(&self, fs: &dyn Fs, path: &Path, head: &[u8]) -> io::Result<()> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let temporary = path.with_extension("tmp");
        if fs.exists(&temporary) {
            fs.remove_file(&temporary)?;
        }
        let file = fs.open(&temporary, Mode::CreateNew)?;
        file.write_all_at(head, 0)?;
        let mut at = head.len() as u64;
        for of_rows in [true, false] {
            for step in &self.steps {
                let (from, length) = match of_rows {
                    true => (step.at, step.rows_bytes),
                    false => (step.at + step.rows_bytes as u64, step.given),
                };
                let mut bytes = vec![0; length];
                self.file.read_exact_at(&mut bytes, from)?;
                file.write_all_at(&bytes, at)?;
                file.write_back(at, length as u64);
                at += length as u64;
            }
        }
        file.sync()?;
        fs.rename(&temporary, path)?;
        fs.sync_dir(parent)
    }

    fn read_step(&self, step: &Step) -> Result<Vec<u8>> {
        let place = (step.at, step.rows_bytes + step.given);
        spool::read_at(&*self.file, place, step.checksum)
    }
}

/// Reads rows back in their order.
pub struct RowsReader<'a> {
    rows: &'a SpooledRows,
    next: usize,
}

impl RowsReader<'_> {
    /// The next rows, of about so many bytes; `None` behind the last ones.
    ///
    /// # Errors
    /// When the file cannot be read, or has other bytes than were written.
    pub async fn next(&mut self, engine: &Engine, bytes: usize) -> Result<Option<ReadRows>> {
        let mut all = ReadRows::default();
        while let Some(step) = self.rows.steps.get(self.next).copied()
            && all.rows.len() < bytes
        {
            let (file, place) =
                (Arc::clone(&self.rows.file), (step.at, step.rows_bytes + step.given));
            let read = spool::read(engine, file, place, step.checksum).await?;
            let (rows, given) = read.split_at(step.rows_bytes);
            all.rows.extend_from_slice(rows);
            all.given.extend(given.iter().map(|given| *given == 1));
            all.count += step.count;
            self.next += 1;
        }
        Ok((all.count > 0).then_some(all))
    }
}
