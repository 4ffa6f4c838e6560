//! Compares the results of random statements between this server and MariaDB.
//!
//! It consists of a type-directed generator of tables, queries and inserts, most of which are valid
//! ([`class`], [`forms`], [`expression`], [`query`], [`insert`], [`table`]); the comparison of two
//! results ([`answer`]); checks that need no other server ([`own`]); the loop that queries both
//! servers ([`servers`]) and simplifies statements with differences ([`found`]) as far as possible
//! ([`run`]); and a report grouped by cause ([`tally`]).
//!
//! It is not part of the server, and only connects to running servers by their ports.
//!
//! Invariants: the seed and the number of a statement determine the statement and its tables.
//! Differences between MariaDB and MySQL 8 are listed in [`known`] with reasons; there MySQL 8 is
//! the reference.
//!
//! Test it with `cargo test -p freshet-differential`; `make differential QUERIES=1000` runs it.
// A tool outside of the server may use the system's time, threads and files directly.
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
