//! The clients of a random run, and the random run itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_ingest::{EngineConfig, PreparedEnd};
use freshet_meta::{ColumnPlace, SchemaChange};
use freshet_schema::{Column, GroupCommitMode};
use freshet_storage::delta::Freshness;
use freshet_testkit::Faults;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::copied::COPIED;
use crate::harness::{Death, Sim, data_files};
use crate::loads::{Client, Outcome};
use crate::model::Counts;
use crate::rows::{PARTITIONS, is_divided};

/// Ordinary tables, and keyed ones; the last one is dropped and recreated.
const TABLES: [&str; 8] = ["t0", "t1", "t2", "k0", "s0", "p0", "p1", "t3"];
const BANK: [&str; 2] = ["bank_a", "bank_b"];
const MODES: [GroupCommitMode; 3] =
    [GroupCommitMode::Off, GroupCommitMode::Sync, GroupCommitMode::Async];

/// How often per life a replay is compared with the engine, and the maximum number of steps in
/// between.
const REPLAYS: usize = 3;
const REPLAY_STEPS_MAX: u64 = 6000;

/// Enough memory for the footers of all files of a run, so that each is read once; one in four runs
/// has less and reads them repeatedly.
const FOOTERS_FIT: ByteSize = ByteSize::mib(8);

/// The parameters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Number of lives of the store; each ends with a crash or an orderly stop.
    pub lives: u32,
    /// Number of statements per actor and life.
    pub statements: u32,
    /// Maximum age of a group.
    pub interval_ms: u64,
    /// Maximum encoded bytes of a group.
    pub group_bytes: u64,
    /// Whether accesses to data files fail occasionally.
    pub disk_fails: bool,
    /// Whether the disk fills up occasionally.
    pub disk_fills: bool,
    /// Whether tables are copied: then less else happens.
    pub copies: bool,
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Number of polls of tasks.
    pub steps: u64,
    pub counts: Counts,
}

/// Runs `seed` from the first start to the final check.
///
/// # Panics
/// When a guarantee is violated; the message says which.
pub fn run_seed(seed: u64) -> Summary {
    let mut sim = Sim::new(seed);
    let plan = draw_plan(&mut sim);
    let plan = match seed % 4 {
        1 => Plan { statements: plan.statements / 2 + 1, copies: true, ..plan },
        _ => plan,
    };
    if !seed.is_multiple_of(4) {
        sim.config.footer_memory_bytes = FOOTERS_FIT;
    }
    sim.open();
    create_tables(&sim, &plan);
    for _ in 0..plan.lives {
        live(&mut sim, &plan);
    }
    finish(&mut sim);
    Summary { steps: sim.executor.steps(), counts: sim.model.lock().counts }
}

fn draw_plan(sim: &mut Sim) -> Plan {
    let chance = &mut sim.chance;
    let config = &mut sim.config;
    draw_log(chance, config);
    config.write_memory_bytes = ByteSize::kib(chance.random_range(192..1024));
    config.snapshot_memory_bytes = ByteSize::kib(*[0, 4, 1024].choose(chance).expect("some"));
    config.flush_bytes = ByteSize::kib(chance.random_range(4..48));
    config.flush_bytes_min = ByteSize::kib(chance.random_range(1..8));
    config.wal_load_bytes_max = ByteSize(*[600, 4 << 10, 16 << 20].choose(chance).expect("some"));
    config.compaction = chance.random_bool(0.8);
    let delay = *[0, 0, 3, 30].choose(chance).expect("some");
    sim.executor.set_job_delay_max(Duration::from_millis(delay));
    Plan {
        lives: chance.random_range(2..6),
        statements: chance.random_range(5..28),
        interval_ms: *[5, 50, 1000, 10_000].choose(chance).expect("some"),
        group_bytes: *[300, 4 << 10, 64 << 20].choose(chance).expect("some"),
        disk_fails: chance.random_bool(0.2),
        disk_fills: chance.random_bool(0.2),
        copies: false,
    }
}

/// Draws the sizes of the log, which may differ between lives.
fn draw_log(chance: &mut StdRng, config: &mut EngineConfig) {
    config.wal_file_bytes = ByteSize::kib(*[128, 256, 512].choose(chance).expect("some"));
    let files = chance.random_range(5..12);
    config.wal_bytes_max = ByteSize(config.wal_file_bytes.bytes() * files);
}

fn properties(plan: &Plan) -> [(&'static str, u64); 2] {
    [("group_commit_interval_ms", plan.interval_ms), ("group_commit_data_bytes", plan.group_bytes)]
}

fn create_tables(sim: &Sim, plan: &Plan) {
    let (client, plan) = (sim.client(false), *plan);
    let created = sim.run(async move {
        client
            .engine
            .ddl()
            .create_database("d", None, None, true)
            .await
            .expect("an empty store takes a database");
        let copied = COPIED.into_iter().filter(|_| plan.copies);
        for table in TABLES.into_iter().chain(BANK).chain(copied) {
            let outcome = client.create(table, &properties(&plan)).await;
            assert_ne!(outcome, Outcome::Refused, "an empty store takes tables");
        }
    });
    created.expect("nobody dies at the first start");
}

/// A life of the store: the actors run until all of them are done or the process dies.
fn live(sim: &mut Sim, plan: &Plan) {
    let dies = sim.chance.random_bool(0.6);
    if dies {
        sim.die_within_calls(u64::from(plan.statements) * 40);
    }
    let running = Arc::new(Mutex::new(0));
    start_actors(sim, plan, &running);
    let executor = sim.executor.clone();
    // Some lives end between two steps.
    let last_step = match sim.chance.random_bool(0.3) {
        true => executor.steps() + sim.chance.random_range(100..20_000),
        false => u64::MAX,
    };
    let replays = [(); REPLAYS].map(|()| sim.chance.random_range(1..REPLAY_STEPS_MAX));
    let is_over = || sim.is_dead() || *running.lock() == 0 || executor.steps() >= last_step;
    for steps in replays {
        let next_step = executor.steps() + steps;
        let is_due = || is_over() || executor.steps() >= next_step;
        assert!(executor.run_until(is_due), "everybody waits for somebody else");
        if !sim.is_dead() {
            sim.check_replay();
        }
    }
    assert!(executor.run_until(is_over), "everybody waits for somebody else");
    assert!(sim.fatal().is_none() || sim.fs.has_crashed(), "it gave up: {:?}", sim.fatal());
    end(sim);
    if sim.chance.random_bool(0.2) {
        draw_log(&mut sim.chance, &mut sim.config);
    }
    if sim.chance.random_bool(0.1) {
        let dirs = [&["/log"][..], &["/store/wal"], &["/store/wal", "/log"]];
        let dirs = dirs.choose(&mut sim.chance).expect("some");
        sim.config.wal_dirs = dirs.iter().map(PathBuf::from).collect();
    }
    if sim.chance.random_bool(0.3) {
        // The process dies during the next recovery as well.
        sim.die_within_calls(60);
    }
    sim.open();
    if sim.chance.random_bool(0.3) {
        sim.replay_again();
    }
}

fn end(sim: &mut Sim) {
    sim.fs.set_capacity_bytes(1 << 40);
    if sim.is_dead() {
        let death = if sim.chance.random() { Death::PowerCut } else { Death::ProcessEnd };
        return sim.end_life(death);
    }
    sim.fs.set_faults(Faults::default());
    match sim.chance.random_range(0..4) {
        0 => sim.stop(),
        1 => sim.end_life(Death::ProcessEnd),
        _ => sim.end_life(Death::PowerCut),
    }
}

/// The last life: loads with an unknown outcome are sent again, everything is flushed, and all
/// invariants are checked.
fn finish(sim: &mut Sim) {
    sim.fs.set_capacity_bytes(1 << 40);
    // A death that was due in the last recovery may still be to come.
    sim.fs.set_faults(Faults::default());
    let client = sim.client(false);
    let sent = sim.run(async move {
        resend(&client).await;
        let staged = client.model.lock().staged.clone();
        for load in staged {
            client.end(load, PreparedEnd::Commit).await;
        }
        // Of others no client knows.
        for load in client.engine.prepared_loads() {
            let aborted = client.engine.end_prepared(load.txn, PreparedEnd::Abort).await;
            aborted.expect("a prepared load can be aborted");
            client.model.lock().staged.retain(|known| known.part.txn != load.txn);
        }
        for table in ["t0", "t1", "t2", "k0", "s0", "p0", "p1"] {
            for at in (0..PARTITIONS.len()).filter(|_| is_divided(table)) {
                // A crash may have left one dropped.
                client.add_partition(table, at).await;
            }
            let outcome = client.load(table, 3, GroupCommitMode::Sync, None).await;
            assert_ne!(outcome, Outcome::Refused, "a store with room takes loads");
        }
    });
    sent.expect("nobody dies in the last life");
    sim.check();
    sim.flush_and_check_leaks();
    sim.stop();
    sim.open();
    sim.stop();
}

/// Resends every labelled load whose outcome is unknown.
async fn resend(client: &Client) {
    let unknown = std::mem::take(&mut client.model.lock().unknown);
    for load in unknown {
        let mode = GroupCommitMode::Async;
        client.load(&load.table, load.rows, mode, Some(load.label)).await;
    }
}

/// An actor: a client with its own random numbers and a number of statements.
struct Actor {
    client: Client,
    chance: StdRng,
    statements: u32,
    plan: Plan,
}

fn start_actors(sim: &mut Sim, plan: &Plan, running: &Arc<Mutex<u32>>) {
    let mut start = |act: fn(Actor) -> futures::future::BoxFuture<'static, ()>| {
        let chance = StdRng::from_rng(&mut sim.chance);
        let actor = Actor {
            client: sim.client(plan.disk_fails),
            chance,
            statements: plan.statements,
            plan: *plan,
        };
        let running = Arc::clone(running);
        *running.lock() += 1;
        sim.clients.push(sim.executor.start(async move {
            act(actor).await;
            *running.lock() -= 1;
        }));
    };
    for _ in 0..3 {
        start(|actor| Box::pin(write(actor)));
    }
    start(|actor| Box::pin(write_large(actor)));
    start(|actor| Box::pin(prepare(actor)));
    start(|actor| Box::pin(transfer(actor)));
    start(|actor| Box::pin(change(actor)));
    start(|actor| Box::pin(change(actor)));
    start(|actor| Box::pin(remove(actor)));
    start(|actor| Box::pin(remove(actor)));
    start(|actor| Box::pin(read(actor)));
    start(|actor| Box::pin(read(actor)));
    start(|actor| Box::pin(alter(actor)));
    start(|actor| Box::pin(rekey(actor)));
    start(|actor| Box::pin(truncate(actor)));
    start(|actor| Box::pin(divide(actor)));
    start(|actor| Box::pin(drop_and_create(actor)));
    start(|actor| Box::pin(flush(actor)));
    start(|actor| Box::pin(forget(actor)));
    if plan.copies {
        start(|actor| Box::pin(load_copied(actor)));
        start(|actor| Box::pin(copy(actor)));
    }
    if plan.disk_fills {
        start(|actor| Box::pin(fill_disk(actor)));
    }
    if plan.disk_fails {
        start(|actor| Box::pin(fail_disk(actor)));
    }
}

impl Actor {
    async fn rest(&mut self, ms_max: u64) {
        let micros = self.chance.random_range(0..ms_max * 1000);
        self.client.sleep(Duration::from_micros(micros)).await;
    }

    fn table(&mut self) -> &'static str {
        TABLES.choose(&mut self.chance).expect("there are tables")
    }

    fn mode(&mut self) -> GroupCommitMode {
        *MODES.choose(&mut self.chance).expect("there are modes")
    }
}

async fn write(mut actor: Actor) {
    resend(&actor.client).await;
    for _ in 0..actor.statements * 3 {
        actor.rest(20).await;
        let (table, mode) = (actor.table(), actor.mode());
        let rows = match actor.chance.random_range(0..10) {
            0 => actor.chance.random_range(50..800),
            _ => actor.chance.random_range(1..10),
        };
        let label = actor.chance.random_bool(0.3).then(|| {
            let number = actor.chance.random::<u32>();
            let len = actor.chance.random_range(1..100);
            format!("{number}-{}", "x".repeat(len))
        });
        let outcome = actor.client.load(table, rows, mode, label.clone()).await;
        if let (Some(label), Outcome::Acknowledged(_)) = (label, outcome)
            && actor.chance.random_bool(0.3)
        {
            // The client did not receive the reply and sends the load again.
            let again = actor.client.load(table, rows, mode, Some(label)).await;
            assert!(again != Outcome::Refused, "the table and its label are there");
        }
    }
}

async fn write_large(mut actor: Actor) {
    for _ in 0..actor.statements / 4 {
        actor.rest(100).await;
        let table = actor.table();
        let (rows, pushes) = (actor.chance.random_range(1..500), actor.chance.random_range(1..4));
        actor.client.load_large(table, rows, pushes).await;
    }
}

/// Prepares loads, and ends those of any life.
async fn prepare(mut actor: Actor) {
    for _ in 0..actor.statements / 2 {
        actor.rest(100).await;
        let staged = {
            let model = actor.client.model.lock();
            model.staged.choose(&mut actor.chance).cloned()
        };
        match staged {
            Some(load) if actor.chance.random_bool(0.5) => {
                let aborts = actor.chance.random_bool(0.2);
                let end = if aborts { PreparedEnd::Abort } else { PreparedEnd::Commit };
                actor.client.end(load, end).await;
            }
            _ => {
                let (table, rows) = (actor.table(), actor.chance.random_range(1..300));
                actor.client.prepare(table, rows).await;
            }
        }
    }
}

async fn transfer(mut actor: Actor) {
    for _ in 0..actor.statements {
        actor.rest(30).await;
        let rows = actor.chance.random_range(1..20);
        actor.client.transfer(rows).await;
    }
}

/// Changes rows of tables with primary keys, beside another one that does.
async fn change(mut actor: Actor) {
    for _ in 0..actor.statements {
        actor.rest(30).await;
        let mut tables = ["p0", "p1"];
        if actor.chance.random() {
            tables.reverse();
        }
        let rows = actor.chance.random_range(1..8);
        match actor.chance.random_range(0..5) {
            0 => actor.client.insert_new(tables[0], rows).await,
            1 => actor.client.move_rows(tables, rows).await,
            2 => actor.client.change("k0", rows).await,
            3 => actor.client.change_one(tables[0]).await,
            _ => actor.client.change(tables[0], rows).await,
        };
    }
}

/// Changes and removes rows of tables without a unique key, beside another one that does.
async fn remove(mut actor: Actor) {
    for _ in 0..actor.statements {
        actor.rest(60).await;
        let table = *["t0", "t1", "t2", "t3"].choose(&mut actor.chance).expect("some");
        let rows = match actor.chance.random_range(0..8) {
            0 => 200,
            _ => actor.chance.random_range(1..8),
        };
        let from = actor.chance.random();
        actor.client.remove_rows(table, from, rows).await;
    }
}

async fn read(mut actor: Actor) {
    let mut seen = freshet_base::Lsn::ZERO;
    for _ in 0..actor.statements {
        actor.rest(30).await;
        let freshness = match actor.chance.random_bool(0.3) {
            true => Freshness::Published,
            false => Freshness::Committed,
        };
        let snapshot = actor.client.engine.snapshot(freshness);
        assert!(snapshot.horizon >= seen, "a session went back in time");
        seen = snapshot.horizon;
        actor.client.resolved(&snapshot).await;
        actor.client.model.lock().check_again(&snapshot);
        for table in ["p0", "p1"] {
            actor.client.read_points(table).await;
        }
        if actor.chance.random_bool(0.5) {
            // Keeps the snapshot open while the other actors continue.
            actor.rest(3000).await;
            actor.client.model.lock().check(&snapshot);
        }
    }
}

async fn alter(mut actor: Actor) {
    for _ in 0..actor.statements / 3 {
        actor.rest(200).await;
        let table = *["t0", "t1", "k0", "p0", "s0"].choose(&mut actor.chance).expect("some");
        let Ok(target) = actor.client.engine.target("d", table) else { continue };
        let others = &target.schema().shown()[2..];
        let is_sequence = |column: &&Column| Some(column.id) == target.schema().sequence;
        let fresh = format!("c{}", actor.chance.random_range(1..u32::MAX));
        let chosen = others.choose(&mut actor.chance).filter(|column| !is_sequence(column));
        let wider = chosen.and_then(crate::rows::widened);
        let change = match (chosen, actor.chance.random_range(0..4)) {
            (Some(column), 2) if wider.is_some() => SchemaChange::ModifyColumn {
                from: column.name.clone(),
                column: wider.expect("just seen"),
                place: None,
                is_key: false,
            },
            (Some(column), 0) => SchemaChange::DropColumn { name: column.name.clone() },
            (Some(column), 1) => {
                SchemaChange::RenameColumn { from: column.name.clone(), to: fresh }
            }
            _ => SchemaChange::AddColumn {
                column: crate::rows::added_column(&fresh),
                place: match actor.chance.random() {
                    true => ColumnPlace::Last,
                    false => ColumnPlace::After("amount".to_owned()),
                },
            },
        };
        actor.client.alter(table, change).await;
        if actor.chance.random_bool(0.3) {
            let interval_ms = actor.plan.interval_ms + 1;
            actor.client.set("t1", "group_commit_interval_ms", interval_ms).await;
        }
    }
}

/// The unique key of a table comes and goes; it alone does that.
async fn rekey(mut actor: Actor) {
    for _ in 0..actor.statements / 2 {
        actor.rest(150).await;
        if actor.chance.random_bool(0.3) {
            actor.client.toggle_unique("p0").await;
        }
        let from = actor.chance.random();
        actor.client.take_value("p0", from).await;
    }
}

async fn truncate(mut actor: Actor) {
    for _ in 0..actor.statements / 5 {
        actor.rest(400).await;
        match actor.chance.random_range(0..8) {
            0 => actor.client.truncate(&BANK).await,
            1 => actor.client.truncate(&["t0", "t2"]).await,
            2 => actor.client.truncate(&["k0", "t2"]).await,
            3 => actor.client.truncate(&["k0"]).await,
            4 => actor.client.truncate(&["p0"]).await,
            5 => actor.client.truncate(&["s0"]).await,
            _ => actor.client.truncate(&["t1"]).await,
        };
    }
}

/// Partitions are emptied, or dropped and added again after a while.
async fn divide(mut actor: Actor) {
    for _ in 0..actor.statements / 3 {
        actor.rest(250).await;
        let table = *["t2", "k0", "p1"].choose(&mut actor.chance).expect("some");
        let at = actor.chance.random_range(0..PARTITIONS.len());
        if table == "p1" && actor.chance.random() {
            actor.client.reorganize(table, 0..at + 1).await;
            continue;
        }
        if table != "p1" && actor.chance.random_range(0..4) == 0 {
            actor.client.replace(table, at).await;
            continue;
        }
        // In MySQL's form the range of what is dropped is that of the next one.
        if table == "p1" || actor.chance.random() {
            actor.client.cut(table, at, true).await;
            continue;
        }
        if actor.chance.random() {
            actor.client.rest(table, at).await;
            actor.rest(20).await;
            if actor.chance.random_range(0..4) > 0 {
                actor.client.recover(table, at).await;
            }
        } else {
            actor.client.cut(table, at, false).await;
            if actor.chance.random() {
                actor.rest(20).await;
            }
        }
        actor.client.add_partition(table, at).await;
    }
}

async fn drop_and_create(mut actor: Actor) {
    for _ in 0..actor.statements / 6 {
        actor.rest(500).await;
        actor.client.drop_table("t3").await;
        actor.rest(20).await;
        actor.client.create("t3", &properties(&actor.plan)).await;
    }
}

async fn flush(mut actor: Actor) {
    for _ in 0..actor.statements / 2 {
        actor.rest(200).await;
        let tables = [TABLES.as_slice(), &BANK].concat();
        let table = tables.choose(&mut actor.chance).expect("there are tables");
        actor.client.flush(table).await;
    }
}

/// Rows that delete are forgotten.
async fn forget(mut actor: Actor) {
    for _ in 0..actor.statements {
        actor.rest(100).await;
        actor.client.forget().await;
    }
}

/// Loads tables that are copied.
async fn load_copied(mut actor: Actor) {
    for _ in 0..actor.statements * 2 {
        actor.rest(30).await;
        let table = COPIED.choose(&mut actor.chance).expect("some");
        let (rows, mode) = (actor.chance.random_range(1..40), actor.mode());
        actor.client.load_copied(table, rows, mode).await;
    }
}

/// Copies tables; it alone does that.
async fn copy(mut actor: Actor) {
    for _ in 0..actor.statements / 4 + 1 {
        actor.rest(150).await;
        let table = COPIED.choose(&mut actor.chance).expect("some");
        let buckets = actor.chance.random_range(1..4);
        actor.client.copy(table, buckets).await;
    }
}

async fn fill_disk(mut actor: Actor) {
    for _ in 0..actor.statements / 8 {
        actor.rest(1000).await;
        let left = actor.chance.random_range(0..200_000);
        actor.client.fs.set_capacity_bytes(actor.client.fs.used_bytes() + left);
        actor.rest(3000).await;
        actor.client.fs.set_capacity_bytes(1 << 40);
    }
}

async fn fail_disk(mut actor: Actor) {
    actor.client.fs.set_faulty_dir(&data_files());
    for _ in 0..actor.statements / 4 {
        actor.rest(500).await;
        let (writes, reads) = (actor.chance.random_range(0..6), actor.chance.random_range(0..3));
        actor.client.fs.fail_next(writes, reads);
    }
}
