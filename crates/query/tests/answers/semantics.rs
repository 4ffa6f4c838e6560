//! Results of expressions and queries must be those of MySQL.

use std::sync::Arc;

use crate::common::Bench;
use freshet_query::engine::StatementContext;
use freshet_query::result::ResultType;

#[track_caller]
fn check(bench: &Bench, cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, wanted) in cases {
        let answer = match bench.query(&format!("SELECT {sql}")) {
            Ok(rows) => rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join(";"),
            Err(error) => format!("{error:?}"),
        };
        if answer != *wanted {
            wrong.push(format!("SELECT {sql}\n    wanted {wanted}\n    got    {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn arithmetic() {
    check(
        &Bench::new(),
        &[
            ("1 + 1", "2"),
            ("7 / 2", "3.5000"),
            ("2 / 3", "0.6667"),
            ("7 DIV 2", "3"),
            ("-7 DIV 2", "-3"),
            ("7 % 3, MOD(-7, 3)", "1|-1"),
            ("1 / 0, 1 DIV 0, 1 % 0", "NULL|NULL|NULL"),
            ("1.5 + 1, 1.50 * 2", "2.5|3.00"),
            ("'3' + 4, '3abc' * 2", "7|6"),
            ("1e3 + 1", "1001"),
            ("TRUE + TRUE, 1 = 1, NOT 0", "2|1|1"),
            ("5 & 3, 5 | 3, 5 ^ 3, 1 << 4, ~0", "1|7|6|16|18446744073709551615"),
            ("-5, - -5, +5", "-5|5|5"),
            ("9223372036854775807 + 0", "9223372036854775807"),
            ("ROUND(2.5), ROUND(-2.5), ROUND(1.235, 2), ROUND(1234, -2)", "3|-3|1.24|1200"),
            ("TRUNCATE(1.999, 1), CEIL(1.2), FLOOR(-1.2), ABS(-3)", "1.9|2|-2|3"),
            ("POW(2, 10), SQRT(16), SQRT(-1)", "1024|4|NULL"),
            ("GREATEST(1, 3, 2), LEAST('b', 'a')", "3|a"),
            ("CONV('ff', 16, 10), HEX(255), HEX('abc'), BIN(5)", "255|FF|616263|101"),
            ("UNIX_TIMESTAMP('2024-01-01 00:07:00') DIV 300 * 300", "1704067500"),
        ],
    );
}

#[test]
fn numbers_keep_their_types() {
    check(
        &Bench::new(),
        &[
            ("0.1e0 + 0.2e0, 1.5e300, 1e3, 1e-16", "0.30000000000000004|1.5e300|1000|1e-16"),
            ("CAST(2.5e0 AS SIGNED), 1e0 / 3", "2|0.3333333333333333"),
            ("10 MOD 3, -7 MOD 3, 17 DIV 3 MOD 2, 7.5 MOD 2", "1|-1|1|1.5"),
            ("18446744073709551615 + 0, 18446744073709551615 % 10", "18446744073709551615|5"),
            ("18446744073709551615 DIV 10, -CAST(3 AS UNSIGNED)", "1844674407370955161|-3"),
            ("b'1000011' + 0, 0b11 + 0, 0x41 + 0, b'01000001'", "67|3|65|A"),
            ("PI(), ROUND(PI(), 4), SIN(PI())", "3.141593|3.1416|1.2246467991473532e-16"),
            ("1 << 2 + 1, 2 * 3 ^ 1, -2 ^ 2, 1 | 2 & 3", "8|4|18446744073709551612|3"),
            ("1 XOR 0 AND 0, ROUND(-0.5e0), CEIL(-0.5e0)", "1|0|0"),
            ("INTERVAL(3, 1, 2, 4), INTERVAL(0, 1), INTERVAL(NULL, 1)", "2|0|-1"),
        ],
    );
    let refused = |sql: &str| Bench::new().query(sql).unwrap_err().code().errno();
    assert_eq!(refused("SELECT 18446744073709551615 + 1"), 1690);
    assert_eq!(refused("SELECT CAST(1 AS UNSIGNED) - 2"), 1690);
    assert_eq!(refused("SELECT 9223372036854775807 * 2"), 1690);
}

#[test]
fn quantified_comparisons_know_null() {
    let bench = Bench::new();
    let rows = |condition: &str| {
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
        let rows = bench.query(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.into_iter().map(|row| row.join("")).collect::<String>()
    };
    for (condition, wanted) in [
        ("score > ALL (SELECT score FROM t WHERE id = 1)", "23"),
        ("score > ALL (SELECT score FROM t)", ""),
        ("score >= ALL (SELECT score FROM t WHERE score IS NOT NULL)", "3"),
        ("score > ALL (SELECT score FROM t WHERE id = 9)", "1234"),
        ("score > ANY (SELECT score FROM t)", "23"),
        ("score < SOME (SELECT score FROM t)", "12"),
        ("score > ANY (SELECT score FROM t WHERE id = 9)", ""),
        ("score = ANY (SELECT score FROM t WHERE id < 3)", "12"),
        ("score <> ALL (SELECT score FROM t WHERE id < 3)", "3"),
        ("score <> ALL (SELECT score FROM t)", ""),
        ("score = ALL (SELECT score FROM t WHERE id = 2)", "2"),
        ("score <> ANY (SELECT score FROM t WHERE id < 3)", "123"),
        ("NOT score > ALL (SELECT score FROM t WHERE id = 1)", "1"),
        ("price >= ALL (SELECT price FROM t b WHERE b.score = t.score)", "1234"),
        ("(id, name) IN (SELECT id, name FROM t WHERE id < 3)", "12"),
        ("(id, score) NOT IN (SELECT id, score FROM t WHERE id > 2)", "12"),
    ] {
        assert_eq!(rows(condition), wanted, "{condition}");
    }
    check(
        &bench,
        &[
            ("5 > ALL (SELECT 3 UNION SELECT 4), NULL > ANY (SELECT 1)", "1|NULL"),
            ("EXISTS (SELECT 1 FROM t WHERE id = 1), EXISTS (SELECT 1 FROM t WHERE id = 9)", "1|0"),
            ("20 IN (SELECT score FROM t), 21 IN (SELECT score FROM t)", "1|NULL"),
            ("21 NOT IN (SELECT score FROM t WHERE id < 3), 21 IN (SELECT 1 WHERE 0)", "1|0"),
            (
                "id, EXISTS (SELECT 1 FROM t b WHERE b.id = t.id + 3) FROM t ORDER BY id",
                "1|1;2|0;3|0;4|0",
            ),
        ],
    );
}

#[test]
fn unions_have_types_that_hold_both_sides() {
    let bench = Bench::new();
    let types = |sql: &str| bench.columns(sql).into_iter().map(|c| c.ty).collect::<Vec<_>>();
    let sql = "SELECT 1, 'a' UNION ALL SELECT 2.5, 'b' ORDER BY 1";
    assert_eq!(types(sql), [ResultType::Decimal, ResultType::VarString]);
    assert_eq!(bench.query(sql).unwrap(), [["1.0", "a"], ["2.5", "b"]]);
    let sql = "SELECT DATE '2024-01-02' UNION ALL SELECT 'x' ORDER BY 1";
    assert_eq!(bench.query(sql).unwrap(), [["2024-01-02"], ["x"]]);
    let sql = "SELECT SUM(x) FROM (SELECT 1 AS x UNION ALL SELECT 2.5) AS q";
    assert_eq!(bench.query(sql).unwrap(), [["3.5"]]);
    let sql = "SELECT 1.5 UNION ALL SELECT 1e0 ORDER BY 1 DESC";
    assert_eq!(bench.query(sql).unwrap(), [["1.5"], ["1"]]);
}

#[test]
fn lists_of_groups_have_orders_of_their_own() {
    check(
        &Bench::new(),
        &[
            (
                "GROUP_CONCAT(name ORDER BY id DESC), GROUP_CONCAT(id ORDER BY id SEPARATOR '') \
                 FROM t",
                "d,c,b,a|1234",
            ),
            ("GROUP_CONCAT(DISTINCT price ORDER BY price DESC SEPARATOR ' ') FROM t", "2.50 1.50"),
            ("GROUP_CONCAT(id, ':', score ORDER BY score DESC) FROM t", "3:50,2:30,1:20"),
            ("GROUP_CONCAT(DISTINCT id % 2 ORDER BY -id) FROM t", "0,1"),
            ("GROUP_CONCAT(name) FROM t WHERE id > 9", "NULL"),
            (
                "id % 2, GROUP_CONCAT(id ORDER BY id) FROM t GROUP BY id % 2 ORDER BY 1",
                "0|2,4;1|1,3",
            ),
            (
                "JSON_ARRAYAGG(score), JSON_OBJECTAGG(name, id) FROM t WHERE id > 2",
                "[50, null]|{\"c\": 3, \"d\": 4}",
            ),
        ],
    );
}

#[test]
fn comparisons_and_conditions() {
    check(
        &Bench::new(),
        &[
            ("1 = '1', '1abc' = 1, 'a' = 0", "1|1|1"),
            ("NULL = NULL, NULL <=> NULL, 1 <=> NULL", "NULL|1|0"),
            ("DATE '2024-01-02' = '2024-01-02', DATE '2024-01-02' < '2024-01-02 01:00:00'", "1|1"),
            ("1 BETWEEN 0 AND 2, 'b' NOT BETWEEN 'a' AND 'c'", "1|0"),
            ("2 IN (1, 2), 'x' IN ('y'), NULL IN (1)", "1|0|NULL"),
            ("(1, 2) = (1, 2), (1, 2) IN ((3, 4), (1, 2))", "1|1"),
            ("IF(1 > 2, 'a', 'b'), IF(NULL, 1, 2)", "b|2"),
            ("IFNULL(NULL, 'x'), COALESCE(NULL, NULL, 3), NULLIF(1, 1)", "x|3|NULL"),
            ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
            ("CASE WHEN 0 THEN 1 ELSE 2.5 END", "2.5"),
            ("1 XOR 1, 1 && 0, 1 || 0, !1", "0|0|1|0"),
            ("'abc' LIKE 'a%', 'abc' NOT LIKE '_b', 12 LIKE '1%'", "1|1|1"),
            ("'abc' REGEXP '^a.c$', 'abc' RLIKE 'x'", "1|0"),
            ("1 IS TRUE, NULL IS NOT TRUE, NULL IS UNKNOWN", "1|1|1"),
            ("IFNULL(DATE '2024-01-02', '')", "2024-01-02"),
        ],
    );
}

#[test]
fn strings() {
    check(
        &Bench::new(),
        &[
            ("CONCAT('a', 1, 2.50), CONCAT('a', NULL)", "a12.50|NULL"),
            ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
            ("SUBSTRING('abcdef', 2, 3), SUBSTR('abc', -2), MID('abc', 2)", "bcd|bc|bc"),
            ("LEFT('abc', 2), RIGHT('abc', 2)", "ab|bc"),
            ("LPAD('5', 3, '0'), RPAD('5', 3, 'x')", "005|5xx"),
            ("TRIM('  a '), TRIM(LEADING 'x' FROM 'xxa'), LTRIM(' a')", "a|a|a"),
            ("LOCATE('b', 'abc'), INSTR('abc', 'c'), POSITION('a' IN 'ba')", "2|3|2"),
            ("REPLACE('aXa', 'X', 'b'), REVERSE('abc'), REPEAT('ab', 2)", "aba|cba|abab"),
            ("LENGTH('h\u{e9}'), CHAR_LENGTH('h\u{e9}'), UPPER('a'), LCASE('B')", "3|2|A|b"),
            (
                "MD5('a'), SHA1('a')",
                "0cc175b9c0f1b6a831c399e269772661|86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
            ),
            ("FORMAT(1234567.891, 2), FIELD('b', 'a', 'b')", "1,234,567.89|2"),
            ("FIND_IN_SET('b', 'a,b'), SUBSTRING_INDEX('a.b.c', '.', -2)", "2|b.c"),
            ("REGEXP_REPLACE('a1b2', '[0-9]', '#'), REGEXP_SUBSTR('ab12', '[0-9]+')", "a#b#|12"),
            ("ASCII('A'), CHAR(65), STRCMP('a', 'b'), SPACE(2)", "65|A|-1|  "),
            ("'it''s', \"dq\", 'a\\'b', 'a\\nb'", "it's|dq|a'b|a\nb"),
            ("INSERT('abcd', 2, 2, 'X'), ELT(2, 'a', 'b')", "aXd|b"),
        ],
    );
}

#[test]
fn dates() {
    check(
        &Bench::new(),
        &[
            ("DATE '2024-01-31' + INTERVAL 1 MONTH", "2024-02-29"),
            ("'2024-01-31 10:00:00' - INTERVAL 90 MINUTE", "2024-01-31 08:30:00"),
            (
                "DATE_ADD('2024-01-01', INTERVAL 1 DAY), ADDDATE('2024-01-01', 31)",
                "2024-01-02|2024-02-01",
            ),
            ("DATE_SUB('2024-01-01', INTERVAL '1:30' HOUR_MINUTE)", "2023-12-31 22:30:00"),
            (
                "DATEDIFF('2024-03-01', '2024-02-01'), \
                 TIMESTAMPDIFF(MONTH, '2024-01-31', '2024-03-01')",
                "29|1",
            ),
            ("TIMEDIFF('10:00:00', '08:30:00'), TIME('2024-01-01 10:11:12')", "01:30:00|10:11:12"),
            ("DATE_FORMAT('2024-02-03 04:05:06', '%Y/%m/%d %H-%i')", "2024/02/03 04-05"),
            ("STR_TO_DATE('03.02.2024', '%d.%m.%Y'), STR_TO_DATE('x', '%Y')", "2024-02-03|NULL"),
            (
                "YEAR('2024-02-03'), MONTH('2024-02-03'), DAY('2024-02-03'), QUARTER('2024-05-01')",
                "2024|2|3|2",
            ),
            ("HOUR('10:11:12'), MINUTE('2024-01-01 10:11:12'), SECOND('10:11:12')", "10|11|12"),
            (
                "WEEK('2008-02-20'), YEARWEEK('2024-01-01'), DAYOFWEEK('2024-01-01'), \
                 WEEKDAY('2024-01-01')",
                "7|202353|2|0",
            ),
            (
                "LAST_DAY('2024-02-03'), MAKEDATE(2024, 60), DAYOFYEAR('2024-12-31')",
                "2024-02-29|2024-02-29|366",
            ),
            ("CONVERT_TZ('2024-01-01 12:00:00', '+00:00', '+08:00')", "2024-01-01 20:00:00"),
            (
                "EXTRACT(YEAR FROM '2024-02-03'), EXTRACT(YEAR_MONTH FROM '2024-02-03')",
                "2024|202402",
            ),
            ("FROM_UNIXTIME(86400), UNIX_TIMESTAMP('1970-01-02')", "1970-01-02 00:00:00|86400"),
            (
                "TO_DAYS('2024-01-01'), FROM_DAYS(739251), DAYNAME('2024-01-01')",
                "739251|2024-01-01|Monday",
            ),
            (
                "NOW(), CURDATE(), UTC_TIMESTAMP()",
                "2024-06-01 12:00:00|2024-06-01|2024-06-01 12:00:00",
            ),
            ("CURRENT_TIMESTAMP, CURRENT_DATE", "2024-06-01 12:00:00|2024-06-01"),
            (
                "time_format(timediff(now(), convert_tz(now(), @@GLOBAL.time_zone, '+00:00')), \
                 '%H:%i')",
                "00:00",
            ),
            ("str_to_date(concat(yearweek('2024-05-15'),' Sunday'),'%X%V %W')", "2024-05-12"),
            (
                "TIMESTAMPADD(DAY, 1, '2024-01-01'), TIME_FORMAT('10:11:12', '%H.%i')",
                "2024-01-02|10.11",
            ),
        ],
    );
}

#[test]
fn json() {
    check(
        &Bench::new(),
        &[
            ("JSON_EXTRACT('{\"a\": [1, 2]}', '$.a[1]')", "2"),
            ("JSON_UNQUOTE(JSON_EXTRACT('{\"a\": \"x\"}', '$.a'))", "x"),
            ("'{\"a\": \"x\"}' ->> '$.a', '{\"a\": \"x\"}' -> '$.a'", "x|\"x\""),
            (
                "JSON_OBJECT('a', 1, 'b', 'x'), JSON_ARRAY(1, 'y', NULL)",
                "{\"a\": 1, \"b\": \"x\"}|[1, \"y\", null]",
            ),
            ("JSON_VALID('{}'), JSON_VALID('x'), JSON_LENGTH('[1,2,3]')", "1|0|3"),
            (
                "JSON_CONTAINS('[1, 2]', '2'), JSON_TYPE('[]'), JSON_KEYS('{\"k\": 1}')",
                "1|ARRAY|[\"k\"]",
            ),
            (
                "JSON_SET('{\"a\": 1}', '$.b', 2), JSON_REMOVE('{\"a\": 1}', '$.a')",
                "{\"a\": 1, \"b\": 2}|{}",
            ),
        ],
    );
}

#[test]
fn casts_and_session() {
    check(
        &Bench::new(),
        &[
            ("CAST('12x' AS SIGNED), CAST(2.5 AS SIGNED), CAST('3' AS UNSIGNED)", "12|3|3"),
            ("CAST('1.255' AS DECIMAL(5,2)), CAST(1 AS CHAR), CONVERT('7', SIGNED)", "1.26|1|7"),
            (
                "CAST('2024-01-02 03:04:05' AS DATE), CAST('2024-01-02' AS DATETIME)",
                "2024-01-02|2024-01-02 00:00:00",
            ),
            ("CONVERT('a' USING utf8mb4), BINARY 'a', _utf8mb4'x'", "a|a|x"),
            ("DATABASE(), CONNECTION_ID(), VERSION()", "d|7|8.0.36-freshet"),
            ("@@version_comment, @@session.sql_mode, @u", "Freshet|STRICT_TRANS_TABLES|NULL"),
            ("cast(cast(1704067500/300 as signed)*300 as signed)", "1704067500"),
            ("LENGTH(UUID())", "36"),
            ("1 FROM DUAL", "1"),
        ],
    );
}

#[test]
fn queries() {
    check(
        &Bench::new(),
        &[
            (
                "COUNT(*), SUM(score), AVG(score), MIN(name), MAX(Score) FROM t",
                "4|100|33.3333|a|50",
            ),
            ("ID, Name FROM t WHERE SCORE > 15 ORDER BY id DESC", "3|c;2|b;1|a"),
            ("t.id FROM d.t LIMIT 1, 2", "2;3"),
            ("T1.id FROM t T1 JOIN t t2 USING (id) WHERE T1.id = 2", "2"),
            ("score > 15 AS big, COUNT(*) c FROM t GROUP BY big HAVING c > 1", "1|3"),
            ("COUNT(DISTINCT name, score) FROM t", "3"),
            ("GROUP_CONCAT(name ORDER BY id DESC SEPARATOR '-') FROM t", "d-c-b-a"),
            ("score, score FROM t WHERE id = 1", "20|20"),
            ("* FROM t WHERE id = 1", "1|a|20|2024-01-01|1.50"),
            ("*, id FROM t WHERE id = 1", "1|a|20|2024-01-01|1.50|1"),
            ("id FROM t WHERE day = '2024-01-01'", "1"),
            ("id FROM t WHERE day BETWEEN '2024-01-02' AND '2024-01-03' ORDER BY 1", "2;3"),
            ("id FROM t WHERE name", ""),
            ("id FROM t WHERE id = '2'", "2"),
            ("id FROM t WHERE id IN ('1', '2') ORDER BY id", "1;2"),
            ("SUM(price * 2), SUM(id = 1) FROM t", "13.00|1"),
            ("(SELECT MAX(id) FROM t) + 1", "5"),
            ("id FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.id = t.id AND u.id = 3)", "3"),
            ("x.`count(*)` FROM (SELECT COUNT(*) FROM t) x", "4"),
            (
                "name, SUM(id) FROM t GROUP BY name WITH ROLLUP ORDER BY 1",
                "NULL|10;a|1;b|2;c|3;d|4",
            ),
            ("STDDEV(id), VARIANCE(id), BIT_OR(id) FROM t", "1.118033988749895|1.25|7"),
            ("ROW_NUMBER() OVER (ORDER BY id DESC) r, id FROM t ORDER BY id LIMIT 1", "4|1"),
            ("id FROM t UNION ALL SELECT 9 ORDER BY id DESC LIMIT 1", "9"),
            ("ANY_VALUE(name) FROM t WHERE id = 2", "b"),
            ("score FROM t ORDER BY score", "NULL;20;30;50"),
            ("SUM(score) / COUNT(*) FROM t", "25.0000"),
        ],
    );
}

#[test]
fn windows_of_a_name_are_not_copied_without_end() {
    let keys = vec!["1"; 10_000].join(", ");
    let counts = vec!["COUNT(*) OVER w"; 4000].join(", ");
    let sql = format!("SELECT {counts} FROM t WINDOW w AS (PARTITION BY {keys})");
    assert_eq!(Bench::new().query(&sql).unwrap_err().code().errno(), 3170);
    let chain = (1..1000).map(|at| format!("w{at} AS (w{})", at - 1)).collect::<Vec<_>>();
    let sql = format!(
        "SELECT COUNT(*) OVER w999 FROM t WINDOW w0 AS (PARTITION BY {keys}), {}",
        chain.join(", ")
    );
    assert_eq!(Bench::new().query(&sql).unwrap_err().code().errno(), 3170);
}

#[test]
fn errors_have_mysqls_numbers() {
    let bench = Bench::new();
    for (sql, errno) in [
        ("SELECT nope FROM t", 1054),
        ("SELECT 1 FROM nope", 1146),
        ("SELECT 1 FROM nodb.t", 1049),
        ("SELECT id FROM t a, t b", 1052),
        ("SELECT name, COUNT(*) FROM t GROUP BY id", 1055),
        ("SELECT nofunction(1)", 1305),
        ("SELECT 1 UNION SELECT 1, 2", 1222),
        ("SELECT (SELECT id FROM t)", 1242),
        ("SELECT @@nope", 1193),
        ("SELECT 9223372036854775807 + 1", 1690),
        ("SELECT 1 FROM t, t", 1066),
        ("SELECT LEFT('a')", 1582),
        ("SELECT JSON_EXTRACT('{', '$')", 3140),
    ] {
        match bench.query(sql) {
            Ok(rows) => panic!("{sql}: {rows:?}"),
            Err(error) => assert_eq!(error.code().errno(), errno, "{sql}: {error:?}"),
        }
    }
}

#[test]
fn names_and_types_of_columns() {
    let bench = Bench::new();
    let columns = bench.columns(
        "SELECT COUNT( * ), MAX(ID), 1+1, t.Name AS n, 'x', ID, price FROM t \
         GROUP BY t.Name, ID, price",
    );
    let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["COUNT( * )", "MAX(ID)", "1+1", "n", "x", "ID", "price"]);
    let price = &columns[6];
    assert_eq!((price.ty, price.decimals), (freshet_query::result::ResultType::Decimal, 2));
}

#[test]
fn placeholders_are_bound_at_execution() {
    use datafusion::common::ScalarValue;
    let bench = Bench::new();
    let values = vec![
        ScalarValue::Int64(Some(1)),
        ScalarValue::Utf8(Some("c".into())),
        ScalarValue::Int64(Some(1)),
    ];
    let sql = "SELECT id FROM t WHERE id > ? AND name <> ? ORDER BY id LIMIT ?";
    let typed = values.iter().map(|value| Some(value.data_type())).collect::<Vec<_>>();
    assert_eq!(bench.prepared(sql, &typed, values.clone()).unwrap(), [["2"]]);
    assert_eq!(bench.prepared(sql, &[None, None, None], values).unwrap(), [["2"]]);
}

#[test]
fn parameters_are_compared_and_divided_as_literals_are() {
    use datafusion::common::ScalarValue;
    let bench = Bench::new();
    let sql = "SELECT NULLIF(?, ?), ? IN (?, ?), ? / ? * ?, ? <=> ?";
    let int = |value| ScalarValue::Int64(Some(value));
    let text = |value: &str| ScalarValue::Utf8View(Some(value.to_owned()));
    let answer = |values: Vec<ScalarValue>| {
        let known = |value: &ScalarValue| match value {
            ScalarValue::Null => None,
            value => Some(value.data_type()),
        };
        let types = values.iter().map(known).collect::<Vec<_>>();
        bench.prepared(sql, &types, values).unwrap().remove(0)
    };
    let quotient = [int(1), int(3), int(100)];
    let tested = [[int(0), text("0"), int(7)].to_vec(), [text("x"), text("7")].to_vec()].concat();
    let values = [tested, quotient.to_vec(), vec![int(1), text("1.0")]].concat();
    assert_eq!(answer(values.clone()), ["NULL", "1", "33.3333", "1"]);
    let mut nulls = values;
    for at in [1, 4, 6, 9] {
        nulls[at] = ScalarValue::Null;
    }
    assert_eq!(answer(nulls), ["0", "NULL", "NULL", "0"]);
}

#[test]
fn items_of_a_list_may_be_unlike() {
    check(
        &Bench::new(),
        &[
            ("NULL IN (1, (NOT 1))", "NULL"),
            ("1.0 IN ((1 = 1), 1)", "1"),
            ("0.5 IN (TRUE, FALSE), 0.5 = TRUE, TRUE = 1.00", "0|0|1"),
            ("1.5 IN (1 = 1, 1.5), (1 = 1) IN (0.5, 1.0, 'x')", "1|1"),
        ],
    );
}

#[test]
fn a_plan_shows_the_first_literals_of_a_long_list_and_how_many_there_are() {
    let bench = Bench::new();
    let list = (10..160).map(|literal| literal.to_string()).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT id FROM t WHERE id IN ({list})");
    let origin = Arc::clone(&bench.tables) as Arc<dyn StatementContext>;
    let asked = Bench::asked(&sql, &[], origin).unwrap();
    let plan =
        bench.runtime.block_on(bench.engine.explain(asked, Vec::new())).unwrap().lines().join(" ");
    assert!(plan.contains("in_set{10, 11, 12, .. 150 values}"), "{plan}");
}
