//! The write-ahead log: bytes in, durable, bytes out in the same order.
//!
//! It is: batches with a head each and frames with salted checksums ([`record`]), terms of which
//! each start is one ([`term`]), a writer that syncs whatever queued while the last sync ran
//! ([`writer`]), the horizon that says how far the log is durable
//! ([`horizon`]), the room that admission takes before a record may be appended ([`room`]), and
//! a reader that tells a torn tail from corruption ([`mod@scan`], [`reader`]).
//!
//! It is not: aware of rows, tables or metadata. What a record means, which files there are and up
//! to where the log was recycled is told by the caller, who keeps it durable.
//!
//! Invariants: LSNs are dense, from 1, and so are the numbers of batches. A batch names the term
//! of the one before it, and counts whole or not at all unless it was damaged later. The horizon
//! never passes a record that is not on the device. A 4 KiB block that was acknowledged is never
//! written again while the log runs. A record that holds [`Room`] always finds a file. What is
//! read back is a prefix of what was appended, it contains everything acknowledged, or it is an
//! error that names the hole.
//!
//! Test it with `cargo test -p freshet-wal`; measure it with
//! `cargo bench -p freshet-wal`.

pub mod acks;
#[cfg(test)]
mod batches;
mod buffer;
mod checksum;
mod file;
pub mod fuzz;
mod head;
pub mod horizon;
#[cfg(test)]
mod model;
mod queue;
pub mod reader;
pub mod record;
mod recycle;
pub mod room;
pub mod scan;
pub mod term;
#[cfg(test)]
mod testing;
pub mod writer;

use freshet_base::sync;

pub use acks::Acks;
pub use file::{LogFile, make_file};
pub use horizon::{Horizon, HorizonWatch};
pub use reader::{Record, Records};
pub use record::{BATCH_HEAD_BYTES, FRAME_HEADER_BYTES, KIND_IDLE, Payload, STAMP_BYTES_MAX};
pub use recycle::{LiveFile, Recycled};
pub use room::Room;
pub use scan::{
    Corruption, DamagedRecord, FileState, Hole, LiveRecords, Place, Scan, ScanError, ScanInput,
    Tail, highest_term, scan,
};
pub use term::{Secret, TermFile, read_term, write_term};
pub use writer::{NewTerm, Wal, WalOptions, WalStats, WalWorld};

/// Log files, batches and writes are cut in these units.
pub const BLOCK_BYTES: u64 = freshet_base::io::DIRECT_ALIGN_BYTES as u64;
