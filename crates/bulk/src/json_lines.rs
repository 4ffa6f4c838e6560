//! Blocks that Stream Load would not read as they are meant, as JSON lines, which have no two
//! meanings.
//!
//! Stream Load reads `\N` as NULL even in quotes, knows no other text of NULL, and no escapes
//! outside of quotes. Few blocks have any of these.

use memchr::{memchr, memchr_iter, memmem};
use serde::de::IgnoredAny;

use crate::fields::{Fields, record_end};
use crate::format::{Csv, Format, NULL_TEXT};
use crate::job::Job;
use crate::split::Block;

/// A row that cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRow {
    /// In the input, counted from 1.
    pub line: u64,
    /// The column, where one is to blame.
    pub column: Option<String>,
    pub reason: String,
    pub record: String,
}

/// How a block can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Road {
    AsItIs,
    /// As it is, and empty fields are NULL.
    EmptyIsNull,
    AsJson,
}

/// The fastest way that keeps the meaning of a block.
pub fn road(format: &Format, columns: usize, bytes: &[u8]) -> Road {
    match format {
        Format::Json | Format::Parquet => Road::AsItIs,
        Format::Tsv { null } => {
            // An empty line is a row with an empty text here, and nothing there.
            let same = null == NULL_TEXT.as_bytes() && columns > 1 && has_plain_escapes(bytes);
            if same { Road::AsItIs } else { Road::AsJson }
        }
        Format::Csv(csv) => csv_road(csv, bytes),
    }
}

fn csv_road(csv: &Csv, bytes: &[u8]) -> Road {
    let has = |text: &[u8]| memmem::find(bytes, text).is_some();
    // An enclosed field that may come to be the text of NULL, which begins with a backslash.
    let may_enclose_null = csv.enclose.is_some_and(|enclose| {
        has(&[enclose, b'\\']) || csv.escape.is_some_and(|escape| has(&[enclose, escape, b'\\']))
    });
    if may_enclose_null {
        return Road::AsJson;
    }
    if csv.null == NULL_TEXT.as_bytes() {
        return Road::AsItIs;
    }
    let encloses_nothing = csv.enclose.is_some_and(|enclose| has(&[enclose, enclose]));
    match csv.null.is_empty() && !has(NULL_TEXT.as_bytes()) && !encloses_nothing {
        true => Road::EmptyIsNull,
        false => Road::AsJson,
    }
}

/// Whether all backslashes are those of NULL.
fn has_plain_escapes(bytes: &[u8]) -> bool {
    memchr_iter(b'\\', bytes).all(|at| {
        let begins = at == 0 || matches!(bytes[at - 1], b'\t' | b'\n');
        let ends = matches!(bytes.get(at + 2), None | Some(b'\t' | b'\n'));
        begins && bytes.get(at + 1) == Some(&b'N') && ends
    })
}

/// A block as JSON lines, without the rows that cannot be sent.
pub fn convert(job: &Job, block: &Block) -> (Vec<u8>, Vec<BadRow>) {
    let mut out = Vec::with_capacity(block.bytes.len() * 3 / 2);
    let mut bad = Vec::new();
    let keys: Vec<_> = job.columns.iter().map(|(name, _)| json_text(name)).collect();
    let mut fields = Fields::default();
    each_record(&job.input.format, block, |record, line| {
        let start = out.len();
        let put = fields
            .read(&job.input.format, record)
            .map_err(|_| "a field is not closed before the end of the input".to_owned())
            .and_then(|()| put_row(job, &keys, &fields, &mut out));
        if let Err(reason) = put {
            out.truncate(start);
            bad.push(BadRow { line, column: None, reason, record: shown(record) });
        }
    });
    (out, bad)
}

/// Calls `each` with the records of a block and the lines they begin in.
pub fn each_record(format: &Format, block: &Block, mut each: impl FnMut(&[u8], u64)) {
    let (mut at, mut line) = (0, block.line);
    if *format == Format::Parquet {
        return;
    }
    while at < block.bytes.len() {
        let end = record_end(format, &block.bytes, at).unwrap_or(block.bytes.len());
        let record = &block.bytes[at..end];
        each(record, line);
        line += memchr_iter(b'\n', record).count() as u64;
        at = end;
    }
}

/// The beginning of a record, for people.
pub fn shown(record: &[u8]) -> String {
    const SHOWN_BYTES: usize = 200;
    let text = String::from_utf8_lossy(&record[..record.len().min(SHOWN_BYTES)]);
    let dots = if record.len() > SHOWN_BYTES { ".." } else { "" };
    format!("{}{dots}", text.trim_end().escape_debug())
}

fn put_row(job: &Job, keys: &[String], fields: &Fields, out: &mut Vec<u8>) -> Result<(), String> {
    if fields.is_blank() && keys.len() > 1 {
        return Ok(());
    }
    if fields.len() != keys.len() {
        return Err(format!("it has {} fields instead of {}", fields.len(), keys.len()));
    }
    for (at, (field, key)) in fields.iter().zip(keys).enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        out.extend_from_slice(key.as_bytes());
        out.push(b':');
        let column = job.columns[at].1.map(|column| &job.table.columns[column]);
        match field.map(std::str::from_utf8) {
            None => out.extend_from_slice(b"null"),
            Some(Err(_)) => return Err(format!("'{}' is not UTF-8", job.columns[at].0)),
            // A value of JSON stands as it is; anything else would become a text of JSON.
            Some(Ok(text)) if column.is_some_and(|column| column.is_json()) => {
                if serde_json::from_str::<IgnoredAny>(text).is_err() {
                    return Err(format!("'{}' is no JSON", job.columns[at].0));
                }
                let one_line = text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte });
                out.extend(one_line);
            }
            Some(Ok(text)) => out.extend_from_slice(json_text(text).as_bytes()),
        }
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

fn json_text(text: &str) -> String {
    serde_json::to_string(text).expect("every text is one of JSON")
}

/// Whether a block begins with what Stream Load would take for the mark of an encoding.
pub fn begins_with_mark(bytes: &[u8]) -> bool {
    memchr(0xef, &bytes[..bytes.len().min(1)]).is_some() && bytes.starts_with(b"\xef\xbb\xbf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_as_they_are_where_that_means_the_same() {
        let csv = |null: &str| Format::Csv(Csv { null: null.into(), ..Csv::default() });
        let tsv = |null: &str| Format::Tsv { null: null.into() };
        let cases: [(Format, usize, &[u8], Road); 12] = [
            (csv("\\N"), 2, b"\\N,\"a\"\n", Road::AsItIs),
            (csv("\\N"), 2, b"\"\\N\",a\n", Road::AsJson),
            (csv("\\N"), 2, b"\"\\\"N,a\n", Road::AsJson),
            (csv(""), 2, b",a\n", Road::EmptyIsNull),
            (csv(""), 2, b",\"\"\n", Road::AsJson),
            (csv(""), 2, b",\\N\n", Road::AsJson),
            (csv("NULL"), 2, b"1,a\n", Road::AsJson),
            (tsv("\\N"), 2, b"1\t\\N\n\\N\t2\n", Road::AsItIs),
            (tsv("\\N"), 2, b"1\t\\Nx\n", Road::AsJson),
            (tsv("\\N"), 2, b"1\ta\\tb\n", Road::AsJson),
            (tsv("\\N"), 1, b"1\n\n", Road::AsJson),
            (Format::Json, 2, b"{\"a\":\"\\\\N\"}\n", Road::AsItIs),
        ];
        for (format, columns, bytes, expected) in cases {
            assert_eq!(road(&format, columns, bytes), expected, "{bytes:?} of {format:?}");
        }
    }
}
