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

/// The terms of which something may stand in the log, and their salts.
pub(crate) struct Terms {
    last: Term,
    secrets: Vec<Secret>,
    known: Mutex<HashMap<Term, Salted>>,
}

impl Terms {
    /// Terms up to `last`, salted with `secrets`.
    pub(crate) fn new(secrets: &[Secret], last: Term) -> Self {
        let mut secrets = secrets.to_vec();
        secrets.sort_by_key(|secret| secret.from);
        Self { last, secrets, known: Mutex::default() }
    }

    /// The checksums of a term; `None` where there was no such term.
    pub(crate) fn salted(&self, term: Term) -> Option<Salted> {
        if term == Term::ZERO || term > self.last {
            return None;
        }
        let secret = self.secrets.iter().rev().find(|secret| secret.from <= term)?;
        Some(*self.known.lock().entry(term).or_insert_with(|| salted(secret, term)))
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
const BLOCKS: u64 = 2;

/// What the file of terms says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermFile {
    /// The highest term that may have written anything.
    Term(Term),
    /// There is no file.
    Missing,
    /// Neither of its blocks can be read.
    Damaged,
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
    (encode_state(term) == *bytes).then_some(term)
}

/// Reads the file of terms: the highest term that one of its blocks says.
///
/// # Errors
/// A file that is there and cannot be read.
pub fn read_term(fs: &dyn Fs, path: &Path) -> io::Result<TermFile> {
    if !fs.exists(path) {
        return Ok(TermFile::Missing);
    }
    let file = fs.open(path, Mode::Read)?;
    file.drop_cache()?;
    let bytes = fs.read(path)?;
    let terms = bytes.chunks(BLOCK_BYTES as usize).filter_map(decode_state);
    Ok(terms.max().map_or(TermFile::Damaged, TermFile::Term))
}

/// Writes the file of terms, and makes it where there is none. Both blocks are written, the second
/// once the first is on the device, and only then may the term write anything: whichever of them
/// is damaged later, the other knows of the term.
///
/// # Errors
/// What the file system says; then the term may not begin.
pub fn write_term(fs: &dyn Fs, path: &Path, term: Term) -> io::Result<()> {
    let len = BLOCKS * BLOCK_BYTES;
    if !fs.exists(path) || fs.open(path, Mode::Read)?.len_bytes()? != len {
        make_file(fs, path, len)?;
    }
    let mut block = AlignedBuffer::new(BLOCK_BYTES as usize);
    block.push(&encode_state(term));
    block.push_zeros(block.left());
    let file = fs.open(path, Mode::Direct)?;
    for at in 0..BLOCKS {
        file.write_all_at(block.bytes(), at * BLOCK_BYTES)?;
        file.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
