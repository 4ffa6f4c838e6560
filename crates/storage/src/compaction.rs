//! Keeps the rowsets of a tablet few: what to merge is decided apart from merging it.

pub mod picker;
pub mod worker;

pub use picker::{Choice, Limits, choose, not_full, size};
pub use worker::{MergeJob, merge};
