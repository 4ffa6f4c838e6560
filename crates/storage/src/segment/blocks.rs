//! A cache of blocks of keys, for look-ups of single keys.
//!
//! A block is checked when it is read; one that comes from here is not read, copied and checked
//! again. Blocks are of 4 KiB, some of them longer, and stay until others are used more often.

use std::hash::{BuildHasherDefault, DefaultHasher};

use bytes::Bytes;
use freshet_base::ByteSize;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

/// A shorter cache would keep less than one block in each of its parts.
const BYTES_MIN: u64 = 1 << 20;
/// The bytes of most blocks.
const BLOCK_BYTES: u64 = 4096;
/// What a block takes beside its bytes.
const ENTRY_BYTES: u64 = 128;

/// A block: the number of its part of keys, and its own in there.
type Place = (u64, usize);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Place, Bytes> for ByBytes {
    fn weight(&self, _: &Place, block: &Bytes) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

/// The hash is the same in every process, so that the simulation repeats itself.
type Hashed = BuildHasherDefault<DefaultHasher>;

/// Blocks that were read and checked.
pub(super) struct Blocks(Option<Cache<Place, Bytes, ByBytes, Hashed>>);

impl Blocks {
    /// A cache of so many bytes; of none if they are too few.
    pub fn new(size: ByteSize) -> Self {
        if size.bytes() < BYTES_MIN {
            return Self(None);
        }
        let options = OptionsBuilder::new()
            .weight_capacity(size.bytes())
            .estimated_items_capacity((size.bytes() / BLOCK_BYTES) as usize)
            .shards(16)
            .build()
            .expect("both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        Self(Some(Cache::with_options(options, ByBytes, Hashed::default(), lifecycle)))
    }

    /// A block of the part with this number, if it is here.
    pub fn get(&self, part: u64, block: usize) -> Option<Bytes> {
        self.0.as_ref()?.get(&(part, block))
    }

    /// Keeps a block that was checked.
    pub fn keep(&self, part: u64, block: usize, bytes: Bytes) {
        if let Some(cache) = &self.0 {
            cache.insert((part, block), bytes);
        }
    }

    /// The memory that blocks take.
    pub fn memory_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, Cache::weight)
    }
}
