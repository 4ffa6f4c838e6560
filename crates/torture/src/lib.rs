//! Torture of the real binary: servers that are killed, cut off from power, starved and fed
//! rubbish while clients of every kind write to them.
//!
//! It is: a server as a child process ([`server`]), clients over plain sockets ([`client`],
//! [`http`]), writers that keep their own journal of what was acknowledged ([`journal`],
//! [`writers`]), the comparison of a table with that journal ([`check`]), and the long runs made of
//! them ([`crash`], [`powercut`], [`soak`]).
//!
//! It is not: part of the server. It knows the server by its sockets, its files and its exit.
//!
//! Invariants: the journal is written before a load is sent and after its answer is read, so it
//! never claims more than a client knows; whoever starts a process ends it; every wait has a
//! limit.
//!
//! Test it with `cargo test -p freshet-torture`; the binary `torture` runs it against a server, and
//! the tests of the crate `freshet` run its short forms.
// It stands outside the server, where time, threads and files are the machine's own.
#![allow(clippy::disallowed_methods)]

pub mod check;
pub mod client;
pub mod crash;
pub mod http;
pub mod journal;
pub mod powercut;
pub mod server;
pub mod soak;
pub mod writers;
