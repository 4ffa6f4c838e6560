//! The engine below SQL: from the bytes of a request to an acknowledged load.
//!
//! It contains admission control, decoding of literals, parameters, CSV and JSON into encoded rows,
//! group commit on the shared log, flushing, settling of metadata, replay, and management of log
//! space.
//!
//! It does not contain a protocol, a query planner or a file format of its own.
//!
//! The write path, in the order of its files: `load` takes every load from encoded rows to its
//! record; `admit` grants it memory and log space, `append` assigns its position in log and delta
//! under one lock, `group` determines which loads share a transaction; the horizon of the log
//! acknowledges it. Before any of them, `term` appends the first record of the term. Independently
//! of clients, `flush` later writes rows to files, `metadata` applies changes of files once the
//! horizon has reached their records, `recycle` reuses log files, and `replay` restores the
//! contents of the log after a crash. `upkeep` decides when. `engine` says in which order they use
//! each other.
//!
//! Invariants: nothing is acknowledged before the horizon has reached its LSN; after the append
//! nothing fails and nothing is cancelled; rejected rows are in no record; replay is idempotent;
//! every byte reserved from the memory for writes is released.
//!
//! Test it with `cargo test -p freshet-ingest`.

mod admit;
mod append;
mod begin;
mod behind;
mod bin;
mod buffer;
mod change;
pub mod check;
mod compact;
mod config;
mod counter;
mod ddl;
pub mod decode;
mod digest;
mod disk;
mod drop;
mod engine;
mod event_files;
mod exchange;
mod flush;
mod follow;
mod forget;
mod gate;
mod group;
mod history;
mod job;
mod keeper;
mod key_ddl;
mod key_rules;
mod keyed;
mod keyed_files;
mod keyed_own;
mod labels;
mod large_load;
mod large_update;
mod layout;
mod load;
mod locks;
mod log_dirs;
mod log_files;
mod looked;
mod marks;
mod meeting;
mod metadata;
mod named;
pub mod names;
mod note;
mod one_row;
mod open;
mod overtaken;
mod overwrite;
mod own_part;
mod own_rows;
mod partition_bin;
mod partitions;
mod periodic;
mod prepared;
mod privacy;
mod ranks;
mod record;
mod recycle;
pub mod rejects;
mod removals;
mod reorganize;
mod replay;
mod rewrite;
mod sequence;
pub mod spool;
mod spooled;
mod state;
mod stopped;
mod stops;
mod store;
mod sweep;
mod tables;
mod target;
mod temporary;
mod term;
mod transaction;
mod two_phases;
mod uniques;
mod unkeyed;
mod unkeyed_own;
mod unlisted;
mod unlocked;
mod unsettled;
mod upkeep;
mod world;

pub use admit::WaitLimit;
pub use buffer::LoadBuffer;
pub use change::{Change, Written};
pub use config::EngineConfig;
pub use counter::{Counter, Steps, UsedIds};
pub use ddl::Ddl;
pub use engine::Engine;
pub use exchange::{exchange_partition, replace_partitions};
pub use forget::Forgot;
pub use freshet_wal::{Acks, Horizon, HorizonWatch};
pub use group::{EndedGroup, FlushTimes};
pub use history::{EndedFlush, FlushedFiles};
pub use key_ddl::alter_keys;
pub use key_rules::{KeyRules, OnExisting};
pub use labels::clean_labels;
pub use large_update::LargeUpdate;
pub use layout::{META_FILE, STORE_FILE, TERM_FILE};
pub use load::{Destination, Load, enter};
pub use locks::LockWait;
pub use looked::{
    OnNewKey, PartialRows, TRIES_MAX, merge_rows, update_columns, update_own_columns,
};
pub use meeting::{Course, Group, Meeting, Met};
pub use one_row::{ChangedRow, OneRow, change_row};
pub use overwrite::overwrite_partitions;
pub use own_rows::{OwnRows, Savepoint};
pub use partition_bin::{bin_partitions, recover_partition};
pub use prepared::{PreparedEnd, PreparedId, PreparedTable};
pub use ranks::Ranks;
pub use removals::with_removals;
pub use reorganize::reorganize;
pub use rewrite::{Progress, Rewriting, Stage, overwrite, rewrite, rewrite_temporary};
pub use spooled::{ReadRows, SpooledRows};
pub use state::TableState;
pub use target::{KeyOutcome, LoadTarget, Loaded};
pub use transaction::Transaction;
pub use unkeyed::{Affected, Copies, RowChange};
pub use unlisted::{CreateOutcome, UnpublishedTable};
pub use world::World;
