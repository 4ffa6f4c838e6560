//! How long a thread computes before the scheduler looks at who else wants the core.

use std::mem::size_of;

/// A turn of a thread that computes. The log's sync, a reply and whoever else wakes up for some
/// microseconds has shorter ones, and so need not wait for the end of this one.
const LONG_TURN_NANOS: u64 = 20_000_000;

/// Makes the turns of this thread long, for work that computes for milliseconds.
///
/// Linux from 6.12 on lets a thread that wakes up push aside only one whose turns are longer
/// than its own; of equals the one that runs goes on until the next tick, 4 ms at most systems.
/// Without this a synced write takes 4 ms instead of 0.1 while each core has a job. The share of
/// a thread in a core is the same. An older kernel ignores it, and one that refuses it leaves
/// things as they were.
pub fn take_long_turns() {
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = LONG_TURN_NANOS;
    // SAFETY: the kernel reads as many bytes as the first field of `attributes` says it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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
        take_long_turns();
        let after = attributes().unwrap();
        assert_eq!(before.sched_policy, after.sched_policy);
        assert_eq!(before.sched_nice, after.sched_nice);
        // Kernels before 6.12 have one turn for all and say 0.
        assert!([0, before.sched_runtime, LONG_TURN_NANOS].contains(&after.sched_runtime));
    }
}
