//! Which keys may be in a segment: what its filter tells, where that is worth to be asked.

use std::ops::Range;

use super::reader::{KeyPart, READS_MAX};
use super::{filter, hash};
use crate::error::Result;
use crate::segment::footers::WaitMode;

/// Of many keys, so many are asked the filter for before the others are.
const ASKED_FIRST: usize = 64;
/// Keys a block from which on the filter may be left out.
const DENSE_KEYS: usize = 4;

/// A key that may be in the segment.
struct Candidate {
    at: usize,
    hash: u64,
}

/// Whether a filter of so many pages does not exclude the key with this hash.
fn passes(filter: &[u8], pages: usize, hash: u64) -> bool {
    let place = filter::place(hash, pages);
    filter::may_contain(&filter[place.page * filter::PAGE_BYTES..], &place, hash)
}

impl KeyPart {
    /// Whether these are many keys a block, and most of them likely are there: the filter tells
    /// less of such than it costs, as their blocks are read anyway.
    fn are_dense(&self, range: &Range<usize>, keys: &[&[u8]], filter: &[u8]) -> bool {
        if range.len() < ASKED_FIRST {
            return false;
        }
        let first = self.directory.block_of(keys[range.start]);
        let blocks = self.directory.block_of(keys[range.end - 1]) + 1 - first;
        if range.len() < DENSE_KEYS * blocks {
            return false;
        }
        let pages = self.directory.filter_pages as usize;
        let asked = range.clone().step_by(range.len() / ASKED_FIRST).take(ASKED_FIRST);
        let passing = asked.filter(|&at| passes(filter, pages, hash(keys[at]))).count();
        passing >= ASKED_FIRST / 4 * 3
    }

    /// Whether a key may be in the segment, as far as that is known without a read.
    pub fn may_have_key(&self, key: &[u8]) -> bool {
        let (min, max) = (self.directory.min.as_slice(), self.directory.max.as_slice());
        let pages = self.directory.filter_pages as usize;
        let filter = self.filter.as_ref();
        min <= key && key <= max && filter.is_none_or(|filter| passes(filter, pages, hash(key)))
    }

    /// The numbers of the keys that may be in the segment.
    pub(super) async fn candidates(
        &self,
        keys: &[&[u8]],
        wait_mode: WaitMode,
    ) -> Result<Vec<usize>> {
        let (min, max) = (self.directory.min.as_slice(), self.directory.max.as_slice());
        let from = keys.partition_point(|key| *key < min);
        let to = keys.partition_point(|key| *key <= max);
        self.may_have(from..to.max(from), keys, wait_mode).await
    }

    /// The numbers of those of some keys that the filter does not exclude, ascending.
    pub(super) async fn may_have(
        &self,
        range: Range<usize>,
        keys: &[&[u8]],
        wait_mode: WaitMode,
    ) -> Result<Vec<usize>> {
        let pages = self.directory.filter_pages as usize;
        if let Some(filter) = &self.filter {
            if self.are_dense(&range, keys, filter) {
                return Ok(range.collect());
            }
            return Ok(range.filter(|&at| passes(filter, pages, hash(keys[at]))).collect());
        }
        let mut candidates =
            range.map(|at| Candidate { at, hash: hash(keys[at]) }).collect::<Vec<_>>();
        let page_of = |candidate: &Candidate| filter::place(candidate.hash, pages).page;
        candidates.sort_unstable_by_key(page_of);
        let by_page = candidates.chunk_by(|a, b| page_of(a) == page_of(b)).collect::<Vec<_>>();
        let mut left = Vec::new();
        for groups in by_page.chunks(READS_MAX) {
            let numbers = groups.iter().map(|group| page_of(&group[0])).collect::<Vec<_>>();
            let ranges = numbers.iter().map(|&at| self.page(at)).collect();
            let read = self.read(ranges, wait_mode).await?;
            for ((group, number), page) in groups.iter().zip(numbers).zip(&read) {
                self.check_page(number, page)?;
                let may_be = |candidate: &&Candidate| {
                    let place = filter::place(candidate.hash, pages);
                    filter::may_contain(page, &place, candidate.hash)
                };
                left.extend(group.iter().filter(may_be).map(|candidate| candidate.at));
            }
        }
        left.sort_unstable();
        Ok(left)
    }
}
