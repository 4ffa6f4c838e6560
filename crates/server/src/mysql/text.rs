//! The lexical structure of a statement: strings, names and comments. Strings with bytes that are
//! not UTF-8 are rewritten as hex literals, because the parser accepts only UTF-8.

use std::borrow::Cow;
use std::fmt::Write;

use freshet_base::{Charset, Result, bail, comment, err};
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

/// The statement of a client with another character set, as UTF-8 text: what stands behind an
/// introducer keeps its bytes, as a hex literal.
///
/// # Errors
/// 1300 for what is no text of the character set.
pub fn decoded(sql: &[u8], charset: Charset, dialect: Dialect) -> Result<Cow<'_, str>> {
    if let Ok(text) = std::str::from_utf8(sql)
        && text.is_ascii()
    {
        return Ok(Cow::Borrowed(text));
    }
    let marked = charset.marked(sql);
    let (mut text, mut at) = (String::with_capacity(sql.len() * 2), 0);
    while at < sql.len() {
        let (kind, end) = piece(&marked, at, dialect);
        let bytes = &sql[at..end];
        let is_kept = is_string(kind, dialect) && !bytes.is_ascii() && is_introduced(&text);
        if is_kept {
            let mut kept = Vec::new();
            at = strings((sql, &marked), at, dialect, &mut kept);
            push_hex(&mut text, &kept);
            continue;
        }
        match (charset.decode(bytes), kind) {
            (Some(known), _) => text.push_str(&known),
            (None, Piece::Comment) => text.push(' '),
            (None, _) => {
                let shown = bytes.escape_ascii().to_string();
                let shown = shown.chars().take(80).collect::<String>();
                bail!(NotUtf8, "Invalid {} character string: {shown}", charset.name());
            }
        }
        at = end;
    }
    Ok(Cow::Owned(text))
}

/// A name of a client with this character set.
///
/// # Errors
/// 1300 for what is no text of it.
pub fn name(bytes: &[u8], charset: Option<Charset>) -> Result<String> {
    let text = match charset {
        Some(charset) => charset.decode(bytes),
        None => std::str::from_utf8(bytes).ok().map(str::to_owned),
    };
    let set = charset.map_or("utf8mb4", Charset::name);
    text.ok_or_else(|| err!(NotUtf8, "Invalid {set} character string: '{}'", bytes.escape_ascii()))
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
            end = strings((sql, sql), at, dialect, &mut bytes);
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
/// value; returns the end of the last one. In `marked`, as long as `sql`, bytes that look like
/// ASCII are it.
fn strings(
    (sql, marked): (&[u8], &[u8]),
    mut at: usize,
    dialect: Dialect,
    out: &mut Vec<u8>,
) -> usize {
    loop {
        let (quote, (_, end)) = (sql[at], piece(marked, at, dialect));
        let inner = at + 1..end.saturating_sub(1).max(at + 1);
        unescape((&sql[inner.clone()], &marked[inner]), !dialect.no_backslash_escapes, out);
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

fn unescape((inner, marked): (&[u8], &[u8]), escapes: bool, out: &mut Vec<u8>) {
    let mut bytes = inner.iter().zip(marked);
    while let Some((&byte, &mark)) = bytes.next() {
        match mark {
            b'\\' if escapes => match bytes.next().map(|(byte, _)| byte) {
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
            _ => out.push(byte),
        }
    }
}

/// The introducer that the text ends with, as in `_binary 'x'`, or another word.
fn last_word(text: &str) -> &str {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.trim_end().rsplit(|c| !in_name(c)).next().unwrap_or_default()
}

fn is_introduced(text: &str) -> bool {
    let charset = last_word(text).strip_prefix('_');
    charset
        .is_some_and(|name| name.eq_ignore_ascii_case("binary") || Charset::named(name).is_some())
}

/// Appends a string as a hex literal, with an introducer so that it is never read as a number.
fn push_hex(text: &mut String, bytes: &[u8]) {
    let introduced = last_word(text).starts_with('_');
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
    fn statements_are_decoded_before_they_are_read() {
        let decode = |name: &str, sql: &[u8]| {
            let charset = Charset::of_client(name).unwrap();
            decoded(sql, charset, Dialect::default()).map(Cow::into_owned)
        };
        assert_eq!(
            decode("latin1", b"select '\xe9', `\xe4`").unwrap(),
            "select '\u{e9}', `\u{e4}`"
        );
        assert_eq!(decode("latin1", b"select 1").unwrap(), "select 1");
        // The backslash is the second byte of a character, and the quote behind it ends the text.
        assert_eq!(decode("gbk", b"select '\xbf\x5c'").unwrap(), "select '\u{7e17}'");
        assert_eq!(decode("sjis", b"select '\x95\x5c'").unwrap(), "select '\u{8868}'");
        assert_eq!(decode("gbk", b"select '\xbf'").unwrap_err().code().errno(), 1300);
        assert_eq!(decode("gbk", b"select 1 -- \xbf\n").unwrap(), "select 1  ");
    }

    #[test]
    fn bytes_behind_an_introducer_stay_as_they_are() {
        let decode = |name: &str, sql: &[u8]| {
            let charset = Charset::of_client(name).unwrap();
            decoded(sql, charset, Dialect::default()).unwrap().into_owned()
        };
        assert_eq!(decode("latin1", b"select _binary'\xe9\\0'"), "select _binary x'E900'");
        assert_eq!(decode("latin1", b"select _latin1 '\xe9'"), "select _latin1  x'E9'");
        assert_eq!(decode("gbk", b"select _binary '\xbf\x5c\xff'"), "select _binary  x'BF5CFF'");
        assert_eq!(decode("latin1", b"select _name '\xe9'"), "select _name '\u{e9}'");
    }

    #[test]
    fn names_that_are_no_text_are_refused() {
        let latin1 = Charset::of_client("latin1");
        assert_eq!(name(b"\xe9", latin1).unwrap(), "\u{e9}");
        assert_eq!(name(b"\xe9", None).unwrap_err().code().errno(), 1300);
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
