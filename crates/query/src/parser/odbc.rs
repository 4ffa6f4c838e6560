//! `{ OJ a LEFT JOIN b ON .. }` of ODBC and JDBC, which is that join in parentheses.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens with each such join in parentheses; `None` if there is none.
pub fn joins_opened(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| token.token == Token::LBrace) {
        return None;
    }
    let said = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let said = said.collect::<Vec<_>>();
    let mut written = tokens.to_vec();
    // Whether each brace that is open is one of a join.
    let (mut open, mut found) = (Vec::new(), false);
    for (place, &at) in said.iter().enumerate() {
        match tokens[at].token {
            Token::LBrace => {
                let next = said.get(place + 1).copied().filter(|next| is_oj(&tokens[*next].token));
                if let Some(next) = next {
                    written[at].token = Token::LParen;
                    written[next].token = Token::Whitespace(Whitespace::Space);
                    found = true;
                }
                open.push(next.is_some());
            }
            Token::RBrace if open.pop() == Some(true) => written[at].token = Token::RParen,
            _ => {}
        }
    }
    found.then_some(written)
}

fn is_oj(token: &Token) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("OJ"))
}
