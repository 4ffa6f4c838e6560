//! A cursor over the tokens of one statement.

use freshet_base::{Error, ErrorCode, Result, err};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::rows;
use crate::syntax::{Scalar, Select, TableName};

/// Maximum number of characters of a statement quoted by an error.
const NEAR_CHARACTERS_MAX: usize = 80;

pub struct Cursor<'a> {
    pub parser: Parser<'a>,
    source: &'a Source<'a>,
}

/// The text of the tokens, with an index of positions.
pub struct Source<'a> {
    text: &'a str,
    /// The start of each line, in bytes and in characters.
    lines: Vec<(usize, usize)>,
    /// The byte offset of each character whose number is a multiple of [`MARKED`].
    marks: Vec<usize>,
}

/// Characters between two marks.
const MARKED: usize = 64;

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        let (mut lines, mut marks) = (vec![(0, 0)], Vec::new());
        for (count, (at, character)) in text.char_indices().enumerate() {
            if count % MARKED == 0 {
                marks.push(at);
            }
            if character == '\n' {
                lines.push((at + 1, count + 1));
            }
        }
        Self { text, lines, marks }
    }

    /// The byte offset of a position given by line and column.
    pub fn offset(&self, place: Location) -> usize {
        let line = usize::try_from(place.line.saturating_sub(1)).unwrap_or(0);
        let Some(&(_, start)) = self.lines.get(line) else { return self.text.len() };
        let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let count = start.saturating_add(column);
        let Some(&mark) = self.marks.get(count / MARKED) else { return self.text.len() };
        let rest = &self.text[mark..];
        mark + rest.char_indices().nth(count % MARKED).map_or(rest.len(), |(at, _)| at)
    }

    /// The text from the first of these tokens on.
    pub fn from(&self, tokens: &[TokenWithSpan]) -> &'a str {
        let start = tokens.first().map_or(self.text.len(), |first| self.offset(first.span.start));
        self.text.get(start..).unwrap_or("")
    }

    /// The text between two positions, without surrounding whitespace.
    pub fn between(&self, from: Location, to: Location) -> &'a str {
        let (from, to) = (self.offset(from), self.offset(to));
        self.text.get(from..to.max(from)).unwrap_or("").trim()
    }

    /// MySQL's syntax error at `place`.
    pub fn syntax(&self, place: Location) -> Error {
        let at = self.offset(place);
        let near = self.text[at..].chars().take(NEAR_CHARACTERS_MAX).collect::<String>();
        err!(
            Syntax,
            "You have an error in your SQL syntax; check the manual that corresponds to your \
             Freshet server version for the right syntax to use near '{near}' at line {}",
            place.line.max(1)
        )
    }
}

impl<'a> Cursor<'a> {
    pub fn new(parser: Parser<'a>, source: &'a Source<'a>) -> Self {
        Self { parser, source }
    }

    /// The syntax error at the next token.
    pub fn error(&self) -> Error {
        let token = self.parser.peek_token_ref();
        self.source.syntax(match token.token {
            Token::EOF => Location { line: self.source.lines.len() as u64, column: u64::MAX },
            _ => token.span.start,
        })
    }

    /// Converts an error of `sqlparser`, at its position if it has one, otherwise at the next
    /// token.
    pub fn refused(&self, error: &ParserError) -> Error {
        let message = error.to_string();
        if matches!(error, ParserError::RecursionLimitExceeded) {
            return err!(Syntax, "the statement is nested too deeply");
        }
        let number = |name: &str| {
            let rest = message.rsplit_once(name)?.1.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse::<u64>().ok()
        };
        match (number("Line:"), number("Column:")) {
            (Some(line), Some(column)) => self.source.syntax(Location { line, column }),
            _ => self.error(),
        }
    }

    pub fn peek(&self) -> &TokenWithSpan {
        self.parser.peek_token_ref()
    }

    /// The token at this distance in upper case, if it is an unquoted word.
    pub fn peek_word(&self, ahead: usize) -> Option<String> {
        match &self.parser.peek_nth_token_ref(ahead).token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
            _ => None,
        }
    }

    /// Whether this word stands anywhere ahead.
    pub fn word_follows(&self, word: &str) -> bool {
        // Blanks are among these: each look past them would begin at the first, which took minutes
        // for a hundred thousand parentheses.
        let ahead = (0..).map(|at| self.parser.peek_nth_token_no_skip(at).token);
        let mut ahead = ahead.take_while(|token| !matches!(token, Token::EOF));
        ahead.any(|token| match token {
            Token::Word(found) => {
                found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
            }
            _ => false,
        })
    }

    /// Consumes these words if they come next; returns whether they did.
    pub fn words(&mut self, words: &str) -> bool {
        let wanted = words.split(' ').collect::<Vec<_>>();
        let found = wanted
            .iter()
            .enumerate()
            .all(|(at, word)| self.peek_word(at).is_some_and(|found| found == *word));
        if found {
            wanted.iter().for_each(|_| self.parser.advance_token());
        }
        found
    }

    /// Consumes the next words if they are one of these, and returns them.
    pub fn one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().find(|word| self.words(word)).copied()
    }

    pub fn expect_words(&mut self, words: &str) -> Result<()> {
        if self.words(words) { Ok(()) } else { Err(self.error()) }
    }

    /// Consumes this token if it comes next; returns whether it did.
    pub fn token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub fn expect(&mut self, token: &Token) -> Result<()> {
        if self.token(token) { Ok(()) } else { Err(self.error()) }
    }

    pub fn at_end(&self) -> bool {
        matches!(self.peek().token, Token::EOF)
    }

    pub fn expect_end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.error()) }
    }

    /// Parses a name: a word, or anything in backquotes.
    pub fn name(&mut self) -> Result<String> {
        match &self.peek().token {
            Token::Word(word) => {
                let name = word.value.clone();
                self.parser.advance_token();
                Ok(name)
            }
            _ => Err(self.error()),
        }
    }

    /// Parses a name or a quoted text.
    pub fn name_or_text(&mut self) -> Result<String> {
        match self.text_opt() {
            Some(text) => Ok(text),
            None => self.name(),
        }
    }

    /// Consumes a quoted text, if it is the next token.
    pub fn text_opt(&mut self) -> Option<String> {
        let text = match &self.peek().token {
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::NationalStringLiteral(text) => text.clone(),
            _ => return None,
        };
        self.parser.advance_token();
        Some(text)
    }

    pub fn text(&mut self) -> Result<String> {
        self.text_opt().ok_or_else(|| self.error())
    }

    /// Consumes an unsigned integer, if it is the next token.
    pub fn number_opt(&mut self) -> Option<u64> {
        let Token::Number(digits, _) = &self.peek().token else { return None };
        let value = digits.parse().ok()?;
        self.parser.advance_token();
        Some(value)
    }

    pub fn number(&mut self) -> Result<u64> {
        self.number_opt().ok_or_else(|| self.error())
    }

    pub fn table(&mut self) -> Result<TableName> {
        let first = self.name()?;
        if !self.token(&Token::Period) {
            return Ok(TableName { database: None, table: first });
        }
        let second = self.name()?;
        if is_catalog(&first) && self.token(&Token::Period) {
            return Ok(TableName { database: Some(second), table: self.name()? });
        }
        Ok(TableName { database: Some(first), table: second })
    }

    /// Parses the name of a database, with or without the catalog of Doris before it.
    pub fn database(&mut self) -> Result<String> {
        let first = self.name_or_text()?;
        if is_catalog(&first) && self.token(&Token::Period) {
            return self.name();
        }
        Ok(first)
    }

    /// Parses one or more items separated by commas.
    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.token(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// [`Self::list`] in parentheses.
    pub fn in_parens<T>(&mut self, one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(&Token::LParen)?;
        let all = self.list(one)?;
        self.expect(&Token::RParen)?;
        Ok(all)
    }

    /// What a parser finds; none, and nothing is parsed, where it finds nothing.
    pub fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let start = self.peek().span;
        let found = parse(self).ok();
        while found.is_none() && self.peek().span != start {
            self.parser.prev_token();
        }
        found
    }

    pub fn expr(&mut self) -> Result<Scalar> {
        let parsed = self.parser.parse_expr();
        parsed.map(Scalar).map_err(|error| self.refused(&error))
    }

    pub fn query(&mut self) -> Result<Select> {
        let parsed = self.parser.parse_query().map_err(|error| self.refused(&error))?;
        rows::with_names(parsed).map(Select)
    }

    /// The text from a position to the last token that was parsed.
    pub fn text_since(&self, from: Location) -> String {
        self.source.between(from, self.parser.get_current_token().span.end).to_owned()
    }

    /// Parses `("key" = "value", ...)`.
    pub fn properties(&mut self) -> Result<Vec<(String, String)>> {
        self.in_parens(Self::property)
    }

    /// Parses `"key" = "value"`.
    pub fn property(&mut self) -> Result<(String, String)> {
        let key = self.name_or_text()?;
        self.expect(&Token::Eq)?;
        let value = match self.number_opt() {
            Some(number) => number.to_string(),
            None => self.name_or_text()?,
        };
        Ok((key, value))
    }

    /// Skips to the end, for statements that are accepted without effect.
    pub fn skip(&mut self) {
        while !self.at_end() {
            self.parser.advance_token();
        }
    }
}

/// Whether this is the catalog of Doris that has all databases here.
fn is_catalog(name: &str) -> bool {
    name.eq_ignore_ascii_case("internal")
}

/// The error for a feature that is known but not supported.
pub fn refuse(what: &str) -> Error {
    Error::new(
        ErrorCode::NotSupported,
        format!("This version of Freshet doesn't yet support '{what}'"),
    )
}
