//! Weights of whole columns.

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;

use super::{Collation, fold, weights};
use crate::views::Views;

/// The weights of each text, as a `BinaryView` array. `check` is called with the number of each
/// row before it.
///
/// # Errors
/// Those of `check`.
pub fn weights<E>(
    collation: Collation,
    texts: &StringViewArray,
    check: impl FnMut(usize) -> Result<(), E>,
) -> Result<ArrayRef, E> {
    let put = |text: &str, out: &mut Vec<u8>| weights::put(collation, text, out);
    made(texts, &DataType::BinaryView, put, check)
}

/// Each text with equal characters made the same ([`fold::folded`]), as a `Utf8View` array.
///
/// # Errors
/// Those of `check`.
pub fn folded<E>(
    collation: Collation,
    texts: &StringViewArray,
    check: impl FnMut(usize) -> Result<(), E>,
) -> Result<ArrayRef, E> {
    let put = |text: &str, out: &mut Vec<u8>| fold::put(collation, text, out);
    made(texts, &DataType::Utf8View, put, check)
}

fn made<E>(
    texts: &StringViewArray,
    ty: &DataType,
    put: impl Fn(&str, &mut Vec<u8>),
    mut check: impl FnMut(usize) -> Result<(), E>,
) -> Result<ArrayRef, E> {
    let mut out = Views::new(texts.len());
    // Those of ASCII are about as long as the texts.
    out.reserve(texts.lengths().map(|length| length as usize + 2).sum());
    for (at, text) in texts.iter().enumerate() {
        check(at)?;
        match text {
            Some(text) => out.push_by(|out| put(text, out)),
            None => out.push_null(),
        }
    }
    Ok(out.finish(ty, texts.nulls().cloned()))
}
