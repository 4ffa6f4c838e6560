//! Scans the literals of `INSERT INTO t VALUES (..), (..)`.
//!
//! Nearly all inserts contain only literals, which are decoded directly into rows. Anything else
//! (an expression, a function, a hint) is not an error but left to the planner.

mod head;
mod literal;

use freshet_base::{Error, comment};
use freshet_schema::Rules;
use freshet_schema::value::Encoding;

use super::params::ParamReader;
use super::{Encoded, Fault, InsertPlan, RowEncoder};

pub use head::{Head, parse_head};

/// The flags of `sql_mode` that affect the syntax of literals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dialect {
    /// NO_BACKSLASH_ESCAPES: a backslash is an ordinary character.
    pub no_backslash_escapes: bool,
    /// ANSI_QUOTES: double quotes enclose identifiers, not strings.
    pub ansi_quotes: bool,
}

/// The result of a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    pub encoded: Encoded,
    /// Number of bytes of the statement, including its semicolon; those before words that follow
    /// its rows, if it was scanned up to them.
    pub consumed: usize,
    /// Whether each row has values and nothing else: neither DEFAULT, nor nothing at all.
    pub is_plain: bool,
}

/// Why a scan appended no rows.
#[derive(Debug)]
pub enum NoRows {
    /// The text contains something other than literals; the planner must handle it.
    NotLiteral,
    Bad(Error),
}

/// Why a scan stopped within a row.
enum Stop {
    NotLiteral,
    Fault(Box<Fault>),
}

impl Stop {
    fn reason(self, plan: &InsertPlan, encoder: &RowEncoder<'_>) -> NoRows {
        match self {
            Self::NotLiteral => NoRows::NotLiteral,
            Self::Fault(fault) => NoRows::Bad(fault.error(plan, encoder.row_number())),
        }
    }
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Self {
        Self::Fault(fault)
    }
}

/// Scans the rows after `VALUES` up to the end of the statement and appends them to `out`; on error
/// `out` is unchanged.
pub fn scan_rows(
    text: &[u8],
    plan: &InsertPlan,
    rules: &Rules,
    dialect: Dialect,
    out: &mut Vec<u8>,
) -> Result<Scanned, NoRows> {
    scan(text, plan, rules, dialect, None, out)
}

/// A scan of the rows after `VALUES` that pauses between rows, so that the thread can do other work
/// meanwhile. After an error `out` has rows that do not count.
pub struct RowScan<'a> {
    scanner: Scanner<'a, 'static, 'static>,
    encoder: RowEncoder<'a>,
    plan: &'a InsertPlan,
}

impl<'a> RowScan<'a> {
    pub fn new(
        text: &'a [u8],
        plan: &'a InsertPlan,
        rules: &Rules,
        dialect: Dialect,
        out: &'a mut Vec<u8>,
    ) -> Self {
        let scanner = Scanner::new(text, dialect, None);
        Self { scanner, encoder: RowEncoder::new(plan, rules, out), plan }
    }

    /// Ends before words that follow the rows.
    #[must_use]
    pub fn before_tail(mut self) -> Self {
        self.scanner.takes_tail = true;
        self
    }

    /// Scans the next rows, at most so many; whether that was the last of them.
    ///
    /// # Errors
    /// As [`scan_rows`].
    pub fn rows(&mut self, rows_max: usize) -> Result<bool, NoRows> {
        let scanned = self.scanner.rows(&mut self.encoder, rows_max);
        scanned.map_err(|stop| stop.reason(self.plan, &self.encoder))
    }

    /// The offset of words that follow the rows, such as ON DUPLICATE KEY UPDATE, once the last row
    /// was scanned.
    pub fn tail(&self) -> Option<usize> {
        self.scanner.has_tail.then_some(self.scanner.at)
    }

    /// Ends a scan whose last row was scanned: from here on generated ids are taken.
    ///
    /// # Errors
    /// 1467 when there are not as many generated ids.
    pub fn finish(self) -> Result<Scanned, NoRows> {
        let encoded = self.encoder.finish().map_err(NoRows::Bad)?;
        Ok(self.scanner.scanned(encoded))
    }
}

/// Scans rows in which some values may be `?`, which are taken from `params` in order.
pub(super) fn scan(
    text: &[u8],
    plan: &InsertPlan,
    rules: &Rules,
    dialect: Dialect,
    params: Option<&mut ParamReader<'_>>,
    out: &mut Vec<u8>,
) -> Result<Scanned, NoRows> {
    let length_before = out.len();
    let mut encoder = RowEncoder::new(plan, rules, out);
    let mut scanner = Scanner::new(text, dialect, params);
    let scanned = match scanner.rows(&mut encoder, usize::MAX) {
        Ok(_) => encoder.finish().map(|encoded| scanner.scanned(encoded)).map_err(NoRows::Bad),
        Err(stop) => Err(stop.reason(plan, &encoder)),
    };
    if let Ok(scanned) = &scanned {
        assert!(scanned.consumed <= text.len(), "no more is read than there is");
    }
    if scanned.is_err() {
        out.truncate(length_before);
    }
    scanned
}

/// The scanner's position in the text, and how to interpret the text.
struct Scanner<'a, 'p, 'b> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// The encoding of every string in the text.
    encoding: Encoding,
    /// Buffer for unescaped strings.
    unescaped: Vec<u8>,
    params: Option<&'p mut ParamReader<'b>>,
    /// Whether words may follow the rows, and whether they do.
    takes_tail: bool,
    has_tail: bool,
    /// As in [`Scanned`].
    is_plain: bool,
}

impl<'a, 'p, 'b> Scanner<'a, 'p, 'b> {
    fn new(text: &'a [u8], dialect: Dialect, params: Option<&'p mut ParamReader<'b>>) -> Self {
        // One pass over the whole text is cheaper than one per string.
        let encoding = match std::str::from_utf8(text) {
            Ok(_) => Encoding::Utf8,
            Err(_) => Encoding::Unknown,
        };
        let (unescaped, takes_tail, has_tail) = (Vec::new(), false, false);
        let is_plain = true;
        Self { text, at: 0, dialect, encoding, unescaped, params, takes_tail, has_tail, is_plain }
    }

    fn scanned(&self, encoded: Encoded) -> Scanned {
        Scanned { encoded, consumed: self.at, is_plain: self.is_plain }
    }

    /// Scans at most so many rows; whether the statement ends behind them.
    fn rows(&mut self, encoder: &mut RowEncoder<'_>, rows_max: usize) -> Result<bool, Stop> {
        for _ in 0..rows_max {
            let start = self.at;
            self.row(encoder)?;
            // Placeholders say nothing.
            let line = if self.params.is_none() { &self.text[start..self.at] } else { b"" };
            encoder.source(|| line.trim_ascii());
            self.skip_blanks()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b';') => {
                    self.at += 1;
                    return Ok(true);
                }
                None => return Ok(true),
                Some(b'A'..=b'Z' | b'a'..=b'z') if self.takes_tail => {
                    self.has_tail = true;
                    return Ok(true);
                }
                Some(_) => return Err(Stop::NotLiteral),
            }
        }
        Ok(false)
    }

    #[inline]
    fn row(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        self.skip_blanks()?;
        self.expect(b'(')?;
        encoder.begin_row();
        self.skip_blanks()?;
        if self.peek() == Some(b')') {
            self.is_plain = false;
            self.at += 1;
            return Ok(encoder.end_row()?);
        }
        loop {
            let literal = self.literal(encoder);
            self.skip_blanks()?;
            // A literal that does not fit the column may be part of an expression that does.
            let is_last = match self.peek() {
                Some(b',') => false,
                Some(b')') => true,
                _ => return Err(Stop::NotLiteral),
            };
            literal?;
            self.at += 1;
            if is_last {
                return Ok(encoder.end_row()?);
            }
            self.skip_blanks()?;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek() != Some(byte) {
            return Err(Stop::NotLiteral);
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn skip_blanks(&mut self) -> Result<(), Stop> {
        match self.peek() {
            // Neither whitespace nor a comment begins with these.
            Some(b'\''..=b',' | b'0'..=b'z') => Ok(()),
            _ => self.skip_long_blanks(),
        }
    }

    fn skip_long_blanks(&mut self) -> Result<(), Stop> {
        match blanks(self.text, self.at) {
            Some(at) => {
                self.at = at;
                Ok(())
            }
            None => Err(Stop::NotLiteral),
        }
    }
}

/// The offset after whitespace, comments and hints of PolarDB-X; `None` for another hint or an
/// unterminated comment.
fn blanks(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        at += match rest {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
            [b'/', b'*' | b'!', hint @ ..] if is_tddl(hint) => comment::end(hint)? + 2,
            [b'/', b'*', b'!' | b'+', ..] => return None,
            [b'/', b'*', comment @ ..] => comment::end(comment)? + 2,
            [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] | [b'-', b'-'] | [b'#', ..] => {
                memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)
            }
            _ => return Some(at),
        };
    }
}

/// Whether this begins a hint of PolarDB-X, which the server reads from the text by itself.
fn is_tddl(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    text.len() >= 4 && text[..4].eq_ignore_ascii_case(b"TDDL")
}

#[cfg(test)]
mod tests;
