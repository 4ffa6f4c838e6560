//! Who writes to a table, for a change of columns that copies its rows (RFC 0039): at its end it
//! lets nobody in, waits until those are gone who were in, and exchanges the tables.
//!
//! What keeps rows from being lost is not this, but the look under the append lock
//! ([`crate::rewrite`]). The gate is there so that nobody's work is refused by that look.

use std::sync::Arc;

use parking_lot::Mutex;

/// The gate of a table.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Writers>);

#[derive(Default)]
struct Writers {
    inside: usize,
    is_closed: bool,
    /// For good: another table has its name.
    is_replaced: bool,
}

/// Held by a load, a statement or a transaction from before it writes until it is appended.
pub struct Pass(Arc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        let mut writers = self.0.0.lock();
        assert!(writers.inside > 0, "who leaves has entered");
        writers.inside -= 1;
    }
}

/// A gate that nobody enters until this is dropped.
pub(crate) struct Closed(Arc<Gate>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.0.lock().is_closed = false;
    }
}

impl Gate {
    /// Enters, unless the gate is closed.
    pub fn enter(self: &Arc<Self>) -> Option<Arc<Pass>> {
        let mut writers = self.0.lock();
        if writers.is_closed || writers.is_replaced {
            return None;
        }
        writers.inside += 1;
        Some(Arc::new(Pass(Arc::clone(self))))
    }

    /// Lets nobody in any more.
    pub fn close(self: &Arc<Self>) -> Closed {
        let before = std::mem::replace(&mut self.0.lock().is_closed, true);
        assert!(!before, "one change of columns copies a table at a time");
        Closed(Arc::clone(self))
    }

    /// How many are in.
    pub fn inside(&self) -> usize {
        self.0.lock().inside
    }

    /// Says that another table has its name; called under the append lock.
    pub fn replace(&self) {
        self.0.lock().is_replaced = true;
    }

    pub fn is_replaced(&self) -> bool {
        self.0.lock().is_replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_is_counted_and_a_closed_gate_lets_nobody_in() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().expect("it is open");
        let copy = Arc::clone(&pass);
        let closed = gate.close();
        assert!(gate.enter().is_none());
        drop(pass);
        assert_eq!(gate.inside(), 1, "a copy of a pass counts");
        drop(copy);
        assert_eq!(gate.inside(), 0);
        drop(closed);
        assert!(gate.enter().is_some());
        gate.replace();
        assert!(gate.enter().is_none());
        assert!(gate.is_replaced());
    }
}
