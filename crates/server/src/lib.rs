//! The server: the MySQL protocol and HTTP over the engine and the planner.
//!
//! It is: sockets and their threads, logins, sessions with their variables and transactions,
//! prepared statements, the fast path of INSERT, the dispatch of everything else, SHOW, and the
//! process list.
//!
//! It is not: a parser, a planner, or anything that decides how rows are stored.
//!
//! Read in this order: `mysql::conn` (the loop of a connection), `insert` (the fast path),
//! `statement` (everything else), `transaction`, `session`, `variables`, `show`.
//!
//! Invariants: no reply to a load is sent before its record is durable; a session is owned by
//! either its connection or the running statement, and dropping it rolls back its transaction;
//! queries and DDL never run on an I/O thread, but for point reads and `SELECT 1`; every queue,
//! cache and buffer has a limit.
//!
//! Test it with `cargo test -p freshet-server`; the tests in `tests/` speak the protocol to a
//! server in the same process.

pub mod accounts;
mod again;
pub mod alter_jobs;
mod as_of;
pub mod auth;
pub mod compiled;
pub mod completion;
mod counters;
mod digests;
pub mod error_log;
mod files;
mod generated;
mod given;
pub mod http;
pub mod insert;
pub mod io;
mod latest;
pub mod load_book;
mod load_limits;
pub mod locks;
pub mod mysql;
mod numbers;
mod point;
pub mod process;
mod reader;
mod reply;
mod server;
pub mod session;
pub mod settings;
mod shared;
pub mod show;
pub mod slots;
pub mod statement;
mod through;
pub mod tls;
pub mod transaction;
pub mod variables;
mod watched;
pub mod workload;

pub use accounts::MemoryLimits;
pub use load_limits::LoadLimits;
pub use server::Server;
pub use shared::{Settings, Shared};
pub use tls::TlsSettings;
