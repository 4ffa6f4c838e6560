//! `INSERT INTO t VALUES (..), (..)`: the literal scanner.
//!
//! It reads what nearly every insert consists of, literals, straight into rows. Whatever else
//! stands there (an expression, a function, a hint) is not an error: it is the planner's.

mod head;
mod literal;

use freshet_base::Error;
use freshet_schema::Rules;
use freshet_schema::value::Encoding;

use super::params::ParamReader;
use super::{Fault, InsertPlan, RowEncoder, Warnings};

pub use head::{Head, parse_head};

/// The bits of `sql_mode` that change how literals read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dialect {
    /// NO_BACKSLASH_ESCAPES: a backslash is a character like others.
    pub no_backslash_escapes: bool,
    /// ANSI_QUOTES: double quotes hold names, not strings.
    pub ansi_quotes: bool,
}

/// What a scan made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// Rows appended.
    pub rows: usize,
    /// Bytes of the text that the statement took, with its semicolon.
    pub consumed: usize,
    /// Values that a lax mode changed.
    pub warnings: Warnings,
}

/// Why a scan made nothing.
#[derive(Debug)]
pub enum NoRows {
    /// The text has something that is no literal: the planner's way.
    NotLiteral,
    /// A value or a row is wrong.
    Bad(Error),
}

/// Why a scan stops inside a row.
enum Stop {
    /// Something that is no literal.
    NotLiteral,
    /// A value that is wrong.
    Fault(Box<Fault>),
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Self {
        Self::Fault(fault)
    }
}

/// Scans the rows behind `VALUES` up to the end of the statement and appends them to `out`,
/// which is left as it was unless all of them are good.
pub fn scan_rows(
    text: &[u8],
    plan: &InsertPlan,
    rules: &Rules,
    dialect: Dialect,
    out: &mut Vec<u8>,
) -> Result<Scanned, NoRows> {
    scan(text, plan, rules, dialect, None, out)
}

/// Scans rows in which some values are `?`, taken from `params` in turn.
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
    let scanned = match scanner.statement(&mut encoder) {
        Ok(()) => Ok(Scanned {
            rows: encoder.rows(),
            consumed: scanner.at,
            warnings: encoder.into_warnings(),
        }),
        Err(Stop::NotLiteral) => Err(NoRows::NotLiteral),
        Err(Stop::Fault(fault)) => Err(NoRows::Bad(fault.error(plan, encoder.row_number()))),
    };
    if scanned.is_err() {
        out.truncate(length_before);
    }
    scanned
}

/// A place in a text, and what the text means there.
struct Scanner<'a, 'p, 'b> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// What is known of every part of the text between two quotes.
    encoding: Encoding,
    /// Strings without their escapes.
    unescaped: Vec<u8>,
    params: Option<&'p mut ParamReader<'b>>,
}

impl<'a, 'p, 'b> Scanner<'a, 'p, 'b> {
    fn new(text: &'a [u8], dialect: Dialect, params: Option<&'p mut ParamReader<'b>>) -> Self {
        // One pass over the whole text is cheaper than one for each string in it.
        let encoding = match std::str::from_utf8(text) {
            Ok(_) => Encoding::Utf8,
            Err(_) => Encoding::Unknown,
        };
        Self { text, at: 0, dialect, encoding, unescaped: Vec::new(), params }
    }

    fn statement(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        loop {
            self.row(encoder)?;
            self.skip_blanks()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b';') => {
                    self.at += 1;
                    return Ok(());
                }
                None => return Ok(()),
                Some(_) => return Err(Stop::NotLiteral),
            }
        }
    }

    #[inline]
    fn row(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        self.skip_blanks()?;
        self.expect(b'(')?;
        encoder.begin_row();
        self.skip_blanks()?;
        if self.peek() == Some(b')') {
            self.at += 1;
            return Ok(encoder.end_row()?);
        }
        loop {
            let literal = self.literal(encoder);
            self.skip_blanks()?;
            // A literal that the column does not take may be a part of something that it takes.
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
            // No blank and no comment begins with these.
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

/// The place behind blanks and comments; `None` for a comment that is a hint or has no end.
fn blanks(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        at += match rest {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
            [b'/', b'*', b'!' | b'+', ..] => return None,
            [b'/', b'*', comment @ ..] => memchr::memmem::find(comment, b"*/")? + 4,
            [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] | [b'-', b'-'] | [b'#', ..] => {
                memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)
            }
            _ => return Some(at),
        };
    }
}

#[cfg(test)]
mod tests;
