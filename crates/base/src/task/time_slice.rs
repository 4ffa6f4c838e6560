//! The scheduler's time slice of a thread, and the share of the cores that background threads take.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicU8, Ordering};

/// The current [`BackgroundShare`]. It is global because it says how one process divides the cores
/// among its own threads, whatever engines it runs.
static SHARE: AtomicU8 = AtomicU8::new(BackgroundShare::Tenth as u8);

thread_local! {
    /// The share that the time slice of this background thread was set for; `None` on other
    /// threads.
    static SLICE_SHARE: Cell<Option<BackgroundShare>> = const { Cell::new(None) };
    /// The share inside [`with_background_share`].
    static OWN_SHARE: Cell<Option<BackgroundShare>> = const { Cell::new(None) };
}

/// The scheduler's time slice of a thread.
///
/// Since Linux 6.12 a thread that wakes up preempts only a running thread with a longer slice;
/// otherwise the running thread goes on until the next tick, 4 ms on most systems. So with all
/// cores busy a synced write takes 4 ms instead of 0.1, and its acknowledgement as long again,
/// unless threads that run for microseconds have short slices and threads that compute for
/// milliseconds have long ones. The share of the core that a thread gets is the same either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSlice {
    /// For threads that others wait for: of the log, of connections.
    Short,
    /// For threads that flush and compact, which also call [`yield_core`].
    Background,
    /// For threads that compute queries.
    Long,
}

impl TimeSlice {
    fn nanos(self) -> u64 {
        match self {
            // The kernel's minimum.
            Self::Short => 100_000,
            Self::Background => BackgroundShare::Tenth.nanos(),
            // Several times the kernel's default.
            Self::Long => 20_000_000,
        }
    }
}

/// The share of a contended core that background threads take if they call [`yield_core`] every
/// 200 us. (If they call it every millisecond, [`BackgroundShare::Tenth`] comes to a third.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackgroundShare {
    /// Background work can wait.
    #[default]
    Tenth,
    /// Enough to keep up with most write loads.
    TwoFifths,
    /// Background work has fallen behind.
    Full,
}

impl BackgroundShare {
    /// The time slice; yielding forfeits the rest of it, so a long one makes the share small.
    fn nanos(self) -> u64 {
        match self {
            Self::Tenth => 2_000_000,
            Self::TwoFifths | Self::Full => 300_000,
        }
    }

    fn of_process() -> Self {
        let share = SHARE.load(Ordering::Relaxed);
        let all = [Self::Tenth, Self::TwoFifths, Self::Full];
        all.into_iter().find(|known| *known as u8 == share).expect("only shares are stored")
    }
}

/// Sets the time slice of this thread and of those that it starts. Older kernels ignore it; if the
/// kernel refuses it, nothing changes.
pub fn set_time_slice(slice: TimeSlice) {
    SLICE_SHARE.set((slice == TimeSlice::Background).then_some(BackgroundShare::Tenth));
    set_slice_nanos(slice.nanos());
}

fn set_slice_nanos(nanos: u64) {
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = nanos;
    // SAFETY: the kernel reads as many bytes as the first field of `attributes` says it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// At this nice value a thread gets about a tenth of the time of a thread at nice 0.
const NICE: libc::c_int = 10;

/// Lowers the priority of this thread for as long as it lives.
pub fn lower_priority() {
    // SAFETY: the call takes no pointers; 0 is the calling thread. If it is refused, the thread
    // keeps its priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Yields the core to other runnable threads, if this is a background thread and the background's
/// share is not [`BackgroundShare::Full`]. Call it every 100 to 300 us of computing; when no other
/// thread is runnable it costs half a microsecond.
///
/// A thread that wakes up with its share used up is not considered again before the next tick, 4 ms
/// later on most systems, although it becomes eligible much earlier: without yielding, one in sixty
/// synced writes of a loaded server waited for that (`perf sched`).
pub fn yield_core() {
    let Some(slice_share) = SLICE_SHARE.get() else { return };
    let share = OWN_SHARE.get().unwrap_or_else(BackgroundShare::of_process);
    if share != slice_share {
        SLICE_SHARE.set(Some(share));
        set_slice_nanos(share.nanos());
    }
    if share != BackgroundShare::Full {
        std::thread::yield_now();
    }
}

/// Sets the share of the cores that the background threads of this process take from now on.
pub fn set_background_share(share: BackgroundShare) {
    SHARE.store(share as u8, Ordering::Relaxed);
}

/// Runs `work` with `share` on this thread, whatever that of the process.
pub fn with_background_share<T>(share: BackgroundShare, work: impl FnOnce() -> T) -> T {
    struct Ended(Option<BackgroundShare>);
    impl Drop for Ended {
        fn drop(&mut self) {
            OWN_SHARE.set(self.0);
        }
    }
    let _ended = Ended(OWN_SHARE.replace(Some(share)));
    work()
}

/// The scheduling attributes of this thread; the ones that are not set keep their values.
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
    fn only_the_slice_of_a_thread_changes() {
        let before = attributes().unwrap();
        // Kernels before 6.12 have one slice for all and report 0.
        let assert_slice = |nanos| {
            let after = attributes().unwrap();
            assert_eq!(before.sched_policy, after.sched_policy);
            assert_eq!(before.sched_nice, after.sched_nice);
            assert!([0, before.sched_runtime, nanos].contains(&after.sched_runtime));
        };
        set_time_slice(TimeSlice::Background);
        use BackgroundShare::{Full, Tenth, TwoFifths};
        for share in [Full, TwoFifths, Tenth] {
            set_background_share(share);
            yield_core();
            assert_eq!(SLICE_SHARE.get(), Some(share));
            assert_slice(share.nanos());
        }
        with_background_share(Tenth, || {
            set_background_share(Full);
            yield_core();
            assert_eq!(SLICE_SHARE.get(), Some(Tenth));
        });
        yield_core();
        assert_eq!(SLICE_SHARE.get(), Some(Full));
        for slice in [TimeSlice::Long, TimeSlice::Short] {
            set_time_slice(slice);
            set_background_share(TwoFifths);
            yield_core();
            assert_eq!(SLICE_SHARE.get(), None);
            assert_slice(slice.nanos());
        }
    }
}
