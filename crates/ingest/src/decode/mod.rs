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
