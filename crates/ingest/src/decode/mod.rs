//! Decodes request bodies into encoded rows, without a syntax tree and without an object per cell.
//!
//! Each decoder parses its own syntax and passes literals to a [`RowEncoder`]. An [`InsertPlan`]
//! maps the values to columns and provides defaults for omitted columns.

pub mod columnar;
mod completion;
pub mod csv;
mod divider;
mod encoder;
pub mod fields;
pub mod fuzz;
mod ids;
pub mod json;
pub mod params;
mod plan;
pub mod prepared;
mod stored;
pub mod values;
mod warnings;

pub use completion::{Completion, ComputedDefaults, GeneratedValues};
pub use encoder::{Encoded, Fault, RowEncoder};
pub use ids::IdRules;
pub use plan::{InsertPlan, PartialColumns, SourcePlan};
pub use stored::StoredValues;
pub use warnings::Warnings;

#[cfg(test)]
pub(crate) mod testing;

/// Counts examined bytes. Tests compare it to the size of the input, since input that arrives in
/// pieces must not be examined again for each piece.
#[derive(Default)]
pub(crate) struct Work {
    #[cfg(test)]
    pub(crate) bytes: u64,
}

impl Work {
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.bytes += bytes as u64;
        }
        let _ = bytes;
    }
}
