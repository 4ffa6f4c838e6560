//! DDL concurrent with large loads, flushes and other DDL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::fail::Action;
use freshet_base::{ByteSize, TableId, TabletId};
use freshet_meta::{Batch, ColumnPlace, MetaStore, RedbStore, SchemaChange, disk};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_schema::Table;
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, Outcome};
use freshet_sim::rows;
use freshet_storage::delta::{Delta, Freshness};
use freshet_testkit::Faults;

use crate::{act, add_column, die_in_every_call, store};

/// A change of table `a`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Add,
    AddAfter,
    DropColumn,
    RenameColumn,
    Set,
    Rename,
    Truncate,
    Drop,
}

impl Change {
    const ALL: [Self; 8] = [
        Self::Add,
        Self::AddAfter,
        Self::DropColumn,
        Self::RenameColumn,
        Self::Set,
        Self::Rename,
        Self::Truncate,
        Self::Drop,
    ];

    /// Whether it removes earlier rows, and with them a large load that began before.
    fn removes_rows(self) -> bool {
        matches!(self, Self::Truncate | Self::Drop)
    }

    async fn act(self, client: &Client) -> Outcome {
        let c0 = || "c0".to_owned();
        match self {
            Self::Add => client.alter("a", add_column("x")).await,
            Self::AddAfter => {
                let place = ColumnPlace::After("amount".to_owned());
                let column = rows::added_column("x");
                client.alter("a", SchemaChange::AddColumn { column, place }).await
            }
            Self::DropColumn => client.alter("a", SchemaChange::DropColumn { name: c0() }).await,
            Self::RenameColumn => {
                let change = SchemaChange::RenameColumn { from: c0(), to: "y".to_owned() };
                client.alter("a", change).await
            }
            Self::Set => client.set("a", "group_commit_interval_ms", 77).await,
            Self::Rename => client.rename("a", "c").await,
            Self::Truncate => client.truncate(&["a"]).await,
            Self::Drop => client.drop_table("a").await,
        }
    }

    /// The name of table `a` after the change.
    fn name(self) -> &'static str {
        if self == Self::Rename { "c" } else { "a" }
    }
}

/// Continues after the change with rows in memory and in files.
async fn go_on(client: &Client, change: Change) {
    if change == Change::Drop {
        client.create("a", &[]).await;
    }
    let table = change.name();
    let outcome = client.load(table, 5, Async, None).await;
    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{change:?}: {outcome:?}");
    client.load_large(table, 30, 2).await;
    client.flush(table).await;
}

fn delta_of(client: &Client, table: &str) -> Arc<Delta> {
    let id = client.engine.target("d", table).unwrap().id();
    Arc::clone(&client.engine.table_state(id).unwrap().delta)
}

#[test]
fn a_large_load_lives_through_any_change_between_its_pieces() {
    const PIECES: i64 = 3;
    for change in Change::ALL {
        for gap in 0..PIECES + 2 {
            let mut sim = store(7);
            act(&sim, move |client| async move {
                client.load("a", 5, Off, None).await;
                let outcome = client.load_large_beside("a", 60, PIECES, |at| {
                    let client = client.clone();
                    Box::pin(async move {
                        if at == gap {
                            let outcome = change.act(&client).await;
                            assert!(matches!(outcome, Outcome::Acknowledged(_)), "{outcome:?}");
                        }
                    })
                });
                let outcome = outcome.await;
                match change.removes_rows() {
                    true => assert_eq!(outcome, Outcome::Refused, "{change:?} in {gap}"),
                    false => assert_ne!(outcome, Outcome::Refused, "{change:?} in {gap}"),
                }
                go_on(&client, change).await;
            });
            sim.check();
            sim.crash(Death::PowerCut);
            sim.replay_again();
            sim.flush_and_check_leaks();
        }
    }
}

#[test]
fn any_change_may_come_while_a_flush_waits_for_its_cut_and_while_it_writes() {
    for change in Change::ALL {
        for seed in 0..8 {
            let mut sim = store(seed);
            let delay_ms = if seed % 2 == 0 { 0 } else { 20 };
            sim.executor.set_job_delay_max(Duration::from_millis(delay_ms));
            act(&sim, move |client| async move {
                // Several parts in several chunks, large loads between them, and an open group that
                // a flush ends.
                let delta = delta_of(&client, "a");
                for _ in 0..3 {
                    for _ in 0..3 {
                        client.load("a", 100, Off, None).await;
                        delta.freeze();
                    }
                    client.load_large("a", 40, 2).await;
                }
                client.load("a", 20, Async, None).await;
                let flush = async {
                    if delay_ms > 0 {
                        client.sleep(Duration::from_millis(seed)).await;
                    }
                    client.flush("a").await
                };
                let (outcome, _) = futures::join!(change.act(&client), flush);
                assert!(matches!(outcome, Outcome::Acknowledged(_)), "{change:?}: {outcome:?}");
                go_on(&client, change).await;
            });
            sim.check();
            sim.crash(if seed % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
            sim.flush_and_check_leaks();
        }
    }
}

#[test]
fn a_truncate_beside_other_changes_keeps_its_tablets() {
    for seed in 0..10 {
        let mut sim = store(seed);
        for round in 0..20 {
            act(&sim, |client| async move { client.load("a", 3, Off, None).await });
            act(&sim, move |client| async move {
                let names = if round % 2 == 0 { ["b", "c"] } else { ["c", "b"] };
                let rename = client.rename(names[0], names[1]);
                let set = client.set("a", "group_commit_interval_ms", 100 + round);
                let other = client.set("a", "group_commit_data_bytes", 4096 + round);
                let truncate = client.truncate(&["a"]);
                let (_, truncated, ..) =
                    futures::join!(client.flush("a"), truncate, rename, set, other);
                assert!(matches!(truncated, Outcome::Acknowledged(_)), "{truncated:?}");
                client.load("a", 3, Off, None).await;
                client.load_large("a", 10, 2).await;
                client.flush("a").await;
            });
            sim.check();
        }
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn a_snapshot_reads_the_large_loads_that_a_truncate_or_a_drop_took_away() {
    for change in [Change::Truncate, Change::Drop] {
        let mut sim = store(11);
        let graces = sim.config.orphan_grace * 8;
        act(&sim, |client| async move {
            client.load_large("a", 50, 3).await;
            client.flush("a").await;
            client.load("a", 5, Off, None).await;
            client.load_large("a", 50, 3).await;
            client.load_large("a", 50, 3).await;
        });
        act(&sim, move |client| async move {
            let table = client.engine.target("d", "a").unwrap().id();
            let snapshot = client.engine.snapshot(Freshness::Committed);
            change.act(&client).await;
            client.sleep(graces).await;
            client.model.lock().check(&snapshot);
            let held = snapshot.table(table).unwrap().expect("a snapshot keeps its tables");
            assert_eq!(held.rows(), 455);
        });
        sim.check();
        sim.flush_and_check_leaks();
    }
}

/// Tables `t0` to `t7` with rows in memory, in open groups, and in files.
async fn fill_many(client: &Client) {
    for n in 0..8 {
        let table = format!("t{n}");
        client.create(&table, &[]).await;
        client.load(&table, 3, Async, None).await;
        if n % 3 == 0 {
            client.load_large(&table, 20, 2).await;
            client.flush(&table).await;
        }
        client.load(&table, 3, Off, None).await;
    }
}

async fn make_again(client: &Client) {
    if client.engine.catalog().database("d").is_none() {
        client.engine.ddl().create_database("d", None, None, true).await.unwrap();
        for table in ["a", "b", "bank_a", "bank_b"] {
            client.create(table, &[]).await;
        }
    }
    client.load("a", 4, Async, None).await;
}

#[test]
fn a_database_goes_whole_or_not_at_all_whenever_the_process_dies() {
    for call in 1.. {
        let mut sim = store(call);
        act(&sim, |client| async move { fill_many(&client).await });
        let before = sim.engine().table_states().len();
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let ended = act(&sim, |client| async move { client.drop_database().await }).is_some();
        sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        let left = sim.engine().table_states().len();
        assert!(left == 0 || left == before, "{left} of {before} tables are left");
        assert_eq!(sim.engine().catalog().database("d").is_some(), left > 0);
        act(&sim, |client| async move { make_again(&client).await });
        sim.crash(Death::PowerCut);
        sim.replay_again();
        sim.flush_and_check_leaks();
        if ended {
            assert_eq!(left, 0, "it was acknowledged");
            break;
        }
    }
}

#[test]
fn a_long_flush_holds_up_nobody_but_its_own_table() {
    let mut sim = store(32);
    act(&sim, |client| async move { client.load("a", 100, Off, None).await });
    // Each job takes a while, so that a flush of many parts takes minutes.
    sim.config.sorted_bytes_max = ByteSize(1);
    sim.crash(Death::PowerCut);
    sim.executor.set_job_delay_max(Duration::from_secs(2));
    act(&sim, |client| async move {
        let delta = delta_of(&client, "a");
        for _ in 0..60 {
            client.load("a", 1, Off, None).await;
            delta.freeze();
        }
        let flushed = Arc::new(AtomicBool::new(false));
        let flush = async {
            client.flush("a").await;
            flushed.store(true, Ordering::Relaxed);
        };
        let others = async {
            client.sleep(Duration::from_secs(10)).await;
            assert!(!flushed.load(Ordering::Relaxed), "the flush is under way");
            client.alter("b", add_column("x")).await;
            client.truncate(&["b"]).await;
            client.rename("b", "c").await;
            client.set("a", "group_commit_interval_ms", 99).await;
            client.create("e", &[]).await;
            client.load("e", 1, Off, None).await;
            client.drop_table("e").await;
            client.engine.ddl().create_database("d2", None, None, false).await.unwrap();
            client.engine.ddl().drop_database("d2", false).await.unwrap();
            assert!(client.engine.catalog().database("d2").is_none(), "nobody sees it any more");
            client.engine.ddl().change_users(|_| Ok(())).await.unwrap();
            client.drop_table("a").await;
            assert!(!flushed.load(Ordering::Relaxed), "nobody has waited for the flush");
        };
        futures::join!(flush, others);
    });
    sim.executor.set_job_delay_max(Duration::ZERO);
    sim.check();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

/// Adds very many tables to the database, with one commit to its metadata.
fn add_tables(sim: &mut Sim, count: u64) {
    // The store has its tables with a checkpoint.
    sim.pass(Duration::from_secs(2));
    sim.end_life(Death::ProcessEnd);
    let fs: freshet_base::io::FsRef = Arc::new(sim.fs.clone());
    let path = sim.config.data_dir.join(freshet_ingest::META_FILE);
    let store = RedbStore::open(fs, path, Arc::new(|message: &str| panic!("{message}"))).unwrap();
    let (key, bytes) = store.scan("/table/").unwrap().remove(0);
    let like = disk::decode::<Table>(&bytes).unwrap();
    let flushed = store.get(&key.replace("table", "flushed")).unwrap().unwrap();
    let mut put = Vec::new();
    for n in 1_000_000..1_000_000 + count {
        let mut table = like.clone();
        (table.id, table.name) = (TableId(n), format!("t{n}"));
        table.partitions[0].tablets = vec![TabletId(n)];
        put.push((format!("/table/{n}"), disk::encode(&table)));
        put.push((format!("/flushed/{n}"), flushed.clone()));
    }
    store.commit(Batch { put, ..Batch::default() }).unwrap();
    drop(store);
    sim.crash(Death::ProcessEnd);
}

#[test]
fn a_database_of_very_many_tables_can_be_dropped() {
    let mut sim = store(33);
    // More than the stamp of one record could list individually.
    add_tables(&mut sim, 33_000);
    act(&sim, |client| async move {
        client.load("t1000077", 3, Async, None).await;
        assert!(matches!(client.drop_database().await, Outcome::Acknowledged(_)));
        assert_eq!(client.engine.table_states().len(), 0);
        make_again(&client).await;
    });
    sim.crash(Death::PowerCut);
    assert_eq!(sim.engine().table_states().len(), 4);
    sim.flush_and_check_leaks();
}

#[test]
fn changes_whose_metadata_fails_after_their_record_hold_after_a_crash() {
    for (point, tables) in [("barrier-durable", 0), ("checkpoint", 0), ("checkpoint", 33_000)] {
        let mut sim = store(96);
        if tables > 0 {
            add_tables(&mut sim, tables);
        }
        act(&sim, |client| async move { fill_many(&client).await });
        let before = sim.engine().table_states().len();
        sim.failpoints.arm(point, 0, Action::Io(std::io::ErrorKind::Other));
        let answered = sim.run({
            let client = sim.client(true);
            async move {
                client.rename("b", "c").await;
                client.set("a", "group_commit_interval_ms", 77).await;
                client.truncate(&["a"]).await;
                client.load("a", 3, Off, None).await;
                client.flush("a").await;
                client.sleep(Duration::from_secs(3)).await;
            }
        });
        assert_eq!(answered, Some(()), "{point}: the process lives on");
        sim.check();
        // The point stays armed: the next start has the log alone to know these changes from.
        sim.crash(Death::PowerCut);
        assert_eq!(sim.engine().table_states().len(), before);
        assert!(sim.engine().target("d", "c").is_ok(), "{point}");
        assert!(sim.engine().target("d", "b").is_err(), "{point}");
        sim.run({
            let client = sim.client(true);
            async move { client.drop_database().await }
        });
        sim.crash(Death::PowerCut);
        assert_eq!(sim.engine().table_states().len(), 0, "{point}");
        sim.failpoints.disarm(point);
        act(&sim, |client| async move { make_again(&client).await });
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn what_only_metadata_knows_may_die_in_every_call() {
    let calls = die_in_every_call(
        |sim| {
            act(sim, |client| async move { client.load("a", 3, Async, None).await });
        },
        |client| async move {
            client.set("a", "group_commit_interval_ms", 77).await;
            client.rename("b", "c").await;
            client.load_large("a", 30, 2).await;
            Change::AddAfter.act(&client).await;
            client.rename("c", "b").await;
            client.engine.ddl().create_database("d2", None, None, false).await.unwrap();
            client.flush("a").await;
            client.engine.ddl().drop_database("d2", false).await.unwrap();
        },
    );
    assert!(calls > 20, "{calls} calls");
}
