//! Finds `INTO @a, @b`, `INTO OUTFILE` and `INTO DUMPFILE` in a SELECT, which `sqlparser` does not
//! know.

use freshet_base::Result;
use freshet_schema::FieldFormat;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::{Cursor, Source};
use super::dialect::MySql;
use super::infile;

/// Where the rows of a SELECT go instead of to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Into {
    /// User variables, in lower case.
    Variables(Vec<String>),
    File(IntoFile),
}

/// INTO OUTFILE and INTO DUMPFILE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntoFile {
    pub name: String,
    /// CHARACTER SET, in lower case.
    pub charset: Option<String>,
    /// `None` of INTO DUMPFILE: the bytes of one row as they are.
    pub format: Option<FieldFormat>,
}

/// The tokens of a SELECT without its INTO, and what INTO says; `None` if it is no SELECT, or has
/// no INTO of variables or files.
pub fn taken(
    tokens: &[TokenWithSpan],
    dialect: &MySql,
    source: &Source<'_>,
) -> Result<Option<(Vec<TokenWithSpan>, Into)>> {
    let Some((at, next)) = place(tokens) else { return Ok(None) };
    let behind = &tokens[next..];
    let (into, count) = match said(behind).next().and_then(|(_, token)| word(&token.token)) {
        Some(word) if ["OUTFILE", "DUMPFILE"].iter().any(|of| word.eq_ignore_ascii_case(of)) => {
            let parser = Parser::new(dialect).with_tokens_with_locations(behind.to_vec());
            let mut cursor = Cursor::new(parser, source);
            let file = file(&mut cursor)?;
            (Into::File(file), cursor.parser.index().min(behind.len()))
        }
        _ => match variables(&said(behind).collect::<Vec<_>>()) {
            Some((variables, count)) => (Into::Variables(variables), count),
            None => return Ok(None),
        },
    };
    Ok(Some(([&tokens[..at], &behind[count..]].concat(), into)))
}

/// Parses OUTFILE or DUMPFILE.
fn file(cursor: &mut Cursor<'_>) -> Result<IntoFile> {
    if cursor.words("DUMPFILE") {
        return Ok(IntoFile { name: cursor.text()?, charset: None, format: None });
    }
    cursor.expect_words("OUTFILE")?;
    let name = cursor.text()?;
    let charset = infile::charset(cursor)?;
    Ok(IntoFile { name, charset, format: Some(infile::format(cursor)?) })
}

/// The tokens that are not blank, with their places.
fn said(tokens: &[TokenWithSpan]) -> impl Iterator<Item = (usize, &TokenWithSpan)> {
    let is_said = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    tokens.iter().enumerate().filter(move |(_, token)| is_said(token))
}

/// Where the INTO of a SELECT stands, and the place behind it.
fn place(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let mut said = said(tokens);
    let first = said.next().and_then(|(_, token)| word(&token.token))?;
    if !first.eq_ignore_ascii_case("SELECT") && !first.eq_ignore_ascii_case("WITH") {
        return None;
    }
    let mut depth = 0_usize;
    for (at, token) in said {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            other
                if depth == 0
                    && word(other).is_some_and(|word| word.eq_ignore_ascii_case("INTO")) =>
            {
                return Some((at, at + 1));
            }
            _ => {}
        }
    }
    None
}

/// The variables of a list, and the place behind it.
fn variables(said: &[(usize, &TokenWithSpan)]) -> Option<(Vec<String>, usize)> {
    let (mut found, mut count) = (Vec::new(), 0);
    loop {
        let token = |at: usize| said.get(at).map(|(_, token)| &token.token);
        match token(count)? {
            // A quoted name is a token of its own.
            Token::AtSign => {
                let name = match token(count + 1)? {
                    Token::Word(word) => &word.value,
                    Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text,
                    _ => return None,
                };
                found.push(name.to_lowercase());
                count += 2;
            }
            other => {
                let name = word(other)?.strip_prefix('@').filter(|name| !name.starts_with('@'))?;
                found.push(name.to_lowercase());
                count += 1;
            }
        }
        if token(count) != Some(&Token::Comma) {
            return Some((found, said[count - 1].0 + 1));
        }
        count += 1;
    }
}

fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}
