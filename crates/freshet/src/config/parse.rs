//! Parsing the values of settings.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_server::session::collation_name;

use super::Memory;

type Parsed<T> = Result<T, String>;

/// The name of a collation that columns can have.
pub fn collation(text: &str) -> Parsed<&'static str> {
    collation_name(text).map_err(|known| {
        format!("'{text}' is not a known collation; there are {}", known.join(", "))
    })
}

/// A TOML value as the equivalent text of a flag.
pub fn toml_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(on.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// A size above 0.
pub fn size(text: &str) -> Parsed<ByteSize> {
    match text.parse::<ByteSize>()? {
        ByteSize(0) => Err("must be more than 0".to_owned()),
        size => Ok(size),
    }
}

/// A size within bounds.
pub fn size_within(text: &str, min: ByteSize, max: ByteSize) -> Parsed<ByteSize> {
    let size = size(text)?;
    if (min..=max).contains(&size) {
        Ok(size)
    } else {
        Err(format!("{size} is not within {min} and {max}"))
    }
}

/// `10s`, `500ms`, `5m`, `12h`, `3d`.
pub fn duration(text: &str) -> Parsed<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..split]
        .parse::<u64>()
        .map_err(|_| format!("'{text}' is no time; write for example 10s, 500ms, 5m, 12h, 3d"))?;
    let seconds = match text[split..].trim() {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        unit => return Err(format!("unknown unit '{unit}' in '{text}'; use ms, s, m, h, d")),
    };
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

/// The name of a policy, as the variable has it.
pub fn password_policy(text: &str) -> Parsed<String> {
    match text.trim().to_ascii_uppercase().as_str() {
        known @ ("NONE" | "LOW" | "MEDIUM") => Ok(known.to_owned()),
        _ => Err(format!("'{text}' is no policy; there are none, low and medium")),
    }
}

/// `40%` or a size.
pub fn memory(text: &str) -> Parsed<Memory> {
    let Some(percent) = text.trim().strip_suffix('%') else { return size(text).map(Memory::Bytes) };
    match percent.trim().parse::<u64>() {
        Ok(percent @ 1..=95) => Ok(Memory::Percent(percent)),
        _ => Err(format!("'{text}' is not within 1% and 95%")),
    }
}

/// A size, or nothing for a default that depends on other settings.
pub fn optional_size(text: &str) -> Parsed<Option<ByteSize>> {
    if text.trim().is_empty() { Ok(None) } else { size(text).map(Some) }
}

pub fn optional_memory(text: &str) -> Parsed<Option<Memory>> {
    if text.trim().is_empty() { Ok(None) } else { memory(text).map(Some) }
}

/// An address to listen at.
pub fn address(text: &str) -> Parsed<SocketAddr> {
    let resolved = text.to_socket_addrs().map_err(|_| {
        format!("'{text}' is no address; write HOST:PORT, for example 127.0.0.1:9030")
    });
    resolved?.next().ok_or_else(|| format!("'{text}' stands for no address"))
}

/// Absolute directories separated by semicolons.
pub fn directories(text: &str) -> Parsed<Vec<PathBuf>> {
    let paths = text.split(';').map(str::trim).filter(|path| !path.is_empty());
    let paths = paths.map(PathBuf::from).collect::<Vec<_>>();
    match paths.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(format!("'{}' is not an absolute path", path.display())),
        None => Ok(paths),
    }
}

/// A count within bounds.
pub fn count(text: &str, min: usize, max: usize) -> Parsed<usize> {
    match text.trim().parse::<usize>() {
        Ok(count) if (min..=max).contains(&count) => Ok(count),
        _ => Err(format!("'{text}' is not a number within {min} and {max}")),
    }
}

/// A count within bounds, or nothing for a default that depends on other settings.
pub fn optional_count(text: &str, min: usize, max: usize) -> Parsed<Option<usize>> {
    if text.trim().is_empty() { Ok(None) } else { count(text, min, max).map(Some) }
}

/// `true` or `false`.
pub fn switch(text: &str) -> Parsed<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// A path, or nothing for a default.
pub fn optional_path(text: &str) -> Parsed<Option<PathBuf>> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

pub fn text(text: &str) -> Parsed<String> {
    match text.trim() {
        "" => Err("must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
