//! AES_ENCRYPT and AES_DECRYPT: blocks of AES with the padding of PKCS #7, as FIPS 197 and the
//! modes ECB and CBC of NIST SP 800-38A have them.

use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use freshet_base::err;

use super::row::{Kind, Out, Row, RowFunction};
use crate::error::external;

/// The calls that the rewriter makes of AES_ENCRYPT and AES_DECRYPT: bytes, key, initialization
/// vector or NULL, and the value of `block_encryption_mode`.
pub const ENCRYPT: &str = "mysql_aes_encrypt";
pub const DECRYPT: &str = "mysql_aes_decrypt";

const BLOCK_BYTES: usize = 16;

/// A key of one of the three lengths.
enum Cipher {
    Short(Box<Aes128>),
    Middle(Box<Aes192>),
    Long(Box<Aes256>),
}

impl Cipher {
    /// MySQL folds a key of any length into one of these by XOR.
    fn new(key: &[u8], key_bits: &str) -> Self {
        let folded = |len: usize| {
            let mut folded = vec![0_u8; len];
            key.iter().enumerate().for_each(|(at, byte)| folded[at % len] ^= byte);
            folded
        };
        let fits = "the key has the length of the cipher";
        match key_bits {
            "256" => Self::Long(Box::new(Aes256::new_from_slice(&folded(32)).expect(fits))),
            "192" => Self::Middle(Box::new(Aes192::new_from_slice(&folded(24)).expect(fits))),
            _ => Self::Short(Box::new(Aes128::new_from_slice(&folded(16)).expect(fits))),
        }
    }

    fn encrypt(&self, block: &mut Block) {
        match self {
            Self::Short(cipher) => cipher.encrypt_block(block),
            Self::Middle(cipher) => cipher.encrypt_block(block),
            Self::Long(cipher) => cipher.encrypt_block(block),
        }
    }

    fn decrypt(&self, block: &mut Block) {
        match self {
            Self::Short(cipher) => cipher.decrypt_block(block),
            Self::Middle(cipher) => cipher.decrypt_block(block),
            Self::Long(cipher) => cipher.decrypt_block(block),
        }
    }
}

/// What is combined with the next block; nothing in mode ECB.
type Chain = Option<Block>;

fn xor(block: &mut Block, chain: &Chain) {
    if let Some(before) = chain {
        block.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
    }
}

fn encrypt(bytes: &[u8], cipher: &Cipher, mut chain: Chain) -> Vec<u8> {
    let padding = BLOCK_BYTES - bytes.len() % BLOCK_BYTES;
    let pad = u8::try_from(padding).expect("it is at most 16");
    let mut out = bytes.to_vec();
    out.resize(bytes.len() + padding, pad);
    for chunk in out.chunks_exact_mut(BLOCK_BYTES) {
        let mut block = Block::clone_from_slice(chunk);
        xor(&mut block, &chain);
        cipher.encrypt(&mut block);
        chunk.copy_from_slice(&block);
        chain = chain.map(|_| block);
    }
    out
}

/// `None` for what was not encrypted by this key and mode, as far as its padding tells.
fn decrypt(bytes: &[u8], cipher: &Cipher, mut chain: Chain) -> Option<Vec<u8>> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK_BYTES) {
        return None;
    }
    let mut out = bytes.to_vec();
    for chunk in out.chunks_exact_mut(BLOCK_BYTES) {
        let before = Block::clone_from_slice(chunk);
        let mut block = before;
        cipher.decrypt(&mut block);
        xor(&mut block, &chain);
        chunk.copy_from_slice(&block);
        chain = chain.map(|_| before);
    }
    let pad = usize::from(*out.last()?);
    let is_padding = |byte: &u8| usize::from(*byte) == pad;
    if !(1..=BLOCK_BYTES).contains(&pad) || !out[out.len() - pad..].iter().all(is_padding) {
        return None;
    }
    out.truncate(out.len() - pad);
    Some(out)
}

/// The key of a call and what it begins with.
fn begun(row: &Row<'_>, name: &str) -> Result<(Cipher, Chain)> {
    let mode = std::str::from_utf8(row.bytes(3)).unwrap_or_default();
    let mut parts = mode.split('-').skip(1);
    let cipher = Cipher::new(row.bytes(1), parts.next().unwrap_or_default());
    if parts.next() != Some("cbc") {
        return Ok((cipher, None));
    }
    if row.null(2) {
        let message = "Incorrect parameter count in the call to native function";
        return Err(external(err!(ParameterCount, "{message} '{name}'")));
    }
    let Some(first) = row.bytes(2).get(..BLOCK_BYTES) else {
        return Err(external(err!(
            ShortVector,
            "The initialization vector supplied to {name} is too short. Must be at least \
             {BLOCK_BYTES} bytes long"
        )));
    };
    Ok((cipher, Some(Block::clone_from_slice(first))))
}

fn has_null(row: &Row<'_>) -> bool {
    row.null(0) || row.null(1)
}

pub fn all() -> Vec<ScalarUDF> {
    let bytes: &[Kind] = &[Kind::Bytes];
    [
        RowFunction::fallible(ENCRYPT, bytes, (4, 4), Kind::Bytes, |row| {
            if has_null(row) {
                return Ok(None);
            }
            let (cipher, chain) = begun(row, "aes_encrypt")?;
            if row.bytes(0).len() + BLOCK_BYTES > row.bytes_max() {
                return Ok(Some(Out::TooLong));
            }
            Ok(Some(Out::Bytes(encrypt(row.bytes(0), &cipher, chain))))
        })
        .sees_null(),
        RowFunction::fallible(DECRYPT, bytes, (4, 4), Kind::Bytes, |row| {
            if has_null(row) {
                return Ok(None);
            }
            let (cipher, chain) = begun(row, "aes_decrypt")?;
            Ok(decrypt(row.bytes(0), &cipher, chain).map(Out::Bytes))
        })
        .sees_null(),
    ]
    .map(RowFunction::udf)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encrypted_is_decrypted() {
        for bits in ["128", "192", "256"] {
            for chain in [None, Some(Block::from([7; BLOCK_BYTES]))] {
                let cipher = Cipher::new(b"a key that is longer than sixteen bytes", bits);
                for len in [0, 1, 15, 16, 17, 100] {
                    let bytes = vec![3; len];
                    let secret = encrypt(&bytes, &cipher, chain);
                    assert_eq!(secret.len(), len / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES);
                    assert_eq!(decrypt(&secret, &cipher, chain), Some(bytes));
                }
                assert_eq!(decrypt(b"no block", &cipher, chain), None);
                assert_eq!(decrypt(&[], &cipher, chain), None);
            }
        }
    }
}
