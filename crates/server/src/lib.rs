//! The server: the MySQL protocol and HTTP over the engine and the planner.
//!
//! It is: sockets and their threads, logins, sessions with their variables and transactions,
//! prepared statements, the short road of INSERT, the dispatch of everything else, SHOW, and
//! the list of connections.
//!
//! It is not: a parser, a planner, or anything that decides how rows are stored.
//!
//! Read it in this order: `mysql::conn` (the loop of a connection), `insert` (the short road),
//! `statement` (everything else), `transaction`, `session`, `variables`, `show`.
//!
//! Invariants: no reply for a load leaves before the log covers it; a session is in one place
//! at a time, and what it has open is rolled back when it is dropped; queries and DDL never run
//! on an I/O thread; everything that gathers has a limit.
//!
//! Test it with `cargo test -p freshet-server`; the tests in `tests/` speak the protocol to a
//! server in the same process.

pub mod accounts;
pub mod auth;
pub mod http;
pub mod insert;
pub mod io;
pub mod locks;
pub mod mysql;
pub mod places;
pub mod process;
mod reader;
mod reply;
mod server;
pub mod session;
pub mod settings;
mod shared;
pub mod show;
pub mod statement;
pub mod transaction;
pub mod variables;

pub use accounts::MemoryLimits;
pub use http::LoadLimits;
pub use server::Server;
pub use shared::{Settings, Shared};
