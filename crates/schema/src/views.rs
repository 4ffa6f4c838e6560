//! Values of varying length as Arrow's views.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

/// A value of up to this length is stored inside its view.
const VIEW_INLINE_BYTES_MAX: usize = 12;
/// The size at which a buffer of long values is closed: a view addresses it with 32 bits.
const VIEW_BUFFER_BYTES_MAX: usize = 1 << 30;

/// After so many values, the length of those to come is known well enough.
const ROWS_KNOWN_MIN: usize = 1024;
/// How many times as large a buffer becomes at once.
const GROWTH_MAX: usize = 4;

/// Arrow's view layout: the length, then either the bytes themselves (up to 12), or the first four
/// of them and the position of the value in a shared buffer.
pub struct Views {
    views: Vec<u128>,
    /// Full buffers of long values.
    closed: Vec<Buffer>,
    open: Vec<u8>,
}

impl Views {
    pub fn new(capacity: usize) -> Self {
        Self { views: Vec::with_capacity(capacity), closed: Vec::new(), open: Vec::new() }
    }

    /// Appends the first `length` bytes of `cells`.
    #[inline]
    pub fn push(&mut self, cells: &[u8], length: usize) {
        if length > VIEW_INLINE_BYTES_MAX {
            return self.push_long(&cells[..length]);
        }
        let content = match cells.first_chunk() {
            // One 16-byte load and a mask instead of a copy of variable length.
            Some(wide) => u128::from_le_bytes(*wide) & ((1 << (8 * length)) - 1),
            None => {
                let mut wide = [0; 16];
                wide[..length].copy_from_slice(&cells[..length]);
                u128::from_le_bytes(wide)
            }
        };
        self.views.push(content << 32 | length as u128);
    }

    fn push_long(&mut self, bytes: &[u8]) {
        if self.open.len() + bytes.len() > VIEW_BUFFER_BYTES_MAX {
            self.closed.push(Buffer::from_vec(std::mem::take(&mut self.open)));
        }
        let from = self.open.len();
        if from + bytes.len() > self.open.capacity() {
            self.grow(bytes.len());
        }
        self.open.extend_from_slice(bytes);
        self.views.push(self.view_of(from, bytes.len()));
    }

    /// Makes room for as many values as were announced, if those before tell how long they are:
    /// growing step by step copies each byte twice.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        let (rows, expected) = (self.views.len(), self.views.capacity());
        let of_all = (self.open.len() + bytes).saturating_mul(expected) / (rows + 1);
        let is_known = self.closed.is_empty() && rows >= ROWS_KNOWN_MIN;
        // What comes may be shorter than what came.
        let room = if is_known { of_all.min(GROWTH_MAX * self.open.len()) } else { 0 };
        let room = room.min(VIEW_BUFFER_BYTES_MAX);
        self.open.reserve(bytes.max(room.saturating_sub(self.open.len())));
    }

    /// Appends the value that `put` appends to what it is given.
    #[inline]
    pub fn push_by(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let from = self.open.len();
        put(&mut self.open);
        let length = self.open.len() - from;
        if length > VIEW_INLINE_BYTES_MAX {
            self.views.push(self.view_of(from, length));
            if self.open.len() > VIEW_BUFFER_BYTES_MAX {
                self.closed.push(Buffer::from_vec(std::mem::take(&mut self.open)));
            }
            return;
        }
        self.open.extend_from_slice(&[0; 16]);
        let wide = self.open[from..].first_chunk().expect("16 bytes were appended");
        self.views.push(u128::from_le_bytes(*wide) << 32 | length as u128);
        self.open.truncate(from);
    }

    /// The view of a long value in the open buffer.
    fn view_of(&self, from: usize, length: usize) -> u128 {
        let prefix = self.open[from..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        length as u128
            | u128::from(prefix) << 32
            | (self.closed.len() as u128) << 64
            | (from as u128) << 96
    }

    /// Makes room for long values of this many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.open.reserve(bytes.min(VIEW_BUFFER_BYTES_MAX));
    }

    /// Appends an empty value; the caller marks it NULL.
    pub fn push_null(&mut self) {
        self.views.push(0);
    }

    /// The number of values, NULLs included.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// The column, `Utf8View` or `BinaryView`.
    ///
    /// # Panics
    /// When `ty` is text and a value is not UTF-8, which validated rows exclude.
    pub fn finish(mut self, ty: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
        if self.open.capacity() - self.open.len() > self.open.len() / 4 {
            self.open.shrink_to_fit();
        }
        self.closed.push(Buffer::from_vec(std::mem::take(&mut self.open)));
        if *ty == DataType::BinaryView {
            let views = BinaryViewArray::try_new(self.views.into(), self.closed, nulls);
            return Arc::new(views.expect("views point to what was appended"));
        }
        assert_eq!(*ty, DataType::Utf8View, "values of varying length are text or bytes");
        assert!(self.is_text(), "texts of validated rows are UTF-8");
        // SAFETY: each view points to bytes that `push_long` appended, or holds its bytes inline,
        // and each value is UTF-8 as just checked. Arrow's own check, value by value, is far
        // slower.
        Arc::new(unsafe { StringViewArray::new_unchecked(self.views.into(), self.closed, nulls) })
    }

    /// Whether each value is UTF-8. Buffers hold values without gaps: if a whole buffer is UTF-8
    /// and no value begins inside a character, each value is UTF-8.
    fn is_text(&self) -> bool {
        self.closed.iter().all(|buffer| std::str::from_utf8(buffer).is_ok())
            && self.views.iter().all(|&view| {
                let length = view as u32 as usize;
                let content = view >> 32;
                if length > VIEW_INLINE_BYTES_MAX {
                    return content as u8 & 0xC0 != 0x80;
                }
                content & (u128::MAX / 0xFF * 0x80) == 0
                    || std::str::from_utf8(&content.to_le_bytes()[..length]).is_ok()
            })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};

    use super::*;

    fn finish(values: &[&[u8]], ty: DataType) -> ArrayRef {
        let mut views = Views::new(0);
        for value in values {
            views.push(value, value.len());
        }
        views.finish(&ty, None)
    }

    #[test]
    fn a_buffer_of_long_values_takes_little_more_than_these() {
        let (long, short) = ([b'x'; 5_000], [b'y'; 13]);
        let mut views = Views::new(100_000);
        (0..1_900).for_each(|_| views.push(&long, long.len()));
        (0..98_100).for_each(|_| views.push(&short, short.len()));
        let bytes = 1_900 * long.len() + 98_100 * short.len();
        assert!(views.open.capacity() <= (GROWTH_MAX + 1) * bytes, "{}", views.open.capacity());
        let array = views.finish(&DataType::Utf8View, None);
        let held = array.get_array_memory_size() - 16 * array.len();
        assert!(held <= bytes + bytes / 4 + 4_096, "{held} bytes for {bytes}");
    }

    #[test]
    fn what_is_written_in_place_is_what_is_pushed() {
        let values: [&[u8]; 4] = [b"", b"twelve bytes", b"more than twelve bytes", b"\0"];
        let mut views = Views::new(0);
        views.reserve(100);
        for value in values {
            views.push_by(|out| out.extend_from_slice(value));
        }
        let written = views.finish(&DataType::BinaryView, None);
        assert_eq!(
            written.as_binary_view(),
            finish(&values, DataType::BinaryView).as_binary_view()
        );
    }

    #[test]
    fn text_is_text_and_bytes_are_bytes() {
        let texts = ["", "\u{e9}", "short", "twelve bytes", "\u{e9}\u{4e00} and some more"];
        let bytes = texts.map(str::as_bytes);
        let text = finish(&bytes, DataType::Utf8View);
        assert_eq!(text.as_string_view().iter().flatten().collect::<Vec<_>>(), texts);
        let rest = text.to_data();
        rest.validate_full().expect("arrow finds nothing either");
        let raw = finish(&[b"\xff", b"\xff of more than twelve bytes"], DataType::BinaryView);
        assert_eq!(raw.as_binary_view().value(0), b"\xff");
    }

    #[test]
    fn what_is_no_text_is_never_given_out_as_text() {
        let whole = "a text with an \u{e9} in the middle of it".as_bytes();
        let cut = whole.iter().position(|&byte| byte >= 0x80).unwrap() + 1;
        let refused: [&[&[u8]]; 4] = [
            &[b"\xff"],
            &[b"a long value that ends badly \xc3"],
            // The concatenation is UTF-8, but neither part is.
            &[&whole[..cut], &whole[cut..]],
            &["\u{e9}".as_bytes().first_chunk::<1>().unwrap()],
        ];
        for values in refused {
            let given = std::panic::catch_unwind(|| finish(values, DataType::Utf8View));
            assert!(given.is_err(), "{values:?}");
        }
    }
}
