//! Bytes of a request into encoded rows, without a tree and without a value per cell.
//!
//! Every decoder reads its own syntax and hands literals to one [`RowEncoder`], which knows by
//! an [`InsertPlan`] which column a value is for and what the columns that were not named take.

pub mod csv;
pub mod encoder;
pub mod fuzz;
pub mod json;
pub mod params;
pub mod plan;
pub mod values;

pub use encoder::{Fault, RowEncoder, Warnings};
pub use plan::{InsertPlan, SourcePlan};

#[cfg(test)]
pub(crate) mod testing;

/// How many bytes a decoder has looked at. Tests hold it to the size of the input: what comes in
/// pieces must not be looked at again with each of them.
#[derive(Default)]
pub(crate) struct Work {
    #[cfg(test)]
    pub(crate) bytes: u64,
}

impl Work {
    /// So many more.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.bytes += bytes as u64;
        }
        let _ = bytes;
    }
}
