//! The deterministic simulation: nothing acknowledged is ever lost, doubled or torn.
//!
//! It is: a disk that loses and tears what was not synced ([`fs`]), one seeded thread with a
//! clock of its own ([`executor`]), actors that use and abuse a whole engine ([`actors`]), and
//! an oracle that knows what every snapshot must show ([`model`]). One seed is one run
//! ([`harness`]): several lives of one store, each ended by a power cut or the end of the
//! process, at a random call of the disk or between two steps, or in order.
//!
//! It is not: a test of SQL, of sockets, or of real threads. Metadata (redb) and everything
//! else below SQL runs inside; DataFusion does not.
//!
//! Time passes only where code waits: jobs may begin late, so that a slow disk delays flushes
//! and merges, but no single write takes time.
//!
//! Invariant: a run that fails says the one command that repeats it, and a seed gives the same
//! run every time.
//!
//! Test it with `cargo test -p freshet-sim`; search for more with
//! `cargo run -p freshet-sim -- --seeds 1000`.

pub mod actors;
pub mod executor;
pub mod fs;
pub mod harness;
pub mod loads;
pub mod model;
pub mod rows;
