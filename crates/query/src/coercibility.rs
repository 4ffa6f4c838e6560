//! The collation of an expression, and how strongly it has it: where two meet, the stronger one
//! decides.

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use freshet_schema::{Collation, Column};

/// Coercibility, with MySQL's numbers: the lower, the stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strength {
    /// COLLATE.
    Explicit = 0,
    /// Of columns with different collations: none.
    Conflict = 1,
    /// A column.
    Implicit = 2,
    /// A literal, or what is computed of literals: it has the collation of the connection.
    Coercible = 4,
    /// What is no text.
    Numeric = 5,
    /// NULL.
    Ignorable = 6,
}

/// A collation and its strength.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Derived {
    pub collation: Collation,
    pub strength: Strength,
}

impl Derived {
    /// Its key in the metadata of a field. A text without it is compared by bytes, as a column.
    pub const KEY: &'static str = "collation";

    /// Texts of columns that are compared by bytes.
    pub const BYTES: Self = Self { collation: Collation::Utf8mb4Bin, strength: Strength::Implicit };

    /// The texts of a column.
    pub const fn column(collation: Collation) -> Self {
        Self { collation, strength: Strength::Implicit }
    }

    /// What the field of a stored column says; `None` where it needs to say nothing: of bytes, of
    /// JSON, and of what is no text.
    pub fn stored(column: &Column) -> Option<Self> {
        let is_text = column.ty.is_text() && !column.ty.is_document();
        (is_text && !column.collation.is_by_bytes()).then(|| Self::column(column.collation))
    }

    /// The metadata of an expression that says it.
    pub fn metadata(self) -> FieldMetadata {
        FieldMetadata::from(BTreeMap::from([(Self::KEY.to_owned(), self.encode())]))
    }

    /// What the metadata of an expression says.
    pub fn said(metadata: Option<&FieldMetadata>) -> Option<Self> {
        Self::parse(metadata?.inner().get(Self::KEY)?)
    }

    /// The value for the metadata of a field.
    pub fn encode(self) -> String {
        format!("{}:{}", self.collation.number(), self.strength as u8)
    }

    /// What the metadata of a field says.
    pub fn decode(field: &Field) -> Option<Self> {
        Self::parse(field.metadata().get(Self::KEY)?)
    }

    /// The meaning of an encoded value.
    fn parse(encoded: &str) -> Option<Self> {
        let (number, strength) = encoded.split_once(':')?;
        let number = number.parse::<u16>().ok()?;
        let collation = match Collation::numbered(number) {
            None if number == Collation::Binary.number() => Collation::Binary,
            found => found?,
        };
        let strength = match strength {
            "0" => Strength::Explicit,
            "1" => Strength::Conflict,
            "2" => Strength::Implicit,
            "4" => Strength::Coercible,
            "5" => Strength::Numeric,
            "6" => Strength::Ignorable,
            _ => return None,
        };
        Some(Self { collation, strength })
    }

    /// That of both together; `None` if both are explicit and differ.
    pub fn joined(self, other: Self) -> Option<Self> {
        if self.strength != other.strength {
            return Some(if self.strength < other.strength { self } else { other });
        }
        if self.collation == other.collation {
            return Some(self);
        }
        match (self.strength, self.collation.is_by_bytes(), other.collation.is_by_bytes()) {
            (Strength::Explicit, ..) => None,
            (_, true, _) => Some(self),
            (_, false, true) => Some(other),
            (Strength::Implicit, ..) => {
                Some(Self { collation: Collation::Utf8mb4Bin, strength: Strength::Conflict })
            }
            _ => Some(self),
        }
    }

    /// As messages show it.
    pub fn shown(self) -> String {
        let strength = match self.strength {
            Strength::Explicit => "EXPLICIT",
            Strength::Conflict => "NONE",
            Strength::Implicit => "IMPLICIT",
            Strength::Coercible => "COERCIBLE",
            Strength::Numeric => "NUMERIC",
            Strength::Ignorable => "IGNORABLE",
        };
        format!("({},{strength})", self.collation.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_collation_decides() {
        let of = |collation, strength| Derived { collation, strength };
        let general = of(Collation::Utf8mb4GeneralCi, Strength::Implicit);
        let unicode = of(Collation::Utf8mb4UnicodeCi, Strength::Implicit);
        let literal = of(Collation::Utf8mb40900AiCi, Strength::Coercible);
        let said = of(Collation::Utf8mb4UnicodeCi, Strength::Explicit);
        assert_eq!(general.joined(literal), Some(general));
        assert_eq!(literal.joined(general), Some(general));
        assert_eq!(general.joined(Derived::BYTES), Some(Derived::BYTES));
        assert_eq!(Derived::BYTES.joined(general), Some(Derived::BYTES));
        assert_eq!(general.joined(unicode).unwrap().strength, Strength::Conflict);
        assert_eq!(general.joined(said), Some(said));
        assert_eq!(said.joined(of(Collation::Utf8mb4Bin, Strength::Explicit)), None);
        for derived in [general, literal, said, Derived::BYTES] {
            assert_eq!(Derived::parse(&derived.encode()), Some(derived));
        }
    }
}
