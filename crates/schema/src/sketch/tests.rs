use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn bitmap(numbers: &BTreeSet<u64>) -> Bitmap {
    numbers.iter().copied().collect()
}

/// Numbers that share containers, maps or neither.
fn numbers() -> impl Strategy<Value = BTreeSet<u64>> {
    let number =
        prop_oneof![0..300_u64, 0..200_000_u64, any::<u32>().prop_map(u64::from), any::<u64>()];
    let runs = (0..100_000_u64, 0..9000_u64).prop_map(|(first, count)| first..first + count);
    (prop::collection::vec(number, 0..60), prop::collection::vec(runs, 0..2))
        .prop_map(|(some, runs)| some.into_iter().chain(runs.into_iter().flatten()).collect())
}

proptest! {
    #[test]
    fn bitmaps_are_sets(a in numbers(), b in numbers()) {
        let (one, other) = (bitmap(&a), bitmap(&b));
        let after = |change: fn(&mut Bitmap, &Bitmap)| {
            let mut changed = one.clone();
            change(&mut changed, &other);
            Bitmap::read(&changed.to_bytes()).unwrap().iter().collect::<Vec<_>>()
        };
        let of = |set: BTreeSet<u64>| set.into_iter().collect::<Vec<_>>();
        prop_assert_eq!(after(Bitmap::unite), of(&a | &b));
        prop_assert_eq!(after(Bitmap::intersect), of(&a & &b));
        prop_assert_eq!(after(Bitmap::differ), of(&a ^ &b));
        prop_assert_eq!(after(Bitmap::subtract), of(&a - &b));
        prop_assert_eq!(one.count(), a.len() as u64);
        prop_assert_eq!((one.min(), one.max()), (a.first().copied(), a.last().copied()));
        prop_assert_eq!(one.meets(&other), !a.is_disjoint(&b));
        prop_assert_eq!(one.covers(&other), a.is_superset(&b));
    }

    #[test]
    fn parts_of_bitmaps_are_those_of_sets(
        set in numbers(), first in 0..150_000_u64, count in 0..9000_u64,
    ) {
        let mut kept = bitmap(&set);
        kept.keep(first, first + count);
        let range = set.range(first..first + count).copied();
        prop_assert!(kept.iter().eq(range));
        let mut kept = bitmap(&set);
        kept.keep_places(first % 500, count);
        let places = set.iter().copied().skip((first % 500) as usize).take(count as usize);
        prop_assert!(kept.iter().eq(places));
    }

    #[test]
    fn bitmaps_join_in_any_order(a in numbers(), b in numbers(), c in numbers()) {
        let stored = [&a, &b, &c].map(|set| bitmap(set).to_bytes());
        let kind = SketchKind::Bitmap;
        let left = kind.union(stored[..2].iter().map(|one| &one[..])).unwrap();
        let left = kind.union([&left[..], &stored[2]].into_iter()).unwrap();
        let right = kind.union(stored[1..].iter().rev().map(|one| &one[..])).unwrap();
        let right = kind.union([&right[..], &stored[0]].into_iter()).unwrap();
        let all = &(&a | &b) | &c;
        for joined in [left, right] {
            prop_assert!(Bitmap::read(&joined).unwrap().iter().eq(all.iter().copied()));
        }
    }

    #[test]
    fn hlls_do_not_depend_on_the_order_of_their_values(
        values in prop::collection::vec(0..400_u64, 0..600), cuts in (0..600_usize, 0..600_usize),
    ) {
        let hll = |values: &[u64]| {
            let mut all = Hll::default();
            values.iter().for_each(|value| all.insert(hll_hash(&value.to_le_bytes())));
            all
        };
        let whole = hll(&values);
        let (a, b) = (cuts.0.min(cuts.1).min(values.len()), cuts.0.max(cuts.1).min(values.len()));
        let parts = [&values[b..], &values[..a], &values[a..b]].map(|part| hll(part).to_bytes());
        let joined = SketchKind::Hll.union(parts.iter().map(|part| &part[..])).unwrap();
        prop_assert_eq!(&joined, &whole.to_bytes());
        prop_assert_eq!(Hll::read(&joined).unwrap(), whole.clone());
        prop_assert_eq!(Hll::of_doris(&whole.to_doris()).unwrap(), whole.clone());
        let different = values.iter().collect::<BTreeSet<_>>().len() as u64;
        if different <= 160 {
            prop_assert_eq!(whole.count(), different);
        }
    }

    #[test]
    fn bytes_from_outside_are_read_or_refused(
        mut stored in numbers().prop_map(|set| bitmap(&set).to_bytes()),
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let at = at.index(stored.len());
        stored[at] = byte;
        if cut {
            stored.truncate(at);
        }
        if let Ok(read) = Bitmap::read(&stored) {
            prop_assert!(Bitmap::read(&read.to_bytes()).unwrap().iter().eq(read.iter()));
        }
        let _ = Hll::read(&stored);
        let _ = Hll::of_doris(&stored);
    }
}

#[test]
fn counts_of_hlls_are_within_two_of_a_hundred() {
    for count in [1_000_u64, 10_000, 50_000, 200_000, 1_000_000] {
        let mut hll = Hll::default();
        (0..count).for_each(|value| hll.insert(hll_hash(value.to_string().as_bytes())));
        let off = hll.count().abs_diff(count);
        assert!(off * 50 < count, "{count} values are counted as {}", hll.count());
    }
}

#[test]
fn hashes_are_those_of_doris() {
    assert_eq!(bitmap_hash(b"hello"), 1_321_743_225);
    assert_eq!(bitmap_hash64(b"hello"), 15_231_136_565_543_391_023);
}

#[test]
fn forms_are_those_of_doris() {
    let hex = |numbers: &[u64]| {
        let bytes = numbers.iter().copied().collect::<Bitmap>().to_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hex(&[]), "00");
    assert_eq!(hex(&[1]), "0101000000");
    let two = "023a300000020000000000000098000000180000001a00000001007f96";
    assert_eq!(hex(&[1, 9_999_999]), two);
    assert_eq!(hex(&[1 << 32]), "030000000001000000");
    assert!(hex(&[1, 1 << 32]).starts_with("0402"));
}

#[test]
fn what_takes_too_much_memory_is_refused() {
    // Maps of one run each, which are few bytes and stand for sets of 4096 containers.
    let mut bytes = vec![4, 0xff, 0x0f];
    for high in 0..2047_u32 {
        bytes.extend_from_slice(&high.to_le_bytes());
        let mut full = roaring::RoaringBitmap::new();
        full.insert_range(0..64 << 16);
        full.optimize();
        full.serialize_into(&mut bytes).unwrap();
    }
    let refused = Bitmap::of_doris(&bytes).unwrap_err();
    assert!(matches!(refused, BadSketch::TooLarge { .. }), "{refused}");
    // A count of maps that the bytes do not have.
    assert!(Bitmap::read(&[4, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
}
