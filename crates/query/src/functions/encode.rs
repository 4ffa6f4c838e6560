//! Base64 conversion, compression, MAKE_SET and EXPORT_SET.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::logical_expr::ScalarUDF;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::row::{Kind, MANY, Out, Row, RowFunction};
use super::string::{joined, of_bytes_at_most};

/// Characters per line of TO_BASE64.
const LINE: usize = 76;

fn to_base64(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 50 + 4);
    for line in bytes.chunks(LINE / 4 * 3) {
        if !digits.is_empty() {
            digits.push('\n');
        }
        STANDARD.encode_string(line, &mut digits);
    }
    digits
}

/// Decodes base64 without whitespace; `None` if invalid.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

/// `COMPRESS(bytes)`: four bytes of the length, low first, and a zlib stream; a point behind one
/// that ends in a blank, which a CHAR column would lose. Of nothing it is nothing.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LENGTH_MASK)?;
    let mut packed = length.to_le_bytes().to_vec();
    let mut encoder = ZlibEncoder::new(&mut packed, Compression::default());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()?;
    if packed.last() == Some(&b' ') {
        packed.push(b'.');
    }
    Some(packed)
}

/// The two high bits of the length are reserved.
const LENGTH_MASK: u32 = 0x3fff_ffff;

/// The length that the result of COMPRESS has in front; 0 of nothing.
fn uncompressed_length(packed: &[u8]) -> Option<u32> {
    match packed {
        [] => Some(0),
        packed => Some(u32::from_le_bytes(*packed.first_chunk()?) & LENGTH_MASK),
    }
}

/// `UNCOMPRESS(bytes)`; NULL if they were not compressed by COMPRESS.
fn uncompress(row: &Row<'_>) -> Option<Out> {
    let packed = row.bytes(0);
    let length = uncompressed_length(packed)? as usize;
    if length > row.bytes_max() {
        return Some(Out::TooLong);
    }
    let mut bytes = Vec::new();
    if let Some(stream) = packed.get(4..) {
        // No more is read than was promised, however long the stream is.
        let mut stream = ZlibDecoder::new(stream).take(length as u64 + 1);
        stream.read_to_end(&mut bytes).ok()?;
    }
    (bytes.len() == length).then_some(Out::Bytes(bytes))
}

/// `MAKE_SET(bits, text, ...)`: the texts whose bits are set, separated by commas.
fn make_set(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return None;
    }
    let bits = row.int(0);
    let wanted = |arg: &usize| *arg <= 64 && bits >> (arg - 1) & 1 == 1 && !row.null(*arg);
    let parts = (1..row.count()).filter(wanted).map(|arg| row.text(arg));
    joined(row, parts, ",")
}

/// `EXPORT_SET(bits, on, off[, separator[, count]])`: each bit as `on` or `off`.
fn export_set(row: &Row<'_>) -> Option<Out> {
    let separator = if row.count() > 3 { row.text(3) } else { "," };
    let count =
        if row.count() > 4 { usize::try_from(row.int(4)).unwrap_or(64).min(64) } else { 64 };
    let bits = row.int(0);
    let parts = (0..count).map(|at| row.text(if bits >> at & 1 == 1 { 1 } else { 2 }));
    joined(row, parts, separator)
}

pub fn all() -> Vec<ScalarUDF> {
    let text: &[Kind] = &[Kind::Text];
    let of_set: &[Kind] = &[Kind::Int, Kind::Text, Kind::Text, Kind::Text, Kind::Int];
    [
        RowFunction::new("to_base64", &[Kind::Bytes], (1, 1), Kind::Text, |row| {
            let bytes = row.bytes(0);
            of_bytes_at_most(row, bytes.len() / 3 * 4, || to_base64(bytes))
        }),
        RowFunction::new("from_base64", text, (1, 1), Kind::Bytes, |row| {
            from_base64(row.text(0)).map(Out::Bytes)
        }),
        RowFunction::new("make_set", &[Kind::Int, Kind::Text], (2, MANY), Kind::Text, make_set)
            .sees_null()
            .of_bytes(),
        RowFunction::new("compress", &[Kind::Bytes], (1, 1), Kind::Bytes, |row| {
            compress(row.bytes(0)).map(Out::Bytes)
        }),
        RowFunction::new("uncompress", &[Kind::Bytes], (1, 1), Kind::Bytes, uncompress),
        RowFunction::new("uncompressed_length", &[Kind::Bytes], (1, 1), Kind::Int, |row| {
            uncompressed_length(row.bytes(0)).map(|length| Out::Int(length.into()))
        }),
        RowFunction::new("export_set", of_set, (3, 5), Kind::Text, export_set),
    ]
    .map(RowFunction::udf)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_goes_both_ways() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        let long = vec![7; 100];
        assert_eq!(to_base64(&long).lines().next().map(str::len), Some(LINE));
        assert_eq!(from_base64(&to_base64(&long)), Some(long));
        assert_eq!(from_base64("YQ="), None);
        assert_eq!(from_base64("Y!=="), None);
    }
}
