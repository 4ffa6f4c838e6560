use freshet_base::{Result, bail};
use freshet_schema::{Charset, Collation};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Expr, Ident, ObjectName,
    StructField,
};

use super::values::{call, int, number, take, text};
use crate::functions::convert_charset;
use crate::functions::nested_cast::{NESTED, column_of};

/// Maximum number of fractional digits of a time.
const DIGITS_MAX: u64 = 6;
/// Maximum number of binary digits for a FLOAT; above, it is a DOUBLE.
const FLOAT_DIGITS_MAX: u64 = 24;
/// Maximum precision of a DECIMAL in MySQL; ours is limited to that of a column.
const PRECISION_MAX: u64 = 65;

/// Rewrites CAST or CONVERT after its operand.
pub fn converted(expr: &mut Expr) -> Result<()> {
    let (inner, data_type) = match expr {
        Expr::Cast { expr, data_type, .. } => (expr, Some(data_type.clone())),
        Expr::Convert { expr: inner, charset: Some(charset), .. } => {
            *expr = using(number(take(inner)), charset.to_string().trim_matches(['`', '\'', '"']))?;
            return Ok(());
        }
        Expr::Convert { expr, data_type, .. } => (expr, data_type.clone()),
        _ => return Ok(()),
    };
    let inner = number(take(inner));
    let Some(data_type) = data_type else {
        *expr = call("mysql_char", vec![inner]);
        return Ok(());
    };
    *expr = cast_to(inner, &data_type)?;
    Ok(())
}

/// `CONVERT(x USING charset)`: all text is UTF-8, so a text stays, and bytes become one.
pub fn using(inner: Expr, charset: &str) -> Result<Expr> {
    if Collation::of_charset(charset).is_none() {
        bail!(UnknownCharset, "Unknown character set: '{charset}'");
    }
    Ok(match Charset::named(charset) {
        Some(known) if !known.is_utf8() => {
            call(convert_charset::DECODED, vec![inner, text(charset.to_lowercase())])
        }
        _ => call("mysql_char", vec![inner]),
    })
}

/// The bytes of a text that is converted to a character set, where they are asked for: of HEX,
/// LENGTH, CAST AS BINARY and their like.
pub fn bytes_of_converted(value: Expr) -> Expr {
    match value {
        Expr::Function(mut function) if function.name.to_string() == convert_charset::DECODED => {
            function.name = ObjectName::from(vec![Ident::new(convert_charset::ENCODED)]);
            Expr::Function(function)
        }
        other => other,
    }
}

fn cast_to(inner: Expr, data_type: &DataType) -> Result<Expr> {
    let decimal = |info: &ExactNumberInfo| match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let of_length = |inner: Expr, length: &Option<CharacterLength>| {
        let chars = call("mysql_char", vec![inner]);
        match length {
            Some(CharacterLength::IntegerLength { length, .. }) => {
                call("mysql_char_cut", vec![chars, int(length)])
            }
            _ => chars,
        }
    };
    let name = data_type.to_string().to_uppercase();
    Ok(match data_type {
        DataType::Decimal(info) | DataType::Dec(info) | DataType::Numeric(info) => {
            let (precision, scale) = decimal(info);
            within(precision, PRECISION_MAX)?;
            let precision = precision.min(38);
            call("mysql_decimal", vec![inner, int(precision), int(scale)])
        }
        DataType::Char(length) | DataType::Character(length) => of_length(inner, length),
        DataType::Varchar(length) | DataType::Nvarchar(length) => of_length(inner, length),
        DataType::Text | DataType::String(_) => call("mysql_char", vec![inner]),
        DataType::Date => call("mysql_date", vec![inner]),
        DataType::Datetime(digits) | DataType::Timestamp(digits, _) => {
            let digits = within(digits.unwrap_or(0), DIGITS_MAX)?;
            call("mysql_datetime_digits", vec![inner, int(digits)])
        }
        DataType::Time(digits, _) => {
            let digits = within(digits.unwrap_or(0), DIGITS_MAX)?;
            call("mysql_time_digits", vec![inner, int(digits)])
        }
        DataType::Float(
            ExactNumberInfo::None | ExactNumberInfo::Precision(..=FLOAT_DIGITS_MAX),
        ) => call("mysql_float", vec![inner]),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float(_) | DataType::Real => {
            call("mysql_double", vec![inner])
        }
        DataType::JSON => call("mysql_json", vec![inner]),
        DataType::Array(_) | DataType::Map(..) | DataType::Struct(..) => {
            let written = written(data_type)?;
            column_of(&written)?;
            call(NESTED, vec![inner, text(written)])
        }
        _ if name == "VARIANT" => call("mysql_json", vec![inner]),
        DataType::Binary(Some(bytes)) => {
            let zero = call("mysql_binary", vec![text("\0")]);
            call("rpad", vec![binary(inner), int(bytes), zero])
        }
        DataType::Binary(None) | DataType::Varbinary(_) | DataType::Blob(_) => binary(inner),
        _ if name.contains("UNSIGNED") => call("mysql_unsigned", vec![inner]),
        _ if name.starts_with("DATEV2") => call("mysql_date", vec![inner]),
        _ if name.starts_with("SIGNED") || name.contains("INT") || name.starts_with("BOOL") => {
            call("mysql_signed", vec![inner])
        }
        _ if name.starts_with("YEAR") => call("mysql_year", vec![inner]),
        DataType::Custom(_, arguments) if name.starts_with("NCHAR") => {
            let length = arguments.first().and_then(|length| length.parse::<u64>().ok());
            let length = length.map(|length| CharacterLength::IntegerLength { length, unit: None });
            of_length(inner, &length)
        }
        other => {
            bail!(NotSupported, "This version of Freshet doesn't yet support 'CAST AS {other}'")
        }
    })
}

fn binary(inner: Expr) -> Expr {
    let inner = bytes_of_converted(inner);
    // A cast decides more than `_binary`, which is one call.
    let inner = match inner {
        literal @ Expr::Value(_) => call("mysql_binary", vec![literal]),
        other => other,
    };
    call("mysql_binary", vec![inner])
}

/// A nested type as CREATE TABLE has it.
fn written(ty: &DataType) -> Result<String> {
    Ok(match ty {
        DataType::Array(ArrayElemTypeDef::AngleBracket(item)) => {
            format!("ARRAY<{}>", written(item)?)
        }
        DataType::Map(key, value) => format!("MAP<{},{}>", written(key)?, written(value)?),
        DataType::Struct(fields, _) => {
            let fields = fields.iter().map(field).collect::<Result<Vec<_>>>()?;
            format!("STRUCT<{}>", fields.join(","))
        }
        other => other.to_string(),
    })
}

fn field(field: &StructField) -> Result<String> {
    let Some(name) = &field.field_name else {
        bail!(Syntax, "You have an error in your SQL syntax; the fields of a STRUCT have names")
    };
    Ok(format!("`{}`:{}", name.value.replace('`', "``"), written(&field.field_type)?))
}

/// Checks a number of digits.
pub fn within(digits: u64, most: u64) -> Result<u64> {
    if digits > most {
        bail!(TooBigPrecision, "Too-big precision {digits} specified. Maximum is {most}");
    }
    Ok(digits)
}
