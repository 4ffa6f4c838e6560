//! Column types and their Arrow counterparts.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

/// The longest CHAR, in the column's unit of length.
pub const CHAR_LEN_MAX: u32 = 255;
/// The longest VARCHAR and VARBINARY, in the column's unit of length.
pub const VARCHAR_LEN_MAX: u32 = 65_533;
/// The longest TEXT, BLOB and JSON value, in bytes; a row must fit in a log record.
pub const TEXT_BYTES_MAX: u32 = 1 << 24;
pub const DECIMAL_PRECISION_MAX: u8 = 38;
/// DECIMALs of up to this many digits take 8 bytes in a row, longer ones 16.
pub const DECIMAL_PRECISION_I64_MAX: u8 = 18;
pub const FSP_MAX: u8 = 6;

/// The type of a column. It is serialized for the metadata of query results, never to disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ColumnType {
    /// A synonym of TINYINT(1).
    Boolean,
    TinyInt {
        unsigned: bool,
    },
    SmallInt {
        unsigned: bool,
    },
    /// 24 bits, stored in 32.
    MediumInt {
        unsigned: bool,
    },
    Int {
        unsigned: bool,
    },
    BigInt {
        unsigned: bool,
    },
    /// 128 bits; a type of Doris.
    LargeInt,
    Float,
    Double,
    Decimal {
        /// Total digits, 1 to 38.
        precision: u8,
        /// Fraction digits, at most `precision`.
        scale: u8,
    },
    Date,
    /// Local time without a zone, in microseconds.
    DateTime {
        /// Fraction digits, 0 to 6.
        fsp: u8,
    },
    /// An instant in UTC, in microseconds.
    Timestamp {
        /// Fraction digits, 0 to 6.
        fsp: u8,
    },
    /// A signed length of time, up to 838:59:59, in microseconds.
    Time {
        /// Fraction digits, 0 to 6.
        fsp: u8,
    },
    /// 1901 to 2155, or 0.
    Year,
    Char {
        /// In the column's [`LengthUnit`](crate::LengthUnit).
        len: u32,
    },
    VarChar {
        /// In the column's [`LengthUnit`](crate::LengthUnit).
        len: u32,
    },
    /// STRING and TEXT.
    Text,
    /// Padded with zero bytes.
    Binary {
        /// In bytes.
        len: u32,
    },
    VarBinary {
        /// In bytes.
        len: u32,
    },
    Blob,
    /// Stored as normalised text.
    Json,
    /// A type of Doris; stored as JSON.
    Variant,
    /// Of one of the column's [elements](crate::Column::elements) each; stored as text (`nested`).
    Array,
    /// From the first of the column's [elements](crate::Column::elements) to the second.
    Map,
    /// Its fields are the column's [elements](crate::Column::elements).
    Struct,
    /// BIT: as many bits, shown as their bytes and otherwise a number.
    Bit {
        /// 1 to 64.
        len: u8,
    },
    /// One of the column's [labels](crate::Column::labels), stored as its text.
    Enum {
        /// Characters of the longest label.
        len: u32,
    },
    /// Any of the column's [labels](crate::Column::labels), stored as their texts with commas.
    Set {
        /// Characters of all labels together.
        len: u32,
    },
    /// A set of numbers ([`sketch`](crate::sketch)).
    Bitmap,
    /// About how many different values there were ([`sketch`](crate::sketch)).
    Hll,
}

/// The maximum number of bits of a BIT.
pub const BIT_LEN_MAX: u8 = 64;

/// How a cell is encoded (see `row`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// This many bytes, little endian.
    Fixed(usize),
    /// A LEB128 length and that many bytes.
    Bytes,
}

impl ColumnType {
    /// The Arrow type in delta chunks and segments.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Boolean | Self::TinyInt { unsigned: false } => DataType::Int8,
            Self::TinyInt { unsigned: true } => DataType::UInt8,
            Self::SmallInt { unsigned: false } => DataType::Int16,
            Self::SmallInt { unsigned: true } | Self::Year => DataType::UInt16,
            Self::MediumInt { unsigned: false } | Self::Int { unsigned: false } => DataType::Int32,
            Self::MediumInt { unsigned: true } | Self::Int { unsigned: true } => DataType::UInt32,
            Self::BigInt { unsigned: false } => DataType::Int64,
            Self::BigInt { unsigned: true } | Self::Bit { .. } => DataType::UInt64,
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
            Self::Time { .. } => DataType::Duration(TimeUnit::Microsecond),
            Self::Char { .. }
            | Self::VarChar { .. }
            | Self::Text
            | Self::Json
            | Self::Variant
            | Self::Array
            | Self::Map
            | Self::Struct
            | Self::Enum { .. }
            | Self::Set { .. } => DataType::Utf8View,
            Self::Binary { .. }
            | Self::VarBinary { .. }
            | Self::Blob
            | Self::Bitmap
            | Self::Hll => DataType::BinaryView,
        }
    }

    pub const fn layout(self) -> Layout {
        match self {
            Self::Boolean | Self::TinyInt { .. } => Layout::Fixed(1),
            Self::SmallInt { .. } | Self::Year => Layout::Fixed(2),
            Self::MediumInt { .. } | Self::Int { .. } | Self::Float | Self::Date => {
                Layout::Fixed(4)
            }
            Self::BigInt { .. }
            | Self::Double
            | Self::DateTime { .. }
            | Self::Timestamp { .. }
            | Self::Time { .. }
            | Self::Bit { .. } => Layout::Fixed(8),
            Self::Decimal { precision, .. } if precision <= DECIMAL_PRECISION_I64_MAX => {
                Layout::Fixed(8)
            }
            Self::Decimal { .. } | Self::LargeInt => Layout::Fixed(16),
            Self::Char { .. }
            | Self::VarChar { .. }
            | Self::Text
            | Self::Binary { .. }
            | Self::VarBinary { .. }
            | Self::Blob
            | Self::Json
            | Self::Variant
            | Self::Array
            | Self::Map
            | Self::Struct
            | Self::Enum { .. }
            | Self::Set { .. }
            | Self::Bitmap
            | Self::Hll => Layout::Bytes,
        }
    }

    /// CHAR, VARCHAR, TEXT, ENUM, SET, and [documents](Self::is_document).
    pub const fn is_text(self) -> bool {
        self.has_collation() || self.is_document()
    }

    /// Whether values compare by a collation: CHAR, VARCHAR, TEXT, ENUM, SET. What MySQL tells of
    /// the character set and collation of other columns is NULL, those of JSON as well.
    pub const fn has_collation(self) -> bool {
        self.is_collated() || self.is_labelled()
    }

    /// Whether values are JSON: JSON, VARIANT.
    pub const fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Variant)
    }

    /// Whether values consist of values: ARRAY, MAP, STRUCT.
    pub const fn is_nested(self) -> bool {
        matches!(self, Self::Array | Self::Map | Self::Struct)
    }

    /// Whether values are stored as texts with a structure: JSON, VARIANT, ARRAY, MAP, STRUCT.
    pub const fn is_document(self) -> bool {
        self.is_json() || self.is_nested()
    }

    /// Whether values are texts that keys can have by the weights of a collation.
    pub const fn is_collated(self) -> bool {
        matches!(self, Self::Char { .. } | Self::VarChar { .. } | Self::Text)
    }

    /// Whether values are labels: ENUM, SET.
    pub const fn is_labelled(self) -> bool {
        matches!(self, Self::Enum { .. } | Self::Set { .. })
    }

    /// Whether the declared length may count characters; that of TEXT and JSON always counts bytes.
    pub const fn counts_characters(self) -> bool {
        matches!(self, Self::Char { .. } | Self::VarChar { .. }) || self.is_labelled()
    }

    /// Whether values are bytes without a character set.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Binary { .. } | Self::VarBinary { .. } | Self::Blob)
    }

    pub const fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, Self::Float | Self::Double | Self::Decimal { .. })
    }

    /// BOOLEAN, LARGEINT, YEAR and BIT included.
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
                | Self::Year
                | Self::Bit { .. }
        )
    }

    /// The highest id that AUTO_INCREMENT may generate for a column of this type, and the bytes of
    /// its cell; `None` for types that take no generated ids.
    pub const fn generated_ids(self) -> Option<(u64, usize)> {
        let (bits, unsigned, bytes) = match self {
            Self::TinyInt { unsigned } => (8, unsigned, 1),
            Self::SmallInt { unsigned } => (16, unsigned, 2),
            Self::MediumInt { unsigned } => (24, unsigned, 4),
            Self::Int { unsigned } => (32, unsigned, 4),
            // As in MySQL, the highest 64-bit number is never generated.
            Self::BigInt { unsigned: true } => return Some((u64::MAX - 1, 8)),
            Self::BigInt { unsigned: false } => (64, false, 8),
            _ => return None,
        };
        let bits = if unsigned { bits } else { bits - 1 };
        Some(((1 << bits) - 1, bytes))
    }

    /// DATE, DATETIME, TIMESTAMP.
    pub const fn is_temporal(self) -> bool {
        matches!(self, Self::Date | Self::DateTime { .. } | Self::Timestamp { .. })
    }

    pub const fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::TinyInt { unsigned: true }
                | Self::SmallInt { unsigned: true }
                | Self::MediumInt { unsigned: true }
                | Self::Int { unsigned: true }
                | Self::BigInt { unsigned: true }
                | Self::Year
                | Self::Bit { .. }
        )
    }

    /// Whether Doris accepts the type for a key column.
    pub const fn can_be_key(self) -> bool {
        !matches!(self, Self::Float | Self::Double | Self::Text | Self::Blob)
            && !self.is_document()
            && self.sketch().is_none()
    }

    /// The name without length, as in `information_schema.columns.DATA_TYPE`.
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
            Self::Time { .. } => "time",
            Self::Year => "year",
            Self::Char { .. } => "char",
            Self::VarChar { .. } => "varchar",
            Self::Text => "text",
            Self::Binary { .. } => "binary",
            Self::VarBinary { .. } => "varbinary",
            Self::Blob => "blob",
            Self::Json => "json",
            Self::Variant => "variant",
            Self::Array => "array",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Bit { .. } => "bit",
            Self::Enum { .. } => "enum",
            Self::Set { .. } => "set",
            Self::Bitmap => "bitmap",
            Self::Hll => "hll",
        }
    }
}

/// The type as DESC and SHOW CREATE TABLE print it.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.data_type_name();
        match *self {
            Self::Boolean => f.write_str("tinyint(1)"),
            Self::Decimal { precision, scale } => write!(f, "{name}({precision},{scale})"),
            Self::DateTime { fsp: 0 } | Self::Timestamp { fsp: 0 } | Self::Time { fsp: 0 } => {
                f.write_str(name)
            }
            Self::DateTime { fsp } | Self::Timestamp { fsp } | Self::Time { fsp } => {
                write!(f, "{name}({fsp})")
            }
            Self::Bit { len } => write!(f, "{name}({len})"),
            Self::Year => f.write_str(name),
            Self::Char { len }
            | Self::VarChar { len }
            | Self::Binary { len }
            | Self::VarBinary { len } => write!(f, "{name}({len})"),
            _ if self.is_unsigned() => write!(f, "{name} unsigned"),
            _ => f.write_str(name),
        }
    }
}

/// The bytes of hex digits; `None` for other text. With an odd number of digits the first is a byte
/// of its own.
pub fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut bytes = digits.as_bytes().rchunks(2).map(byte).collect::<Option<Vec<_>>>()?;
    bytes.reverse();
    is_hex.then_some(bytes)
}

/// The size of which a TEXT or BLOB was declared, from the shortest one on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LobSize {
    Tiny,
    #[default]
    Plain,
    Medium,
    Long,
}

impl LobSize {
    /// What stands before `text` or `blob`.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Plain => "",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }

    /// The bytes that MySQL stores of a value of this size at most; `None` of a plain one, which
    /// is limited as all are here.
    pub const fn bytes_max(self) -> Option<u32> {
        match self {
            Self::Tiny => Some((1 << 8) - 1),
            Self::Plain => None,
            Self::Medium => Some((1 << 24) - 1),
            Self::Long => Some(u32::MAX),
        }
    }

    /// The bytes that a value of this size has here at most.
    pub fn stored_bytes_max(self) -> u32 {
        self.bytes_max().unwrap_or(TEXT_BYTES_MAX).min(TEXT_BYTES_MAX)
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
