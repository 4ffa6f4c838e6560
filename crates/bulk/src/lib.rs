//! Bulk loading and dumping: `freshet load` and `freshet dump`.
//!
//! It is: a client. It cuts inputs into blocks at the ends of records, sends them in parallel under
//! labels by Stream Load or as INSERTs, remembers which have arrived, and writes tables to files.
//!
//! It is not: part of a server. It knows a server by its two protocols alone, so it works with
//! other servers of the MySQL protocol as well.
//!
//! Invariants: the blocks of an input, one behind the other, are the input, and the same in every
//! run of a job; a block that a server has acknowledged is never sent again; memory is bounded by
//! the size of blocks and their number in flight.
//!
//! Test it with `cargo test -p freshet-bulk`; `crates/freshet/tests/bulk` has a real server.
// A tool for the terminal: it uses the real clock, threads and files of its machine.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod batch_tool;
mod compress;
mod connection;
mod convert;
mod ddl;
mod dump;
mod encode;
mod exit;
mod fields;
mod format;
mod history;
mod http;
mod inputs;
mod job;
mod json_lines;
mod load;
mod meter;
mod outputs;
mod pace;
mod parquet;
mod reader;
mod schema;
mod send;
mod shared;
mod split;
mod sql;
mod stop;
mod thrift;
mod tls;
mod trial;

pub use dump::dump;
pub use exit::{Exit, Failure};
pub use load::load;
