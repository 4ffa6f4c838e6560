//! E2: which filter, for look-ups in 16 sorted runs.

use std::hint::black_box;
use std::time::Duration;

use xorf::{BinaryFuse8, Filter};

use crate::{Random, least, nanos_each, setting, timed_on_core};

const RUNS: usize = 16;
/// Keys that are looked up together.
const BATCH_KEYS: usize = 1000;
/// What a block costs that was read in vain: in the page cache (measured by `rows`), and on a
/// device that takes 80 us for a read.
const WARM_NANOS: f64 = 800.0;
const COLD_NANOS: f64 = 80_000.0;

const WORDS: usize = 8;
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

/// A block of 32 bytes, in each word of which a key sets a bit.
#[repr(align(32))]
#[derive(Clone, Copy)]
struct Block([u32; WORDS]);

struct SplitBlock(Vec<Block>);

impl SplitBlock {
    fn new(hashes: &[u64], bits_each: usize) -> Self {
        let blocks = (hashes.len() * bits_each).div_ceil(256).max(1);
        let mut filter = Self(vec![Block([0; WORDS]); blocks]);
        for &hash in hashes {
            let at = filter.block(hash);
            for (word, bit) in filter.0[at].0.iter_mut().zip(bits(hash)) {
                *word |= bit;
            }
        }
        filter
    }

    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.0.len() as u64) >> 32) as usize
    }

    fn prefetch(&self, hash: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch of any address does nothing but warm a cache.
            unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const self.0[self.block(hash)]).cast()) };
        }
    }

    fn contains(&self, hash: u64) -> bool {
        let block = &self.0[self.block(hash)].0;
        block.iter().zip(bits(hash)).fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
    }
}

fn bits(hash: u64) -> [u32; WORDS] {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

struct Measured {
    probe_nanos: f64,
    /// Of 16 runs, those that are looked at in vain.
    false_hits: f64,
}

/// Looks keys up in batches, run by run: those that are nowhere.
fn measure(
    absent: &[u64],
    prefetch: impl Fn(usize, u64),
    contains: impl Fn(usize, u64) -> bool,
) -> Measured {
    let mut hits = 0;
    let time = least(|| {
        let (time, found) = timed_on_core(|| {
            let batches = absent.chunks(BATCH_KEYS);
            let found = |batch: &[u64]| -> usize {
                let run = |run| {
                    batch.iter().for_each(|&hash| prefetch(run, hash));
                    batch.iter().filter(|&&hash| contains(run, hash)).count()
                };
                (0..RUNS).map(run).sum()
            };
            batches.map(found).sum::<usize>()
        });
        hits = black_box(found);
        time
    });
    let (probe_nanos, count) = (nanos_each(time, absent.len()), absent.len() as f64);
    Measured { probe_nanos, false_hits: hits as f64 / count }
}

fn report(name: &str, keys: usize, bytes: usize, build: Duration, measured: &Measured) {
    let Measured { probe_nanos, false_hits } = measured;
    let with = |nanos: f64| probe_nanos + false_hits * nanos;
    println!(
        "{name}: {:.2} bytes a key, {:.0} ns to build; 16 probes {probe_nanos:.0} ns, \
         {false_hits:.4} false hits: {:.0} ns a key if blocks are in memory, {:.0} if not",
        bytes as f64 / keys as f64,
        nanos_each(build, keys),
        with(WARM_NANOS),
        with(COLD_NANOS),
    );
}

pub fn run() {
    let count = setting("KEYS", 4_000_000);
    let mut random = Random::new();
    let runs: Vec<Vec<u64>> =
        (0..RUNS).map(|_| (0..count / RUNS).map(|_| random.next()).collect()).collect();
    let absent = (0..200_000).map(|_| random.next()).collect::<Vec<_>>();
    for bits_each in [12, 16] {
        let (build, filters) = timed_on_core(|| {
            runs.iter().map(|run| SplitBlock::new(run, bits_each)).collect::<Vec<_>>()
        });
        assert!(runs.iter().zip(&filters).all(|(run, filter)| filter.contains(run[0])));
        let bytes = filters.iter().map(|filter| filter.0.len() * size_of::<Block>()).sum();
        let contains = |run: usize, hash| filters[run].contains(hash);
        let measured = measure(&absent, |_, _| (), contains);
        report(&format!("split blocks of {bits_each} bits"), count, bytes, build, &measured);
        let measured = measure(&absent, |run, hash| filters[run].prefetch(hash), contains);
        let name = format!("split blocks of {bits_each} bits, prefetched");
        report(&name, count, bytes, build, &measured);
    }
    let (build, filters) = timed_on_core(|| {
        runs.iter().map(|run| BinaryFuse8::try_from(run.as_slice()).unwrap()).collect::<Vec<_>>()
    });
    let measured = measure(&absent, |_, _| (), |run, hash| filters[run].contains(&hash));
    let bytes = filters.iter().map(|filter| filter.fingerprints.len()).sum();
    report("binary fuse of 8 bits", count, bytes, build, &measured);
}
