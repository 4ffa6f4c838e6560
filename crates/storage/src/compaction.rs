//! Keeps the rowsets of a tablet few: what to merge is decided apart from merging it.

pub mod picker;
pub mod worker;

pub use picker::{Choice, Limits, choose, is_behind, size};
pub use worker::{MergeJob, merge};
