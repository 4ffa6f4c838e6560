//! Decides which adjacent rowsets of a tablet to merge.

use std::ops::Range;
use std::sync::Arc;

use crate::rowset::Rowset;
use crate::view::TabletFiles;

/// Minimum size at which a row counts.
const ROW_BYTES_MIN: u64 = 16;

/// Limits of compaction.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Minimum number of rowsets in a merge.
    pub merge_min: usize,
    /// Maximum number of rowsets in a merge.
    pub merge_max: usize,
    /// With more rowsets that are not full, the cheapest adjacent ones are merged regardless of
    /// their sizes.
    pub rowsets_max: usize,
    /// With more rowsets that are not full, compaction counts as behind.
    pub rowsets_behind: usize,
    /// Maximum size of a merge's result.
    pub rowset_bytes_max: u64,
    /// Smaller rowsets count as this large, so that many tiny ones are merged at once.
    pub rowset_bytes_min: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            merge_min: 4,
            merge_max: 16,
            rowsets_max: 32,
            rowsets_behind: 64,
            rowset_bytes_max: 2 << 30,
            rowset_bytes_min: 1 << 20,
        }
    }
}

/// The decision for a tablet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    Nothing,
    /// Merge the rowsets at these positions into one.
    Merge(Range<usize>),
}

/// Decides what to do with the rowsets of a tablet, all of them at or below the flushed LSN.
///
/// Size-tiered: adjacent rowsets are merged if none of them is more than twice as large as the
/// largest newer one in the merge, so that a row is rewritten about as often as its tablet has
/// grown by a factor of [`Limits::merge_min`].
pub fn choose(rowsets: &[Arc<Rowset>], limits: &Limits) -> Choice {
    let sizes = rowsets.iter().map(|rowset| size(rowset)).collect::<Vec<_>>();
    let choice = choose_by_size(&sizes, limits);
    if let Choice::Merge(range) = &choice {
        assert!(range.len() >= 2, "a merge has several rowsets");
        assert!(range.end <= sizes.len(), "a merge has rowsets of its tablet");
    }
    choice
}

/// The cost of merging a rowset, in bytes. The file size underestimates it if values compress well,
/// because rows are merged one by one.
pub fn size(rowset: &Rowset) -> u64 {
    rowset.bytes().max(rowset.rows() * ROW_BYTES_MIN)
}

/// The number of rowsets of a tablet that are small enough for a merge of similar sizes. The number
/// of larger ones is not limited.
pub fn not_full(tablet: &TabletFiles, limits: &Limits) -> usize {
    not_full_by_size(tablet.rowsets.iter().map(|rowset| size(rowset)), limits)
}

fn not_full_by_size(sizes: impl Iterator<Item = u64>, limits: &Limits) -> usize {
    let full_bytes = limits.rowset_bytes_max / limits.merge_min as u64;
    sizes.filter(|size| *size <= full_bytes).count()
}

fn choose_by_size(sizes: &[u64], limits: &Limits) -> Choice {
    let tiers = (limits.merge_min..=sizes.len()).map(|end| tier(sizes, end, limits));
    // Among tiers of the same length the last one is chosen, since the newest rowsets are the
    // smallest.
    let longest = tiers.max_by_key(Range::len);
    if let Some(range) = longest.filter(|range| range.len() >= limits.merge_min) {
        return Choice::Merge(range);
    }
    match not_full_by_size(sizes.iter().copied(), limits) > limits.rowsets_max {
        true => cheapest(sizes, limits).map_or(Choice::Nothing, Choice::Merge),
        false => Choice::Nothing,
    }
}

/// The rowsets before `end`, from newest to oldest, that can be merged together.
fn tier(sizes: &[u64], end: usize, limits: &Limits) -> Range<usize> {
    let (mut newer, mut largest) = (0u64, 0u64);
    let mut start = end;
    while start > 0 && end - start < limits.merge_max {
        let size = sizes[start - 1].max(limits.rowset_bytes_min);
        let fits = start == end || size <= 2 * largest;
        if !fits || newer + size > limits.rowset_bytes_max {
            break;
        }
        newer += size;
        largest = largest.max(size);
        start -= 1;
    }
    start..end
}

/// The cheapest run of adjacent rowsets whose result does not exceed the maximum size.
fn cheapest(sizes: &[u64], limits: &Limits) -> Option<Range<usize>> {
    let bytes = |at: &usize| sizes[*at..at + limits.merge_min].iter().sum::<u64>();
    let start = (0..=sizes.len().checked_sub(limits.merge_min)?).min_by_key(bytes)?;
    (bytes(&start) <= limits.rowset_bytes_max).then_some(start..start + limits.merge_min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn few_or_unlike_rowsets_are_left_alone() {
        let limits = Limits::default();
        assert_eq!(choose_by_size(&[], &limits), Choice::Nothing);
        assert_eq!(choose_by_size(&[MIB; 3], &limits), Choice::Nothing);
        assert_eq!(choose_by_size(&[64 * MIB, 16 * MIB, 4 * MIB, MIB], &limits), Choice::Nothing);
    }

    #[test]
    fn neighbours_of_like_size_are_merged_and_full_ones_are_not() {
        let limits = Limits::default();
        assert_eq!(choose_by_size(&[MIB; 4], &limits), Choice::Merge(0..4));
        assert_eq!(choose_by_size(&[900 * MIB, 10, 10, 10, 10], &limits), Choice::Merge(1..5));
        assert_eq!(choose_by_size(&[2 << 30, MIB, MIB, MIB, MIB], &limits), Choice::Merge(1..5));
        assert_eq!(choose_by_size(&[2 << 30; 40], &limits), Choice::Nothing);
        // A merged rowset waits for others of its size, however many newer ones there are.
        let merged = [8 * MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB];
        assert_eq!(choose_by_size(&merged, &limits), Choice::Merge(1..9));
    }

    proptest! {
        /// For endless commits of any size, rowsets stay few and bytes are rewritten rarely.
        #[test]
        fn rowsets_stay_few_and_rewrites_rare(
            commits in prop::collection::vec(1u64..MIB, 500),
            (merge_min, rewritten_max) in prop_oneof![Just((4, 6)), Just((8, 4))],
        ) {
            let limits = Limits { merge_min, ..Limits::default() };
            let mut sizes = Vec::new();
            let (mut came, mut rewritten) = (0, 0);
            for commit in commits {
                sizes.push(commit + MIB);
                came += commit + MIB;
                while let Choice::Merge(range) = choose_by_size(&sizes, &limits) {
                    prop_assert!(range.len() >= 2 && range.len() <= limits.merge_max);
                    let merged = sizes[range.clone()].iter().sum();
                    rewritten += merged;
                    sizes.splice(range, [merged]);
                }
                prop_assert!(sizes.len() <= limits.rowsets_max);
            }
            prop_assert!(rewritten < rewritten_max * came, "{rewritten} of {came}");
        }
    }
}
