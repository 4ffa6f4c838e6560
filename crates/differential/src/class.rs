//! Classes of values, column types, and literals of each class.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// The class of an expression's result, or the desired class of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// A truth value.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    UInt,
    Decimal,
    /// FLOAT or DOUBLE.
    Double,
    Text,
    Binary,
    Date,
    /// DATETIME or TIMESTAMP.
    DateTime,
    /// TIME, which no column has.
    Time,
    /// NULL without a type.
    Null,
    /// As an argument, any value; as a result, the class of the `Like` arguments.
    Any,
    /// As an argument, the class that all `Like` arguments of the form share.
    Like,
    /// A small integer literal for lengths, positions and digits.
    Small,
    /// A literal LIKE pattern.
    Pattern,
    /// A literal regular expression.
    Regex,
    /// A literal format for DATE_FORMAT.
    Format,
}

use Class::{
    Any, Binary, Bool, Date, DateTime, Decimal, Double, Format, Int, Like, Null, Pattern, Regex,
    Small, Text, Time, UInt,
};

/// Classes of values; frequent ones are repeated.
const VALUES: [Class; 15] = [
    Int, Int, Int, UInt, Decimal, Decimal, Double, Text, Text, Text, Binary, Date, DateTime,
    DateTime, Bool,
];

impl Class {
    /// A random class of values.
    pub fn random(random: &mut StdRng) -> Self {
        *VALUES.choose(random).expect("there are classes")
    }

    /// The name in shapes and reports.
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Int => "int",
            UInt => "uint",
            Decimal => "decimal",
            Double => "double",
            Text => "text",
            Binary => "binary",
            Date => "date",
            DateTime => "datetime",
            Time => "time",
            Null => "null",
            Any | Like => "any",
            Small => "small",
            Pattern => "pattern",
            Regex => "regex",
            Format => "format",
        }
    }

    /// Whether expressions of this class are always literals.
    pub fn is_literal(self) -> bool {
        matches!(self, Small | Pattern | Regex | Format)
    }

    /// Literals of the class, the simplest first.
    pub fn literals(self) -> &'static [&'static str] {
        match self {
            Bool => &["1", "0", "TRUE", "FALSE"],
            Int | Any | Like => &INTS,
            UInt => &UINTS,
            Decimal => &DECIMALS,
            Double => &DOUBLES,
            Text => &TEXTS,
            Binary => &["x''", "x'61'", "x'ff00'", "_binary'abc'"],
            Date => &DATES,
            DateTime => &DATETIMES,
            Time => &TIMES,
            Null => &["NULL"],
            Small => &["1", "0", "2", "3", "-1", "-2", "5", "10"],
            Pattern => &["'%'", "'a%'", "'_'", "'%b_'", "'1%'", "'%a%c'", "''", "'\\\\%'"],
            Regex => &["'a'", "'^a'", "'[0-9]+'", "'b$'", "'[[:alpha:]]'", "'a|1'", "'.'"],
            Format => &FORMATS,
        }
    }

    /// A random literal, occasionally NULL.
    pub fn literal(self, random: &mut StdRng) -> (Self, String) {
        if !self.is_literal() && random.random_ratio(1, 16) {
            return (Null, "NULL".to_owned());
        }
        let text = self.literals().choose(random).expect("every class has literals");
        (self, (*text).to_owned())
    }
}

const INTS: [&str; 18] = [
    "1",
    "0",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "10",
    "100",
    "-128",
    "255",
    "32767",
    "65536",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775807",
    "20240115",
];
const UINTS: [&str; 5] = [
    "CAST(1 AS UNSIGNED)",
    "CAST(0 AS UNSIGNED)",
    "CAST(5 AS UNSIGNED)",
    "9223372036854775808",
    "18446744073709551615",
];
const DECIMALS: [&str; 11] = [
    "1.0",
    "0.0",
    "0.5",
    "-0.5",
    "1.5",
    "-2.25",
    "123.456",
    "99999.99999",
    "0.001",
    "-1.0049",
    "12345678901234567890.5",
];
const DOUBLES: [&str; 9] =
    ["1e0", "0e0", "1.5e0", "-2.5e-3", "1e10", "-7e0", "1e17", "123456.789e0", "1e300"];
const TEXTS: [&str; 24] = [
    "''",
    "'a'",
    "'A'",
    "'b'",
    "'abc'",
    "'1'",
    "'0'",
    "'1.5'",
    "'-3'",
    "'12abc'",
    "' x'",
    "'ab'",
    "'1e3'",
    "'a,b,c'",
    "'it''s'",
    "'\u{e4}'",
    "'Stra\u{df}e'",
    "'\u{65e5}\u{672c}'",
    "'10:20:30'",
    "'2024-01-15'",
    "'2024-02-29 12:34:56'",
    "'2023-12-31 23:59:59.999999'",
    "'20240115'",
    "'%'",
];
const DATES: [&str; 9] = [
    "DATE'2024-01-15'",
    "DATE'2024-02-29'",
    "DATE'2023-12-31'",
    "DATE'1970-01-01'",
    "DATE'1969-12-31'",
    "DATE'2000-02-29'",
    "DATE'1000-01-01'",
    "DATE'9999-12-31'",
    "DATE'2024-07-01'",
];
const DATETIMES: [&str; 10] = [
    "TIMESTAMP'2024-01-15 10:20:30'",
    "TIMESTAMP'2024-01-15 00:00:00'",
    "TIMESTAMP'2024-02-29 12:34:56.789'",
    "TIMESTAMP'2023-12-31 23:59:59.999999'",
    "TIMESTAMP'1970-01-01 00:00:01'",
    "TIMESTAMP'1969-12-31 23:59:59'",
    "TIMESTAMP'2000-02-29 12:00:00.123456'",
    "TIMESTAMP'1000-01-01 00:00:00'",
    "TIMESTAMP'9999-12-31 23:59:59'",
    "TIMESTAMP'2024-07-01 06:00:00.5'",
];
const TIMES: [&str; 6] = [
    "TIME'10:20:30'",
    "TIME'00:00:00'",
    "TIME'-01:00:00'",
    "TIME'23:59:59.5'",
    "TIME'100:00:00'",
    "TIME'00:00:00.000001'",
];
const FORMATS: [&str; 10] = [
    "'%Y-%m-%d'",
    "'%H:%i:%s'",
    "'%Y-%m-%d %H:%i:%s.%f'",
    "'%W %M %e'",
    "'%a %b %D %y'",
    "'%j %U %u %w'",
    "'%X-%V %x-%v'",
    "'%h:%i %p'",
    "'%T|%r|%k|%l'",
    "'%c/%d%%'",
];

#[derive(Debug)]
pub struct Type {
    /// The type in CREATE TABLE.
    pub sql: &'static str,
    /// The class of its values.
    pub class: Class,
    /// Valid values, as written in VALUES.
    pub values: &'static [&'static str],
    /// An expression with the value `@` of this type that needs no table.
    pub constant: &'static str,
}

/// Types of columns; frequent ones are repeated.
pub const TYPES: [Type; 26] = [
    Type { sql: "TINYINT", class: Int, values: &["0", "1", "-128", "127", "5"], constant: "@" },
    Type { sql: "SMALLINT", class: Int, values: &["0", "1", "-3", "32767"], constant: "@" },
    Type { sql: "INT", class: Int, values: SOME_INTS, constant: "@" },
    Type { sql: "INT", class: Int, values: SOME_INTS, constant: "@" },
    Type { sql: "BIGINT", class: Int, values: &INTS, constant: "@" },
    Type { sql: "BOOLEAN", class: Bool, values: &["0", "1"], constant: "@" },
    Type {
        sql: "TINYINT UNSIGNED",
        class: UInt,
        values: &["0", "1", "5", "255"],
        constant: "CAST(@ AS UNSIGNED)",
    },
    Type {
        sql: "INT UNSIGNED",
        class: UInt,
        values: &["0", "1", "5", "4294967295"],
        constant: "CAST(@ AS UNSIGNED)",
    },
    Type {
        sql: "BIGINT UNSIGNED",
        class: UInt,
        values: &["0", "1", "5", "9223372036854775808", "18446744073709551615"],
        constant: "CAST(@ AS UNSIGNED)",
    },
    Type {
        sql: "DECIMAL(5,2)",
        class: Decimal,
        values: &["0", "1", "-0.5", "999.99", "-999.99", "2.25"],
        constant: "CAST(@ AS DECIMAL(5,2))",
    },
    Type {
        sql: "DECIMAL(10,0)",
        class: Decimal,
        values: &["0", "1", "-7", "9999999999"],
        constant: "CAST(@ AS DECIMAL(10,0))",
    },
    Type {
        sql: "DECIMAL(18,6)",
        class: Decimal,
        values: &["0", "1.5", "-0.000001", "123456789012.345678"],
        constant: "CAST(@ AS DECIMAL(18,6))",
    },
    Type {
        sql: "DECIMAL(38,10)",
        class: Decimal,
        values: &["0", "1.5", "-1e-10", "9999999999999999999999999999.9999999999"],
        constant: "CAST(@ AS DECIMAL(38,10))",
    },
    Type { sql: "DOUBLE", class: Double, values: &DOUBLES, constant: "@" },
    Type { sql: "DOUBLE", class: Double, values: SOME_DOUBLES, constant: "@" },
    Type {
        sql: "FLOAT",
        class: Double,
        values: &["0", "1.5", "-0.25", "3e10", "0.1"],
        constant: "CAST(@ AS FLOAT)",
    },
    Type { sql: "VARCHAR(20)", class: Text, values: SOME_TEXTS, constant: "@" },
    Type { sql: "VARCHAR(50)", class: Text, values: &TEXTS, constant: "@" },
    Type { sql: "CHAR(10)", class: Text, values: SOME_TEXTS, constant: "@" },
    Type { sql: "TEXT", class: Text, values: &TEXTS, constant: "@" },
    Type {
        sql: "VARBINARY(10)",
        class: Binary,
        values: &["''", "'abc'", "x'ff00'", "'1'"],
        constant: "CAST(@ AS BINARY)",
    },
    Type { sql: "DATE", class: Date, values: SOME_DATES, constant: "CAST(@ AS DATE)" },
    Type { sql: "DATETIME", class: DateTime, values: SOME_TIMES, constant: "CAST(@ AS DATETIME)" },
    Type {
        sql: "DATETIME(3)",
        class: DateTime,
        values: SOME_TIMES,
        constant: "CAST(@ AS DATETIME(3))",
    },
    Type {
        sql: "DATETIME(6)",
        class: DateTime,
        values: SOME_TIMES,
        constant: "CAST(@ AS DATETIME(6))",
    },
    Type {
        sql: "TIMESTAMP",
        class: DateTime,
        values: &["'2024-01-15 10:20:30'", "'1970-01-01 00:00:01'", "'2037-12-31 23:59:59'"],
        constant: "CAST(@ AS DATETIME)",
    },
];
const SOME_INTS: &[&str] = &["0", "1", "2", "3", "-1", "5", "100", "2147483647", "-2147483648"];
const SOME_DOUBLES: &[&str] = &["0", "1", "1.5", "-2.5", "100", "0.1"];
const SOME_TEXTS: &[&str] =
    &["''", "'a'", "'A'", "'b'", "'abc'", "'1'", "'1.5'", "'12abc'", "'\u{e4}'", "'0'", "'a,b,c'"];
const SOME_DATES: &[&str] = &[
    "'2024-01-15'",
    "'2024-02-29'",
    "'1970-01-01'",
    "'1969-12-31'",
    "'1000-01-01'",
    "'9999-12-31'",
];
const SOME_TIMES: &[&str] = &[
    "'2024-01-15 10:20:30'",
    "'2024-01-15 00:00:00'",
    "'2024-02-29 12:34:56.789012'",
    "'1969-12-31 23:59:59.5'",
    "'1000-01-01 00:00:00'",
    "'9999-12-31 23:59:59'",
];
