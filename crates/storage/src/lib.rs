//! Memory to files and back: deltas, views, segments, flush and compaction.
//!
//! It is: the delta, a table's records above its flushed LSN, in which rows become columns
//! once; the views that readers pin; segments, which are plain Parquet with checksums over
//! every byte; the flush that moves a delta into them; the compaction that keeps them few.
//!
//! It is not: a decider of what is committed (the log is), a keeper of names (metadata is), or
//! anything that knows SQL.
//!
//! Invariants: a snapshot is exactly the log up to its horizon, each record seen in one place;
//! rows handed to a flush or a compaction are the rows in its files; a published rowset never
//! changes, rowsets of a tablet have disjoint LSN ranges; a damaged file is refused by name and
//! offset and nothing else is; a file is removed only when nothing names it.
//!
//! Test it with `cargo test -p freshet-storage`.

pub mod check;
pub mod compaction;
pub mod delta;
mod error;
pub mod flush;
pub mod flush_policy;
pub mod fold;
pub mod gc;
pub mod layout;
pub mod memtable;
pub mod merge;
pub mod pins;
pub mod recover;
pub mod rowset;
pub mod segment;
pub mod side;
pub mod snapshot;
pub mod sort;
#[cfg(test)]
mod testing;
pub mod view;

use freshet_base::sync;

pub use error::{Error, Result};
pub use layout::DataDir;
pub use rowset::Rowset;
