//! query
pub mod convert;
pub mod engine;
pub mod error;
pub mod format;
pub mod functions;
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
