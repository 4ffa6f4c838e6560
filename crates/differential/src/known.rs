//! Known differences, each with its reason. Where MariaDB and MySQL 8 differ, Freshet follows MySQL
//! 8; other entries are deviations of Freshet from MySQL. They are recognized by the shape of the
//! simplified statement, so that a different error in the same statement is still reported.

mod like;
mod operands;
mod others;
mod reasons;
mod values;

use crate::answer::Difference::{self, Values};
use crate::found::Found;

/// An expected difference. Texts are patterns: `*` matches any text, `{a,b}` one of several texts,
/// `~` any comparison operator, and `#` the multiplication sign, which cannot be written as `*`.
#[derive(Debug)]
pub struct Known {
    /// How the results differ.
    pub difference: Difference,
    /// The shape of the simplified statement.
    pub shape: &'static str,
    /// The result of Freshet.
    pub ours: &'static str,
    /// The result of MariaDB.
    pub theirs: &'static str,
    /// An additional condition on both results.
    pub like: fn(&str, &str) -> bool,
    /// The behavior of MySQL 8, or the reason for deviating from it.
    pub reason: &'static str,
}

const fn known(
    difference: Difference,
    shape: &'static str,
    [ours, theirs]: [&'static str; 2],
    reason: &'static str,
) -> Known {
    Known { difference, shape, ours, theirs, like: |_, _| true, reason }
}

/// A difference of values that satisfies `like`.
const fn known_values(
    shape: &'static str,
    like: fn(&str, &str) -> bool,
    reason: &'static str,
) -> Known {
    Known { difference: Values, shape, ours: "*", theirs: "*", like, reason }
}

/// Operators matched by `~`.
const COMPARISONS: [&str; 11] = [
    " <=> ",
    " <> ",
    " <= ",
    " >= ",
    " = ",
    " < ",
    " > ",
    " NOT IN (",
    " IN (",
    " NOT BETWEEN ",
    " BETWEEN ",
];

/// The known difference that matches, if any.
pub fn find(found: &Found) -> Option<&'static Known> {
    let compares =
        COMPARISONS.iter().fold(found.shape.clone(), |shape, sign| shape.replace(sign, " ~ "));
    let all = values::KNOWN.iter().chain(operands::KNOWN).chain(others::KNOWN);
    all.into_iter().find(|known| {
        let shape = if known.shape.contains('~') { &compares } else { &found.shape };
        let products = known.shape.contains('#').then(|| shape.replace(" * ", " # "));
        let shape = products.as_ref().unwrap_or(shape);
        known.difference == found.difference
            && matches(known.shape, shape)
            && matches(known.ours, &found.ours)
            && matches(known.theirs, &found.theirs)
            && (known.like)(&found.ours, &found.theirs)
    })
}

/// Whether the pattern matches the entire text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        None => has_parts(pattern, text),
        Some((before, (choices, behind))) => {
            choices.split(',').any(|choice| matches(&format!("{before}{choice}{behind}"), text))
        }
    }
}

/// Whether a pattern with `*` only matches the entire text.
fn has_parts(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some((last, middle)) =
        parts.collect::<Vec<_>>().split_last().map(|(l, m)| (*l, m.to_vec()))
    else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        assert!(matches("SELECT AVG(*) AS c0*", "SELECT AVG(int) AS c0 FROM t0"));
        assert!(matches("SELECT AVG(*) AS c0", "SELECT AVG(int) AS c0"));
        assert!(!matches("SELECT AVG(*) AS c0", "SELECT AVG(int) AS c0 FROM t0"));
        assert!(!matches("SELECT AVG(int)", "SELECT AVG(decimal)"));
        assert!(matches("*a*b", "xaxb") && !matches("*a*b", "xbxa"));
        assert!(matches("{GREATEST,LEAST}({int,text})", "LEAST(int)"));
        assert!(!matches("{GREATEST,LEAST}({int,text})", "LEAST(date)"));
    }
}
