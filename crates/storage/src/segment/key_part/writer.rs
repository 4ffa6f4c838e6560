//! Writes the key part of a segment.

use freshet_base::ColumnId;
use freshet_meta::KeyPartMeta;

use super::block::BlockBuilder;
use super::directory::Directory;
use super::index::IndexWriter;
use super::{filter, hash, shared_bytes};
use crate::segment::checksum::crc32c;

/// A block ends when so many bytes of its rows are to be stored.
const STORED_BYTES_MAX: usize = 16 << 20;

/// Gathers the keys of a segment's rows. Until it ends, it holds the blocks and eight bytes of each
/// key.
#[derive(Default)]
pub struct KeyPartWriter {
    block: BlockBuilder,
    /// The blocks that are full.
    out: Vec<u8>,
    directory: Directory,
    /// The greatest key of the last full block.
    last: Vec<u8>,
    /// The separator in front of the block that is being filled.
    separator: Vec<u8>,
    hashes: Vec<u64>,
    /// Rows to store: those of full blocks and behind them those of the block that is being filled.
    stored: Vec<u8>,
    /// Where the rows of the block that is being filled begin in `stored`.
    stored_from: usize,
    /// The blocks whose rows have a place in the file.
    placed: usize,
}

impl KeyPartWriter {
    /// Appends the key of the next row.
    ///
    /// # Panics
    /// When it is below the key of the row before.
    pub fn push(&mut self, key: &[u8]) {
        match self.block.last() {
            Some(before) if before == key => return self.block.repeat(),
            Some(before) => assert!(before < key, "rows come in the order of their keys"),
            None => self.directory.min = key.to_vec(),
        }
        self.hashes.push(hash(key));
        self.place(key);
    }

    /// Appends an entry of an index: a value of `value_bytes`, which the filter finds, and what
    /// decides between equal values.
    ///
    /// # Panics
    /// When it is not above the entry before.
    pub(super) fn push_entry(&mut self, entry: &[u8], value_bytes: usize) {
        match self.block.last() {
            Some(before) => assert!(before < entry, "entries of an index come in their order"),
            None => self.directory.min = entry.to_vec(),
        }
        let hash = hash(&entry[..value_bytes]);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
        self.place(entry);
    }

    /// Puts a key, which is above all others, into the last block or the next one.
    fn place(&mut self, key: &[u8]) {
        let is_full = self.stored.len() - self.stored_from >= STORED_BYTES_MAX;
        if !self.block.takes(key) || is_full {
            self.end_block();
            let separator = &key[..=shared_bytes(&self.last, key)];
            self.separator = separator.to_vec();
        }
        self.block.push(key);
    }

    /// Appends the next row, to be stored beside its key.
    ///
    /// # Panics
    /// When its key is below that of the row before, or when rows before it are not stored.
    pub fn push_row(&mut self, key: &[u8], row: &[u8]) {
        if self.block.last() == Some(key) {
            // The later one counts, and this one will not be asked for.
            let end = self.block.forget_stored() as usize;
            self.stored.truncate(self.stored_from + end);
        }
        self.push(key);
        self.stored.extend_from_slice(&crc32c(row).to_le_bytes());
        self.stored.extend_from_slice(row);
        let end = u32::try_from(self.stored.len() - self.stored_from);
        self.block.store(end.expect("a block ends at 16 MiB of rows, and no row has a GiB"));
    }

    /// Takes the rows of full blocks, which the caller writes at `start` in the file.
    pub fn take_stored(&mut self, start: u64) -> Vec<u8> {
        let starts = &mut self.directory.stored_starts;
        starts[self.placed..].iter_mut().for_each(|at| *at += start);
        self.placed = starts.len();
        let rest = self.stored.split_off(self.stored_from);
        self.stored_from = 0;
        std::mem::replace(&mut self.stored, rest)
    }

    /// Takes the rows that are left, as [`Self::take_stored`]; no others may come.
    pub fn end_stored(&mut self, start: u64) -> Vec<u8> {
        if self.block.rows() > 0 {
            self.end_block();
        }
        self.take_stored(start)
    }

    /// The number of rows.
    pub fn rows(&self) -> u32 {
        self.directory.rows() + self.block.rows()
    }

    /// About the length that the part would have if it ended now.
    pub fn bytes(&self) -> u64 {
        let filter = filter::pages(self.hashes.len()) * filter::PAGE_BYTES;
        (self.out.len() + filter + self.stored.len()) as u64 + self.directory.memory_bytes()
    }

    /// The part with those of the segment's indexes inside, if it begins at `start` in the file.
    ///
    /// # Panics
    /// When there are no keys.
    pub fn finish(mut self, start: u64, indexes: Vec<IndexWriter>) -> (Vec<u8>, KeyPartMeta) {
        if self.block.rows() > 0 {
            self.end_block();
        }
        assert!(self.stored.is_empty(), "rows are stored before the keys end");
        let Self { mut out, mut directory, last, hashes, .. } = self;
        let page_bytes = filter::PAGE_BYTES as u64;
        let filter_start = (start + out.len() as u64).next_multiple_of(page_bytes) - start;
        out.resize(filter_start as usize, 0);
        let pages = u32::try_from(filter::pages(hashes.len()));
        directory.filter_start = filter_start;
        directory.filter_pages = pages.expect("a segment has as many keys as 32 bits number");
        directory.max = last;
        filter::write(&hashes, &mut out);
        end_part(out, directory, start, indexes)
    }

    fn end_block(&mut self) {
        let (start, rows) = (self.out.len(), self.block.rows());
        self.last = self.block.last().expect("a segment has rows").to_vec();
        if self.stored.len() > self.stored_from {
            self.directory.stored_starts.push(self.stored_from as u64);
            self.stored_from = self.stored.len();
        }
        self.block.finish(&mut self.out);
        let bytes = u32::try_from(self.out.len() - start).expect("a block ends at 4 KiB");
        let pushed = self.directory.push(bytes, rows, &self.separator);
        pushed.expect("the rows of a segment have numbers of 32 bits");
    }
}

/// The part of a segment of a table without keys: its indexes alone, if it begins at `start` in the
/// file.
///
/// # Panics
/// When there are no indexes.
pub fn indexes_alone(start: u64, indexes: Vec<IndexWriter>) -> (Vec<u8>, KeyPartMeta) {
    let rows = indexes.first().expect("there are indexes").rows();
    end_part(Vec::new(), Directory::of_indexes(rows), start, indexes)
}

/// Appends the indexes and the directory to the rest of a part.
fn end_part(
    mut out: Vec<u8>,
    mut directory: Directory,
    start: u64,
    indexes: Vec<IndexWriter>,
) -> (Vec<u8>, KeyPartMeta) {
    for index in indexes {
        assert_eq!(index.rows(), directory.rows(), "each row of a segment is in its indexes");
        let at = out.len() as u64;
        let (columns, part, meta) = write_index(&index, start + at);
        out.extend_from_slice(&part);
        directory.indexes.push((columns, KeyPartMeta { start: at, ..meta }));
    }
    let directory_start = out.len();
    directory.encode(&mut out);
    let encoded = &out[directory_start..];
    let directory_bytes = u32::try_from(encoded.len()).expect("it is a thousandth of its keys");
    let directory_checksum = crc32c(encoded);
    let bytes = out.len() as u64;
    (out, KeyPartMeta { start, bytes, directory_bytes, directory_checksum })
}

/// The columns of an index, and the part of the file that it is if that begins at `start`.
fn write_index(index: &IndexWriter, start: u64) -> (Vec<ColumnId>, Vec<u8>, KeyPartMeta) {
    let (mut part, mut entry) = (KeyPartWriter::default(), Vec::new());
    for (value, row) in index.entries() {
        entry.clear();
        entry.extend_from_slice(value);
        entry.extend_from_slice(&row.to_be_bytes());
        part.push_entry(&entry, value.len());
    }
    let (bytes, meta) = part.finish(start, Vec::new());
    (index.columns().to_vec(), bytes, meta)
}
