//! Texts of ASCII, eight characters at a time.

/// What stands for each character of ASCII: one byte, or 0 where the text has to go the long way,
/// as all bytes of other characters have to. It is known of two characters at once, which takes a
/// third of the time.
pub struct Ascii(Box<[u16; PAIRS]>);

const PAIRS: usize = 1 << 16;
/// The number of bytes that are mapped at once.
const WORD_BYTES: usize = size_of::<u64>();

/// Whether one of the bytes is zero.
const fn has_zero(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

impl Ascii {
    /// By the byte of each character; 0 where there is none.
    pub fn new(of: &[u8; 128]) -> Self {
        let byte = |sign: u8| of.get(usize::from(sign)).copied().unwrap_or(0);
        let pairs = (0..=u16::MAX).map(|pair| u16::from_le_bytes(pair.to_le_bytes().map(byte)));
        let pairs = pairs.collect::<Box<[u16]>>();
        Self(pairs.try_into().expect("there are as many pairs as numbers of 16 bits"))
    }

    /// The characters stand for themselves, but for letters as `letter` has them.
    pub fn letters(letter: fn(&u8) -> u8) -> Self {
        Self::new(&std::array::from_fn(|code| letter(&u8::try_from(code).expect("128 codes"))))
    }

    /// The byte of a character; 0 where there is none.
    #[inline]
    pub fn byte(&self, sign: u8) -> u8 {
        self.0[usize::from(sign)].to_le_bytes()[0]
    }

    #[inline]
    fn word(&self, signs: [u8; WORD_BYTES]) -> u64 {
        let signs = u64::from_le_bytes(signs);
        let pair = |at: u32| u64::from(self.0[usize::from((signs >> at) as u16)]) << at;
        pair(0) | pair(16) | pair(32) | pair(48)
    }

    /// Appends the bytes of a text, if each of its characters has one; else nothing.
    #[inline]
    pub fn put(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let from = out.len();
        let (words, rest) = text.as_chunks::<WORD_BYTES>();
        let mut misses = false;
        for &signs in words {
            let word = self.word(signs);
            misses |= has_zero(word);
            out.extend_from_slice(&word.to_le_bytes());
        }
        match text.last_chunk::<WORD_BYTES>() {
            Some(_) if rest.is_empty() => {}
            // The last eight, of which some are there already.
            Some(&signs) => {
                let word = self.word(signs);
                misses |= has_zero(word);
                let known = 8 * (WORD_BYTES - rest.len());
                out.extend_from_slice(&(word >> known).to_le_bytes());
                out.truncate(from + text.len());
            }
            None => {
                for &sign in rest {
                    let byte = self.byte(sign);
                    misses |= byte == 0;
                    out.push(byte);
                }
            }
        }
        if misses {
            out.truncate(from);
        }
        !misses
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_one_by_one(text in proptest::collection::vec(any::<u8>(), 0..40), ascii: bool) {
            let text = text.iter().map(|byte| if ascii { byte & 0x7f } else { *byte });
            let text = text.collect::<Vec<_>>();
            let upper = Ascii::letters(u8::to_ascii_uppercase);
            let one_by_one = text.iter().map(|&sign| upper.byte(sign)).collect::<Vec<_>>();
            let mut out = vec![7];
            let all = upper.put(&text, &mut out);
            prop_assert_eq!(all, !one_by_one.contains(&0));
            prop_assert_eq!(&out[1..], if all { &one_by_one[..] } else { &[] });
        }
    }
}
