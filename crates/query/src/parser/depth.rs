//! Limits the nesting of operators. Parser and planner recurse for each level, and their stack is
//! limited.

use freshet_base::{Result, bail};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Maximum nesting of operators.
pub const DEPTH_MAX: usize = 2_000;
/// Maximum nesting of CASE, of which each is read more than once.
const CASES_MAX: usize = 200;

/// Operators with low precedence: they end the expressions of all others.
const LOOSE: [&str; 7] = ["AND", "OR", "XOR", "UNION", "EXCEPT", "INTERSECT", "JOIN"];
/// Other operators that are words.
const TIGHT: [&str; 9] =
    ["DIV", "MOD", "LIKE", "REGEXP", "RLIKE", "IS", "BETWEEN", "COLLATE", "MEMBER"];

/// The operators within one pair of parentheses that may be nested in each other.
#[derive(Clone, Copy, Default)]
struct Level {
    loose: usize,
    tight: usize,
}

impl Level {
    fn operators(self) -> usize {
        self.loose + self.tight
    }
}

/// Rejects a statement whose nesting would exceed the stack.
///
/// # Errors
/// 1436 with a way to rewrite the statement.
pub fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut outer = Vec::new();
    let mut outer_operators = 0;
    let mut level = Level::default();
    let mut cases = 0_usize;
    let said = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut before = &Token::EOF;
    for token in said {
        match &token.token {
            Token::LParen => {
                outer_operators += level.operators();
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen => {
                level = outer.pop().unwrap_or_default();
                outer_operators -= level.operators();
            }
            Token::Comma => level = Level::default(),
            Token::Word(word) if word.quote_style.is_some() => {}
            Token::Word(word) if word.value.eq_ignore_ascii_case("CASE") => cases += 1,
            // It may be the name of a column, too.
            Token::Word(word) if word.value.eq_ignore_ascii_case("END") && ends(before) => {
                cases = cases.saturating_sub(1);
            }
            Token::Word(word) if is_one_of(&LOOSE, &word.value) => {
                level = Level { loose: level.loose + 1, tight: 0 };
            }
            Token::Word(word) if is_one_of(&TIGHT, &word.value) => level.tight += 1,
            token if is_symbol(token) => level.tight += 1,
            _ => {}
        }
        before = &token.token;
        if outer_operators + level.operators() > DEPTH_MAX {
            bail!(
                TooDeep,
                "Thread stack overrun: more than {DEPTH_MAX} operators stand inside one another; \
                 list values in IN (...), or send the statement in parts"
            );
        }
        if cases > CASES_MAX {
            bail!(
                TooDeep,
                "Thread stack overrun: more than {CASES_MAX} CASE stand inside one another; list \
                 more WHEN in one CASE"
            );
        }
    }
    Ok(())
}

/// Whether an expression may end with a token.
fn ends(token: &Token) -> bool {
    const OPEN: [&str; 6] = ["CASE", "WHEN", "THEN", "ELSE", "NOT", "BINARY"];
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            let goes_on = [&OPEN[..], &LOOSE, &TIGHT];
            !goes_on.iter().any(|words| is_one_of(words, &word.value))
        }
        Token::RParen => true,
        Token::Period | Token::EOF => false,
        other => !is_symbol(other),
    }
}

fn is_one_of(words: &[&str], word: &str) -> bool {
    words.iter().any(|listed| word.eq_ignore_ascii_case(listed))
}

fn is_symbol(token: &Token) -> bool {
    let text = matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Whitespace(_)
            | Token::Period
            | Token::EOF
    );
    !text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn refused(sql: &str) -> bool {
        match parse(sql, Default::default()) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.code().errno(), 1436, "{error:?}");
                true
            }
        }
    }

    #[test]
    fn what_is_long_is_not_deep() {
        let rows = vec!["(1 + 1, -2)"; 10 * DEPTH_MAX].join(", ");
        assert!(!refused(&format!("INSERT INTO t VALUES {rows}")));
        let list = vec!["1"; 10 * DEPTH_MAX].join(", ");
        assert!(!refused(&format!("SELECT 1 WHERE x IN ({list})")));
    }

    #[test]
    fn cases_count_where_they_stand_inside_one_another() {
        let inside = "CASE WHEN 1 THEN ".repeat(100_000);
        assert!(refused(&format!("SELECT {inside}1{}", " END".repeat(100_000))));
        let beside = vec!["CASE WHEN a THEN 1 END"; 10 * CASES_MAX].join(", ");
        assert!(!refused(&format!("SELECT {beside}")));
        for opening in ["CASE WHEN t.end THEN ", "CASE WHEN end THEN ", "CASE WHEN 1 = end THEN "] {
            assert!(refused(&format!("SELECT {}1", opening.repeat(100_000))), "{opening}");
        }
    }

    #[test]
    fn chains_and_what_they_stand_in_count() {
        let chain = |operator: &str, count| vec!["x"; count].join(operator);
        assert!(refused(&format!("SELECT {}", chain(" + ", DEPTH_MAX + 2))));
        assert!(refused(&format!("SELECT {}", chain(" or ", DEPTH_MAX + 2))));
        assert!(refused(&format!("SELECT 1{}", " member of ('[1]')".repeat(DEPTH_MAX + 1))));
        let half = chain(" - ", DEPTH_MAX / 2 + 2);
        assert!(refused(&format!("SELECT {half} - (1 * ({half}))")));
        assert!(refused(&format!("SELECT 1{}", " UNION SELECT 1".repeat(DEPTH_MAX + 1))));
    }
}
