//! Results of statements, and how two results differ.

use std::fmt;

use freshet_torture::client::Failure;
use freshet_wire::client::{Outcome, Value};
use freshet_wire::{Collation, ColumnFlags, ColumnType};

/// DOUBLEs within this relative difference are equal, since sums are added in no defined order.
const DOUBLE_TOLERANCE: f64 = 1e-11;
const FLOAT_TOLERANCE: f64 = 1e-5;
const ROWS_SHOWN_MAX: usize = 6;

/// The type of a result column, as far as MariaDB and MySQL agree: integers of all widths are the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Int,
    /// An unsigned integer.
    UInt,
    /// DECIMAL with this many digits after the decimal point.
    Decimal(u8),
    Float,
    Double,
    Text,
    Binary,
    Date,
    /// DATETIME or TIMESTAMP with this many fractional digits.
    DateTime(u8),
    /// TIME with this many fractional digits.
    Time(u8),
    /// NULL without a type.
    Null,
    Other(ColumnType),
}

impl Kind {
    fn of(ty: ColumnType, flags: ColumnFlags, collation: Collation, decimals: u8) -> Self {
        use ColumnType as T;
        match ty {
            T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong
                if flags.contains(ColumnFlags::UNSIGNED) =>
            {
                Self::UInt
            }
            T::Tiny | T::Short | T::Int24 | T::Long | T::LongLong => Self::Int,
            T::NewDecimal => Self::Decimal(decimals),
            T::Float => Self::Float,
            T::Double => Self::Double,
            T::Date => Self::Date,
            T::DateTime | T::Timestamp => Self::DateTime(decimals),
            T::Time => Self::Time(decimals),
            T::Null => Self::Null,
            T::VarChar
            | T::VarString
            | T::String
            | T::TinyBlob
            | T::MediumBlob
            | T::LongBlob
            | T::Blob => match collation {
                Collation::BINARY => Self::Binary,
                _ => Self::Text,
            },
            other => Self::Other(other),
        }
    }
}

/// The result of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Rows {
        kinds: Vec<Kind>,
        /// The values as text.
        rows: Vec<Vec<Option<String>>>,
    },
    /// Success without rows; the number of affected rows.
    Done(u64),
    /// An error with its number and message.
    Refused(u16, String),
    /// The connection was lost, or no result arrived.
    Lost(String),
}

/// How two results differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Difference {
    /// A server lost its connection.
    Lost,
    /// Freshet returns an error, the other server does not.
    OursFails,
    /// Freshet accepts what the other server rejects.
    TheirsFails,
    /// The rows differ, or the number of affected rows.
    Values,
    /// Equal values with different types.
    Types,
    /// Both return an error, with different numbers.
    Errnos,
}

impl From<Result<Outcome, Failure>> for Answer {
    fn from(outcome: Result<Outcome, Failure>) -> Self {
        match outcome {
            Ok(Outcome::Rows(rows)) => {
                let shapes = rows.types.iter().zip(&rows.shapes);
                let kinds = shapes.map(|(&(ty, flags), &(collation, decimals))| {
                    Kind::of(ty, flags, collation, decimals)
                });
                let kinds: Vec<_> = kinds.collect();
                let row = |row: Vec<Value>| {
                    row.into_iter().zip(&kinds).map(|(value, kind)| text(value, *kind)).collect()
                };
                let rows = rows.rows.into_iter().map(row).collect();
                Self::Rows { kinds, rows }
            }
            Ok(Outcome::Ok { affected_rows, .. }) => Self::Done(affected_rows),
            Ok(Outcome::Err { errno, message, .. }) => Self::Refused(errno, message),
            Ok(Outcome::LocalInfile(name)) => Self::Lost(format!("it wants the file {name}")),
            Err(failure) => Self::Lost(failure.to_string()),
        }
    }
}

impl Answer {
    /// The rows, sorted; empty for other results.
    pub fn sorted(&self) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Rows { rows, .. } => {
                let mut rows = rows.clone();
                rows.sort();
                rows
            }
            _ => Vec::new(),
        }
    }

    /// How this result of Freshet differs from `theirs`; the order of rows matters only if
    /// `ordered`.
    pub fn differs(&self, theirs: &Self, ordered: bool) -> Option<Difference> {
        match (self, theirs) {
            (Self::Lost(_), _) | (_, Self::Lost(_)) => Some(Difference::Lost),
            (Self::Refused(ours, _), Self::Refused(theirs, _)) => {
                (ours != theirs).then_some(Difference::Errnos)
            }
            (Self::Refused(..), _) => Some(Difference::OursFails),
            (_, Self::Refused(..)) => Some(Difference::TheirsFails),
            (Self::Done(ours), Self::Done(theirs)) => {
                (ours != theirs).then_some(Difference::Values)
            }
            (Self::Rows { kinds, rows }, Self::Rows { kinds: others, rows: theirs_rows }) => {
                let kinds_of = kinds.iter().copied().zip(others.iter().copied());
                let kinds_of = kinds_of.collect::<Vec<_>>();
                let same = kinds.len() == others.len()
                    && same_rows(&kinds_of, rows.clone(), theirs_rows.clone(), ordered);
                match same {
                    false => Some(Difference::Values),
                    true => (kinds != others).then_some(Difference::Types),
                }
            }
            _ => Some(Difference::Values),
        }
    }

    /// A short representation.
    pub fn shown(&self) -> String {
        match self {
            Self::Rows { kinds, rows } => {
                let cell = |cell: &Option<String>| cell.clone().unwrap_or("NULL".to_owned());
                let row = |row: &Vec<_>| row.iter().map(cell).collect::<Vec<_>>().join(" | ");
                let shown: Vec<_> = rows.iter().take(ROWS_SHOWN_MAX).map(row).collect();
                let more = rows.len().saturating_sub(ROWS_SHOWN_MAX);
                let more = if more > 0 { format!(" ; {more} more") } else { String::new() };
                let none = if rows.is_empty() { "no rows" } else { "" };
                format!("{kinds:?} {none}{}{more}", shown.join(" ; "))
            }
            Self::Done(rows) => format!("done, {rows} rows"),
            Self::Refused(errno, message) => format!("error {errno}: {message}"),
            Self::Lost(what) => format!("LOST: {what}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::OursFails => "freshet fails",
            Self::TheirsFails => "other fails",
            Self::Values => "values",
            Self::Types => "types",
            Self::Errnos => "error numbers",
        })
    }
}

type Row = Vec<Option<String>>;

/// Whether rows are equal, given the column types in both results.
fn same_rows(
    kinds: &[(Kind, Kind)],
    mut ours: Vec<Row>,
    mut theirs: Vec<Row>,
    ordered: bool,
) -> bool {
    if !ordered {
        // Rows that are about the same stand together, and among those the smaller numbers first.
        let key = |row: &Row| -> (Vec<_>, Vec<_>) {
            let cells = || row.iter().zip(kinds);
            let about = cells().map(|(cell, kinds)| key(cell, *kinds)).collect();
            (about, cells().map(|(cell, kinds)| exact_key(cell, *kinds)).collect())
        };
        ours.sort_by_cached_key(key);
        theirs.sort_by_cached_key(key);
    }
    let same = |ours: &Row, theirs: &Row| {
        let cells = ours.iter().zip(theirs).zip(kinds);
        cells.into_iter().all(|((a, b), kinds)| same_cell(a, b, *kinds))
    };
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| same(a, b))
}

/// A sort key that is the same for cells that may count as equal.
fn key(cell: &Option<String>, kinds: (Kind, Kind)) -> Option<String> {
    let number = || cell.as_deref()?.parse::<f64>().ok();
    match (tolerance(kinds), number()) {
        (Some(_), Some(number)) => Some(format!("{number:.4e}")),
        _ if kinds.0 == kinds.1 => cell.clone(),
        _ => plain_number(cell),
    }
}

/// A key in the order of numbers where numbers may be apart; 0 for all other cells.
fn exact_key(cell: &Option<String>, kinds: (Kind, Kind)) -> i64 {
    let number = cell.as_deref().and_then(|cell| cell.parse::<f64>().ok());
    match (tolerance(kinds), number) {
        (Some(_), Some(number)) => {
            let bits = number.to_bits().cast_signed();
            bits ^ (((bits >> 63) as u64) >> 1).cast_signed()
        }
        _ => 0,
    }
}

/// The relative tolerance for numbers of these types.
fn tolerance(kinds: (Kind, Kind)) -> Option<f64> {
    match kinds {
        (Kind::Double, Kind::Double) => Some(DOUBLE_TOLERANCE),
        (Kind::Double | Kind::Float, Kind::Double | Kind::Float) => Some(FLOAT_TOLERANCE),
        _ => None,
    }
}

/// A number or time without trailing zeros after the decimal point.
fn plain_number(cell: &Option<String>) -> Option<String> {
    let text = cell.as_ref()?;
    if let (true, Ok(number)) = (text.contains('e'), text.parse::<f64>()) {
        return Some(plain_decimal(&number.to_string()).to_owned());
    }
    Some(plain_decimal(text).to_owned())
}

fn plain_decimal(text: &str) -> &str {
    let fraction = text.rsplit_once('.').filter(|(_, fraction)| {
        !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
    });
    match fraction {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
        None => text,
    }
}

fn same_cell(ours: &Option<String>, theirs: &Option<String>, kinds: (Kind, Kind)) -> bool {
    let number = |text: &Option<String>| text.as_deref().map(str::parse::<f64>);
    match (tolerance(kinds), number(ours), number(theirs)) {
        (Some(tolerance), Some(Ok(a)), Some(Ok(b))) => {
            (a - b).abs() <= tolerance * a.abs().max(b.abs())
        }
        // Equal numbers of different types may be written differently.
        _ if kinds.0 != kinds.1 => plain_number(ours) == plain_number(theirs),
        _ => ours == theirs,
    }
}

/// A value as the text protocol shows it. Bytes that are not UTF-8 are shown in hexadecimal.
fn text(value: Value, kind: Kind) -> Option<String> {
    let decimals = match kind {
        Kind::DateTime(decimals) | Kind::Time(decimals) => decimals,
        _ => 0,
    };
    let mut out = Vec::new();
    match value {
        Value::Null => return None,
        Value::Bytes(bytes) => match String::from_utf8(bytes) {
            // Normalized, so that equal numbers have the same text.
            Ok(text) if matches!(kind, Kind::Double | Kind::Float) => {
                // Removes the sign of zero.
                return Some(text.parse::<f64>().map_or(text, |n| format!("{:e}", n + 0.0)));
            }
            Ok(text) => return Some(text),
            Err(error) => return Some(format!("0x{:02x?}", error.into_bytes())),
        },
        Value::Int(number) => return Some(number.to_string()),
        Value::UInt(number) => return Some(number.to_string()),
        Value::Float(number) => return Some(format!("{number:e}")),
        Value::Double(number) => return Some(format!("{number:e}")),
        Value::Date(date) => date.put_text(&mut out),
        Value::DateTime(moment) => moment.put_text(&mut out, decimals),
        Value::Time(time) => time.put_text(&mut out, decimals),
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kind: Kind, cells: &[&str]) -> Answer {
        let rows = cells.iter().map(|cell| vec![Some((*cell).to_owned())]).collect();
        Answer::Rows { kinds: vec![kind], rows }
    }

    #[test]
    fn values_before_types_before_numbers() {
        let int = rows(Kind::Int, &["1", "2"]);
        assert_eq!(int.differs(&rows(Kind::Int, &["2", "1"]), false), None);
        assert_eq!(int.differs(&rows(Kind::Int, &["2", "1"]), true), Some(Difference::Values));
        assert_eq!(int.differs(&rows(Kind::Text, &["1", "2"]), true), Some(Difference::Types));
        let no = |errno| Answer::Refused(errno, String::new());
        assert_eq!(no(1690).differs(&int, false), Some(Difference::OursFails));
        assert_eq!(int.differs(&no(1690), false), Some(Difference::TheirsFails));
        assert_eq!(no(1690).differs(&no(1264), false), Some(Difference::Errnos));
    }

    #[test]
    fn one_number_of_two_types_differs_in_type() {
        let double = rows(Kind::Double, &["1e0", "1.5e0"]);
        let decimal = rows(Kind::Decimal(2), &["1.50", "1.00"]);
        assert_eq!(double.differs(&decimal, false), Some(Difference::Types));
        let other = rows(Kind::Decimal(2), &["1.51", "1.00"]);
        assert_eq!(double.differs(&other, false), Some(Difference::Values));
    }

    #[test]
    fn each_column_is_compared_as_what_it_is() {
        let rows = |kind, cells: &[[&str; 2]]| {
            let row = |row: &[&str; 2]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
            let rows = cells.iter().map(row).collect();
            Answer::Rows { kinds: vec![kind, Kind::Double], rows }
        };
        let ours = rows(Kind::Null, &[["1", "1.25e0"], ["1", "0.30000000000000004"]]);
        let theirs = rows(Kind::Binary, &[["1", "0.3"], ["1", "1.25e0"]]);
        assert_eq!(ours.differs(&theirs, false), Some(Difference::Types));
        assert_eq!(ours.differs(&theirs, true), Some(Difference::Values));
    }

    #[test]
    fn rows_that_are_about_the_same_find_their_own() {
        let ours = rows(Kind::Double, &["28294686994", "-0.9999999999", "28294724224", "-1"]);
        let theirs = rows(Kind::Double, &["-1", "28294724224", "28294686994", "-0.9999999999"]);
        assert_eq!(ours.differs(&theirs, false), None);
        let other = rows(Kind::Double, &["-1", "28294724224", "28294724224", "-0.9999999999"]);
        assert_eq!(ours.differs(&other, false), Some(Difference::Values));
    }

    #[test]
    fn a_sum_of_doubles_may_end_otherwise() {
        let sum = rows(Kind::Double, &["0.30000000000000004"]);
        assert_eq!(sum.differs(&rows(Kind::Double, &["0.3"]), false), None);
        assert_eq!(sum.differs(&rows(Kind::Double, &["0.301"]), false), Some(Difference::Values));
    }
}
