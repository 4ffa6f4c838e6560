//! Rowsets stay few, however many commits there are and by whichever path.

use std::path::Path;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_ingest::Engine;
use freshet_schema::GroupCommitMode::Off;
use freshet_sim::harness::Death;
use freshet_storage::delta::Freshness;

use crate::{act, store};

/// The maximum number of rowsets in a tablet of a table.
fn most_rowsets(engine: &Engine, table: &str) -> usize {
    let id = engine.target("d", table).unwrap().id();
    let store = engine.views().load();
    let tablets = store.tables[&id].tablets.iter();
    tablets.map(|tablet| tablet.rowsets.len()).max().unwrap()
}

#[test]
fn a_tablet_that_cannot_be_merged_holds_up_no_other() {
    let mut sim = store(70);
    let id = sim.engine().target("d", "a").unwrap().id();
    sim.fs.set_faulty_dir(&Path::new("/store/data").join(id.to_string()));
    sim.fs.fail_next(0, u64::MAX);
    act(&sim, |client| async move {
        for _ in 0..6 {
            client.load("a", 20, Off, None).await;
            client.flush("a").await;
        }
        for _ in 0..40 {
            client.load("b", 20, Off, None).await;
            client.flush("b").await;
            client.sleep(Duration::from_secs(1)).await;
        }
        assert!(most_rowsets(&client.engine, "a") >= 6, "its files cannot be read");
        assert!(most_rowsets(&client.engine, "b") < 8, "{}", most_rowsets(&client.engine, "b"));
    });
    sim.fs.fail_next(0, 0);
    sim.pass(Duration::from_secs(70));
    assert!(most_rowsets(sim.engine(), "a") < 4, "it is tried again");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn large_loads_leave_few_files_while_nobody_flushes() {
    let mut sim = store(71);
    let id = sim.engine().target("d", "a").unwrap().id();
    let most = act(&sim, move |client| async move {
        let mut most = 0;
        for _ in 0..200 {
            client.load("a", 1, Off, None).await;
            client.load_large("a", 4, 1).await;
            let table = client.engine.snapshot(Freshness::Committed).table(id).unwrap().unwrap();
            most = most.max(table.rowsets().count());
        }
        most
    });
    assert!(most.unwrap() < 80, "{most:?} rowsets in two tablets");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_large_merge_begins_when_flushes_have_had_time() {
    let mut sim = store(73);
    sim.end_life(Death::ProcessEnd);
    sim.config.write_memory_bytes = ByteSize::kib(64);
    // With this, a merge of 4 KiB counts as large.
    sim.config.flush_bytes = ByteSize(512);
    sim.open();
    act(&sim, |client| async move {
        for _ in 0..8 {
            let loads = (0..6).map(|_| client.load("a", 500, Off, None));
            futures::future::join_all(loads).await;
            client.flush("a").await;
        }
        client.sleep(Duration::from_secs(8)).await;
        let most = most_rowsets(&client.engine, "a");
        assert!(most >= 8, "{most}: memory was short a moment ago");
        client.sleep(Duration::from_secs(8)).await;
        let most = most_rowsets(&client.engine, "a");
        assert!(most < 4, "{most} rowsets at rest");
    });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_flush_waits_for_merges_that_have_fallen_behind() {
    let mut sim = store(72);
    sim.end_life(Death::ProcessEnd);
    sim.config.compaction = false;
    sim.open();
    act(&sim, |client| async move {
        for _ in 0..100 {
            client.load("a", 8, Off, None).await;
            client.flush("a").await;
        }
        let most = most_rowsets(&client.engine, "a");
        assert!(most > 90, "{most}: nothing waits for what is off");
    });
    sim.end_life(Death::ProcessEnd);
    sim.config.compaction = true;
    sim.open();
    act(&sim, |client| async move {
        client.load("a", 8, Off, None).await;
        client.flush("a").await;
        assert!(most_rowsets(&client.engine, "a") <= 65);
    });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}
