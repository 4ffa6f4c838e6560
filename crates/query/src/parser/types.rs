//! Parses the types of columns.

use freshet_base::{Error, Result, err};
use freshet_meta::ColumnSpec;
use freshet_schema::collation::COLLATIONS;
use freshet_schema::types::{BIT_LEN_MAX, FSP_MAX, VARCHAR_LEN_MAX};
use freshet_schema::value::nested::NESTING_MAX;
use freshet_schema::{Collation, ColumnType, LobSize};
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, refuse};

/// A type as it is written.
pub struct WrittenType {
    pub ty: ColumnType,
    /// UNSIGNED of a type that does not represent it itself.
    pub non_negative: bool,
    /// The list of an ENUM or SET.
    pub labels: Vec<String>,
    /// What an ARRAY, MAP or STRUCT consists of.
    pub elements: Vec<ColumnSpec>,
    /// COLLATE, or BINARY.
    pub collation: Option<Collation>,
    /// That of CHARACTER SET.
    pub of_charset: Option<Collation>,
    /// Of a TEXT or BLOB.
    pub lob_size: LobSize,
}

/// What stands behind the name of a type.
#[derive(Default)]
struct Attributes {
    unsigned: bool,
    collation: Option<Collation>,
    of_charset: Option<Collation>,
    /// BYTE: bytes in place of a text.
    is_bytes: bool,
}

/// Parses a type with its length, sign, character set and collation.
pub fn column_type(cursor: &mut Cursor<'_>) -> Result<WrittenType> {
    let mut inside = Inside::default();
    let written = type_inside(cursor, &mut inside)?;
    match inside.closed {
        0 => Ok(written),
        _ => Err(cursor.error()),
    }
}

/// Where a type stands among others.
#[derive(Default)]
struct Inside {
    /// The number of types around it.
    depth: usize,
    /// The number of types around it that the last token has closed: `>>` closes two.
    closed: usize,
}

fn type_inside(cursor: &mut Cursor<'_>, inside: &mut Inside) -> Result<WrittenType> {
    let name = cursor.peek_word(0).ok_or_else(|| cursor.error())?;
    let start = cursor.error();
    cursor.name()?;
    let name = of_several_words(cursor, name);
    if name == "ENUM" || name == "SET" {
        return labelled(cursor, name == "SET");
    }
    let nested = match name.as_str() {
        "ARRAY" => Some(ColumnType::Array),
        "MAP" => Some(ColumnType::Map),
        "STRUCT" => Some(ColumnType::Struct),
        _ => None,
    };
    if let Some(ty) = nested {
        return elements_of(cursor, ty, inside);
    }
    let arguments = arguments(cursor)?;
    let Attributes { unsigned, collation, of_charset, is_bytes } = attributes(cursor)?;
    let ty = of(&name, &arguments, unsigned)?.ok_or(start)?;
    let ty = if is_bytes { of_bytes(ty).ok_or_else(|| cursor.error())? } else { ty };
    let fractional =
        matches!(ty, ColumnType::Decimal { .. } | ColumnType::Float | ColumnType::Double);
    let (non_negative, labels, elements) = (unsigned && fractional, Vec::new(), Vec::new());
    let lob_size = size_of(&name, &arguments);
    Ok(WrittenType { ty, non_negative, labels, elements, collation, of_charset, lob_size })
}

/// The size of a TEXT or BLOB of this name, or of so many characters.
fn size_of(name: &str, arguments: &[u64]) -> LobSize {
    match name {
        "TINYTEXT" | "TINYBLOB" => LobSize::Tiny,
        "MEDIUMTEXT" | "MEDIUMBLOB" => LobSize::Medium,
        "LONGTEXT" | "LONGBLOB" => LobSize::Long,
        "TEXT" | "BLOB" => {
            let each = if name == "TEXT" { 4 } else { 1 };
            match arguments
                .first()
                .map_or(u64::from(u16::MAX), |length| length.saturating_mul(each))
            {
                0..=0xff => LobSize::Tiny,
                0x100..=0xffff => LobSize::Plain,
                0x1_0000..=0xff_ffff => LobSize::Medium,
                _ => LobSize::Long,
            }
        }
        _ => LobSize::Plain,
    }
}

/// The name of a type whose first word is this one, and whose others come next.
fn of_several_words(cursor: &mut Cursor<'_>, first: String) -> String {
    let varying = ["CHARACTER VARYING", "CHAR VARYING", "VARCHAR"];
    let name = match first.as_str() {
        "DOUBLE" => {
            cursor.words("PRECISION");
            return first;
        }
        "CHARACTER" | "CHAR" if cursor.words("VARYING") => "VARCHAR",
        "NCHAR" if cursor.one_of(&["VARCHAR", "VARYING"]).is_some() => "VARCHAR",
        "NATIONAL" if cursor.one_of(&varying).is_some() => "VARCHAR",
        "NATIONAL" if cursor.one_of(&["CHARACTER", "CHAR"]).is_some() => "CHAR",
        "LONG" if cursor.words("VARBINARY") => "MEDIUMBLOB",
        "LONG" => {
            cursor.one_of(&varying);
            "MEDIUMTEXT"
        }
        _ => return first,
    };
    name.to_owned()
}

/// The type of the bytes of texts.
fn of_bytes(ty: ColumnType) -> Option<ColumnType> {
    match ty {
        ColumnType::Char { len } => Some(ColumnType::Binary { len }),
        ColumnType::VarChar { len } => Some(ColumnType::VarBinary { len }),
        ColumnType::Text => Some(ColumnType::Blob),
        _ => None,
    }
}

/// Parses `<int>`, `<int,int>` or `<a:int,b:int>`.
fn elements_of(
    cursor: &mut Cursor<'_>,
    ty: ColumnType,
    around: &mut Inside,
) -> Result<WrittenType> {
    around.depth += 1;
    if around.depth > NESTING_MAX {
        return Err(err!(Unknown, "Type exceeds the maximum nesting depth of {NESTING_MAX}"));
    }
    cursor.expect(&Token::Lt)?;
    let mut elements = Vec::new();
    loop {
        let mut name = String::new();
        if ty == ColumnType::Struct {
            name = cursor.name()?;
            cursor.expect(&Token::Colon)?;
        }
        let written = type_inside(cursor, around)?;
        let WrittenType { ty: of, non_negative, labels, elements: own, .. } = written;
        let element = ColumnSpec::new(name, of);
        elements.push(ColumnSpec { non_negative, labels, elements: own, ..element });
        if around.closed > 0 || !cursor.token(&Token::Comma) {
            break;
        }
    }
    let is_whole = match ty {
        ColumnType::Array => elements.len() == 1,
        ColumnType::Map => elements.len() == 2,
        _ => true,
    };
    if !is_whole {
        return Err(cursor.error());
    }
    if around.closed > 0 {
        around.closed -= 1;
    } else if cursor.token(&Token::ShiftRight) {
        around.closed += 1;
    } else {
        cursor.expect(&Token::Gt)?;
    }
    around.depth -= 1;
    let (non_negative, labels) = (false, Vec::new());
    let (collation, of_charset, lob_size) = (None, None, LobSize::Plain);
    Ok(WrittenType { ty, non_negative, labels, elements, collation, of_charset, lob_size })
}

/// Parses the list of an ENUM or SET, whose texts lose blanks at their end.
fn labelled(cursor: &mut Cursor<'_>, is_set: bool) -> Result<WrittenType> {
    let label = |cursor: &mut Cursor<'_>| Ok(cursor.text()?.trim_end_matches(' ').to_owned());
    let labels = cursor.in_parens(label)?;
    let Attributes { collation, of_charset, .. } = attributes(cursor)?;
    let chars = |label: &String| u32::try_from(label.chars().count()).unwrap_or(u32::MAX);
    let ty = if is_set {
        let commas = u32::try_from(labels.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let len = labels.iter().map(chars).fold(commas, u32::saturating_add);
        ColumnType::Set { len }
    } else {
        ColumnType::Enum { len: labels.iter().map(chars).max().unwrap_or(0) }
    };
    let (non_negative, elements, lob_size) = (false, Vec::new(), LobSize::Plain);
    Ok(WrittenType { ty, non_negative, labels, elements, collation, of_charset, lob_size })
}

/// Parses `(10,2)`, or `(*)` as no arguments.
fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<u64>> {
    if !cursor.token(&Token::LParen) {
        return Ok(Vec::new());
    }
    let all = match cursor.token(&Token::Mul) {
        true => Vec::new(),
        false => cursor.list(Cursor::number)?,
    };
    cursor.expect(&Token::RParen)?;
    Ok(all)
}

/// Parses UNSIGNED, ZEROFILL, CHARACTER SET, ASCII, UNICODE, BYTE, BINARY and COLLATE.
fn attributes(cursor: &mut Cursor<'_>) -> Result<Attributes> {
    let mut found = Attributes::default();
    loop {
        if cursor.words("UNSIGNED") || cursor.words("ZEROFILL") {
            found.unsigned = true;
        } else if let Some(collation) = charset(cursor)? {
            found.of_charset = Some(collation);
        } else if cursor.words("ASCII") {
            found.of_charset = Collation::of_charset("ascii");
        } else if cursor.words("UNICODE") {
            found.of_charset = Collation::of_charset("ucs2");
        } else if cursor.words("BYTE") {
            found.is_bytes = true;
        } else if cursor.words("BINARY") {
            found.collation = found.collation.or(Some(Collation::Utf8mb4Bin));
        } else if cursor.words("COLLATE") {
            found.collation = Some(collate(cursor)?);
        } else if !cursor.words("SIGNED") {
            return Ok(found);
        }
    }
}

/// Parses CHARACTER SET, if it comes next; returns the collation that it means alone.
///
/// # Errors
/// 1115 for names that are not known.
pub fn charset(cursor: &mut Cursor<'_>) -> Result<Option<Collation>> {
    let is_next = cursor.one_of(&["CHARACTER SET", "CHARSET"]).is_some();
    is_next.then(|| charset_name(cursor)).transpose()
}

fn charset_name(cursor: &mut Cursor<'_>) -> Result<Collation> {
    cursor.token(&Token::Eq);
    let name = cursor.name_or_text()?;
    let found = Collation::of_charset(&name).map(of_text);
    found.ok_or_else(|| err!(UnknownCharset, "Unknown character set: '{name}'"))
}

/// Texts of MySQL's character set `binary` have the collation of texts that are compared by bytes.
fn of_text(collation: Collation) -> Collation {
    if collation == Collation::Binary { Collation::Utf8mb4Bin } else { collation }
}

/// Parses `[DEFAULT] CHARACTER SET [=] x` or `[DEFAULT] COLLATE [=] x` of a table or database, if
/// one comes next; returns whether one did.
///
/// # Errors
/// 1115 and 1273 for names that are not known.
pub fn default_collation(
    cursor: &mut Cursor<'_>,
    (named, of_charset): (&mut Option<Collation>, &mut Option<Collation>),
) -> Result<bool> {
    const CHARSET: [&str; 4] =
        ["DEFAULT CHARACTER SET", "DEFAULT CHARSET", "CHARACTER SET", "CHARSET"];
    if cursor.one_of(&CHARSET).is_some() {
        *of_charset = Some(charset_name(cursor)?);
    } else if cursor.one_of(&["DEFAULT COLLATE", "COLLATE"]).is_some() {
        cursor.token(&Token::Eq);
        *named = Some(collate(cursor)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Parses the name behind COLLATE. Texts of other character sets are stored as UTF-8, so a
/// collation of those stands for one of UTF-8.
///
/// # Errors
/// 1273 for names that are not known.
pub fn collate(cursor: &mut Cursor<'_>) -> Result<Collation> {
    let name = cursor.name_or_text()?;
    match Collation::standing_for(&name) {
        Some(collation) => Ok(of_text(collation)),
        None => {
            let known = COLLATIONS.map(Collation::name).join(", ");
            Err(err!(UnknownCollation, "Unknown collation: '{name}'; there are {known}"))
        }
    }
}

fn bits(len: u64) -> Result<ColumnType> {
    match u8::try_from(len.max(1)) {
        Ok(len) if len <= BIT_LEN_MAX => Ok(ColumnType::Bit { len }),
        _ => Err(err!(
            TooBigDisplayWidth,
            "Display width out of range for column (max = {BIT_LEN_MAX}): BIT({len}) has 1 to \
             {BIT_LEN_MAX} bits"
        )),
    }
}

/// The type of this name; `None` if it is unknown.
fn of(name: &str, arguments: &[u64], unsigned: bool) -> Result<Option<ColumnType>> {
    let argument = |at: usize| arguments.get(at).copied();
    let length = |otherwise: u32| -> Result<u32> {
        argument(0).map_or(Ok(otherwise), |length| {
            let wrong = || err!(TooLongColumn, "Column length too big (max = {VARCHAR_LEN_MAX})");
            u32::try_from(length).map_err(|_| wrong())
        })
    };
    let small = |value: Option<u64>, otherwise: u8| -> u8 {
        value.map_or(otherwise, |value| u8::try_from(value).unwrap_or(u8::MAX))
    };
    let fsp = || -> Result<u8> {
        match small(argument(0), 0) {
            fsp if fsp <= FSP_MAX => Ok(fsp),
            fsp => Err(err!(
                TooBigPrecision,
                "Too-big precision {fsp} specified. Maximum is {FSP_MAX}."
            )),
        }
    };
    Ok(Some(match name {
        "BOOLEAN" | "BOOL" => ColumnType::Boolean,
        "TINYINT" | "INT1" if argument(0) == Some(1) && !unsigned => ColumnType::Boolean,
        "TINYINT" | "INT1" => ColumnType::TinyInt { unsigned },
        "SMALLINT" | "INT2" => ColumnType::SmallInt { unsigned },
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => ColumnType::MediumInt { unsigned },
        "INT" | "INTEGER" | "INT4" => ColumnType::Int { unsigned },
        "BIGINT" | "INT8" => ColumnType::BigInt { unsigned },
        "LARGEINT" => ColumnType::LargeInt,
        "FLOAT" if argument(0).is_some_and(|bits| bits > 24) => ColumnType::Double,
        "FLOAT" | "FLOAT4" => ColumnType::Float,
        "DOUBLE" | "REAL" | "FLOAT8" => ColumnType::Double,
        "DECIMAL" | "NUMERIC" | "DEC" | "FIXED" | "DECIMALV2" | "DECIMALV3" => {
            // No digits are as many as where none are named.
            let precision = argument(0).filter(|&digits| digits > 0);
            ColumnType::Decimal { precision: small(precision, 10), scale: small(argument(1), 0) }
        }
        "DATE" | "DATEV2" | "DATEV1" => ColumnType::Date,
        "DATETIME" | "DATETIMEV2" | "DATETIMEV1" => ColumnType::DateTime { fsp: fsp()? },
        "TIMESTAMP" => ColumnType::Timestamp { fsp: fsp()? },
        "TIME" => ColumnType::Time { fsp: fsp()? },
        "BIT" => bits(argument(0).unwrap_or(1))?,
        "YEAR" if matches!(argument(0), None | Some(4)) => ColumnType::Year,
        "YEAR" => return Err(err!(InvalidYear, "Supports only YEAR or YEAR(4) column.")),
        "CHAR" | "NCHAR" | "CHARACTER" => ColumnType::Char { len: length(1)? },
        "VARCHAR" | "NVARCHAR" | "VARCHAR2" => {
            ColumnType::VarChar { len: length(VARCHAR_LEN_MAX)? }
        }
        "STRING" | "TEXT" | "TINYTEXT" | "MEDIUMTEXT" | "LONGTEXT" => ColumnType::Text,
        "BINARY" => ColumnType::Binary { len: length(1)? },
        "VARBINARY" => ColumnType::VarBinary { len: length(VARCHAR_LEN_MAX)? },
        "BLOB" | "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB" => ColumnType::Blob,
        "JSON" | "JSONB" => ColumnType::Json,
        "VARIANT" => ColumnType::Variant,
        "BITMAP" => ColumnType::Bitmap,
        "HLL" => ColumnType::Hll,
        "QUANTILE_STATE" | "GEOMETRY" | "POINT" | "IPV4" | "IPV6" => {
            let instead = match name {
                "IPV4" | "IPV6" => "; use VARCHAR",
                _ => "",
            };
            let refused = refuse(&format!("columns of type {name}"));
            return Err(Error::new(refused.code(), format!("{}{instead}", refused.message())));
        }
        _ => return Ok(None),
    }))
}
