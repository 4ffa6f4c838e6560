//! The lexical structure of a statement: strings, names and comments. Strings with bytes that are
//! not UTF-8 are rewritten as hex literals, because the parser accepts only UTF-8.

use std::borrow::Cow;
use std::fmt::Write;

use freshet_base::{Result, bail, comment};
use freshet_ingest::decode::values::Dialect;

/// The kinds of pieces of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    /// Words, numbers, operators and blanks.
    Plain,
    /// Text in these quotes.
    Quoted(u8),
    Comment,
}

/// The piece at `at` and its end.
fn piece(sql: &[u8], at: usize, dialect: Dialect) -> (Piece, usize) {
    match sql[at] {
        quote @ (b'\'' | b'"' | b'`') => {
            let escapes = quote != b'`' && !dialect.no_backslash_escapes;
            (Piece::Quoted(quote), end_of_quoted(sql, at + 1, quote, escapes))
        }
        b'#' | b'-' | b'/' => behind_comment(sql, at),
        _ => {
            let special = |byte: &u8| matches!(byte, b'\'' | b'"' | b'`' | b'#' | b'-' | b'/');
            let length = sql[at..].iter().position(special);
            (Piece::Plain, length.map_or(sql.len(), |length| at + length))
        }
    }
}

fn end_of_quoted(sql: &[u8], mut at: usize, quote: u8, escapes: bool) -> usize {
    while let Some(byte) = sql.get(at) {
        match *byte {
            b'\\' if escapes => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    sql.len()
}

/// The comment at `at`, or a single byte if there is none.
fn behind_comment(sql: &[u8], at: usize) -> (Piece, usize) {
    let rest = &sql[at..];
    let line_end = || rest.iter().position(|byte| *byte == b'\n').map_or(sql.len(), |n| at + n + 1);
    match rest {
        [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] | [b'-', b'-'] => {
            (Piece::Comment, line_end())
        }
        // The content of `/*!` comments is executed.
        [b'/', b'*', b'!', ..] => (Piece::Plain, at + 3),
        [b'/', b'*', comment @ ..] => {
            (Piece::Comment, comment::end(comment).map_or(sql.len(), |end| at + 2 + end))
        }
        _ => (Piece::Plain, at + 1),
    }
}

/// The number of `?` in a statement outside of strings, names and comments.
pub fn placeholders(sql: &[u8], dialect: Dialect) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < sql.len() {
        let (piece, end) = piece(sql, at, dialect);
        if piece == Piece::Plain {
            count += sql[at..end].iter().filter(|byte| **byte == b'?').count();
        }
        at = end;
    }
    count
}

/// The statement as equivalent UTF-8 text.
///
/// # Errors
/// 1064 when bytes that are not UTF-8 are outside of strings and comments.
pub fn utf8(sql: &[u8], dialect: Dialect) -> Result<Cow<'_, str>> {
    if let Ok(text) = std::str::from_utf8(sql) {
        return Ok(Cow::Borrowed(text));
    }
    let (mut text, mut at) = (String::with_capacity(sql.len() * 2), 0);
    while at < sql.len() {
        let (kind, mut end) = piece(sql, at, dialect);
        let mut bytes = Vec::new();
        if is_string(kind, dialect) {
            end = strings(sql, at, dialect, &mut bytes);
        }
        match (std::str::from_utf8(&sql[at..end]), kind) {
            (Ok(valid), _) => text.push_str(valid),
            (Err(_), Piece::Comment) => text.push(' '),
            (Err(_), kind) if is_string(kind, dialect) => push_hex(&mut text, &bytes),
            (Err(error), _) => {
                let near = String::from_utf8_lossy(&sql[at + error.valid_up_to()..]);
                let near = near.chars().take(80).collect::<String>();
                bail!(
                    Syntax,
                    "You have an error in your SQL syntax; bytes that are no UTF-8 may stand in \
                     strings and comments only, near '{near}'"
                );
            }
        }
        at = end;
    }
    Ok(Cow::Owned(text))
}

fn is_string(piece: Piece, dialect: Dialect) -> bool {
    matches!(piece, Piece::Quoted(b'\'')) || piece == Piece::Quoted(b'"') && !dialect.ansi_quotes
}

/// Decodes the string at `at` and those that follow it with only blanks between, which form one
/// value; returns the end of the last one.
fn strings(sql: &[u8], mut at: usize, dialect: Dialect, out: &mut Vec<u8>) -> usize {
    loop {
        let (quote, (_, end)) = (sql[at], piece(sql, at, dialect));
        let inner = &sql[at + 1..end.saturating_sub(1).max(at + 1)];
        unescape(inner, !dialect.no_backslash_escapes, out);
        if sql.get(end) == Some(&quote) {
            // A doubled quote stands for one.
            out.push(quote);
            at = end;
            continue;
        }
        let blanks = sql[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let next = end + blanks;
        match sql.get(next) {
            Some(quote) if is_string(Piece::Quoted(*quote), dialect) => at = next,
            _ => return end,
        }
    }
}

fn unescape(inner: &[u8], escapes: bool, out: &mut Vec<u8>) {
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' if escapes => match bytes.next() {
                Some(b'0') => out.push(0),
                Some(b'b') => out.push(8),
                Some(b'n') => out.push(b'\n'),
                Some(b'r') => out.push(b'\r'),
                Some(b't') => out.push(b'\t'),
                Some(b'Z') => out.push(26),
                // Kept for patterns of LIKE.
                Some(wild @ (b'%' | b'_')) => out.extend([b'\\', *wild]),
                Some(other) => out.push(*other),
                None => out.push(b'\\'),
            },
            byte => out.push(byte),
        }
    }
}

/// Appends a string as a hex literal, with an introducer so that it is never read as a number.
fn push_hex(text: &mut String, bytes: &[u8]) {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = text.trim_end().rsplit(|c| !in_name(c)).next().unwrap_or_default();
    let introduced = word.starts_with('_');
    text.push_str(if introduced { " x'" } else { " _binary x'" });
    for byte in bytes {
        write!(text, "{byte:02X}").expect("writing to a string cannot fail");
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_counted_outside_of_text_and_comments() {
        let count = |sql: &str| placeholders(sql.as_bytes(), Dialect::default());
        assert_eq!(count("insert into t values (?, ?)"), 2);
        assert_eq!(count("select '?', \"?\", `?`, ?"), 1);
        assert_eq!(count("select 'it''s ?', '\\'?', ?"), 1);
        assert_eq!(count("select ? -- ?\n, ? # ?\n, ? /* ? */ - ?"), 4);
        assert_eq!(count("select 1 /*! + ? */"), 1);
        assert_eq!(count("select '?"), 0);
    }

    #[test]
    fn strings_that_are_no_text_become_hex_literals() {
        let text = |sql: &[u8]| utf8(sql, Dialect::default()).unwrap().into_owned();
        assert_eq!(text("select '\u{e9}'".as_bytes()), "select '\u{e9}'");
        assert_eq!(text(b"select _binary'a\xff''\\n\\%'"), "select _binary x'61FF270A5C25'");
        assert_eq!(text(b"select 'a' \"\xff\", 'b'"), "select  _binary x'61FF', 'b'");
        assert_eq!(text(b"select 1 /* \xff */ -- \xff"), "select 1   -  ".replace("-  ", " "));
        assert_eq!(text(b"select '\xff"), "select  _binary x''");
        assert!(utf8(b"select `\xff`", Dialect::default()).is_err());
        assert!(utf8(b"select \xff", Dialect::default()).is_err());
        let ansi = Dialect { ansi_quotes: true, no_backslash_escapes: true };
        assert!(utf8(b"select \"\xff\"", ansi).is_err());
        assert_eq!(utf8(b"select '\xff\\'", ansi).unwrap(), "select  _binary x'FF5C'");
    }
}
