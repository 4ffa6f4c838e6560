//! Finds the ends of records, and their fields.

use memchr::{memchr, memchr2, memmem};

use crate::format::{Csv, Format};

/// Where the record that begins at `from` ends, behind its delimiter; `None` if its end is not in
/// `bytes`. Bytes that follow later never change an answer, so that an input is cut at the same
/// places in whatever pieces it comes. It finds the ends that Stream Load finds.
pub fn record_end(format: &Format, bytes: &[u8], from: usize) -> Option<usize> {
    match format {
        Format::Json => memchr(b'\n', &bytes[from..]).map(|at| from + at + 1),
        Format::Parquet => None,
        Format::Tsv { .. } => tsv_end(bytes, from),
        Format::Csv(csv) => match csv.enclose {
            None => find(&csv.delimiter, bytes, from).map(|at| at + csv.delimiter.len()),
            Some(enclose) => csv_end(csv, enclose, bytes, from),
        },
    }
}

/// The end of the last record in `bytes`, of which the first begins at their start.
pub fn last_record_end(format: &Format, bytes: &[u8]) -> Option<usize> {
    // Where a delimiter always ends a record it can be looked for from behind.
    if matches!(format, Format::Json) {
        return memchr::memrchr(b'\n', bytes).map(|at| at + 1);
    }
    let mut last = None;
    while let Some(end) = record_end(format, bytes, last.unwrap_or(0)) {
        last = Some(end);
    }
    last
}

fn find(needle: &[u8], bytes: &[u8], from: usize) -> Option<usize> {
    let found = match needle {
        [byte] => memchr(*byte, &bytes[from..]),
        _ => memmem::find(&bytes[from..], needle),
    };
    found.map(|at| from + at)
}

/// A line feed behind a backslash is part of a field.
fn tsv_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let end = at + memchr(b'\n', &bytes[at..])?;
        let escapes = bytes[from..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        at = end + 1;
        if escapes % 2 == 0 {
            return Some(at);
        }
    }
}

fn csv_end(csv: &Csv, enclose: u8, bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        if bytes.get(at) == Some(&enclose) {
            at = enclosed_end(csv, enclose, bytes, at + 1, |_| {})?;
        }
        let line_end = find(&csv.delimiter, bytes, at)?;
        // Most lines have no enclosed field ahead, which saves looking at each field.
        let plain = memchr(enclose, &bytes[at..line_end]).is_none();
        match find(&csv.separator, &bytes[..line_end], at).filter(|_| !plain) {
            Some(separator) => at = separator + csv.separator.len(),
            None => return Some(line_end + csv.delimiter.len()),
        }
    }
}

/// Passes the inside of an enclosed field to `take`, in pieces; returns the place behind the
/// enclosing byte at its end, or `None` if that is not in `bytes`.
fn enclosed_end(
    csv: &Csv,
    enclose: u8,
    bytes: &[u8],
    from: usize,
    mut take: impl FnMut(&[u8]),
) -> Option<usize> {
    let escape = csv.escape.unwrap_or(enclose);
    let mut at = from;
    loop {
        let found = at + memchr2(enclose, escape, &bytes[at..])?;
        take(&bytes[at..found]);
        // What it means depends on the byte behind it.
        let next = bytes.get(found + 1);
        let escapes =
            next.is_some_and(|next| *next == enclose || *next == escape && bytes[found] == escape);
        match (escapes, next) {
            (true, Some(next)) => take(&[*next]),
            _ if bytes[found] == enclose => return Some(found + 1),
            (_, None) => return None,
            _ => {
                take(&bytes[found..=found]);
                at = found + 1;
                continue;
            }
        }
        at = found + 2;
    }
}

/// The fields of one record, reused from record to record.
#[derive(Default, Debug)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where each ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
}

impl Fields {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The fields in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, null)| {
            let from = std::mem::replace(&mut start, end);
            (!null).then(|| &self.bytes[from..end])
        })
    }

    /// Whether the record is an empty line, which Stream Load passes over.
    pub fn is_blank(&self) -> bool {
        self.bytes.is_empty() && matches!(self.ends[..], [(0, false)])
    }

    /// Reads the record at the start of `record`, which has a single one, with its delimiter or,
    /// at the end of an input, without.
    ///
    /// # Errors
    /// `Err(())` when a field is enclosed and does not end.
    pub fn read(&mut self, format: &Format, record: &[u8]) -> Result<(), Unclosed> {
        self.bytes.clear();
        self.ends.clear();
        let record = without_end(record, format.delimiter());
        match format {
            Format::Csv(csv) => self.read_csv(csv, record),
            Format::Tsv { null } => {
                self.read_tsv(null, record);
                Ok(())
            }
            Format::Json | Format::Parquet => unreachable!("it has no fields"),
        }
    }

    fn read_csv(&mut self, csv: &Csv, record: &[u8]) -> Result<(), Unclosed> {
        let mut at = 0;
        loop {
            let enclose = csv.enclose.filter(|enclose| record.get(at) == Some(enclose));
            if let Some(enclose) = enclose {
                let bytes = &mut self.bytes;
                let take = |piece: &[u8]| bytes.extend_from_slice(piece);
                at = enclosed_end(csv, enclose, record, at + 1, take).ok_or(Unclosed)?;
            }
            let end = find(&csv.separator, record, at);
            let rest = &record[at..end.unwrap_or(record.len())];
            self.bytes.extend_from_slice(rest);
            let null = enclose.is_none() && rest == csv.null;
            self.ends.push((self.bytes.len(), null));
            match end {
                Some(end) => at = end + csv.separator.len(),
                None => return Ok(()),
            }
        }
    }

    fn read_tsv(&mut self, null: &[u8], record: &[u8]) {
        let mut rest = record;
        loop {
            let start = self.bytes.len();
            let (end, last) = self.read_tsv_field(rest);
            let is_null = &rest[..end] == null;
            if is_null {
                self.bytes.truncate(start);
            }
            self.ends.push((self.bytes.len(), is_null));
            if last {
                return;
            }
            rest = &rest[end + 1..];
        }
    }

    /// Unescapes the field at the start of `rest`; returns where it ends, and whether it is the
    /// last one.
    fn read_tsv_field(&mut self, rest: &[u8]) -> (usize, bool) {
        let mut at = 0;
        loop {
            let found = memchr2(b'\t', b'\\', &rest[at..]).map(|found| at + found);
            let plain = found.unwrap_or(rest.len());
            self.bytes.extend_from_slice(&rest[at..plain]);
            let Some(found) = found else { return (rest.len(), true) };
            if rest[found] == b'\t' {
                return (found, false);
            }
            let Some(&escaped) = rest.get(found + 1) else {
                self.bytes.push(b'\\');
                return (rest.len(), true);
            };
            self.bytes.push(match escaped {
                b'0' => 0,
                b'b' => 8,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'Z' => 26,
                other => other,
            });
            at = found + 2;
        }
    }
}

/// A field was enclosed and did not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unclosed;

/// A record without its delimiter.
pub fn without_end<'a>(record: &'a [u8], delimiter: &[u8]) -> &'a [u8] {
    let record = record.strip_suffix(delimiter).unwrap_or(record);
    match delimiter {
        b"\n" => record.strip_suffix(b"\r").unwrap_or(record),
        _ => record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &Format, record: &str) -> Vec<Option<String>> {
        let mut fields = Fields::default();
        fields.read(format, record.as_bytes()).unwrap();
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        fields.iter().map(|field| field.map(text)).collect()
    }

    fn texts(all: &[&str]) -> Vec<Option<String>> {
        all.iter().map(|text| (*text != "NULL").then(|| (*text).to_owned())).collect()
    }

    #[test]
    fn csv_is_read_as_rfc_4180_has_it() {
        let csv = Format::Csv(Csv::default());
        assert_eq!(read(&csv, "1,\"a \"\"b\"\"\nc\",\r\n"), texts(&["1", "a \"b\"\nc", ""]));
        assert_eq!(read(&csv, "\\N,\"\\N\",\"C:\\\""), texts(&["NULL", "\\N", "C:\\"]));
        let escaped = Format::Csv(Csv { escape: Some(b'\\'), ..Csv::default() });
        assert_eq!(read(&escaped, "\"a\\\"b\\\\\",\\x\n"), texts(&["a\"b\\", "\\x"]));
        let wide = Csv { separator: b"||".to_vec(), delimiter: b"##".to_vec(), ..Csv::default() };
        assert_eq!(read(&Format::Csv(wide), "1|||2||3##"), texts(&["1", "|2", "3"]));
    }

    #[test]
    fn a_field_that_is_never_closed_is_no_field() {
        let csv = Format::Csv(Csv::default());
        assert_eq!(Fields::default().read(&csv, b"1,\"a\n"), Err(Unclosed));
    }

    #[test]
    fn tsv_has_the_escapes_of_outfile() {
        let tsv = Format::Tsv { null: b"\\N".to_vec() };
        let record = "a\\tb\\\\\t\\N\t\\\\N\t\\\nx\t\n";
        assert_eq!(record_end(&tsv, record.as_bytes(), 0), Some(record.len()));
        assert_eq!(read(&tsv, record), texts(&["a\tb\\", "NULL", "\\N", "\nx", ""]));
    }
}
