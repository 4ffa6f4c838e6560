//! Metadata: what databases, tables and users there are, which labels are used, what is flushed.
//!
//! It is: a small store of keys (`MetaStore`: in memory, or one redb file over the engine's own
//! file system), the fold of the log's records that it is a checkpoint of, the catalog in it, DDL,
//! labels, the bookkeeping of log files, blocks of ids, users and grants.
//!
//! It is not: a decider. The log decides what happened to rows and in which order; metadata
//! follows it. Nothing here parses SQL, and nothing here removes files of tables.
//!
//! Invariants: the store holds what has settled up to one LSN, and exactly that; a flush or a
//! TRUNCATE applies only where the table stands exactly at the LSN it starts from; an id is never
//! handed out twice, not even across a crash; a label that a client gave names at most one load; a
//! failed sync of metadata ends the process, a full disk does not.
//!
//! Test it with `cargo test -p freshet-meta`.

mod alter;
mod authorize;
mod ballast;
mod catalog;
mod checkpoint;
mod create;
mod ddl;
mod fold;
mod format;
mod ids;
mod keys;
mod label;
mod log;
mod meta;
#[cfg(test)]
mod model;
mod names;
mod properties;
mod rowset;
mod show;
mod spec;
pub mod store;
#[cfg(test)]
mod test;
mod user;
mod user_admin;

pub use alter::{ColumnPlace, SchemaChange};
pub use authorize::{
    Object, Privilege, authorize, may_see_database, may_see_table, require_visible,
};
pub use ballast::Ballast;
pub use catalog::{
    Catalog, Database, INFORMATION_SCHEMA, RESERVED_DATABASES, is_reserved_database,
};
pub use create::Planned;
pub use ddl::{Created, DroppedDatabase};
pub use fold::{
    Flushed, Fold, MetaEvent, Publish, PublishOutcome, Replacement, StoredTable, Truncate,
    Truncated,
};
pub use ids::{IdBlock, IdKind, Ids};
pub use label::{
    Claim, ClaimOutcome, LABEL_CHARS_MAX, LabelBook, LabelKind, LabelLimits, LabelRecord,
    LabelState, LabelTime, UsedLabel,
};
pub use log::{AcceptedHole, LogFileRecord, LogSecret, LogState, RecycleCommit};
pub use meta::{Meta, MetaConfig};
pub use rowset::{KeyRange, RowsetMeta, SegmentMeta};
pub use show::show_create_table;
pub use spec::{
    BucketsSpec, ColumnSpec, DeclaredKeySpec, DefaultSpec, DistributionSpec, KeyModelSpec, KeySpec,
    TableSpec,
};
pub use store::{Batch, MemStore, MetaStore, OnFatal, RedbStore, StoreError};
pub use user::{Account, AuthData, Grant, GrantObject, Privileges, User};
