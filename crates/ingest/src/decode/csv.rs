//! Decodes CSV bodies of stream loads into rows.

mod record;

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_schema::value::{Encoding, put_text};
use freshet_schema::{Literal, Rules};

use super::{Fault, RowEncoder, SourcePlan, Warnings};
use crate::counter::UsedIds;
use crate::rejects::{Rejects, reason};
use record::{Cut, Record};

/// Maximum length of a line, and of the input that is buffered until its line is complete.
pub const LINE_BYTES_MAX: usize = 32 << 20;

/// How much input at a time is appended to a buffered line if its end cannot be searched for
/// directly.
const TAIL_STEP_BYTES: usize = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const NULL_FIELD: &[u8] = b"\\N";

/// How lines are split into fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvFormat {
    /// Separates two fields; not empty.
    pub separator: Vec<u8>,
    /// Ends a line; not empty.
    pub delimiter: Vec<u8>,
    /// The byte that encloses a field if the field begins with it.
    pub enclose: Option<u8>,
    /// Before `enclose` or itself, it makes that byte part of the field.
    pub escape: Option<u8>,
    /// Whether a pair of double quotes around a field is removed.
    pub trim_double_quotes: bool,
    /// Whether empty fields are NULL.
    pub empty_field_as_null: bool,
    /// Number of lines to skip.
    pub skip_lines: u64,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self {
            separator: b"\t".to_vec(),
            delimiter: b"\n".to_vec(),
            enclose: None,
            escape: Some(b'\\'),
            trim_double_quotes: false,
            empty_field_as_null: false,
            skip_lines: 0,
        }
    }
}

/// Parses a separator as written in headers: `\t`, `\n`, `\r` and `\\` are escapes, and so is
/// `\x01`; behind `\x` all hex digits are bytes, as in `\x0102`. `None` where they are of no whole
/// bytes, and for an empty separator.
pub fn parse_separator(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, taken) = match (first, behind) {
            (b'\\', [b'x' | b'X', behind @ ..]) => {
                let digits = behind.iter().map_while(|byte| char::from(*byte).to_digit(16));
                let digits = digits.map(|digit| digit as u8).collect::<Vec<_>>();
                let (whole, odd) = digits.as_chunks::<2>();
                if whole.is_empty() || !odd.is_empty() {
                    return None;
                }
                bytes.extend(whole.iter().map(|[high, low]| high * 16 + low));
                rest = &behind[digits.len()..];
                continue;
            }
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Where a body can be split into two parts that can be decoded independently: after the first line
/// end at or after `near`. `None` if there is none, or if fields may contain line ends.
pub fn split_at_line(body: &[u8], near: usize, format: &CsvFormat) -> Option<usize> {
    if format.enclose.is_some() {
        return None;
    }
    let end = memchr::memmem::find(body.get(near..)?, &format.delimiter)?;
    Some(near + end + format.delimiter.len())
}

/// The number of fields of the first line with rows; `None` while its end has not arrived, or
/// where there is none.
pub fn field_count(start: &[u8], format: &CsvFormat, is_all: bool) -> Option<usize> {
    let mut rest = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    let mut skipped = 0;
    while !rest.is_empty() {
        // A record that has not ended is examined again with more of the body.
        let mut record = Record::new(format);
        let Cut::Line { length, taken } = record.cut(rest, is_all) else { return None };
        let line = &rest[..length];
        if skipped >= format.skip_lines && !line.is_empty() {
            return Some(record.field_count(line));
        }
        skipped += 1;
        rest = &rest[taken..];
    }
    None
}

/// Decodes a body that arrives in pieces of any size.
pub struct CsvDecoder {
    format: CsvFormat,
    source: Arc<SourcePlan>,
    rules: Rules,
    /// Input after the last complete line.
    tail: Vec<u8>,
    /// How many bytes at its start are known to be valid UTF-8.
    tail_valid: usize,
    record: Record,
    at_start: bool,
    lines_to_skip: u64,
    /// Number of lines with rows, accepted or rejected.
    lines: u64,
    rows: usize,
    rejects: Rejects,
    warnings: Warnings,
    ids: Option<UsedIds>,
}

impl CsvDecoder {
    /// A decoder of lines with the fields of `source`.
    pub fn new(format: CsvFormat, source: &Arc<SourcePlan>, rules: &Rules) -> Self {
        assert!(!format.separator.is_empty() && !format.delimiter.is_empty(), "checked by headers");
        Self {
            lines_to_skip: format.skip_lines,
            record: Record::new(&format),
            format,
            source: Arc::clone(source),
            rules: *rules,
            tail: Vec::new(),
            tail_valid: 0,
            at_start: true,
            lines: 0,
            rows: 0,
            rejects: Rejects::default(),
            warnings: Warnings::default(),
            ids: None,
        }
    }

    /// Adapts the decoder to a later part of a split body, which has no byte order mark and no
    /// lines to skip.
    #[must_use]
    pub fn of_later_part(mut self) -> Self {
        self.at_start = false;
        self.lines_to_skip = 0;
        self
    }

    /// Decodes `bytes` and appends accepted rows to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            if !self.tail.is_empty() || self.at_start && bytes.len() < BYTE_ORDER_MARK.len() {
                bytes = self.complete_tail(bytes, out)?;
            } else {
                let (taken, valid) = self.decode(bytes, 0, false, out)?;
                self.tail_valid = valid;
                return self.keep(&bytes[taken..]);
            }
        }
        Ok(())
    }

    /// Decodes the last line, whose delimiter may be missing.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let tail = std::mem::take(&mut self.tail);
        let (taken, _) = self.decode(&tail, self.tail_valid, true, out)?;
        assert_eq!(taken, tail.len(), "the end of the body ends the last line");
        Ok(())
    }

    /// Number of buffered bytes of an incomplete line.
    pub fn waiting_bytes(&self) -> usize {
        self.tail.len() + self.record.field_bytes()
    }

    /// Number of bytes examined.
    #[cfg(test)]
    fn work(&self) -> u64 {
        self.record.work.bytes
    }

    /// Number of rows appended.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of rows seen, accepted or rejected.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The ids in the rows so far.
    pub fn ids(&self) -> Option<UsedIds> {
        self.ids
    }

    /// The rejected rows, and the warnings about adjusted values.
    pub fn into_rejects(self) -> (Rejects, Warnings) {
        (self.rejects, self.warnings)
    }

    /// Completes the buffered line while copying as little as the format allows; returns the input
    /// that was not used.
    fn complete_tail<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8]> {
        let simple = self.format.enclose.is_none() && self.format.delimiter.len() == 1;
        let end = match simple {
            true => {
                memchr::memchr(self.format.delimiter[0], bytes).map_or(bytes.len(), |at| at + 1)
            }
            false => bytes.len().min(TAIL_STEP_BYTES),
        };
        self.keep(&bytes[..end])?;
        if self.at_start && self.tail.len() < BYTE_ORDER_MARK.len() {
            return Ok(&bytes[end..]);
        }
        let mut tail = std::mem::take(&mut self.tail);
        let (taken, valid) = self.decode(&tail, self.tail_valid, false, out)?;
        tail.drain(..taken);
        (self.tail, self.tail_valid) = (tail, valid);
        Ok(&bytes[end..])
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        let length = self.tail.len() + bytes.len();
        if length > LINE_BYTES_MAX {
            bail!(
                TooLong,
                "line {} is longer than {LINE_BYTES_MAX} bytes; check line_delimiter and enclose",
                self.lines + 1
            );
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }

    /// Decodes the complete lines at the start of `bytes`, the first `valid` bytes of which are
    /// known to be valid UTF-8; `last` marks the end of the body. Returns the length of the lines,
    /// and how many bytes after them are valid UTF-8.
    fn decode(
        &mut self,
        bytes: &[u8],
        valid: usize,
        last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        let mut at = 0;
        if std::mem::take(&mut self.at_start) && bytes.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
        }
        let fresh = valid_bytes(&bytes[valid..]);
        self.record.work.add(fresh);
        let valid = valid + fresh;
        let encoder = RowEncoder::new(&self.source.plan, &self.rules, out);
        let mut encoder = encoder.counting_from(self.rows as u64 + 1);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (line, taken) = match self.record.cut(rest, last) {
                Cut::Line { length, taken } => (&rest[..length], taken),
                Cut::Incomplete => break,
                Cut::Unclosed => bail!(
                    WrongValue,
                    "a field of line {} is not closed before the end of the body",
                    self.lines + 1
                ),
            };
            at += taken;
            if self.lines_to_skip > 0 {
                self.lines_to_skip -= 1;
                continue;
            }
            if line.is_empty() {
                continue;
            }
            self.lines += 1;
            if at > valid && std::str::from_utf8(line).is_err() {
                let why = "Unable to display, only support csv data in utf8 codec";
                self.rejects.add(self.lines, line, || why.to_owned());
                continue;
            }
            let encoded = self.record.encode(line, &self.source, &self.format, &mut encoder);
            if let Err(fault) = encoded {
                encoder.abort_row();
                let (record, source, format) = (&self.record, &self.source, &self.format);
                self.rejects.add(self.lines, line, || match *fault {
                    Fault::Count { .. } => record.count_reason(line, source, format).into(),
                    fault => reason(&fault, &source.plan),
                });
            }
        }
        let encoded = encoder.finish()?;
        self.rows += encoded.rows;
        self.warnings.append(encoded.warnings);
        self.ids = UsedIds::join(self.ids, encoded.ids);
        Ok((at, valid.saturating_sub(at)))
    }
}

/// The length of the longest valid UTF-8 prefix.
fn valid_bytes(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len)
}

/// An unescaped field of a line.
#[derive(Clone, Copy)]
struct Field<'a> {
    text: &'a [u8],
    /// Whether it was enclosed, so that `\N` is a text.
    is_enclosed: bool,
}

/// Writes a field as the next value.
#[inline]
fn put_field(
    field: Field<'_>,
    format: &CsvFormat,
    encoder: &mut RowEncoder<'_>,
) -> Result<(), Box<Fault>> {
    let Field { text: mut field, is_enclosed } = field;
    if format.trim_double_quotes
        && let [b'"', inner @ .., b'"'] = field
    {
        field = inner;
    }
    if !is_enclosed && field == NULL_FIELD || format.empty_field_as_null && field.is_empty() {
        return encoder.put_null();
    }
    encoder.put(Literal::Text(field), |column, rules, out| {
        put_text(column, field, Encoding::Utf8, rules, out)
    })
}

#[cfg(test)]
mod tests;
