//! Temporary partitions of Doris, and EXCHANGE PARTITION.

use freshet_base::{Result, bail};
use freshet_meta::Replacing;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::AlterAction;
use super::cursor::Cursor;
use super::partition::{added, names};
use crate::snapshot::TEMPORARY_MARK;

/// Parses an action of ALTER TABLE on temporary partitions, or EXCHANGE PARTITION, if one comes
/// next.
pub fn change(cursor: &mut Cursor<'_>) -> Result<Option<AlterAction>> {
    let actions = [
        "ADD TEMPORARY PARTITIONS",
        "ADD TEMPORARY PARTITION",
        "DROP TEMPORARY PARTITION",
        "REPLACE PARTITION",
        "EXCHANGE PARTITION",
    ];
    Ok(Some(match cursor.one_of(&actions) {
        Some("ADD TEMPORARY PARTITIONS") => AlterAction::AddTemporary(added(cursor, true)?),
        Some("ADD TEMPORARY PARTITION") => AlterAction::AddTemporary(added(cursor, false)?),
        Some("DROP TEMPORARY PARTITION") => {
            let if_exists = cursor.words("IF EXISTS");
            let names = names(cursor)?;
            cursor.words("FORCE");
            AlterAction::DropTemporary { names, if_exists }
        }
        Some("REPLACE PARTITION") => replace(cursor)?,
        Some(_) => exchange(cursor)?,
        None => return Ok(None),
    }))
}

/// Parses the part after REPLACE PARTITION.
fn replace(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    let from = names(cursor)?;
    cursor.expect_words("WITH TEMPORARY")?;
    cursor.one_of(&["PARTITIONS", "PARTITION"]).ok_or_else(|| cursor.error())?;
    let by = names(cursor)?;
    cursor.words("FORCE");
    let mut replacing = Replacing { from, by, is_strict: true, keeps_names: false };
    let pairs = match cursor.words("PROPERTIES") {
        true => cursor.properties()?,
        false => Vec::new(),
    };
    for (key, value) in pairs {
        let Ok(is_on) = value.to_ascii_lowercase().parse::<bool>() else {
            bail!(WrongArguments, "Property '{key}' is true or false, not '{value}'");
        };
        match key.to_ascii_lowercase().as_str() {
            "strict_range" => replacing.is_strict = is_on,
            "use_temp_partition_name" => replacing.keeps_names = is_on,
            _ => bail!(
                Unknown,
                "Unknown properties: {{{key}={value}}}; there are strict_range and \
                 use_temp_partition_name"
            ),
        }
    }
    Ok(AlterAction::ReplacePartitions(replacing))
}

/// Parses the part after EXCHANGE PARTITION. Rows are looked at in any case: what a partition does
/// not take could not be found in it.
fn exchange(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    let partition = cursor.name_or_text()?;
    cursor.expect_words("WITH TABLE")?;
    let with = cursor.table()?;
    cursor.one_of(&["WITH VALIDATION", "WITHOUT VALIDATION"]);
    Ok(AlterAction::Exchange { partition, with })
}

/// The tokens with each `t TEMPORARY PARTITION (p, ..)` written as `t PARTITION (mark, p, ..)`;
/// `None` if there is none, or where the words are those of ALTER TABLE or SHOW.
pub fn marked(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_word = |token: &Token, word: &str| {
        matches!(token, Token::Word(it)
            if it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word))
    };
    // Statements of many rows are not looked at twice.
    if !tokens.iter().any(|token| is_word(&token.token, "TEMPORARY")) {
        return None;
    }
    let said = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let said = said.collect::<Vec<_>>();
    let token = |at: usize| said.get(at).map(|at| &tokens[*at].token);
    let first = token(0)?;
    if ["ALTER", "SHOW", "CREATE", "DROP"].iter().any(|word| is_word(first, word)) {
        return None;
    }
    let is_partition = |token: &Token| is_word(token, "PARTITION") || is_word(token, "PARTITIONS");
    let (mut written, mut done) = (Vec::with_capacity(tokens.len() + 4), 0);
    for at in 1..said.len() {
        let here = said[at];
        let is_it = here >= done
            && is_word(&tokens[here].token, "TEMPORARY")
            && token(at + 1).is_some_and(is_partition);
        if !is_it {
            continue;
        }
        let put = |token| TokenWithSpan { token, span: tokens[here].span };
        let (value, quote_style) = (TEMPORARY_MARK.to_owned(), Some('`'));
        let mark = Token::Word(Word { value, quote_style, keyword: Keyword::NoKeyword });
        written.extend_from_slice(&tokens[done..here]);
        written.push(put(Token::make_keyword("PARTITION")));
        written.extend([Token::LParen, mark, Token::Comma].map(put));
        done = said[at + 1] + 1;
        match token(at + 2) {
            Some(Token::LParen) => done = said[at + 2] + 1,
            Some(name @ Token::Word(_)) => {
                written.extend([name.clone(), Token::RParen].map(put));
                done = said[at + 2] + 1;
            }
            _ => {}
        }
    }
    written.extend_from_slice(&tokens[done..]);
    (done > 0).then_some(written)
}
