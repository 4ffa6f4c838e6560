//! Random statements, answered by this server and by MariaDB, and compared.
//!
//! It is: a generator of tables, queries and inserts directed by types, so that most of what it
//! makes is valid ([`class`], [`forms`], [`expression`], [`query`], [`insert`], [`table`]); the
//! comparison of two answers ([`answer`]); checks that need no other server ([`own`]); the run that
//! asks both ([`servers`]) and makes what differs ([`found`]) as small as it can ([`run`]); and its
//! report, sorted by cause ([`tally`]).
//!
//! It is not: part of the server. It knows both servers by their sockets, which others start.
//!
//! Invariants: a seed and the number of a statement decide the statement and its tables. What
//! MariaDB and MySQL 8 do differently is in [`known`], each with its reason; there MySQL 8 counts.
//!
//! Test it with `cargo test -p freshet-differential`; `make differential QUERIES=1000` runs it.
// It stands outside the server, where time, threads and files are the machine's own.
#![allow(clippy::disallowed_methods)]

pub mod answer;
pub mod class;
pub mod expression;
pub mod forms;
pub mod found;
pub mod insert;
pub mod known;
pub mod own;
pub mod query;
pub mod run;
pub mod servers;
pub mod table;
pub mod tally;
