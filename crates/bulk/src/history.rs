//! Remembers which blocks of an input have arrived, in a file beside nothing else.
//!
//! A line is written, and synced, when the server has acknowledged a block. A block that arrived
//! just before the process was killed has no line: its label tells then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Result};

/// What a history is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    pub input: String,
    pub table: String,
    /// What decides where blocks end and what is in their rows; it must not change in a job.
    pub options: String,
    /// Tells labels of a repeated load from those of the first.
    pub round: u64,
}

/// A block that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrived {
    pub offset: u64,
    pub bytes: u64,
    pub lines: u64,
    pub rows: u64,
    pub rejected: u64,
    /// Of its bytes.
    pub crc: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Head(Head),
    Arrived(Arrived),
    /// All blocks have arrived.
    Whole,
}

/// The history of one input; it belongs to one process at a time.
pub struct History {
    path: PathBuf,
    /// `None` for an input that nobody could load again.
    file: Option<File>,
    head: Head,
    /// By offset.
    arrived: Vec<Arrived>,
    whole: bool,
}

impl History {
    /// Of an input that cannot be read again.
    pub fn unwritten(head: Head) -> Self {
        Self { path: PathBuf::new(), file: None, head, arrived: Vec::new(), whole: false }
    }

    /// Opens the history in `path`, or begins one. Where blocks have arrived, the head is what it
    /// was when they did.
    ///
    /// # Errors
    /// When another process has it, it cannot be read or written, or is none.
    pub fn open(path: &Path, head: Head) -> Result<Self> {
        let shown = path.display().to_string();
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(Failure::of(&shown))?;
        if let Err(error) = file.try_lock() {
            return Err(match error {
                fs::TryLockError::WouldBlock => {
                    Failure::failed(format!("another process loads {} just now", head.input))
                }
                fs::TryLockError::Error(error) => Failure::of(&shown)(error),
            });
        }
        let (path, arrived) = (path.to_owned(), Vec::new());
        let mut history = Self { path, file: Some(file), head, arrived, whole: false };
        let kept = history.read(&shown)?;
        let file = history.file.as_mut().expect("it was opened");
        // The end of a line that was being written when the process was killed.
        file.set_len(kept)
            .and_then(|()| file.seek(SeekFrom::Start(kept)))
            .map_err(Failure::of(&shown))?;
        if history.arrived.is_empty() {
            let head = history.head.clone();
            history.restart(head)?;
        }
        Ok(history)
    }

    /// Reads all whole lines; returns where they end.
    fn read(&mut self, shown: &str) -> Result<u64> {
        let mut lines = BufReader::new(self.file.as_ref().expect("it was opened"));
        let (mut kept, mut text) = (0, String::new());
        loop {
            text.clear();
            let count = lines.read_line(&mut text).map_err(Failure::of(shown))?;
            if count == 0 || !text.ends_with('\n') {
                break;
            }
            let line = serde_json::from_str(&text).map_err(|error| {
                Failure::failed(format!(
                    "{shown} is no history of a load ({error}); move it away, and what it was \
                     about will be loaded from the start"
                ))
            })?;
            match line {
                Line::Head(head) => self.head = head,
                Line::Arrived(block) => self.arrived.push(block),
                Line::Whole => self.whole = true,
            }
            kept += count as u64;
        }
        self.arrived.sort_by_key(|block| block.offset);
        self.arrived.dedup_by_key(|block| block.offset);
        Ok(kept)
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Forgets all blocks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn restart(&mut self, head: Head) -> Result<()> {
        self.arrived.clear();
        self.whole = false;
        self.head = head.clone();
        if let Some(file) = &mut self.file {
            file.set_len(0)
                .and_then(|()| file.rewind())
                .map_err(Failure::of(self.path.display()))?;
        }
        self.write(&Line::Head(head))
    }

    /// Remembers a block.
    ///
    /// # Errors
    /// When it cannot be written; the block's label remembers it then.
    pub fn arrived(&mut self, block: Arrived) -> Result<()> {
        let at = self.arrived.partition_point(|known| known.offset < block.offset);
        self.arrived.insert(at, block);
        self.write(&Line::Arrived(block))
    }

    /// Remembers that all have arrived.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        self.whole = true;
        self.write(&Line::Whole)
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let text = serde_json::to_string(line).expect("it is plain data") + "\n";
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(Failure::of(self.path.display()))
    }

    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The block at `offset`, if it has arrived.
    pub fn at(&self, offset: u64) -> Option<&Arrived> {
        let at = self.arrived.binary_search_by_key(&offset, |block| block.offset).ok()?;
        self.arrived.get(at)
    }

    pub fn blocks(&self) -> &[Arrived] {
        &self.arrived
    }

    /// Where the blocks end that stand without a gap from `offset` on, and how many line feeds
    /// they have.
    pub fn front(&self, offset: u64) -> (u64, u64) {
        let (mut end, mut lines) = (offset, 0);
        while let Some(block) = self.at(end).filter(|block| block.bytes > 0) {
            end += block.bytes;
            lines += block.lines;
        }
        (end, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let (input, table) = ("a.csv".to_owned(), "d.t".to_owned());
        Head { input, table, options: "csv".to_owned(), round: 0 }
    }

    fn block(offset: u64) -> Arrived {
        Arrived { offset, bytes: 10, lines: 2, rows: 2, rejected: 0, crc: 7 }
    }

    #[test]
    fn it_holds_through_a_kill_in_the_middle_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        let mut history = History::open(&path, head()).unwrap();
        for offset in [20, 0, 10, 50] {
            history.arrived(block(offset)).unwrap();
        }
        drop(history);
        let text = fs::read_to_string(&path).unwrap();
        // Cut within the line of the block at 50.
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut history = History::open(&path, Head { round: 5, ..head() }).unwrap();
        assert_eq!(history.head(), &head());
        assert_eq!(history.front(0), (30, 6));
        assert_eq!((history.at(50), history.is_whole()), (None, false));
        history.arrived(block(50)).unwrap();
        history.finish().unwrap();
        drop(history);
        let history = History::open(&path, head()).unwrap();
        assert_eq!((history.at(50), history.is_whole()), (Some(&block(50)), true));
    }

    #[test]
    fn it_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        let _history = History::open(&path, head()).unwrap();
        let Err(failure) = History::open(&path, head()) else { panic!("opened twice") };
        assert_eq!(failure.message, "another process loads a.csv just now");
    }
}
