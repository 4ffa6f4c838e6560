//! How records and fields are written in text.

/// The text of NULL that a server reads itself.
pub const NULL_TEXT: &str = "\\N";

/// The format of an input or of a dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// RFC 4180 and its relatives.
    Csv(Csv),
    /// Fields between tabs, with the escapes of `SELECT .. INTO OUTFILE`: `\t`, `\n`, `\\`, `\N`.
    Tsv { null: Vec<u8> },
    /// An object a line.
    Json,
    /// Blocks are files of Apache Parquet, and have no records here.
    Parquet,
}

/// A dialect of CSV.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Csv {
    /// Between two fields; not empty.
    pub separator: Vec<u8>,
    /// Behind a record; not empty. A line feed includes a carriage return before it.
    pub delimiter: Vec<u8>,
    /// Encloses a field that begins with it. Within, it is doubled or follows `escape`.
    pub enclose: Option<u8>,
    /// Within an enclosed field, makes the enclosing byte or itself part of the field.
    pub escape: Option<u8>,
    /// The field that is NULL where it is not enclosed.
    pub null: Vec<u8>,
}

impl Default for Csv {
    fn default() -> Self {
        Self {
            separator: b",".to_vec(),
            delimiter: b"\n".to_vec(),
            enclose: Some(b'"'),
            escape: None,
            null: NULL_TEXT.as_bytes().to_vec(),
        }
    }
}

impl Format {
    /// What stands behind a record.
    pub fn delimiter(&self) -> &[u8] {
        match self {
            Self::Csv(csv) => &csv.delimiter,
            Self::Tsv { .. } | Self::Json | Self::Parquet => b"\n",
        }
    }
}

/// Reads a separator as people write it: `\t`, `\n`, `\r`, `\0`, `\\` and `\x01` are escapes.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (byte, taken) = match (first, behind) {
            (b'\\', [b'x' | b'X', high, low, ..]) => {
                (u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?, 4)
            }
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'0', ..]) => (0, 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Writes bytes so that a header of HTTP can hold them and [`unescape`] gives them back.
pub fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| match byte {
        b'\\' => text + "\\\\",
        0x21..=0x7e => text + char::from(*byte).encode_utf8(&mut [0; 4]),
        _ => text + &format!("\\x{byte:02x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_written_with_escapes() {
        assert_eq!(unescape("\\x01\\t|\\\\"), Some(vec![1, b'\t', b'|', b'\\']));
        assert_eq!(unescape(""), None);
        assert_eq!(unescape("\\xg1"), None);
        let all = (0..=255).collect::<Vec<u8>>();
        assert_eq!(unescape(&escape(&all)), Some(all));
    }
}
