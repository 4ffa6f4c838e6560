//! Terms, which identify the start of the store that wrote some bytes, and the term file.
//!
//! Each start begins a new term. Its number is stored in a small file before anything of the term
//! is written, and the checksums of its heads and frames are seeded with a salt derived from the
//! number and a secret of the store. So remains of other terms in a log file, and bytes chosen by a
//! user, are never taken for its batches.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use freshet_base::Term;
use freshet_base::io::{Fs, Mode};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;
use crate::checksum::Salt;
use crate::file::make_file;

/// A secret of the store, from which the salts of terms are derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Secret {
    /// The first term that it applies to, until the next secret.
    pub from: Term,
    /// Random bits.
    pub key: [u64; 2],
}

/// The salts of terms. The log itself shows which terms existed: a checksum that matches with the
/// salt of a term proves that it wrote the bytes.
pub(crate) struct Terms {
    secrets: Vec<Secret>,
    known: Mutex<HashMap<Term, Salt>>,
}

impl Terms {
    pub(crate) fn new(secrets: &[Secret]) -> Self {
        let mut secrets = secrets.to_vec();
        secrets.sort_by_key(|secret| secret.from);
        Self { secrets, known: Mutex::default() }
    }

    /// The salt of a term; `None` if no secret applies to it.
    pub(crate) fn salt(&self, term: Term) -> Option<Salt> {
        if let Some(known) = self.known.lock().get(&term) {
            return Some(*known);
        }
        if term == Term::ZERO {
            return None;
        }
        let secret = self.secrets.iter().rev().find(|secret| secret.from <= term)?;
        Some(salt(secret, term))
    }

    /// Caches the salt of a term of which bytes were found. Others are not cached, since user data
    /// may name any term.
    pub(crate) fn found(&self, term: Term, salt: Salt) {
        self.known.lock().insert(term, salt);
    }
}

/// The salt of `term`, to which `secret` applies.
fn salt(secret: &Secret, term: Term) -> Salt {
    let mut hash = Sha256::new();
    for part in [secret.key[0], secret.key[1], term.get()] {
        hash.update(part.to_le_bytes());
    }
    let digest = hash.finalize();
    Salt::new(u64::from_le_bytes(*digest.first_chunk().expect("a digest has 32 bytes")))
}

/// ```text
/// offset  bytes  little endian
///      0      4  magic, which names the format version
///      4      4  CRC-32C of the 16 bytes after it
///      8      8  term
///     16      8  who got the vote of the term; 0 with a single node
/// ```
const MAGIC: [u8; 4] = *b"FRS\x01";
const STATE_BYTES: usize = 24;
/// Two blocks with the same contents: one of them remains intact after a torn write or a damaged
/// sector.
const BLOCKS: usize = 2;
const BLOCK: usize = BLOCK_BYTES as usize;

/// The state of the term file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermFile {
    /// The highest term that may have written anything.
    Term(Term),
    /// Like `Term`, but one of the two blocks is unreadable.
    OneBlock(Term),
    /// The file does not exist.
    Missing,
    /// Both blocks are unreadable.
    Damaged,
}

impl TermFile {
    /// The term, if it is readable.
    pub fn term(self) -> Option<Term> {
        match self {
            Self::Term(term) | Self::OneBlock(term) => Some(term),
            Self::Missing | Self::Damaged => None,
        }
    }
}

fn encode_state(term: Term) -> [u8; STATE_BYTES] {
    let mut bytes = [0; STATE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&term.get().to_le_bytes());
    let checksum = Salt::new(0).checksum(&[&bytes[8..]]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode_state(block: &[u8]) -> Option<Term> {
    let bytes: &[u8; STATE_BYTES] = block.first_chunk()?;
    let term = Term(u64::from_le_bytes(*bytes[8..].first_chunk()?));
    // The largest number would leave none for the next term.
    (encode_state(term) == *bytes && term.get() < u64::MAX).then_some(term)
}

/// The contents of each block.
fn read_blocks(fs: &dyn Fs, path: &Path) -> io::Result<[Option<Term>; BLOCKS]> {
    fs.open(path, Mode::Read)?.drop_cache()?;
    let bytes = fs.read(path)?;
    let block = |at: usize| bytes.get(at * BLOCK..).and_then(decode_state);
    Ok([block(0), block(1)])
}

/// Reads the term file: the higher term of its blocks.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read_term(fs: &dyn Fs, path: &Path) -> io::Result<TermFile> {
    match read_blocks(fs, path) {
        Ok([Some(first), Some(second)]) => Ok(TermFile::Term(first.max(second))),
        Ok([Some(one), None] | [None, Some(one)]) => Ok(TermFile::OneBlock(one)),
        Ok([None, None]) => Ok(TermFile::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TermFile::Missing),
        Err(error) => Err(error),
    }
}

/// Writes the term file, creating it if necessary. Both blocks are written and synced one after the
/// other, and only then may the term write anything: if one of them is damaged later, the other one
/// still has the term. The block with the lower term comes first, so that one block is intact if
/// either write is interrupted.
///
/// # Errors
/// Those of the file system; the term must not begin then.
pub fn write_term(fs: &dyn Fs, path: &Path, term: Term) -> io::Result<()> {
    let len = (BLOCKS * BLOCK) as u64;
    let before = match read_blocks(fs, path) {
        Ok(before) => before,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_file(fs, path, len)?;
            [None, None]
        }
        Err(error) => return Err(error),
    };
    let mut block = AlignedBuffer::new(BLOCK);
    block.push(&encode_state(term));
    block.push_zeros(block.left());
    let file = fs.open(path, Mode::Direct)?;
    if file.len_bytes()? != len {
        file.set_len(len)?;
    }
    let order = if before[1] < before[0] { [1, 0] } else { [0, 1] };
    for at in order {
        file.write_all_at(block.bytes(), (at * BLOCK) as u64)?;
        file.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
