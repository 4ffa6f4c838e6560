//! How long a thread computes before the scheduler looks at who else wants the core.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicU8, Ordering};

/// The [`Pace`] of the background of this process. It is the one state that belongs to the process
/// and not to an engine: it says how the process shares the cores with itself, whatever it runs.
static PACE: AtomicU8 = AtomicU8::new(Pace::Leisure as u8);

thread_local! {
    /// The pace that the turns of a thread of the background are of; `None` for others.
    static TURNS_OF: Cell<Option<Pace>> = const { Cell::new(None) };
    /// The pace of what it does in [`at_pace`].
    static OWN_PACE: Cell<Option<Pace>> = const { Cell::new(None) };
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
            Self::Background => Pace::Leisure.nanos(),
            // Several times what everybody else on the machine has.
            Self::Long => 20_000_000,
        }
    }
}

/// How much of a core threads of the background take where others want it all, if they give way
/// each 200 us; at a millisecond it is a third at leisure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// A tenth: nothing is lost by leaving it for later.
    #[default]
    Leisure,
    /// Two fifths: it keeps up with most who write.
    Even,
    /// Its full share: it has fallen behind.
    Hurry,
}

impl Pace {
    /// The turn that a thread loses when it gives way: Linux takes the rest of it for used.
    fn nanos(self) -> u64 {
        match self {
            Self::Leisure => 2_000_000,
            Self::Even | Self::Hurry => 300_000,
        }
    }

    fn of_process() -> Self {
        let pace = PACE.load(Ordering::Relaxed);
        let known = [Self::Leisure, Self::Even, Self::Hurry];
        known.into_iter().find(|known| *known as u8 == pace).expect("only paces are stored")
    }
}

/// Gives this thread, and those that it starts, such turns. An older kernel ignores it, and one
/// that refuses it leaves things as they were.
pub fn take_turns(turns: Turns) {
    TURNS_OF.set((turns == Turns::Background).then_some(Pace::Leisure));
    set_turn(turns.nanos());
}

fn set_turn(nanos: u64) {
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = nanos;
    // SAFETY: the kernel reads as many bytes as the first field of `attributes` says it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// How much less of a core a thread that stepped back gets: about a tenth of that of another.
const NICE: libc::c_int = 10;

/// Lets all other threads go before this one, for as long as it lives.
pub fn step_back() {
    // SAFETY: the call takes no pointers; 0 is the thread that calls. Where it is refused the
    // thread stays as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Lets others have the core before this thread goes on, if it is one of the background that is
/// not in a hurry and somebody waits; half a microsecond otherwise. To be called each 100 to
/// 300 us of computing.
///
/// A thread that woke up while it had no more share of the core than who runs there is not
/// looked at again before the next tick, 4 ms later on most systems, though its turn comes much
/// earlier: of the synced writes of a loaded server one in sixty waited for that (`perf sched`).
pub fn give_way() {
    let Some(turns_of) = TURNS_OF.get() else { return };
    let pace = OWN_PACE.get().unwrap_or_else(Pace::of_process);
    if pace != turns_of {
        TURNS_OF.set(Some(pace));
        set_turn(pace.nanos());
    }
    if pace != Pace::Hurry {
        std::thread::yield_now();
    }
}

/// Says how much of the cores the background of this process takes from now on.
pub fn set_pace(pace: Pace) {
    PACE.store(pace as u8, Ordering::Relaxed);
}

/// Does this at a pace of its own, whatever that of the process.
pub fn at_pace<T>(pace: Pace, work: impl FnOnce() -> T) -> T {
    struct Ended(Option<Pace>);
    impl Drop for Ended {
        fn drop(&mut self) {
            OWN_PACE.set(self.0);
        }
    }
    let _ended = Ended(OWN_PACE.replace(Some(pace)));
    work()
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
        // Kernels before 6.12 have one turn for all and say 0.
        let assert_turn = |nanos| {
            let after = attributes().unwrap();
            assert_eq!(before.sched_policy, after.sched_policy);
            assert_eq!(before.sched_nice, after.sched_nice);
            assert!([0, before.sched_runtime, nanos].contains(&after.sched_runtime));
        };
        take_turns(Turns::Background);
        for pace in [Pace::Hurry, Pace::Even, Pace::Leisure] {
            set_pace(pace);
            give_way();
            assert_eq!(TURNS_OF.get(), Some(pace));
            assert_turn(pace.nanos());
        }
        at_pace(Pace::Leisure, || {
            set_pace(Pace::Hurry);
            give_way();
            assert_eq!(TURNS_OF.get(), Some(Pace::Leisure));
        });
        give_way();
        assert_eq!(TURNS_OF.get(), Some(Pace::Hurry));
        for turns in [Turns::Long, Turns::Short] {
            take_turns(turns);
            set_pace(Pace::Even);
            give_way();
            assert_eq!(TURNS_OF.get(), None);
            assert_turn(turns.nanos());
        }
    }
}
