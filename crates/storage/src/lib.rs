//! Storage between memory and files: deltas, views, segments, flush and compaction.
//!
//! It contains: the delta, a table's records above its flushed LSN, whose rows are converted to
//! columns once; the views that readers pin; segments, which are plain Parquet with checksums over
//! every byte; the flush, which moves a delta to segments; the compaction, which keeps them few.
//!
//! It does not decide what is committed (the log does), does not manage names (metadata does), and
//! does not know SQL.
//!
//! Invariants: a snapshot is exactly the log up to its horizon, with each record visible in one
//! place; the rows given to a flush or a compaction are the rows in its files; a published rowset
//! never changes, and rowsets of a tablet have disjoint LSN ranges; a damaged file is reported by
//! name and offset, and only it is refused; a file is removed only when nothing refers to it.
//!
//! Test it with `cargo test -p freshet-storage`.

pub mod check;
mod combine;
pub mod compaction;
pub mod delta;
pub mod division;
mod error;
pub mod flush;
pub mod flush_policy;
pub mod fold;
pub mod gc;
pub mod hidden;
pub mod layout;
pub mod marks;
pub mod memtable;
pub mod merge;
pub mod pin;
pub mod pins;
pub mod point;
pub mod recover;
pub mod resolver;
pub mod rowset;
pub mod segment;
pub mod side;
pub mod snapshot;
pub mod sort;
pub mod tablet;
#[cfg(test)]
mod testing;
pub mod view;
pub mod views;

use freshet_base::sync;

pub use error::{Error, Result};
pub use layout::DataDir;
pub use rowset::Rowset;
