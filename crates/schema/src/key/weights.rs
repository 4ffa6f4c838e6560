//! Texts in keys: the weights of their collation, so that equal texts have equal keys.
//!
//! Keys are on disk, so what is said here never changes, nor do the weights of a character
//! (RFC 0025).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, RecordBatch};

use crate::collation::weights;
use crate::{Collation, Column, TableSchema};

/// The most weights of a text that a key has as they are, in bytes. Of longer ones it has the
/// first 1008 and then a hash of all of them: unequal texts have unequal keys nevertheless, but
/// those with the same start are in no order.
pub const WEIGHTS_BYTES_MAX: usize = 1024;
/// What a key has of longer weights in front of their hash.
const START_BYTES: usize = WEIGHTS_BYTES_MAX - 16;
/// The seeds of the two halves of a hash.
const SEEDS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

/// Appends what a key has of a text.
pub(super) fn put_weights(collation: Collation, text: &str, out: &mut Vec<u8>) {
    let from = out.len();
    weights::put(collation, text, out);
    shorten(out, from);
}

/// Makes weights that begin at `from` those of a key.
fn shorten(weights: &mut Vec<u8>, from: usize) {
    if weights.len() - from <= WEIGHTS_BYTES_MAX {
        return;
    }
    let hashes = SEEDS.map(|seed| hash(seed, &weights[from..]));
    weights.truncate(from + START_BYTES);
    hashes.iter().for_each(|hash| weights.extend_from_slice(&hash.to_be_bytes()));
}

/// From the length on, each word of eight bytes, the last one padded with zeros, turns the hash
/// into the upper half of a product xor the lower.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        (product >> 64) as u64 ^ product as u64
    };
    let words = bytes.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    let hash = words.fold(fold(seed, bytes.len() as u64), fold);
    fold(hash, seed)
}

/// The weights of a key as a text, in which each byte is the character with its number. So a row
/// that only removes its key names a text that it does not know.
pub(super) fn text_of(weights: &[u8]) -> String {
    weights.iter().copied().map(char::from).collect()
}

/// All weights of a text as the text by which [`Keys::of_weighed_index`](super::Keys) finds it.
pub fn asked_text(mut weights: Vec<u8>) -> String {
    shorten(&mut weights, 0);
    text_of(&weights)
}

/// Whether these weights have a place in the order of keys, as the ends of ranges need it.
pub const fn are_in_order(weights: &[u8]) -> bool {
    weights.len() <= START_BYTES
}

/// The weights in such a text.
///
/// # Panics
/// When it has other characters.
pub(super) fn put_text_of(text: &str, out: &mut Vec<u8>) {
    let byte = |sign: char| u8::try_from(sign).expect("a removed key has bytes as characters");
    out.extend(text.chars().map(byte));
}

/// The values of a column as keys have them: texts by weights as these, others as they are.
pub(crate) fn key_values(array: &ArrayRef, column: &Column) -> ArrayRef {
    let Some(collation) = column.key_collation() else { return Arc::clone(array) };
    let texts = array.as_string_view();
    let mut values = BinaryViewBuilder::with_capacity(texts.len());
    let mut bytes = Vec::new();
    for text in texts {
        let Some(text) = text else {
            values.append_null();
            continue;
        };
        bytes.clear();
        put_weights(collation, text, &mut bytes);
        values.append_value(&bytes);
    }
    Arc::new(values.finish())
}

/// The columns of the sort key in rows, as keys have them.
pub struct KeyColumns {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl KeyColumns {
    /// Those of a batch, which has the columns of `schema`.
    pub fn new(batch: &RecordBatch, schema: &TableSchema) -> Self {
        let values = |&at: &usize| key_values(batch.column(at), &schema.columns[at]);
        let columns = schema.sort_key.iter().map(values).collect();
        Self { columns, rows: batch.num_rows() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_characters() {
        let all = (0..=u8::MAX).collect::<Vec<_>>();
        let mut back = Vec::new();
        put_text_of(&text_of(&all), &mut back);
        assert_eq!(back, all);
    }
}
