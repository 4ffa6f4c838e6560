//! Failpoints: named points in the code where a test makes the process fail or end; and what a
//! panic must not leave half done.
//!
//! A registry belongs to one engine, so tests run in parallel. When no point is armed, passing one
//! costs a relaxed load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Ends the process when a panic begins in its scope: the work there, which it names, is done whole
/// or not at all. Work that a destructor does while a panic of its caller unwinds may go on.
#[derive(Debug)]
pub struct AbortOnPanic {
    work: &'static str,
    was_panicking: bool,
}

impl AbortOnPanic {
    #[must_use]
    pub fn in_work(work: &'static str) -> Self {
        Self { work, was_panicking: std::thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            eprintln!("a panic inside {} ends the process", self.work);
            std::process::abort();
        }
    }
}

/// What happens when an armed point is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the process at once, as `kill -9` would.
    Abort,
    /// Returns an I/O error of this kind.
    Io(std::io::ErrorKind),
    /// Panics.
    Panic,
}

#[derive(Debug)]
struct Armed {
    skip: u64,
    action: Action,
}

#[derive(Default, Debug)]
struct Registry {
    any: AtomicBool,
    points: Mutex<HashMap<String, Armed>>,
}

/// The failpoints of one engine; cloning shares them.
#[derive(Clone, Default, Debug)]
pub struct Failpoints(Arc<Registry>);

impl Failpoints {
    /// Arms points written as `name=abort`, `name=eio`, `name=enospc` or `name=panic`, separated by
    /// `;`. A suffix `@n` lets the first `n` passes through.
    ///
    /// # Errors
    /// A message for text that is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let points = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, rest) =
                part.split_once('=').ok_or_else(|| format!("failpoint '{part}' has no action"))?;
            let (action, skip) = match rest.split_once('@') {
                Some((action, skip)) => {
                    (action, skip.parse().map_err(|_| format!("'{skip}' is no number"))?)
                }
                None => (rest, 0),
            };
            let action = match action {
                "abort" => Action::Abort,
                "eio" => Action::Io(std::io::ErrorKind::Other),
                "enospc" => Action::Io(std::io::ErrorKind::StorageFull),
                "panic" => Action::Panic,
                other => return Err(format!("failpoint action '{other}' is unknown")),
            };
            points.arm(name, skip, action);
        }
        Ok(points)
    }

    /// From the pass after the first `skip` ones on, `name` acts.
    pub fn arm(&self, name: &str, skip: u64, action: Action) {
        self.0.points.lock().insert(name.to_owned(), Armed { skip, action });
        self.0.any.store(true, Ordering::Release);
    }

    pub fn disarm(&self, name: &str) {
        self.0.points.lock().remove(name);
    }

    /// Called by the code under test where the point `name` is.
    ///
    /// # Errors
    /// The I/O error that the point was armed with.
    pub fn pass(&self, name: &str) -> std::io::Result<()> {
        if !self.0.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut points = self.0.points.lock();
        let Some(armed) = points.get_mut(name) else { return Ok(()) };
        if armed.skip > 0 {
            armed.skip -= 1;
            return Ok(());
        }
        match armed.action {
            Action::Abort => {
                eprintln!("failpoint {name}: abort");
                std::process::abort()
            }
            Action::Io(kind) => Err(std::io::Error::new(kind, format!("failpoint {name}"))),
            Action::Panic => panic!("failpoint {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_fails_after_its_skips_and_until_it_is_disarmed() {
        let points = Failpoints::parse("a=enospc@1; b=eio").unwrap();
        assert!(points.pass("a").is_ok());
        assert_eq!(points.pass("a").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert!(points.pass("b").is_err());
        assert!(points.pass("c").is_ok());
        points.disarm("a");
        assert!(points.pass("a").is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Failpoints::parse("a").is_err());
        assert!(Failpoints::parse("a=explode").is_err());
        assert!(Failpoints::parse("a=abort@x").is_err());
    }

    #[test]
    fn work_of_a_destructor_outlives_a_panic_of_its_caller() {
        struct Closes;
        impl Drop for Closes {
            fn drop(&mut self) {
                let _whole = AbortOnPanic::in_work("closing");
            }
        }
        let panicked = std::panic::catch_unwind(|| {
            let _closes = Closes;
            panic!("a test that fails");
        });
        assert!(panicked.is_err());
    }
}
