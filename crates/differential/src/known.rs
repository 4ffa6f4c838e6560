//! Differences that are known. Where MariaDB and MySQL 8 differ we follow MySQL 8; and there is
//! what this server does not do as MySQL does, each with its reason. All are told apart by what
//! they are made of once they are as small as they get, so that another fault in the same
//! statement still shows.

mod like;
mod operands;
mod others;
mod reasons;
mod values;

use crate::answer::Difference::{self, Values};
use crate::found::Found;

/// A difference that is expected. Texts are patterns with `*` for any text, `{a,b}` for one of
/// some, `~` for what compares, and `#` for the sign of a product.
#[derive(Debug)]
pub struct Known {
    /// In what the answers differ.
    pub difference: Difference,
    /// The shape of the smallest statement.
    pub shape: &'static str,
    /// Our answer.
    pub ours: &'static str,
    /// The answer of MariaDB.
    pub theirs: &'static str,
    /// How the two answers must belong together beyond that.
    pub like: fn(&str, &str) -> bool,
    /// What MySQL 8 does, or why we do otherwise.
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

/// A difference of values that belong together as `like` says.
const fn alike(shape: &'static str, like: fn(&str, &str) -> bool, reason: &'static str) -> Known {
    Known { difference: Values, shape, ours: "*", theirs: "*", like, reason }
}

/// What `~` stands for.
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

/// The known difference that this is, if it is one.
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

/// Whether a pattern is the whole of a text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        None => has_parts(pattern, text),
        Some((before, (choices, behind))) => {
            choices.split(',').any(|choice| matches(&format!("{before}{choice}{behind}"), text))
        }
    }
}

/// Whether a pattern with `*` for any text is the whole of a text.
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
