//! Bytes to acknowledged load: the engine below SQL.
//!
//! It is: admission, the decoding of literals, parameters, CSV and JSON into encoded rows, group
//! commit over the shared log, settling of files and metadata, replay, log room.
//!
//! It is not: a protocol, a planner, a file format.
//!
//! The write path, in the order of its files: [`load`] is the one road of every load, from encoded
//! rows to the record; `admit` lets it in, `append` gives it its place in log and delta under one
//! lock, [`group`] says which loads share a transaction; the horizon of the log acknowledges it.
//! Later and apart from any client [`settle`] brings rows
//! into files, `metadata` lets what happened to files settle behind the horizon,
//! [`recycle`](Engine::open) uses log files again, and [`replay`] brings the log
//! back after a crash. [`keeper`] decides when.
//!
//! Invariants: nothing is acknowledged before the horizon has reached its LSN; after append
//! nothing fails and nothing is cancelled; rejected rows are in no record; replaying twice is
//! replaying once; every byte of the write budget that is taken is given back.
//!
//! Test it with `cargo test -p freshet-ingest`.

mod admit;
mod append;
mod buffer;
mod bulk;
pub mod check;
mod compact;
mod config;
mod ddl;
pub mod decode;
pub mod digest;
mod disk;
mod drop;
pub mod engine;
pub mod group;
pub mod history;
pub mod keeper;
mod labels;
pub mod load;
mod log_dirs;
mod metadata;
pub mod names;
mod open;
mod privacy;
pub mod record;
mod recycle;
pub mod rejects;
pub mod replay;
pub mod settle;
pub mod state;
mod sweep;
mod target;
mod transaction;
mod unlisted;
mod unsettled;
mod world;

pub use admit::WaitLimit;
pub use buffer::LoadBuffer;
pub use config::EngineConfig;
pub use engine::{Engine, World};
pub use freshet_wal::{Acks, Horizon, HorizonWatch};
pub use load::{Destination, Load};
pub use log_dirs::STORE_FILE;
pub use open::{META_FILE, TERM_FILE};
pub use state::TableState;
pub use target::{LoadTarget, Loaded};
pub use transaction::{OwnRows, Transaction};
pub use unlisted::{Making, Unlisted};
