//! Reading and writing JSON text within the limits of memory and packet.

use std::fmt::{self, Write};
use std::io;

use datafusion::common::{Result, exec_datafusion_err};
use serde_json::Value;

use super::row::{Out, Row};

/// Memory of a value in a tree, including its slot in an array.
const VALUE_BYTES: usize = 2 * size_of::<Value>();
/// Minimum memory of an object: the first leaf of its B-tree.
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + VALUE_BYTES;
/// A string writer with a maximum length.
pub struct Limited {
    text: String,
    bytes_max: usize,
}

impl Limited {
    /// An empty text with the length limit of results.
    pub fn of(row: &Row<'_>) -> Self {
        Self { text: String::new(), bytes_max: row.bytes_max() }
    }

    /// The written text, or [`Out::TooLong`] if the limit was exceeded.
    pub fn out(self, written: fmt::Result) -> Option<Out> {
        Some(match written {
            Ok(()) => Out::Text(self.text),
            Err(fmt::Error) => Out::TooLong,
        })
    }
}

impl Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.len() > self.bytes_max - self.text.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

impl io::Write for Limited {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(part).map_err(io::Error::other)?;
        self.write_str(text).map_err(io::Error::other)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints JSON in MySQL's format: a space after colons and commas, keys ordered by length and then
/// by bytes.
pub fn print(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value {
        Value::Array(items) => print_array(out, items.iter()),
        Value::Object(members) => {
            let mut members = members.iter().collect::<Vec<_>>();
            members.sort_by(|(a, _), (b, _)| (a.len(), *a).cmp(&(b.len(), *b)));
            out.write_char('{')?;
            for (at, (key, item)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.write_str(", ")?;
                }
                print_text(out, key)?;
                out.write_str(": ")?;
                print(out, item)?;
            }
            out.write_char('}')
        }
        Value::String(text) => print_text(out, text),
        scalar => write!(out, "{scalar}"),
    }
}

pub fn print_array<'v>(
    out: &mut impl Write,
    items: impl Iterator<Item = &'v Value>,
) -> fmt::Result {
    out.write_char('[')?;
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.write_str(", ")?;
        }
        print(out, item)?;
    }
    out.write_char(']')
}

/// Prints a quoted string, piece by piece to avoid a copy.
pub fn print_text(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0x00..0x20 => "",
            _ => continue,
        };
        out.write_str(&text[plain..at])?;
        match escaped {
            "" => write!(out, "\\u{byte:04x}")?,
            escaped => out.write_str(escaped)?,
        }
        plain = at + 1;
    }
    out.write_str(&text[plain..])?;
    out.write_char('"')
}

/// An upper bound for the memory of the parsed tree, to reserve it before parsing.
fn tree_bytes(text: &str) -> usize {
    let mut bytes = VALUE_BYTES + text.len();
    for byte in text.bytes() {
        bytes += match byte {
            b'{' => OBJECT_BYTES,
            b'[' => 4 * VALUE_BYTES,
            // B-tree leaves may be half empty.
            b':' => OBJECT_BYTES / 5,
            b',' => VALUE_BYTES,
            _ => 0,
        };
    }
    bytes
}

/// Parses JSON after reserving memory for its tree.
pub fn parsed(row: &Row<'_>, text: &str) -> Result<serde_json::Result<Value>> {
    row.hold_more(tree_bytes(text))?;
    Ok(serde_json::from_str(text))
}

/// Parses an argument as JSON.
pub fn document(row: &Row<'_>, arg: usize) -> Result<Value> {
    parsed(row, row.text(arg))?
        .map_err(|error| exec_datafusion_err!("Invalid JSON text in argument {}: {error}", arg + 1))
}

/// A JSON value as the result of a function.
pub fn json(row: &Row<'_>, value: &Value) -> Option<Out> {
    let mut out = Limited::of(row);
    let written = print(&mut out, value);
    out.out(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_prints_as_in_mysql() {
        let value = serde_json::from_str(r#"{"bb":1,"a":[1,2.5,"x"],"c":null}"#).unwrap();
        let mut printed = String::new();
        print(&mut printed, &value).unwrap();
        assert_eq!(printed, r#"{"a": [1, 2.5, "x"], "c": null, "bb": 1}"#);
    }

    #[test]
    fn texts_are_printed_as_serde_prints_them() {
        let text = (0..=0x2ff_u32).filter_map(char::from_u32).collect::<String>();
        let mut printed = String::new();
        print_text(&mut printed, &text).unwrap();
        assert_eq!(printed, serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn a_tree_takes_no_more_than_is_asked_for() {
        for (text, bytes) in [
            (r#"[{"a":1},{"a":1},{"a":1}]"#, 3 * 632),
            ("[1,2,3,4,5,6,7,8]", 8 * size_of::<Value>()),
            ("[[[[[[[[]]]]]]]]", 8 * 4 * size_of::<Value>()),
        ] {
            assert!(tree_bytes(text) >= bytes, "{text}");
        }
    }
}
