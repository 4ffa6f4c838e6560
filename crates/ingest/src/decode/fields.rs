//! Splits the text of LOAD DATA into rows of fields, by MySQL's rules, which differ from those of
//! CSV: a row has as many fields as the statement names, so that what follows a quoted field or the
//! last field is a matter of what was expected.

use freshet_base::{Result, bail};
use freshet_schema::FieldFormat;

/// The longest row, and the most input that is kept until its row is complete.
pub const ROW_BYTES_MAX: usize = 32 << 20;

/// The fields of a row.
#[derive(Default)]
pub struct FieldRow {
    /// The unescaped fields, one after the other.
    bytes: Vec<u8>,
    /// Where each ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
    /// Whether the line has more than the expected fields.
    pub has_more: bool,
}

impl FieldRow {
    /// The fields, with `None` for NULL.
    pub fn fields(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        let field = |(start, (end, is_null)): (usize, &(usize, bool))| {
            (!is_null).then_some(&self.bytes[start..*end])
        };
        starts.zip(&self.ends).map(field)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.has_more = false;
    }
}

/// Splits text that arrives in pieces of any size.
pub struct FieldReader {
    format: FieldFormat,
    /// The number of fields that a row shall have.
    width: usize,
    /// Which bytes are more than a byte of a field.
    special: Box<[bool; 256]>,
    lines_to_skip: u64,
    input: Vec<u8>,
    /// The start of the next row in the input.
    at: usize,
    /// Input up to this length has no complete row. It doubles, so that no byte of a row that
    /// arrives in many pieces is looked at many times.
    waits_for: usize,
    is_last: bool,
    row: FieldRow,
    rows: u64,
}

impl FieldReader {
    /// A reader of rows of `width` fields, behind `lines_to_skip` lines.
    pub fn new(format: FieldFormat, width: usize, lines_to_skip: u64) -> Self {
        assert!(!format.delimiter.is_empty(), "checked by the parser");
        let mut special = Box::new([false; 256]);
        let firsts = [format.separator.first(), format.delimiter.first()];
        let firsts = firsts.into_iter().flatten().copied();
        firsts.chain(format.enclose).chain(format.escape).for_each(|byte| {
            special[usize::from(byte)] = true;
        });
        Self {
            format,
            width,
            special,
            lines_to_skip,
            input: Vec::new(),
            at: 0,
            waits_for: 0,
            is_last: false,
            row: FieldRow::default(),
            rows: 0,
        }
    }

    /// Adds input; all rows of earlier input should have been read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Says that there is no more input.
    pub fn end(&mut self) {
        self.is_last = true;
    }

    /// The size of the input that was not read.
    pub fn waiting_bytes(&self) -> usize {
        self.input.len() - self.at
    }

    /// The memory that the input and the current row take.
    pub fn held_bytes(&self) -> usize {
        self.input.capacity() + self.row.bytes.capacity()
    }

    /// The next row; `None` if it needs more input, or behind the last one.
    ///
    /// # Errors
    /// 1406 for a row that is too long.
    pub fn next_row(&mut self) -> Result<Option<&FieldRow>> {
        if self.waiting_bytes() < self.waits_for && !self.is_last {
            return Ok(None);
        }
        loop {
            let (format, special) = (&self.format, &*self.special);
            let (input, is_last) = (&self.input[..], self.is_last);
            let mut scan = Scan { format, special, input, at: self.at, is_last };
            let found = match self.lines_to_skip {
                0 => scan.row(self.width, &mut self.row).map(|found| found.then_some(true)),
                _ => scan.skip_line().map(|line| (!line.ends_input).then_some(false)),
            };
            match found {
                Ok(Some(is_row)) => {
                    self.at = scan.at;
                    self.waits_for = 0;
                    if is_row {
                        self.rows += 1;
                        return Ok(Some(&self.row));
                    }
                    self.lines_to_skip -= 1;
                }
                Ok(None) => {
                    (self.at, self.lines_to_skip) = (self.input.len(), 0);
                    return Ok(None);
                }
                Err(Incomplete) => return self.wait().map(|()| None),
            }
        }
    }

    /// Waits for more input.
    fn wait(&mut self) -> Result<()> {
        let waiting = self.waiting_bytes();
        if waiting >= ROW_BYTES_MAX {
            bail!(
                TooLong,
                "row {} is longer than {ROW_BYTES_MAX} bytes; check LINES TERMINATED BY and \
                 ENCLOSED BY",
                self.rows + 1
            );
        }
        self.waits_for = (2 * waiting).min(ROW_BYTES_MAX);
        Ok(())
    }
}

/// More input is needed to go on.
struct Incomplete;

/// How a field ends.
enum FieldEnd {
    Separator,
    Line,
    Input,
    /// There is no field: the input ended before it.
    Nothing,
}

/// The rest of a line.
struct SkippedLine {
    is_empty: bool,
    /// Whether the input ended before the line did.
    ends_input: bool,
}

struct Scan<'a> {
    format: &'a FieldFormat,
    special: &'a [bool; 256],
    input: &'a [u8],
    at: usize,
    is_last: bool,
}

impl Scan<'_> {
    /// The byte at this distance; `None` at the end of all input.
    fn peek(&self, ahead: usize) -> Result<Option<u8>, Incomplete> {
        match self.input.get(self.at + ahead) {
            Some(byte) => Ok(Some(*byte)),
            None if self.is_last => Ok(None),
            None => Err(Incomplete),
        }
    }

    /// Takes a terminator if it comes next.
    fn takes(&mut self, terminator: &[u8]) -> Result<bool, Incomplete> {
        let rest = &self.input[self.at..];
        if terminator.is_empty() {
            return Ok(false);
        }
        if rest.starts_with(terminator) {
            self.at += terminator.len();
            return Ok(true);
        }
        match !self.is_last && terminator.starts_with(rest) {
            true => Err(Incomplete),
            false => Ok(false),
        }
    }

    /// Skips the rest of the line. Enclosed line ends are not seen as such, as in MySQL.
    fn skip_line(&mut self) -> Result<SkippedLine, Incomplete> {
        let start = self.at;
        loop {
            let is_empty = self.at == start;
            let Some(byte) = self.peek(0)? else {
                return Ok(SkippedLine { is_empty, ends_input: true });
            };
            if Some(byte) == self.format.escape {
                self.at += 1 + usize::from(self.peek(1)?.is_some());
            } else if self.takes(&self.format.delimiter)? {
                return Ok(SkippedLine { is_empty, ends_input: false });
            } else {
                self.at += 1;
            }
        }
    }

    /// Reads a row of at most `width` fields; false at the end of the input.
    fn row(&mut self, width: usize, row: &mut FieldRow) -> Result<bool, Incomplete> {
        row.clear();
        let starting = &self.format.starting;
        if !starting.is_empty() {
            match memchr::memmem::find(&self.input[self.at..], starting) {
                Some(found) => self.at += found + starting.len(),
                None if self.is_last => return Ok(false),
                None => return Err(Incomplete),
            }
        }
        loop {
            match self.field(row)? {
                FieldEnd::Separator if row.ends.len() < width => {}
                FieldEnd::Separator => {
                    let rest = self.skip_line()?;
                    row.has_more = !rest.is_empty && !rest.ends_input;
                    return Ok(true);
                }
                FieldEnd::Line | FieldEnd::Input => return Ok(true),
                FieldEnd::Nothing => return Ok(!row.ends.is_empty()),
            }
        }
    }

    /// Reads a field and what ends it.
    fn field(&mut self, row: &mut FieldRow) -> Result<FieldEnd, Incomplete> {
        let Some(first) = self.peek(0)? else { return Ok(FieldEnd::Nothing) };
        let start = row.bytes.len();
        let opened = self.format.enclose.filter(|enclose| *enclose == first);
        self.at += usize::from(opened.is_some());
        let (mut escapes_null, mut is_closed) = (false, false);
        let end = loop {
            let rest = &self.input[self.at..];
            let plain = rest.iter().position(|byte| self.special[usize::from(*byte)]);
            let plain = plain.unwrap_or(rest.len());
            row.bytes.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let Some(byte) = self.peek(0)? else {
                // A field that is never closed has its first byte, too.
                opened.inspect(|enclose| row.bytes.insert(start, *enclose));
                break FieldEnd::Input;
            };
            if let Some(escaped) = self.escaped(byte)? {
                escapes_null |= escaped == b'N';
                row.bytes.push(unescaped(escaped));
                self.at += 2;
                continue;
            }
            if opened == Some(byte) {
                self.at += 1;
                if self.peek(0)? == opened {
                    self.at += 1;
                } else if let Some(end) = self.end_of_field()? {
                    is_closed = true;
                    break end;
                }
            } else if opened.is_none()
                && let Some(end) = self.end_of_field()?
            {
                break end;
            } else {
                self.at += 1;
            }
            row.bytes.push(byte);
        };
        let field = &row.bytes[start..];
        let is_word = self.format.enclose.is_some() && !is_closed && field == b"NULL";
        row.ends.push((row.bytes.len(), is_word || escapes_null && field == b"N"));
        Ok(end)
    }

    /// The byte that `byte` in front of it escapes, if it does. What also encloses fields escapes
    /// itself alone.
    fn escaped(&self, byte: u8) -> Result<Option<u8>, Incomplete> {
        if Some(byte) != self.format.escape {
            return Ok(None);
        }
        let next = self.peek(1)?;
        Ok(next.filter(|next| self.format.enclose != Some(byte) || *next == byte))
    }

    fn end_of_field(&mut self) -> Result<Option<FieldEnd>, Incomplete> {
        if self.peek(0)?.is_none() {
            return Ok(Some(FieldEnd::Input));
        }
        if self.takes(&self.format.delimiter)? {
            return Ok(Some(FieldEnd::Line));
        }
        Ok(self.takes(&self.format.separator)?.then_some(FieldEnd::Separator))
    }
}

/// What an escaped byte stands for.
fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'0' => 0,
        b'Z' => 26,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text that arrives in pieces of `step` bytes; `+` marks one that has more.
    fn rows(
        format: &FieldFormat,
        width: usize,
        skip: u64,
        text: &[u8],
        step: usize,
    ) -> Vec<String> {
        let mut reader = FieldReader::new(format.clone(), width, skip);
        let mut rows = Vec::new();
        let mut pieces = text.chunks(step);
        loop {
            while let Some(row) = reader.next_row().unwrap() {
                let field = |field: Option<&[u8]>| {
                    field.map_or("<null>".into(), |text| String::from_utf8_lossy(text).into_owned())
                };
                let fields = row.fields().map(field).collect::<Vec<_>>().join("|");
                rows.push(fields + if row.has_more { "+" } else { "" });
            }
            match pieces.next() {
                Some(piece) => reader.feed(piece),
                None if reader.is_last => return rows,
                None => reader.end(),
            }
        }
    }

    /// Checks the rows for pieces of several sizes.
    fn check(format: &FieldFormat, width: usize, skip: u64, text: &str, expected: &[&str]) {
        for step in [1, 2, 3, 7, 1000] {
            let found = rows(format, width, skip, text.as_bytes(), step);
            assert_eq!(found, expected, "in pieces of {step}");
        }
    }

    fn quoted() -> FieldFormat {
        let separator = b",".to_vec();
        FieldFormat { separator, enclose: Some(b'"'), ..FieldFormat::default() }
    }

    #[test]
    fn the_default_format_has_tabs_and_escapes() {
        let text = "1\tab\n\\N\ta\\tb\\\\\n\nx\ty\tz\n3";
        let expected = ["1|ab", "<null>|a\tb\\", "", "x|y+", "3"];
        check(&FieldFormat::default(), 2, 0, text, &expected);
    }

    #[test]
    fn enclosed_fields_hold_separators_line_ends_and_doubled_quotes() {
        let text = "1,\"x,y\"\n2,\"q\"\"r\"\n3,\"a\nb\"\n4,\"a\"b\"\n5,NULL\n6,\"NULL\"";
        let expected = ["1|x,y", "2|q\"r", "3|a\nb", "4|a\"b", "5|<null>", "6|NULL"];
        check(&quoted(), 2, 0, text, &expected);
    }

    #[test]
    fn an_enclosed_field_that_is_never_closed_keeps_its_quote() {
        check(&quoted(), 2, 0, "1,\"a,b\n2", &["1|\"a,b\n2"]);
    }

    #[test]
    fn the_end_of_input_ends_a_row_without_an_empty_field() {
        check(&quoted(), 3, 0, "1,2,", &["1|2"]);
        check(&quoted(), 3, 0, "1,2,\n", &["1|2|"]);
        check(&quoted(), 2, 0, "1,2,\n", &["1|2"]);
        check(&quoted(), 2, 0, "1,2,3", &["1|2"]);
    }

    #[test]
    fn lines_are_skipped_and_found_by_their_start() {
        check(&quoted(), 2, 2, "a\nb\n1,2\n", &["1|2"]);
        check(&quoted(), 2, u64::MAX, "a\nb\n1,2\n", &[]);
        let format = FieldFormat { starting: b"##".to_vec(), ..quoted() };
        check(&format, 2, 0, "##1,2\nx\n#x##3,4\n", &["1|2", "3|4"]);
    }

    #[test]
    fn terminators_of_several_bytes_may_begin_alike() {
        let (separator, delimiter) = (b"ab".to_vec(), b"abc".to_vec());
        let format = FieldFormat { separator, delimiter, ..FieldFormat::default() };
        check(&format, 2, 0, "1ab2abc3aab4abc", &["1|2", "3a|4"]);
    }

    #[test]
    fn a_quote_that_is_also_the_escape_is_doubled() {
        let format = FieldFormat { escape: Some(b'"'), ..quoted() };
        check(&format, 2, 0, "\"a\"\"b\",\"n\\n\"\n", &["a\"b|n\\n"]);
    }

    #[test]
    fn a_row_without_end_is_refused() {
        let mut reader = FieldReader::new(FieldFormat::default(), 1, 0);
        let piece = vec![b'x'; 1 << 20];
        let mut fed = 0;
        let error = loop {
            match reader.next_row() {
                Ok(row) => assert!(row.is_none()),
                Err(error) => break error,
            }
            reader.feed(&piece);
            fed += piece.len();
        };
        assert_eq!(error.code().errno(), 1406);
        assert!(fed <= ROW_BYTES_MAX + piece.len());
    }
}
