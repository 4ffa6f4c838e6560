//! SQL with MySQL's semantics on DataFusion, from the text of a statement to its rows.
//!
//! It contains: the parser of all statements (`parser`), the query planner (`rewrite` turns MySQL's
//! syntax tree into one that DataFusion can plan, `functions` implements functions and operators,
//! `engine` plans and executes), the tables of a snapshot with pruning and statistics (`provider`,
//! `scan`, `prune`), metadata and text format of results (`result`, `format`), and the tables of
//! `information_schema` (`system`).
//!
//! It does not write, manage sessions or implement the protocol. It is the only crate that uses
//! DataFusion.
//!
//! Invariants: a query reads one snapshot of all its tables; a plan that contains values of the
//! session is used once; column names are lower case internally and as written in results; memory
//! above the query budget is spilled or refused with error 1038.
//!
//! Test it with `cargo test -p freshet-query`; `tests/semantics.rs` contains MySQL's results.

pub mod actions;
mod aggregated;
pub mod assign;
mod beginnings;
mod body;
mod by_row;
pub mod carried;
pub mod change;
pub mod changes;
mod checked;
pub mod clauses;
pub mod coercibility;
mod collation;
mod computed;
pub mod convert;
mod dependence;
mod dependent;
pub mod digest;
mod dynamic_filters;
pub mod earlier;
pub mod engine;
pub mod error;
pub mod evaluation;
pub mod explain;
pub mod field_values;
mod folding;
pub mod format;
mod found_by_null;
pub mod functions;
mod group_pool;
mod grouping;
pub mod groups;
mod growth;
pub mod hint;
pub mod indexes;
mod interrupt;
mod join_keys;
mod joined;
mod kept;
mod labels;
mod lateral;
pub mod limits;
pub mod listing;
mod lists;
mod losses;
pub mod mapping;
mod membership;
mod named_twice;
mod narrow;
mod nesting;
mod numbers;
mod operator;
pub mod origin;
pub mod parameters;
pub mod parser;
mod partitions;
pub mod plan;
mod policies;
pub mod provider;
pub mod prune;
mod pruned;
mod ranges;
mod recursion;
pub mod result;
pub mod rewrite;
mod rollup;
pub mod row_checks;
pub mod row_expr;
pub mod scan;
mod self_reads;
pub mod sequence_columns;
pub mod session;
mod set_operation;
pub mod shown;
mod sketches;
pub mod snapshot;
mod sorted_again;
pub mod syntax;
pub mod system;
pub mod tables;
pub mod temporal;
mod threads;
pub mod through;
mod top_rows;
mod unordered;
pub mod updatable;
mod using;
pub mod views;
mod visit;
mod weighing;
mod wide;
mod yielding;

pub use arrow::array::RecordBatch;
pub use arrow::datatypes::DataType;
pub use parameters::Parameter;
pub use threads::{Portion, Rows, STACK_BYTES, Task, panicked};
