//! The weights of a text: bytes that are equal for texts that are equal under a collation, and in
//! the order of the texts.
//!
//! Those by Unicode are all first weights, then a zero and all second ones, then a zero and all
//! third ones, as far as the collation looks. A first weight of ASCII is one byte. Of second and
//! third weights the lowest ones at the end are left out.

use std::sync::LazyLock;

use super::general;
use super::unicode::{SECOND_MIN, TABLE, THIRD_MIN};
use crate::Collation;

/// How far a collation looks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Levels {
    Letters,
    Accents,
    Case,
}

/// How far a collation by Unicode looks; `None` for others.
const fn levels(collation: Collation) -> Option<Levels> {
    match collation {
        Collation::Utf8mb40900AiCi
        | Collation::Utf8mb4UnicodeCi
        | Collation::Utf8mb4Unicode520Ci => Some(Levels::Letters),
        Collation::Utf8mb40900AsCi => Some(Levels::Accents),
        Collation::Utf8mb40900AsCs => Some(Levels::Case),
        Collation::Binary
        | Collation::Utf8mb4Bin
        | Collation::Utf8mb40900Bin
        | Collation::Utf8mb4GeneralCi => None,
    }
}

/// Appends the weights of a text.
pub fn put(collation: Collation, text: &str, out: &mut Vec<u8>) {
    let text = if collation.pads() { text.trim_end_matches(' ') } else { text };
    match levels(collation) {
        None if collation.is_by_bytes() => out.extend_from_slice(text.as_bytes()),
        None => put_general(text, out),
        Some(levels) if text.is_ascii() => put_ascii(levels, text.as_bytes(), out),
        Some(levels) => put_unicode(levels, text, out),
    }
}

/// Weights of `utf8mb4_general_ci`. A text is compared as if spaces followed it: of the signs
/// before the space the first would be behind it.
fn put_general(text: &str, out: &mut Vec<u8>) {
    if text.is_ascii() {
        let from = out.len();
        out.extend_from_slice(text.as_bytes());
        out[from..].make_ascii_uppercase();
    } else {
        let mut bytes = [0; 4];
        for sign in text.chars() {
            out.extend_from_slice(general::weight(sign).encode_utf8(&mut bytes).as_bytes());
        }
    }
    out.push(b' ');
}

/// The weights of ASCII.
struct Ascii {
    /// The byte of each character; 0 for a character without weight.
    bytes: [u8; 128],
    thirds: [u8; 128],
    /// Its first weights, which rise. The byte of the one at `i` is `2 * i + 2`.
    firsts: Vec<u16>,
}

static ASCII: LazyLock<Ascii> = LazyLock::new(|| {
    let mut elements = [(0, 0); 128];
    for (code, element) in (0_u8..).zip(&mut elements) {
        TABLE.each(char::from(code).encode_utf8(&mut [0; 4]), |one| {
            *element = (one.first, one.third);
        });
    }
    let mut firsts = elements.iter().map(|(first, _)| *first).collect::<Vec<_>>();
    firsts.retain(|first| *first != 0);
    firsts.sort_unstable();
    firsts.dedup();
    let byte = |first: u16| firsts.binary_search(&first).map_or(0, |at| 2 * small(at) + 2);
    let bytes = elements.map(|(first, _)| if first == 0 { 0 } else { byte(first) });
    Ascii { bytes, thirds: elements.map(|(_, third)| third), firsts }
});

/// The place of a first weight of ASCII.
fn small(at: usize) -> u8 {
    u8::try_from(at).ok().filter(|at| *at < 126).expect("ASCII has less than 126 first weights")
}

fn put_ascii(levels: Levels, text: &[u8], out: &mut Vec<u8>) {
    let ascii = &*ASCII;
    // Each is written; one without weight is written over by the next.
    let mut end = out.len();
    out.resize(end + text.len(), 0);
    for &sign in text {
        let byte = ascii.bytes[usize::from(sign & 0x7f)];
        out[end] = byte;
        end += usize::from(byte != 0);
    }
    out.truncate(end);
    if levels >= Levels::Accents {
        out.push(0);
    }
    if levels == Levels::Case {
        out.push(0);
        let from = out.len();
        let thirds = text.iter().map(|&sign| ascii.thirds[usize::from(sign)]);
        out.extend(thirds.filter(|third| *third != 0));
        cut(out, from, THIRD_MIN);
    }
}

fn put_unicode(levels: Levels, text: &str, out: &mut Vec<u8>) {
    let ascii = &*ASCII;
    let (mut seconds, mut thirds) = (Vec::new(), Vec::new());
    TABLE.each(text, |element| {
        if element.first != 0 {
            match ascii.firsts.binary_search(&element.first) {
                Ok(at) => out.push(2 * small(at) + 2),
                // Between the bytes of the weights below and above.
                Err(at) => {
                    out.push(2 * small(at) + 1);
                    out.extend_from_slice(&element.first.to_be_bytes());
                }
            }
        }
        if levels >= Levels::Accents && element.second != 0 {
            seconds.push(second_byte(element.second));
        }
        if levels == Levels::Case && element.third != 0 {
            thirds.push(element.third);
        }
    });
    if levels >= Levels::Accents {
        out.push(0);
        cut(&mut seconds, 0, second_byte(SECOND_MIN));
        out.append(&mut seconds);
    }
    if levels == Levels::Case {
        out.push(0);
        cut(&mut thirds, 0, THIRD_MIN);
        out.append(&mut thirds);
    }
}

/// A second weight, of which there are less than 255, as a byte that is not zero.
fn second_byte(second: u16) -> u8 {
    u8::try_from(second - SECOND_MIN + 1).expect("there are less than 255 second weights")
}

/// Leaves out the lowest weights at the end.
fn cut(out: &mut Vec<u8>, from: usize, lowest: u8) {
    while out.len() > from && out.last() == Some(&lowest) {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights(collation: Collation, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        put(collation, text, &mut out);
        out
    }

    fn equal(collation: Collation, a: &str, b: &str) -> bool {
        weights(collation, a) == weights(collation, b)
    }

    proptest! {
        #[test]
        fn texts_of_ascii_have_the_weights_of_unicode(text in "[\\x00-\\x7f]{0,40}") {
            for levels in [Levels::Letters, Levels::Accents, Levels::Case] {
                let (mut short, mut long) = (Vec::new(), Vec::new());
                put_ascii(levels, text.as_bytes(), &mut short);
                put_unicode(levels, &text, &mut long);
                prop_assert_eq!(short, long);
            }
        }

        #[test]
        fn case_makes_no_difference(text in "[a-z \u{e4}\u{e9}\u{44f}_.-]{0,20}") {
            let upper = text.to_uppercase();
            prop_assert!(equal(Collation::Utf8mb40900AiCi, &text, &upper));
            prop_assert!(equal(Collation::Utf8mb40900AsCi, &text, &upper));
            prop_assert!(equal(Collation::Utf8mb4UnicodeCi, &text, &upper));
            prop_assert!(equal(Collation::Utf8mb4GeneralCi, &text, &upper));
        }

        #[test]
        fn every_text_has_weights(text in ".{0,20}") {
            for collation in crate::collation::COLLATIONS {
                prop_assert!(equal(collation, &text, &text.clone()));
            }
        }
    }

    #[test]
    fn what_is_equal_under_which_collation() {
        use Collation as C;
        let all = [C::Utf8mb40900AiCi, C::Utf8mb40900AsCi, C::Utf8mb40900AsCs, C::Utf8mb4GeneralCi];
        for (a, b, wanted) in [
            ("a", "A", [true, true, false, true]),
            ("a", "\u{e4}", [true, false, false, true]),
            ("a", "a ", [false, false, false, true]),
            ("ss", "\u{df}", [true, false, false, false]),
            ("s", "\u{df}", [false, false, false, true]),
            ("e\u{301}", "\u{e9}", [true, true, true, false]),
            ("\u{438}", "\u{439}", [false, false, false, false]),
            ("\u{1f600}", "\u{1f601}", [false, false, false, true]),
            ("\u{4e00}", "\u{4e01}", [false, false, false, false]),
            ("\u{ac00}", "\u{1100}\u{1161}", [true, true, true, false]),
            ("", "", [true; 4]),
        ] {
            assert_eq!(all.map(|collation| equal(collation, a, b)), wanted, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn order_is_that_of_the_collation() {
        let sorted = |collation, mut texts: Vec<&'static str>| {
            texts.sort_by_key(|text| weights(collation, text));
            texts
        };
        let texts = || vec!["b", "_", "Z", "a", "1", "z1", "a_", "A-", "a b", "ab", "\u{e4}c"];
        let unicode = ["_", "1", "a", "a b", "a_", "A-", "ab", "\u{e4}c", "b", "Z", "z1"];
        assert_eq!(sorted(Collation::Utf8mb40900AiCi, texts()), unicode);
        let general = ["1", "a", "a b", "A-", "ab", "\u{e4}c", "a_", "b", "Z", "z1", "_"];
        assert_eq!(sorted(Collation::Utf8mb4GeneralCi, texts()), general);
        // As if followed by spaces.
        assert_eq!(sorted(Collation::Utf8mb4GeneralCi, vec!["a", "a\t"]), ["a\t", "a"]);
        let cases = vec!["\u{e4}", "A", "b", "a", "\u{c4}", "ab"];
        let wanted = ["a", "A", "\u{e4}", "\u{c4}", "ab", "b"];
        assert_eq!(sorted(Collation::Utf8mb40900AsCs, cases), wanted);
    }
}
