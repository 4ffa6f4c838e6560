//! Locks and atomics of code that many threads run at once. Such a file names them through
//! `crate::sync`, so that `crates/threads` can compile it a second time with locks and atomics of
//! a scheduler that tries orders of threads, and be sure to test what runs in the server.

pub use std::sync::OnceLock;
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub use parking_lot::Mutex;
