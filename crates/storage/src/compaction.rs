//! Keeps the number of rowsets per tablet small; the decision what to merge is separate from
//! merging.

mod deleted;
pub mod picker;
mod row_map;
pub mod worker;

pub use deleted::Aging;
pub use picker::{Choice, Limits, choose, not_full, size};
pub use row_map::RowMap;
pub use worker::{MergeJob, Merged, check_rows, merge};
