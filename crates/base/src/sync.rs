//! Locks and atomics of code that several threads run at once. Such code names them through
//! `crate::sync`, so that `crates/threads` can compile the same files with the locks and atomics of
//! a scheduler that explores thread interleavings.

pub use std::sync::OnceLock;
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub use parking_lot::Mutex;
