//! Regular expressions and LIKE.

use std::borrow::Cow;
use std::cell::RefCell;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use regex::{Regex, RegexBuilder};

use super::row::{Kind, Out, Row, RowFunction};

/// The most memory a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 10 << 20;

thread_local! {
    // Patterns are nearly always literals, so the last one is the next one.
    static LAST: RefCell<Option<(String, String, Regex)>> = const { RefCell::new(None) };
}

/// Calls `use_it` with the pattern compiled under the flags `c i m n u`.
fn with_pattern<T>(pattern: &str, flags: &str, use_it: impl FnOnce(&Regex) -> T) -> Result<T> {
    LAST.with_borrow_mut(|last| {
        if let Some((text, with, regex)) = last
            && text == pattern
            && with == flags
        {
            return Ok(use_it(regex));
        }
        let regex = RegexBuilder::new(&with_classes(pattern))
            .case_insensitive(
                flags.rfind(['c', 'i']).is_some_and(|at| flags[at..].starts_with('i')),
            )
            .multi_line(flags.contains('m'))
            .dot_matches_new_line(flags.contains('n'))
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|error| exec_datafusion_err!("Invalid regular expression: {error}"))?;
        let result = use_it(&regex);
        *last = Some((pattern.to_owned(), flags.to_owned(), regex));
        Ok(result)
    })
}

/// The pattern with the classes of POSIX as those of Unicode, which is what they are in MySQL.
fn with_classes(pattern: &str) -> Cow<'_, str> {
    const CLASSES: [(&str, &str); 7] = [
        ("alpha", r"\p{Alphabetic}"),
        ("alnum", r"\p{Alphabetic}\p{Nd}"),
        ("digit", r"\p{Nd}"),
        ("upper", r"\p{Uppercase}"),
        ("lower", r"\p{Lowercase}"),
        ("punct", r"\p{P}"),
        ("space", r"\p{White_Space}"),
    ];
    if !pattern.contains("[:") {
        return Cow::Borrowed(pattern);
    }
    let named = |pattern: String, (name, class): (&str, &str)| {
        pattern.replace(&format!("[:{name}:]"), class)
    };
    Cow::Owned(CLASSES.into_iter().fold(pattern.to_owned(), named))
}

fn text_or<'a>(row: &'a Row<'_>, arg: usize, otherwise: &'a str) -> &'a str {
    if arg < row.count() { row.text(arg) } else { otherwise }
}

/// The byte at which the character of this position, from 1, starts.
fn byte_at(text: &str, position: i64) -> usize {
    let skip = usize::try_from(position - 1).unwrap_or(0);
    text.char_indices().nth(skip).map_or(text.len(), |(at, _)| at)
}

fn like(row: &Row<'_>) -> Result<Option<Out>> {
    let matched =
        with_pattern(row.text(1), text_or(row, 2, ""), |regex| regex.is_match(row.text(0)))?;
    Ok(Some(Out::Bool(matched)))
}

/// What replaces a match: a group is `$` and digits, whatever letter stands behind them, and a
/// backslash takes the meaning from the sign that follows it.
fn replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next() {
                Some('$') => out.push_str("$$"),
                Some(other) => out.push(other),
                None => {}
            },
            '$' if signs.peek().is_some_and(char::is_ascii_digit) => {
                out.push_str("${");
                while let Some(digit) = signs.next_if(char::is_ascii_digit) {
                    out.push(digit);
                }
                out.push('}');
            }
            '$' => out.push_str("$$"),
            other => out.push(other),
        }
    }
    out
}

/// `REGEXP_REPLACE(text, pattern, new[, position[, occurrence[, flags]]])`.
fn replace(row: &Row<'_>) -> Result<Option<Out>> {
    let (body, new) = (row.text(0), &replacement(row.text(2))[..]);
    let from = byte_at(body, row.int_or(3, 1));
    let occurrence = usize::try_from(row.int_or(4, 0)).unwrap_or(0);
    let replaced = with_pattern(row.text(1), text_or(row, 5, ""), |regex| {
        let tail = &body[from..];
        if occurrence == 0 {
            return format!("{}{}", &body[..from], regex.replace_all(tail, new));
        }
        match regex.captures_iter(tail).nth(occurrence - 1) {
            Some(found) => {
                let whole = found.get(0).expect("group 0 is the match");
                let mut out = body[..from + whole.start()].to_owned();
                found.expand(new, &mut out);
                out + &tail[whole.end()..]
            }
            None => body.to_owned(),
        }
    })?;
    Ok(Some(Out::Text(replaced)))
}

/// `REGEXP_SUBSTR(text, pattern[, position[, occurrence[, flags]]])`.
fn substr(row: &Row<'_>) -> Result<Option<Out>> {
    let body = row.text(0);
    let from = byte_at(body, row.int_or(2, 1));
    let skip = usize::try_from(row.int_or(3, 1) - 1).unwrap_or(0);
    with_pattern(row.text(1), text_or(row, 4, ""), |regex| {
        regex.find_iter(&body[from..]).nth(skip).map(|found| Out::Text(found.as_str().to_owned()))
    })
}

/// `REGEXP_INSTR(text, pattern[, position[, occurrence]])`, in characters from 1.
fn instr(row: &Row<'_>) -> Result<Option<Out>> {
    let body = row.text(0);
    let from = byte_at(body, row.int_or(2, 1));
    let skip = usize::try_from(row.int_or(3, 1) - 1).unwrap_or(0);
    let found = with_pattern(row.text(1), "", |regex| {
        regex.find_iter(&body[from..]).nth(skip).map(|found| from + found.start())
    })?;
    let place = found.map_or(0, |at| body[..at].chars().count() + 1);
    Ok(Some(Out::Int(i64::try_from(place).unwrap_or(i64::MAX))))
}

/// A pattern of LIKE that has another escape than the backslash, with the backslash.
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

/// Whether `text` is like a pattern of `%`, `_` and `\`.
pub fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.chars().collect::<Vec<_>>(), pattern.chars().collect::<Vec<_>>());
    let (mut at, mut sign) = (0, 0);
    // Where to go on when the text under the last `%` was taken too short.
    let mut retry = None;
    while at < text.len() {
        match pattern.get(sign) {
            Some('%') => {
                retry = Some((at, sign));
                sign += 1;
                continue;
            }
            Some('_') => {
                (at, sign) = (at + 1, sign + 1);
                continue;
            }
            Some('\\') if pattern.get(sign + 1) == Some(&text[at]) => {
                (at, sign) = (at + 1, sign + 2);
                continue;
            }
            Some(wanted) if *wanted == text[at] => {
                (at, sign) = (at + 1, sign + 1);
                continue;
            }
            _ => {}
        }
        let Some((start, percent)) = retry else { return false };
        retry = Some((start + 1, percent));
        (at, sign) = (start + 1, percent + 1);
    }
    pattern[sign.min(pattern.len())..].iter().all(|sign| *sign == '%')
}

/// The functions of this file.
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
        RowFunction::fallible("regexp_instr", &[Text, Text, Int, Int], (2, 4), Int, instr),
    ]
    .into_iter()
    .map(RowFunction::udf)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_knows_percent_underscore_and_backslash() {
        for (text, pattern, wanted) in [
            ("abc", "a%", true),
            ("abc", "_b_", true),
            ("abc", "b%", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "%b%c", true),
            ("", "%", true),
            ("", "_", false),
        ] {
            assert_eq!(is_like(text, pattern), wanted, "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn another_escape_becomes_the_backslash() {
        assert_eq!(with_escape("a|%b\\|", "|"), "a\\%b\\\\\\");
        assert_eq!(with_escape("a\\%", ""), "a\\\\%");
        assert_eq!(replacement("<$1a>\\$2$"), "<${1}a>$$2$$");
    }

    #[test]
    fn flags_decide_about_case() {
        let matches = |flags| with_pattern("AB", flags, |regex| regex.is_match("ab")).unwrap();
        assert!(!matches(""));
        assert!(matches("i"));
        assert!(!matches("ic"));
        assert!(with_pattern("(", "", |_| ()).is_err());
    }
}
