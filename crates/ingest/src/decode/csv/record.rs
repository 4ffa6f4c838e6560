//! Finds the end of a line and its fields.

use memchr::memmem::Finder;

use super::{CsvFormat, Field, put_field};
use crate::decode::{Fault, RowEncoder, SourcePlan, Work};

/// Result of searching for the end of the line at the start of the input.
pub(super) enum Cut {
    /// The line has `length` bytes, or `taken` bytes with its delimiter.
    Line { length: usize, taken: usize },
    /// The end has not arrived yet.
    Incomplete,
    /// The body ends within an enclosed field.
    Unclosed,
}

/// Splits lines of one format, with state for lines that arrive in pieces.
pub(super) struct Record {
    delimiter: Finder<'static>,
    separator: Finder<'static>,
    single_delimiter: Option<u8>,
    single_separator: Option<u8>,
    /// The default delimiter, a line feed, includes a preceding carriage return.
    trims_return: bool,
    enclose: Option<u8>,
    escape: Option<u8>,
    /// The unescaped fields of a line, concatenated, and where each ends. Only used if fields may
    /// be enclosed.
    fields: Vec<u8>,
    ends: Vec<FieldEnd>,
    progress: Progress,
    pub(super) work: Work,
}

/// Where an unescaped field ends, and whether it was enclosed.
#[derive(Clone, Copy)]
struct FieldEnd {
    at: usize,
    is_enclosed: bool,
}

/// How far the current line has been examined, so that no byte of a line that arrives in many
/// pieces is examined again for each piece.
#[derive(Clone, Copy, Default)]
struct Progress {
    place: Place,
    /// Where the current part of the line begins.
    at: usize,
    /// No delimiter begins in the part before this offset.
    delimiter_from: usize,
    /// Offset of the delimiter once it is found.
    delimiter_at: Option<usize>,
    /// No separator begins in the part before this offset.
    separator_from: usize,
    /// Whether the current field began with the enclosing byte.
    is_enclosed: bool,
}

/// What the next byte belongs to, if fields may be enclosed.
#[derive(Clone, Copy, Default)]
enum Place {
    /// The start of a field.
    #[default]
    Start,
    /// The inside of an enclosed field.
    Enclosed,
    /// The rest of a field, or all of it if it is not enclosed.
    Rest,
}

/// Whether the enclosed part of a field is complete.
enum Enclosed {
    Closed,
    /// Its end has not arrived yet.
    Open,
}

impl Record {
    pub(super) fn new(format: &CsvFormat) -> Self {
        let single = |bytes: &[u8]| if let [byte] = bytes { Some(*byte) } else { None };
        Self {
            delimiter: Finder::new(&format.delimiter).into_owned(),
            separator: Finder::new(&format.separator).into_owned(),
            single_delimiter: single(&format.delimiter),
            single_separator: single(&format.separator),
            trims_return: format.delimiter == b"\n",
            enclose: format.enclose,
            escape: format.escape,
            fields: Vec::new(),
            ends: Vec::new(),
            progress: Progress::default(),
            work: Work::default(),
        }
    }

    /// Size of the unescaped fields buffered for the current line.
    pub(super) fn field_bytes(&self) -> usize {
        self.fields.len()
    }

    /// Finds the end of the line at the start of `bytes`. If it has not arrived yet, the next call
    /// must pass the same line with more bytes.
    #[inline]
    pub(super) fn cut(&mut self, bytes: &[u8], last: bool) -> Cut {
        if let Some(enclose) = self.enclose {
            return self.cut_enclosed(bytes, last, enclose);
        }
        let from = self.progress.delimiter_from;
        self.progress.delimiter_from = 0;
        match self.next_delimiter(bytes, from) {
            Some(end) => self.line(bytes, end, end + self.delimiter.needle().len()),
            None if last => self.line(bytes, bytes.len(), bytes.len()),
            None => {
                self.progress.delimiter_from = from.max(beginnings(bytes, &self.delimiter));
                Cut::Incomplete
            }
        }
    }

    #[inline]
    fn line(&self, bytes: &[u8], end: usize, taken: usize) -> Cut {
        let returns = self.trims_return && end > 0 && bytes[end - 1] == b'\r';
        Cut::Line { length: end - usize::from(returns), taken }
    }

    /// Offset of the first delimiter that begins at or after `from`.
    #[inline]
    fn next_delimiter(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let found = match self.single_delimiter {
            Some(byte) => memchr::memchr(byte, &bytes[from..]),
            None => self.delimiter.find(&bytes[from..]),
        };
        self.work.add(found.unwrap_or(bytes.len() - from));
        found.map(|found| from + found)
    }

    /// As [`Self::next_delimiter`], for a line whose fields are cut one by one.
    fn find_delimiter(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        if let Some(found) = self.progress.delimiter_at.filter(|found| *found >= at) {
            return Some(found);
        }
        let from = at.max(self.progress.delimiter_from);
        let found = self.next_delimiter(bytes, from);
        self.progress.delimiter_at = found;
        self.progress.delimiter_from =
            found.unwrap_or_else(|| from.max(beginnings(bytes, &self.delimiter)));
        found
    }

    /// Offset of the first separator at or after `at` that ends at or before `end`.
    fn find_separator(&mut self, bytes: &[u8], at: usize, end: usize) -> Option<usize> {
        let from = at.max(self.progress.separator_from).min(end);
        let found = self.separator.find(&bytes[from..end]);
        self.work.add(found.unwrap_or(end - from));
        if found.is_none() {
            let none_before = beginnings(&bytes[..end], &self.separator);
            self.progress.separator_from = from.max(none_before);
        }
        found.map(|found| from + found)
    }

    /// Like [`Self::cut`] if fields may be enclosed: line ends in enclosed fields are data.
    fn cut_enclosed(&mut self, bytes: &[u8], last: bool, enclose: u8) -> Cut {
        loop {
            let at = self.progress.at;
            match self.progress.place {
                Place::Start if at == bytes.len() && !last => return Cut::Incomplete,
                Place::Start => {
                    if at == 0 {
                        self.fields.clear();
                        self.ends.clear();
                    }
                    let encloses = bytes.get(at) == Some(&enclose);
                    self.progress.place = if encloses { Place::Enclosed } else { Place::Rest };
                    self.progress.is_enclosed = encloses;
                    self.progress.at += usize::from(encloses);
                }
                Place::Enclosed => match self.take_enclosed(bytes, last, enclose) {
                    Enclosed::Closed => self.progress.place = Place::Rest,
                    Enclosed::Open if last => return Cut::Unclosed,
                    Enclosed::Open => return Cut::Incomplete,
                },
                Place::Rest => match self.take_rest(bytes, last) {
                    None => {}
                    Some(cut) => return cut,
                },
            }
        }
    }

    /// Consumes the rest of a field. Returns `None` if another field follows in the line.
    fn take_rest(&mut self, bytes: &[u8], last: bool) -> Option<Cut> {
        let at = self.progress.at;
        let line_end = self.find_delimiter(bytes, at);
        // A separator counts only where no delimiter can begin that includes bytes yet to arrive.
        let end = match line_end {
            Some(end) => end,
            None if last => bytes.len(),
            None => self.progress.delimiter_from.min(bytes.len()).max(at),
        };
        if let Some(found) = self.find_separator(bytes, at, end) {
            self.push_field(&bytes[at..found]);
            self.progress.at = found + self.separator.needle().len();
            self.progress.place = Place::Start;
            return None;
        }
        if line_end.is_none() && !last {
            return Some(Cut::Incomplete);
        }
        let within = &bytes[at..end];
        let returns = self.trims_return && within.last() == Some(&b'\r');
        let field = &within[..within.len() - usize::from(returns)];
        self.push_field(field);
        self.progress = Progress::default();
        let taken = line_end.map_or(end, |_| end + self.delimiter.needle().len());
        Some(Cut::Line { length: at + field.len(), taken })
    }

    fn push_field(&mut self, rest: &[u8]) {
        self.fields.extend_from_slice(rest);
        let (at, is_enclosed) = (self.fields.len(), self.progress.is_enclosed);
        self.ends.push(FieldEnd { at, is_enclosed });
    }

    /// Consumes the available bytes of the enclosed part of a field, including the closing byte.
    fn take_enclosed(&mut self, bytes: &[u8], last: bool, enclose: u8) -> Enclosed {
        let escape = self.escape.unwrap_or(enclose);
        loop {
            let at = self.progress.at;
            let found = memchr::memchr2(enclose, escape, &bytes[at..]);
            let plain = found.unwrap_or(bytes.len() - at);
            self.work.add(plain);
            self.fields.extend_from_slice(&bytes[at..at + plain]);
            let at = at + plain;
            self.progress.at = at;
            if found.is_none() || at + 1 == bytes.len() && !last {
                // The meaning of an escape or enclosing byte depends on the byte after it.
                return Enclosed::Open;
            }
            let escaped = bytes.get(at + 1).filter(|next| **next == enclose || **next == escape);
            match escaped {
                // An escape before itself or the enclosing byte, or the enclosing byte doubled.
                Some(&next) if bytes[at] == escape || next == enclose => {
                    self.fields.push(next);
                    self.progress.at += 2;
                }
                _ if bytes[at] == enclose => {
                    self.progress.at += 1;
                    return Enclosed::Closed;
                }
                _ => {
                    self.fields.push(bytes[at]);
                    self.progress.at += 1;
                }
            }
        }
    }

    /// Encodes the line found by the last [`Self::cut`].
    #[inline]
    pub(super) fn encode(
        &self,
        line: &[u8],
        source: &SourcePlan,
        format: &CsvFormat,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<(), Box<Fault>> {
        encoder.begin_row();
        let mut targets = source.fields.iter();
        let put = |field: Field<'_>, encoder: &mut RowEncoder<'_>| match targets.next() {
            Some(Some(_)) => put_field(field, format, encoder),
            Some(None) => Ok(()),
            None => Err(Box::new(Fault::Count { expected: source.fields.len() })),
        };
        self.each_field(line, put, encoder)?;
        if targets.next().is_some() {
            return Err(Box::new(Fault::Count { expected: source.fields.len() }));
        }
        encoder.end_row()
    }

    #[inline]
    fn each_field<E>(
        &self,
        line: &[u8],
        mut each: impl FnMut(Field<'_>, &mut E) -> Result<(), Box<Fault>>,
        with: &mut E,
    ) -> Result<(), Box<Fault>> {
        if self.enclose.is_some() {
            let mut start = 0;
            for &FieldEnd { at, is_enclosed } in &self.ends {
                each(Field { text: &self.fields[start..at], is_enclosed }, with)?;
                start = at;
            }
            return Ok(());
        }
        let plain = |text| Field { text, is_enclosed: false };
        let mut start = 0;
        if let Some(separator) = self.single_separator {
            for end in memchr::memchr_iter(separator, line) {
                each(plain(&line[start..end]), with)?;
                start = end + 1;
            }
        } else {
            for end in self.separator.find_iter(line) {
                each(plain(&line[start..end]), with)?;
                start = end + self.separator.needle().len();
            }
        }
        each(plain(&line[start..]), with)
    }

    /// The number of fields of the line found by the last [`Self::cut`].
    pub(super) fn field_count(&self, line: &[u8]) -> usize {
        let mut count = 0;
        let one = |_: Field<'_>, count: &mut usize| {
            *count += 1;
            Ok(())
        };
        // Counting cannot fail.
        let _ = self.each_field(line, one, &mut count);
        count
    }

    /// The reason for rejecting a line with a wrong number of fields.
    pub(super) fn count_reason(
        &self,
        line: &[u8],
        source: &SourcePlan,
        format: &CsvFormat,
    ) -> String {
        let mut values = Vec::new();
        let collect = |field: Field<'_>, values: &mut Vec<String>| {
            values.push(String::from_utf8_lossy(field.text).into_owned());
            Ok(())
        };
        // Collecting cannot fail; an error would only shorten the message.
        let _ = self.each_field(line, collect, &mut values);
        let (actual, expected) = (values.len(), source.fields.len());
        let relation = if actual < expected { "less" } else { "more" };
        values.truncate(expected + 1);
        format!(
            "actual column number in csv file is  {relation} than  schema column number.actual \
             number: {actual}, schema column number: {expected}; line delimiter: [{}], column \
             separator: [{}], result values:[{}]",
            String::from_utf8_lossy(&format.delimiter).escape_default(),
            String::from_utf8_lossy(&format.separator).escape_default(),
            values.join(", "),
        )
    }
}

/// The offset from which on an incomplete needle may begin.
fn beginnings(bytes: &[u8], needle: &Finder<'_>) -> usize {
    (bytes.len() + 1).saturating_sub(needle.needle().len())
}
