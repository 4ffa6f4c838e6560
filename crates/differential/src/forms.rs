//! Functions and operators with their syntax, argument classes and result class.

use std::sync::LazyLock;

use crate::class::Class::{
    self, Any, Binary, Bool, Date, DateTime, Decimal, Double, Format, Int, Like, Pattern, Regex,
    Small, Text, Time, UInt,
};

/// A function or operator.
#[derive(PartialEq, Eq, Debug)]
pub struct Form {
    /// The class of its result.
    pub class: Class,
    /// The SQL text with `@` in place of each argument.
    pub text: &'static str,
    /// The desired classes of its arguments.
    pub args: &'static [Class],
}

/// Forms with the same result class: text and arguments of each.
type Family = (Class, &'static [(&'static str, &'static [Class])]);

/// Where forms may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Anywhere; computed for one row.
    Scalar,
    /// In a grouped query.
    Aggregate,
    /// In the select list of a query over a single table `a`, whose rows are ordered by `id`.
    Window,
}

impl Kind {
    /// All forms of the kind.
    pub fn forms(self) -> &'static [Form] {
        static SCALARS: LazyLock<Vec<Form>> = LazyLock::new(|| all(FAMILIES));
        static AGGREGATE: LazyLock<Vec<Form>> = LazyLock::new(|| all(AGGREGATES));
        static WINDOW: LazyLock<Vec<Form>> = LazyLock::new(|| all(WINDOWS));
        match self {
            Self::Scalar => &SCALARS,
            Self::Aggregate => &AGGREGATE,
            Self::Window => &WINDOW,
        }
    }
}

impl Form {
    /// Whether `a` must be the only table, because the form orders rows by `a.id`.
    pub fn orders_rows(&self) -> bool {
        self.text.contains("a.id")
    }

    /// The SQL text with these arguments.
    pub fn with<'a>(&self, args: impl IntoIterator<Item = &'a String>) -> String {
        let mut parts = self.text.split('@');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (arg, part) in args.into_iter().zip(parts) {
            text.push_str(arg);
            text.push_str(part);
        }
        text
    }
}

fn all(families: &'static [Family]) -> Vec<Form> {
    let form = |class| move |&(text, args): &(_, _)| Form { class, text, args };
    families.iter().flat_map(|(class, forms)| forms.iter().map(form(*class))).collect()
}

const FAMILIES: &[Family] =
    &[BOOL, INT, UINT, DECIMAL, DOUBLE, TEXT, BINARY, DATE, DATETIME, TIME, ANY];

const BOOL: Family = (
    Bool,
    &[
        ("(@ = @)", &[Like, Like]),
        ("(@ = @)", &[Like, Like]),
        ("(@ <> @)", &[Like, Like]),
        ("(@ < @)", &[Like, Like]),
        ("(@ <= @)", &[Like, Like]),
        ("(@ > @)", &[Like, Like]),
        ("(@ >= @)", &[Like, Like]),
        ("(@ <=> @)", &[Like, Like]),
        ("(@ IS NULL)", &[Any]),
        ("(@ IS NOT NULL)", &[Any]),
        ("(@ IS TRUE)", &[Bool]),
        ("(@ IS NOT FALSE)", &[Bool]),
        ("(@ AND @)", &[Bool, Bool]),
        ("(@ AND @)", &[Bool, Bool]),
        ("(@ OR @)", &[Bool, Bool]),
        ("(@ OR @)", &[Bool, Bool]),
        ("(@ XOR @)", &[Bool, Bool]),
        ("(NOT @)", &[Bool]),
        ("(@ BETWEEN @ AND @)", &[Like, Like, Like]),
        ("(@ NOT BETWEEN @ AND @)", &[Like, Like, Like]),
        ("(@ IN (@, @))", &[Like, Like, Like]),
        ("(@ IN (@, @, @, @))", &[Like, Like, Like, Like, Like]),
        ("(@ NOT IN (@, @))", &[Like, Like, Like]),
        ("((@, @) = (@, @))", &[Like, Int, Like, Int]),
        ("(@ LIKE @)", &[Text, Pattern]),
        ("(@ NOT LIKE @)", &[Text, Pattern]),
        ("(@ REGEXP @)", &[Text, Regex]),
        ("ISNULL(@)", &[Any]),
        ("(@ IN (SELECT x.id FROM t1 AS x))", &[Int]),
        ("(@ NOT IN (SELECT x.id FROM t1 AS x WHERE x.id > @))", &[Int, Int]),
        ("(@ > ALL (SELECT x.id FROM t2 AS x WHERE x.id < 4))", &[Decimal]),
        ("EXISTS (SELECT 1 FROM t2 AS x WHERE x.id = @)", &[Int]),
    ],
);

const INT: Family = (
    Int,
    &[
        ("(@ + @)", &[Int, Int]),
        ("(@ - @)", &[Int, Int]),
        ("(@ * @)", &[Int, Int]),
        ("(@ DIV @)", &[Int, Int]),
        ("(@ DIV @)", &[Decimal, Decimal]),
        ("(@ % @)", &[Int, Int]),
        ("(- @)", &[Int]),
        ("ABS(@)", &[Int]),
        ("SIGN(@)", &[Decimal]),
        ("FLOOR(@)", &[Decimal]),
        ("CEILING(@)", &[Decimal]),
        ("ROUND(@)", &[Int]),
        ("ROUND(@, @)", &[Int, Small]),
        ("TRUNCATE(@, @)", &[Int, Small]),
        ("CAST(@ AS SIGNED)", &[Any]),
        ("LENGTH(@)", &[Text]),
        ("CHAR_LENGTH(@)", &[Text]),
        ("BIT_LENGTH(@)", &[Text]),
        ("ASCII(@)", &[Text]),
        ("ORD(@)", &[Text]),
        ("LOCATE(@, @)", &[Text, Text]),
        ("LOCATE(@, @, @)", &[Text, Text, Small]),
        ("INSTR(@, @)", &[Text, Text]),
        ("FIELD(@, @, @)", &[Like, Like, Like]),
        ("FIND_IN_SET(@, @)", &[Text, Text]),
        ("STRCMP(@, @)", &[Text, Text]),
        ("INTERVAL(@, 1, 10, 100)", &[Int]),
        ("YEAR(@)", &[DateTime]),
        ("QUARTER(@)", &[Date]),
        ("MONTH(@)", &[Date]),
        ("DAY(@)", &[DateTime]),
        ("DAYOFWEEK(@)", &[Date]),
        ("WEEKDAY(@)", &[DateTime]),
        ("DAYOFYEAR(@)", &[DateTime]),
        ("WEEK(@)", &[Date]),
        ("WEEK(@, 3)", &[DateTime]),
        ("YEARWEEK(@)", &[Date]),
        ("HOUR(@)", &[DateTime]),
        ("MINUTE(@)", &[Time]),
        ("SECOND(@)", &[DateTime]),
        ("MICROSECOND(@)", &[DateTime]),
        ("EXTRACT(YEAR_MONTH FROM @)", &[DateTime]),
        ("EXTRACT(DAY_SECOND FROM @)", &[DateTime]),
        ("DATEDIFF(@, @)", &[DateTime, Date]),
        ("TIMESTAMPDIFF(MONTH, @, @)", &[DateTime, Date]),
        ("TIMESTAMPDIFF(SECOND, @, @)", &[DateTime, DateTime]),
        ("TIMESTAMPDIFF(DAY, @, @)", &[Date, DateTime]),
        ("TO_DAYS(@)", &[DateTime]),
        ("UNIX_TIMESTAMP(@)", &[Date]),
        ("TIME_TO_SEC(@)", &[Time]),
        ("REGEXP_INSTR(@, @)", &[Text, Regex]),
        ("COALESCE(@, 0)", &[Int]),
        ("(SELECT COUNT(*) FROM t1 AS x WHERE x.id = @)", &[Int]),
        ("(SELECT MAX(x.id) FROM t2 AS x WHERE x.id = @)", &[Int]),
    ],
);

const UINT: Family = (
    UInt,
    &[
        ("(@ + @)", &[UInt, UInt]),
        ("(@ - @)", &[UInt, Int]),
        ("(@ * @)", &[UInt, UInt]),
        ("(@ DIV @)", &[UInt, Int]),
        ("(@ % @)", &[UInt, UInt]),
        ("(@ & @)", &[Int, Int]),
        ("(@ | @)", &[Int, Int]),
        ("(@ ^ @)", &[Int, UInt]),
        ("(@ << @)", &[Int, Small]),
        ("(@ >> @)", &[UInt, Small]),
        ("(~ @)", &[Int]),
        ("BIT_COUNT(@)", &[Int]),
        ("CAST(@ AS UNSIGNED)", &[Any]),
        ("CRC32(@)", &[Text]),
    ],
);

const DECIMAL: Family = (
    Decimal,
    &[
        ("(@ + @)", &[Decimal, Decimal]),
        ("(@ - @)", &[Decimal, Int]),
        ("(@ * @)", &[Decimal, Decimal]),
        ("(@ / @)", &[Decimal, Decimal]),
        ("(@ / @)", &[Int, Int]),
        ("(@ % @)", &[Decimal, Decimal]),
        ("(- @)", &[Decimal]),
        ("ABS(@)", &[Decimal]),
        ("MOD(@, @)", &[Decimal, Int]),
        ("ROUND(@, @)", &[Decimal, Small]),
        ("ROUND(@)", &[Decimal]),
        ("TRUNCATE(@, @)", &[Decimal, Small]),
        ("CAST(@ AS DECIMAL(10,2))", &[Any]),
        ("CAST(@ AS DECIMAL(20,6))", &[Any]),
        ("CAST(@ AS DECIMAL(38,10))", &[Decimal]),
        ("UNIX_TIMESTAMP(@)", &[DateTime]),
    ],
);

const DOUBLE: Family = (
    Double,
    &[
        ("(@ + @)", &[Double, Double]),
        ("(@ - @)", &[Double, Decimal]),
        ("(@ * @)", &[Double, Int]),
        ("(@ / @)", &[Double, Double]),
        ("(@ + 0)", &[Text]),
        ("(- @)", &[Double]),
        ("ABS(@)", &[Double]),
        ("ROUND(@, @)", &[Double, Small]),
        ("TRUNCATE(@, @)", &[Double, Small]),
        ("FLOOR(@)", &[Double]),
        ("SQRT(@)", &[Double]),
        ("POW(@, @)", &[Double, Small]),
        ("EXP(@)", &[Double]),
        ("LN(@)", &[Double]),
        ("LOG(2, @)", &[Double]),
        ("LOG10(@)", &[Int]),
        ("SIN(@)", &[Double]),
        ("ATAN2(@, @)", &[Double, Double]),
        ("DEGREES(@)", &[Double]),
        ("CAST(@ AS DOUBLE)", &[Any]),
    ],
);

const TEXT: Family = (
    Text,
    &[
        ("CONCAT(@, @)", &[Text, Any]),
        ("CONCAT(@, '')", &[Any]),
        ("CONCAT_WS(',', @, @)", &[Text, Any]),
        ("UPPER(@)", &[Text]),
        ("LOWER(@)", &[Text]),
        ("LEFT(@, @)", &[Text, Small]),
        ("RIGHT(@, @)", &[Text, Small]),
        ("SUBSTRING(@, @)", &[Text, Small]),
        ("SUBSTRING(@, @, @)", &[Text, Small, Small]),
        ("TRIM(@)", &[Text]),
        ("TRIM(LEADING @ FROM @)", &[Text, Text]),
        ("LPAD(@, @, @)", &[Text, Small, Text]),
        ("RPAD(@, @, @)", &[Text, Small, Text]),
        ("REPLACE(@, @, @)", &[Text, Text, Text]),
        ("REVERSE(@)", &[Text]),
        ("REPEAT(@, @)", &[Text, Small]),
        ("SUBSTRING_INDEX(@, ',', @)", &[Text, Small]),
        ("INSERT(@, @, @, @)", &[Text, Small, Small, Text]),
        ("HEX(@)", &[Any]),
        ("BIN(@)", &[Int]),
        ("OCT(@)", &[Int]),
        ("CONV(@, 10, 16)", &[Int]),
        ("FORMAT(@, @)", &[Decimal, Small]),
        ("QUOTE(@)", &[Text]),
        ("MD5(@)", &[Any]),
        ("SHA1(@)", &[Text]),
        ("SHA2(@, 256)", &[Text]),
        ("TO_BASE64(@)", &[Text]),
        ("ELT(@, @, @)", &[Small, Text, Any]),
        ("MAKE_SET(@, @, @)", &[Int, Text, Text]),
        ("EXPORT_SET(@, 'Y', 'N', ',', 4)", &[Int]),
        ("CAST(@ AS CHAR)", &[Any]),
        ("CAST(@ AS CHAR(3))", &[Any]),
        ("DATE_FORMAT(@, @)", &[DateTime, Format]),
        ("TIME_FORMAT(@, '%H %i %s')", &[Time]),
        ("DAYNAME(@)", &[Date]),
        ("MONTHNAME(@)", &[DateTime]),
        ("REGEXP_REPLACE(@, @, @)", &[Text, Regex, Text]),
        ("REGEXP_SUBSTR(@, @)", &[Text, Regex]),
    ],
);

const BINARY: Family = (
    Binary,
    &[
        ("UNHEX(@)", &[Text]),
        ("CAST(@ AS BINARY)", &[Text]),
        ("CONCAT(@, @)", &[Binary, Text]),
        ("FROM_BASE64(@)", &[Text]),
    ],
);

const DATE: Family = (
    Date,
    &[
        ("DATE(@)", &[DateTime]),
        ("CAST(@ AS DATE)", &[Any]),
        ("LAST_DAY(@)", &[DateTime]),
        ("(@ + INTERVAL @ DAY)", &[Date, Int]),
        ("(@ - INTERVAL @ MONTH)", &[Date, Small]),
        ("DATE_ADD(@, INTERVAL @ YEAR)", &[Date, Small]),
        ("MAKEDATE(2024, @)", &[Small]),
        ("FROM_DAYS(@)", &[Int]),
        ("STR_TO_DATE(@, '%Y-%m-%d')", &[Text]),
    ],
);

const DATETIME: Family = (
    DateTime,
    &[
        ("CAST(@ AS DATETIME)", &[Any]),
        ("CAST(@ AS DATETIME(3))", &[DateTime]),
        ("TIMESTAMP(@)", &[Any]),
        ("(@ + INTERVAL @ HOUR)", &[DateTime, Int]),
        ("(@ - INTERVAL @ SECOND)", &[Date, Int]),
        ("(@ + INTERVAL @ MICROSECOND)", &[DateTime, Int]),
        ("DATE_SUB(@, INTERVAL @ WEEK)", &[DateTime, Small]),
        ("TIMESTAMPADD(MINUTE, @, @)", &[Int, DateTime]),
        ("FROM_UNIXTIME(@)", &[Int]),
        ("CONVERT_TZ(@, '+00:00', '+05:30')", &[DateTime]),
        ("ADDTIME(@, '01:00:00')", &[DateTime]),
        ("SUBTIME(@, @)", &[DateTime, Time]),
        ("STR_TO_DATE(@, '%Y-%m-%d %H:%i:%s')", &[Text]),
    ],
);

const TIME: Family = (
    Time,
    &[
        ("TIME(@)", &[DateTime]),
        ("CAST(@ AS TIME)", &[Any]),
        ("TIMEDIFF(@, @)", &[DateTime, DateTime]),
        ("SEC_TO_TIME(@)", &[Int]),
        ("MAKETIME(@, @, @)", &[Small, Small, Small]),
        ("ADDTIME(@, @)", &[Time, Time]),
    ],
);

const ANY: Family = (
    Any,
    &[
        ("IF(@, @, @)", &[Bool, Like, Like]),
        ("IFNULL(@, @)", &[Like, Like]),
        ("COALESCE(@, @, @)", &[Like, Like, Like]),
        ("NULLIF(@, @)", &[Like, Like]),
        ("CASE WHEN @ THEN @ ELSE @ END", &[Bool, Like, Like]),
        ("CASE WHEN @ THEN @ END", &[Bool, Like]),
        ("CASE @ WHEN @ THEN @ ELSE @ END", &[Int, Int, Like, Like]),
        ("GREATEST(@, @)", &[Like, Like]),
        ("LEAST(@, @, @)", &[Like, Like, Like]),
    ],
);

const AGGREGATES: &[Family] = &[
    (
        Int,
        &[
            ("COUNT(*)", &[]),
            ("COUNT(@)", &[Any]),
            ("COUNT(DISTINCT @)", &[Any]),
            ("COUNT(DISTINCT @, @)", &[Int, Any]),
        ],
    ),
    (UInt, &[("BIT_AND(@)", &[Int]), ("BIT_OR(@)", &[Int]), ("BIT_XOR(@)", &[UInt])]),
    (
        Decimal,
        &[
            ("SUM(@)", &[Int]),
            ("SUM(@)", &[Decimal]),
            ("SUM(@)", &[Bool]),
            ("SUM(DISTINCT @)", &[Decimal]),
            ("AVG(@)", &[Int]),
            ("AVG(@)", &[Decimal]),
        ],
    ),
    (
        Double,
        &[
            ("SUM(@)", &[Double]),
            ("AVG(@)", &[Double]),
            ("AVG(@)", &[Text]),
            ("STDDEV_POP(@)", &[Int]),
            ("VAR_SAMP(@)", &[Double]),
        ],
    ),
    (Any, &[("MIN(@)", &[Like]), ("MAX(@)", &[Like])]),
    (Text, &[("GROUP_CONCAT(@ ORDER BY a.id)", &[Any])]),
];

const WINDOWS: &[Family] = &[
    (
        Int,
        &[
            ("ROW_NUMBER() OVER (PARTITION BY @ ORDER BY a.id)", &[Any]),
            ("RANK() OVER (ORDER BY @)", &[Any]),
            ("DENSE_RANK() OVER (ORDER BY @ DESC)", &[Any]),
            ("COUNT(*) OVER (ORDER BY @)", &[Int]),
            ("COUNT(@) OVER (PARTITION BY @)", &[Any, Any]),
            ("NTILE(3) OVER (ORDER BY a.id)", &[]),
        ],
    ),
    (
        Decimal,
        &[
            ("SUM(@) OVER (PARTITION BY @)", &[Int, Any]),
            ("SUM(@) OVER (ORDER BY a.id)", &[Decimal]),
            ("AVG(@) OVER (ORDER BY a.id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", &[Int]),
        ],
    ),
    (
        Double,
        &[("PERCENT_RANK() OVER (ORDER BY @)", &[Int]), ("CUME_DIST() OVER (ORDER BY @)", &[Int])],
    ),
    (
        Any,
        &[
            ("LAG(@, 1) OVER (ORDER BY a.id)", &[Like]),
            ("LEAD(@, 2) OVER (PARTITION BY @ ORDER BY a.id)", &[Like, Any]),
            ("FIRST_VALUE(@) OVER (ORDER BY a.id)", &[Like]),
            ("MAX(@) OVER (PARTITION BY @)", &[Like, Any]),
        ],
    ),
];
