//! Clients of the MySQL protocol and a server in the same process: one program, since each links
//! all of the engine.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test waits, and stops at the first surprise"
)]

#[path = "../common/mod.rs"]
mod common;
mod decimals;
mod files;
mod inserts;
mod sessions;
mod tls;
mod tools;
mod views;
