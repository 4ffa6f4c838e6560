//! The select list as it was written.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::cursor::Source;

/// The text of each item in the outermost select list.
pub fn items(tokens: &[TokenWithSpan], source: &Source<'_>) -> Vec<String> {
    const MODIFIERS: [&str; 12] = [
        "ALL",
        "DISTINCT",
        "DISTINCTROW",
        "HIGH_PRIORITY",
        "STRAIGHT_JOIN",
        "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT",
        "SQL_BUFFER_RESULT",
        "SQL_NO_CACHE",
        "SQL_CACHE",
        "SQL_CALC_FOUND_ROWS",
        "SELECT",
    ];
    const ENDS: [&str; 12] = [
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "FOR",
        "INTO",
        "WINDOW",
    ];
    let mut depth = 0_usize;
    let mut open: Option<(Location, Location)> = None;
    let mut found = Vec::new();
    let mut inside = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let word = match &token.token {
            Token::Word(word) if word.quote_style.is_none() && depth == 0 => {
                word.value.to_uppercase()
            }
            _ => String::new(),
        };
        if !inside {
            inside = word == "SELECT";
            continue;
        }
        if open.is_none() && MODIFIERS.contains(&word.as_str()) {
            continue;
        }
        let ends = token.token == Token::EOF || ENDS.contains(&word.as_str());
        if ends || (depth == 0 && token.token == Token::Comma) {
            found.extend(open.take().map(|(from, to)| source.between(from, to).to_owned()));
            if ends {
                return found;
            }
            continue;
        }
        open = Some((open.map_or(token.span.start, |(from, _)| from), token.span.end));
    }
    found.extend(open.map(|(from, to)| source.between(from, to).to_owned()));
    found
}
