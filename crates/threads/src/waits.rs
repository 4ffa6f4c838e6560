//! Scenarios of waiting: for memory, for a lock, for room in the log, for its sync.

use std::sync::Arc;

use freshet_base::Lsn;
use futures::FutureExt;
use shuttle::future::block_on;
use shuttle::thread;

use crate::base::budget::Budget;
use crate::base::lock::FairLock;
use crate::horizon::Horizon;
use crate::never::{LATER, Never};
use crate::wal::acks::Acks;
use crate::wal::room::{LogSpace, Priority, charge_bytes};

/// Several threads repeatedly ask for more than the budget has, and one cancels its request: the
/// limit holds, every request is granted, and all bytes come back.
pub fn budget() {
    const LIMIT_BYTES: u64 = 100;
    let budget = Budget::new("test", LIMIT_BYTES);
    let patient = [60, 40, 90].map(|bytes| {
        let budget = budget.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                let mut permit = block_on(budget.acquire(bytes, &Never, LATER)).expect("it waits");
                assert!(budget.used_bytes() <= LIMIT_BYTES, "more is given than there is");
                permit.shrink_to(bytes / 2);
                thread::yield_now();
            }
        })
    });
    let impatient = {
        let budget = budget.clone();
        thread::spawn(move || {
            let asked = Box::pin(budget.acquire(70, &Never, LATER));
            drop(asked.now_or_never());
            drop(budget.try_acquire(10));
        })
    };
    patient.into_iter().chain([impatient]).for_each(|thread| thread.join().expect("it ends"));
    assert_eq!((budget.used_bytes(), budget.waiting()), (0, 0));
}

/// Several threads take a lock in turns, one gives up waiting and takes it only where it is free:
/// one at a time has the value, and nobody is forgotten.
pub fn lock() {
    let lock = Arc::new(FairLock::new(0));
    let add = |held: &mut u32| {
        let before = *held;
        thread::yield_now();
        *held = before + 1;
    };
    let patient = [0, 1, 2].map(|_| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || (0..3).for_each(|_| add(&mut block_on(lock.lock()))))
    });
    let impatient = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            for _ in 0..2 {
                let mut waits = lock.lock();
                drop((&mut waits).now_or_never());
                thread::yield_now();
                drop(waits);
                drop(lock.try_lock());
            }
        })
    };
    patient.into_iter().chain([impatient]).for_each(|thread| thread.join().expect("it ends"));
    assert_eq!(*lock.try_lock().expect("nobody has it"), 9);
}

/// Loads and a privileged record reserve room in the log while records are written and a file is
/// prepared: each reservation is granted in the end, and is written or returned.
pub fn log_space() {
    const BLOCK: u64 = crate::BLOCK_BYTES;
    const LOAD_BYTES: usize = BLOCK as usize;
    let space = Arc::new(LogSpace::new(16 * BLOCK, 4 * BLOCK, 2 * BLOCK));
    space.resume_file(10 * BLOCK);
    let loads = [true, false, true].map(|written| {
        let space = Arc::clone(&space);
        thread::spawn(move || {
            let room = block_on(space.reserve(LOAD_BYTES, Priority::Load, &Never, LATER))
                .expect("it waits");
            assert_eq!(room.charge_bytes(), charge_bytes(LOAD_BYTES));
            if written {
                let charge_bytes = room.into_charge();
                space.written(charge_bytes, charge_bytes);
            }
        })
    });
    let frees = {
        let space = Arc::clone(&space);
        thread::spawn(move || {
            // Privileged reservations do not wait; a file is ready a moment later.
            drop(space.try_reserve(100, Priority::Privileged));
            space.add_files(1);
        })
    };
    loads.into_iter().chain([frees]).for_each(|thread| thread.join().expect("it ends"));
    assert_eq!(space.waiting(), 0);
    // The file has lost what two loads wrote; all other room is free again.
    let left_bytes = 10 * BLOCK - 2 * charge_bytes(LOAD_BYTES);
    let sure_bytes = left_bytes.saturating_sub(4 * BLOCK) + 12 * BLOCK - 2 * BLOCK;
    assert_eq!(space.free_bytes(), sure_bytes);
}

/// The log's thread advances the horizon while other threads wait for it, directly and through the
/// acknowledgements of a connection thread: all are woken, none too early.
pub fn horizon() {
    const LAST: Lsn = Lsn(4);
    let horizon = Horizon::new(Lsn(0));
    let acks = Arc::new(Acks::new(&horizon));
    let mut threads = Vec::new();
    for lsn in [Lsn(1), Lsn(3), LAST] {
        let (horizon, acks) = (horizon.clone(), Arc::clone(&acks));
        threads.push(thread::spawn(move || {
            block_on(acks.durable(lsn));
            assert!(horizon.get() >= lsn, "acknowledged before it is durable");
        }));
    }
    for lsn in [Lsn(2), LAST] {
        let horizon = horizon.clone();
        threads.push(thread::spawn(move || {
            block_on(horizon.wait(lsn));
            assert!(horizon.get() >= lsn, "resolved before it is durable");
        }));
    }
    let mut watch = horizon.subscribe();
    threads.push(thread::spawn(move || {
        let mut seen = Lsn::ZERO;
        while seen < LAST {
            seen = block_on(acks.turn(&mut watch, seen));
        }
    }));
    threads.push(thread::spawn(move || {
        horizon.advance(Lsn(2));
        horizon.advance(Lsn(3));
        horizon.advance(LAST);
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}
