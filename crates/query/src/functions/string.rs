//! Text functions, which count characters where MySQL does.

use std::fmt::Write;

use datafusion::logical_expr::ScalarUDF;
use freshet_base::ErrorCode;
use sha1::Digest;

use super::row::{Kind, MANY, Out, Row, RowFunction, Source};
use crate::losses;

const T: &[Kind] = &[Kind::Text];
const B: &[Kind] = &[Kind::Bytes];
/// Maximum number of bytes of invalid text displayed in a warning.
const SHOWN_BYTES_MAX: usize = 6;

fn text(value: impl Into<String>) -> Option<Out> {
    Some(Out::Text(value.into()))
}

/// The text from `make`, or [`Out::TooLong`] if its length `bytes` exceeds the limit.
pub fn of_bytes_at_most(row: &Row<'_>, bytes: usize, make: impl FnOnce() -> String) -> Option<Out> {
    if bytes > row.bytes_max() { Some(Out::TooLong) } else { text(make()) }
}

fn count(value: usize) -> Option<Out> {
    Some(Out::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn chars(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The substring of characters `from..from + len`.
fn slice(text: &str, from: usize, len: usize) -> &str {
    if text.is_ascii() {
        let from = from.min(text.len());
        return &text[from..from.saturating_add(len).min(text.len())];
    }
    let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    let rest = &text[start..];
    let end = rest.char_indices().nth(len).map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

fn length(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// `SUBSTRING(text, position[, length])`; the position starts from 1, or from the end if negative.
fn substring(row: &Row<'_>) -> Option<Out> {
    let (body, position) = (row.text(0), row.int(1));
    let len = length(row.int_or(2, i64::MAX));
    let from = match position {
        0 => return text(""),
        1.. => length(position - 1),
        _ => match chars(body).checked_sub(length(position.saturating_neg())) {
            Some(from) => from,
            None => return text(""),
        },
    };
    text(slice(body, from, len))
}

fn left(row: &Row<'_>) -> Option<Out> {
    text(slice(row.text(0), 0, length(row.int(1))))
}

/// The bytes of `CHAR(.. USING charset)`, and of CHAR where they are no text.
pub const BYTES_OF_CODES: &str = "mysql_codes";

/// The bytes of a code of CHAR: its low 32 bits, without leading zeros.
pub fn bytes_of_code(code: i64) -> impl Iterator<Item = u8> {
    let [_, _, _, _, bytes @ ..] = code.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.into_iter().skip(zeros.min(3))
}

/// The bytes of all codes; NULL is left out.
fn bytes_of_codes(row: &Row<'_>) -> Vec<u8> {
    let codes = (0..row.count()).filter(|arg| !row.null(*arg));
    codes.flat_map(|arg| bytes_of_code(row.int(arg))).collect()
}

/// `CAST(text AS CHAR(n))`.
fn char_cut(row: &Row<'_>) -> Option<Out> {
    let (body, length) = (row.text(0), length(row.int(1)));
    if losses::are_collected() && chars(body) > length {
        losses::note_truncated(&format!("CHAR({length})"), body);
    }
    text(slice(body, 0, length))
}

fn right(row: &Row<'_>) -> Option<Out> {
    let body = row.text(0);
    let len = length(row.int(1));
    text(slice(body, chars(body).saturating_sub(len), usize::MAX))
}

fn pad(row: &Row<'_>, left: bool) -> Option<Out> {
    let (body, fill) = (row.text(0), if row.count() > 2 { row.text(2) } else { " " });
    let wanted = usize::try_from(row.int(1)).ok()?;
    let have = chars(body);
    if wanted <= have {
        return text(slice(body, 0, wanted));
    }
    if fill.is_empty() {
        return None;
    }
    let missing = wanted - have;
    let whole = missing / chars(fill);
    let rest = slice(fill, 0, missing % chars(fill));
    let bytes = whole.saturating_mul(fill.len()).saturating_add(rest.len() + body.len());
    of_bytes_at_most(row, bytes, || {
        let mut padded = fill.repeat(whole);
        padded.push_str(rest);
        if left {
            padded.push_str(body);
        } else {
            padded.insert_str(0, body);
        }
        padded
    })
}

/// The position, from 1, of `needle` in `body`, searching from character `from`; 0 if not found.
fn position(body: &str, needle: &str, from: i64) -> Option<Out> {
    let Ok(skip) = usize::try_from(from.saturating_sub(1)) else { return Some(Out::Int(0)) };
    if skip > chars(body) {
        return Some(Out::Int(0));
    }
    let rest = slice(body, skip, usize::MAX);
    match rest.find(needle) {
        Some(at) => count(skip + chars(&rest[..at]) + 1),
        None => Some(Out::Int(0)),
    }
}

/// `SUBSTRING_INDEX(text, delimiter, count)`.
fn substring_index(row: &Row<'_>) -> Option<Out> {
    let (body, delimiter, wanted) = (row.text(0), row.text(1), row.int(2));
    if delimiter.is_empty() || wanted == 0 {
        return text("");
    }
    let nth = length(wanted.saturating_abs()) - 1;
    if wanted > 0 {
        let end = body.match_indices(delimiter).nth(nth).map_or(body.len(), |(at, _)| at);
        return text(&body[..end]);
    }
    let start = body.rmatch_indices(delimiter).nth(nth).map_or(0, |(at, _)| at + delimiter.len());
    text(&body[start..])
}

/// `mysql_trim(text, what, where)`; `where` is BOTH, LEADING or TRAILING.
fn trim(row: &Row<'_>) -> Option<Out> {
    let (body, what, side) = (row.text(0), row.text(1), row.text(2));
    if what.is_empty() {
        return text(body);
    }
    text(match side {
        "LEADING" => body.trim_start_matches(what),
        "TRAILING" => body.trim_end_matches(what),
        _ => body.trim_start_matches(what).trim_end_matches(what),
    })
}

/// `INSERT(text, position, length, new)`.
fn insert(row: &Row<'_>) -> Option<Out> {
    let (body, position, len) = (row.text(0), row.int(1), row.int(2));
    let have = i64::try_from(chars(body)).unwrap_or(i64::MAX);
    if position < 1 || position > have {
        return text(body);
    }
    let from = length(position - 1);
    let len = if len < 0 { usize::MAX } else { length(len) };
    let tail = slice(body, from.saturating_add(len), usize::MAX);
    let head = slice(body, 0, from);
    joined(row, [head, row.text(3), tail].into_iter(), "")
}

/// Joins texts with a separator.
pub fn joined<'a>(
    row: &Row<'_>,
    parts: impl Iterator<Item = &'a str> + Clone,
    separator: &str,
) -> Option<Out> {
    let bytes = parts
        .clone()
        .fold(0_usize, |sum, part| sum.saturating_add(part.len()).saturating_add(separator.len()));
    of_bytes_at_most(row, bytes.saturating_sub(separator.len()), || {
        let mut out = String::with_capacity(bytes);
        for (at, part) in parts.enumerate() {
            if at > 0 {
                out.push_str(separator);
            }
            out.push_str(part);
        }
        out
    })
}

fn concat(row: &Row<'_>) -> Option<Out> {
    joined(row, (0..row.count()).map(|arg| row.text(arg)), "")
}

fn concat_ws(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return None;
    }
    let parts = (1..row.count()).filter(|&arg| !row.null(arg)).map(|arg| row.text(arg));
    joined(row, parts, row.text(0))
}

/// `FIELD(text, text1, text2, ...)`: the position of the equal text, from 1; 0 if none.
fn field(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return Some(Out::Int(0));
    }
    let found = (1..row.count()).find(|&arg| !row.null(arg) && row.text(arg) == row.text(0));
    count(found.unwrap_or(0))
}

/// `ELT(n, text1, text2, ...)`.
fn elt(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return None;
    }
    let wanted = usize::try_from(crate::convert::integer_prefix(row.text(0))).ok()?;
    (wanted > 0 && wanted < row.count() && !row.null(wanted))
        .then(|| row.text(wanted))
        .and_then(text)
}

/// `FIND_IN_SET(text, list)`: the position in a comma-separated list, from 1; 0 if none.
fn find_in_set(row: &Row<'_>) -> Option<Out> {
    let (needle, list) = (row.text(0), row.text(1));
    if list.is_empty() {
        return Some(Out::Int(0));
    }
    count(list.split(',').position(|part| part == needle).map_or(0, |at| at + 1))
}

fn repeat(row: &Row<'_>) -> Option<Out> {
    let times = length(row.int(1));
    let body = row.text(0);
    of_bytes_at_most(row, body.len().saturating_mul(times), || body.repeat(times))
}

/// `REPLACE(text, from, to)`.
fn replace(row: &Row<'_>) -> Option<Out> {
    if row.null(0) || row.null(1) {
        return None;
    }
    let (body, from) = (row.text(0), row.text(1));
    // If there is nothing to replace, the replacement is ignored and may be NULL.
    if from.is_empty() {
        return text(body);
    }
    if row.null(2) {
        return None;
    }
    let to = row.text(2);
    let mut bytes = body.len();
    if to.len() > from.len() {
        let longer = (to.len() - from.len()).saturating_mul(body.matches(from).count());
        bytes = bytes.saturating_add(longer);
    }
    of_bytes_at_most(row, bytes, || body.replace(from, to))
}

/// Formats bytes as upper-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// Parses hexadecimal digits; `None` if invalid.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    if !padded.is_ascii() {
        return None;
    }
    (0..padded.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&padded[at..at + 2], 16).ok())
        .collect()
}

/// `SHA2(text, bits)`.
fn sha2(row: &Row<'_>) -> Option<Out> {
    let bytes = row.bytes(0);
    text(
        match row.int(1) {
            0 | 256 => hex(&sha2::Sha256::digest(bytes)),
            224 => hex(&sha2::Sha224::digest(bytes)),
            384 => hex(&sha2::Sha384::digest(bytes)),
            512 => hex(&sha2::Sha512::digest(bytes)),
            _ => return None,
        }
        .to_lowercase(),
    )
}

/// `FORMAT(number, digits)`, with commas between thousands.
fn format_number(row: &Row<'_>) -> Option<Out> {
    let digits = u32::try_from(row.int(1).clamp(0, 30)).expect("clamped");
    let value = crate::convert::wide_prefix(row.text(0), digits);
    let mut plain = String::new();
    crate::format::large(&mut plain, value, digits);
    let (whole, part) =
        plain.split_once('.').map_or((&plain[..], ""), |(whole, part)| (whole, part));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !part.is_empty() {
        write!(out, ".{part}").expect("a String takes everything");
    }
    text(out)
}

/// Rounds half away from zero to the 64 bits of a signed or unsigned integer; on overflow all bits
/// are set.
fn rounded_bits(value: f64) -> u64 {
    if value <= -(2_f64.powi(63)) || value >= 2_f64.powi(64) {
        return u64::MAX;
    }
    #[allow(clippy::cast_possible_truncation)] // fits in 65 bits
    let whole = value.round() as i128;
    u64::try_from(whole).or(i64::try_from(whole).map(i64::cast_unsigned)).unwrap_or(u64::MAX)
}

/// The character in the other case, if that is a single character; otherwise unchanged.
fn single(character: char, mut other: impl Iterator<Item = char>) -> char {
    match (other.next(), other.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

/// QUOTE: text as a literal; NULL becomes the text `NULL`.
fn quote(row: &Row<'_>) -> Option<Out> {
    if row.null(0) {
        return text("NULL");
    }
    let mut rest = row.text(0);
    let mut out = String::with_capacity(rest.len() + 2);
    out.push('\'');
    while let Some(at) = rest.find(['\'', '\\', '\0', '\u{1a}']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\'' => "\\'",
            b'\\' => "\\\\",
            0 => "\\0",
            _ => "\\Z",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('\'');
    text(out)
}

fn soundex(row: &Row<'_>) -> Option<Out> {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let code = |letter: char| CODES[usize::from(letter as u8 - b'A')];
    let mut letters =
        row.text(0).chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase());
    let Some(first) = letters.next() else { return text("") };
    let mut out = String::from(first);
    let mut last = code(first);
    for letter in letters {
        let digit = code(letter);
        if digit != b'0' && digit != last {
            out.push(char::from(digit));
        }
        if digit != b'0' {
            last = digit;
        }
    }
    while out.len() < 4 {
        out.push('0');
    }
    text(out)
}

macro_rules! map {
    ($name:literal, $body:expr) => {
        RowFunction::new($name, T, (1, 1), Kind::Text, |row| {
            let body: fn(&str) -> String = $body;
            text(body(row.text(0)))
        })
    };
}

fn simple() -> Vec<RowFunction> {
    let ti: &[Kind] = &[Kind::Text, Kind::Int];
    let tit: &[Kind] = &[Kind::Text, Kind::Int, Kind::Text];
    vec![
        map!("mysql_upper", |text| text.chars().map(|c| single(c, c.to_uppercase())).collect()),
        map!("mysql_lower", |text| text.chars().map(|c| single(c, c.to_lowercase())).collect()),
        map!("reverse", |text| text.chars().rev().collect()).of_bytes(),
        map!("ltrim", |text| text.trim_start_matches(' ').to_owned()).of_bytes(),
        map!("rtrim", |text| text.trim_end_matches(' ').to_owned()).of_bytes(),
        map!("mysql_text", str::to_owned),
        RowFunction::new("quote", T, (1, 1), Kind::Text, quote).sees_null().of_bytes(),
        RowFunction::new("length", B, (1, 1), Kind::Int, |row| count(row.bytes(0).len())),
        RowFunction::new("bit_length", B, (1, 1), Kind::Int, |row| count(row.bytes(0).len() * 8)),
        RowFunction::new("char_length", T, (1, 1), Kind::Int, |row| count(chars(row.text(0))))
            .of_bytes(),
        RowFunction::new("substring", ti, (2, 3), Kind::Text, substring).of_bytes(),
        RowFunction::new("left", ti, (2, 2), Kind::Text, left).of_bytes(),
        RowFunction::new("mysql_char_cut", ti, (2, 2), Kind::Text, char_cut).of_bytes(),
        RowFunction::new("right", ti, (2, 2), Kind::Text, right).of_bytes(),
        RowFunction::new("lpad", tit, (2, 3), Kind::Text, |row| pad(row, true)).of_bytes(),
        RowFunction::new("rpad", tit, (2, 3), Kind::Text, |row| pad(row, false)).of_bytes(),
        RowFunction::new(
            "locate",
            &[Kind::Text, Kind::Text, Kind::Int],
            (2, 3),
            Kind::Int,
            |row| position(row.text(1), row.text(0), row.int_or(2, 1)),
        )
        .of_bytes(),
        RowFunction::new("instr", T, (2, 2), Kind::Int, |row| {
            position(row.text(0), row.text(1), 1)
        })
        .of_bytes(),
        RowFunction::new("replace", T, (3, 3), Kind::Text, replace).of_bytes().sees_null(),
        RowFunction::new(
            "substring_index",
            &[Kind::Text, Kind::Text, Kind::Int],
            (3, 3),
            Kind::Text,
            substring_index,
        )
        .of_bytes(),
        RowFunction::new("mysql_trim", T, (3, 3), Kind::Text, trim).of_bytes(),
        RowFunction::new(
            "mysql_insert",
            &[Kind::Text, Kind::Int, Kind::Int, Kind::Text],
            (4, 4),
            Kind::Text,
            insert,
        )
        .of_bytes(),
        RowFunction::new("repeat", ti, (2, 2), Kind::Text, repeat).of_bytes(),
        RowFunction::new("space", &[Kind::Int], (1, 1), Kind::Text, |row| {
            let wanted = length(row.int(0));
            of_bytes_at_most(row, wanted, || " ".repeat(wanted))
        }),
        RowFunction::new("strcmp", T, (2, 2), Kind::Int, |row| {
            Some(Out::Int(row.text(0).cmp(row.text(1)) as i64))
        })
        .of_bytes(),
        RowFunction::new("mysql_format", ti, (2, 3), Kind::Text, format_number),
        RowFunction::new("find_in_set", T, (2, 2), Kind::Int, find_in_set),
        RowFunction::new("soundex", T, (1, 1), Kind::Text, soundex),
    ]
}

fn of_bytes() -> Vec<RowFunction> {
    vec![
        RowFunction::new("ascii", B, (1, 1), Kind::Int, |row| {
            Some(Out::Int(row.bytes(0).first().copied().unwrap_or(0).into()))
        }),
        RowFunction::new("ord", B, (1, 1), Kind::Int, |row| {
            let bytes = row.bytes(0);
            // In text, the continuation bytes belong to the first character.
            let further = bytes.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80);
            let further = if row.source(0) == Source::Bytes { 0 } else { further.count() };
            let first = bytes.iter().take(1 + further);
            Some(Out::Int(first.fold(0, |sum, byte| sum * 256 + i64::from(*byte))))
        }),
        RowFunction::new("mysql_char", B, (1, 1), Kind::Text, |row| {
            let bytes = row.bytes(0);
            match std::str::from_utf8(bytes) {
                Ok(valid) => text(valid),
                Err(_) => {
                    row.warn(ErrorCode::NotUtf8, || {
                        let shown = hex(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
                        format!("Invalid utf8mb4 character string: '{shown}'")
                    });
                    None
                }
            }
        }),
        RowFunction::new("mysql_hex_text", B, (1, 1), Kind::Text, |row| {
            of_bytes_at_most(row, row.bytes(0).len() * 2, || hex(row.bytes(0)))
        }),
        RowFunction::new("mysql_hex_int", &[Kind::Int], (1, 1), Kind::Text, |row| {
            text(format!("{:X}", row.int(0)))
        }),
        RowFunction::new("mysql_hex_number", &[Kind::Double], (1, 1), Kind::Text, |row| {
            text(format!("{:X}", rounded_bits(row.double(0))))
        }),
        RowFunction::new("unhex", T, (1, 1), Kind::Bytes, |row| unhex(row.text(0)).map(Out::Bytes)),
        RowFunction::new("sha1", B, (1, 1), Kind::Text, |row| {
            text(hex(&sha1::Sha1::digest(row.bytes(0))).to_lowercase())
        }),
        RowFunction::new("sha2", &[Kind::Bytes, Kind::Int], (2, 2), Kind::Text, sha2),
        RowFunction::new("mysql_binary", B, (1, 1), Kind::Bytes, |row| {
            Some(Out::Bytes(row.bytes(0).to_vec()))
        }),
        RowFunction::new(BYTES_OF_CODES, &[Kind::Int], (1, MANY), Kind::Bytes, |row| {
            Some(Out::Bytes(bytes_of_codes(row)))
        })
        .sees_null(),
        RowFunction::new("concat", T, (1, MANY), Kind::Text, concat).of_bytes(),
        RowFunction::new("concat_ws", T, (2, MANY), Kind::Text, concat_ws).sees_null().of_bytes(),
        RowFunction::new("mysql_field", T, (2, MANY), Kind::Int, field).sees_null().of_bytes(),
        RowFunction::new("elt", T, (2, MANY), Kind::Text, elt).sees_null().of_bytes(),
        RowFunction::new("mysql_row_key", T, (1, MANY), Kind::Text, |row| {
            let mut key = String::new();
            for arg in 0..row.count() {
                let part = row.text(arg);
                write!(key, "{}:{part}", part.len()).expect("a String takes everything");
            }
            text(key)
        }),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    simple().into_iter().chain(of_bytes()).map(RowFunction::udf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_count_characters() {
        assert_eq!(slice("h\u{e9}llo", 1, 2), "\u{e9}l");
        assert_eq!(slice("abc", 5, 2), "");
        assert_eq!(chars("h\u{e9}llo"), 5);
        assert_eq!(position("h\u{e9}llo", "l", 1), Some(Out::Int(3)));
        assert_eq!(position("abc", "b", 3), Some(Out::Int(0)));
    }

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(hex(b"MySQL"), "4D7953514C");
        assert_eq!(unhex("4D7953514C").as_deref(), Some(&b"MySQL"[..]));
        assert_eq!(unhex("F"), Some(vec![15]));
        assert_eq!(unhex("zz"), None);
    }
}
