//! Finds `INTO @a, @b` in a SELECT, which `sqlparser` does not know.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens of a SELECT without its INTO, and the variables there, in lower case; `None` if it is
/// no SELECT, or has no INTO of variables.
pub fn taken(tokens: &[TokenWithSpan]) -> Option<(Vec<TokenWithSpan>, Vec<String>)> {
    let said = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .collect::<Vec<_>>();
    let first = said.first().and_then(|(_, token)| word(&token.token))?;
    if !first.eq_ignore_ascii_case("SELECT") && !first.eq_ignore_ascii_case("WITH") {
        return None;
    }
    let mut depth = 0_usize;
    for (place, (at, token)) in said.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_into = word(&token.token).is_some_and(|word| word.eq_ignore_ascii_case("INTO"));
        if depth > 0 || !is_into {
            continue;
        }
        let (variables, count) = variables(&said[place + 1..])?;
        let end = said[place + count].0;
        return Some(([&tokens[..*at], &tokens[end + 1..]].concat(), variables));
    }
    None
}

/// The variables of a list, and the number of tokens that it has.
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
            return Some((found, count));
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
