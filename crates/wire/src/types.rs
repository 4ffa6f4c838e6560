//! Column types and collations by their numbers in the protocol.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ColumnType {
    /// DECIMAL before MySQL 5.0.
    OldDecimal = 0x00,
    /// TINYINT, BOOLEAN.
    Tiny = 0x01,
    /// SMALLINT.
    Short = 0x02,
    /// INT.
    Long = 0x03,
    Float = 0x04,
    Double = 0x05,
    /// The type of a bare NULL.
    Null = 0x06,
    Timestamp = 0x07,
    /// BIGINT.
    LongLong = 0x08,
    /// MEDIUMINT.
    Int24 = 0x09,
    Date = 0x0a,
    Time = 0x0b,
    DateTime = 0x0c,
    Year = 0x0d,
    /// VARCHAR as some clients send it in parameters; servers send [`ColumnType::VarString`].
    VarChar = 0x0f,
    Bit = 0x10,
    Json = 0xf5,
    /// DECIMAL.
    NewDecimal = 0xf6,
    Enum = 0xf7,
    Set = 0xf8,
    /// TINYBLOB, TINYTEXT.
    TinyBlob = 0xf9,
    /// MEDIUMBLOB, MEDIUMTEXT.
    MediumBlob = 0xfa,
    /// LONGBLOB, LONGTEXT.
    LongBlob = 0xfb,
    /// BLOB, TEXT.
    Blob = 0xfc,
    /// VARCHAR, VARBINARY.
    VarString = 0xfd,
    /// CHAR, BINARY.
    String = 0xfe,
    Geometry = 0xff,
}

impl ColumnType {
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::OldDecimal,
            0x01 => Self::Tiny,
            0x02 => Self::Short,
            0x03 => Self::Long,
            0x04 => Self::Float,
            0x05 => Self::Double,
            0x06 => Self::Null,
            0x07 => Self::Timestamp,
            0x08 => Self::LongLong,
            0x09 => Self::Int24,
            0x0a => Self::Date,
            0x0b => Self::Time,
            0x0c => Self::DateTime,
            0x0d => Self::Year,
            0x0f => Self::VarChar,
            0x10 => Self::Bit,
            0xf5 => Self::Json,
            0xf6 => Self::NewDecimal,
            0xf7 => Self::Enum,
            0xf8 => Self::Set,
            0xf9 => Self::TinyBlob,
            0xfa => Self::MediumBlob,
            0xfb => Self::LongBlob,
            0xfc => Self::Blob,
            0xfd => Self::VarString,
            0xfe => Self::String,
            0xff => Self::Geometry,
            _ => return None,
        })
    }

    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// A collation by its MySQL number; it determines the character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collation(pub u16);

/// The collations that clients use: number, character set and name.
const COLLATIONS: [(Collation, &str, &str); 18] = [
    (Collation::LATIN1_SWEDISH_CI, "latin1", "latin1_swedish_ci"),
    (Collation::ASCII_GENERAL_CI, "ascii", "ascii_general_ci"),
    (Collation::UTF8MB3_GENERAL_CI, "utf8mb3", "utf8mb3_general_ci"),
    (Collation(192), "utf8mb3", "utf8mb3_unicode_ci"),
    (Collation(83), "utf8mb3", "utf8mb3_bin"),
    (Collation(33), "utf8mb3", "utf8_general_ci"),
    (Collation(192), "utf8mb3", "utf8_unicode_ci"),
    (Collation(83), "utf8mb3", "utf8_bin"),
    (Collation::UTF8MB4_GENERAL_CI, "utf8mb4", "utf8mb4_general_ci"),
    (Collation::UTF8MB4_BIN, "utf8mb4", "utf8mb4_bin"),
    (Collation::UTF8MB4_UNICODE_CI, "utf8mb4", "utf8mb4_unicode_ci"),
    (Collation(246), "utf8mb4", "utf8mb4_unicode_520_ci"),
    (Collation::UTF8MB4_0900_AI_CI, "utf8mb4", "utf8mb4_0900_ai_ci"),
    (Collation(278), "utf8mb4", "utf8mb4_0900_as_cs"),
    (Collation(305), "utf8mb4", "utf8mb4_0900_as_ci"),
    (Collation(309), "utf8mb4", "utf8mb4_0900_bin"),
    (Collation(47), "latin1", "latin1_bin"),
    (Collation::BINARY, "binary", "binary"),
];

impl Collation {
    /// The collation of very old clients.
    pub const LATIN1_SWEDISH_CI: Self = Self(8);
    pub const ASCII_GENERAL_CI: Self = Self(11);
    pub const UTF8MB3_GENERAL_CI: Self = Self(33);
    pub const UTF8MB4_GENERAL_CI: Self = Self(45);
    pub const UTF8MB4_BIN: Self = Self(46);
    /// For bytes, and for everything that is not text: numbers, dates, times.
    pub const BINARY: Self = Self(63);
    pub const UTF8MB4_UNICODE_CI: Self = Self(224);
    /// The default of MySQL 8.
    pub const UTF8MB4_0900_AI_CI: Self = Self(255);

    /// The name, if it is in the list of collations that clients use.
    pub fn name(self) -> Option<&'static str> {
        COLLATIONS.iter().find(|(id, ..)| *id == self).map(|(_, _, name)| *name)
    }

    /// The name of its character set.
    pub fn charset(self) -> Option<&'static str> {
        COLLATIONS.iter().find(|(id, ..)| *id == self).map(|(_, charset, _)| *charset)
    }

    /// Looks up a name, case-insensitively; the old prefix `utf8_` means `utf8mb3_`.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = COLLATIONS.iter().find(|(_, _, known)| known.eq_ignore_ascii_case(name));
        found.map(|(id, ..)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_its_code() {
        let known = (0..=255u8).filter_map(ColumnType::from_code);
        let codes: Vec<u8> = known.map(ColumnType::code).collect();
        assert_eq!(codes.len(), 27);
        assert!(codes.iter().all(|c| ColumnType::from_code(*c).is_some_and(|t| t.code() == *c)));
    }

    #[test]
    fn collations_by_name_and_number() {
        assert_eq!(Collation(255).name(), Some("utf8mb4_0900_ai_ci"));
        assert_eq!(Collation(33).name(), Some("utf8mb3_general_ci"));
        assert_eq!(Collation::from_name("UTF8_general_ci"), Some(Collation(33)));
        assert_eq!(Collation(63).charset(), Some("binary"));
        assert_eq!(Collation::from_name("klingon_ci"), None);
    }
}
