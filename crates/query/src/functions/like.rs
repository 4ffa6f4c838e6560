//! LIKE for patterns that are not just a text with `%` before or after it. They are matched part by
//! part, each at its first occurrence, so that the text is scanned only once whatever the number of
//! `%`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Expr, Like, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility, lit,
};
use memchr::memmem::Finder;

use super::udf::{FunctionImpl, Udf};
use super::vector::column;
use crate::convert;
use crate::evaluation::Evaluation;
use crate::interrupt::CancellationTicker;

/// The name of LIKE for such a pattern.
pub const MYSQL_LIKE: &str = "mysql_like";

/// A pattern of `%`, `_` and `\`, split at `%`.
#[derive(Clone, Debug)]
pub struct Pattern {
    first: Fragment,
    /// The part after each `%`; empty if there is no `%`.
    others: Vec<Fragment>,
}

/// The part between two `%`.
#[derive(Clone, Debug)]
enum Fragment {
    /// Without `_`, a prepared substring search.
    Text(Box<Finder<'static>>),
    Signs(Vec<Option<char>>),
}

impl Fragment {
    fn of(signs: Vec<Option<char>>) -> Self {
        match signs.iter().copied().collect::<Option<String>>() {
            Some(text) => Self::Text(Box::new(Finder::new(text.as_bytes()).into_owned())),
            None => Self::Signs(signs),
        }
    }

    /// The rest of the text after the part, if the text starts with it.
    fn strip<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(part) => {
                text.as_bytes().starts_with(part.needle()).then(|| &text[part.needle().len()..])
            }
            Self::Signs(signs) => {
                let mut chars = text.chars();
                for sign in signs {
                    let found = chars.next()?;
                    if sign.is_some_and(|sign| sign != found) {
                        return None;
                    }
                }
                Some(chars.as_str())
            }
        }
    }

    /// The rest of the text after the first occurrence of the part.
    fn find<'t>(&self, text: &'t str, work: &mut CancellationTicker) -> Result<Option<&'t str>> {
        let signs = match self {
            Self::Text(part) => {
                let at = part.find(text.as_bytes());
                return Ok(at.map(|at| &text[at + part.needle().len()..]));
            }
            Self::Signs(signs) => signs,
        };
        for at in text.char_indices().map(|(at, _)| at).chain([text.len()]) {
            if let Some(behind) = self.strip(&text[at..]) {
                return Ok(Some(behind));
            }
            work.done(signs.len())?;
        }
        Ok(None)
    }

    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Text(part) => text.as_bytes().ends_with(part.needle()),
            Self::Signs(signs) => {
                let last = text.char_indices().rev().nth(signs.len() - 1);
                last.is_some_and(|(at, _)| self.strip(&text[at..]).is_some())
            }
        }
    }
}

impl Pattern {
    pub fn new(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut part = Vec::new();
        let mut signs = pattern.chars();
        while let Some(sign) = signs.next() {
            match sign {
                '%' => parts.push(Fragment::of(std::mem::take(&mut part))),
                '_' => part.push(None),
                '\\' => part.push(Some(signs.next().unwrap_or('\\'))),
                sign => part.push(Some(sign)),
            }
        }
        parts.push(Fragment::of(part));
        let mut parts = parts.into_iter();
        let first = parts.next().expect("one part at least");
        Self { first, others: parts.collect() }
    }

    /// Whether a text matches.
    ///
    /// # Errors
    /// 1317 after cancellation.
    pub fn matches(&self, text: &str) -> Result<bool> {
        let Some(mut rest) = self.first.strip(text) else { return Ok(false) };
        let Some((last, between)) = self.others.split_last() else { return Ok(rest.is_empty()) };
        let mut work = CancellationTicker::default();
        for part in between {
            match part.find(rest, &mut work)? {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        Ok(last.ends(rest))
    }

    /// Whether DataFusion's LIKE is better for this pattern: it is faster and can be used for
    /// pruning.
    fn is_plain(&self) -> bool {
        let is_text = |part: &Fragment| matches!(part, Fragment::Text(_));
        let is_empty =
            |part: &Fragment| matches!(part, Fragment::Text(text) if text.needle().is_empty());
        match &self.others[..] {
            [] => is_text(&self.first),
            [last] if is_empty(last) => is_text(&self.first),
            [last] => is_empty(&self.first) && is_text(last),
            [between, last] => is_empty(&self.first) && is_text(between) && is_empty(last),
            _ => false,
        }
    }
}

/// What all texts begin with that match a pattern.
pub fn beginning(pattern: &str) -> String {
    let (mut text, mut signs) = (String::new(), pattern.chars());
    while let Some(sign) = signs.next() {
        match (sign, signs.as_str().chars().next()) {
            ('%' | '_', _) => break,
            ('\\', Some(next @ ('%' | '_' | '\\'))) => {
                text.push(next);
                signs.next();
            }
            ('\\', _) => break,
            _ => text.push(sign),
        }
    }
    text
}

/// The least text of its length or shorter that is above all texts which begin so; `None` if there
/// is none.
pub fn above(beginning: &str) -> Option<String> {
    let mut signs = beginning.chars().collect::<Vec<_>>();
    while let Some(last) = signs.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            signs.push(next);
            return Some(signs.into_iter().collect());
        }
    }
    None
}

/// `mysql_like(text, pattern)`.
#[derive(Debug)]
struct MySqlLike;

impl FunctionImpl for MySqlLike {
    fn field(&self, name: &str, _args: &ReturnFieldArgs<'_>) -> Result<Field> {
        Ok(Field::new(name, DataType::Boolean, true))
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Expr::Literal(value, _) = &args[1] else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let plain = value.try_as_str().flatten().map(|text| Pattern::new(text).is_plain());
        if plain != Some(true) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let pattern = Box::new(lit(value.cast_to(&info.get_data_type(&args[0])?)?));
        let like = Like::new(false, Box::new(args.remove(0)), pattern, None, false);
        Ok(ExprSimplifyResult::Simplified(Expr::Like(like)))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let texts = convert::text(&column(&args.args[0], rows)?)?;
        let patterns = convert::text(&column(&args.args[1], rows)?)?;
        let _guard = Evaluation::of(&args.config_options).enter()?;
        let mut last: Option<(&str, Pattern)> = None;
        let matched = texts.iter().zip(patterns.iter()).map(|(text, pattern)| {
            let (Some(text), Some(pattern)) = (text, pattern) else { return Ok(None) };
            let known = match last.take() {
                Some((known, taken)) if known == pattern => (known, taken),
                _ => (pattern, Pattern::new(pattern)),
            };
            last.insert(known).1.matches(text).map(Some)
        });
        Ok(Arc::new(matched.collect::<Result<BooleanArray>>()?))
    }
}

pub fn all() -> Vec<ScalarUDF> {
    vec![Udf::scalar(MYSQL_LIKE, (2, 2), Volatility::Immutable, MySqlLike)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// LIKE by definition, character by character.
    fn by_definition(text: &[char], pattern: &[char]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            (['%', rest @ ..], text) => {
                (0..=text.len()).any(|skipped| by_definition(&text[skipped..], rest))
            }
            (['_', rest @ ..], [_, text @ ..]) => by_definition(text, rest),
            (['\\', sign, rest @ ..], [found, text @ ..]) => {
                sign == found && by_definition(text, rest)
            }
            ([sign, rest @ ..], [found, text @ ..]) => sign == found && by_definition(text, rest),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn parts_match_as_the_definition_says(
            text in "[ab\u{e9}%_\\\\]{0,9}",
            pattern in "[ab\u{e9}%_\\\\]{0,7}",
        ) {
            let signs = |text: &str| text.chars().collect::<Vec<_>>();
            let wanted = by_definition(&signs(&text), &signs(&pattern));
            prop_assert_eq!(Pattern::new(&pattern).matches(&text).unwrap(), wanted);
            if wanted {
                let beginning = beginning(&pattern);
                prop_assert!(text.starts_with(&beginning));
                prop_assert!(above(&beginning).is_none_or(|above| text < above));
            }
        }
    }

    #[test]
    fn a_text_is_above_those_that_begin_so() {
        let last = char::MAX.to_string();
        assert_eq!(above("ab"), Some("ac".to_owned()));
        assert_eq!(above("a\u{d7ff}"), Some("a\u{e000}".to_owned()));
        assert_eq!(above(&format!("a{last}{last}")), Some("b".to_owned()));
        assert_eq!((above(&last), above("")), (None, None));
        assert_eq!(beginning("a\\%b\\\\c_d"), "a%b\\c");
    }

    #[test]
    fn many_percent_signs_cost_one_look() {
        let text = "a".repeat(200_000);
        let pattern = "%a".repeat(5000) + "%b";
        assert!(!Pattern::new(&pattern).matches(&text).unwrap());
        assert!(Pattern::new(&"%a".repeat(5000)).matches(&text).unwrap());
    }

    #[test]
    fn what_datafusion_does_well_is_left_to_it() {
        for (pattern, plain) in [
            ("abc", true),
            ("abc%", true),
            ("%abc", true),
            ("%abc%", true),
            ("%", true),
            ("a%c", false),
            ("a_c", false),
            ("%a%b%", false),
        ] {
            assert_eq!(Pattern::new(pattern).is_plain(), plain, "{pattern}");
        }
    }
}
