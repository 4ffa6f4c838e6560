//! The password hash SHA-crypt with SHA-256, published by Ulrich Drepper in 2007. MySQL uses it for
//! `caching_sha2_password`, with a salt of 20 bytes where crypt(3) has 16.

use sha2::{Digest, Sha256};

/// The length of a digest: 32 bytes in base 64.
pub(crate) const DIGEST_BYTES: usize = 43;

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The digest of `password` in the alphabet of crypt(3). The time grows with `rounds` and the
/// length of the password.
pub(crate) fn hash(password: &[u8], salt: &[u8], rounds: u32) -> [u8; DIGEST_BYTES] {
    let mut current = first(password, salt);
    let key = repeated(&stretched_key(password), password.len());
    let salt = repeated(&stretched_salt(salt, current[0]), salt.len());
    for round in 0..rounds {
        let mut hasher = Sha256::new();
        let odd = round % 2 == 1;
        hasher.update(if odd { &key[..] } else { &current[..] });
        if round % 3 != 0 {
            hasher.update(&salt);
        }
        if round % 7 != 0 {
            hasher.update(&key);
        }
        hasher.update(if odd { &current[..] } else { &key[..] });
        current = hasher.finalize().into();
    }
    encode(&current)
}

fn first(password: &[u8], salt: &[u8]) -> [u8; 32] {
    let alternate: [u8; 32] = Sha256::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut hasher = Sha256::new().chain_update(password).chain_update(salt);
    hasher.update(repeated(&alternate, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        hasher.update(if bits & 1 == 1 { &alternate[..] } else { password });
        bits >>= 1;
    }
    hasher.finalize().into()
}

fn stretched_key(password: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    password.iter().for_each(|_| hasher.update(password));
    hasher.finalize().into()
}

fn stretched_salt(salt: &[u8], first_byte: u8) -> [u8; 32] {
    let mut hasher = Sha256::new();
    (0..16 + usize::from(first_byte)).for_each(|_| hasher.update(salt));
    hasher.finalize().into()
}

/// `count` bytes of the digest, repeated.
fn repeated(digest: &[u8; 32], count: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(count).collect()
}

/// Base 64 with the low bits first, over triples of bytes at a distance of ten, rotating.
fn encode(digest: &[u8; 32]) -> [u8; DIGEST_BYTES] {
    let mut out = [0; DIGEST_BYTES];
    let mut at = 0;
    let mut put = |mut bits: u32, count: usize| {
        for _ in 0..count {
            out[at] = ALPHABET[(bits & 0x3f) as usize];
            bits >>= 6;
            at += 1;
        }
    };
    let bits = |a: u8, b: u8, c: u8| u32::from_be_bytes([0, a, b, c]);
    let (mut a, mut b, mut c) = (0, 10, 20);
    for _ in 0..10 {
        put(bits(digest[a], digest[b], digest[c]), 4);
        (a, b, c) = (c + 1, a + 1, b + 1);
    }
    put(bits(0, digest[31], digest[30]), 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests computed by `openssl passwd -5`.
    #[test]
    fn vectors() {
        const LONG: &str = "a rather longer password of more than thirty-two bytes";
        for (password, salt, rounds, digest) in [
            ("Hello world!", "saltstring", 5000, "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (
                "Hello world!",
                "abcdefghijklmnop",
                5000,
                "WygOm0vZdIKWH9yI98DLdhsSwAIlXFRF1LLg5KLHb58",
            ),
            (LONG, "saltstring", 1000, "ONIe6iOkVqTF0BfHY9Y/jInaQGkpe6vlwlLhgCxnhhD"),
            (LONG, "saltstring", 5000, "Enh/dfWB66FpxRKdZOyMBw36MPjhTcvfvHDktbhUpqD"),
        ] {
            let got = hash(password.as_bytes(), salt.as_bytes(), rounds);
            assert_eq!(String::from_utf8_lossy(&got), digest);
        }
    }
}
