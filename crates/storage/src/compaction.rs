//! Keeps the number of rowsets per tablet small; the decision what to merge is separate from
//! merging.

pub mod picker;
pub mod worker;

pub use picker::{Choice, Limits, choose, not_full, size};
pub use worker::{MergeJob, merge};
