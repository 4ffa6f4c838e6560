//! Scans a literal.

use freshet_schema::Literal;
use freshet_schema::value::{
    Encoding, number, put_binary, put_i64, put_number, put_short, put_text,
};

use super::{Scanner, Stop};
use crate::decode::RowEncoder;

/// Where the content of a string is.
enum Content {
    /// Start and end in the text, since it contains no escapes.
    Plain(usize, usize),
    /// In `unescaped`.
    Unescaped,
}

impl Scanner<'_, '_, '_> {
    #[inline]
    pub(super) fn literal(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        match self.peek() {
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => self.number(encoder),
            Some(quote @ b'\'') => self.string(quote, self.encoding, encoder),
            Some(quote @ b'"') if !self.dialect.ansi_quotes => {
                self.string(quote, self.encoding, encoder)
            }
            Some(b'?') => self.param(encoder),
            Some(_) => self.word(encoder),
            None => Err(Stop::NotLiteral),
        }
    }

    #[inline]
    fn number(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let Some((short, taken)) = number::take_short(rest) else {
            return self.long_number(encoder);
        };
        if let (b"0", Some(base @ (b'x' | b'b'))) = (&rest[..taken], rest.get(taken)) {
            self.at += 2;
            return self.digits(*base, None, encoder);
        }
        let written = &rest[..taken];
        self.at += taken;
        encoder.put(Literal::Number(written), |column, rules, out| {
            put_short(column, short, written, rules, out)
        })?;
        Ok(())
    }

    fn long_number(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let (_, taken) = number::take(rest).ok_or(Stop::NotLiteral)?;
        let written = &rest[..taken];
        self.at += taken;
        encoder.put(Literal::Number(written), |column, rules, out| {
            put_number(column, written, rules, out)
        })?;
        Ok(())
    }

    #[inline]
    fn string(
        &mut self,
        quote: u8,
        encoding: Encoding,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<(), Stop> {
        let content = self.content(quote)?;
        let text = match content {
            Content::Plain(from, to) => &self.text[from..to],
            Content::Unescaped => &self.unescaped,
        };
        encoder.put(Literal::Text(text), |column, rules, out| {
            put_text(column, text, encoding, rules, out)
        })?;
        Ok(())
    }

    /// Reads a string including its closing quote.
    #[inline]
    fn content(&mut self, quote: u8) -> Result<Content, Stop> {
        let start = self.at + 1;
        let rest = &self.text[start..];
        let found = match self.dialect.no_backslash_escapes {
            false => memchr::memchr2(quote, b'\\', rest),
            true => memchr::memchr(quote, rest),
        };
        let end = start + found.ok_or(Stop::NotLiteral)?;
        if self.text[end] == quote && self.text.get(end + 1) != Some(&quote) {
            self.at = end + 1;
            return Ok(Content::Plain(start, end));
        }
        self.unescape(quote, start, end)
    }

    /// Continues at the first escape, at offset `escape`.
    fn unescape(&mut self, quote: u8, start: usize, escape: usize) -> Result<Content, Stop> {
        self.unescaped.clear();
        self.unescaped.extend_from_slice(&self.text[start..escape]);
        let mut at = escape;
        loop {
            let (&byte, rest) = self.text[at..].split_first().ok_or(Stop::NotLiteral)?;
            if byte == quote && rest.first() != Some(&quote) {
                self.at = at + 1;
                return Ok(Content::Unescaped);
            }
            if byte == quote {
                self.unescaped.push(quote);
            } else {
                self.push_escaped(*rest.first().ok_or(Stop::NotLiteral)?);
            }
            at += 2;
            let rest = &self.text[at..];
            let found = match self.dialect.no_backslash_escapes {
                false => memchr::memchr2(quote, b'\\', rest),
                true => memchr::memchr(quote, rest),
            };
            let next = at + found.ok_or(Stop::NotLiteral)?;
            self.unescaped.extend_from_slice(&self.text[at..next]);
            at = next;
        }
    }

    fn push_escaped(&mut self, byte: u8) {
        let meant = match byte {
            b'0' => 0,
            b'b' => 8,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'Z' => 26,
            // LIKE patterns need these escapes unchanged.
            b'%' | b'_' => {
                self.unescaped.push(b'\\');
                byte
            }
            other => other,
        };
        self.unescaped.push(meant);
    }

    /// A parameter of a prepared statement.
    fn param(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        self.at += 1;
        match &mut self.params {
            Some(params) => Ok(params.put_next(encoder)?),
            None => Err(Stop::NotLiteral),
        }
    }

    /// A literal that begins with a letter.
    fn word(&mut self, encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let in_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let length = rest.iter().take_while(in_word).count();
        let word = &rest[..length];
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        self.at += length;
        let boolean = if is("TRUE") { Some(1) } else { is("FALSE").then_some(0) };
        if is("NULL") {
            encoder.put_null()?;
        } else if let Some(value) = boolean {
            encoder.put(Literal::Int(value.into()), |column, rules, out| {
                put_i64(column, value, rules, out)
            })?;
        } else if is("DEFAULT") {
            self.is_plain = false;
            encoder.put_default()?;
        } else if (is("X") || is("B")) && self.peek() == Some(b'\'') {
            self.at += 1;
            let base = word[0].to_ascii_lowercase();
            return self.digits(base, Some(b'\''), encoder);
        } else {
            return self.introduced(word, encoder);
        }
        Ok(())
    }

    /// A string after a keyword: a character set or a temporal type.
    fn introduced(&mut self, word: &[u8], encoder: &mut RowEncoder<'_>) -> Result<(), Stop> {
        let is_any =
            |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        let adjacent = self.peek() == Some(b'\'');
        let encoding = if is_any(&["_utf8mb4", "_utf8mb3", "_utf8"]) || is_any(&["N"]) && adjacent {
            self.encoding
        } else if is_any(&["_binary"]) {
            Encoding::Unknown
        } else if is_any(&["DATE", "TIMESTAMP"]) {
            // In other columns the value keeps its temporal type, which is left to the planner.
            let temporal = encoder.column().is_some_and(|column| column.ty.is_temporal());
            if !temporal {
                return Err(Stop::NotLiteral);
            }
            self.encoding
        } else {
            return Err(Stop::NotLiteral);
        };
        self.skip_blanks()?;
        match self.peek() {
            Some(quote @ b'\'') => self.string(quote, encoding, encoder),
            Some(quote @ b'"') if !self.dialect.ansi_quotes => {
                self.string(quote, encoding, encoder)
            }
            _ => Err(Stop::NotLiteral),
        }
    }

    /// Hexadecimal or binary digits up to `end`, or as many as follow.
    fn digits(
        &mut self,
        base: u8,
        end: Option<u8>,
        encoder: &mut RowEncoder<'_>,
    ) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let (radix, per_byte) = if base == b'x' { (16, 2) } else { (2, 8) };
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        let length = rest.iter().take_while(is_digit).count();
        // Quoted digits must be whole bytes; otherwise the first byte may be incomplete.
        let odd = end.is_some() && base == b'x' && !length.is_multiple_of(2);
        if odd || end.is_none() && length == 0 || end.is_some() && rest.get(length) != end.as_ref()
        {
            return Err(Stop::NotLiteral);
        }
        self.unescaped.clear();
        for chunk in rest[..length].rchunks(per_byte) {
            let bits = chunk.iter().fold(0, |bits, byte| {
                bits * radix + char::from(*byte).to_digit(radix).unwrap_or_default()
            });
            self.unescaped.push(bits as u8);
        }
        self.unescaped.reverse();
        self.at += length + usize::from(end.is_some());
        let bytes = &self.unescaped;
        encoder.put(Literal::Binary(bytes), |column, rules, out| {
            put_binary(column, bytes, rules, out)
        })?;
        Ok(())
    }
}
