//! The hashes of values in sketches: those of Doris, so that sketches of both can be joined.

/// The seed of [`hll_hash`].
const HLL_SEED: u64 = 0xadc8_3b19;
/// The seed of [`bitmap_hash`].
const BITMAP_SEED: u32 = 104_729;

/// The 32-bit hash of BITMAP_HASH: MurmurHash3 (x86, 32 bits).
pub fn bitmap_hash(bytes: &[u8]) -> u32 {
    let mix = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = BITMAP_SEED;
    for word in words {
        hash ^= mix(u32::from_le_bytes(*word));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= mix(low(rest) as u32) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The 64-bit hash of BITMAP_HASH64: one half of MurmurHash3 (x64).
pub fn bitmap_hash64(bytes: &[u8]) -> u64 {
    let mix = |word: u64| {
        word.wrapping_mul(0x87c3_7b91_1142_53d5).rotate_left(31).wrapping_mul(0x4cf5_ad43_2745_937f)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = 0_u64;
    for word in words {
        hash ^= mix(u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(5).wrapping_add(0x52dc_e729);
    }
    hash ^= mix(low(rest)) ^ bytes.len() as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// The 64-bit hash of HLL_HASH: MurmurHash2 (64A).
pub fn hll_hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = HLL_SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        hash = (hash ^ low(rest)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

/// A few bytes as a number, the first the lowest.
fn low(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
