//! Cuts an input into blocks of whole records.

use std::io::{self, Read};

use memchr::memchr_iter;

use crate::fields::{last_record_end, record_end};
use crate::format::Format;

/// The longest record, as for Stream Load of CSV.
pub const RECORD_BYTES_MAX: usize = 32 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whole records that stand side by side in an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Where it begins in the input, after unpacking.
    pub offset: u64,
    /// The line of the input that it begins with, counted from 1.
    pub line: u64,
    /// How many line feeds it has.
    pub lines: u64,
    pub bytes: Vec<u8>,
}

/// Reads an input block by block. The same input gives the same blocks, in whatever pieces it is
/// read: a block is what ends last in the first `block_bytes` of what is left, or the first record
/// if that is longer.
pub struct Splitter<'f, R> {
    input: R,
    format: &'f Format,
    block_bytes: usize,
    offset: u64,
    line: u64,
    /// What was read and is in no block yet.
    rest: Vec<u8>,
    ended: bool,
}

impl<'f, R: Read> Splitter<'f, R> {
    /// Of an input whose next byte has this offset and is in this line.
    pub fn new(input: R, format: &'f Format, block_bytes: usize, offset: u64, line: u64) -> Self {
        assert!(block_bytes > 0, "a block has bytes");
        Self { input, format, block_bytes, offset, line, rest: Vec::new(), ended: false }
    }

    /// Where the next block begins: its offset and its line.
    pub fn place(&self) -> (u64, u64) {
        (self.offset, self.line)
    }

    /// Where the input was read up to.
    pub fn read_to(&self) -> u64 {
        self.offset + self.rest.len() as u64
    }

    /// Passes over the byte order mark and the first `records` records of an input; returns the
    /// last of them.
    ///
    /// # Errors
    /// Of the input; `InvalidData` for a record that is too long.
    pub fn pass_head(&mut self, records: u64) -> io::Result<Vec<u8>> {
        self.fill(BYTE_ORDER_MARK.len())?;
        if self.rest.starts_with(BYTE_ORDER_MARK) {
            drop(self.take(BYTE_ORDER_MARK.len()));
        }
        let mut last = Vec::new();
        for _ in 0..records {
            let end = self.first_end()?;
            last = self.take(end).bytes;
        }
        Ok(last)
    }

    /// # Errors
    /// Of the input; `InvalidData` for a record that is too long.
    pub fn next(&mut self) -> io::Result<Option<Block>> {
        self.fill(self.block_bytes)?;
        if self.rest.is_empty() {
            return Ok(None);
        }
        // Whether the input has ended must not matter: it is not always known as early.
        let end = match self.rest.len() < self.block_bytes {
            true => self.rest.len(),
            false => match last_record_end(self.format, &self.rest[..self.block_bytes]) {
                Some(end) => end,
                None => self.first_end()?,
            },
        };
        Ok(Some(self.take(end)))
    }

    /// The end of the first record.
    fn first_end(&mut self) -> io::Result<usize> {
        let mut wanted = self.block_bytes;
        loop {
            self.fill(wanted)?;
            if let Some(end) = record_end(self.format, &self.rest, 0) {
                return Ok(end);
            }
            if self.ended {
                return Ok(self.rest.len());
            }
            if self.rest.len() > RECORD_BYTES_MAX {
                let line = self.line;
                let text = format!(
                    "the record at line {line} is longer than {RECORD_BYTES_MAX} bytes; is the \
                     format right, and is every quote closed?"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            wanted = wanted.max(self.rest.len()) * 2;
        }
    }

    /// Reads until there are `bytes` or the input has ended.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        // No byte more: where a block ends must not hang on how much was read for the one before.
        while !self.ended && self.rest.len() < bytes {
            let missing = (bytes - self.rest.len()) as u64;
            let read = self.input.by_ref().take(missing).read_to_end(&mut self.rest)?;
            self.ended = read == 0;
        }
        Ok(())
    }

    fn take(&mut self, end: usize) -> Block {
        let mut behind = Vec::with_capacity(self.block_bytes.max(self.rest.len() - end));
        behind.extend_from_slice(&self.rest[end..]);
        self.rest.truncate(end);
        let bytes = std::mem::replace(&mut self.rest, behind);
        let lines = memchr_iter(b'\n', &bytes).count() as u64;
        let block = Block { offset: self.offset, line: self.line, lines, bytes };
        self.offset += block.bytes.len() as u64;
        self.line += lines;
        block
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::Fields;
    use crate::format::Csv;

    /// Gives what it has in pieces of a few bytes.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(out.len()).min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn blocks(input: &[u8], format: &Format, block_bytes: usize, step: usize) -> Vec<Block> {
        let mut splitter = Splitter::new(Slow(input, step), format, block_bytes, 0, 1);
        std::iter::from_fn(|| splitter.next().unwrap()).collect()
    }

    fn formats() -> Vec<Format> {
        let plain = Csv { enclose: None, ..Csv::default() };
        let escaped = Csv { escape: Some(b'\\'), ..Csv::default() };
        let wide = Csv { separator: b"::".to_vec(), delimiter: b";\n".to_vec(), ..Csv::default() };
        let csv = [Csv::default(), plain, escaped, wide].map(Format::Csv);
        csv.into_iter().chain([Format::Tsv { null: b"\\N".to_vec() }, Format::Json]).collect()
    }

    /// The ends of all records, found one by one in the whole input.
    fn ends(format: &Format, input: &[u8]) -> Vec<usize> {
        let next = |from: &usize| record_end(format, input, *from);
        let first = record_end(format, input, 0);
        std::iter::successors(first, next).collect()
    }

    proptest! {
        #[test]
        fn blocks_are_the_input_cut_at_ends_of_records(
            input in proptest::collection::vec(
                prop::sample::select(b"a1,\"\"\"\n\n\r\\\t:;".to_vec()), 0..300),
            block_bytes in 1usize..80,
            step in 1usize..9,
        ) {
            for format in formats() {
                let blocks = blocks(&input, &format, block_bytes, step);
                let mut at = 0;
                let ends = ends(&format, &input);
                for (index, block) in blocks.iter().enumerate() {
                    prop_assert_eq!(block.offset, at as u64);
                    let before = input[..at].iter().filter(|byte| **byte == b'\n').count();
                    prop_assert_eq!(block.line, before as u64 + 1);
                    prop_assert_eq!(&input[at..at + block.bytes.len()], &block.bytes[..]);
                    at += block.bytes.len();
                    let whole = ends.binary_search(&at).is_ok();
                    prop_assert!(whole || index + 1 == blocks.len(), "{} in {:?}", at, format);
                    // As few blocks as there can be.
                    let records = ends.iter().filter(|end| {
                        (block.offset + 1..at as u64).contains(&(**end as u64))
                    });
                    let is_one_record = records.count() == 0;
                    prop_assert!(block.bytes.len() <= block_bytes || is_one_record);
                }
                prop_assert_eq!(at, input.len());
                prop_assert_eq!(&blocks, &self::blocks(&input, &format, block_bytes, 1000));
                // From the start of any block the rest is cut in the same way.
                for (index, block) in blocks.iter().enumerate() {
                    let rest = &input[block.offset as usize..];
                    let mut again =
                        Splitter::new(rest, &format, block_bytes, block.offset, block.line);
                    let again = again.next().unwrap();
                    prop_assert_eq!(again.as_ref(), Some(block), "block {}", index);
                }
            }
        }

        #[test]
        fn what_was_written_as_csv_is_read_back(
            rows in proptest::collection::vec(
                proptest::collection::vec("[a,\"\n\r\\\\N]{0,4}", 2..3), 1..20),
            block_bytes in 1usize..40,
        ) {
            let quote = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quote).collect::<Vec<_>>().join(",");
            let input = rows.iter().map(|row| line(row) + "\n").collect::<String>();
            let format = Format::Csv(Csv::default());
            let mut fields = Fields::default();
            let mut back = Vec::new();
            for block in blocks(input.as_bytes(), &format, block_bytes, 7) {
                let mut from = 0;
                while let Some(end) = record_end(&format, &block.bytes, from) {
                    fields.read(&format, &block.bytes[from..end]).unwrap();
                    let text = |field: Option<&[u8]>| {
                        String::from_utf8(field.unwrap().to_vec()).unwrap()
                    };
                    back.push(fields.iter().map(text).collect::<Vec<_>>());
                    from = end;
                }
            }
            prop_assert_eq!(back, rows);
        }
    }

    #[test]
    fn a_record_that_never_ends_is_refused() {
        let format = Format::Csv(Csv::default());
        let input = [b"1,\"".to_vec(), vec![b'x'; 3 * RECORD_BYTES_MAX]].concat();
        let mut splitter = Splitter::new(&input[..], &format, 1 << 20, 0, 1);
        let error = splitter.next().unwrap_err();
        assert!(error.to_string().contains("the record at line 1 is longer"), "{error}");
    }

    #[test]
    fn the_head_is_no_part_of_a_block() {
        let format = Format::Csv(Csv::default());
        let input = b"\xef\xbb\xbfid,\"na\nme\"\n1,a\n";
        let mut splitter = Splitter::new(&input[..], &format, 100, 0, 1);
        assert_eq!(splitter.pass_head(1).unwrap(), b"id,\"na\nme\"\n");
        let block = splitter.next().unwrap().unwrap();
        assert_eq!((block.offset, block.line, &block.bytes[..]), (14, 3, &b"1,a\n"[..]));
    }
}
