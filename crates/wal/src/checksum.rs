//! CRC-32C seeded with a term's salt, so that bytes of other terms never match.

use crc_fast::{CrcAlgorithm, Digest};

/// Computes the checksums of one term.
#[derive(Clone, Copy)]
pub(crate) struct Salted {
    /// The state after the salt, from which every checksum continues.
    seeded: Digest,
}

impl Salted {
    pub(crate) fn new(salt: u64) -> Self {
        let mut seeded = Digest::new(CrcAlgorithm::Crc32Iscsi);
        seeded.update(&salt.to_le_bytes());
        Self { seeded }
    }

    /// The checksum of the concatenated `parts`.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> u32 {
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
        let salt = 0x0123_4567_89ab_cdef_u64;
        let mut plain = salt.to_le_bytes().to_vec();
        plain.extend_from_slice(b"hello log");
        assert_eq!(Salted::new(salt).of(&[b"hello", b" ", b"log"]), crc_fast::crc32_iscsi(&plain));
        assert_ne!(Salted::new(salt).of(&[b"hello"]), Salted::new(salt + 1).of(&[b"hello"]));
    }
}
