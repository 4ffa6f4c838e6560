//! Estimates the memory of parsing before it begins: the parser stores a token for each word,
//! symbol and blank, and builds a tree of them, with hundreds of bytes each.

use std::borrow::Cow;

use freshet_base::comment;

use crate::hint;
use crate::session::SqlMode;

/// The memory of a token, stored twice, and of its part of the tree.
const TOKEN_BYTES: usize = 512;
/// Above this number, blanks and comments are removed before parsing; below it they are kept, so
/// that errors report the original line numbers.
const BLANKS_MAX: usize = 50_000;

/// The size of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextSize {
    /// Words, numbers, literals and symbols.
    pub tokens: usize,
    /// Blank characters and comments.
    blanks: usize,
    /// Total length of the tokens.
    bytes: usize,
}

impl TextSize {
    /// Counts the tokens of a text.
    pub fn of(sql: &str, mode: SqlMode) -> Self {
        let mut size = Self::default();
        let mut pieces = Pieces::new(sql, mode);
        while let Some(piece) = pieces.next_piece() {
            match piece {
                Piece::Blank => size.blanks += 1,
                Piece::Token(text) => {
                    size.tokens += 1;
                    size.bytes += text.len();
                }
            }
        }
        size
    }

    /// An upper bound for the memory of parsing.
    pub fn memory_bytes(&self) -> usize {
        let blanks = if self.blanks > BLANKS_MAX { self.tokens } else { self.blanks };
        (self.tokens + blanks).saturating_mul(TOKEN_BYTES).saturating_add(3 * self.bytes)
    }
}

/// Writes the hints `/!TDDL:..*/` as comments, which they are to the rest of the parser.
pub fn hints_as_comments(sql: &str, mode: SqlMode) -> Cow<'_, str> {
    if memchr::memmem::find(sql.as_bytes(), b"/!").is_none() {
        return Cow::Borrowed(sql);
    }
    let mut out = String::with_capacity(sql.len());
    let mut pieces = Pieces::new(sql, mode);
    let mut start = 0;
    while pieces.next_piece().is_some() {
        let piece = &sql[start..pieces.at];
        start = pieces.at;
        match piece.strip_prefix("/!").filter(|_| hint::length(piece.as_bytes()).is_some()) {
            Some(hint) => out.extend(["/*", hint]),
            None => out.push_str(piece),
        }
    }
    Cow::Owned(out)
}

/// Removes blanks and comments from a text that has very many of them.
pub fn compacted(sql: &str, mode: SqlMode) -> Cow<'_, str> {
    if sql.len() <= BLANKS_MAX || TextSize::of(sql, mode).blanks <= BLANKS_MAX {
        return Cow::Borrowed(sql);
    }
    let mut out = String::new();
    let mut blank = false;
    let mut pieces = Pieces::new(sql, mode);
    while let Some(piece) = pieces.next_piece() {
        match piece {
            Piece::Blank => blank = true,
            Piece::Token(text) => {
                if std::mem::take(&mut blank) {
                    out.push(' ');
                }
                out.push_str(text);
            }
        }
    }
    Cow::Owned(out)
}

/// A piece of a text.
pub(super) enum Piece<'a> {
    /// A blank or a comment.
    Blank,
    Token(&'a str),
}

/// The pieces of a text, one after the other.
pub(super) struct Pieces<'a> {
    pub sql: &'a str,
    pub at: usize,
    mode: SqlMode,
    /// From here on no comment ends, so that a text of many hints that stay open is not searched
    /// to its end for each of them.
    open_at: usize,
}

impl<'a> Pieces<'a> {
    pub fn new(sql: &'a str, mode: SqlMode) -> Self {
        Self { sql, at: 0, mode, open_at: sql.rfind("*/").unwrap_or(0) }
    }

    pub fn next_piece(&mut self) -> Option<Piece<'a>> {
        let rest = &self.sql[self.at..];
        let bytes = rest.as_bytes();
        let blank = |length| Some((length, true));
        let (length, is_blank) = match bytes {
            [] => return None,
            [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => blank(1),
            [b'/', b'*' | b'!', ..] if self.hint(bytes).is_some() => {
                Some((self.hint(bytes)?, false))
            }
            // Others are parsed, so their contents are tokens.
            [b'/', b'*', b'!' | b'+', ..] => Some((3, false)),
            [b'/', b'*', comment @ ..] => {
                blank(comment::end(comment).map_or(bytes.len(), |end| end + 2))
            }
            [b'-', b'-'] | [b'#', ..] => blank(line(bytes)),
            [b'-', b'-', next, ..] if next.is_ascii_whitespace() => blank(line(bytes)),
            [quote @ (b'\'' | b'"' | b'`'), ..] => Some((self.quoted(bytes, *quote), false)),
            [first, ..] if is_word(*first) => {
                Some((bytes.iter().take_while(|byte| is_word(**byte)).count(), false))
            }
            _ => Some((1, false)),
        }?;
        self.at += length;
        let text = &rest[..length];
        Some(if is_blank { Piece::Blank } else { Piece::Token(text) })
    }

    /// The length of the hint that `bytes`, the text from here on, begin with.
    fn hint(&self, bytes: &[u8]) -> Option<usize> {
        (self.at < self.open_at).then(|| hint::length(bytes)).flatten()
    }

    /// The length of a quoted text or name, including the quotes.
    fn quoted(&self, bytes: &[u8], quote: u8) -> usize {
        let escapes = quote != b'`' && !self.mode.no_backslash_escapes;
        let mut at = 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'\\' if escapes => at += 2,
                byte if byte == quote => return at + 1,
                _ => at += 1,
            }
        }
        bytes.len()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'@' | 0x80..)
}

fn line(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn tokens(sql: &str) -> usize {
        TextSize::of(sql, SqlMode::default()).tokens
    }

    #[test]
    fn words_and_signs_are_counted_and_blanks_are_not() {
        assert_eq!(tokens("SELECT a, 'b '' \\' c' -- d, e\n/* f */ + 1.5"), 7);
        assert_eq!(tokens("`a``b` <> \"c\" # d"), 5);
        assert_eq!(tokens("SELECT '\u{e9}\\'"), 2);
        assert_eq!(tokens("/* open"), 0);
    }

    #[test]
    fn blanks_cost_nothing() {
        let blanks = " \n\t".repeat(BLANKS_MAX);
        let sql = format!("SELECT{blanks}'a {blanks}'{blanks}/* {blanks} */, 1{blanks}");
        let short = compacted(&sql, SqlMode::default());
        assert_eq!(short, format!("SELECT 'a {blanks}' , 1"));
        assert_eq!(parse(&sql, SqlMode::default()).unwrap()[0].items.len(), 2);
        let size = TextSize::of(&sql, SqlMode::default());
        assert!(size.memory_bytes() < 20 * TOKEN_BYTES + sql.len(), "{size:?}");
        assert_eq!(compacted("SELECT  1", SqlMode::default()), "SELECT  1");
    }
}
