//! The keys of a segment's rows, in its file behind the data: which rows have a key, without
//! reading the data. Numbers are little endian; `docs/rfc/0011-keys-on-disk.md` has the reasons.
//!
//! ```text
//! blocks     sorted keys in blocks of about 4 KiB
//! padding    zeros, so that the filter begins at a multiple of 4096 in the file
//! filter     which keys there may be, in pages of 4096 bytes
//! indexes    a part like this one for each further index
//! directory  what the blocks are, the separators between them, and where the indexes are
//! ```
//!
//! Segments of tables without keys have the indexes and the directory alone.
//!
//! Rows that are stored beside their keys stand in front of all that, among the data, each behind
//! its CRC-32C.
//!
//! Blocks and pages have their checksums in themselves. That of the directory stands in
//! [`KeyPartMeta`](freshet_meta::KeyPartMeta), with where it is: so the directory is one read, and
//! the footer is not needed.

mod block;
mod candidates;
mod directory;
mod filter;
mod index;
mod reader;
#[cfg(test)]
mod tests;
mod within;
mod writer;

pub use index::IndexWriter;
pub use reader::{Found, FoundValue, KeyPart, StoredRow};
pub use within::ValueRange;
pub use writer::{KeyPartWriter, indexes_alone};

/// The hash that filters are made of. It is on disk, so it never changes: from the length of the
/// key on, each word of eight bytes, the last one padded with zeros, turns the hash into
/// `fold(hash ^ word)`; `fold` is the upper half of the product with a constant xor the lower.
pub fn hash(key: &[u8]) -> u64 {
    let fold = |hash: u64| {
        let product = u128::from(hash) * 0xd6e8_feb8_6659_fd93;
        (product >> 64) as u64 ^ product as u64
    };
    let seed = key.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let words = key.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    fold(words.fold(seed, |hash, word| fold(hash ^ word)))
}

/// Takes parts of bytes that come from a file: `None` where they end too early.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        self.0.split_off(..length)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.first_chunk().copied()
    }

    fn u16(&mut self) -> Option<usize> {
        self.array().map(|bytes| usize::from(u16::from_le_bytes(bytes)))
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length of two bytes, and so many bytes.
    fn key(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(length)
    }
}

/// Appends what [`Parts::key`] reads.
fn put_key(key: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(key.len()).expect("keys have a limit");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(key);
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
