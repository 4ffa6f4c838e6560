//! How long a thread computes before the scheduler looks at who else wants the core.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the background has fallen behind.
static IN_A_HURRY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
}

/// How long the turns of a thread are.
///
/// Linux from 6.12 on lets a thread that wakes up push aside only one whose turns are longer
/// than its own; of equals the one that runs goes on until the next tick, 4 ms on most systems.
/// So with all cores busy a synced write takes 4 ms instead of 0.1, and its acknowledgement as
/// long again, unless those who wake up for some microseconds have short turns and those who
/// compute for milliseconds have long ones. A thread's share in its core is the same either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// For threads that others wait for: of the log, of connections.
    Short,
    /// For threads that flush and compact, which also [`give_way`].
    Background,
    /// For threads that compute what somebody waits for: queries.
    Long,
}

impl Turns {
    fn nanos(self) -> u64 {
        match self {
            // The least that the kernel takes.
            Self::Short => 100_000,
            // Longer than short ones, and all that a thread loses when it gives way.
            Self::Background => 300_000,
            // Several times what everybody else on the machine has.
            Self::Long => 20_000_000,
        }
    }
}

/// Gives this thread, and those that it starts, such turns. An older kernel ignores it, and one
/// that refuses it leaves things as they were.
pub fn take_turns(turns: Turns) {
    GIVES_WAY.set(turns == Turns::Background);
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = turns.nanos();
    // SAFETY: the kernel reads as many bytes as the first field of `attributes` says it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Lets others have the core before this thread goes on, if it is one of the background that is
/// not in a [`hurry`] and somebody waits; half a microsecond otherwise. To be called each 100 to
/// 300 us of computing.
///
/// A thread that woke up while it had no more share of the core than who runs there is not
/// looked at again before the next tick, 4 ms later on most systems, though its turn comes much
/// earlier: of the synced writes of a loaded server one in sixty waited for that (`perf sched`).
pub fn give_way() {
    if GIVES_WAY.get() && !IN_A_HURRY.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

/// Says whether the background of this process has fallen behind: then it keeps its share.
pub fn hurry(behind: bool) {
    IN_A_HURRY.store(behind, Ordering::Relaxed);
}

/// What the scheduler knows of this thread, so that its nice value stays.
fn attributes() -> Option<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most `size` bytes, which `attributes` has.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (read == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_turns_of_a_thread_change() {
        let before = attributes().unwrap();
        for turns in [Turns::Long, Turns::Background, Turns::Short] {
            take_turns(turns);
            assert_eq!(GIVES_WAY.get(), turns == Turns::Background);
            give_way();
            let after = attributes().unwrap();
            assert_eq!(before.sched_policy, after.sched_policy);
            assert_eq!(before.sched_nice, after.sched_nice);
            // Kernels before 6.12 have one turn for all and say 0.
            assert!([0, before.sched_runtime, turns.nanos()].contains(&after.sched_runtime));
        }
    }
}
