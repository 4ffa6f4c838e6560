//! SQL: from the text of a client to rows, with MySQL's meaning, on DataFusion.
//!
//! It is: the parser of every statement (`parser`), the planner of queries (`rewrite` makes of
//! MySQL's syntax tree one that DataFusion plans, `functions` says what functions and operators
//! mean, `engine` plans and runs), the tables of a snapshot with pruning and statistics
//! (`provider`, `scan`, `prune`), the description and the text of results (`result`, `format`),
//! and the tables of `information_schema` (`system`).
//!
//! It is not: a place that writes, keeps sessions or speaks the protocol. It is the only crate
//! that knows DataFusion.
//!
//! Invariants: a query reads one snapshot, whatever its tables; a plan of values of the
//! session is used once; names of columns are lower case inside, and as written outside;
//! memory above the budget of queries is spilled or refused by name (1038).
//!
//! Test it with `cargo test -p freshet-query`; `tests/semantics.rs` has what MySQL answers.

pub mod actions;
mod checked;
mod computed;
pub mod convert;
pub mod engine;
pub mod error;
pub mod evaluation;
pub mod format;
pub mod functions;
mod grouping;
mod interrupt;
mod join_keys;
mod learned;
pub mod limits;
pub mod listing;
mod losses;
mod membership;
pub mod parameters;
pub mod parser;
pub mod provider;
pub mod prune;
mod ranges;
mod recursion;
pub mod result;
pub mod rewrite;
pub mod scan;
pub mod session;
mod set_operation;
pub mod snapshot;
pub mod syntax;
pub mod system;
pub mod tables;
pub mod temporal;
mod threads;
mod top_rows;
mod wide;
mod yielding;

pub use arrow::array::RecordBatch;
pub use arrow::datatypes::DataType;
pub use parameters::Parameter;
pub use threads::{Rows, STACK_BYTES, panicked};
