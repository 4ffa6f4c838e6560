//! The cost of one small load from the end of decoding to acknowledgement, without sockets.
//!
//! `cargo bench -p freshet-ingest --bench append`
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use freshet_base::task::Threads;
use freshet_base::{ByteSize, Lsn};
use freshet_ingest::{Destination, Engine, EngineConfig, LoadBuffer, WaitLimit, World};
use freshet_meta::{ColumnSpec, TableSpec};
use freshet_schema::{ColumnType, GroupCommitMode, TableForm};
use futures::executor::block_on;

/// Maximum number of unacknowledged loads per thread, as with 250 connections.
const UNDER_WAY: usize = 250;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig::new(dir.path(), ByteSize::gib(4));
    let world = World::real(Threads::start(2).unwrap(), |message| panic!("{message}"), || 42);
    let engine = block_on(Engine::open(config, world)).unwrap();
    block_on(engine.ddl().create_database("d", None, None, true)).unwrap();
    let int = ColumnType::Int { unsigned: false };
    let columns = vec![ColumnSpec::new("a", int), ColumnSpec::new("b", int)];
    let spec = TableSpec::new("t", TableForm::Olap, columns);
    block_on(engine.ddl().create_table("d", spec, false)).unwrap();
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let mut group = criterion.benchmark_group("engine append");
    for mode in [GroupCommitMode::Off, GroupCommitMode::Async] {
        for threads in [1, 2] {
            group.throughput(Throughput::Elements(threads * UNDER_WAY as u64));
            group.bench_function(format!("{}, {threads} threads", mode.name()), |bencher| {
                bencher.iter_custom(|rounds| measure(&engine, mode, threads, rounds));
            });
        }
    }
    group.finish();
    criterion.final_summary();
    block_on(engine.stop()).unwrap();
}

/// The time for `rounds` times [`UNDER_WAY`] loads on each thread.
fn measure(engine: &Arc<Engine>, mode: GroupCommitMode, threads: u64, rounds: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| writer(engine, mode, rounds * UNDER_WAY as u64));
        }
    });
    start.elapsed()
}

fn writer(engine: &Arc<Engine>, mode: GroupCommitMode, loads: u64) {
    let target = engine.target("d", "t").unwrap();
    let patience = WaitLimit::For(Duration::from_secs(30));
    let mut buffer = LoadBuffer::default();
    let mut under_way: VecDeque<Lsn> = VecDeque::new();
    for _ in 0..loads {
        if under_way.len() == UNDER_WAY {
            block_on(engine.horizon().wait(under_way[0]));
            let horizon = engine.horizon().get();
            while under_way.front().is_some_and(|lsn| *lsn <= horizon) {
                under_way.pop_front();
            }
        }
        let bytes = buffer.begin();
        bytes.push(0);
        bytes.extend_from_slice(&7i32.to_le_bytes());
        bytes.extend_from_slice(&9i32.to_le_bytes());
        buffer.count(1).unwrap();
        let load = engine.load(&target, Destination::Group(mode), patience);
        under_way.push_back(block_on(load.commit(&mut buffer)).unwrap().lsn);
    }
    if let Some(last) = under_way.back() {
        block_on(engine.horizon().wait(*last));
    }
}
