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

/// Bytes between which the weights of each text are that begins, one character after the other,
/// with these or with characters that are equal to them by the collation; `None` where nothing is
/// known. No weights are equal to the upper end.
///
/// Of a character that may have weights together with others, and of those behind it, nothing is
/// said, but for those of ASCII: in front of one that stands by itself they do, too.
pub fn of_beginning(collation: Collation, beginning: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    // The weights of all but the last character, and how many are not of spaces at their end.
    let (mut front, mut solid, mut last) = (Vec::new(), 0, None);
    for sign in beginning.chars() {
        let Some(known) = weights::by_itself(collation, sign) else { break };
        if let Some((before, sign)) = last.replace((known, sign)) {
            front.extend(before.alone);
            solid = if sign == ' ' { solid } else { front.len() };
        }
    }
    let (known, sign) = last?;
    let (mut lower, mut upper) = (front.clone(), front);
    if let Some((least, greatest)) = known.begins {
        lower.extend(least);
        upper.extend(greatest);
    }
    upper.extend_from_slice(&ABOVE_ALL);
    // Of a text that ends with spaces these do not count.
    if collation.pads() && sign == ' ' {
        lower.truncate(solid);
    }
    let says_nothing = lower.is_empty() && upper == ABOVE_ALL;
    (!says_nothing).then_some((lower, upper))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collation::{COLLATIONS, fold};

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn texts_that_begin_alike_are_between_their_bounds(
            beginning in "[a-cA-ClLsS= ._\u{e9}\u{df}\u{4e2d}\u{5f20}\u{ac00}\u{e40}]{1,4}|.{1,2}",
            signs in proptest::collection::vec(0_usize..8, 4),
            rest in "[a-cl \u{b7}\u{300}\u{338}\u{387}\u{e9}\u{11a8}\u{e01}\u{4e2d}]{0,4}|.{0,3}",
        ) {
            // Characters that are equal to others by some collation.
            const EQUAL: [(char, &[char]); 6] = [
                ('a', &['A', '\u{e4}', '\u{c4}', '\u{ff41}']),
                ('b', &['B', '\u{1d41b}']),
                ('l', &['L', '\u{2113}', '\u{13a}']),
                ('s', &['S', '\u{17f}', '\u{df}']),
                ('\u{e9}', &['e', 'E', '\u{c9}']),
                ('\u{5f20}', &['\u{5f20}', '\u{f900}']),
            ];
            let other = |(at, sign): (usize, char)| {
                let choice = signs[at % signs.len()];
                let equal = EQUAL.iter().find(|(of, _)| *of == sign);
                equal.and_then(|(_, others)| others.get(choice)).copied().unwrap_or(sign)
            };
            let begins = beginning.chars().enumerate().map(other).collect::<String>();
            let text = format!("{begins}{rest}");
            for collation in COLLATIONS.into_iter().filter(|one| !one.is_by_bytes()) {
                let pattern = fold::folded(collation, &beginning);
                let accepts = fold::folded(collation, &text).starts_with(&*pattern);
                let bounds = of_beginning(collation, &pattern).filter(|_| accepts);
                if let Some((lower, upper)) = bounds {
                    let weights = weights_of(collation, &text);
                    prop_assert!(lower <= weights, "{collation:?}: {text:?} from {pattern:?}");
                    prop_assert!(weights < upper, "{collation:?}: {text:?} to {pattern:?}");
                }
            }
        }
    }

    #[test]
    fn a_beginning_excludes_what_begins_otherwise() {
        let ci = Collation::Utf8mb40900AiCi;
        let excludes = |beginning, text| {
            let (lower, upper) = of_beginning(ci, beginning).expect("it says something");
            let weights = weights_of(ci, text);
            weights < lower || weights > upper
        };
        assert!(excludes("user-1", "user-2"));
        assert!(excludes("user-1", "USER-0999"));
        assert!(excludes("hel", "hem"));
        assert!(!excludes("user-1", "USER-1x"));
        assert!(!excludes("a\u{e9}b", "AEX"));
        assert!(excludes("\u{5f20}", "\u{674e}\u{56db}"));
        assert!(excludes("a\u{5f20}x", "A\u{5f20}y"));
        assert!(!excludes("\u{5f20}", "\u{5f20}\u{4e09}"));
        assert_eq!(of_beginning(ci, "\u{e9}"), None);
        assert_eq!(of_beginning(ci, ""), None);
        let spaces = of_beginning(Collation::Utf8mb4GeneralCi, "  ").expect("it is of ASCII");
        assert!(spaces.0.is_empty(), "spaces at the end of a text do not count");
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
