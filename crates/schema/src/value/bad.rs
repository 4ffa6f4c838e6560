//! Errors of values, and their messages.

use std::fmt::Write;

use freshet_base::{Error, ErrorCode};

use crate::row::Put;
use crate::{Column, ColumnType, LengthUnit};

/// The number of characters of a value that a message shows.
const SHOWN_CHARS_MAX: usize = 32;
/// The number of labels of a list that a message shows.
const SHOWN_LABELS_MAX: usize = 8;

/// Why text is not valid JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadJson {
    /// The byte offset of the first error.
    pub at: usize,
    pub reason: String,
}

/// Why a text is no value of an ARRAY, MAP or STRUCT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadNested {
    /// Where in the value, from the inside out: `field 'a'`, `element 3`.
    places: Vec<String>,
    what: String,
}

impl BadNested {
    #[cold]
    pub(crate) fn new(what: impl Into<String>) -> Box<Self> {
        Box::new(Self { places: Vec::new(), what: what.into() })
    }

    /// The same of a value that has it inside, at this place.
    #[cold]
    pub(crate) fn inside(mut self: Box<Self>, place: impl std::fmt::Display) -> Box<Self> {
        self.places.push(place.to_string());
        self
    }

    /// Where and what: `field 'a' of element 3: 'x' is no int`.
    pub fn reason(&self) -> String {
        match self.places.is_empty() {
            true => self.what.clone(),
            false => format!("{}: {}", self.places.join(" of "), self.what),
        }
    }
}

/// Why a value cannot be stored. At most 16 bytes, because the `Result` of every cell carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadValue {
    /// NULL in a NOT NULL column.
    Null,
    OutOfRange {
        /// Below the minimum, rather than above the maximum.
        below: bool,
    },
    /// Longer than the column allows.
    TooLong {
        /// In the column's length unit.
        actual: u32,
        /// In the column's length unit.
        limit: u32,
    },
    NotNumber,
    /// A number followed by other text.
    Trailing,
    /// Not a date, or one that does not exist.
    NotTemporal,
    /// The zero date, which the rules do not take.
    ZeroDate,
    NotUtf8,
    NotJson(Box<BadJson>),
    NotNested(Box<BadNested>),
    /// A text or number that is none of those of an ENUM or SET.
    NotLabel,
    /// Anything but a sketch of its kind, in a column of sketches.
    NotSketch,
    /// A literal that the type does not accept, for example a hex literal of nine bytes for a
    /// number.
    NotStorable,
}

impl BadValue {
    #[cold]
    pub(super) fn too_long(actual: usize, limit: usize) -> Self {
        let clip = |length| u32::try_from(length).unwrap_or(u32::MAX);
        Self::TooLong { actual: clip(actual), limit: clip(limit) }
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Null => ErrorCode::NotNull,
            Self::OutOfRange { .. } => ErrorCode::OutOfRange,
            Self::TooLong { .. } => ErrorCode::TooLong,
            Self::Trailing | Self::NotLabel => ErrorCode::Truncated,
            Self::NotTemporal | Self::ZeroDate => ErrorCode::WrongValue,
            Self::NotJson(_) => ErrorCode::InvalidJson,
            Self::NotNumber
            | Self::NotUtf8
            | Self::NotSketch
            | Self::NotStorable
            | Self::NotNested(_) => ErrorCode::WrongFieldValue,
        }
    }

    /// The error of a statement; `row` is counted from 1.
    pub fn error(&self, column: &Column, value: &[u8], row: u64) -> Error {
        Error::new(self.code(), self.message(column, value, row))
    }

    /// MySQL's message, followed by the value and the limit.
    pub fn message(&self, column: &Column, value: &[u8], row: u64) -> String {
        let (name, shown) = (&column.name, Shown(value));
        match self {
            Self::Null => format!("Column '{name}' cannot be null: row {row} gives NULL"),
            Self::OutOfRange { .. } => format!(
                "Out of range value for column '{name}' at row {row}: '{shown}' does not fit {}",
                column.ty
            ),
            Self::TooLong { actual, limit } => format!(
                "Data too long for column '{name}' at row {row}: '{shown}' is {actual} {}, \
                 limit {limit}",
                unit(column)
            ),
            Self::Trailing => format!(
                "Data truncated for column '{name}' at row {row}: '{shown}' is not only a number"
            ),
            Self::NotLabel => format!(
                "Data truncated for column '{name}' at row {row}: '{shown}' is not of its list, \
                 {}",
                Listed(&column.labels)
            ),
            Self::NotJson(json) => format!(
                "Invalid JSON text: \"{}\" at position {} in value for column '{name}' at row \
                 {row}: '{shown}'",
                json.reason, json.at
            ),
            Self::NotSketch => format!(
                "Incorrect {} value: '{shown}' for column '{name}' at row {row}: {}",
                column.ty,
                must_use(column)
            ),
            Self::NotNested(bad) => format!(
                "Incorrect {} value: '{shown}' for column '{name}' at row {row}: {}",
                column.type_text(),
                bad.reason()
            ),
            Self::NotNumber
            | Self::NotTemporal
            | Self::ZeroDate
            | Self::NotUtf8
            | Self::NotStorable => format!(
                "Incorrect {} value: '{shown}' for column '{name}' at row {row}",
                kind(column.ty)
            ),
        }
    }

    /// The warning of a value in whose place `put` was stored, as MySQL has it.
    pub fn warning(
        &self,
        column: &Column,
        value: &[u8],
        row: u64,
        put: Put,
    ) -> (ErrorCode, String) {
        let (name, shown) = (&column.name, Shown(value));
        match self {
            Self::ZeroDate if put == Put::Value => {
                let message = format!("Out of range value for column '{name}' at row {row}");
                (ErrorCode::OutOfRange, message)
            }
            Self::NotTemporal if put == Put::Value && column.ty.is_temporal() => {
                let message = format!(
                    "Data truncated for column '{name}' at row {row}: '{shown}' is no {}",
                    kind(column.ty)
                );
                (ErrorCode::Truncated, message)
            }
            _ => (self.code(), self.message(column, value, row)),
        }
    }

    /// What is wrong with a value inside another one.
    pub(crate) fn inside(&self, element: &Column, value: &str) -> String {
        let (ty, shown) = (element.type_text(), Shown(value.as_bytes()));
        match self {
            Self::OutOfRange { .. } => format!("'{shown}' is out of the range of {ty}"),
            Self::TooLong { actual, limit } => {
                format!("'{shown}' is {actual} {}, limit {limit}", unit(element))
            }
            _ => format!("'{shown}' is no {ty}"),
        }
    }

    /// The reason in the error log of a stream load.
    pub fn reason(&self, column: &Column, value: &[u8]) -> String {
        let (name, shown) = (&column.name, Shown(value));
        match self {
            Self::Null => format!("column({name}) values is null while columns is not nullable"),
            Self::TooLong { actual, limit } => format!(
                "column_name[{name}], the length of input is too long than schema. first 32 \
                 bytes of input str: [{shown}] schema length: {limit}; actual length: {actual}"
            ),
            Self::NotUtf8 => "Unable to display, only support csv data in utf8 codec".to_owned(),
            Self::NotJson(json) => format!(
                "column({name}), value '{shown}' is no JSON: {} at position {}",
                json.reason, json.at
            ),
            Self::NotSketch => format!("column({name}), value '{shown}': {}", must_use(column)),
            Self::NotNested(bad) => format!(
                "column({name}), value '{shown}' cannot be stored as {}: {}",
                column.type_text(),
                bad.reason()
            ),
            _ => format!("column({name}), value '{shown}' cannot be stored as {}", column.ty),
        }
    }
}

/// How a column of sketches is written to, in the words of Doris.
pub fn must_use(column: &Column) -> String {
    let (name, Some(kind)) = (&column.name, column.ty.sketch()) else { return String::new() };
    let (ty, function) = (kind.name(), kind.made_by());
    format!("{ty} column must use {function} function, like {name}={function}(xxx)")
}

fn unit(column: &Column) -> &'static str {
    match column.length_unit {
        _ if matches!(column.ty, ColumnType::Bit { .. }) => "bits",
        LengthUnit::Characters if column.ty.counts_characters() => "characters",
        _ => "bytes",
    }
}

/// MySQL's word for the type in "Incorrect ... value".
fn kind(ty: ColumnType) -> &'static str {
    match ty {
        _ if ty.is_integer() => "integer",
        ColumnType::Decimal { .. } => "decimal",
        ColumnType::Float => "float",
        ColumnType::Double => "double",
        ColumnType::Date => "date",
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => "datetime",
        ColumnType::Time { .. } => "time",
        _ => "string",
    }
}

/// The beginning of a list of labels.
struct Listed<'a>(&'a [String]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, label) in self.0.iter().enumerate() {
            if at == SHOWN_LABELS_MAX {
                return f.write_str(", ...");
            }
            write!(f, "{}'{}'", if at == 0 { "" } else { ", " }, Shown(label.as_bytes()))?;
        }
        Ok(())
    }
}

/// The beginning of a value, escaped for a message.
struct Shown<'a>(&'a [u8]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut left = SHOWN_CHARS_MAX;
        for chunk in self.0.utf8_chunks() {
            for shown in chunk.valid().chars() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                if shown.is_control() {
                    write!(f, "\\x{:02X}", u32::from(shown))?;
                } else {
                    f.write_char(shown)?;
                }
            }
            for byte in chunk.invalid() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}
