//! The files of one table.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::args::{DumpArgs, FormatName};
use crate::compress::{Compression, Packer};
use crate::exit::{Failure, Result};

const BUFFER_BYTES: usize = 256 << 10;
/// Of several files, each takes so many rows in turn.
const ROWS_A_TURN: u64 = 1000;
/// What names end with until a file is complete.
const UNFINISHED: &str = ".part";

/// Writes rows to the files of a table. Files that are not complete have names of their own, and
/// are removed when the dump fails.
pub struct Outputs<'a> {
    args: &'a DumpArgs,
    table: &'a str,
    head: Vec<u8>,
    open: Vec<Output>,
    /// How many files were begun.
    begun: usize,
    rows: u64,
}

struct Output {
    packer: Packer<Box<dyn Write + Send>>,
    /// Where it is until it is complete, and then; `None` for standard output.
    paths: Option<(PathBuf, PathBuf)>,
}

impl<'a> Outputs<'a> {
    pub fn new(args: &'a DumpArgs, table: &'a str) -> Self {
        Self { args, table, head: Vec::new(), open: Vec::new(), begun: 0, rows: 0 }
    }

    /// Writes the definition of the table.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_ddl(&self, ddl: &str) -> Result<()> {
        let Some(dir) = &self.args.output else {
            return io::stdout().write_all(ddl.as_bytes()).map_err(Failure::of("standard output"));
        };
        let path = dir.join(format!("{}.schema.sql", self.table));
        self.check_absent(&path)?;
        fs::write(&path, ddl).map_err(Failure::of(path.display()))
    }

    fn check_absent(&self, path: &std::path::Path) -> Result<()> {
        match path.exists() && !self.args.overwrite {
            true => {
                Err(Failure::failed(format!("{} exists; --overwrite replaces it", path.display())))
            }
            false => Ok(()),
        }
    }

    /// Opens the first files; each begins with `head`.
    ///
    /// # Errors
    /// When they cannot be created.
    pub fn begin(&mut self, head: Vec<u8>) -> Result<()> {
        self.head = head;
        for _ in 0..self.args.files {
            let output = self.next_file()?;
            self.open.push(output);
        }
        Ok(())
    }

    fn next_file(&mut self) -> Result<Output> {
        self.begun += 1;
        let compression = self.args.text.compression.unwrap_or(Compression::None);
        let (file, paths): (Box<dyn Write + Send>, _) = match &self.args.output {
            None => (Box::new(io::stdout()), None),
            Some(dir) => {
                let ending = match self.args.text.format {
                    FormatName::Json => "jsonl",
                    FormatName::Tsv => "tsv",
                    _ => "csv",
                };
                let number = match self.args.files > 1 || self.args.rows_per_file.is_some() {
                    true => format!(".{:05}", self.begun),
                    false => String::new(),
                };
                let (table, packed) = (self.table, compression.ending());
                let path = dir.join(format!("{table}{number}.{ending}{packed}"));
                self.check_absent(&path)?;
                let part = dir.join(format!("{table}{number}.{ending}{packed}{UNFINISHED}"));
                let file = File::create(&part).map_err(Failure::of(part.display()))?;
                (Box::new(file), Some((part, path)))
            }
        };
        let file: Box<dyn Write + Send> = Box::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        let packer = Packer::new(compression, file).map_err(Failure::of("compression"))?;
        let mut output = Output { packer, paths };
        output.packer.write_all(&self.head).map_err(Failure::of(output.name()))?;
        Ok(output)
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, line: &[u8]) -> Result<()> {
        let mut at = 0;
        match self.args.rows_per_file {
            Some(rows) if self.rows > 0 && self.rows.is_multiple_of(rows) => {
                let next = self.next_file()?;
                std::mem::replace(&mut self.open[0], next).finish()?;
            }
            Some(_) => {}
            None => at = (self.rows / ROWS_A_TURN) as usize % self.open.len(),
        }
        self.rows += 1;
        let output = &mut self.open[at];
        output.packer.write_all(line).map_err(Failure::of(output.name()))
    }

    /// Completes all files.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.open.drain(..).try_for_each(Output::finish)
    }
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        for (part, _) in self.open.drain(..).filter_map(|output| output.paths) {
            // The dump has failed and says so; what is left has a name of no complete file.
            let _ = fs::remove_file(part);
        }
    }
}

impl Output {
    fn name(&self) -> String {
        self.paths
            .as_ref()
            .map_or_else(|| "standard output".to_owned(), |(part, _)| part.display().to_string())
    }

    fn finish(self) -> Result<()> {
        let name = self.name();
        let mut file = self.packer.finish().map_err(Failure::of(&name))?;
        file.flush().map_err(Failure::of(&name))?;
        drop(file);
        let Some((part, path)) = self.paths else { return Ok(()) };
        fs::rename(&part, &path).map_err(Failure::of(path.display()))
    }
}
