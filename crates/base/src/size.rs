//! Byte sizes with human units, as settings and messages write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes; parses `64MiB`, `1.5 GiB`, `512 kB` or `4096`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

impl ByteSize {
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, unit) in UNITS {
            if self.0 >= unit {
                let whole = self.0 / unit;
                let tenth = self.0 % unit * 10 / unit;
                return match tenth {
                    0 => write!(f, "{whole} {name}"),
                    _ => write!(f, "{whole}.{tenth} {name}"),
                };
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

impl fmt::Debug for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..digits]
            .parse()
            .map_err(|_| format!("'{text}' is not a size; write for example 64MiB"))?;
        let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1u64,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            other => return Err(format!("unknown unit '{other}' in '{text}'; use KiB, MiB, GiB")),
        };
        let bytes = number * unit as f64;
        if bytes > (1u64 << 60) as f64 {
            return Err(format!("'{text}' is larger than any machine has"));
        }
        Ok(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_units_and_prints_them() {
        assert_eq!("64MiB".parse(), Ok(ByteSize::mib(64)));
        assert_eq!("1.5 GiB".parse(), Ok(ByteSize(3 << 29)));
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert_eq!("2kB".parse(), Ok(ByteSize(2000)));
        assert_eq!(ByteSize(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(ByteSize(10).to_string(), "10 bytes");
    }

    #[test]
    fn refuses_what_is_not_a_size() {
        assert!("".parse::<ByteSize>().is_err());
        assert!("12 parsecs".parse::<ByteSize>().is_err());
        assert!("1..2".parse::<ByteSize>().is_err());
        assert!("9999999TiB".parse::<ByteSize>().is_err());
    }
}
