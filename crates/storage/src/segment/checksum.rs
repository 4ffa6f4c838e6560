//! CRC-32C of each 64 KiB block of a file's data, so that any part can be read and verified
//! separately.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The unit of verification.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksums of a file's data, by block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks(Vec<u32>);

impl Blocks {
    /// The text in the footer.
    pub fn encode(&self) -> String {
        self.0.iter().map(|sum| format!("{sum:08x}")).collect()
    }

    /// Parses the text from the footer; `None` if it is invalid for this length of data.
    pub fn decode(text: &str, data_bytes: u64) -> Option<Self> {
        let digits = text.as_bytes().chunks_exact(8);
        if !digits.remainder().is_empty() {
            return None;
        }
        let sum = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let sums = digits.map(sum).collect::<Option<Vec<_>>>()?;
        (sums.len() as u64 == data_bytes.div_ceil(BLOCK_BYTES as u64)).then_some(Self(sums))
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }

    /// Verifies whole blocks (the last of the file may be short) starting with block `first`;
    /// returns the index of the first damaged block.
    pub fn first_bad(&self, first: usize, bytes: &[u8]) -> Option<usize> {
        let good = |(at, block): (usize, &[u8])| self.0.get(first + at) == Some(&crc32c(block));
        bytes.chunks(BLOCK_BYTES).enumerate().position(|block| !good(block)).map(|at| first + at)
    }
}

/// Computes [`Blocks`] while data is written.
pub(crate) struct Summer {
    blocks: Vec<u32>,
    digest: Digest,
    in_block: usize,
}

impl Summer {
    pub fn new() -> Self {
        Self { blocks: Vec::new(), digest: Digest::new(Crc32Iscsi), in_block: 0 }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.in_block));
            self.digest.update(now);
            self.in_block += now.len();
            if self.in_block == BLOCK_BYTES {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn end_block(&mut self) {
        self.blocks.push(self.digest.finalize_reset() as u32);
        self.in_block = 0;
    }

    pub fn finish(&mut self) -> Blocks {
        if self.in_block > 0 {
            self.end_block();
        }
        Blocks(std::mem::take(&mut self.blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_same_however_the_bytes_came() {
        let bytes = (0..3 * BLOCK_BYTES + 17).map(|at| at as u8).collect::<Vec<_>>();
        let mut summer = Summer::new();
        for piece in bytes.chunks(1000) {
            summer.update(piece);
        }
        let blocks = summer.finish();
        let whole = Blocks(bytes.chunks(BLOCK_BYTES).map(crc32c).collect());
        assert_eq!(blocks, whole);
        let read = Blocks::decode(&blocks.encode(), bytes.len() as u64).unwrap();
        assert_eq!(read, whole);
        assert_eq!(read.first_bad(0, &bytes), None);
        assert_eq!(read.first_bad(1, &bytes[BLOCK_BYTES..]), None);
        let mut bad = bytes.clone();
        bad[2 * BLOCK_BYTES + 5] ^= 1;
        assert_eq!(read.first_bad(1, &bad[BLOCK_BYTES..]), Some(2));
    }

    #[test]
    fn checksums_of_another_length_are_refused() {
        assert_eq!(Blocks::decode("0000000", 1), None);
        assert_eq!(Blocks::decode("00000000", BLOCK_BYTES as u64 + 1), None);
        assert_eq!(Blocks::decode("0000000g", 1), None);
        assert!(Blocks::decode("", 0).is_some());
    }
}
