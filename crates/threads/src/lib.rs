//! Tests only: concurrent code of the server, run under many interleavings of its threads.
//!
//! It is: files of the server, compiled a second time with the locks and atomics of the `shuttle`
//! scheduler (`sync`), which runs one thread at a time and may switch threads at each of them, and
//! scenarios that use them ([`waits`], [`tables`]).
//!
//! It is not: code that the server runs, nor a test of weak memory orderings: the scheduler
//! executes every atomic operation as sequentially consistent.
//!
//! Invariants: every waiter is woken (else the run ends in a deadlock) and none too early; a
//! snapshot shows exactly the records up to its horizon; what was taken from a budget comes back.
//!
//! Test it with `cargo test -p freshet-threads`; a failure prints how to repeat it.

mod sync;

/// `base`, unchanged.
#[path = "../../base/src"]
#[allow(dead_code)]
mod base {
    pub mod budget;
    pub mod lock;
}

/// `wal`, unchanged.
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

/// `storage`, unchanged.
#[path = "../../storage/src"]
#[allow(dead_code, unused_imports)]
mod storage {
    pub mod delta;
    pub mod fold;
    pub mod pin;
    pub mod pins;
    pub mod resolver;
    pub mod snapshot;
    pub mod view;
    pub mod views;
}

// What those files import from their own crates.
use freshet_base::clock;
use freshet_storage::{compaction, division, flush, hidden, marks, rowset, segment, side, tablet};
use storage::{delta, fold, pin, pins, resolver, snapshot, view, views};
use wal::{buffer, checksum, file, horizon, record};

mod error {
    pub use freshet_storage::{Error, Result};
}

/// As in `wal`.
const BLOCK_BYTES: u64 = freshet_base::io::DIRECT_ALIGN_BYTES as u64;

mod never;
pub mod runner;
pub mod tables;
pub mod waits;
