//! Validation and conversion of the values of variables.

use freshet_base::{Error, Result, err};
use freshet_query::session::Value;
use freshet_schema::Zone;
use freshet_wire::Collation;

use super::{Kind, Variable, Warning};

/// The longest text value of a variable.
const TEXT_BYTES_MAX: usize = 4096;
/// A year.
const SECONDS_MAX: f64 = 31_536_000.0;

/// The known names in `sql_mode`, and the bits that a number has for them, in whose order they are
/// shown.
const SQL_MODES: [(&str, u32); 22] = [
    ("REAL_AS_FLOAT", 0),
    ("PIPES_AS_CONCAT", 1),
    ("ANSI_QUOTES", 2),
    ("IGNORE_SPACE", 3),
    ("ONLY_FULL_GROUP_BY", 5),
    ("NO_UNSIGNED_SUBTRACTION", 6),
    ("NO_DIR_IN_CREATE", 7),
    ("NO_KEY_OPTIONS", 9),
    ("NO_FIELD_OPTIONS", 11),
    ("ANSI", 18),
    ("NO_AUTO_VALUE_ON_ZERO", 19),
    ("NO_BACKSLASH_ESCAPES", 20),
    ("STRICT_TRANS_TABLES", 21),
    ("STRICT_ALL_TABLES", 22),
    ("NO_ZERO_IN_DATE", 23),
    ("NO_ZERO_DATE", 24),
    ("ALLOW_INVALID_DATES", 25),
    ("ERROR_FOR_DIVISION_BY_ZERO", 26),
    ("NO_AUTO_CREATE_USER", 28),
    ("HIGH_NOT_PRECEDENCE", 29),
    ("NO_ENGINE_SUBSTITUTION", 30),
    ("PAD_CHAR_TO_FULL_LENGTH", 31),
];
/// The bit of `TRADITIONAL`, which stands for others.
const TRADITIONAL_BIT: u32 = 27;

impl Variable {
    /// The converted value after `SET variable = value`.
    ///
    /// # Errors
    /// 1231 for an invalid value, 1232 for one of the wrong type, and unknown character sets and
    /// collations.
    pub fn accept(&self, value: &Value) -> Result<(Value, Warning)> {
        match self.kind {
            Kind::Bool | Kind::Flag => self.switch(value).map(|on| (Value::Int(on.into()), None)),
            Kind::Off => match self.switch(value)? {
                false => Ok((Value::Int(0), None)),
                true => Err(self.refuse(value)),
            },
            Kind::Only(only) => match self.integer(value, i64::MIN, i64::MAX)? {
                (Value::Int(number), _) if number == only => Ok((Value::Int(only), None)),
                _ => Err(self.refuse(value)),
            },
            Kind::Int { min, max } => self.integer(value, min, max),
            Kind::Ratio => self.fraction(value, 1.0).map(|ratio| (Value::Double(ratio), None)),
            Kind::Seconds => {
                self.fraction(value, SECONDS_MAX).map(|seconds| (Value::Double(seconds), None))
            }
            Kind::OneOf(names) => self.one_of(value, names).map(|name| (name, None)),
            Kind::NameOf(names) => match value {
                Value::Text(_) => self.one_of(value, names).map(|name| (name, None)),
                _ => Err(self.refuse(value)),
            },
            Kind::Text => self.text(value).map(|text| (Value::Text(text), None)),
            Kind::SqlMode => self.sql_mode(value).map(|mode| (Value::Text(mode), None)),
            Kind::Zone => self.zone(value).map(|zone| (Value::Text(zone), None)),
            Kind::Charset { nullable } => charset(value, nullable).map(|name| (name, None)),
            Kind::Collation => collation(value).map(|name| (Value::Text(name), None)),
        }
    }

    fn refuse(&self, value: &Value) -> Error {
        let (name, value) = (self.name, shown(value));
        err!(VariableValue, "Variable '{name}' can't be set to the value of '{value}'")
    }

    fn text(&self, value: &Value) -> Result<String> {
        let text = text(value);
        if text.len() > TEXT_BYTES_MAX {
            return Err(err!(
                VariableValue,
                "Variable '{}' can't be set to a text of {} bytes; it has at most {TEXT_BYTES_MAX}",
                self.name,
                text.len()
            ));
        }
        Ok(text)
    }

    fn switch(&self, value: &Value) -> Result<bool> {
        match value {
            Value::Int(0) | Value::UInt(0) => Ok(false),
            Value::Int(1) | Value::UInt(1) => Ok(true),
            Value::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "on" | "true" | "1" => Ok(true),
                "off" | "false" | "0" => Ok(false),
                _ => Err(self.refuse(value)),
            },
            _ => Err(self.refuse(value)),
        }
    }

    fn integer(&self, value: &Value, min: i64, max: i64) -> Result<(Value, Warning)> {
        let number = match value {
            Value::Int(number) => Some(*number),
            Value::UInt(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Null | Value::Double(_) | Value::Decimal(_) => None,
        };
        let Some(number) = number else {
            return Err(err!(VariableType, "Incorrect argument type to variable '{}'", self.name));
        };
        let taken = number.clamp(min, max);
        let warning = (taken != number)
            .then(|| format!("Truncated incorrect {} value: '{number}'", self.name));
        Ok((Value::Int(taken), warning))
    }

    /// A number from 0 to this one.
    fn fraction(&self, value: &Value, max: f64) -> Result<f64> {
        let number = match value {
            Value::Int(number) => *number as f64,
            Value::UInt(number) => *number as f64,
            Value::Double(number) => *number,
            Value::Decimal(text) | Value::Text(text) => {
                text.trim().parse().map_err(|_| self.refuse(value))?
            }
            Value::Null => return Err(self.refuse(value)),
        };
        if (0.0..=max).contains(&number) { Ok(number) } else { Err(self.refuse(value)) }
    }

    /// One of the names, or its index.
    fn one_of(&self, value: &Value, names: &[&'static str]) -> Result<Value> {
        let found = match value {
            Value::Text(text) => names.iter().find(|name| name.eq_ignore_ascii_case(text)),
            Value::Int(at) => usize::try_from(*at).ok().and_then(|at| names.get(at)),
            _ => None,
        };
        found.map(|name| Value::Text((*name).to_owned())).ok_or_else(|| self.refuse(value))
    }

    fn sql_mode(&self, value: &Value) -> Result<String> {
        let named = match value {
            Value::Int(_) | Value::UInt(_) => self.modes_of_number(value)?,
            _ => text(value),
        };
        let mut modes = Vec::new();
        for given in named.split(',').map(str::trim).filter(|mode| !mode.is_empty()) {
            let mode = given.to_ascii_uppercase();
            let parts: &[&str] = match mode.as_str() {
                "TRADITIONAL" => &TRADITIONAL,
                "ANSI" => &["REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE"],
                _ => &[],
            };
            modes.extend(parts.iter().map(|part| (*part).to_owned()));
            match mode.as_str() {
                "TRADITIONAL" => {}
                // Modes of Doris and older servers have no effect here, but clients set them.
                _ if SQL_MODES.iter().any(|(known, _)| *known == mode) => modes.push(mode),
                _ => return Err(self.refuse(&Value::Text(given.to_owned()))),
            }
        }
        let is_set = |name: &&str| modes.iter().any(|mode| mode == name);
        let names = SQL_MODES.iter().map(|(name, _)| *name).filter(is_set);
        Ok(names.collect::<Vec<_>>().join(","))
    }

    /// The names for the bits of a number.
    fn modes_of_number(&self, value: &Value) -> Result<String> {
        let bits = match value {
            Value::Int(number) => u64::try_from(*number).map_err(|_| self.refuse(value))?,
            Value::UInt(number) => *number,
            _ => return Err(self.refuse(value)),
        };
        let traditional = ("TRADITIONAL", TRADITIONAL_BIT);
        let known = SQL_MODES.iter().chain([&traditional]);
        let set = known.filter(|(_, bit)| (bits >> bit) & 1 == 1).collect::<Vec<_>>();
        if set.iter().fold(0, |all, (_, bit)| all | (1_u64 << bit)) != bits {
            return Err(self.refuse(value));
        }
        Ok(set.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(","))
    }

    fn zone(&self, value: &Value) -> Result<String> {
        let text = text(value);
        if text.eq_ignore_ascii_case("system") {
            return Ok("SYSTEM".to_owned());
        }
        match Zone::parse(&text) {
            Some(zone) => Ok(zone.to_string()),
            None => Err(err!(VariableValue, "Unknown or incorrect time zone: '{text}'")),
        }
    }
}

const TRADITIONAL: [&str; 6] = [
    "STRICT_TRANS_TABLES",
    "STRICT_ALL_TABLES",
    "NO_ZERO_IN_DATE",
    "NO_ZERO_DATE",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "NO_ENGINE_SUBSTITUTION",
];

/// The zone of a value of `time_zone`.
pub fn zone_of(text: &str) -> Zone {
    Zone::parse(text).unwrap_or(Zone::UTC)
}

fn charset(value: &Value, nullable: bool) -> Result<Value> {
    if *value == Value::Null && nullable {
        return Ok(Value::Null);
    }
    charset_name(&text(value)).map(|name| Value::Text(name.to_owned()))
}

/// The canonical name of a character set.
///
/// # Errors
/// 1115 for an unknown name.
pub fn charset_name(name: &str) -> Result<&'static str> {
    const CHARSETS: [&str; 7] =
        ["utf8mb4", "utf8mb3", "latin1", "ascii", "binary", "gbk", "latin2"];
    let name = if name.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { name };
    let found = CHARSETS.iter().find(|known| known.eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| err!(UnknownCharset, "Unknown character set: '{name}'"))
}

fn collation(value: &Value) -> Result<String> {
    let name = text(value);
    let found = Collation::from_name(&name).and_then(Collation::name);
    let found = found.ok_or_else(|| err!(UnknownCollation, "Unknown collation: '{name}'"))?;
    Ok(found.to_owned())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        _ => shown(value),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Decimal(text) | Value::Text(text) => text.clone(),
    }
}
