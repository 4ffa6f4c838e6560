//! query
pub mod convert;
pub mod engine;
pub mod error;
pub mod format;
pub mod functions;
pub mod parameters;
pub mod parser;
pub mod provider;
pub mod prune;
pub mod result;
pub mod rewrite;
pub mod scan;
pub mod session;
pub mod snapshot;
pub mod system;
pub mod temporal;
pub mod zone;

pub use arrow::array::RecordBatch;
pub use arrow::datatypes::DataType;
pub use datafusion::catalog::TableProvider;
pub use engine::Rows;
pub use parameters::Parameter;
