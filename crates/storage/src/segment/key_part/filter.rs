//! A split-block Bloom filter of 16 bits a key: a key sets one bit in each word of one block.
//!
//! It is made of pages of 4096 bytes, so that a page can be read and checked alone: 127 blocks of
//! eight words of 32 bits, zeros, and the CRC-32C of all of that.

use crate::segment::checksum::crc32c;

pub(super) const PAGE_BYTES: usize = 4096;
const KEY_BITS: usize = 16;
const WORDS: usize = 8;
const BLOCK_BYTES: usize = WORDS * 4;
const PAGE_BLOCKS: usize = (PAGE_BYTES - CHECKSUM_BYTES) / BLOCK_BYTES;
const CHECKSUM_BYTES: usize = 4;

/// What chooses the bit in each word; those of Parquet.
const SALTS: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Where the block of a key is.
pub(super) struct Place {
    pub page: usize,
    block: usize,
}

/// The number of pages of a filter for so many keys.
pub(super) fn pages(keys: usize) -> usize {
    (keys * KEY_BITS).div_ceil(PAGE_BLOCKS * BLOCK_BYTES * 8).max(1)
}

/// Where the block of a key with this hash is, in a filter of so many pages.
#[inline]
pub(super) fn place(hash: u64, pages: usize) -> Place {
    let blocks = (pages * PAGE_BLOCKS) as u64;
    let block = (((hash >> 32) * blocks) >> 32) as usize;
    Place { page: block / PAGE_BLOCKS, block: block % PAGE_BLOCKS }
}

#[inline]
fn bits(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

/// Whether a key with this hash may be among the keys; `page` is the page of its place.
#[inline]
pub(super) fn may_contain(page: &[u8], place: &Place, hash: u64) -> bool {
    let block = &page[place.block * BLOCK_BYTES..][..BLOCK_BYTES];
    let words = block.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    words.zip(bits(hash)).fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
}

/// Whether a page is as it was written.
pub(super) fn is_whole(page: &[u8]) -> bool {
    let Some((content, checksum)) = page.split_last_chunk() else { return false };
    page.len() == PAGE_BYTES && crc32c(content) == u32::from_le_bytes(*checksum)
}

/// Appends the filter of keys with these hashes.
pub(super) fn write(hashes: &[u64], out: &mut Vec<u8>) {
    let (start, pages) = (out.len(), pages(hashes.len()));
    out.resize(start + pages * PAGE_BYTES, 0);
    let filter = &mut out[start..];
    for &hash in hashes {
        let place = place(hash, pages);
        let block = &mut filter[place.page * PAGE_BYTES + place.block * BLOCK_BYTES..];
        for (word, bit) in block.as_chunks_mut().0.iter_mut().zip(bits(hash)) {
            *word = (u32::from_le_bytes(*word) | bit).to_le_bytes();
        }
    }
    for page in filter.chunks_mut(PAGE_BYTES) {
        let (content, checksum) = page.split_last_chunk_mut().expect("a page has a checksum");
        *checksum = crc32c(content).to_le_bytes();
    }
}
