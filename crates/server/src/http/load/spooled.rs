//! Decoded rows in a file without a name, which are needed more than once.

use std::sync::Arc;

use freshet_base::Result;
use freshet_base::io::FileRef;
use freshet_ingest::{Engine, spool};

use super::piece::Decoded;

/// The name that the file of a body has at first.
pub(super) fn body_name(number: u64) -> String {
    format!("body-{number:016x}")
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
    checksum: u32,
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
        let file = spool::create(engine, &body_name(number)).await?;
        Ok(Self { file, written: 0, steps: Vec::new() })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// When the disk is full.
    pub(super) async fn push(&mut self, engine: &Engine, step: Decoded) -> Result<()> {
        let Decoded { rows, count, given, permit: _permit, .. } = step;
        let (rows_bytes, mut bytes) = (rows.len(), rows);
        bytes.extend(given.iter().map(|given| u8::from(*given)));
        let (given, checksum) = (given.len(), spool::checksum(&bytes));
        self.steps.push(SpooledStep { rows_bytes, given, count, checksum });
        let (file, at) = (Arc::clone(&self.file), self.written);
        self.written += bytes.len() as u64;
        spool::write(engine, file, bytes.into(), at).await
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
    /// When the file cannot be read, or has other bytes than were written.
    pub(super) async fn next(&mut self, engine: &Engine, bytes: usize) -> Result<Option<ReadRows>> {
        let mut all = ReadRows::default();
        while let Some(step) = self.rows.steps.get(self.next).copied()
            && all.rows.len() < bytes
        {
            let (file, at) = (Arc::clone(&self.rows.file), self.at);
            let length = step.rows_bytes + step.given;
            let read = spool::read(engine, file, (at, length), step.checksum).await?;
            let (rows, given) = read.split_at(step.rows_bytes);
            all.rows.extend_from_slice(rows);
            all.given.extend(given.iter().map(|given| *given == 1));
            all.count += step.count;
            (self.next, self.at) = (self.next + 1, at + length as u64);
        }
        Ok((all.count > 0).then_some(all))
    }
}
