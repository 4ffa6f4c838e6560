// These tests block threads for real time on purpose.
#![allow(clippy::disallowed_methods)]

use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

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
        let stuck = threads.plan(PlanSize::Large, async move {
            // Like a planner pass that never checks for cancellation.
            let _ = released.recv();
            Ok(())
        });
        tokio::time::timeout(Duration::from_millis(100), stuck).await.unwrap_err();
        for n in 0..10 {
            let planned = threads.plan(PlanSize::Large, async move { Ok(n) });
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
        let first = threads.plan(PlanSize::Large, async move {
            let _ = released.recv();
            Ok(1)
        });
        let mut first = Box::pin(first);
        assert!(futures::poll!(&mut first).is_pending());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let given_up = threads.plan(PlanSize::Large, async { Ok(2) });
        tokio::time::timeout(Duration::from_millis(50), given_up).await.unwrap_err();
        drop(release);
        assert_eq!(soon(first).await.unwrap(), 1);
        assert_eq!(soon(threads.plan(PlanSize::Large, async { Ok(3) })).await.unwrap(), 3);
    });
}

#[test]
fn a_panic_ends_its_statement_only() {
    let threads = Threads::start(1, 1).unwrap();
    for size in [PlanSize::Small, PlanSize::Large] {
        let failing = threads.plan(size, async { panic!("nine") });
        let error = block_on(soon::<()>(failing)).unwrap_err();
        assert_eq!((error.code().errno(), error.message()), (1815, "Internal error: nine"));
        assert_eq!(block_on(soon(threads.plan(size, async { Ok(4) }))).unwrap(), 4);
    }
}

/// A stream of batches with one row each; `None` stands for waiting once.
fn numbers(
    items: Vec<Option<std::result::Result<i64, &'static str>>>,
) -> SendableRecordBatchStream {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::common::DataFusionError;
    let batch = |n: i64| {
        let column = Arc::new(Int64Array::from(vec![n])) as ArrayRef;
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let schema = batch(0).schema();
    let stream = futures::stream::iter(items).filter_map(move |item| async move {
        match item {
            None => {
                tokio::task::yield_now().await;
                None
            }
            Some(Ok(n)) => Some(Ok(batch(n))),
            Some(Err(text)) => Some(Err(DataFusionError::Execution(text.to_owned()))),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

#[test]
fn every_batch_arrives_in_order_and_then_the_end_or_the_error() {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    let threads = Threads::start(1, 1).unwrap();
    let read = |size, items| {
        block_on(async {
            let prepare = |_| async { Ok(("head", numbers(items))) };
            let (head, mut rows) = soon(threads.query(size, prepare)).await?;
            assert_eq!(head, "head");
            let known = rows.task.is_none();
            let mut seen = Vec::new();
            while let Some(batch) = soon(rows.next()).await? {
                seen.push(batch.column(0).as_primitive::<Int64Type>().value(0));
            }
            assert!(soon(rows.next()).await?.is_none(), "the end stays the end");
            Ok((seen, known))
        })
    };
    for size in [PlanSize::Small, PlanSize::Large] {
        assert_eq!(read(size, vec![]).unwrap(), (vec![], true));
        assert_eq!(read(size, vec![Some(Ok(1))]).unwrap(), (vec![1], true));
        let some = (1..=9).map(|n| Some(Ok(n))).collect();
        assert_eq!(read(size, some).unwrap(), ((1..=9).collect(), false));
        let waits = vec![None, Some(Ok(1)), None, Some(Ok(2)), None];
        assert_eq!(read(size, waits).unwrap(), (vec![1, 2], false));
        for fails in [vec![Some(Err("six"))], vec![Some(Ok(1)), None, Some(Err("six"))]] {
            let error: Error = read(size, fails).unwrap_err();
            assert!(error.message().contains("six"), "{error}");
        }
    }
}

#[test]
fn a_query_that_is_given_up_before_its_first_batch_is_stopped_inside_of_it() {
    let threads = Threads::start(1, 1).unwrap();
    for size in [PlanSize::Small, PlanSize::Large] {
        block_on(async {
            let prepare = |stop: Cancellation| async move {
                let schema = numbers(vec![]).schema();
                // Like a function over one batch, which nothing but the flag can end.
                let stuck = futures::stream::poll_fn(move |_| {
                    while !stop.is_set() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Poll::Ready(None)
                });
                Ok(((), Box::pin(RecordBatchStreamAdapter::new(schema, stuck)) as _))
            };
            let stuck = threads.query(size, prepare);
            let waited = tokio::time::timeout(Duration::from_millis(100), stuck).await;
            assert!(waited.is_err(), "it ends only when it is stopped");
            assert_eq!(soon(threads.spawn(async { Ok(1) })).await.unwrap(), 1);
        });
    }
}
