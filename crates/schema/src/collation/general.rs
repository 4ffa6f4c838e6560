//! `utf8mb4_general_ci`: each character has the weight of the letter that remains without accents,
//! in upper case.
//!
//! As in MySQL, accents are taken from letters of the Latin, Greek and Cyrillic scripts only, and
//! all characters outside the basic plane are equal.

use std::ops::RangeInclusive;

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

/// What characters outside the basic plane are.
const REPLACEMENT: char = '\u{fffd}';
/// The end of the scripts whose accents are left out.
const SCRIPTS_END: char = '\u{530}';
/// More letters of the same scripts, most of which have two accents or more.
const EXTENDED: RangeInclusive<char> = '\u{1e00}'..='\u{1fff}';
/// A letter of its own, though Unicode takes it apart.
const SHORT_I: char = '\u{419}';

fn upper(sign: char) -> char {
    let mut letters = sign.to_uppercase();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => letter,
        _ => sign,
    }
}

/// The character that stands for all that are equal to this one.
pub fn weight(sign: char) -> char {
    const DECOMPOSITION: CanonicalDecompositionBorrowed<'static> =
        CanonicalDecompositionBorrowed::new();
    if sign.is_ascii() {
        return sign.to_ascii_uppercase();
    }
    if u32::from(sign) > 0xffff {
        return REPLACEMENT;
    }
    let mut letter = match sign {
        '\u{df}' => 'S',
        '\u{3f2}' => '\u{3a3}',
        sign => upper(sign),
    };
    while letter != SHORT_I
        && let Decomposed::Expansion(base, _) | Decomposed::Singleton(base) =
            DECOMPOSITION.decompose(letter)
        && (base < SCRIPTS_END || EXTENDED.contains(&base))
    {
        letter = base;
    }
    upper(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_lose_case_and_accents() {
        for (sign, wanted) in [
            ('a', 'A'),
            ('_', '_'),
            ('\u{e4}', 'A'),
            ('\u{df}', 'S'),
            ('\u{1ec7}', 'E'),
            ('\u{3ce}', '\u{3a9}'),
            ('\u{439}', SHORT_I),
            ('\u{451}', '\u{415}'),
            ('\u{ac00}', '\u{ac00}'),
            ('\u{304c}', '\u{304c}'),
            ('\u{1f600}', REPLACEMENT),
        ] {
            assert_eq!(weight(sign), wanted, "{sign}");
        }
    }
}
