//! Writes rows as text that `load` reads back.

use std::fmt::Write;

use freshet_wire::ColumnType;
use memchr::{memchr2, memchr3, memmem};

use crate::args::Quote;
use crate::connection::ResultColumn;
use crate::exit::{Failure, Result};
use crate::format::{Csv, Format};

pub struct Encoder {
    format: Format,
    quote: Quote,
    header: bool,
    columns: Vec<(ResultColumn, Kind)>,
    /// For what is written in two steps.
    text: String,
}

/// How the values of a column are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Text,
    /// As it comes, and without quotes in JSON.
    Number,
    /// Bytes, as hexadecimal digits.
    Binary,
    /// Bytes that are a number.
    Bits,
    Json,
}

impl Encoder {
    pub fn new(format: Format, quote: Quote, header: bool) -> Self {
        Self { format, quote, header, columns: Vec::new(), text: String::new() }
    }

    /// Takes the columns; returns what each file begins with.
    ///
    /// # Errors
    /// When the names cannot be written.
    pub fn head(&mut self, columns: Vec<ResultColumn>) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        if self.header && self.format != Format::Json {
            let name = |column: &ResultColumn| {
                let text = ResultColumn { kind: ColumnType::VarString, ..column.clone() };
                (ResultColumn { is_binary: false, ..text }, Kind::Text)
            };
            self.columns = columns.iter().map(name).collect();
            let names: Vec<_> = columns.iter().map(|column| Some(column.name.as_bytes())).collect();
            self.put(&names, &mut head)?;
        }
        self.columns = columns.into_iter().map(|column| (column.clone(), kind(&column))).collect();
        Ok(head)
    }

    /// Appends a row with its end.
    ///
    /// # Errors
    /// When it cannot be written in this format.
    pub fn put(&mut self, row: &[Option<&[u8]>], out: &mut Vec<u8>) -> Result<()> {
        let alone = row.len() == 1;
        for (at, cell) in row.iter().enumerate() {
            let kind = self.columns[at].1;
            self.text.clear();
            let cell = cell.map(|cell| match kind {
                Kind::Binary => hex(cell, &mut self.text),
                Kind::Bits => bits(cell, &mut self.text),
                _ => cell,
            });
            let name = &self.columns[at].0.name;
            let put = match &self.format {
                Format::Csv(csv) => {
                    if at > 0 {
                        out.extend_from_slice(&csv.separator);
                    }
                    put_csv(csv, self.quote, cell, alone, out)
                }
                Format::Tsv { null } => {
                    if at > 0 {
                        out.push(b'\t');
                    }
                    put_tsv(null, cell, out)
                }
                Format::Parquet => unreachable!("no dump is written so"),
                Format::Json => {
                    out.push(if at == 0 { b'{' } else { b',' });
                    put_json_text(name, out);
                    out.push(b':');
                    put_json(kind, cell, out)
                }
            };
            put.map_err(|why| Failure::failed(format!("column '{name}': {why}")))?;
        }
        if self.format == Format::Json {
            out.push(b'}');
        }
        out.extend_from_slice(self.format.delimiter());
        Ok(())
    }
}

fn kind(column: &ResultColumn) -> Kind {
    use ColumnType as T;
    match column.kind {
        T::Bit => Kind::Bits,
        T::Json => Kind::Json,
        _ if column.is_binary => Kind::Binary,
        T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong => Kind::Number,
        T::Float | T::Double | T::NewDecimal => Kind::Number,
        _ => Kind::Text,
    }
}

/// `0x` and two digits a byte.
fn hex<'t>(cell: &[u8], text: &'t mut String) -> &'t [u8] {
    text.push_str("0x");
    for byte in cell {
        write!(text, "{byte:02x}").expect("a String takes all text");
    }
    text.as_bytes()
}

fn bits<'t>(cell: &[u8], text: &'t mut String) -> &'t [u8] {
    let number = cell.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    write!(text, "{number}").expect("a String takes all text");
    text.as_bytes()
}

fn put_csv(
    csv: &Csv,
    quote: Quote,
    cell: Option<&[u8]>,
    alone: bool,
    out: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
    let Some(cell) = cell else {
        out.extend_from_slice(&csv.null);
        return Ok(());
    };
    let has = |text: &[u8]| memmem::find(cell, text).is_some();
    let needs = cell == csv.null
        || alone && cell.is_empty()
        || memchr2(b'\n', b'\r', cell).is_some()
        || has(&csv.separator)
        || has(&csv.delimiter)
        || csv.enclose.is_some_and(|enclose| cell.contains(&enclose))
        // Else it would be taken for the mark of an encoding.
        || cell.starts_with(b"\xef\xbb\xbf");
    match (quote, csv.enclose) {
        (Quote::Auto | Quote::Force, Some(enclose)) if needs || quote == Quote::Force => {
            out.push(enclose);
            for byte in cell {
                let escape = csv.escape.unwrap_or(enclose);
                if *byte == enclose || *byte == escape {
                    out.push(escape);
                }
                out.push(*byte);
            }
            out.push(enclose);
        }
        _ if needs => return Err("a value needs quotes, which the options forbid"),
        _ => out.extend_from_slice(cell),
    }
    Ok(())
}

fn put_tsv(
    null: &[u8],
    cell: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
    let Some(cell) = cell else {
        out.extend_from_slice(null);
        return Ok(());
    };
    if cell == null && !cell.contains(&b'\\') {
        // An escaped letter is the letter, if it is none of these, and the field not that of NULL.
        let letter = cell.iter().position(|byte| !b"0bnrtZ".contains(byte));
        let letter = letter.ok_or("a text is that of NULL; choose another one by --null")?;
        out.extend_from_slice(&cell[..letter]);
        out.push(b'\\');
        out.extend_from_slice(&cell[letter..]);
        return Ok(());
    }
    if memchr3(b'\\', b'\t', b'\n', cell).is_none() && memchr2(b'\r', 0, cell).is_none() {
        out.extend_from_slice(cell);
        return Ok(());
    }
    for byte in cell {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\0"),
            other => out.push(*other),
        }
    }
    Ok(())
}

fn put_json(
    kind: Kind,
    cell: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
    let Some(cell) = cell else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    match kind {
        Kind::Number | Kind::Bits => out.extend_from_slice(cell),
        Kind::Json => {
            // Line ends can stand between its values alone.
            out.extend(cell.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte }));
        }
        Kind::Text | Kind::Binary => {
            let text = std::str::from_utf8(cell);
            put_json_text(text.map_err(|_| "a text is not UTF-8, as JSON must be")?, out);
        }
    }
    Ok(())
}

fn put_json_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("every text is one of JSON");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::Fields;

    fn columns(count: usize) -> Vec<ResultColumn> {
        let name = "c".to_owned();
        vec![ResultColumn { name, kind: ColumnType::VarString, is_binary: false }; count]
    }

    fn cells() -> impl Strategy<Value = Vec<Option<String>>> {
        let cell = proptest::option::of("[a,;\"'\\\\N\t\n\r\u{0}\u{feff}]{0,4}");
        proptest::collection::vec(cell, 1..4)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(row in cells(), force in any::<bool>()) {
            let quote = if force { Quote::Force } else { Quote::Auto };
            let empty = Csv { null: Vec::new(), ..Csv::default() };
            let escaped = Csv { escape: Some(b'\\'), enclose: Some(b'\''), ..Csv::default() };
            let csv = [Csv::default(), empty, escaped].map(Format::Csv);
            let tsv = ["\\N", "N"].map(|null| Format::Tsv { null: null.into() });
            for format in csv.into_iter().chain(tsv) {
                let mut encoder = Encoder::new(format.clone(), quote, false);
                encoder.head(columns(row.len())).unwrap();
                let bytes: Vec<_> =
                    row.iter().map(|cell| cell.as_ref().map(String::as_bytes)).collect();
                let mut line = Vec::new();
                encoder.put(&bytes, &mut line).unwrap();
                prop_assert_eq!(
                    crate::fields::record_end(&format, &line, 0), Some(line.len()), "{:?}", line);
                let mut fields = Fields::default();
                fields.read(&format, &line).unwrap();
                let back: Vec<_> = fields.iter().collect();
                let text = String::from_utf8_lossy(&line);
                prop_assert_eq!(back, bytes, "{:?} as {:?}", text, format);
            }
        }
    }

    #[test]
    fn values_are_written_by_their_types() {
        let column = |kind, is_binary| ResultColumn { name: "c".to_owned(), kind, is_binary };
        let columns = vec![
            column(ColumnType::LongLong, false),
            column(ColumnType::Blob, true),
            column(ColumnType::Bit, false),
            column(ColumnType::Json, false),
        ];
        let mut encoder = Encoder::new(Format::Json, Quote::Auto, false);
        encoder.head(columns).unwrap();
        let mut line = Vec::new();
        let row: [Option<&[u8]>; 4] = [Some(b"-7"), Some(b"\xff\x00"), Some(b"\x01\x02"), None];
        encoder.put(&row, &mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text, "{\"c\":-7,\"c\":\"0xff00\",\"c\":258,\"c\":null}\n");
    }
}
