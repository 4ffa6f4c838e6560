//! What the clause of a global index says, as PolarDB-X lists it.

use crate::Placement;

/// A part of a clause: by what it divides, and into how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClauseDivision {
    /// The columns or expressions, as they were written.
    pub by: String,
    /// HASH, KEY, RANGE, LIST or a function, in upper case.
    pub policy: String,
    /// `None` where the clause says no number.
    pub count: Option<u64>,
}

impl Placement {
    /// PARTITION BY or DBPARTITION BY.
    pub fn first_division(&self) -> Option<ClauseDivision> {
        let text = self.in_one_line();
        division(&text, "DBPARTITION BY", None)
            .or_else(|| division(&text, "PARTITION BY", Some("PARTITIONS")))
    }

    /// SUBPARTITION BY or TBPARTITION BY behind it.
    pub fn second_division(&self) -> Option<ClauseDivision> {
        let text = self.in_one_line();
        division(&text, "TBPARTITION BY", Some("TBPARTITIONS"))
            .or_else(|| division(&text, "SUBPARTITION BY", Some("SUBPARTITIONS")))
    }

    fn in_one_line(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// What stands behind these words; `counted` is followed by the number.
fn division(text: &str, words: &str, counted: Option<&str>) -> Option<ClauseDivision> {
    let upper = text.to_ascii_uppercase();
    let rest = position(&upper, words)? + words.len();
    let open = rest + upper[rest..].find('(')?;
    let close = closing(text, open)?;
    let behind = &upper[close + 1..];
    let number = counted.and_then(|word| {
        let from = position(behind, word)? + word.len();
        let digits = behind[from..].trim_start().split(|sign: char| !sign.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok())
    });
    // Partitions that are written one by one are counted.
    let written = behind.match_indices(" VALUES ").count() as u64;
    let count = number.or_else(|| (written > 0 && words == "PARTITION BY").then_some(written));
    Some(ClauseDivision {
        by: text[open + 1..close].replace('`', "").trim().to_owned(),
        policy: upper[rest..open].trim().to_owned(),
        count,
    })
}

/// Where these words begin, which are not the end of a longer word.
fn position(text: &str, words: &str) -> Option<usize> {
    let is_word = |(at, _): &(usize, &str)| !text[..*at].ends_with(|c: char| c.is_alphanumeric());
    text.match_indices(words).find(is_word).map(|(at, _)| at)
}

/// The place of the parenthesis that closes the one at `open`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, sign) in text[open..].char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(text: &str) -> [Option<(String, String, Option<u64>)>; 2] {
        let clause = Placement { text: text.to_owned(), columns: Vec::new() };
        let of = |one: ClauseDivision| (one.policy, one.by, one.count);
        [clause.first_division().map(of), clause.second_division().map(of)]
    }

    fn part(policy: &str, by: &str, count: Option<u64>) -> Option<(String, String, Option<u64>)> {
        Some((policy.to_owned(), by.to_owned(), count))
    }

    #[test]
    fn clauses_are_told_apart() {
        let key = divided("PARTITION BY KEY(`a`, b) PARTITIONS 16");
        assert_eq!(key, [part("KEY", "a, b", Some(16)), None]);
        let hash = divided("partition by\n hash (YEAR(d))");
        assert_eq!(hash, [part("HASH", "YEAR(d)", None), None]);
        let two = divided("dbpartition by hash(no) tbpartition by MM(d) tbpartitions 4");
        assert_eq!(two, [part("HASH", "no", None), part("MM", "d", Some(4))]);
        let range = "PARTITION BY RANGE COLUMNS(a) SUBPARTITION BY KEY(b) SUBPARTITIONS 2 \
                     (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN (MAXVALUE))";
        assert_eq!(
            divided(range),
            [part("RANGE COLUMNS", "a", Some(2)), part("KEY", "b", Some(2))]
        );
        assert_eq!(divided("SINGLE"), [None, None]);
    }
}
