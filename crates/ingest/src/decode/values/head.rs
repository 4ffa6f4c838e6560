//! Parses the beginning of an INSERT up to `VALUES`.

use std::borrow::Cow;

use super::{Dialect, blanks};
use crate::key_rules::OnExisting;

/// The beginning of an INSERT with literals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    /// The database, if qualified.
    pub database: Option<Cow<'a, str>>,
    pub table: Cow<'a, str>,
    /// The name after WITH LABEL.
    pub label: Option<Cow<'a, str>>,
    /// The column list, if present.
    pub columns: Option<Vec<Cow<'a, str>>>,
    /// What happens to rows whose key exists.
    pub on_existing: OnExisting,
    /// Offset of the text after VALUES.
    pub values_at: usize,
}

/// Parses `{INSERT [IGNORE] | REPLACE} [INTO] [TABLE] [db.]t [WITH LABEL l] [(a, ..)] VALUES`;
/// `None` for any other statement, including ones with hints of MySQL, which are left to the SQL
/// parser.
pub fn parse_head(sql: &[u8], dialect: Dialect) -> Option<Head<'_>> {
    let mut words = Words { sql, at: 0, dialect };
    let on_existing = match words.keyword(b"INSERT") {
        true if words.keyword(b"IGNORE") => OnExisting::Skip,
        true => OnExisting::Refuse,
        false => {
            words.keyword(b"REPLACE").then_some(())?;
            OnExisting::Replace
        }
    };
    let has_into = words.keyword(b"INTO");
    if has_into {
        words.keyword(b"TABLE");
    }
    let mut table = words.name()?;
    let mut database = None;
    if words.symbol(b'.') {
        database = Some(std::mem::replace(&mut table, words.name()?));
    }
    let mut label = words.label()?;
    let columns = words.columns()?;
    if label.is_none() {
        label = words.label()?;
    }
    if !words.keyword(b"VALUES") {
        words.keyword(b"VALUE").then_some(())?;
    }
    Some(Head { database, table, label, columns, on_existing, values_at: words.at })
}

struct Words<'a> {
    sql: &'a [u8],
    at: usize,
    dialect: Dialect,
}

impl<'a> Words<'a> {
    /// The text after whitespace and comments.
    fn rest(&mut self) -> Option<&'a [u8]> {
        self.at = blanks(self.sql, self.at)?;
        Some(&self.sql[self.at..])
    }

    fn keyword(&mut self, word: &[u8]) -> bool {
        let Some((start, behind)) = self.rest().and_then(|rest| rest.split_at_checked(word.len()))
        else {
            return false;
        };
        let found =
            start.eq_ignore_ascii_case(word) && !behind.first().is_some_and(|b| in_name(*b));
        if found {
            self.at += word.len();
        }
        found
    }

    fn symbol(&mut self, symbol: u8) -> bool {
        let found = self.rest().is_some_and(|rest| rest.first() == Some(&symbol));
        self.at += usize::from(found);
        found
    }

    /// An identifier, quoted or not.
    fn name(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.rest()?;
        match rest.first()? {
            b'`' => self.quoted(b'`'),
            b'"' if self.dialect.ansi_quotes => self.quoted(b'"'),
            _ => {
                let length = rest.iter().take_while(|byte| in_name(**byte)).count();
                let word = std::str::from_utf8(&rest[..length]).ok()?;
                self.at += length;
                (length > 0 && !is_reserved(word)).then_some(Cow::Borrowed(word))
            }
        }
    }

    /// An identifier in quotes, in which the quote character is doubled.
    fn quoted(&mut self, quote: u8) -> Option<Cow<'a, str>> {
        let start = self.at + 1;
        let mut end = start;
        let mut doubled = false;
        loop {
            end += memchr::memchr(quote, &self.sql[end..])?;
            if self.sql.get(end + 1) != Some(&quote) {
                break;
            }
            doubled = true;
            end += 2;
        }
        self.at = end + 1;
        let name = std::str::from_utf8(&self.sql[start..end]).ok()?;
        if name.is_empty() {
            return None;
        }
        let quote = char::from(quote);
        Some(match doubled {
            true => Cow::Owned(name.replace(&format!("{quote}{quote}"), &quote.to_string())),
            false => Cow::Borrowed(name),
        })
    }

    /// An optional `WITH LABEL l`; the outer `None` if something else follows WITH.
    fn label(&mut self) -> Option<Option<Cow<'a, str>>> {
        if !self.keyword(b"WITH") {
            return Some(None);
        }
        self.keyword(b"LABEL").then_some(())?;
        self.name().map(Some)
    }

    /// An optional list `(a, b)`.
    fn columns(&mut self) -> Option<Option<Vec<Cow<'a, str>>>> {
        if !self.symbol(b'(') {
            return Some(None);
        }
        let mut columns = Vec::new();
        if self.symbol(b')') {
            return Some(Some(columns));
        }
        loop {
            columns.push(self.name()?);
            if self.symbol(b')') {
                return Some(Some(columns));
            }
            self.symbol(b',').then_some(())?;
        }
    }
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// Words that indicate another form of INSERT.
fn is_reserved(word: &str) -> bool {
    const RESERVED: [&str; 12] = [
        "into",
        "values",
        "value",
        "select",
        "set",
        "ignore",
        "low_priority",
        "high_priority",
        "delayed",
        "overwrite",
        "with",
        "partition",
    ];
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}
