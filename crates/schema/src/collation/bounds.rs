//! What bounds by bytes say of weights, so that files skip what a condition by a collation cannot
//! find.

use super::{Collation, weights};

/// Is above all bytes with which weights go on.
const ABOVE_ALL: [u8; 4] = [0xff; 4];

/// Bytes between which the weights of each text are that is, by bytes, neither below `least` nor
/// above `greatest`. No weights are equal to the upper end.
///
/// What both texts begin with all of these begin with, and what may follow is between two
/// characters. As soon as these are not of ASCII, nothing is said of them, nor of the character in
/// front of them, which they may change.
pub fn of_weights(collation: Collation, least: &str, greatest: &str) -> (Vec<u8>, Vec<u8>) {
    let (ascii, _) = weights::ascii_of(collation);
    let (least, greatest) = (least.as_bytes(), greatest.as_bytes());
    let pairs = least.iter().zip(greatest);
    let common = pairs.take_while(|(a, b)| a == b && ascii.byte(**a) != 0).count();
    let next = greatest.get(common);
    let known = match next {
        Some(next) if !next.is_ascii() => common.saturating_sub(1),
        _ => common,
    };
    let of = |text: &[u8]| text.iter().map(|&sign| ascii.byte(sign)).collect::<Vec<_>>();
    let (mut lower, mut upper) = (of(&least[..known]), of(&least[..known]));
    let signs = match (least.get(common), next) {
        (Some(&from), Some(&to)) if to.is_ascii() => Some(from..=to),
        _ => None,
    };
    let range = signs.clone().and_then(|signs| {
        let each = signs.map(|sign| weights::first_bytes(collation, sign));
        let all = each.collect::<Option<Vec<_>>>()?;
        let least = all.iter().map(|(least, _)| *least).min()?;
        Some((least, all.iter().map(|(_, greatest)| *greatest).max()?))
    });
    if let Some((_, greatest)) = range {
        upper.push(greatest);
    }
    upper.extend_from_slice(&ABOVE_ALL);
    // Of a text that goes on with spaces only, these and those in front of them may not count.
    let may_end = collation.pads() && signs.is_none_or(|signs| signs.contains(&b' '));
    if may_end {
        let kept = least[..known].trim_ascii_end();
        lower.truncate(kept.len());
    } else if let Some((least, _)) = range {
        lower.push(least);
    }
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collation::COLLATIONS;

    fn weights_of(collation: Collation, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        weights::put(collation, text, &mut bytes);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn weights_are_between_their_bounds(
            start in "[a-cA-Cl\u{b7} .]{0,3}",
            ends in proptest::collection::vec(
                "([a-cLl0-9 ._-]{0,3}[\\x00-\\x7f\u{b7}\u{300}\u{387}\u{e9}\u{df}]{0,2}|.{0,3}| )",
                2..12,
            ),
        ) {
            let mut texts = ends.iter().map(|end| format!("{start}{end}")).collect::<Vec<_>>();
            texts.sort_unstable();
            let (least, greatest) = (&texts[0], &texts[texts.len() - 1]);
            for collation in COLLATIONS.into_iter().filter(|one| !one.is_by_bytes()) {
                let (lower, upper) = of_weights(collation, least, greatest);
                for text in &texts {
                    let weights = weights_of(collation, text);
                    prop_assert!(lower <= weights, "{collation:?}: {text:?} from {least:?}");
                    prop_assert!(weights < upper, "{collation:?}: {text:?} to {greatest:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_common_and_one_more_is_known() {
        let ci = Collation::Utf8mb40900AiCi;
        let excludes = |least, greatest, text| {
            let (lower, upper) = of_weights(ci, least, greatest);
            let weights = weights_of(ci, text);
            weights < lower || weights > upper
        };
        assert!(excludes("user-100", "user-299", "USER-300"));
        assert!(excludes("user-100", "user-299", "user-0"));
        assert!(!excludes("user-100", "user-299", "User-150"));
        assert!(excludes("2024-01-01", "2024-12-31", "2025-01-01"));
        assert!(!excludes("A", "z", "q"));
        assert!(!excludes("a\u{e9}", "a\u{ea}", "AE"));
    }
}
