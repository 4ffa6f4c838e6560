//! How long a thread computes before the scheduler looks at who else wants the core.

use std::mem::size_of;

/// How long the turns of a thread are, and whether it waits for one at all.
///
/// Linux from 6.12 on lets a thread that wakes up push aside only one whose turns are longer
/// than its own; of equals the one that runs goes on until the next tick, 4 ms on most systems.
/// So with all cores busy a synced write takes 4 ms instead of 0.1, and its acknowledgement as
/// long again, unless those who wake up for some microseconds have short turns and those who
/// compute for milliseconds have long ones. A thread's share in its core is the same either way.
///
/// Even so, whoever had a little more than its share lately waits for the tick, and beside
/// flushes that was one sync of the log in a hundred. So the log's thread asks for the real-time
/// class, which root has, or who has CAP_SYS_NICE or a limit of RLIMIT_RTPRIO: W2 with 10
/// connections wrote a fifth more rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// For the thread that everybody waits for and that hardly computes: the log's. Short turns
    /// where the system does not allow more.
    AtOnce,
    /// For threads that others wait for: connections.
    Short,
    /// For threads that compute: flushes, compactions, queries.
    Long,
}

impl Turns {
    fn nanos(self) -> u64 {
        match self {
            // The least that the kernel takes.
            Self::AtOnce | Self::Short => 100_000,
            // Several times what everybody else on the machine has.
            Self::Long => 20_000_000,
        }
    }
}

/// Gives this thread such turns, and those that it starts, but none the real-time class. An older
/// kernel ignores it, and one that refuses it leaves things as they were.
pub fn take_turns(turns: Turns) {
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = turns.nanos();
    if turns == Turns::AtOnce {
        let real_time = libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
            sched_priority: 1,
            ..attributes
        };
        if set(&real_time) {
            return;
        }
    }
    set(&attributes);
}

/// Whether the system agreed.
fn set(attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads as many bytes as the first field of `attributes` says it has.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    done == 0
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
        for turns in [Turns::Long, Turns::Short] {
            take_turns(turns);
            let after = attributes().unwrap();
            assert_eq!(before.sched_policy, after.sched_policy);
            assert_eq!(before.sched_nice, after.sched_nice);
            // Kernels before 6.12 have one turn for all and say 0.
            assert!([0, before.sched_runtime, turns.nanos()].contains(&after.sched_runtime));
        }
    }

    #[test]
    fn the_real_time_class_is_taken_where_it_is_allowed_and_not_passed_on() {
        let policy = || attributes().unwrap().sched_policy;
        let before = policy();
        take_turns(Turns::AtOnce);
        assert!([before, libc::SCHED_FIFO as u32].contains(&policy()));
        let started = std::thread::spawn(policy).join().unwrap();
        assert_eq!(started, before);
    }
}
