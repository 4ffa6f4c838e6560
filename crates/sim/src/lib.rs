//! The deterministic simulation, which checks that nothing acknowledged is ever lost, duplicated or
//! torn.
//!
//! It contains: a seeded single-threaded executor with its own clock ([`executor`]), actors that
//! use and misuse a whole engine ([`actors`]), and an oracle that knows what every snapshot must
//! show ([`model`]). Its disk, which loses and tears unsynced data, is that of `testkit`. One seed
//! is one run ([`harness`]): several lives of one store, each of which ends by a power cut or the
//! end of the process, at a random call of the disk, between two steps, or by a clean shutdown.
//!
//! It does not test SQL, sockets, or real threads. Metadata (redb) and everything else below SQL
//! runs inside; DataFusion does not.
//!
//! Time passes only while code waits: jobs may start late, so that a slow disk delays flushes and
//! merges, but a single write takes no time.
//!
//! Invariant: a run that fails prints a command that repeats it, and a seed always gives the same
//! run.
//!
//! Test it with `cargo test -p freshet-sim`; search more seeds with
//! `cargo run -p freshet-sim -- --seeds 1000`.

pub mod actors;
mod changes;
mod copied;
mod copies;
pub mod events;
pub mod executor;
mod expected;
pub mod harness;
pub mod loads;
pub mod model;
mod nested;
mod partition_bin;
pub mod points;
pub mod rows;
mod uniques;
mod unkeyed;
