//! Regular expressions, and the errors of texts that are none.

use std::borrow::Cow;
use std::cell::RefCell;

use datafusion::common::Result;
use freshet_base::{Error, bail, err};
use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{ErrorKind, Span};

use crate::error::external;

/// Stands before a pattern whose collation ignores case.
pub const IGNORES_CASE: &str = "(?i)";

/// Maximum memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 10 << 20;

thread_local! {
    // A cache of one pattern: patterns are nearly always literals.
    static LAST: RefCell<Option<(String, String, Regex)>> = const { RefCell::new(None) };
}

/// Calls `use_it` with the compiled pattern; `flags` are `c i m n u`.
///
/// # Errors
/// 1210 for other flags, 3685 to 3700 for a text that is no pattern.
pub fn with_pattern<T>(pattern: &str, flags: &str, use_it: impl FnOnce(&Regex) -> T) -> Result<T> {
    LAST.with_borrow_mut(|last| {
        if let Some((text, with, regex)) = last
            && text == pattern
            && with == flags
        {
            return Ok(use_it(regex));
        }
        let regex = compiled(pattern, flags).map_err(external)?;
        let result = use_it(&regex);
        *last = Some((pattern.to_owned(), flags.to_owned(), regex));
        Ok(result)
    })
}

fn compiled(pattern: &str, flags: &str) -> freshet_base::Result<Regex> {
    if let Some(flag) = flags.chars().find(|flag| !"cimnu".contains(*flag)) {
        bail!(
            WrongArguments,
            "Incorrect arguments to regexp_like: match type '{flag}' is not c, i, m, n or u"
        );
    }
    let written = pattern.strip_prefix(IGNORES_CASE).unwrap_or(pattern);
    if written.is_empty() {
        bail!(RegexpArgument, "Illegal argument to a regular expression: it is empty.");
    }
    RegexBuilder::new(&with_classes(pattern))
        .case_insensitive(flags.rfind(['c', 'i']).is_some_and(|at| flags[at..].starts_with('i')))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('n'))
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| why_not(written, &error))
}

/// Why a text is no regular expression, as MySQL says it.
fn why_not(written: &str, error: &regex::Error) -> Error {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return too_big();
    }
    match regex_syntax::Parser::new().parse(written) {
        Err(regex_syntax::Error::Parse(error)) => of_kind(error.kind(), error.span()),
        Err(regex_syntax::Error::Translate(error)) => syntax(error.span(), error.kind()),
        _ => err!(RegexpSyntax, "Syntax error in regular expression: {error}"),
    }
}

fn of_kind(kind: &ErrorKind, span: &Span) -> Error {
    match kind {
        ErrorKind::EscapeUnrecognized
        | ErrorKind::EscapeUnexpectedEof
        | ErrorKind::EscapeHexEmpty
        | ErrorKind::EscapeHexInvalid
        | ErrorKind::EscapeHexInvalidDigit
        | ErrorKind::ClassEscapeInvalid => {
            err!(RegexpEscape, "Unrecognized escape sequence in regular expression.")
        }
        ErrorKind::UnsupportedBackreference | ErrorKind::UnsupportedLookAround => err!(
            RegexpUnsupported,
            "The regular expression contains a feature that is not implemented in this library \
             version: {kind}."
        ),
        ErrorKind::GroupUnclosed | ErrorKind::GroupUnopened => {
            err!(RegexpParenthesis, "Mismatched parenthesis in regular expression.")
        }
        ErrorKind::RepetitionCountDecimalEmpty
        | ErrorKind::RepetitionCountUnclosed
        | ErrorKind::DecimalEmpty
        | ErrorKind::DecimalInvalid => {
            err!(RegexpInterval, "Incorrect description of a {{min,max}} interval.")
        }
        ErrorKind::RepetitionCountInvalid => err!(
            RegexpMaxBelowMin,
            "The maximum is less than the minimum in a {{min,max}} interval."
        ),
        ErrorKind::ClassUnclosed => {
            err!(RegexpBracket, "The regular expression contains an unclosed bracket expression.")
        }
        ErrorKind::ClassRangeInvalid => err!(
            RegexpRange,
            "The regular expression contains an [x-y] character range where x comes after y."
        ),
        ErrorKind::NestLimitExceeded(_) | ErrorKind::CaptureLimitExceeded => too_big(),
        other => syntax(span, other),
    }
}

fn syntax(span: &Span, why: &dyn std::fmt::Display) -> Error {
    let (line, column) = (span.start.line, span.start.column);
    err!(
        RegexpSyntax,
        "Syntax error in regular expression on line {line}, character {column}: {why}."
    )
}

fn too_big() -> Error {
    err!(RegexpTooBig, "The regular expression pattern exceeds limits on size or complexity.")
}

/// Replaces POSIX character classes by Unicode ones, as in MySQL.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(pattern: &str, flags: &str) -> Option<u16> {
        compiled(pattern, flags).err().map(|error| error.code().errno())
    }

    #[test]
    fn flags_decide_about_case() {
        let matches = |flags| with_pattern("AB", flags, |regex| regex.is_match("ab")).unwrap();
        assert!(!matches(""));
        assert!(matches("i"));
        assert!(!matches("ic"));
        assert_eq!(errno("a", "ix"), Some(1210));
    }

    #[test]
    fn what_is_no_pattern_has_the_error_of_mysql() {
        let known = [
            ("", 3685),
            ("(?i)", 3685),
            ("*", 3688),
            (r"\p{Nothing}", 3688),
            (r"\y", 3689),
            ("a(?=b)", 3690),
            (r"(a)\1", 3690),
            ("(", 3691),
            ("a)", 3691),
            ("a{x}", 3692),
            ("a{2,1}", 3693),
            ("[a", 3696),
            ("[b-a]", 3697),
            (r"(\w{1000}){1000}", 3700),
        ];
        for (pattern, wanted) in known {
            assert_eq!(errno(pattern, ""), Some(wanted), "{pattern}");
        }
        assert_eq!(errno("[[:alpha:]]+", ""), None);
    }
}
