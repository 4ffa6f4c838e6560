//! What every crate uses: identifiers, errors, and access to the outside world as arguments.
//!
//! It is: id types that keep a table from being mistaken for a tablet, the error type that clients
//! see, and the traits through which code reaches files, time and threads, so that the same engine
//! runs on a real machine and inside a seeded simulation.
//!
//! It is not: a place for anything that knows rows, SQL or the log.
//!
//! Invariants: a `Budget` never grants more than its limit (except by its `_over` calls), and gets
//! back what it granted; an `ErrorCode` has exactly one MySQL errno, SQLSTATE and HTTP status.
//!
//! Test it with `cargo test -p freshet-base`.

pub mod budget;
pub mod clock;
pub mod comment;
pub mod error;
pub mod fail;
pub mod ids;
pub mod io;
pub mod lock;
pub mod metrics;
pub mod number_text;
pub mod size;
pub mod sync;
pub mod task;

pub use error::{Error, ErrorCode, Result, Retry};
pub use ids::*;
pub use size::ByteSize;
