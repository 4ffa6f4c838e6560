//! Writes the key part of a segment.

use freshet_meta::KeyPartMeta;

use super::block::BlockBuilder;
use super::directory::Directory;
use super::{filter, hash, shared_bytes};
use crate::segment::checksum::crc32c;

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
        if !self.block.takes(key) {
            self.end_block();
            let separator = &key[..=shared_bytes(&self.last, key)];
            self.separator = separator.to_vec();
        }
        self.block.push(key);
    }

    /// The number of rows.
    pub fn rows(&self) -> u32 {
        self.directory.rows() + self.block.rows()
    }

    /// About the length that the part would have if it ended now.
    pub fn bytes(&self) -> u64 {
        let filter = filter::pages(self.hashes.len()) * filter::PAGE_BYTES;
        self.out.len() as u64 + filter as u64 + self.directory.memory_bytes()
    }

    /// The part, if it begins at `start` in the file.
    ///
    /// # Panics
    /// When there are no keys.
    pub fn finish(mut self, start: u64) -> (Vec<u8>, KeyPartMeta) {
        self.end_block();
        let Self { mut out, mut directory, last, hashes, .. } = self;
        let page_bytes = filter::PAGE_BYTES as u64;
        let filter_start = (start + out.len() as u64).next_multiple_of(page_bytes) - start;
        out.resize(filter_start as usize, 0);
        let pages = u32::try_from(filter::pages(hashes.len()));
        directory.filter_start = filter_start;
        directory.filter_pages = pages.expect("a segment has as many keys as 32 bits number");
        directory.max = last;
        filter::write(&hashes, &mut out);
        let directory_start = out.len();
        directory.encode(&mut out);
        let encoded = &out[directory_start..];
        let directory_bytes = u32::try_from(encoded.len()).expect("it is a thousandth of its keys");
        let directory_checksum = crc32c(encoded);
        let bytes = out.len() as u64;
        (out, KeyPartMeta { start, bytes, directory_bytes, directory_checksum })
    }

    fn end_block(&mut self) {
        let (start, rows) = (self.out.len(), self.block.rows());
        self.last = self.block.last().expect("a segment has rows").to_vec();
        self.block.finish(&mut self.out);
        let bytes = u32::try_from(self.out.len() - start).expect("a block ends at 4 KiB");
        let pushed = self.directory.push(bytes, rows, &self.separator);
        pushed.expect("the rows of a segment have numbers of 32 bits");
    }
}
