use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use freshet_base::err;

use super::pattern::with_pattern;
use super::row::{Kind, Out, Row, RowFunction};
use crate::error::external;

fn text_or<'a>(row: &'a Row<'_>, arg: usize, otherwise: &'a str) -> &'a str {
    if arg < row.count() { row.text(arg) } else { otherwise }
}

/// The byte offset of a character position, from 1; 0 is the first one, too.
///
/// # Errors
/// 3686 for a position behind the end of the text, or below 0.
fn byte_at(text: &str, position: i64) -> Result<usize> {
    let skip = usize::try_from(position.max(1) - 1).ok().filter(|_| position >= 0);
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    skip.and_then(|skip| places.nth(skip)).ok_or_else(|| {
        external(err!(
            RegexpOutOfBounds,
            "Index out of bounds in regular expression search: position {position} of a text of \
             {} characters",
            text.chars().count()
        ))
    })
}

fn like(row: &Row<'_>) -> Result<Option<Out>> {
    let matched =
        with_pattern(row.text(1), text_or(row, 2, ""), |regex| regex.is_match(row.text(0)))?;
    Ok(Some(Out::Bool(matched)))
}

/// A component of a replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

/// Parses a replacement: `$` with digits is a group, regardless of what follows, and a backslash
/// escapes the next character.
fn replacement(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => plain.extend(signs.next()),
            '$' if signs.peek().is_some_and(char::is_ascii_digit) => {
                let mut group = 0_usize;
                while let Some(digit) = signs.next_if(char::is_ascii_digit) {
                    let digit = digit.to_digit(10).expect("a digit") as usize;
                    group = group.saturating_mul(10).saturating_add(digit);
                }
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Group(group));
            }
            other => plain.push(other),
        }
    }
    pieces.push(Piece::Text(plain));
    pieces
}

/// `REGEXP_REPLACE(text, pattern, new[, position[, occurrence[, flags]]])`.
fn replace(row: &Row<'_>) -> Result<Option<Out>> {
    let (body, new) = (row.text(0), replacement(row.text(2)));
    let from = byte_at(body, row.int_or(3, 1))?;
    let occurrence = usize::try_from(row.int_or(4, 0)).unwrap_or(0);
    with_pattern(row.text(1), text_or(row, 5, ""), |regex| {
        let tail = &body[from..];
        let (skip, count) = match occurrence {
            0 => (0, usize::MAX),
            wanted => (wanted - 1, 1),
        };
        let mut out = body[..from].to_owned();
        let mut behind = 0;
        for found in regex.captures_iter(tail).skip(skip).take(count) {
            let whole = found.get_match();
            out.push_str(&tail[behind..whole.start()]);
            behind = whole.end();
            for piece in &new {
                out.push_str(match piece {
                    Piece::Text(text) => text,
                    Piece::Group(group) => found.get(*group).map_or("", |group| group.as_str()),
                });
                if out.len() > row.bytes_max() {
                    return Some(Out::TooLong);
                }
            }
        }
        out.push_str(&tail[behind..]);
        Some(Out::Text(out))
    })
}

/// `REGEXP_SUBSTR(text, pattern[, position[, occurrence[, flags]]])`.
fn substr(row: &Row<'_>) -> Result<Option<Out>> {
    let body = row.text(0);
    let from = byte_at(body, row.int_or(2, 1))?;
    let skip = usize::try_from(row.int_or(3, 1).saturating_sub(1)).unwrap_or(0);
    with_pattern(row.text(1), text_or(row, 4, ""), |regex| {
        regex.find_iter(&body[from..]).nth(skip).map(|found| Out::Text(found.as_str().to_owned()))
    })
}

/// `REGEXP_INSTR(text, pattern[, position[, occurrence[, behind[, flags]]]])`: the position in
/// characters, from 1, of the match, or with `behind` of what follows it; 0 if not found.
fn instr(row: &Row<'_>) -> Result<Option<Out>> {
    let body = row.text(0);
    let from = byte_at(body, row.int_or(2, 1))?;
    let skip = usize::try_from(row.int_or(3, 1).saturating_sub(1)).unwrap_or(0);
    let behind = match row.int_or(4, 0) {
        0 => false,
        1 => true,
        _ => {
            return Err(external(err!(
                WrongArguments,
                "Incorrect arguments to regexp_instr: return_option must be 1 or 0."
            )));
        }
    };
    let found = with_pattern(row.text(1), text_or(row, 5, ""), |regex| {
        let found = regex.find_iter(&body[from..]).nth(skip)?;
        Some(from + if behind { found.end() } else { found.start() })
    })?;
    let place = found.map_or(0, |at| body[..at].chars().count() + 1);
    Ok(Some(Out::Int(i64::try_from(place).unwrap_or(i64::MAX))))
}

/// Converts a LIKE pattern with another escape character to one with the backslash.
pub fn with_escape(pattern: &str, escape: &str) -> String {
    let escape = escape.chars().next();
    let mut out = String::with_capacity(pattern.len());
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        match sign {
            sign if Some(sign) == escape => {
                out.push('\\');
                out.extend(signs.next());
            }
            '\\' => out.push_str("\\\\"),
            sign => out.push(sign),
        }
    }
    out
}

pub fn all() -> Vec<ScalarUDF> {
    use Kind::{Int, Text};
    [
        RowFunction::fallible("regexp_like", &[Text], (2, 3), Kind::Bool, like),
        RowFunction::fallible(
            "regexp_replace",
            &[Text, Text, Text, Int, Int, Text],
            (3, 6),
            Text,
            replace,
        ),
        RowFunction::new("mysql_like_escape", &[Text], (2, 2), Text, |row| {
            Some(Out::Text(with_escape(row.text(0), row.text(1))))
        }),
        RowFunction::fallible("regexp_substr", &[Text, Text, Int, Int, Text], (2, 5), Text, substr),
        RowFunction::fallible(
            "regexp_instr",
            &[Text, Text, Int, Int, Int, Text],
            (2, 6),
            Int,
            instr,
        ),
    ]
    .into_iter()
    .map(RowFunction::udf)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_escape_becomes_the_backslash() {
        assert_eq!(with_escape("a|%b\\|", "|"), "a\\%b\\\\\\");
        assert_eq!(with_escape("a\\%", ""), "a\\\\%");
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(replacement("<$1a>\\$2$"), [text("<"), Piece::Group(1), text("a>$2$")]);
    }

    #[test]
    fn positions_are_in_the_text_or_at_its_end() {
        let byte = |position| byte_at("a\u{e9}b", position).ok();
        assert_eq!([byte(0), byte(1), byte(3), byte(4)], [Some(0), Some(0), Some(3), Some(4)]);
        assert_eq!([byte(5), byte(-1), byte(i64::MIN), byte(i64::MAX)], [None; 4]);
    }
}
