//! The weights of a text: bytes that are equal for texts that are equal under a collation, and in
//! the order of the texts.
//!
//! Those by Unicode are all first weights, then a zero and all second ones, then a zero and all
//! third ones, as far as the collation looks. A first weight of ASCII is one byte. Of second and
//! third weights the lowest ones at the end are left out.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::ascii::Ascii;
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
    let text = compared(collation, text);
    match levels(collation) {
        None if collation.is_by_bytes() => out.extend_from_slice(text.as_bytes()),
        None => put_general(text, out),
        Some(levels) => {
            let table = &*FIRSTS;
            if table.ascii.put(text.as_bytes(), out) {
                put_rest_of_ascii(levels, text.as_bytes(), out);
            } else if text.is_ascii() {
                put_ascii(levels, text.as_bytes(), out);
            } else {
                put_unicode(levels, text, out);
            }
        }
    }
}

/// The text without what makes no difference at its end.
fn compared(collation: Collation, text: &str) -> &str {
    match collation.pads() && text.ends_with(' ') {
        true => text.trim_end_matches(' '),
        false => text,
    }
}

/// Where the weights of a text are, beside these ones. Nothing is written but where ASCII does
/// not decide; then the weights of the text are in `own`.
pub fn compare(collation: Collation, text: &str, weights: &[u8], own: &mut Vec<u8>) -> Ordering {
    let bytes = compared(collation, text).as_bytes();
    if collation.is_by_bytes() {
        return bytes.cmp(weights);
    }
    if bytes.is_ascii()
        && let Some(order) = compare_ascii(collation, bytes, weights)
    {
        return order;
    }
    own.clear();
    put(collation, text, own);
    own.as_slice().cmp(weights)
}

/// How texts are beside some weights, as far as their first characters decide it: a column of texts
/// has these at hand, and their other bytes elsewhere.
pub struct Beginnings<'a> {
    /// The byte of each character that has one byte whatever follows it; else 0.
    bytes: [u8; 256],
    weights: &'a [u8],
}

impl<'a> Beginnings<'a> {
    pub fn new(collation: Collation, weights: &'a [u8]) -> Self {
        let mut bytes = [0; 256];
        for (sign, byte) in (0_u8..128).zip(&mut bytes) {
            *byte = match levels(collation) {
                // It makes no difference at the end of a text.
                _ if collation.pads() && sign == b' ' => 0,
                None if collation.is_by_bytes() => sign,
                None => UPPER.byte(sign),
                Some(_) if FIRSTS.joined[usize::from(sign)] => 0,
                Some(_) => FIRSTS.ascii.byte(sign),
            };
        }
        Self { bytes, weights }
    }

    /// Where the weights of a text are that begins so, beside those; `None` where that is not known
    /// from its beginning.
    #[inline]
    pub fn compare(&self, begin: &[u8]) -> Option<Ordering> {
        for (at, &sign) in begin.iter().enumerate() {
            let byte = self.bytes[usize::from(sign)];
            match self.weights.get(at) {
                _ if byte == 0 => return None,
                Some(weight) if byte == *weight => {}
                Some(weight) => return Some(byte.cmp(weight)),
                None => return Some(Ordering::Greater),
            }
        }
        None
    }
}

/// `None` where the first weights of a text of ASCII do not decide.
fn compare_ascii(collation: Collation, text: &[u8], weights: &[u8]) -> Option<Ordering> {
    let (ascii, end) = ascii_of(collation);
    for (at, &sign) in text.iter().enumerate() {
        match (ascii.byte(sign), weights.get(at)) {
            (0, _) => return None,
            (_, None) => return Some(Ordering::Greater),
            (byte, Some(weight)) if byte != *weight => return Some(byte.cmp(weight)),
            _ => {}
        }
    }
    end.map(|end| end.cmp(&weights[text.len()..]))
}

/// The bytes of ASCII in weights, and what is behind those of a text: `None` if that depends.
pub(super) fn ascii_of(collation: Collation) -> (&'static Ascii, Option<&'static [u8]>) {
    match levels(collation) {
        None => (&UPPER, Some(GENERAL_END)),
        Some(Levels::Letters) => (&FIRSTS.ascii, Some(&[])),
        Some(Levels::Accents) => (&FIRSTS.ascii, Some(&[0])),
        Some(Levels::Case) => (&FIRSTS.ascii, None),
    }
}

static UPPER: LazyLock<Ascii> = LazyLock::new(|| Ascii::letters(u8::to_ascii_uppercase));

/// A text of `utf8mb4_general_ci` is compared as if spaces followed it: of the signs before the
/// space the first would be behind it.
const GENERAL_END: &[u8] = b" ";

/// Weights of `utf8mb4_general_ci`.
fn put_general(text: &str, out: &mut Vec<u8>) {
    if !UPPER.put(text.as_bytes(), out) {
        let mut bytes = [0; 4];
        for sign in text.chars() {
            out.extend_from_slice(general::weight(sign).encode_utf8(&mut bytes).as_bytes());
        }
    }
    out.extend_from_slice(GENERAL_END);
}

/// The first weights of ASCII.
struct Firsts {
    /// The byte of each character; none for a character without weight.
    ascii: Ascii,
    /// The least and the greatest first byte of weights that a text may have where a character
    /// begins: some characters have other ones together with the next.
    ranges: [(u8, u8); 128],
    /// Whether a character has other ones so.
    joined: [bool; 128],
    thirds: [u8; 128],
    /// All of them, which rise. The byte of the one at `i` is `2 * i + 2`.
    weights: Vec<u16>,
}

static FIRSTS: LazyLock<Firsts> = LazyLock::new(|| {
    let mut elements = [(0, 0); 128];
    for (code, element) in (0_u8..).zip(&mut elements) {
        TABLE.each(char::from(code).encode_utf8(&mut [0; 4]), |one| {
            *element = (one.first, one.third);
        });
    }
    let mut weights = elements.iter().map(|(first, _)| *first).collect::<Vec<_>>();
    weights.retain(|first| *first != 0);
    weights.sort_unstable();
    weights.dedup();
    let byte = |first: u16| weights.binary_search(&first).map_or(0, |at| 2 * small(at) + 2);
    let bytes = elements.map(|(first, _)| if first == 0 { 0 } else { byte(first) });
    let (mut ranges, mut joined) = (bytes.map(|byte| (byte, byte)), [false; 128]);
    for (sign, elements) in TABLE.begun_by_ascii() {
        joined[usize::from(sign)] = true;
        let first = elements.iter().map(|one| one.first).find(|first| *first != 0);
        let (least, greatest) = &mut ranges[usize::from(sign)];
        let byte = first.map_or(0, |first| first_byte(&weights, first));
        (*least, *greatest) = (byte.min(*least), byte.max(*greatest));
    }
    let thirds = elements.map(|(_, third)| third);
    Firsts { ascii: Ascii::new(&bytes), ranges, joined, thirds, weights }
});

/// Between which bytes is the first one of the weights of a character of ASCII, whatever follows
/// it; `None` if it may have none.
pub(super) fn first_bytes(collation: Collation, sign: u8) -> Option<(u8, u8)> {
    let byte = ascii_of(collation).0.byte(sign);
    let range = match levels(collation) {
        None => (byte, byte),
        Some(_) => FIRSTS.ranges[usize::from(sign)],
    };
    (byte != 0 && range.0 != 0).then_some(range)
}

/// The weights of a character in its place in a text.
pub(super) struct ByItself {
    /// Those in front of another character that stands by itself.
    pub alone: Vec<u8>,
    /// Between which bytes they begin, whatever follows it; `None` where it may have none.
    pub begins: Option<(Vec<u8>, Vec<u8>)>,
}

/// The first weights of a character that does not depend on those beside it, nor do characters
/// that are equal to it; `None` of others.
pub(super) fn by_itself(collation: Collation, sign: char) -> Option<ByItself> {
    if let Some(sign) = u8::try_from(sign).ok().filter(u8::is_ascii) {
        let byte = ascii_of(collation).0.byte(sign);
        let range = first_bytes(collation, sign);
        let begins = range.map(|(least, greatest)| (vec![least], vec![greatest]));
        return (byte != 0).then(|| ByItself { alone: vec![byte], begins });
    }
    let mut alone = Vec::new();
    match levels(collation) {
        None => {
            let mut bytes = [0; 4];
            alone.extend_from_slice(general::weight(sign).encode_utf8(&mut bytes).as_bytes());
        }
        Some(_) if is_apart(sign) => put_firsts(sign.encode_utf8(&mut [0; 4]), &mut alone),
        Some(_) => return None,
    }
    Some(ByItself { begins: Some((alone.clone(), alone.clone())), alone })
}

/// Whether no character has weights together with this one: ideographs, and syllables of Hangul.
const fn is_apart(sign: char) -> bool {
    matches!(
        sign,
        '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{20000}'..='\u{2ebef}'
            | '\u{30000}'..='\u{3134f}'
    )
}

fn put_firsts(text: &str, out: &mut Vec<u8>) {
    TABLE.each(text, |element| put_first(element.first, out));
}

/// Appends a first weight, unless there is none.
fn put_first(first: u16, out: &mut Vec<u8>) {
    if first != 0 {
        let byte = first_byte(&FIRSTS.weights, first);
        out.push(byte);
        // That of ASCII is even, and says all.
        if byte % 2 == 1 {
            out.extend_from_slice(&first.to_be_bytes());
        }
    }
}

/// The first byte of a first weight.
fn first_byte(ascii: &[u16], first: u16) -> u8 {
    match ascii.binary_search(&first) {
        Ok(at) => 2 * small(at) + 2,
        // Between the bytes of the weights below and above.
        Err(at) => 2 * small(at) + 1,
    }
}

/// The place of a first weight of ASCII.
fn small(at: usize) -> u8 {
    u8::try_from(at).ok().filter(|at| *at < 126).expect("ASCII has less than 126 first weights")
}

/// Weights of ASCII in which some characters may have none.
fn put_ascii(levels: Levels, text: &[u8], out: &mut Vec<u8>) {
    let bytes = text.iter().map(|&sign| FIRSTS.ascii.byte(sign));
    out.extend(bytes.filter(|byte| *byte != 0));
    put_rest_of_ascii(levels, text, out);
}

/// What follows the first weights.
fn put_rest_of_ascii(levels: Levels, text: &[u8], out: &mut Vec<u8>) {
    if levels >= Levels::Accents {
        out.push(0);
    }
    if levels == Levels::Case {
        out.push(0);
        let from = out.len();
        let thirds = text.iter().map(|&sign| FIRSTS.thirds[usize::from(sign)]);
        out.extend(thirds.filter(|third| *third != 0));
        cut(out, from, THIRD_MIN);
    }
}

fn put_unicode(levels: Levels, text: &str, out: &mut Vec<u8>) {
    let (mut seconds, mut thirds) = (Vec::new(), Vec::new());
    TABLE.each(text, |element| {
        put_first(element.first, out);
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
        fn texts_of_ascii_have_the_weights_of_unicode(text in "[\\x00-\\x7f]{0,40}|[ -~]{0,40}") {
            for (collation, levels) in [
                (Collation::Utf8mb40900AiCi, Levels::Letters),
                (Collation::Utf8mb40900AsCi, Levels::Accents),
                (Collation::Utf8mb40900AsCs, Levels::Case),
            ] {
                let mut long = Vec::new();
                put_unicode(levels, &text, &mut long);
                prop_assert_eq!(weights(collation, &text), long);
            }
        }

        #[test]
        fn beginnings_say_what_the_whole_says(
            text in "[abAB lL=\u{b7}\u{301}\u{338}\u{e4}\\x00 ]{0,8}|.{0,4}",
            other in "[abAB lL=\u{b7}\u{301}\u{338}\u{e4}\\x00 ]{0,8}|.{0,4}",
            length in 0_usize..5,
        ) {
            for collation in crate::collation::COLLATIONS {
                let beside = weights(collation, &other);
                let begin = &text.as_bytes()[..length.min(text.len())];
                let known = Beginnings::new(collation, &beside).compare(begin);
                let whole = weights(collation, &text).cmp(&beside);
                prop_assert!(known.is_none_or(|known| known == whole), "{collation:?}");
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
