//! The write-ahead log: appends bytes, makes them durable, and reads them back in the same order.
//!
//! It contains: batches with a head each and frames with salted checksums ([`record`]); terms, of
//! which each start begins a new one ([`term`]); a writer that syncs whatever queued while the
//! previous sync ran ([`writer`]); the horizon, the highest durable LSN ([`horizon`]); the room
//! that admission reserves before a record is appended ([`room`]); and a reader that distinguishes
//! a torn tail from corruption ([`mod@scan`], [`reader`]).
//!
//! It does not know rows, tables or metadata. The caller defines the meaning of records, keeps the
//! list of files and the recycled position, and makes both durable.
//!
//! Invariants: LSNs are dense, from 1, and so are batch indices. A batch names the term of the
//! previous one, and is valid completely or not at all unless it was damaged later. The horizon
//! never passes a record that is not on the device. An acknowledged 4 KiB block is never written
//! again while the log runs. A record that holds [`Room`] always finds a file. What is read back is
//! a prefix of what was appended that contains everything acknowledged, or an error that names the
//! hole.
//!
//! Test it with `cargo test -p freshet-wal`; measure it with `cargo bench -p freshet-wal`.

pub mod acks;
#[cfg(test)]
mod batches;
mod buffer;
mod checksum;
pub mod damage;
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
pub use damage::{Corruption, DamagedRecord, Hole, Place, ScanError};
pub use file::{LogFile, make_file};
pub use horizon::{Horizon, HorizonWatch};
pub use reader::{Record, Records};
pub use record::{BATCH_HEAD_BYTES, FRAME_HEADER_BYTES, KIND_IDLE, Payload, STAMP_BYTES_MAX};
pub use recycle::{LiveFile, Recycled};
pub use room::Room;
pub use scan::{FileState, LiveRecords, Scan, ScanInput, Tail, highest_term, scan};
pub use term::{Secret, TermFile, read_term, write_term};
pub use writer::{NewTerm, Wal, WalOptions, WalStats, WalWorld};

/// The unit of log files, batches and writes.
pub const BLOCK_BYTES: u64 = freshet_base::io::DIRECT_ALIGN_BYTES as u64;
