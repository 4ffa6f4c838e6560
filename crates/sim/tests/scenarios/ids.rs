//! Blocks of ids are reserved by records of the log, and no id is assigned twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_schema::GroupCommitMode::Off;
use freshet_schema::{Sequence, SequenceChange, SequenceKind};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Client;
use freshet_testkit::Faults;

use crate::metadata::{METADATA, lose_last, syncs};
use crate::{act, store};

/// Takes ids of databases, whose blocks are small, and returns the last one.
fn take(client: &Client, count: u64) -> u64 {
    let take = |_| client.engine.meta().ids().database().unwrap().get();
    (0..count).map(take).max().unwrap()
}

/// Uses more than half of a block, and so much of the next one that a start from the store alone
/// would assign some of it again. Returns the last id. None of it commits to metadata.
async fn take_from_two_blocks(client: &Client) -> u64 {
    // Time for the checkpoint of what came before.
    client.sleep(Duration::from_secs(3)).await;
    client.fs.take_synced();
    take(client, 60);
    // Time for the keeper, and less than there is between checkpoints.
    client.sleep(Duration::from_millis(200)).await;
    let synced = client.fs.take_synced();
    assert!(syncs(&synced, "/store/wal") > 0, "the next block is a record: {synced:?}");
    let last = take(client, 90);
    let synced = [synced, client.fs.take_synced()].concat();
    assert_eq!(syncs(&synced, "/store/meta.redb"), 0, "{synced:?}");
    assert!(client.engine.meta().is_ahead(), "only the log has it");
    last
}

fn next(sim: &Sim) -> u64 {
    sim.engine().meta().ids().database().unwrap().get()
}

#[test]
fn a_block_that_only_the_log_has_is_not_assigned_again() {
    for death in [Death::ProcessEnd, Death::PowerCut] {
        let mut sim = store(94);
        let last = act(&sim, |client| async move { take_from_two_blocks(&client).await }).unwrap();
        sim.crash(death);
        assert!(next(&sim) > last);
    }
}

#[test]
fn a_block_whose_record_is_given_up_is_not_assigned_again() {
    let mut sim = store(95);
    let last = act(&sim, |client| async move {
        let last = take_from_two_blocks(&client).await;
        // The batch head of a later record says that it was durable.
        client.load("b", 1, Off, None).await;
        client.load("b", 1, Off, None).await;
        last
    });
    let lost = lose_last(&mut sim, METADATA);
    sim.model.lock().accepted_loss(lost, lost);
    sim.open();
    assert!(next(&sim) > last.unwrap());
}

#[test]
fn no_id_comes_twice_wherever_the_process_dies() {
    for call in 1.. {
        let mut sim = store(call);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let last = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&last);
        let ended = act(&sim, |client| async move {
            for _ in 0..30 {
                seen.store(take(&client, 20), Ordering::Relaxed);
                client.sleep(Duration::from_millis(40)).await;
            }
        });
        sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        assert!(next(&sim) > last.load(Ordering::Relaxed), "call {call}");
        if ended.is_some() {
            break;
        }
    }
}

#[test]
fn no_value_of_a_sequence_comes_twice_wherever_the_process_dies() {
    let plain = Sequence::new(&SequenceChange::default()).unwrap();
    let time = SequenceChange { kind: Some(SequenceKind::Time), ..SequenceChange::default() };
    let time = Sequence::new(&time).unwrap();
    for call in 1.. {
        let mut sim = store(call);
        let sequence = if call % 3 == 0 { time } else { plain };
        let made = act(&sim, move |client| async move {
            client.engine.ddl().create_sequence("d", "s", sequence, false).await.unwrap().object.id
        });
        let id = made.unwrap();
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let told = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&told);
        let ended = act(&sim, move |client| async move {
            for _ in 0..30 {
                let Ok((values, lsn)) = client.engine.ddl().next_values(id, 200).await else {
                    continue;
                };
                client.engine.horizon().wait(lsn).await;
                let before = seen.swap(*values.last().unwrap(), Ordering::Relaxed);
                assert!(values[0] > before, "call {call}");
                client.sleep(Duration::from_millis(40)).await;
            }
        });
        sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        let next = act(&sim, move |client| async move {
            client.engine.ddl().next_values(id, 1).await.unwrap().0[0]
        });
        assert!(next.unwrap() > told.load(Ordering::Relaxed), "call {call}");
        if ended.is_some() {
            break;
        }
    }
}
