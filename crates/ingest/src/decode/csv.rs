//! Lines of fields, as a stream load sends them, into rows.

mod record;

use std::ops::Deref;

use freshet_base::{Result, bail};
use freshet_schema::value::{Encoding, put_text};
use freshet_schema::{Literal, Rules};

use super::{Fault, RowEncoder, SourcePlan, Warnings};
use crate::rejects::{Rejects, reason};
use record::{Cut, Record};

/// Longest line, and the most bytes that wait for the end of theirs.
pub const LINE_BYTES_MAX: usize = 32 << 20;

/// How much is put behind a line that waits, where its end cannot be found before.
const TAIL_STEP_BYTES: usize = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const NULL_FIELD: &[u8] = b"\\N";

/// How lines and fields are told apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvFormat {
    /// Between two fields; not empty.
    pub separator: Vec<u8>,
    /// Behind each line; not empty.
    pub delimiter: Vec<u8>,
    /// A field that begins with it runs up to the next one.
    pub enclose: Option<u8>,
    /// Before it, `enclose` is a character of the field.
    pub escape: Option<u8>,
    /// A pair of double quotes around a field is taken away.
    pub trim_double_quotes: bool,
    /// An empty field is NULL.
    pub empty_field_as_null: bool,
    /// Lines to pass over.
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

/// Reads a separator as headers write it: `\x01` and `\t`, `\n`, `\r`, `\\` stand for bytes.
pub fn parse_separator(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, taken) = match (first, behind) {
            (b'\\', [b'x' | b'X', high, low, ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                ((digit(*high)? * 16 + digit(*low)?) as u8, 4)
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

/// Where a body can be cut in two parts that decode apart: behind the first line end at or
/// after `near`. `None` when there is none, or when a field may hold a line end.
pub fn split_at_line(body: &[u8], near: usize, format: &CsvFormat) -> Option<usize> {
    if format.enclose.is_some() {
        return None;
    }
    let end = memchr::memmem::find(body.get(near..)?, &format.delimiter)?;
    Some(near + end + format.delimiter.len())
}

/// Decodes a body that comes in parts of any size. It borrows its plan where the body is decoded
/// in one go, and has a share of it where it moves between threads.
pub struct CsvDecoder<P> {
    format: CsvFormat,
    source: P,
    rules: Rules,
    /// What came behind the last complete line.
    tail: Vec<u8>,
    /// How much of its front is known to be UTF-8.
    tail_valid: usize,
    record: Record,
    at_start: bool,
    lines_to_skip: u64,
    /// Lines that were rows, good or bad.
    lines: u64,
    rows: usize,
    rejects: Rejects,
    warnings: Warnings,
}

impl<P: Deref<Target = SourcePlan>> CsvDecoder<P> {
    /// A decoder of lines whose fields are those of `source`.
    pub fn new(format: CsvFormat, source: P, rules: &Rules) -> Self {
        assert!(!format.separator.is_empty() && !format.delimiter.is_empty(), "checked by headers");
        Self {
            lines_to_skip: format.skip_lines,
            record: Record::new(&format),
            format,
            source,
            rules: *rules,
            tail: Vec::new(),
            tail_valid: 0,
            at_start: true,
            lines: 0,
            rows: 0,
            rejects: Rejects::default(),
            warnings: Warnings::default(),
        }
    }

    /// The next part of a body that was cut at line ends: no byte order mark, no lines to skip.
    #[must_use]
    pub fn of_later_part(mut self) -> Self {
        self.at_start = false;
        self.lines_to_skip = 0;
        self
    }

    /// Decodes `bytes`, appending the good rows to `out`.
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

    /// Decodes the last line, which may lack its delimiter.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let tail = std::mem::take(&mut self.tail);
        let (taken, _) = self.decode(&tail, self.tail_valid, true, out)?;
        assert_eq!(taken, tail.len(), "the end of the body ends the last line");
        Ok(())
    }

    /// Bytes that wait for what follows them.
    pub fn waiting_bytes(&self) -> usize {
        self.tail.len() + self.record.field_bytes()
    }

    /// Bytes that were looked at.
    #[cfg(test)]
    fn work(&self) -> u64 {
        self.record.work.bytes
    }

    /// Rows appended.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows seen, good or bad.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The rows that were not taken, and the values that were changed to fit.
    pub fn into_rejects(self) -> (Rejects, Warnings) {
        (self.rejects, self.warnings)
    }

    /// Completes the line that waits, with as little copying as its form allows; what it did
    /// not take comes back.
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

    /// Decodes the complete lines at the front of `bytes`, of which `valid` are known to be UTF-8;
    /// `last` says that nothing follows. Returns their length, and how much behind them is UTF-8.
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
                    Fault::Count { .. } => record.count_reason(line, source, format),
                    fault => reason(&fault, &source.plan),
                });
            }
        }
        self.rows += encoder.rows();
        self.warnings.append(encoder.into_warnings());
        Ok((at, valid.saturating_sub(at)))
    }
}

/// How many bytes at the front are UTF-8.
fn valid_bytes(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len)
}

/// Writes one field as the next value.
#[inline]
fn put_field(
    field: &[u8],
    format: &CsvFormat,
    encoder: &mut RowEncoder<'_>,
) -> Result<(), Box<Fault>> {
    let mut field = field;
    if format.trim_double_quotes
        && let [b'"', inner @ .., b'"'] = field
    {
        field = inner;
    }
    if field == NULL_FIELD || format.empty_field_as_null && field.is_empty() {
        return encoder.put_null();
    }
    encoder.put(Literal::Text(field), |column, rules, out| {
        put_text(column, field, Encoding::Utf8, rules, out)
    })
}

#[cfg(test)]
mod tests;
