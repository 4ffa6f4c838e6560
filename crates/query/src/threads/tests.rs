// These tests block threads for real time on purpose.
#![allow(clippy::disallowed_methods)]

use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use super::*;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn soon<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it ends soon")
}

#[test]
fn plans_that_were_given_up_hold_up_nobody() {
    let threads = Threads::start(1, 1).unwrap();
    let (release, released) = std_mpsc::channel::<()>();
    block_on(async {
        let stuck = threads.plan(Lane::Large, async move {
            // Like a planner pass that never checks for cancellation.
            let _ = released.recv();
            Ok(())
        });
        tokio::time::timeout(Duration::from_millis(100), stuck).await.unwrap_err();
        for n in 0..10 {
            let planned = threads.plan(Lane::Large, async move { Ok(n) });
            assert_eq!(soon(planned).await.unwrap(), n);
        }
        assert_eq!(soon(threads.spawn(async { Ok(1) })).await.unwrap(), 1);
    });
    drop(release);
    let ended = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        threads.plans_alive() == 1
    });
    assert!(ended, "who stood in is gone when the thread is back");
}

#[test]
fn plans_wait_their_turn_and_leave_the_queue_when_given_up() {
    let threads = Threads::start(1, 1).unwrap();
    let (release, released) = std_mpsc::channel::<()>();
    block_on(async {
        let first = threads.plan(Lane::Large, async move {
            let _ = released.recv();
            Ok(1)
        });
        let mut first = Box::pin(first);
        assert!(futures::poll!(&mut first).is_pending());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let given_up = threads.plan(Lane::Large, async { Ok(2) });
        tokio::time::timeout(Duration::from_millis(50), given_up).await.unwrap_err();
        drop(release);
        assert_eq!(soon(first).await.unwrap(), 1);
        assert_eq!(soon(threads.plan(Lane::Large, async { Ok(3) })).await.unwrap(), 3);
    });
}

#[test]
fn a_panic_ends_its_statement_only() {
    let threads = Threads::start(1, 1).unwrap();
    for lane in [Lane::Small, Lane::Large] {
        let failing = threads.plan(lane, async { panic!("nine") });
        let error = block_on(soon::<()>(failing)).unwrap_err();
        assert_eq!((error.code().errno(), error.message()), (1815, "Internal error: nine"));
        assert_eq!(block_on(soon(threads.plan(lane, async { Ok(4) }))).unwrap(), 4);
    }
}
