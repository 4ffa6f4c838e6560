//! Differences that are known. Where MariaDB and MySQL 8 differ we follow MySQL 8; and there is
//! what this server does not do as MySQL does, each with its reason. All are told apart by what
//! they are made of once they are as small as they get, so that another fault in the same
//! statement still shows.

use crate::answer::Difference::{self, Numbers, Refused, Taken, Types, Values};
use crate::run::Found;

/// A difference that is expected. Texts are patterns with `*` for any text, and `~` for what
/// compares.
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

const FRACTIONS: &str = "FROM_UNIXTIME of a DOUBLE has 6 digits in MySQL; MariaDB says 39";
const DATES: &str = "numbers of dates are integers in MySQL; MariaDB has DECIMAL, no sign, or a \
                     date still";
const NO_DATE: &str = "not done: a literal that is no date beside a date is refused (1525) in \
                       MySQL, NULL here, and a zero date in MariaDB";
const BYTES: &str = "not done: a literal of bytes beside text is text where the text is a column's \
                     in MySQL; here bytes";
const REGEXES: &str = "MySQL refuses bytes in regular expressions (3995); MariaDB takes them";
const NUMBERS: &str = "MariaDB takes a number that is no date for the largest or the smallest \
                       date; MySQL compares numbers";
const CLOCKS: &str = "MariaDB reads a number of more than 838 hours otherwise, and has days in \
                      TIME; MySQL has hours";
const BITS: &str = "a literal of bytes is a number beside numbers in MySQL, a text in MariaDB";

const ROWS: &str = "MariaDB takes a row compared with NULL for NULL where another part already \
                    differs";

const ORDER: &str = "which rows an expression is computed for, and so refused for, is nobody's \
                     promise: a condition, a join or LIMIT may come first";
const ERRORS: &str = "not done: some refusals of INSERT have another number";

/// All of them.
pub const KNOWN: &[Known] = &[
    known(Types, "*(*) OVER (*", ["[UInt*", "[Int*"], WINDOWS),
    known(
        Values,
        "*DATE_SUB(text, *",
        ["[Double]*", "[Double]*"],
        "DATE_SUB of a text is a text in MySQL; a date in MariaDB where a number is wanted",
    ),
    known(
        Types,
        "*TIMESTAMP(*(*",
        ["[DateTime(6)]*", "[DateTime(0)]*"],
        "not done: digits of the second of a text that is computed from literals",
    ),
    known(
        Refused,
        "*",
        ["error 1105: Incorrect datetime value of type Duration*", "*"],
        "not done: a TIME where a date is wanted has today's in MySQL",
    ),
    known(
        Values,
        "*CUME_DIST() OVER (*",
        ["[Double]*", "[Double]*"],
        "MariaDB rounds CUME_DIST to nine digits",
    ),
    known(
        Values,
        "*PERCENT_RANK() OVER (*",
        ["[Double]*", "[Double]*"],
        "MariaDB rounds PERCENT_RANK to nine digits",
    ),
    known(
        Values,
        "*PAD(*",
        ["*", "*\u{c3}*"],
        "MariaDB reads what fills a number in LPAD and RPAD as Latin 1",
    ),
    known(
        Values,
        "*MAKE_SET(*",
        ["*", "*\u{c3}*"],
        "MariaDB reads texts beside dates in MAKE_SET as Latin 1",
    ),
    known(
        Values,
        "*REPLACE(*, null)*",
        ["* NULL", "*"],
        "MariaDB does not look at what would replace something in an empty text",
    ),
    known(
        Values,
        "INSERT datetime INTO *INT*",
        ["[*Int] *", "[*Int] *"],
        "a time with a fraction is rounded where an integer is stored in MySQL, cut in MariaDB",
    ),
    known(
        Taken,
        "INSERT REGEXP_SUBSTR(* INTO *",
        ["[*] NULL", "error 1366*"],
        "REGEXP_SUBSTR without a match is NULL in MySQL, an empty text in MariaDB",
    ),
    known(
        Refused,
        "SELECT (decimal * decimal) AS c0",
        ["error 1690*Overflow*", "*"],
        "not done: products of decimals of fewer than 38 digits that need more are refused",
    ),
    known(Refused, "*GREATEST(*", ["error 1690*", "* NULL*"], ORDER),
    known(Refused, "*LEAST(*", ["error 1690*", "* NULL*"], ORDER),
    known(
        Values,
        "SELECT DISTINCT * LIMIT * OFFSET *",
        ["*no rows", "*"],
        "MariaDB answers one row where OFFSET is behind the one row of DISTINCT",
    ),
    known(
        Values,
        "SELECT DISTINCT CASE WHEN SUM(DISTINCT * GROUP BY *",
        ["*", "*"],
        "MariaDB answers equal rows of DISTINCT over groups with SUM(DISTINCT)",
    ),
    known(Types, "*null*", ["*", "*"], NULLS),
    known(Values, "*GREATEST(*", ["*", "[Double]*"], EXTREMES),
    known(Values, "*LEAST(*", ["*", "[Double]*"], EXTREMES),
    known(Types, "*GREATEST(*", ["[Text*", "[D*"], EXTREMES),
    known(Types, "*LEAST(*", ["[Text*", "[D*"], EXTREMES),
    known(Types, "*GREATEST(*", ["[Binary*", "[D*"], EXTREMES),
    known(Types, "*LEAST(*", ["[Binary*", "[D*"], EXTREMES),
    known(Values, "*GREATEST(*", ["[Binary*", "[Da*"], EXTREMES),
    known(Values, "*LEAST(*", ["[Binary*", "[Da*"], EXTREMES),
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
        "*UNIX_TIMESTAMP(*",
        ["*", "* NULL*"],
        "UNIX_TIMESTAMP ends in the year 3001 in MySQL, and is 0 behind it; MariaDB's in 2038",
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
    known(Values, "*", ["*", "*DateTime(39)*"], FRACTIONS),
    known(Types, "*", ["*", "*DateTime(39)*"], FRACTIONS),
    known(Types, "*FLOOR(date)*", ["[Int]*", "[UInt]*"], DATES),
    known(Types, "*CEILING(date)*", ["[Int]*", "[UInt]*"], DATES),
    known(Types, "*(- date)*", ["[Int]*", "[Decimal(0)]*"], DATES),
    known(Types, "*ABS(date*)*", ["[Int]*", "[Decimal(0)]*"], DATES),
    known(Types, "*(date*)*", ["[Int]*", "[Date*"], DATES),
    known(Types, "*(date*)*", ["[Decimal*", "[Date*"], DATES),
    known(Values, "*FLOOR(date*)*", ["[Int]*", "[Date*"], DATES),
    known(Values, "*CEILING(date*)*", ["[Int]*", "[Date*"], DATES),
    known(Values, "*ROUND(date*)*", ["*", "[Date*"], DATES),
    known(Values, "*TRUNCATE(date*)*", ["*", "[Date*"], DATES),
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
    known(Values, "* RIGHT JOIN * ON null WHERE (NOT *", ["*", "*no rows"], ROWS),
    known(Values, "* JOIN * WHERE (((*, *) = (*, *)) XOR *", ["*", "*no rows"], ROWS),
    known(
        Values,
        "SELECT (~ text) AS c0*",
        ["[UInt]*", "[UInt]*"],
        "the integer at the start of a text is the operand in MySQL; MariaDB rounds its number",
    ),
    known(Values, "SELECT (binary ~ *int*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (binary ~ *decimal*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (binary ~ *double*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (binary ~ *bool*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (*int ~ *binary*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (decimal ~ *binary*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (double ~ *binary*) AS c0*", ["*", "*"], BITS),
    known(Values, "SELECT (bool ~ *binary*) AS c0*", ["*", "*"], BITS),
    known(Values, "*NULLIF(binary, *int*", ["*", "*"], BITS),
    known(Values, "SELECT (binary * *) AS c0*", ["[UInt]*", "[UInt]*"], BITS),
    known(Values, "SELECT (binary / *) AS c0*", ["[Decimal*", "[Double*"], BITS),
    known(Values, "SELECT (binary % *) AS c0*", ["[UInt*", "[Double*"], BITS),
    known(Values, "SELECT (binary % *) AS c0*", ["[Decimal*", "[Double*"], BITS),
    known(Types, "SELECT (binary % *) AS c0*", ["[UInt*", "[Double*"], BITS),
    known(Types, "SELECT (binary % *) AS c0*", ["[Decimal*", "[Double*"], BITS),
    known(Values, "SELECT (date ~ *text*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (datetime ~ *text*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (text ~ *date*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (date ~ *binary*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (datetime ~ *binary*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (binary ~ *date*) AS c0*", ["[Int] NULL*", "*"], NO_DATE),
    known(Values, "SELECT (datetime ~ *decimal*) AS c0*", ["*", "*"], NUMBERS),
    known(Values, "SELECT (null <=> CAST(* AS DATETIME*)) AS c0", ["[Int] 1", "[Int] 0"], ZEROS),
    known(Values, "SELECT (datetime ~ CAST(* AS DATETIME*) AS c0", ["[Int] NULL", "*"], ZEROS),
    known(Values, "*(datetime, TIMESTAMP(bool))*", ["* NULL", "*"], ZEROS),
    known(Values, "SELECT (TIMESTAMP(*int) ~ *) AS c0*", ["[Int] NULL*", "*"], ZEROS),
    known(Values, "SELECT (TIMESTAMP(decimal) ~ *) AS c0*", ["[Int] NULL*", "*"], ZEROS),
    known(Types, "*binary*", ["[Binary]*", "[Text]*"], BYTES),
    known(Types, "*REGEXP_*binary*", ["[Text]*", "[Binary]*"], REGEXES),
    known(Taken, "*BETWEEN*", ["*", "error 1690*"], ORDER),
    known(Values, "*HOUR(int)*", ["*", "* 0*"], CLOCKS),
    known(Values, "*EXTRACT(DAY_SECOND FROM *int)*", ["*", "*"], CLOCKS),
    known(Values, "*EXTRACT(DAY_SECOND FROM time)*", ["*", "*"], CLOCKS),
    known(
        Taken,
        "SELECT * GROUP BY (- int)",
        ["*", "error 1054*"],
        "a negated number in GROUP BY is an expression in MySQL, a column in MariaDB",
    ),
    known(Numbers, "INSERT *", ["error 1264*", "error 1367*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1265*", "error 1264*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1264*", "error 1366*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1366*", "error 1300*"], ERRORS),
    known(Numbers, "INSERT *", ["error 1365*", "error 1292*"], STRICT),
    known(Numbers, "INSERT *", ["error 1366*", "error 1292*"], STRICT),
    known(Numbers, "INSERT *", ["error 1406*", "error 1292*"], STRICT),
    known(Numbers, "INSERT *", ["error 1264*", "error 1292*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1292*"], STRICT),
    known(Taken, "INSERT *CAST(* AS DECIMAL(*", ["*", "error 1264*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1365*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1411*"], STRICT),
    known(Taken, "INSERT *", ["*", "error 1441*"], STRICT),
    known(Taken, "INSERT binary INTO *", ["*", "error 1366*"], STRICT),
    known(Values, "*", ["*NULL*", "*0000-00-00*"], ZEROS),
    known(Values, "*DAY(*", ["* NULL*", "* 0*"], ZEROS),
    known(Values, "*MONTH(*", ["* NULL*", "* 0*"], ZEROS),
    known(Values, "*YEAR(*", ["* NULL*", "* 0*"], ZEROS),
    known(Values, "*QUARTER(*", ["* NULL*", "* 0*"], ZEROS),
    known(Values, "*FROM_DAYS(*", ["* NULL*", "* 0*"], ZEROS),
    known(Refused, "*SELECT *SELECT *", ["error 1235*Physical plan does not*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1111*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1054*'field list'", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1054*#subquery*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1105: Correlated scalar*", "*"], SUBQUERY),
    known(Refused, "*SELECT *SELECT *", ["error 1105: In/Exist*", "*"], SUBQUERY),
];

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
    KNOWN.iter().find(|known| {
        let shape = if known.shape.contains('~') { &compares } else { &found.shape };
        known.difference == found.difference
            && matches(known.shape, shape)
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
