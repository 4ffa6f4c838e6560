//! The engine on real files. One program, since each of them compiles what it awaits of the engine.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod behind;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod engine;
mod format;
mod full_disk;
mod load;
mod unlisted;
