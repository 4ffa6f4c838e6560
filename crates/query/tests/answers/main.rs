//! Answers of the query engine, without a server: one program, since each links all of the engine.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;
mod odd_values;
mod one_table;
mod pruning;
mod semantics;
mod stored;
mod system;
mod tpch;
