//! Locking clauses of a SELECT, in the words that the parser knows.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Writes LOCK IN SHARE MODE at the end as FOR SHARE, which is the same, or leaves it out where no
/// table is read; `None` if it is not there.
pub fn for_share(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let (mut left, mut span) = (tokens, None);
    for wanted in ["MODE", "SHARE", "IN", "LOCK"] {
        while let [before @ .., TokenWithSpan { token: Token::Whitespace(_) | Token::EOF, .. }] =
            left
        {
            left = before;
        }
        match left {
            [before @ .., TokenWithSpan { token: Token::Word(word), span: at }]
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted) =>
            {
                (left, span) = (before, Some(*at));
            }
            _ => return None,
        }
    }
    let span = span?;
    let is_from = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("FROM"),
        _ => false,
    };
    if !left.iter().any(is_from) {
        return Some(left.to_vec());
    }
    let word = |text: &str| TokenWithSpan { token: Token::make_keyword(text), span };
    let space = TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span };
    Some([left, &[word("FOR"), space, word("SHARE")]].concat())
}

/// The tokens with a clause for each table, where one names several: `FOR UPDATE OF t, u NOWAIT` is
/// `FOR UPDATE OF t NOWAIT FOR UPDATE OF u NOWAIT`. `None` if there is none.
pub fn of_each(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_for = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("FOR"),
        _ => false,
    };
    // Most statements are not looked at twice.
    if !tokens.iter().any(is_for) {
        return None;
    }
    let said = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let said = said.collect::<Vec<_>>();
    let word = |at: usize, wanted: &[&str]| {
        let token = said.get(at).map(|at| &tokens[*at].token);
        matches!(token, Some(Token::Word(word)) if word.quote_style.is_none()
            && wanted.iter().any(|wanted| word.value.eq_ignore_ascii_case(wanted)))
    };
    let (mut written, mut done) = (Vec::new(), 0);
    for at in 0..said.len() {
        if !(word(at, &["FOR"]) && word(at + 1, &["UPDATE", "SHARE"]) && word(at + 2, &["OF"])) {
            continue;
        }
        let names = names(tokens, &said, at + 3);
        if names.len() < 2 {
            continue;
        }
        let end = names[names.len() - 1].end;
        let wait = match (word(end, &["NOWAIT"]), word(end, &["SKIP"])) {
            (true, _) => end..end + 1,
            (_, true) if word(end + 1, &["LOCKED"]) => end..end + 2,
            _ => end..end,
        };
        written.extend_from_slice(&tokens[done..said[at]]);
        for name in names {
            for part in [at..at + 3, name, wait.clone()] {
                for at in part {
                    let token = tokens[said[at]].clone();
                    let space = Token::Whitespace(Whitespace::Space);
                    written.extend([TokenWithSpan { token: space, span: token.span }, token]);
                }
            }
        }
        done = said[wait.end - 1] + 1;
    }
    written.extend_from_slice(&tokens[done..]);
    (done > 0).then_some(written)
}

/// The names between commas from here on, each with its database, by place in `said`.
fn names(tokens: &[TokenWithSpan], said: &[usize], mut at: usize) -> Vec<std::ops::Range<usize>> {
    let token = |at: usize| said.get(at).map(|at| &tokens[*at].token);
    let mut names = Vec::new();
    loop {
        let first = at;
        let Some(Token::Word(_)) = token(at) else { return Vec::new() };
        at += 1;
        while let (Some(Token::Period), Some(Token::Word(_))) = (token(at), token(at + 1)) {
            at += 2;
        }
        names.push(first..at);
        match token(at) {
            Some(Token::Comma) => at += 1,
            _ => return names,
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parser::dialect::MySql;
    use crate::session::SqlMode;

    fn each(sql: &str) -> Option<String> {
        let tokens = Tokenizer::new(&MySql { mode: SqlMode::default() }, sql)
            .tokenize_with_location()
            .unwrap();
        let each = of_each(&tokens)?;
        let words = each.iter().map(|token| token.token.to_string()).collect::<String>();
        Some(words.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_clause_of_several_tables_is_one_for_each() {
        assert_eq!(each("SELECT 1 FROM t, u FOR UPDATE OF t NOWAIT"), None);
        assert_eq!(
            each("SELECT 1 FROM t, d.u FOR UPDATE OF t, u SKIP LOCKED FOR SHARE OF v , w"),
            Some(
                "SELECT 1 FROM t, d.u FOR UPDATE OF t SKIP LOCKED FOR UPDATE OF u SKIP LOCKED \
                 FOR SHARE OF v FOR SHARE OF w"
                    .to_owned()
            )
        );
    }
}
