//! Parameters: their numbers, and which of them stand in LIMIT and OFFSET.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Numbers the `?`, so that each refers to its value.
pub fn numbered(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut count = 0;
    let number = |token: &TokenWithSpan| match &token.token {
        Token::Placeholder(mark) if mark == "?" => {
            count += 1;
            TokenWithSpan { token: Token::Placeholder(format!("${count}")), span: token.span }
        }
        _ => token.clone(),
    };
    tokens.iter().map(number).collect()
}

/// The positions, from 0, of the parameters of `LIMIT ?`, `LIMIT ?, ?` and `LIMIT ? OFFSET ?`.
pub fn limits(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let (mut found, mut parameters, mut is_count) = (Vec::new(), 0, false);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) | Token::Comma | Token::Number(..) => {}
            Token::Placeholder(_) => {
                if is_count {
                    found.push(parameters);
                }
                parameters += 1;
            }
            Token::Word(word) if word.quote_style.is_none() => {
                let counts = |name: &str| word.value.eq_ignore_ascii_case(name);
                // Elsewhere OFFSET is a name.
                is_count = counts("LIMIT") || (is_count && counts("OFFSET"));
            }
            _ => is_count = false,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::parser::parse;
    use crate::session::SqlMode;

    #[test]
    fn parameters_of_limits_are_found() {
        let limits = |sql: &str| parse(sql, SqlMode::default()).unwrap().remove(0).limits;
        assert_eq!(limits("SELECT a, ? FROM t WHERE b = ? LIMIT ? OFFSET ?"), [2, 3]);
        assert_eq!(limits("SELECT a FROM t LIMIT ?, ?"), [0, 1]);
        assert_eq!(limits("SELECT * FROM (SELECT a FROM t LIMIT 1, ?) x WHERE a IN (?, ?)"), [0]);
        assert_eq!(limits("DELETE FROM t WHERE a = ? LIMIT ?"), [1]);
        assert_eq!(limits("SELECT `limit`, ? FROM t"), [0_usize; 0]);
        assert_eq!(limits("SELECT offset, ? FROM t WHERE 5 IN (t.offset, ?) LIMIT ?"), [2]);
    }
}
