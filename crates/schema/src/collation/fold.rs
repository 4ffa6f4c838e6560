//! Texts whose characters are replaced by one of those that are equal to them, so that LIKE and the
//! search for a part of a text compare characters.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::sync::LazyLock;

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

use super::ascii::Ascii;
use super::{general, weights};
use crate::Collation;

/// The text with as many characters, of which equal ones are the same.
pub fn folded(collation: Collation, text: &str) -> Cow<'_, str> {
    if collation.is_case_sensitive() {
        return Cow::Borrowed(text);
    }
    if text.is_ascii() {
        return match text.bytes().any(|sign| sign.is_ascii_uppercase()) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        };
    }
    let sign = |sign: char| match collation {
        _ if sign.is_ascii() => sign.to_ascii_lowercase(),
        Collation::Utf8mb4GeneralCi => general::weight(sign).to_ascii_lowercase(),
        collation => of_unicode(collation, sign),
    };
    Cow::Owned(text.chars().map(sign).collect())
}

/// Appends the text that is [`folded`].
pub fn put(collation: Collation, text: &str, out: &mut Vec<u8>) {
    let is_put = !collation.is_case_sensitive() && LOWER.put(text.as_bytes(), out);
    if !is_put {
        out.extend_from_slice(folded(collation, text).as_bytes());
    }
}

static LOWER: LazyLock<Ascii> = LazyLock::new(|| Ascii::letters(u8::to_ascii_lowercase));

fn lower(sign: char) -> char {
    let mut letters = sign.to_lowercase();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => letter,
        _ => sign,
    }
}

/// The letter without accents, if it is equal, else the small letter, else the character itself.
fn of_unicode(collation: Collation, sign: char) -> char {
    const DECOMPOSITION: CanonicalDecompositionBorrowed<'static> =
        CanonicalDecompositionBorrowed::new();
    let mut base = sign;
    while let Decomposed::Expansion(first, _) | Decomposed::Singleton(first) =
        DECOMPOSITION.decompose(base)
    {
        base = first;
    }
    let weights = |sign: char| {
        let mut weights = Vec::new();
        weights::put(collation, sign.encode_utf8(&mut [0; 4]), &mut weights);
        weights
    };
    let own = LazyCell::new(|| weights(sign));
    let is_equal = |candidate: &char| *candidate == sign || weights(*candidate) == *own;
    [lower(base), lower(sign)].into_iter().find(is_equal).unwrap_or(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_characters() {
        let text = "Stra\u{df}e \u{c4}\u{e9}\u{42f} %_\\";
        for (collation, wanted) in [
            (Collation::Utf8mb40900AiCi, "stra\u{df}e ae\u{44f} %_\\"),
            (Collation::Utf8mb40900AsCi, "stra\u{df}e \u{e4}\u{e9}\u{44f} %_\\"),
            (Collation::Utf8mb4GeneralCi, "strase ae\u{42f} %_\\"),
            (Collation::Utf8mb4Bin, text),
        ] {
            assert_eq!(folded(collation, text), wanted, "{collation:?}");
        }
        assert_eq!(folded(Collation::Utf8mb4GeneralCi, "ABC d"), "abc d");
    }
}
