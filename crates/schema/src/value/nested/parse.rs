//! The text of a nested value, by its type.

use std::collections::HashMap;
use std::fmt::Display;

use super::show::{self, separate};
use super::{Bad, ELEMENTS_MAX};
use crate::row::Put;
use crate::value::bad::BadNested;
use crate::value::{self, Encoding};
use crate::{Column, ColumnType, Rules};

/// A parsed value.
pub(super) enum Value {
    Null,
    /// The cell of a scalar.
    Cell(Box<[u8]>),
    /// What an ARRAY or STRUCT consists of.
    Items(Vec<Value>),
    /// What a MAP consists of.
    Entries(Vec<(Value, Value)>),
}

impl Value {
    /// Appends the text of a value of this type.
    pub(super) fn write(&self, column: &Column, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Cell(cell) => show::cell(column.ty, cell, out),
            Self::Items(items) if column.ty == ColumnType::Struct => {
                out.push(b'{');
                for (at, (item, field)) in items.iter().zip(&*column.elements).enumerate() {
                    separate(at, out);
                    show::quoted(&field.name, out);
                    out.push(b':');
                    item.write(field, out);
                }
                out.push(b'}');
            }
            Self::Items(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    separate(at, out);
                    item.write(&column.elements[0], out);
                }
                out.push(b']');
            }
            Self::Entries(entries) => {
                out.push(b'{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    separate(at, out);
                    key.write(&column.elements[0], out);
                    out.push(b':');
                    value.write(&column.elements[1], out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Parses a value of a column; `None` for NULL.
pub(super) fn parse(column: &Column, text: &str, rules: &Rules) -> Result<Option<Value>, Bad> {
    let mut parser = Parser { text, at: 0, rules, elements: 0 };
    let value = parser.value(column, false)?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.unexpected("the end of the value"));
    }
    Ok((!matches!(value, Value::Null)).then_some(value))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    rules: &'a Rules,
    elements: usize,
}

impl<'a> Parser<'a> {
    fn skip_blanks(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    #[cold]
    fn unexpected(&mut self, wanted: impl Display) -> Bad {
        self.skip_blanks();
        let found = self.text[self.at..].chars().take(16).collect::<String>();
        let found = match found.is_empty() {
            true => "the end".to_owned(),
            false => format!("'{found}'"),
        };
        BadNested::new(format!("{wanted} is wanted at position {}, and not {found}", self.at))
    }

    /// Parses a value; that of a MAP's key ends with a colon.
    fn value(&mut self, column: &Column, is_key: bool) -> Result<Value, Bad> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX + 1 {
            return Err(BadNested::new(format!("it has more than {ELEMENTS_MAX} elements")));
        }
        match column.ty {
            ColumnType::Array | ColumnType::Map | ColumnType::Struct if self.is_null() => {
                Ok(Value::Null)
            }
            ColumnType::Array => self.array(&column.elements[0]),
            ColumnType::Map => self.map(&column.elements[0], &column.elements[1]),
            ColumnType::Struct => self.structure(&column.elements),
            _ => self.scalar(column, is_key),
        }
    }

    /// Takes the word NULL.
    fn is_null(&mut self) -> bool {
        self.skip_blanks();
        let rest = &self.text.as_bytes()[self.at..];
        let word = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let is_null = rest[..word].eq_ignore_ascii_case(b"null");
        self.at += if is_null { word } else { 0 };
        is_null
    }

    fn array(&mut self, item: &Column) -> Result<Value, Bad> {
        if !self.take(b'[') {
            return Err(self.unexpected("'['"));
        }
        let mut items = Vec::new();
        while !self.take(b']') {
            if !items.is_empty() && !self.take(b',') {
                return Err(self.unexpected("',' or ']'"));
            }
            let value = self.value(item, false);
            let at = items.len() + 1;
            items.push(value.map_err(|bad| bad.inside(format_args!("element {at}")))?);
        }
        Ok(Value::Items(items))
    }

    fn map(&mut self, key: &Column, value: &Column) -> Result<Value, Bad> {
        if !self.take(b'{') {
            return Err(self.unexpected("'{'"));
        }
        let mut entries = Vec::new();
        while !self.take(b'}') {
            if !entries.is_empty() && !self.take(b',') {
                return Err(self.unexpected("',' or '}'"));
            }
            let at = entries.len() + 1;
            let found = self.value(key, true);
            let found = found.map_err(|bad| bad.inside(format_args!("key {at}")))?;
            if matches!(found, Value::Null) {
                return Err(BadNested::new(format!("key {at} is NULL")));
            }
            if !self.take(b':') {
                return Err(self.unexpected(format_args!("':' behind key {at}")));
            }
            let of_key = self.value(value, false);
            let of_key = of_key.map_err(|bad| bad.inside(format_args!("value {at}")))?;
            entries.push((found, of_key));
        }
        Ok(Value::Entries(last_of_each(entries)))
    }

    /// `{"a": 1, "b": 2}`, whose fields stand in any order and may be missing, or `{1, 2}`.
    fn structure(&mut self, fields: &[Column]) -> Result<Value, Bad> {
        if !self.take(b'{') {
            return Err(self.unexpected("'{'"));
        }
        let mut values = fields.iter().map(|_| None).collect::<Vec<_>>();
        let (mut count, mut named) = (0, None);
        while !self.take(b'}') {
            if count > 0 && !self.take(b',') {
                return Err(self.unexpected("',' or '}'"));
            }
            let name = self.name();
            if *named.get_or_insert(name.is_some()) != name.is_some() {
                return Err(BadNested::new("some of its fields have names, and some have none"));
            }
            let at = match &name {
                None => count,
                Some(name) => fields
                    .iter()
                    .position(|field| field.name.eq_ignore_ascii_case(name))
                    .or_else(|| place_of(name).filter(|place| *place < fields.len()))
                    .ok_or_else(|| BadNested::new(format!("it has no field '{name}'")))?,
            };
            let Some(field) = fields.get(at) else {
                let wanted = fields.len();
                return Err(BadNested::new(format!("it has {wanted} fields, and more are given")));
            };
            let value = self.value(field, false);
            let value = value.map_err(|bad| bad.inside(format_args!("field '{}'", field.name)))?;
            if values[at].replace(value).is_some() {
                return Err(BadNested::new(format!("field '{}' is given twice", field.name)));
            }
            count += 1;
        }
        if named == Some(false) && count < fields.len() {
            let wanted = fields.len();
            return Err(BadNested::new(format!("it has {wanted} fields, and {count} are given")));
        }
        Ok(Value::Items(values.into_iter().map(|value| value.unwrap_or(Value::Null)).collect()))
    }

    /// Takes the name of a field and the colon behind it.
    fn name(&mut self) -> Option<String> {
        let start = self.at;
        let name = match self.peek()? {
            quote @ (b'"' | b'\'') => self.quoted(quote).ok(),
            _ => {
                let rest = &self.text[self.at..];
                let is_part = |c: char| c == '_' || c.is_alphanumeric();
                let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                self.at += word;
                let is_name = rest[..word].starts_with(|c: char| !c.is_ascii_digit());
                is_name.then(|| rest[..word].to_owned())
            }
        };
        let name = name.filter(|_| self.take(b':'));
        if name.is_none() {
            self.at = start;
        }
        name
    }

    fn scalar(&mut self, column: &Column, is_key: bool) -> Result<Value, Bad> {
        let quoted;
        let text = match self.peek() {
            Some(quote @ (b'"' | b'\'')) => {
                quoted = self.quoted(quote)?;
                &*quoted
            }
            _ => {
                let plain = self.plain(is_key);
                if plain.eq_ignore_ascii_case("null") {
                    return Ok(Value::Null);
                }
                if plain.is_empty() || plain.starts_with(['[', '{']) {
                    return Err(self.unexpected(format_args!("{}", column.ty)));
                }
                self.at += plain.len();
                plain
            }
        };
        let mut cell = Vec::new();
        let put = value::put_text(column, text.as_bytes(), Encoding::Utf8, self.rules, &mut cell);
        match put {
            Ok(Put::Null) => Ok(Value::Null),
            Ok(Put::Value) if column.ty.is_text() => Ok(Value::Cell(without_length(&cell))),
            Ok(Put::Value) => Ok(Value::Cell(cell.into())),
            Err(bad) => Err(BadNested::new(bad.inside(column, text))),
        }
    }

    /// What stands up to the next separator; NULL is taken.
    fn plain(&mut self, is_key: bool) -> &'a str {
        if self.is_null() {
            return "null";
        }
        let rest = &self.text[self.at..];
        let ends = |c: char| matches!(c, ',' | ']' | '}') || is_key && c == ':';
        rest[..rest.find(ends).unwrap_or(rest.len())].trim_ascii_end()
    }

    /// A text in quotes, with the escapes of JSON.
    fn quoted(&mut self, quote: u8) -> Result<String, Bad> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut text = String::new();
        self.at += 1;
        loop {
            let from = self.at;
            let ends = |byte: &u8| *byte == quote || *byte == b'\\';
            let Some(length) = bytes[from..].iter().position(ends) else {
                return Err(BadNested::new(format!("the quote at position {start} is not closed")));
            };
            text.push_str(&self.text[from..from + length]);
            self.at = from + length + 1;
            if bytes[from + length] == quote {
                return Ok(text);
            }
            let Some(escaped) = self.text[self.at..].chars().next() else { continue };
            self.at += escaped.len_utf8();
            text.push(match escaped {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => self.code_point()?,
                other => other,
            });
        }
    }

    /// The character of four hex digits, or of two times four.
    fn code_point(&mut self) -> Result<char, Bad> {
        let wrong = |at| BadNested::new(format!("the escape at position {at} is no character"));
        let first = self.hex_digits().ok_or_else(|| wrong(self.at))?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or_else(|| wrong(self.at));
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(wrong(self.at));
        }
        self.at += 2;
        let second = self.hex_digits().filter(|second| (0xdc00..0xe000).contains(second));
        let second = second.ok_or_else(|| wrong(self.at))?;
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            .ok_or_else(|| wrong(self.at))
    }

    fn hex_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    }
}

/// The place of a field that a query has called `col1`, `col2` and so on, as STRUCT does.
fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix("col")?.parse::<usize>().ok()?.checked_sub(1)
}

/// The bytes of a cell of [`Layout::Bytes`](crate::Layout).
fn without_length(cell: &[u8]) -> Box<[u8]> {
    let (_, taken) = crate::row::take_length(cell).expect("a cell of bytes has its length");
    cell[taken..].into()
}

/// Of the entries of equal keys the last, at the place of the first.
fn last_of_each(entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    if entries.len() < 2 {
        return entries;
    }
    let mut places = HashMap::<Box<[u8]>, usize>::new();
    let mut kept = Vec::<(Value, Value)>::with_capacity(entries.len());
    for (key, value) in entries {
        let Value::Cell(cell) = &key else { unreachable!("keys are scalars") };
        match places.get(cell) {
            Some(&at) => kept[at].1 = value,
            None => {
                places.insert(cell.clone(), kept.len());
                kept.push((key, value));
            }
        }
    }
    kept
}
