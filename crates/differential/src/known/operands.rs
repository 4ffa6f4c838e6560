//! Known differences of values and types: operands and arguments that are of another type than is
//! wanted, and numbers that are larger than MariaDB has digits for.

use super::like::{capped, one_or_same, same_but_zeros, same_to_four_digits, truths};
use super::reasons::*;
use super::{Known, alike, known};
use crate::answer::Difference::{Numbers, Refused, Taken, Types, Values};

/// All of them.
pub const KNOWN: &[Known] = &[
    // What is no date.
    alike(
        "SELECT ({date,datetime,text,CAST(text AS DATE)} <=> *{date,datetime,text}*) AS c0*",
        one_or_same,
        NO_DATE,
    ),
    alike("SELECT (CAST(text AS DATE) ~ text) AS c0*", truths, NO_DATE),
    alike("SELECT (datetime <=> IFNULL(bool, datetime)) AS c0*", one_or_same, NO_DATE),
    known(
        Values,
        "SELECT (CASE * END ~ *{date,datetime}*) AS c0",
        ["[Int] NULL", "[Int] {0,1}"],
        NO_DATE,
    ),
    known(Values, "SELECT * JOIN * ON (datetime <> text)", ["[*", "[*"], NO_DATE),
    known(
        Values,
        "SELECT (CAST(binary AS {DATE,DATETIME}) ~ *) AS c0",
        ["[Int] NULL", "[Int] {0,1}"],
        NULL_DATES,
    ),
    known(
        Values,
        "SELECT ({TIMESTAMP(text),CAST(bool AS DATETIME),CAST(int AS DATETIME)} <=> null) AS c0",
        ["[Int] 1", "[Int] 0"],
        NULL_DATES,
    ),
    known(
        Values,
        "SELECT CASE {CAST(binary AS DATE),TIMESTAMP(bool),TIMESTAMP(int)} WHEN * THEN null *",
        ["[Int] 1", "[Int] NULL"],
        NULL_DATES,
    ),
    known(
        Values,
        "SELECT NULLIF({bool,int,text}, {CAST(bool AS ,CAST(int AS ,TIMESTAMP(decimal}*) AS c0",
        ["[*", "[*] NULL"],
        NULL_DATES,
    ),
    known(
        Values,
        "SELECT GREATEST(CAST(binary AS DATETIME), datetime) AS c0",
        ["[Date*] NULL", "[Date*"],
        NULL_DATES,
    ),
    known(
        Values,
        "SELECT * WHERE COALESCE(CAST(bool AS DATE), *)",
        ["[*", "[*no rows"],
        NULL_DATES,
    ),
    // Numbers beside dates.
    alike("SELECT ({date,datetime} ~ *{int,uint,decimal,double}*) AS c0*", truths, NUMBERS),
    alike("SELECT ({date,datetime} IN (*DECIMAL(*)*)) AS c0", truths, NUMBERS),
    alike("SELECT ({bool,int,decimal,text} ~ * AND datetime) AS c0", truths, NUMBERS),
    alike("SELECT (uint ~ * AND {date,datetime}) AS c0", truths, NUMBERS),
    alike(
        "SELECT ({bool,small,int,uint,decimal,double} {IN,NOT IN} (*{date,datetime}*)) AS c0*",
        truths,
        NUMBERS,
    ),
    known(
        Values,
        "SELECT * JOIN * ON ({uint,decimal,CAST(uint AS UNSIGNED)} < {date,datetime})",
        ["[*", "[*"],
        NUMBERS,
    ),
    known(
        Values,
        "SELECT (datetime + INTERVAL uint HOUR) AS c0",
        ["[DateTime(0)] 2*", "[DateTime(0)] NULL"],
        "an amount above the largest BIGINT is the integer of its bits in MySQL",
    ),
    known(Types, "SELECT (datetime # uint) AS c0", ["[UInt]*", "[Int]*"], UNSIGNED_DATES),
    alike(
        "SELECT ({COALESCE,IFNULL,IF,CASE,decimal}* {+,-} INTERVAL *) AS c0*",
        same_but_zeros,
        TEXT_DIGITS,
    ),
    alike(
        "SELECT SUM(DISTINCT datetime) AS c0",
        same_to_four_digits,
        "MariaDB adds times as DOUBLE",
    ),
    // Times.
    known(
        Values,
        "SELECT {SECOND,MINUTE,MICROSECOND,TIME_TO_SEC,TIME_FORMAT}({int,uint,decimal,double}*",
        ["[*] NULL", "[*"],
        CLOCKS,
    ),
    known(
        Values,
        "SELECT {ADDTIME,SUBTIME}(datetime, {int,uint,decimal,double}) AS c0",
        ["[DateTime*] NULL", "[DateTime*"],
        CLOCKS,
    ),
    known(
        Taken,
        "SELECT (MICROSECOND(int) # datetime) AS c0",
        ["[Int] NULL", "error 1690*"],
        CLOCKS,
    ),
    known(
        Values,
        "SELECT {ADDTIME,SUBTIME}({int,time}, datetime) AS c0",
        ["[{Text,Time(0)}]*", "[{Text,Time(0)}] NULL"],
        "the time of day of a date is added in MySQL; MariaDB answers NULL",
    ),
    known(
        Values,
        "SELECT EXTRACT(DAY_SECOND FROM {text,binary}) AS c0*",
        ["[Int]*", "[Int]*"],
        "EXTRACT of a clock reads a text as a time in MySQL; MariaDB as a date where it can",
    ),
    // Bytes beside numbers.
    known(
        Values,
        "SELECT ({datetime,bool,int,small} {#,/} binary) AS c0",
        ["[{UInt,Decimal(4)}]*", "[Double]*"],
        BITS,
    ),
    known(Values, "SELECT (binary # {bool,int}) AS c0", ["[UInt]*", "[Double]*"], BITS),
    known(Types, "SELECT (binary # datetime) AS c0", ["[UInt]*", "[Double]*"], BITS),
    known(Types, "SELECT (decimal DIV MAX(binary)) AS c0", ["[Int]*", "[UInt]*"], BITS),
    known(
        Values,
        "SELECT NULLIF({bool,int,uint,decimal,double,MIN(decimal)}, binary) AS c0*",
        ["[*", "[*"],
        BITS,
    ),
    known(Values, "SELECT * JOIN * ON ({bool,int} > binary)", ["[*", "[*"], BITS),
    known(Values, "SELECT * GROUP BY ({int,decimal,double} % binary)", ["[*", "[*"], BITS),
    // Bits of texts and large numbers.
    known(
        Values,
        "SELECT ({text,datetime} {&,|,^} {text,small,int,uint,CAST(int AS UNSIGNED)}) AS c0",
        ["[UInt]*", "[UInt]*"],
        "the integer at the start of a text is the operand in MySQL; MariaDB rounds its number",
    ),
    known(
        Values,
        "SELECT (decimal {&,|,^} *) AS c0",
        ["[UInt] 9223372036854775*", "[UInt] 1*"],
        LARGE_BITS,
    ),
    known(Values, "SELECT * GROUP BY (decimal | int)", ["[*", "[*"], LARGE_BITS),
    known(
        Values,
        "SELECT CAST({double,CAST(int AS DOUBLE)} AS UNSIGNED) AS c0*",
        ["[UInt] *18446744073709*", "[UInt] *0*"],
        "a DOUBLE below zero as UNSIGNED has the bits of its integer in MySQL, and is 0 in MariaDB",
    ),
    // Digits.
    known(
        Values,
        "SELECT {(decimal # decimal),GREATEST((decimal # decimal)*} AS c0",
        ["[Decimal(20)] 9999999999*", "[Decimal(20)] 9999999999*"],
        PRODUCTS,
    ),
    known(
        Values,
        "SELECT AVG({TRUNCATE,YEARWEEK}(*)) OVER (*",
        ["[Decimal(4)]*", "[Decimal(4)] 99*9.9999*"],
        FEW_DIGITS,
    ),
    known(
        Values,
        "SELECT decimal AS c0 UNION ALL SELECT {LAG(int*,ROUND(int)} AS c0*",
        ["[Decimal(1)]*", "[Decimal(1)]*9999.9*"],
        FEW_DIGITS,
    ),
    alike("SELECT *{FLOOR,ROUND,TRUNCATE,DAYNAME}(*) AS c*", capped, DOUBLE_DIGITS),
    alike("SELECT *{CASE,IFNULL}*ROUND(double, small)*", same_but_zeros, DOUBLE_DIGITS),
    alike("SELECT CONCAT(FROM_UNIXTIME(text), '') AS c0", same_but_zeros, FRACTIONS),
    alike("SELECT CONCAT_WS(*STDDEV_POP(int)) AS c0", same_but_zeros, STDDEV),
    known(
        Values,
        "SELECT VAR_SAMP({double,decimal}) AS c0 FROM *",
        ["[Double]*", "[Double]*"],
        "the variance of decimals has all digits in MySQL, those of its type in MariaDB",
    ),
    known(
        Values,
        "SELECT CASE *AVG(null)* ELSE binary END AS c0",
        ["[Binary] 1", "[Binary] 1.0000"],
        NULLS,
    ),
    alike("SELECT CASE *(decimal / decimal)*", same_to_four_digits, QUOTIENTS),
    known(
        Values,
        "SELECT GROUP_CONCAT(*) AS c0 FROM * GROUP BY (int / int)",
        ["[*", "[*"],
        "rows whose quotients show the same are of one group in MySQL, of several in MariaDB",
    ),
    known(
        Values,
        "SELECT (decimal BETWEEN decimal AND (decimal / decimal)) AS c0",
        ["[Int] 1", "[Int] 0"],
        "a quotient that is zero has no sign in MySQL",
    ),
    known(
        Values,
        "SELECT (GROUP_CONCAT(*) {+,%} *) AS c0*",
        ["[Double]*", "[Double]*"],
        "MariaDB rounds the number of a GROUP_CONCAT",
    ),
    known(
        Values,
        "SELECT MOD(SUM(double), COUNT(*)) AS c0 FROM *",
        ["[Double]*", "[Double]*"],
        "the last digit of a sum of doubles depends on the order of rows",
    ),
    known(Values, "SELECT MOD(*) AS c0", ["[Decimal*] 0*", "[Decimal*] -0*"], ZERO_SIGN),
    known(
        Values,
        "SELECT {LAG,LEAD}(double, *",
        ["[Float]*", "[Double]*"],
        "LAG and LEAD of a FLOAT are one in MySQL, a DOUBLE in MariaDB",
    ),
    // NULL of no type.
    known(Values, "SELECT *null*", ["[{UInt,Decimal*}*", "[Double]*"], NULLS),
    known(
        Values,
        "SELECT CAST(CASE WHEN null THEN * ELSE datetime END AS DECIMAL(10,2)) AS c0",
        ["[Decimal(2)] 99999999.99", "[Decimal(2)] 2*"],
        NULLS,
    ),
    known(Values, "SELECT ISNULL(((*) = (null, *))) AS c0", ["[Int] 1", "[Int] 0"], ROWS),
    known(Values, "SELECT * RIGHT JOIN * ON null WHERE (((*) = (*)) IN *", ["*", "*no rows"], ROWS),
    known(
        Values,
        "SELECT ISNULL(VAR_SAMP(double)) AS c0 FROM *",
        ["[Int] 0", "[Int] 1"],
        "MariaDB takes VAR_SAMP for NULL where it is asked for it",
    ),
    known(
        Values,
        "SELECT (MIN(*) > ALL (SELECT *) AS c0*",
        ["[Int] NULL", "[Int] 1"],
        "MariaDB takes NULL for more than all where no row is aggregated",
    ),
    known(
        Values,
        "SELECT MIN(text) AS c0 FROM (SELECT * WHERE null) AS a RIGHT JOIN *",
        ["[Text] NULL", "[Text] "],
        "MariaDB takes a constant of a table without rows for the constant",
    ),
    known(
        Values,
        "SELECT * GROUP BY REPLACE(*, null)",
        ["[*", "[*"],
        "MariaDB does not look at what would replace something in an empty text",
    ),
    known(
        Values,
        "SELECT REPLACE(text, text, MAX(text)) AS c0 WHERE null",
        ["[Text] NULL", "[Text] "],
        "MariaDB does not look at what would replace something in an empty text",
    ),
    known(
        Values,
        "SELECT MAKE_SET(int, null, CONCAT(bool, null)) AS c0",
        ["[Text] ", "[Text] 1"],
        "MariaDB does not see that CONCAT of NULL is NULL in MAKE_SET",
    ),
    known(
        Values,
        "SELECT * ON null WHERE (MAKE_SET(*",
        ["[*", "[*no rows"],
        "MariaDB takes MAKE_SET of NULL for NULL in a condition",
    ),
    // Bytes and texts.
    known(Values, "SELECT *CONCAT(*binary*", ["[Binary]*", "[Binary]*"], CUT_BYTES),
    known(
        Values,
        "SELECT INSERT(decimal, *",
        ["[Text]*", "[Text]*\u{c3}*"],
        "MariaDB reads a text that is put into a number as Latin 1",
    ),
    known(Values, "SELECT TIME_FORMAT({GREATEST,LEAST}(*", ["[Text]*", "[Text]*"], EXTREMES),
    // Types.
    known(Types, "SELECT CASE *uint*", ["[Int]*", "[Decimal(0)]*"], MIXED_SIGNS),
    known(
        Types,
        "SELECT {bool,int} AS c0 {UNION,UNION ALL,EXCEPT,INTERSECT} SELECT uint AS c0*",
        ["[Int]*", "[Decimal(0)]*"],
        MIXED_SIGNS,
    ),
    known(
        Types,
        "SELECT {UNIX_TIMESTAMP,TIMESTAMP}({LEAST,GREATEST,ROUND,STDDEV_POP}(*",
        ["[{Decimal(6),DateTime(6)}] NULL", "[{Decimal,DateTime}(*)] NULL"],
        COMPUTED_DIGITS,
    ),
    // INSERT.
    known(Numbers, "INSERT *", ["error 1690*", "error {1264,1292}*"], ERRORS),
    known(Numbers, "SELECT *SELECT *", ["error 1054*", "error 1690*"], SUBQUERY),
    known(Taken, "SELECT (* IN (*", ["[Int]*", "error 1690*"], ORDER),
    known(
        Taken,
        "INSERT *REGEXP_SUBSTR(* INTO *",
        ["[*] NULL", "error 1406*"],
        "REGEXP_SUBSTR without a match is NULL in MySQL, an empty text in MariaDB",
    ),
    known(
        Refused,
        "INSERT *REGEXP_SUBSTR(* INTO *",
        ["error 1406*", "[Text] *"],
        "REGEXP_SUBSTR without a match is NULL in MySQL, an empty text in MariaDB",
    ),
    known(
        Taken,
        "INSERT *REPLACE(*, null) INTO *",
        ["[*] NULL", "error 1406*"],
        "MariaDB does not look at what would replace something that is not there",
    ),
    known(
        Refused,
        "INSERT *UNIX_TIMESTAMP(*",
        ["error {1264,1366,1406}*", "[*] NULL"],
        "UNIX_TIMESTAMP before 1970 and behind 2038 is a number in MySQL, NULL in MariaDB",
    ),
    alike("INSERT *{COALESCE,IFNULL,LEAST,GREATEST}(* INTO *", same_but_zeros, STORED_DIGITS),
    known(Values, "INSERT GREATEST(time, date) INTO *", ["[Text]*", "[Text]*"], EXTREMES),
    known(Values, "INSERT TRUNCATE(datetime, small) INTO *", ["[Text] 2*", "[Text] 2*"], DATES),
    known(
        Values,
        "INSERT TIME_TO_SEC(time) INTO *",
        ["[*", "[*] *e-*"],
        "TIME_TO_SEC is an integer in MySQL, a DECIMAL in MariaDB",
    ),
    known(Refused, "INSERT (int / int) INTO *", ["error 1406*", "[*] 0"], STORED_DIGITS),
    known(Numbers, "INSERT 1e400 INTO DATETIME*", ["error 1292*", "error 1367*"], ERRORS),
    // Others.
    known(
        Values,
        "SELECT CAST(datetime AS {SIGNED,UNSIGNED}) AS c0",
        [
            "[{Int,UInt}] {20240229123457,20240101000000,20240701060001}",
            "[{Int,UInt}] {20240229123456,20231231235959,20240701060000}",
        ],
        ROUNDED,
    ),
    known(
        Refused,
        "SELECT ROUND(uint, small) AS c0",
        ["error 1690*", "[Decimal(0)]*"],
        "ROUND of a BIGINT stays one in MySQL, and is a DECIMAL in MariaDB",
    ),
    known(Refused, "SELECT ISNULL(*", ["error 1690*", "[Int] 0"], ORDER),
    known(
        Values,
        "SELECT (SELECT *= CAST(int AS DATETIME)) AS c0",
        ["[Int] NULL", "[Int] *"],
        NULL_DATES,
    ),
    known(Numbers, "SELECT *SELECT * GROUP BY int", ["error 1111*", "error 1056*"], SUBQUERY),
    known(
        Refused,
        "SELECT *{ IN (,CASE ,IFNULL(,COALESCE(,IF(,ELT(, BETWEEN }*",
        ["error 1690*", "[*"],
        ORDER,
    ),
    known(Refused, "SELECT *VAR_SAMP(*", ["error 1690*'var_*", "[Double] 0e0*"], INFINITE),
    known(Values, "SELECT CAST(binary AS CHAR*) AS c0", ["[Text] NULL", "[Text] *"], NO_TEXT),
    known(Values, "SELECT *UNHEX(*", ["[Binary]*", "[Text]*"], BYTES),
    known(
        Taken,
        "SELECT * GROUP BY int",
        ["[*", "error 1054: Unknown column '-*"],
        "a negated number in GROUP BY is an expression in MySQL, a column in MariaDB",
    ),
    known(
        Values,
        "SELECT ROUND(double) AS c0 UNION ALL SELECT *",
        ["[Double]*1e300*", "[Double]*1e17*"],
        DOUBLE_DIGITS,
    ),
    known(
        Values,
        "SELECT * GROUP BY {SUBTIME,ADDTIME}(datetime, {date,datetime})",
        ["[*", "[*"],
        "the time of day of a date is added in MySQL; MariaDB answers NULL",
    ),
    known(
        Types,
        "*{CONVERT_TZ,TIMESTAMP,UNIX_TIMESTAMP}({COALESCE,IFNULL,IF,CASE}*binary*",
        ["[{DateTime(0),Int}] NULL*", "[{DateTime(6),Decimal(6)}] NULL*"],
        COMPUTED_DIGITS,
    ),
];
