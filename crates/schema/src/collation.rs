//! Collations: which texts are equal, and which comes first.

mod ascii;
pub mod bounds;
pub mod column;
pub mod fold;
mod general;
mod unicode;
pub mod weights;

/// How texts are compared. Characters are always those of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collation {
    /// By bytes: tables in Doris syntax.
    Binary,
    /// `utf8mb4_bin`, by bytes.
    Utf8mb4Bin,
    /// `utf8mb4_0900_bin`, by bytes.
    Utf8mb40900Bin,
    /// `utf8mb4_0900_ai_ci`: neither accents nor case.
    Utf8mb40900AiCi,
    /// `utf8mb4_0900_as_ci`: accents, but not case.
    Utf8mb40900AsCi,
    /// `utf8mb4_0900_as_cs`: accents and case.
    Utf8mb40900AsCs,
    /// `utf8mb4_general_ci`: character by character, neither accents nor case.
    Utf8mb4GeneralCi,
    /// `utf8mb4_unicode_ci`: as `utf8mb4_0900_ai_ci`, but for spaces at the end.
    Utf8mb4UnicodeCi,
    /// `utf8mb4_unicode_520_ci`: the same.
    Utf8mb4Unicode520Ci,
}

/// What a name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    Known(Collation),
    /// A collation of MySQL for this other character set.
    OfCharset(&'static str),
}

/// Character sets whose texts are stored as UTF-8 here, their collations, and what stands for them.
const OTHERS: [(&str, &str, Collation); 8] = [
    ("latin1", "latin1_swedish_ci", Collation::Utf8mb4GeneralCi),
    ("latin1", "latin1_general_ci", Collation::Utf8mb4GeneralCi),
    ("latin1", "latin1_general_cs", Collation::Utf8mb40900AsCs),
    ("latin1", "latin1_bin", Collation::Utf8mb4Bin),
    ("ascii", "ascii_general_ci", Collation::Utf8mb4GeneralCi),
    ("ascii", "ascii_bin", Collation::Utf8mb4Bin),
    ("binary", "binary", Collation::Binary),
    ("ucs2", "ucs2_general_ci", Collation::Utf8mb4GeneralCi),
];

/// The other character sets of MySQL, whose collations that are not named here ignore case.
const OTHER_CHARSETS: [&str; 38] = [
    "armscii8", "ascii", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866",
    "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew",
    "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce",
    "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32",
];

/// Every collation that a column can be given.
pub const COLLATIONS: [Collation; 8] = [
    Collation::Utf8mb4GeneralCi,
    Collation::Utf8mb4Bin,
    Collation::Utf8mb4UnicodeCi,
    Collation::Utf8mb4Unicode520Ci,
    Collation::Utf8mb40900AiCi,
    Collation::Utf8mb40900AsCs,
    Collation::Utf8mb40900AsCi,
    Collation::Utf8mb40900Bin,
];

impl Collation {
    /// What `utf8mb4` means alone, and a new server gives to databases: that of MySQL 8.
    pub const DEFAULT: Self = Self::Utf8mb40900AiCi;

    /// The collation of this name in any case, where `utf8mb3` and `utf8` are `utf8mb4`; `None` for
    /// a name that is not known.
    pub fn named(name: &str) -> Option<Named> {
        let name = name.to_ascii_lowercase();
        let own = ["utf8mb4_", "utf8mb3_", "utf8_"].iter().find_map(|set| name.strip_prefix(set));
        if let Some(rest) = own {
            let is_it = |known: &Self| known.name().strip_prefix("utf8mb4_") == Some(rest);
            return COLLATIONS.into_iter().find(is_it).map(Named::Known);
        }
        OTHERS.iter().find(|(_, other, _)| *other == name).map(|(set, ..)| Named::OfCharset(set))
    }

    /// That of a character set where only this is named, in any case, as in MySQL; `None` for one
    /// that is not known.
    pub fn of_charset(charset: &str) -> Option<Self> {
        let charset = charset.to_ascii_lowercase();
        match charset.as_str() {
            "utf8mb4" => Some(Self::DEFAULT),
            "binary" => Some(Self::Binary),
            "utf8mb3" | "utf8" => Some(Self::Utf8mb4GeneralCi),
            _ => OTHER_CHARSETS.contains(&charset.as_str()).then_some(Self::Utf8mb4GeneralCi),
        }
    }

    /// What stands for the collation of this name, where texts of its character set are stored as
    /// UTF-8; `None` for a name that is not known.
    pub fn standing_for(name: &str) -> Option<Self> {
        match Self::named(name)? {
            Named::Known(collation) => Some(collation),
            Named::OfCharset(_) => {
                let is_it = |(_, other, _): &&(&str, &str, Self)| other.eq_ignore_ascii_case(name);
                OTHERS.iter().find(is_it).map(|(.., collation)| *collation)
            }
        }
    }

    /// Its name in MySQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Utf8mb4Bin => "utf8mb4_bin",
            Self::Utf8mb40900Bin => "utf8mb4_0900_bin",
            Self::Utf8mb40900AiCi => "utf8mb4_0900_ai_ci",
            Self::Utf8mb40900AsCi => "utf8mb4_0900_as_ci",
            Self::Utf8mb40900AsCs => "utf8mb4_0900_as_cs",
            Self::Utf8mb4GeneralCi => "utf8mb4_general_ci",
            Self::Utf8mb4UnicodeCi => "utf8mb4_unicode_ci",
            Self::Utf8mb4Unicode520Ci => "utf8mb4_unicode_520_ci",
        }
    }

    /// Its number in MySQL.
    pub const fn number(self) -> u16 {
        match self {
            Self::Binary => 63,
            Self::Utf8mb4Bin => 46,
            Self::Utf8mb40900Bin => 309,
            Self::Utf8mb40900AiCi => 255,
            Self::Utf8mb40900AsCi => 305,
            Self::Utf8mb40900AsCs => 278,
            Self::Utf8mb4GeneralCi => 45,
            Self::Utf8mb4UnicodeCi => 224,
            Self::Utf8mb4Unicode520Ci => 246,
        }
    }

    /// The collation with this number in MySQL, of those that a column can be given.
    pub fn numbered(number: u16) -> Option<Self> {
        COLLATIONS.into_iter().find(|collation| collation.number() == number)
    }

    /// Whether texts are equal only if their bytes are, and in the order of their bytes.
    pub const fn is_by_bytes(self) -> bool {
        matches!(self, Self::Binary | Self::Utf8mb4Bin | Self::Utf8mb40900Bin)
    }

    /// Whether upper and lower case differ.
    pub const fn is_case_sensitive(self) -> bool {
        self.is_by_bytes() || matches!(self, Self::Utf8mb40900AsCs)
    }

    /// Whether spaces at the end of a text make no difference.
    pub const fn pads(self) -> bool {
        matches!(self, Self::Utf8mb4GeneralCi | Self::Utf8mb4UnicodeCi | Self::Utf8mb4Unicode520Ci)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_all_spellings_of_the_character_set() {
        for collation in COLLATIONS {
            assert_eq!(Collation::named(collation.name()), Some(Named::Known(collation)));
        }
        let general = Some(Named::Known(Collation::Utf8mb4GeneralCi));
        assert_eq!(Collation::named("UTF8_General_ci"), general);
        assert_eq!(Collation::named("latin1_bin"), Some(Named::OfCharset("latin1")));
        assert_eq!(Collation::standing_for("latin1_bin"), Some(Collation::Utf8mb4Bin));
        assert_eq!(Collation::named("utf8mb4_klingon_ci"), None);
        assert_eq!(Collation::named("utf8mb4_binary"), None);
        assert_eq!(Collation::of_charset("UTF8MB4"), Some(Collation::Utf8mb40900AiCi));
        assert_eq!(Collation::of_charset("latin1"), Some(Collation::Utf8mb4GeneralCi));
        assert_eq!(Collation::of_charset("klingon"), None);
    }
}
