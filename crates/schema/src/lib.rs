//! What a row is: column types, table definitions, and the one encoding of rows.
//!
//! It is: MySQL and Doris types and their Arrow counterparts, the definition of a table with the
//! history of its columns, the compact row encoding that log and delta share, and the one place
//! that converts a literal to a column's value.
//!
//! It is not: a parser, a store, or anything that knows the log.
//!
//! Invariants: a row that was encoded decodes under its schema version; `history::adapt` is
//! total over every version a table ever had; a value that does not fit its column is named
//! with its limit and never stored.
//!
//! Test it with `cargo test -p freshet-schema`.

pub mod aggregate;
pub mod charset;
pub mod check;
mod clause;
pub mod collation;
pub mod columns;
pub mod convert;
mod delete_age;
mod distribution;
pub mod encode;
pub mod fields;
mod foreign;
mod generated;
pub mod global;
pub mod hash;
pub mod history;
pub mod key;
mod key_form;
pub mod partition;
mod plain;
mod policy;
mod properties;
pub mod row;
mod row_id;
pub mod sequence;
pub mod sequenced;
pub mod sketch;
pub mod table;
mod time_part;
pub mod types;
mod unique;
pub mod value;
mod views;
mod widen;
pub mod zone;

pub use aggregate::Aggregate;
pub use charset::{Charset, CharsetReader};
pub use check::{CHECK_BYTES_MAX, CHECKS_MAX, Check, RowChecks};
pub use clause::ClauseDivision;
pub use collation::Collation;
pub use columns::ColumnsBuilder;
pub use delete_age::{DeleteClock, Forgotten};
pub use distribution::Distribution;
pub use encode::{encode, encode_rows};
pub use fields::FieldFormat;
pub use foreign::{ForeignKey, ReferenceAction};
pub use generated::Generated;
pub use global::GlobalIndex;
pub use key_form::{KeyForm, is_beginning};
pub use partition::{
    AutoPartition, DatePart, PARTITIONS_MAX, PartitionBy, PartitionExpr, PartitionFunction,
    PartitionKey, PartitionMethod, PartitionValues, RoutedKeys, Router, Step, TABLETS_MAX,
    TimeUnit, Unrouted,
};
pub use policy::{POLICIES_MAX, POLICY_BYTES_MAX, PolicyHolder, RowPolicy};
pub use properties::STORE_ROW_COLUMN;
pub use row::{Put, RowCells, RowCursor, RowFault, RowWriter, Rows};
pub use row_id::{ROW_ID, row_id_column};
pub use sequence::{SEQUENCE_VALUE_MAX, Sequence, SequenceChange, SequenceKind};
pub use sequenced::{DELETE_SIGN, SEQUENCE_COLUMN, hidden_columns};
pub use table::*;
pub use time_part::TimePart;
pub use types::*;
pub use unique::NOT_ENFORCED;
pub use value::{BadValue, Literal, OnBad, Rules, ZeroDates, nested};
pub use widen::holds_all_of;
pub use zone::Zone;
