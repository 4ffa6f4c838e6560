//! Every parser of untrusted bytes, by name. The fuzzer calls one of them for each
//! target, and a test of the crate `freshet` calls all of them on the inputs that are kept.
//!
//! It is not: a place for logic; what a reader must hold is asserted where the reader is.
//!
//! Invariants: any bytes may be given to any reader, and none of them panics.
//!
//! Test it with `make fuzz`, or `cargo test --workspace --test corpus` on what is kept.
// Two readers belong to crates that the fuzzer does not build; it takes their source files alone,
// of which it uses a part.
#![allow(dead_code)]

use hyper::header::{HeaderName, HeaderValue};

mod differential;

#[path = "../../crates/freshet/src"]
mod binary {
    pub mod config;
}

#[path = "../../crates/server/src/http/load"]
mod load {
    pub mod headers;
}

/// A function that any bytes may be given to.
pub type Reader = fn(&[u8]);

/// Every reader by the name of its target.
pub const READERS: [(&str, Reader); 11] = [
    ("config", config),
    ("csv", freshet_ingest::decode::fuzz::csv),
    ("execute", freshet_wire::fuzz::fuzz_execute),
    ("handshake", freshet_wire::fuzz::fuzz_handshake),
    ("headers", headers),
    ("json", freshet_ingest::decode::fuzz::json),
    ("packets", freshet_wire::fuzz::fuzz_packets),
    ("params", freshet_ingest::decode::fuzz::params),
    ("parser", differential::scanner_agrees_with_parser),
    ("values", freshet_ingest::decode::fuzz::values),
    ("wal", freshet_wal::fuzz::fuzz_reader),
];

/// The reader of a target.
///
/// # Panics
/// There is none of this name.
pub fn reader(name: &str) -> Reader {
    let found = READERS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no reader is called {name}")).1
}

/// Reads bytes as a configuration file.
fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = std::path::Path::new("freshet.toml");
    let sources = binary::config::Sources { file: Some((path, text)), ..Default::default() };
    if let Err(problems) = binary::config::Config::load(&sources) {
        assert!(!problems.is_empty(), "a refusal says why");
    }
}

/// Reads lines as the headers of a stream load.
fn headers(data: &[u8]) {
    let mut headers = hyper::HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.trim_ascii())) {
            headers.insert(name, value);
        }
    }
    let _ = load::headers::LoadHeaders::parse(&headers);
}
