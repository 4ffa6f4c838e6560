//! The rows of one section of a mark file, in the shorter of two forms.

use freshet_schema::row::{put_length, take_length};

/// Pairs of LEB128 numbers: rows passed over, rows marked.
const RUNS: u8 = 1;
/// A bit for each row of the segment, in whole bytes.
const BITS: u8 = 2;

/// Encodes ascending rows of a segment of `rows` rows: the form and its bytes.
pub(super) fn encode(rows: u32, dead: &[u32]) -> (u8, Vec<u8>) {
    assert!(dead.is_sorted_by(|a, b| a < b), "rows of a section ascend");
    assert!(dead.last().is_none_or(|&last| last < rows), "a section marks rows of its segment");
    let mut runs = Vec::new();
    let mut at = 0;
    for run in dead.chunk_by(|a, b| a + 1 == *b) {
        put_length(&mut runs, (run[0] - at) as usize);
        put_length(&mut runs, run.len());
        at = run[0] + run.len() as u32;
    }
    let bits_bytes = (rows as usize).div_ceil(8);
    if runs.len() <= bits_bytes {
        return (RUNS, runs);
    }
    let mut bits = vec![0; bits_bytes];
    dead.iter().for_each(|&row| bits[row as usize >> 3] |= 1 << (row & 7));
    (BITS, bits)
}

/// The rows of a section, ascending; `None` for bytes that `encode` never makes.
pub(super) fn decode(form: u8, bytes: &[u8], rows: u32) -> Option<Vec<u32>> {
    match form {
        RUNS => decode_runs(bytes, rows),
        BITS => decode_bits(bytes, rows),
        _ => None,
    }
}

fn decode_runs(mut bytes: &[u8], rows: u32) -> Option<Vec<u32>> {
    let mut dead = Vec::new();
    let mut at = 0u32;
    while !bytes.is_empty() {
        let mut number = || {
            let (number, taken) = take_length(bytes)?;
            bytes = &bytes[taken..];
            u32::try_from(number).ok()
        };
        let start = at.checked_add(number()?)?;
        let end = start.checked_add(number()?)?;
        let is_next = start < end && end <= rows && (start > at || at == 0);
        if !is_next {
            return None;
        }
        dead.extend(start..end);
        at = end;
    }
    Some(dead)
}

fn decode_bits(bytes: &[u8], rows: u32) -> Option<Vec<u32>> {
    let is_whole = bytes.len() == (rows as usize).div_ceil(8);
    let is_set = |&row: &u32| bytes[row as usize >> 3] >> (row & 7) & 1 == 1;
    let tail = match rows & 7 {
        0 => 0,
        used => bytes.last()? >> used,
    };
    (is_whole && tail == 0).then(|| (0..rows).filter(is_set).collect())
}
