//! Torture tests of the real binary: the server is killed, loses power, runs out of resources and
//! receives garbage while clients of every kind write to it.
//!
//! It is: a server as a child process ([`server`]), clients over plain sockets ([`client`],
//! [`http`]), writers that keep a journal of what was acknowledged ([`journal`], [`writers`]), the
//! comparison of tables with that journal ([`check`]), and the long runs built from them
//! ([`crash`], [`powercut`], [`soak`], [`hostile`]).
//!
//! It is not: part of the server. It uses only the server's sockets, files and exit status.
//!
//! Invariants: the journal is written before a load is sent and after its answer is read, so it
//! never claims more than a client knows; every process that is started is ended; every wait has a
//! timeout.
//!
//! Test it with `cargo test -p freshet-torture`; the binary `torture` runs it against a server, and
//! tests of the crate `freshet` run short versions.
// These tests run outside of the server, with the real clock, threads and files.
#![allow(clippy::disallowed_methods)]

pub mod check;
pub mod client;
pub mod crash;
pub mod hostile;
pub mod http;
pub mod journal;
pub mod powercut;
pub mod server;
pub mod soak;
pub mod writers;
