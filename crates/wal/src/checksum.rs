//! CRC-32C seeded with a term's salt, so that bytes of other terms never match.

use crc_fast::{CrcAlgorithm, Digest};

/// The salt of one term, which computes its checksums.
#[derive(Clone, Copy)]
pub(crate) struct Salt {
    /// The state after the bits of the salt, from which every checksum continues.
    seeded: Digest,
}

impl Salt {
    pub(crate) fn new(bits: u64) -> Self {
        let mut seeded = Digest::new(CrcAlgorithm::Crc32Iscsi);
        seeded.update(&bits.to_le_bytes());
        Self { seeded }
    }

    /// The checksum of the concatenated `parts`.
    pub(crate) fn checksum(&self, parts: &[&[u8]]) -> u32 {
        let mut digest = self.seeded;
        for part in parts {
            digest.update(part);
        }
        u32::try_from(digest.finalize()).expect("a CRC-32 has 32 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc32c_of_salt_and_bytes() {
        let bits = 0x0123_4567_89ab_cdef_u64;
        let mut plain = bits.to_le_bytes().to_vec();
        plain.extend_from_slice(b"hello log");
        assert_eq!(
            Salt::new(bits).checksum(&[b"hello", b" ", b"log"]),
            crc_fast::crc32_iscsi(&plain)
        );
        assert_ne!(
            Salt::new(bits).checksum(&[b"hello"]),
            Salt::new(bits + 1).checksum(&[b"hello"])
        );
    }
}
