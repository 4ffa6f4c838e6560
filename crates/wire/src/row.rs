//! Rows, written cell by cell into the outgoing bytes.

use crate::encode::put_lenenc_bytes;
use crate::writer::Frame;
use crate::{Date, DateTime, Time};
use freshet_base::number_text::{NumberText, put_digits};

/// NULL in a row of the text protocol.
pub(crate) const TEXT_NULL: u8 = 0xfb;

/// Unused bits at the beginning of a binary row's NULL bitmap.
const BINARY_NULL_OFFSET: usize = 2;

/// The length of the NULL bitmap of a binary row.
pub(crate) fn binary_null_bytes(columns: usize) -> usize {
    (columns + BINARY_NULL_OFFSET).div_ceil(8)
}

/// The byte and mask of a column in the NULL bitmap of a binary row.
pub(crate) fn binary_null_bit(column: usize) -> (usize, u8) {
    let bit = column + BINARY_NULL_OFFSET;
    (bit / 8, 1 << (bit % 8))
}

/// A row of the text protocol. Write the cells in order, then call [`TextRow::finish`]; a row that
/// is dropped instead is removed.
#[derive(Debug)]
#[must_use = "a row that is not finished is taken back"]
pub struct TextRow<'w> {
    frame: Frame<'w>,
    missing: usize,
}

impl<'w> TextRow<'w> {
    pub(crate) fn new(frame: Frame<'w>, columns: usize) -> Self {
        Self { frame, missing: columns }
    }

    #[inline]
    fn cell(&mut self) -> &mut Vec<u8> {
        assert!(self.missing > 0, "a row has more cells than columns");
        self.missing -= 1;
        self.frame.payload()
    }

    /// Writes text of a length below 251 that is known only afterwards.
    #[inline]
    fn short(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let out = self.cell();
        let at = out.len();
        out.push(0);
        put(out);
        let length = out.len() - at - 1;
        assert!(length <= 0xfa, "a short cell has a length of one byte");
        out[at] = length as u8;
    }

    #[inline]
    pub fn null(&mut self) {
        self.cell().push(TEXT_NULL);
    }

    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        put_lenenc_bytes(self.cell(), value);
    }

    #[inline]
    pub fn int(&mut self, value: i64) {
        let mut buffer = [0; 20];
        let at = put_digits(&mut buffer, value.unsigned_abs());
        self.short(|out| {
            if value < 0 {
                out.push(b'-');
            }
            out.extend_from_slice(&buffer[at..]);
        });
    }

    #[inline]
    pub fn uint(&mut self, value: u64) {
        let mut buffer = [0; 20];
        let at = put_digits(&mut buffer, value);
        self.short(|out| out.extend_from_slice(&buffer[at..]));
    }

    /// A FLOAT: six significant digits, as MySQL prints it.
    pub fn float(&mut self, value: f32) {
        self.bytes(NumberText::float(value).as_bytes());
    }

    /// A DOUBLE: the shortest digits that read back as the same value.
    pub fn double(&mut self, value: f64) {
        self.bytes(NumberText::double(value).as_bytes());
    }

    /// A DECIMAL of `unscaled / 10^scale`; with scale 0 also a LARGEINT.
    pub fn decimal(&mut self, unscaled: i128, scale: u8) {
        self.bytes(NumberText::decimal(unscaled, scale).as_bytes());
    }

    pub fn date(&mut self, value: Date) {
        self.short(|out| value.put_text(out));
    }

    /// A DATETIME or TIMESTAMP with `decimals` (0 to 6) fraction digits.
    pub fn datetime(&mut self, value: DateTime, decimals: u8) {
        self.short(|out| value.put_text(out, decimals));
    }

    /// A TIME with `decimals` (0 to 6) fraction digits.
    pub fn time(&mut self, value: Time, decimals: u8) {
        self.short(|out| value.put_text(out, decimals));
    }

    #[inline]
    pub fn finish(self) {
        assert_eq!(self.missing, 0, "a row has fewer cells than columns");
        self.frame.finish();
    }
}

/// A row of the binary protocol. Call the method for the type in the column definition: integers
/// have the width of that type. Write the cells in order, then call [`BinaryRow::finish`]; a row
/// that is dropped instead is removed.
#[derive(Debug)]
#[must_use = "a row that is not finished is taken back"]
pub struct BinaryRow<'w> {
    frame: Frame<'w>,
    columns: usize,
    column: usize,
}

impl<'w> BinaryRow<'w> {
    pub(crate) fn new(mut frame: Frame<'w>, columns: usize) -> Self {
        let out = frame.payload();
        // The header of a row, 0, and a NULL bitmap without any bit set.
        out.resize(out.len() + 1 + binary_null_bytes(columns), 0);
        Self { frame, columns, column: 0 }
    }

    #[inline]
    fn cell(&mut self) -> &mut Vec<u8> {
        assert!(self.column < self.columns, "a row has more cells than columns");
        self.column += 1;
        self.frame.payload()
    }

    #[inline]
    pub fn null(&mut self) {
        let (byte, mask) = binary_null_bit(self.column);
        self.cell();
        self.frame.written()[1 + byte] |= mask;
    }

    /// TINYINT.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.cell().push(value as u8);
    }

    /// SMALLINT or YEAR.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.cell().extend_from_slice(&value.to_le_bytes());
    }

    /// INT or MEDIUMINT.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.cell().extend_from_slice(&value.to_le_bytes());
    }

    /// BIGINT. An unsigned integer of any width is sent as the signed one with the same bits.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.cell().extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn float(&mut self, value: f32) {
        self.cell().extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn double(&mut self, value: f64) {
        self.cell().extend_from_slice(&value.to_le_bytes());
    }

    /// Text, bytes, JSON; also a DECIMAL formatted as text.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        put_lenenc_bytes(self.cell(), value);
    }

    /// A DECIMAL of `unscaled / 10^scale`, which is sent as text; with scale 0 also a LARGEINT.
    pub fn decimal(&mut self, unscaled: i128, scale: u8) {
        self.bytes(NumberText::decimal(unscaled, scale).as_bytes());
    }

    pub fn date(&mut self, value: Date) {
        value.put_binary(self.cell());
    }

    /// A DATETIME or TIMESTAMP.
    pub fn datetime(&mut self, value: DateTime) {
        value.put_binary(self.cell());
    }

    pub fn time(&mut self, value: Time) {
        value.put_binary(self.cell());
    }

    #[inline]
    pub fn finish(self) {
        assert_eq!(self.column, self.columns, "a row has fewer cells than columns");
        self.frame.finish();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Date, DateTime, PacketWriter};

    const DAY: Date = Date { year: 2026, month: 1, day: 2 };

    #[test]
    fn text_cells() {
        let mut writer = PacketWriter::new();
        let mut row = writer.text_row(6);
        row.null();
        row.int(-12);
        row.uint(u64::MAX);
        row.double(0.5);
        row.decimal(-5, 2);
        row.date(DAY);
        row.finish();
        let expected = b"\xfb\x03-12\x1418446744073709551615\x030.5\x05-0.05\x0a2026-01-02";
        assert_eq!(&writer.bytes()[4..], expected);
    }

    #[test]
    fn the_bitmap_of_a_binary_row_starts_at_bit_two() {
        let mut writer = PacketWriter::new();
        let mut row = writer.binary_row(7);
        row.null();
        row.i8(-1);
        row.i16(2);
        row.i32(3);
        row.bytes(b"x");
        row.datetime(DateTime { date: DAY, ..DateTime::default() });
        row.null();
        row.finish();
        let expected = b"\x00\x04\x01\xff\x02\x00\x03\x00\x00\x00\x01x\x04\xea\x07\x01\x02";
        assert_eq!(&writer.bytes()[4..], expected);
    }

    #[test]
    fn a_dropped_row_leaves_the_rows_before_it() {
        let mut writer = PacketWriter::new();
        let mut row = writer.text_row(1);
        row.int(1);
        row.finish();
        let before = writer.bytes().to_vec();
        writer.text_row(2).int(1);
        writer.binary_row(3).null();
        assert_eq!((writer.bytes(), writer.sequence()), (&before[..], 1));
    }

    #[test]
    #[should_panic(expected = "fewer cells than columns")]
    fn a_row_with_a_missing_cell_is_a_bug() {
        let mut writer = PacketWriter::new();
        let mut row = writer.binary_row(2);
        row.null();
        row.finish();
    }
}
