//! Tests only: what many threads run at once, in many orders of threads.
//!
//! It is: files of the server, compiled a second time with locks and atomics of a scheduler
//! (`sync`) that runs one thread at a time and decides at each of them who goes on, and
//! scenarios that use them ([`waits`], [`tables`]).
//!
//! It is not: code of its own beside those, and no test of orders of memory that no order of
//! threads explains.
//!
//! Invariants: nobody who waits is forgotten, which would be seen as a deadlock; nobody is
//! answered too early; a snapshot shows exactly the records up to its horizon; what was taken
//! from a budget comes back.
//!
//! Test it with `cargo test -p freshet-threads`; a failure prints how to repeat it.

mod sync;

/// `base`, as the server has it.
#[path = "../../base/src"]
#[allow(dead_code)]
mod base {
    pub mod budget;
}

/// `wal`, as the server has it.
#[path = "../../wal/src"]
#[allow(dead_code)]
mod wal {
    pub mod acks;
    pub mod buffer;
    pub mod checksum;
    pub mod file;
    pub mod horizon;
    pub mod record;
    pub mod room;
}

/// `storage`, as the server has it.
#[path = "../../storage/src"]
#[allow(dead_code, unused_imports)]
mod storage {
    pub mod delta;
    pub mod fold;
    pub mod pins;
    pub mod snapshot;
    pub mod view;
}

// The names by which those files call each other and the rest.
use freshet_base::clock;
use freshet_storage::{rowset, segment, side};
use storage::{delta, fold, pins, snapshot, view};
use wal::{buffer, checksum, file, horizon, record};

mod error {
    pub use freshet_storage::Result;
}

/// As in `wal`.
const BLOCK_BYTES: u64 = freshet_base::io::DIRECT_ALIGN_BYTES as u64;

mod never;
pub mod runner;
pub mod tables;
pub mod waits;
