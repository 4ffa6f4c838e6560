//! Column types: what users write, and what Arrow holds.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

/// The longest CHAR, in the column's unit of length.
pub const CHAR_LEN_MAX: u32 = 255;
/// The longest VARCHAR and VARBINARY, in the column's unit of length.
pub const VARCHAR_LEN_MAX: u32 = 65_533;
/// The longest TEXT, BLOB and JSON value, in bytes; a row must fit a log record.
pub const TEXT_BYTES_MAX: u32 = 1 << 24;
/// The most digits of a DECIMAL.
pub const DECIMAL_PRECISION_MAX: u8 = 38;
/// DECIMALs of up to this many digits take 8 bytes in a row, longer ones 16.
pub const DECIMAL_PRECISION_I64_MAX: u8 = 18;
/// The most fractional digits of a second.
pub const FSP_MAX: u8 = 6;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// BOOLEAN, which is TINYINT(1).
    Boolean,
    /// TINYINT, 8 bits.
    TinyInt {
        /// Without sign.
        unsigned: bool,
    },
    /// SMALLINT, 16 bits.
    SmallInt {
        /// Without sign.
        unsigned: bool,
    },
    /// MEDIUMINT, 24 bits, held in 32.
    MediumInt {
        /// Without sign.
        unsigned: bool,
    },
    /// INT, 32 bits.
    Int {
        /// Without sign.
        unsigned: bool,
    },
    /// BIGINT, 64 bits.
    BigInt {
        /// Without sign.
        unsigned: bool,
    },
    /// LARGEINT, 128 bits, Doris's.
    LargeInt,
    /// FLOAT, 32 bits.
    Float,
    /// DOUBLE, 64 bits.
    Double,
    /// DECIMAL(precision, scale).
    Decimal {
        /// All digits, 1 to 38.
        precision: u8,
        /// Digits behind the point, at most `precision`.
        scale: u8,
    },
    /// DATE.
    Date,
    /// DATETIME(fsp): wall time without zone, microseconds.
    DateTime {
        /// Fractional digits, 0 to 6.
        fsp: u8,
    },
    /// TIMESTAMP(fsp): an instant, stored in UTC, microseconds.
    Timestamp {
        /// Fractional digits, 0 to 6.
        fsp: u8,
    },
    /// CHAR(len).
    Char {
        /// Longest value, in the column's unit.
        len: u32,
    },
    /// VARCHAR(len).
    VarChar {
        /// Longest value, in the column's unit.
        len: u32,
    },
    /// STRING and TEXT.
    Text,
    /// BINARY(len) and VARBINARY(len), bytes.
    VarBinary {
        /// Longest value, in bytes.
        len: u32,
    },
    /// BLOB.
    Blob,
    /// JSON, held as normalised text.
    Json,
}

/// How the value of a column stands in an encoded row (see `row`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// So many bytes, little endian.
    Fixed(usize),
    /// A LEB128 length and so many bytes.
    Bytes,
}

impl ColumnType {
    /// The Arrow type of the column in chunks and segments.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Boolean | Self::TinyInt { unsigned: false } => DataType::Int8,
            Self::TinyInt { unsigned: true } => DataType::UInt8,
            Self::SmallInt { unsigned: false } => DataType::Int16,
            Self::SmallInt { unsigned: true } => DataType::UInt16,
            Self::MediumInt { unsigned: false } | Self::Int { unsigned: false } => DataType::Int32,
            Self::MediumInt { unsigned: true } | Self::Int { unsigned: true } => DataType::UInt32,
            Self::BigInt { unsigned: false } => DataType::Int64,
            Self::BigInt { unsigned: true } => DataType::UInt64,
            // 128 bits need 39 digits, one more than Decimal128 has.
            Self::LargeInt => DataType::Decimal256(39, 0),
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal { precision, scale } => {
                DataType::Decimal128(precision, scale.cast_signed())
            }
            Self::Date => DataType::Date32,
            Self::DateTime { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamp { .. } => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
            }
            Self::Char { .. } | Self::VarChar { .. } | Self::Text | Self::Json => {
                DataType::Utf8View
            }
            Self::VarBinary { .. } | Self::Blob => DataType::BinaryView,
        }
    }

    /// How a value stands in an encoded row.
    pub const fn layout(self) -> Layout {
        match self {
            Self::Boolean | Self::TinyInt { .. } => Layout::Fixed(1),
            Self::SmallInt { .. } => Layout::Fixed(2),
            Self::MediumInt { .. } | Self::Int { .. } | Self::Float | Self::Date => {
                Layout::Fixed(4)
            }
            Self::BigInt { .. } | Self::Double | Self::DateTime { .. } | Self::Timestamp { .. } => {
                Layout::Fixed(8)
            }
            Self::Decimal { precision, .. } if precision <= DECIMAL_PRECISION_I64_MAX => {
                Layout::Fixed(8)
            }
            Self::Decimal { .. } | Self::LargeInt => Layout::Fixed(16),
            Self::Char { .. }
            | Self::VarChar { .. }
            | Self::Text
            | Self::VarBinary { .. }
            | Self::Blob
            | Self::Json => Layout::Bytes,
        }
    }

    /// Whether values are text (or JSON text).
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Char { .. } | Self::VarChar { .. } | Self::Text | Self::Json)
    }

    /// Whether the length of the type may count characters: TEXT and JSON always count bytes.
    pub const fn counts_characters(self) -> bool {
        matches!(self, Self::Char { .. } | Self::VarChar { .. })
    }

    /// Whether values are bytes without a character set.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::VarBinary { .. } | Self::Blob)
    }

    /// Whether values are numbers.
    pub const fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, Self::Float | Self::Double | Self::Decimal { .. })
    }

    /// Whether the type is an integer, BOOLEAN and LARGEINT included.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Boolean
                | Self::TinyInt { .. }
                | Self::SmallInt { .. }
                | Self::MediumInt { .. }
                | Self::Int { .. }
                | Self::BigInt { .. }
                | Self::LargeInt
        )
    }

    /// Whether the type is a date, with a time of day or without.
    pub const fn is_temporal(self) -> bool {
        matches!(self, Self::Date | Self::DateTime { .. } | Self::Timestamp { .. })
    }

    /// Whether the type is an integer without sign.
    pub const fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::TinyInt { unsigned: true }
                | Self::SmallInt { unsigned: true }
                | Self::MediumInt { unsigned: true }
                | Self::Int { unsigned: true }
                | Self::BigInt { unsigned: true }
        )
    }

    /// Whether Doris takes the type as a key column.
    pub const fn can_be_key(self) -> bool {
        !matches!(self, Self::Float | Self::Double | Self::Text | Self::Blob | Self::Json)
    }

    /// The name of the type without length, as `information_schema.columns.DATA_TYPE`.
    pub const fn data_type_name(self) -> &'static str {
        match self {
            Self::Boolean | Self::TinyInt { .. } => "tinyint",
            Self::SmallInt { .. } => "smallint",
            Self::MediumInt { .. } => "mediumint",
            Self::Int { .. } => "int",
            Self::BigInt { .. } => "bigint",
            Self::LargeInt => "largeint",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { .. } => "decimal",
            Self::Date => "date",
            Self::DateTime { .. } => "datetime",
            Self::Timestamp { .. } => "timestamp",
            Self::Char { .. } => "char",
            Self::VarChar { .. } => "varchar",
            Self::Text => "text",
            Self::VarBinary { .. } => "varbinary",
            Self::Blob => "blob",
            Self::Json => "json",
        }
    }
}

/// The type as DESC and SHOW CREATE TABLE print it, in MySQL's words.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.data_type_name();
        match *self {
            Self::Boolean => f.write_str("tinyint(1)"),
            Self::Decimal { precision, scale } => write!(f, "{name}({precision},{scale})"),
            Self::DateTime { fsp: 0 } | Self::Timestamp { fsp: 0 } => f.write_str(name),
            Self::DateTime { fsp } | Self::Timestamp { fsp } => write!(f, "{name}({fsp})"),
            Self::Char { len } | Self::VarChar { len } | Self::VarBinary { len } => {
                write!(f, "{name}({len})")
            }
            _ if self.is_unsigned() => write!(f, "{name} unsigned"),
            _ => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_as_mysql_prints_them() {
        assert_eq!(ColumnType::BigInt { unsigned: true }.to_string(), "bigint unsigned");
        assert_eq!(ColumnType::Decimal { precision: 15, scale: 2 }.to_string(), "decimal(15,2)");
        assert_eq!(ColumnType::Boolean.to_string(), "tinyint(1)");
        assert_eq!(ColumnType::DateTime { fsp: 3 }.to_string(), "datetime(3)");
        assert_eq!(ColumnType::VarChar { len: 50 }.to_string(), "varchar(50)");
    }

    #[test]
    fn long_decimals_take_sixteen_bytes() {
        let decimal = |precision| ColumnType::Decimal { precision, scale: 2 }.layout();
        assert_eq!(decimal(18), Layout::Fixed(8));
        assert_eq!(decimal(19), Layout::Fixed(16));
    }
}
