//! Differences that are known. Where MariaDB and MySQL 8 differ we follow MySQL 8; and there is
//! what this server does not do as MySQL does, each with its reason. All are told apart by what
//! they are made of once they are as small as they get, so that another fault in the same
//! statement still shows.

use crate::answer::Difference::{self, Numbers, Refused, Taken, Types, Values};
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
    /// What MySQL 8 does, or why we do otherwise.
    pub reason: &'static str,
}

const fn known(
    difference: Difference,
    shape: &'static str,
    [ours, theirs]: [&'static str; 2],
    reason: &'static str,
) -> Known {
    Known { difference, shape, ours, theirs, reason }
}

const EXTREMES: &str = "MySQL compares numbers and texts, or times and others, as texts in \
                        GREATEST and LEAST; MariaDB as numbers or times";
const WINDOWS: &str = "ROW_NUMBER, RANK, DENSE_RANK and NTILE are BIGINT UNSIGNED in MySQL";
const NULLS: &str = "the type of an expression that can only be NULL differs";
const STRICT: &str = "not done: a warning inside an expression does not refuse a strict INSERT";
const ZEROS: &str = "not done: there are no zero dates, as with NO_ZERO_DATE; MySQL computes them";
const SUBQUERY: &str = "not done: subqueries that depend on the row by more than equality, or that \
                        stand in aggregates, ON, ORDER BY or GROUP BY, are refused";

const ORDER: &str = "which rows an expression is computed for, and so refused for, is nobody's \
                     promise: a condition, a join or LIMIT may come first";
const LENIENT: &str = "not done: HAVING takes columns that are not selected";
const ERRORS: &str = "not done: some refusals of INSERT have another number";

/// All of them.
pub const KNOWN: &[Known] = &[
    known(Types, "*(*) OVER (*", ["[UInt*", "[Int*"], WINDOWS),
    known(Types, "*null*", ["*", "* NULL*"], NULLS),
    known(Values, "*GREATEST(*", ["*", "[Double]*"], EXTREMES),
    known(Values, "*LEAST(*", ["*", "[Double]*"], EXTREMES),
    known(Types, "*GREATEST(*", ["[Text*", "[Da*"], EXTREMES),
    known(Types, "*LEAST(*", ["[Text*", "[Da*"], EXTREMES),
    known(Values, "*GREATEST(*", ["[Text*", "[Da*"], EXTREMES),
    known(Values, "*LEAST(*", ["[Text*", "[Da*"], EXTREMES),
    known(
        Values,
        "*UNIX_TIMESTAMP(*",
        ["* 0*", "* NULL*"],
        "UNIX_TIMESTAMP before 1970 is 0 in MySQL, NULL in MariaDB",
    ),
    known(
        Values,
        "*REGEXP_SUBSTR(*",
        ["* NULL*", "*"],
        "REGEXP_SUBSTR without a match is NULL in MySQL, an empty text in MariaDB",
    ),
    known(
        Values,
        "*TIME_TO_SEC(*",
        ["[Int*", "[Decimal*"],
        "TIME_TO_SEC is an integer in MySQL, a DECIMAL in MariaDB",
    ),
    known(
        Types,
        "*TIME_TO_SEC(*",
        ["[Int*", "[Decimal*"],
        "TIME_TO_SEC is an integer in MySQL, a DECIMAL in MariaDB",
    ),
    known(
        Values,
        "*",
        ["*", "*DateTime(39)*"],
        "FROM_UNIXTIME of a DOUBLE has 6 digits in MySQL; MariaDB says 39",
    ),
    known(
        Values,
        "*CONVERT_TZ(*",
        ["[DateTime*", "[DateTime*"],
        "CONVERT_TZ converts up to the year 3001 in MySQL, up to 2038 in MariaDB",
    ),
    known(
        Taken,
        "*binary*",
        ["*", "error 1300*"],
        "bytes joined with text are bytes in MySQL; MariaDB reads a literal of bytes as text",
    ),
    known(
        Refused,
        "*",
        ["error 1055*", "*"],
        "MySQL has ONLY_FULL_GROUP_BY by default, and knows GROUP BY of expressions",
    ),
    known(
        Refused,
        "*",
        ["error 1140*", "*"],
        "MySQL has ONLY_FULL_GROUP_BY by default, and knows GROUP BY of expressions",
    ),
    known(Numbers, "*", ["error 1054*", "error 1109*"], "1109 of MariaDB is 1054 in MySQL"),
    known(Taken, "* WHERE *", ["*", "error 1690*"], ORDER),
    known(Taken, "* HAVING *", ["*", "error 1690*"], ORDER),
    known(Taken, "* LIMIT *", ["*", "error 1690*"], ORDER),
    known(Refused, "* WHERE *", ["error 1690*", "*"], ORDER),
    known(Refused, "* ON *", ["error 1690*", "*"], ORDER),
    known(
        Values,
        "* RIGHT JOIN * ON null WHERE (NOT *",
        ["*", "*no rows"],
        "MariaDB takes a row compared with NULL for NULL where another part already differs",
    ),
    known(
        Values,
        "*(* = binary)*",
        ["*", "*"],
        "a literal of bytes is a number beside numbers in MySQL, a text in MariaDB",
    ),
    known(Taken, "* HAVING *", ["*", "error 1054*HAVING*"], LENIENT),
    known(
        Taken,
        "SELECT * GROUP BY (- int)",
        ["*", "error 1054*"],
        "a negated number in GROUP BY is an expression in MySQL, a column in MariaDB",
    ),
    known(
        Types,
        "SELECT binary AS c0",
        ["[Text] abc", "[Binary] abc"],
        "not done: the type of a literal behind _binary is text",
    ),
    known(
        Types,
        "*GROUP_CONCAT(*",
        ["[Text]*", "[Binary]*"],
        "not done: GROUP_CONCAT of bytes is text",
    ),
    known(Numbers, "INSERT *", ["error 1264*", "error 1367*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1265*", "error 1264*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1264*", "error 1366*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1366*", "error 1300*"], ERRORS),
    known(Taken, "INSERT *", ["*", "error 1292*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1365*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1411*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1441*"], STRICT),
    known(Taken, "INSERT binary INTO *", ["*", "error 1366*"], STRICT),
    known(Values, "*", ["*NULL*", "*0000-00-00*"], ZEROS),
    known(Values, "SELECT DAY(*", ["* NULL*", "* 0*"], ZEROS),
    known(Refused, "*SELECT *SELECT *", ["error 1235*Physical plan does not*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1111*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1054*#subquery*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1105: Correlated scalar*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1105: In/Exist*", "*"], SUBQUERY),
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
