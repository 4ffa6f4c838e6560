//! Opens a store: first metadata, then the log in order; then it serves requests.

use std::sync::Arc;

use freshet_base::budget::Budget;
use freshet_base::{ByteSize, Error, ErrorCode, Result, bail, err};
use freshet_meta::{Meta, StoredTable};
use freshet_storage::flush::Files;
use freshet_storage::recover::StoredMarks;
use freshet_storage::resolver::KeyMemory;
use freshet_storage::segment::{FileStore, SegmentAccess};
use freshet_storage::side::SideReader;
use freshet_storage::view::{StoreView, TableView};
use freshet_storage::views::Views;
use freshet_wal::{FileState, NewTerm, Wal, WalOptions, WalWorld};
use imbl::HashMap;
use parking_lot::Mutex;

use crate::admit::Admission;
use crate::append::Appender;
use crate::begin::begin;
use crate::bin::{self, Emptier};
use crate::check::unreadable;
use crate::compact::Compactor;
use crate::config::EngineConfig;
use crate::ddl::Ddl;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::flush::Flusher;
use crate::follow::Follower;
use crate::forget::Forgetter;
use crate::history::History;
use crate::job::LogJobs;
use crate::keeper::Keeper;
use crate::log_dirs::Lock;
use crate::log_files::LogFiles;
use crate::metadata::Settler;
use crate::prepared::PreparedLoads;
use crate::recycle::Recycler;
use crate::replay::{Replay, Replayed, truncate_lost};
use crate::state::TableState;
use crate::stopped::{StoppedStore, damaged};
use crate::store::Store;
use crate::sweep::Sweeper;
use crate::tables::Tables;
use crate::term::Term;
use crate::upkeep::Upkeep;
use crate::world::World;

impl Engine {
    /// Opens the store in `config.data_dir`, or creates it, replays the log into memory, and starts
    /// the log thread and the keeper.
    ///
    /// # Errors
    /// When another server uses the store, when the log or metadata is damaged or has a newer
    /// version, or when the disk is full.
    pub async fn open(config: EngineConfig, world: World) -> Result<Arc<Self>> {
        let disk = Arc::new(Disk::new(world.clone(), &config));
        let store = disk.with_ballast(|| StoppedStore::take(&config, &world))?;
        let scan = store.scan().map_err(|error| unreadable(&store.meta.catalog(), error))?;
        step(&world, "recovery-scanned")?;
        let term = disk.with_ballast(|| store.begin_term(&scan))?;
        step(&world, "recovery-term-begun")?;
        // Behind the term: that cuts off what is torn, also in files that go now.
        let files = store.files_to_continue_with(&scan)?;
        let event_files = store.settle(&scan).map_err(|lost| match lost.is_damage() {
            true => damaged(lost.error),
            false => lost.error,
        })?;
        store.meta.begin();
        let wal = start_wal(&config, &world, files, term)?;
        assert_eq!(wal.horizon().get(), scan.end.lsn, "what a start finds is durable");
        // Until the first record of the term is durable.
        wal.hold();
        let engine = Arc::new(Self::assemble(store, world, wal, disk)?);
        let started = engine.clock().now();
        let mut replay = Replay::new(&engine.store, engine.memory());
        replay_side(&engine, &mut replay)?;
        step(&engine.store.world, "recovery-side-file-replayed")?;
        for hole in &scan.without_head {
            let (first, last) = (hole.first, hole.last);
            tracing::warn!(%first, %last, "the head of log records is damaged; they are read");
        }
        let mut records = scan.records();
        while let Some(record) = records.next_record().map_err(damaged)? {
            replay.record(&record)?;
        }
        let replayed = replay.finish();
        truncate_lost(&engine.store).await?;
        bin::close(&engine.store);
        step(&engine.store.world, "recovery-log-replayed")?;
        engine.settler.show_catalog();
        tell(&engine, replayed, engine.clock().now().saturating_sub(started));
        engine.upkeep.recycler.remove_side_files()?;
        engine.settler.event_files.adopt(event_files)?;
        engine.prepared.adopt()?;
        engine.start()?;
        step(&engine.store.world, "recovery-log-started")?;
        Ok(engine)
    }

    /// Makes the services, each of those above it.
    fn assemble(store: StoppedStore, world: World, wal: Arc<Wal>, disk: Arc<Disk>) -> Result<Self> {
        let (store, admission) = open_store(store, world, wal, disk)?;
        let history = Arc::new(History::new(Arc::clone(&store.world.metrics)));
        let settler = Arc::new(Settler::new(Arc::clone(&store)));
        let sweeper = Arc::new(Sweeper::new(Arc::clone(&store)));
        let compactor = Arc::new(Compactor::new(&store, &settler, &sweeper));
        let term = Arc::new(Term::new(Arc::clone(&store), Arc::clone(&settler)));
        let appender = Arc::new(Appender {
            store: Arc::clone(&store),
            admission: Arc::clone(&admission),
            history: Arc::clone(&history),
            settler: Arc::clone(&settler),
        });
        let flusher = Arc::new(Flusher {
            store: Arc::clone(&store),
            history: Arc::clone(&history),
            settler: Arc::clone(&settler),
            sweeper: Arc::clone(&sweeper),
            compactor: Arc::clone(&compactor),
            term: Arc::clone(&term),
            appender: Arc::clone(&appender),
        });
        let recycler = Arc::new(Recycler {
            store: Arc::clone(&store),
            settler: Arc::clone(&settler),
            compactor: Arc::clone(&compactor),
            term: Arc::clone(&term),
            appender: Arc::clone(&appender),
            flusher: Arc::clone(&flusher),
            log_files: LogFiles { store: Arc::clone(&store), next: Mutex::default() },
            jobs: LogJobs::default(),
        });
        let ddl = Arc::new(Ddl {
            store: Arc::clone(&store),
            admission: Arc::clone(&admission),
            history: Arc::clone(&history),
            settler: Arc::clone(&settler),
            term: Arc::clone(&term),
            names: futures::lock::Mutex::new(()),
        });
        let prepared = Arc::new(PreparedLoads::new(Arc::clone(&store), Arc::clone(&sweeper)));
        let forgetter = Forgetter::new((&store, &admission), &appender, &compactor);
        let upkeep = Arc::new(Upkeep {
            store: Arc::clone(&store),
            admission: Arc::clone(&admission),
            sweeper,
            compactor,
            term: Arc::clone(&term),
            appender: Arc::clone(&appender),
            flusher: Arc::clone(&flusher),
            recycler,
            prepared: Arc::clone(&prepared),
            follower: Follower::new(Arc::clone(&store), Arc::clone(&ddl)),
            emptier: Emptier::new(Arc::clone(&store), Arc::clone(&ddl)),
            forgetter: Arc::new(forgetter),
        });
        Ok(Self {
            store,
            admission,
            history,
            settler,
            term,
            appender,
            flusher,
            prepared,
            ddl,
            upkeep,
        })
    }

    /// Creates the metrics of all reasons, so that they start at zero instead of appearing with the
    /// first event.
    fn show_reasons(&self) {
        use crate::record::GroupEndReason as End;
        use freshet_storage::flush_policy::FlushReason as Flush;
        let metrics = self.metrics();
        for why in [Flush::Bytes, Flush::LogRoom, Flush::Memory, Flush::Manual, Flush::Alter] {
            metrics.flushes.with_label_values(&[why.name()]);
        }
        for why in [End::Interval, End::Bytes, End::Barrier, End::Flush, End::Shutdown, End::Load] {
            metrics.groups_ended.with_label_values(&[why.name()]);
        }
    }

    /// Starts the log thread, the keeper and the term. Log files exist before the first load.
    fn start(&self) -> Result<()> {
        self.show_reasons();
        let (disk, recycler) = (&self.store.disk, &self.upkeep.recycler);
        disk.take_ballast();
        while self.store.wal.needs_file() {
            match recycler.log_files.make() {
                Ok(()) => {}
                // Reads work, and loads wait for log space as usual.
                Err(error) if error.code() == ErrorCode::DiskFull => {
                    disk.give_up_for(&error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.pool().dedicate("wal", Box::pin(Arc::clone(&self.store.wal).run()));
        self.pool().spawn("keeper", Box::pin(Arc::clone(&self.upkeep).run()));
        begin(&self.term, Arc::clone(recycler), Arc::clone(&self.ddl));
        Ok(())
    }
}

/// The store that all services share, and who lets loads into it.
fn open_store(
    store: StoppedStore,
    world: World,
    wal: Arc<Wal>,
    disk: Arc<Disk>,
) -> Result<(Arc<Store>, Arc<Admission>)> {
    let StoppedStore { meta, data, config, locks, .. } = store;
    let (fs, pool) = (Arc::clone(&world.fs), Arc::clone(&world.pool));
    let footers = Budget::new("memory of footers", config.footer_memory_bytes.bytes());
    let files = FileStore::new(Arc::clone(&fs), Arc::clone(&pool));
    let (blocks, _) = key_memory(&config);
    let metrics = Arc::clone(&world.metrics);
    let segments = SegmentAccess::new(Arc::new(files), footers, blocks, metrics);
    let memory = Budget::new("memory for writes", config.write_memory_bytes.bytes());
    let open = config.transactions_memory_bytes.bytes();
    let memory = (memory, Budget::new("memory of open transactions", open));
    let (clock, patience) = (Arc::clone(&world.clock), config.load_patience);
    let admission = Arc::new(Admission::new(memory, Arc::clone(&wal), clock, patience));
    let files = Files { fs, dir: data, pool, segments };
    let tables = stored_tables(locks, meta, &files, (&config, admission.memory()))?;
    let (keeper, locks) = (Keeper::default(), Arc::default());
    let store = Arc::new(Store { world, config, wal, disk, keeper, files, locks, tables });
    Ok((store, admission))
}

/// A failpoint of the recovery.
fn step(world: &World, name: &str) -> Result<()> {
    world.failpoints.pass(name).map_err(|error| Error::io("open the store", error))
}

/// The memory of keys, for blocks and for filters. Without a filter each look-up may read a file in
/// vain, so they get the larger part.
fn key_memory(config: &EngineConfig) -> (ByteSize, ByteSize) {
    let all = config.key_memory_bytes.bytes();
    (ByteSize(all / 4), ByteSize(all - all / 4))
}

/// All tables as metadata has them. The locks come first: after a failure they go last.
fn stored_tables(
    locks: Vec<Lock>,
    meta: Meta,
    files: &Files,
    (config, writes): (&EngineConfig, &Budget),
) -> Result<Tables> {
    let (_, filters) = key_memory(config);
    let filters = Budget::new("memory of keys", filters.bytes());
    let memory = KeyMemory { filters, writes: writes.clone() };
    let flush_bytes = config.flush_bytes.bytes();
    let catalog = meta.catalog();
    let mut views = HashMap::new();
    let mut states = HashMap::new();
    let fold = meta.fold();
    for table in fold.tables() {
        let view = table_view(files, &table)?.with_resolver(&memory);
        let db = catalog.database_name(&table.table);
        let next_id = fold.counter(&table.table);
        let state = TableState::new(&view, db, table.flushed.version_lsn, (next_id, flush_bytes));
        // It has a lower id.
        let owner = table.table.temporary_of.and_then(|of| states.get(&of));
        let state = Arc::new(state.counting_with(owner.map(Arc::as_ref)));
        let before = states.insert(table.table.id, state);
        assert!(before.is_none(), "metadata has a table once");
        views.insert(table.table.id, Arc::new(view));
    }
    let kept = Budget::new("memory of snapshots", config.snapshot_memory_bytes.bytes());
    let views = Views::new(StoreView { catalog, tables: views }, kept);
    Ok(Tables::new(meta, views, states, (memory, flush_bytes), locks))
}

fn table_view(files: &Files, stored: &StoredTable) -> Result<TableView> {
    let table = Arc::clone(&stored.table);
    let mut tablets = TableView::empty_tablets(&table);
    let marks = StoredMarks::read(&*files.fs, &files.dir, table.id, &stored.marks);
    let marks = marks.map_err(damaged)?;
    for meta in &stored.rowsets {
        let schema = table.history.at(meta.schema_version).ok_or_else(|| {
            err!(
                Corruption,
                "files of '{}' name schema version {}",
                table.name,
                meta.schema_version
            )
        })?;
        let Some(tablet) = tablets.iter_mut().find(|tablet| tablet.id == meta.tablet) else {
            bail!(Corruption, "files of '{}' are of unknown tablet {}", table.name, meta.tablet);
        };
        let rowset = files.rowset(table.id, meta.clone(), schema);
        let marked = marks.of(&rowset, stored.flushed.lsn).map_err(damaged)?;
        tablet.rowsets.push(Arc::new(marked));
    }
    Ok(TableView::new(table, stored.flushed.lsn, stored.flushed.version, tablets))
}

fn start_wal(
    config: &EngineConfig,
    world: &World,
    files: Vec<FileState>,
    term: NewTerm,
) -> Result<Arc<Wal>> {
    let file_bytes = config.wal_file_bytes.bytes();
    let options = WalOptions {
        file_bytes,
        wal_bytes_max: config.wal_bytes_max.bytes(),
        kept_bytes: config.wal_kept_bytes(),
        ..WalOptions::default()
    };
    let on_fatal = Arc::clone(&world.on_fatal);
    let wal_world = WalWorld {
        fs: Arc::clone(&world.fs),
        clock: Arc::clone(&world.clock),
        metrics: Arc::clone(&world.metrics),
        failpoints: world.failpoints.clone(),
        on_fatal: Box::new(move |message: &str| on_fatal(message)),
    };
    Wal::start(options, wal_world, term, files).map_err(|error| Error::io("open the log", error))
}

fn replay_side(engine: &Engine, replay: &mut Replay<'_>) -> Result<()> {
    if let Some(name) = engine.meta().log_state().side_file {
        let mut side = SideReader::open(&**engine.fs(), &engine.upkeep.recycler.side_path(&name))
            .map_err(damaged)?;
        while let Some(entry) = side.next_entry().map_err(damaged)? {
            replay.side(&entry)?;
        }
    }
    Ok(())
}

fn tell(engine: &Engine, replayed: Replayed, took: std::time::Duration) {
    if replayed.records > 0 {
        let gib = replayed.bytes as f64 / (1u64 << 30) as f64;
        tracing::info!(
            records = replayed.records,
            rows = replayed.rows,
            seconds = took.as_secs_f64(),
            seconds_per_gib = took.as_secs_f64() / gib.max(f64::MIN_POSITIVE),
            tables = engine.table_states().len(),
            "log replayed"
        );
    }
}
