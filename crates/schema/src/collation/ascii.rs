//! Texts of ASCII, eight characters at a time.

/// What stands for each character of ASCII: one byte, or 0 where the text has to go the long way,
/// as all bytes of other characters have to.
pub struct Ascii([u8; 256]);

/// The number of bytes that are mapped at once.
const WORD_BYTES: usize = size_of::<u64>();

/// Whether one of the bytes is zero.
const fn has_zero(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

impl Ascii {
    /// The characters stand for themselves, but for letters in upper or lower case.
    pub const fn letters(upper: bool) -> Self {
        let mut bytes = [0; 256];
        let mut code = 0_u8;
        while code < 128 {
            bytes[code as usize] =
                if upper { code.to_ascii_uppercase() } else { code.to_ascii_lowercase() };
            code += 1;
        }
        Self(bytes)
    }

    /// By the byte of each character; 0 where there is none.
    pub fn new(of: &[u8; 128]) -> Self {
        let mut bytes = [0; 256];
        bytes[..128].copy_from_slice(of);
        Self(bytes)
    }

    /// The byte of a character; 0 where there is none.
    #[inline]
    pub const fn byte(&self, sign: u8) -> u8 {
        self.0[sign as usize]
    }

    fn word(&self, signs: [u8; WORD_BYTES]) -> u64 {
        u64::from_le_bytes(signs.map(|sign| self.byte(sign)))
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
            let upper = Ascii::letters(true);
            let one_by_one = text.iter().map(|&sign| upper.byte(sign)).collect::<Vec<_>>();
            let mut out = vec![7];
            let all = upper.put(&text, &mut out);
            prop_assert_eq!(all, !one_by_one.contains(&0));
            prop_assert_eq!(&out[1..], if all { &one_by_one[..] } else { &[] });
        }
    }
}
