//! Differences that are none of ours: where MariaDB and MySQL 8 differ we follow MySQL 8. Each is
//! told apart by what it is made of once it is as small as it gets, so that a fault of ours in
//! other places of the same statement still shows.

use crate::answer::Difference;
use crate::run::Found;

/// A difference that is expected. Texts are patterns with `*` for any text.
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
    /// What MySQL 8 does, and so do we, and what MariaDB does.
    pub reason: &'static str,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        difference: Difference::Types,
        shape: "*(*) OVER (*",
        ours: "[UInt] *",
        theirs: "[Int] *",
        reason: "ROW_NUMBER, RANK, DENSE_RANK and NTILE are BIGINT UNSIGNED in MySQL",
    },
    Known {
        difference: Difference::Types,
        shape: "*null*",
        ours: "*",
        theirs: "* NULL",
        reason: "the type of an expression that can only be NULL differs",
    },
];

/// The known difference that this is, if it is one.
pub fn find(found: &Found) -> Option<&'static Known> {
    KNOWN.iter().find(|known| {
        known.difference == found.difference
            && matches(known.shape, &found.shape)
            && matches(known.ours, &found.ours)
            && matches(known.theirs, &found.theirs)
    })
}

/// Whether a pattern with `*` for any text is the whole of a text.
fn matches(pattern: &str, text: &str) -> bool {
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
    }
}
