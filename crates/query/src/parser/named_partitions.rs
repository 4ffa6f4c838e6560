//! Partitions of which a query reads, in the words of Doris: `FROM t PARTITION p`,
//! `FROM t PARTITIONS (p, q)`.

use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with such partitions as MySQL has them, `FROM t PARTITION (p, q)`; `None` if there is
/// none. A partition without a name stands for rows that the server gives, and is left as it is.
pub fn listed(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    // Statements of many rows are not looked at twice.
    if !tokens.iter().any(|token| is_partition(&token.token).is_some()) {
        return None;
    }
    let said = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let said = said.collect::<Vec<_>>();
    let read = said.iter().map(|at| &tokens[*at].token).collect::<Vec<_>>();
    let first = read.first()?;
    // These have such lists of their own: `DROP COLUMN c, DROP PARTITION p`.
    if is_word(first, "ALTER") || is_word(first, "SHOW") {
        return None;
    }
    let (mut written, mut done) = (Vec::with_capacity(tokens.len() + 4), 0);
    for at in 1..read.len() {
        let Some(is_many) = is_partition(read[at]) else { continue };
        if !is_of_table(&read[..at]) {
            continue;
        }
        let put = |token| TokenWithSpan { token, span: tokens[said[at]].span };
        let keyword = put(Token::make_keyword("PARTITION"));
        match read.get(at + 1) {
            Some(Token::LParen) if is_many && are_named(&read[at + 2..]) => {
                written.extend_from_slice(&tokens[done..said[at]]);
                written.push(keyword);
                done = said[at] + 1;
            }
            Some(name) if !is_many && is_name(name) => {
                written.extend_from_slice(&tokens[done..said[at]]);
                // The text of a view ends with its last token.
                let name = &tokens[said[at + 1]];
                let end = TokenWithSpan { token: Token::RParen, span: name.span };
                written.extend([keyword, put(Token::LParen), name.clone(), end]);
                done = said[at + 1] + 1;
            }
            _ => {}
        }
    }
    written.extend_from_slice(&tokens[done..]);
    (done > 0).then_some(written)
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(it)
        if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word))
}

/// Whether it is PARTITIONS, if it is that or PARTITION.
fn is_partition(token: &Token) -> Option<bool> {
    let is_many = is_word(token, "PARTITIONS");
    (is_many || is_word(token, "PARTITION")).then_some(is_many)
}

/// Whether the tokens end with the name of a table that is read: behind FROM, JOIN or a comma.
fn is_of_table(before: &[&Token]) -> bool {
    let mut rest = before;
    loop {
        rest = match rest {
            [rest @ .., Token::Word(_)] => rest,
            _ => return false,
        };
        match rest {
            [before @ .., Token::Period] => rest = before,
            [.., Token::Comma] => return true,
            [.., last] => {
                return ["FROM", "JOIN", "STRAIGHT_JOIN"].iter().any(|word| is_word(last, word));
            }
            [] => return false,
        }
    }
}

/// Whether it may be the name of a partition without quotes, or has them.
fn is_name(token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    let is_clause = RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        || matches!(word.keyword, Keyword::AS | Keyword::BY);
    !word.value.is_empty() && (word.quote_style.is_some() || !is_clause)
}

/// Whether names follow up to the next `)`, none of them empty.
fn are_named(tokens: &[&Token]) -> bool {
    let mut list = tokens.iter().take_while(|token| !matches!(token, Token::RParen)).peekable();
    list.peek().is_some()
        && list.all(|token| match token {
            Token::Word(word) => !word.value.is_empty(),
            _ => matches!(token, Token::Comma),
        })
}
