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

/// The collations that clients use: number, character set and name. The first of a character set is
/// its default.
const COLLATIONS: [(u16, &str, &str); 84] = [
    (8, "latin1", "latin1_swedish_ci"),
    (5, "latin1", "latin1_german1_ci"),
    (15, "latin1", "latin1_danish_ci"),
    (31, "latin1", "latin1_german2_ci"),
    (47, "latin1", "latin1_bin"),
    (48, "latin1", "latin1_general_ci"),
    (49, "latin1", "latin1_general_cs"),
    (94, "latin1", "latin1_spanish_ci"),
    (11, "ascii", "ascii_general_ci"),
    (65, "ascii", "ascii_bin"),
    (33, "utf8mb3", "utf8mb3_general_ci"),
    (192, "utf8mb3", "utf8mb3_unicode_ci"),
    (83, "utf8mb3", "utf8mb3_bin"),
    (33, "utf8mb3", "utf8_general_ci"),
    (192, "utf8mb3", "utf8_unicode_ci"),
    (83, "utf8mb3", "utf8_bin"),
    (255, "utf8mb4", "utf8mb4_0900_ai_ci"),
    (45, "utf8mb4", "utf8mb4_general_ci"),
    (46, "utf8mb4", "utf8mb4_bin"),
    (224, "utf8mb4", "utf8mb4_unicode_ci"),
    (246, "utf8mb4", "utf8mb4_unicode_520_ci"),
    (278, "utf8mb4", "utf8mb4_0900_as_cs"),
    (305, "utf8mb4", "utf8mb4_0900_as_ci"),
    (309, "utf8mb4", "utf8mb4_0900_bin"),
    (63, "binary", "binary"),
    (1, "big5", "big5_chinese_ci"),
    (84, "big5", "big5_bin"),
    (26, "cp1250", "cp1250_general_ci"),
    (34, "cp1250", "cp1250_czech_cs"),
    (44, "cp1250", "cp1250_croatian_ci"),
    (66, "cp1250", "cp1250_bin"),
    (99, "cp1250", "cp1250_polish_ci"),
    (51, "cp1251", "cp1251_general_ci"),
    (14, "cp1251", "cp1251_bulgarian_ci"),
    (23, "cp1251", "cp1251_ukrainian_ci"),
    (50, "cp1251", "cp1251_bin"),
    (52, "cp1251", "cp1251_general_cs"),
    (57, "cp1256", "cp1256_general_ci"),
    (67, "cp1256", "cp1256_bin"),
    (59, "cp1257", "cp1257_general_ci"),
    (29, "cp1257", "cp1257_lithuanian_ci"),
    (58, "cp1257", "cp1257_bin"),
    (36, "cp866", "cp866_general_ci"),
    (68, "cp866", "cp866_bin"),
    (95, "cp932", "cp932_japanese_ci"),
    (96, "cp932", "cp932_bin"),
    (97, "eucjpms", "eucjpms_japanese_ci"),
    (98, "eucjpms", "eucjpms_bin"),
    (19, "euckr", "euckr_korean_ci"),
    (85, "euckr", "euckr_bin"),
    (248, "gb18030", "gb18030_chinese_ci"),
    (249, "gb18030", "gb18030_bin"),
    (250, "gb18030", "gb18030_unicode_520_ci"),
    (24, "gb2312", "gb2312_chinese_ci"),
    (86, "gb2312", "gb2312_bin"),
    (28, "gbk", "gbk_chinese_ci"),
    (87, "gbk", "gbk_bin"),
    (25, "greek", "greek_general_ci"),
    (70, "greek", "greek_bin"),
    (16, "hebrew", "hebrew_general_ci"),
    (71, "hebrew", "hebrew_bin"),
    (7, "koi8r", "koi8r_general_ci"),
    (74, "koi8r", "koi8r_bin"),
    (22, "koi8u", "koi8u_general_ci"),
    (75, "koi8u", "koi8u_bin"),
    (9, "latin2", "latin2_general_ci"),
    (2, "latin2", "latin2_czech_cs"),
    (21, "latin2", "latin2_hungarian_ci"),
    (27, "latin2", "latin2_croatian_ci"),
    (77, "latin2", "latin2_bin"),
    (30, "latin5", "latin5_turkish_ci"),
    (78, "latin5", "latin5_bin"),
    (41, "latin7", "latin7_general_ci"),
    (20, "latin7", "latin7_estonian_cs"),
    (42, "latin7", "latin7_general_cs"),
    (79, "latin7", "latin7_bin"),
    (39, "macroman", "macroman_general_ci"),
    (53, "macroman", "macroman_bin"),
    (13, "sjis", "sjis_japanese_ci"),
    (88, "sjis", "sjis_bin"),
    (18, "tis620", "tis620_thai_ci"),
    (89, "tis620", "tis620_bin"),
    (12, "ujis", "ujis_japanese_ci"),
    (91, "ujis", "ujis_bin"),
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
        COLLATIONS.iter().find(|(id, ..)| *id == self.0).map(|(_, _, name)| *name)
    }

    /// The name of its character set.
    pub fn charset(self) -> Option<&'static str> {
        COLLATIONS.iter().find(|(id, ..)| *id == self.0).map(|(_, charset, _)| *charset)
    }

    /// Looks up a name, case-insensitively; the old prefix `utf8_` means `utf8mb3_`.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = COLLATIONS.iter().find(|(_, _, known)| known.eq_ignore_ascii_case(name));
        found.map(|(id, ..)| Self(*id))
    }

    /// The default collation of a character set of clients, in any case.
    pub fn of_charset(name: &str) -> Option<Self> {
        let found = COLLATIONS.iter().find(|(_, charset, _)| charset.eq_ignore_ascii_case(name));
        found.map(|(id, ..)| Self(*id))
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
        assert_eq!(Collation::of_charset("GBK"), Some(Collation(28)));
        assert_eq!(Collation::of_charset("utf8mb4"), Some(Collation::UTF8MB4_0900_AI_CI));
        assert_eq!(Collation::of_charset("utf16"), None);
    }

    #[test]
    fn what_is_not_utf8_of_the_character_sets_can_be_converted() {
        for (_, charset, name) in COLLATIONS {
            let is_own = matches!(charset, "utf8mb3" | "utf8mb4" | "binary");
            assert_eq!(freshet_base::Charset::of_client(charset).is_none(), is_own, "{name}");
            assert!(name == charset || name.starts_with(charset) || is_own, "{name}");
        }
    }
}
