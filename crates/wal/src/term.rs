//! Terms: which bytes a start of the store may have written, and the file that counts them.
//!
//! A start is a term. Its number stands in a small file before anything of the term is written,
//! and the checksums of its heads and frames are seeded with a salt that follows from the number
//! and a secret of the store. So what another term left in a log file, and what stands in the
//! bytes of a user, is never taken for its batches.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use freshet_base::Term;
use freshet_base::io::{Fs, Mode};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;
use crate::checksum::Salted;
use crate::file::make_file;

/// A secret of the store, from which the salts of its terms follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Secret {
    /// The first term that it is for; the next secret takes over.
    pub from: Term,
    /// Random.
    pub key: [u64; 2],
}

/// The salts of terms. Which terms there were the log itself says: a checksum that holds under the
/// salt of a term is the proof that it wrote the bytes.
pub(crate) struct Terms {
    secrets: Vec<Secret>,
    known: Mutex<HashMap<Term, Salted>>,
}

impl Terms {
    /// Terms salted with `secrets`.
    pub(crate) fn new(secrets: &[Secret]) -> Self {
        let mut secrets = secrets.to_vec();
        secrets.sort_by_key(|secret| secret.from);
        Self { secrets, known: Mutex::default() }
    }

    /// The checksums of a term; `None` where no secret is for it.
    pub(crate) fn salted(&self, term: Term) -> Option<Salted> {
        if let Some(known) = self.known.lock().get(&term) {
            return Some(*known);
        }
        if term == Term::ZERO {
            return None;
        }
        let secret = self.secrets.iter().rev().find(|secret| secret.from <= term)?;
        Some(salted(secret, term))
    }

    /// Notes that bytes of a term were found. Others are not kept: bytes of a user may name any.
    pub(crate) fn found(&self, term: Term, salted: Salted) {
        self.known.lock().insert(term, salted);
    }
}

/// The checksums of `term`, which `secret` is for.
fn salted(secret: &Secret, term: Term) -> Salted {
    let mut hash = Sha256::new();
    for part in [secret.key[0], secret.key[1], term.get()] {
        hash.update(part.to_le_bytes());
    }
    let digest = hash.finalize();
    Salted::new(u64::from_le_bytes(*digest.first_chunk().expect("a digest has 32 bytes")))
}

/// ```text
/// offset  bytes  little endian
///      0      4  magic, which names the format version
///      4      4  CRC-32C of the 16 bytes behind it
///      8      8  term
///     16      8  who got its vote; 0 where there is but one node
/// ```
const MAGIC: [u8; 4] = *b"FRS\x01";
const STATE_BYTES: usize = 24;
/// Two blocks of the same content: one of them is whole after a torn write, and after rot.
const BLOCKS: usize = 2;
const BLOCK: usize = BLOCK_BYTES as usize;

/// What the file of terms says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermFile {
    /// The highest term that may have written anything.
    Term(Term),
    /// The same; one of the two blocks cannot be read.
    OneBlock(Term),
    /// There is no file.
    Missing,
    /// Neither of its blocks can be read.
    Damaged,
}

impl TermFile {
    /// What it says, if it can be read.
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
    let checksum = Salted::new(0).of(&[&bytes[8..]]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode_state(block: &[u8]) -> Option<Term> {
    let bytes: &[u8; STATE_BYTES] = block.first_chunk()?;
    let term = Term(u64::from_le_bytes(*bytes[8..].first_chunk()?));
    // Behind the last number there is none to go on with.
    (encode_state(term) == *bytes && term.get() < u64::MAX).then_some(term)
}

/// What each block says.
fn read_blocks(fs: &dyn Fs, path: &Path) -> io::Result<[Option<Term>; BLOCKS]> {
    fs.open(path, Mode::Read)?.drop_cache()?;
    let bytes = fs.read(path)?;
    let block = |at: usize| bytes.get(at * BLOCK..).and_then(decode_state);
    Ok([block(0), block(1)])
}

/// Reads the file of terms: the highest term that one of its blocks says.
///
/// # Errors
/// A file that is there and cannot be read.
pub fn read_term(fs: &dyn Fs, path: &Path) -> io::Result<TermFile> {
    match read_blocks(fs, path) {
        Ok([Some(first), Some(second)]) => Ok(TermFile::Term(first.max(second))),
        Ok([Some(one), None] | [None, Some(one)]) => Ok(TermFile::OneBlock(one)),
        Ok([None, None]) => Ok(TermFile::Damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TermFile::Missing),
        Err(error) => Err(error),
    }
}

/// Writes the file of terms, and makes it where there is none. Both blocks are written, the second
/// once the first is on the device, and only then may the term write anything: whichever of them
/// is damaged later, the other knows of the term. The block that says less is the first, so that
/// whichever write is cut off, one block is whole.
///
/// # Errors
/// What the file system says; then the term may not begin.
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
