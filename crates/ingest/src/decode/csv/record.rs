//! One line: where it ends, and what its fields are.

use memchr::memmem::Finder;

use super::{CsvFormat, put_field};
use crate::decode::{Fault, RowEncoder, SourcePlan};

/// Where the line at the front of some bytes ends.
pub(super) enum Cut {
    /// It has `length` bytes, `taken` with its delimiter.
    Line { length: usize, taken: usize },
    /// Its end is not there yet.
    Incomplete,
    /// It ends inside an enclosed field.
    Unclosed,
}

/// What it takes to read lines of one format.
pub(super) struct Record {
    delimiter: Finder<'static>,
    separator: Finder<'static>,
    single_delimiter: Option<u8>,
    single_separator: Option<u8>,
    /// The default delimiter takes a carriage return before it along.
    trims_return: bool,
    enclose: Option<u8>,
    escape: Option<u8>,
    /// The fields of an enclosed line, one after the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
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
        }
    }

    /// Finds the end of the line at the front of `bytes`.
    #[inline]
    pub(super) fn cut(&mut self, bytes: &[u8], last: bool) -> Cut {
        if let Some(enclose) = self.enclose {
            return self.cut_enclosed(bytes, last, enclose);
        }
        let end = match self.single_delimiter {
            Some(byte) => memchr::memchr(byte, bytes),
            None => self.delimiter.find(bytes),
        };
        match end {
            Some(end) => self.line(bytes, end, end + self.delimiter.needle().len()),
            None if last => self.line(bytes, bytes.len(), bytes.len()),
            None => Cut::Incomplete,
        }
    }

    #[inline]
    fn line(&self, bytes: &[u8], end: usize, taken: usize) -> Cut {
        let returns = self.trims_return && end > 0 && bytes[end - 1] == b'\r';
        Cut::Line { length: end - usize::from(returns), taken }
    }

    /// The same where line ends inside of enclosed fields are data.
    fn cut_enclosed(&mut self, bytes: &[u8], last: bool, enclose: u8) -> Cut {
        self.fields.clear();
        self.ends.clear();
        let mut at = 0;
        loop {
            if bytes.get(at) == Some(&enclose) {
                match self.take_enclosed(&bytes[at + 1..], enclose) {
                    Some(taken) => at += 1 + taken,
                    None if last => return Cut::Unclosed,
                    None => return Cut::Incomplete,
                }
            }
            // The rest of the field, which is all of it when it is not enclosed.
            let rest = &bytes[at..];
            let line_end = self.delimiter.find(rest);
            let within = &rest[..line_end.unwrap_or(rest.len())];
            match (self.separator.find(within), line_end) {
                (Some(end), _) => {
                    self.push_field(&within[..end]);
                    at += end + self.separator.needle().len();
                }
                (None, None) if !last => return Cut::Incomplete,
                (None, line_end) => {
                    let returns = self.trims_return && within.last() == Some(&b'\r');
                    let field = &within[..within.len() - usize::from(returns)];
                    self.push_field(field);
                    let length = at + field.len();
                    let end = at + within.len();
                    let taken = line_end.map_or(end, |_| end + self.delimiter.needle().len());
                    return Cut::Line { length, taken };
                }
            }
        }
    }

    fn push_field(&mut self, rest: &[u8]) {
        self.fields.extend_from_slice(rest);
        self.ends.push(self.fields.len());
    }

    /// Takes an enclosed field from behind its first enclosing byte: how many bytes up to
    /// behind the last one, or `None` when that is not there.
    fn take_enclosed(&mut self, bytes: &[u8], enclose: u8) -> Option<usize> {
        let length_before = self.fields.len();
        let escape = self.escape.unwrap_or(enclose);
        let mut at = 0;
        loop {
            let Some(found) = memchr::memchr2(enclose, escape, &bytes[at..]) else {
                self.fields.truncate(length_before);
                return None;
            };
            self.fields.extend_from_slice(&bytes[at..at + found]);
            at += found;
            let escaped = bytes.get(at + 1).filter(|next| **next == enclose || **next == escape);
            match escaped {
                // An escape before itself or the enclosing byte, or that byte doubled.
                Some(&next) if bytes[at] == escape || next == enclose => {
                    self.fields.push(next);
                    at += 2;
                }
                _ if bytes[at] == enclose => return Some(at + 1),
                _ => {
                    self.fields.push(bytes[at]);
                    at += 1;
                }
            }
        }
    }

    /// Encodes the line that was cut last.
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
        let put = |field: &[u8], encoder: &mut RowEncoder<'_>| match targets.next() {
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
        mut each: impl FnMut(&[u8], &mut E) -> Result<(), Box<Fault>>,
        with: &mut E,
    ) -> Result<(), Box<Fault>> {
        if self.enclose.is_some() {
            let mut start = 0;
            for &end in &self.ends {
                each(&self.fields[start..end], with)?;
                start = end;
            }
            return Ok(());
        }
        let mut start = 0;
        if let Some(separator) = self.single_separator {
            for end in memchr::memchr_iter(separator, line) {
                each(&line[start..end], with)?;
                start = end + 1;
            }
        } else {
            for end in self.separator.find_iter(line) {
                each(&line[start..end], with)?;
                start = end + self.separator.needle().len();
            }
        }
        each(&line[start..], with)
    }

    /// Why a line with another number of fields is not taken.
    pub(super) fn count_reason(
        &self,
        line: &[u8],
        source: &SourcePlan,
        format: &CsvFormat,
    ) -> String {
        let mut values = Vec::new();
        let collect = |field: &[u8], values: &mut Vec<String>| {
            values.push(String::from_utf8_lossy(field).into_owned());
            Ok(())
        };
        // Collecting cannot fail; a fault would only shorten what is shown.
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
