//! The order of keys as bytes.

use super::leading;

/// Keys in their order.
pub struct KeyOrder {
    /// Their numbers; those of equal keys ascend.
    pub numbers: Vec<u32>,
    /// Whether no two keys are equal.
    pub are_distinct: bool,
}

impl KeyOrder {
    /// The order of `count` keys.
    pub fn of<'k>(count: u32, key: impl Fn(u32) -> &'k [u8]) -> Self {
        // Most keys are told apart by their first bytes, which stand beside the number: to compare
        // others, memory is read from anywhere.
        let mut firsts = (0..count).map(|at| (leading(key(at)), at)).collect::<Vec<_>>();
        firsts.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| key(*one).cmp(key(*other))));
        let differ =
            |pair: &[(u64, u32)]| pair[0].0 != pair[1].0 || key(pair[0].1) != key(pair[1].1);
        let are_distinct = firsts.windows(2).all(differ);
        Self { numbers: firsts.into_iter().map(|(_, at)| at).collect(), are_distinct }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_in_order_and_equal_ones_stay_as_they_come(
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..11), 0..60),
        ) {
            let mut expected = (0..keys.len() as u32).collect::<Vec<_>>();
            expected.sort_by_key(|at| &keys[*at as usize]);
            let order = KeyOrder::of(keys.len() as u32, |at| keys[at as usize].as_slice());
            prop_assert_eq!(order.numbers, expected);
            let different = keys.iter().collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(order.are_distinct, different.len() == keys.len());
        }
    }
}
