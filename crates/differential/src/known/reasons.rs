//! Reasons shared by several known differences.

pub const EXTREMES: &str = "MySQL compares numbers and texts, or times and others, as texts in \
                            GREATEST and LEAST; MariaDB as numbers or times";
pub const WINDOWS: &str = "ROW_NUMBER, RANK, DENSE_RANK and NTILE are BIGINT UNSIGNED in MySQL";
pub const NULLS: &str = "the type of an expression that can only be NULL differs";
pub const UNUSED: &str = "not done: a strict INSERT does not look at operands that decide nothing";
pub const CHOSEN: &str = "not done: ELT, MAKE_SET, REPLACE, TIMESTAMPDIFF and SUBTIME compute all \
                          arguments, and refuse a strict INSERT for what those lose that decide \
                          nothing";
pub const LOGARITHMS: &str =
    "a logarithm of what has none is 3020 in MySQL, a division by zero (1365) in MariaDB";
pub const ZEROS: &str = "not done: no function computes a zero date, as with NO_ZERO_DATE; MySQL \
                         computes them";
pub const SUBQUERY: &str = "not done: subqueries that depend on the row by more than equality, \
                            that hold an aggregate of the query around them, or that stand in ON \
                            of an outer join, are refused";

pub const FRACTIONS: &str = "FROM_UNIXTIME of a DOUBLE has 6 digits in MySQL; MariaDB says 39";
pub const DATES: &str = "numbers of dates are integers in MySQL; MariaDB has DECIMAL, no sign, or \
                         a date still";
pub const NO_DATE: &str = "not done: a literal that is no date beside a date is refused (1525) in \
                           MySQL, NULL here, and a zero date in MariaDB";
pub const BYTES: &str = "not done: a literal of bytes beside text is text where the text is a \
                         column's in MySQL; here bytes";
pub const REGEXES: &str = "MySQL refuses bytes in regular expressions (3995); MariaDB takes them";
pub const NUMBERS: &str = "MariaDB takes a number that is no date for the largest or the smallest \
                           date; MySQL compares numbers";
pub const CLOCKS: &str = "MariaDB reads a number of more than 838 hours otherwise, and has days in \
                          TIME; MySQL has hours";
pub const BITS: &str = "a literal of bytes is a number beside numbers in MySQL, a text in MariaDB";

pub const ROWS: &str = "MariaDB takes a row compared with NULL for NULL where another part already \
                        differs";

pub const ORDER: &str = "which rows an expression is computed for, and so refused for, is nobody's \
                         promise: a condition, a join or LIMIT may come first";
pub const ERRORS: &str = "not done: some refusals of INSERT have another number";

pub const NULL_DATES: &str = "what is no date is NULL in MySQL; MariaDB has a zero date inside of \
                              an expression, where it shows NULL by itself";
pub const TEXT_TIMES: &str = "ADDTIME and SUBTIME of what is no time are a text in MySQL, which is \
                              no date; MariaDB takes the date of today";
pub const TEXT_DIGITS: &str = "a time that is a text has six digits of the second or none in \
                               MySQL, in MariaDB those of its type";
pub const TIME_MAX: &str = "the largest TIME is 838:59:59 in MySQL, 838:59:59.999999 in MariaDB, \
                            and what is beyond it is NULL where MySQL reads a number";
pub const STDDEV: &str = "the deviation of integers has all digits in MySQL, four in MariaDB";
pub const DOUBLE_DIGITS: &str = "a DOUBLE that is rounded or cut has its own digits in MySQL 8, in \
                                 MariaDB as many as were asked for, and at most 17 where it is \
                                 kept";
pub const ROUNDED: &str = "a time is rounded where its integer is wanted in MySQL, cut in MariaDB";
pub const LARGE_BITS: &str = "the integer of a number above the largest BIGINT is the largest \
                              BIGINT in MySQL, other bits in MariaDB";
pub const SIGNS: &str = "MariaDB takes aggregates of large integers for others";
pub const COPIES: &str = "MariaDB answers equal rows of DISTINCT over groups";
pub const COMPUTED_DIGITS: &str = "digits of a text that is computed are six in MySQL; MariaDB \
                                   computes constants to know them";
pub const BASE64: &str = "MariaDB refuses to store what is no base 64 (1958), NULL in MySQL";
pub const CONVERTED: &str = "an error of MariaDB only (1916)";
pub const STORED_DIGITS: &str = "not done: a decimal that is stored as text has the digits of its \
                                 type; MySQL those of the value";
pub const QUOTIENTS: &str = "a quotient has nine digits where it is used in MySQL; MariaDB rounds \
                             it to what it shows where it is kept";
pub const UNSIGNED_DATES: &str = "a date beside an integer without sign has none in MySQL, one in \
                                  MariaDB";
pub const MIXED_SIGNS: &str = "BIGINT beside a smaller type without sign is BIGINT in MySQL, \
                               DECIMAL in MariaDB";
pub const ZERO_SIGN: &str = "not done: a remainder of decimals or a product of DOUBLEs that is \
                             zero may have a sign in MySQL; here none";
pub const PRODUCTS: &str = "not done: a product of decimals has 76 digits here, 65 in MySQL";
pub const FEW_DIGITS: &str = "MariaDB has too few digits for integers beside decimals";
pub const CUT_BYTES: &str = "MariaDB cuts bytes that it keeps to the number of their characters";
pub const INFINITE: &str = "not done: a variance that no DOUBLE holds is refused; MySQL shows 0";
pub const NO_TEXT: &str = "bytes that are no text are NULL as text in MySQL; MariaDB shows marks";
pub const AVERAGES: &str =
    "not done: AVG beside a DOUBLE has nine digits, those of a DOUBLE in MySQL";
pub const FLOAT_TEXTS: &str = "not done: the text of a number that is cast to FLOAT has the digits \
                               that a FLOAT shows; in MySQL those of a DOUBLE";
pub const UNIX_BEFORE_1970: &str = "UNIX_TIMESTAMP before 1970 is 0 in MySQL, NULL in MariaDB";
pub const NO_MATCH: &str =
    "REGEXP_SUBSTR without a match is NULL in MySQL, an empty text in MariaDB";
pub const NO_DATES: &str =
    "MySQL refuses a literal that is no date beside a date; in MariaDB it is NULL, with a warning";
pub const TIME_SECONDS: &str = "TIME_TO_SEC is an integer in MySQL, a DECIMAL in MariaDB";
