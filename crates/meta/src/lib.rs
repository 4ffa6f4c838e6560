//! Metadata: databases, tables, users, used labels, and how far tables are flushed.
//!
//! It contains a small key-value store (`MetaStore`: in memory, or one redb file on the engine's
//! own file system), the fold of the log's metadata records with its checkpoint in that store, the
//! catalog, DDL, labels, the list of log files, blocks of ids, users and grants.
//!
//! It makes no decisions about rows: the log determines what happened to them and in which order,
//! and metadata follows it. It neither parses SQL nor deletes files of tables.
//!
//! Invariants: the store contains exactly what has settled up to one LSN; a flush is applied only
//! if the table is flushed exactly up to the LSN it starts from; an id is never assigned twice, not
//! even after a crash; a label given by a client identifies at most one load; a failed sync of
//! metadata ends the process, a full disk does not.
//!
//! Test it with `cargo test -p freshet-meta`.

mod alter;
mod alter_keys;
mod authorize;
mod ballast;
mod bin;
mod catalog;
mod checkpoint;
mod checks;
mod create;
mod ddl;
pub mod disk;
mod dynamic;
mod fold;
mod foreign;
mod format;
mod generated;
mod ids;
mod kept_keys;
mod keys;
mod label;
mod log;
mod log_state;
mod meta;
#[cfg(test)]
mod model;
mod names;
mod partition;
mod policies;
mod prepared;
mod privilege;
mod properties;
mod property_admin;
mod reserve;
mod rewrite;
mod role_admin;
mod rowset;
mod second_password;
mod sequence;
mod show;
mod spec;
pub mod store;
mod temporary;
mod term;
#[cfg(test)]
mod test;
mod unkept;
mod user;
mod user_admin;
mod user_options;
mod user_properties;
mod view;
mod view_admin;
mod workload;
mod workload_admin;
mod zoned;

pub use alter::{ColumnPlace, SchemaChange};
pub use alter_keys::{INVISIBLE_UNIQUE, KeyChange};
pub use authorize::{
    ActiveRoles, Actor, ColumnRights, Object, authorize, authorize_columns, column_denied,
    may_see_database, may_see_table, require_visible, seen_columns,
};
pub use ballast::Ballast;
pub use catalog::{
    Catalog, Database, DatabaseMode, INFORMATION_SCHEMA, RESERVED_DATABASES, is_reserved_database,
};
pub use create::{Planned, make_global};
pub use ddl::{Created, Renaming};
pub use dynamic::Dynamic;
pub use fold::{
    Definition, Divide, Flushed, Fold, MetaEvent, Moved, NewMarks, Publish, Replacement, Resting,
    StoredResting, StoredTable, Truncate,
};
pub use foreign::ForeignChange;
pub use ids::{IdEnds, IdKind};
pub use label::{
    Claim, ClaimOutcome, CleanedLabels, LABEL_CHARS_MAX, LabelKind, LabelLimits, LabelRecord,
    LabelRegistry, LabelState, LabelTime, UsedLabel, check_label,
};
pub use log_state::{AcceptedHole, LogFileRecord, LogSecret, LogState, RecycleCommit};
pub use meta::Meta;
pub use partition::{
    Exchanged, PartitionChange, PartitionsChanged, Repartition, Replacing, unknown_partition,
};
pub use policies::{PolicySpec, is_restricted, row_filter};
pub use prepared::{NotedPartial, NotedRows, PreparedNote};
pub use privilege::{Privilege, Privileges};
pub use properties::PAUSE_LOAD;
pub use reserve::Ids;
pub use rewrite::{Division, DivisionSpec, NewForm};
pub use role_admin::DefaultRoles;
pub use rowset::{KeyPartMeta, KeyRange, MarkFileMeta, RowsetMeta, SegmentMeta};
pub use show::{HashedText, PartitionText, hashed_text, partition_text, show_create_table};
pub use spec::{
    BucketsSpec, CheckSpec, ColumnSpec, ComputedSpec, DeclaredKeySpec, DefaultSpec,
    DistributionSpec, ForeignKeySpec, GeneratedSpec, GlobalIndexSpec, KeyModelSpec, KeySpec,
    PartitionBySpec, PartitionSpec, PlacementSpec, StepsSpec, TableSpec, UnkeptKeySpec, ValueSpec,
    ValuesSpec,
};
pub use store::{Batch, MemStore, MetaStore, OnFatal, RedbStore, StoreError};
pub use term::{LeftOpen, TermRecord};
pub use user::{
    Account, AuthData, Grant, GrantObject, GrantedRole, Remembered, SecondPassword, TlsRequirement,
    User,
};
pub use user_admin::UserAdmin;
pub use user_options::{
    FailedLogins, LockTime, PasswordReuse, UserLimits, UserOption, UserOptions,
};
pub use user_properties::UserProperties;
pub use view::{CheckOption, TextMode, View, ViewAlgorithm};
pub use view_admin::KnownView;
pub use workload::{GroupLimits, NORMAL_GROUP, UNLIMITED, WorkloadGroup};
pub use workload_admin::unknown_group;
