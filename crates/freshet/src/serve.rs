//! Runs a server: recovery, service, shutdown.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::fail::Failpoints;
use freshet_base::io::{Fs, RealFs};
use freshet_base::task::{Threads, TimeSlice, set_time_slice};
use freshet_base::{ByteSize, Error, ErrorCode, Result};
use freshet_ingest::{Engine, EngineConfig, World};
use freshet_meta::LabelLimits;
use freshet_query::STACK_BYTES;
use freshet_query::engine::{QueryConfig, QueryEngine};
use freshet_server::{LoadLimits, MemoryLimits, Server, Settings, TlsSettings};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::config::Config;
use crate::memory;

/// Runs a server until a signal stops it.
///
/// # Errors
/// Why the server could not start.
pub fn run(config: &Config) -> Result<()> {
    log(&config.log_level)?;
    contain_panics();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = |count: usize| if count == 0 { cores } else { count };
    let failed = |error| Error::io("start threads", error);
    // Jobs also wait for the disk, so there is one thread more than cores.
    let job_threads = if config.job_threads == 0 { cores + 1 } else { config.job_threads };
    let pool = Threads::start(job_threads).map_err(failed)?;
    // These threads accept connections, handle signals and run statements; computing has threads of
    // its own. At least two, so that no task waits while another lists all tables.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .thread_name("statement")
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(|| set_time_slice(TimeSlice::Short))
        .enable_all()
        .build()
        .map_err(failed)?;
    let settings = Settings {
        mysql_listen: config.mysql_listen,
        http_listen: config.http_listen,
        version: config.version.clone(),
        collation: config.collation_server,
        connections_max: config.connections_max,
        user_connections_max: config.user_connections_max,
        address_connections_max: config.address_connections_max,
        connect_timeout: config.connect_timeout,
        http_connections_max: config.http_connections_max,
        http_header_timeout: config.http_header_timeout,
        packet_bytes_max: usize::try_from(config.packet_bytes_max.bytes()).unwrap_or(usize::MAX),
        io_threads: threads(config.io_threads),
        loads: load_limits(config),
        memory: memory_limits(config),
        drain_timeout: config.drain_timeout,
        tls: TlsSettings {
            enabled: config.tls,
            cert_file: config.tls_cert_file.clone(),
            key_file: config.tls_key_file.clone(),
            ca_file: config.tls_ca_file.clone(),
        },
        require_secure_transport: config.require_secure_transport,
        password_policy: config.password_policy.clone(),
        file_dir: config.secure_file_priv.clone(),
    };
    let threads = [config.query_threads, config.plan_threads].map(threads);
    let served = serve(config, settings, threads, world(config, pool));
    let done = runtime.block_on(served);
    end(runtime);
    done
}

fn memory_limits(config: &Config) -> MemoryLimits {
    MemoryLimits {
        client_memory: config.client_memory.of(memory::total()),
        account_memory: config.account_memory,
        account_receive_memory: config.account_receive_memory,
    }
}

fn load_limits(config: &Config) -> LoadLimits {
    LoadLimits {
        streaming_load_max_mb: config.streaming_load_mib_max as u64,
        streaming_load_json_max_mb: config.streaming_load_json_mib_max as u64,
        precommit_timeout: std::time::Duration::from_secs(config.precommit_seconds as u64),
        error_log_keep: config.load_error_log_keep,
        error_log_bytes_max: config.load_error_log_bytes_max,
        loads_max: config.loads_max,
        account_loads_max: config.account_loads_max,
    }
}

/// A panic while answering a query or a command ends that statement or connection, and is a bug to
/// report. Anywhere else it ends the process: the engine's own tasks hold shared state, and
/// recovery is the only tested way out of a broken invariant.
fn contain_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("");
        if !["statement", "query", "plan", "io-"].iter().any(|of| name.starts_with(of)) {
            std::process::abort();
        }
    }));
}

/// Shuts the runtime down; work on its blocking threads is abandoned after a second.
fn end(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn serve(
    config: &Config,
    settings: Settings,
    [query_threads, plan_threads]: [usize; 2],
    world: World,
) -> Result<()> {
    let total = memory::total();
    let fs = Arc::clone(&world.fs);
    let draw = Arc::clone(&world.draw);
    let mut signals = Signals::new()?;
    let engine = Engine::open(engine_config(config, total), world).await?;
    let spill_dir = config.spill_dir.clone().unwrap_or_else(|| config.data_dir.join("spill"));
    fs.create_dir_all(&spill_dir).map_err(|error| {
        Error::io(format_args!("make directory {}", spill_dir.display()), error)
    })?;
    let query = QueryEngine::new(&QueryConfig {
        memory_bytes: usize::try_from(config.query_memory.of(total).bytes()).unwrap_or(usize::MAX),
        spill_dir,
        threads: query_threads,
        plan_threads,
    })?;
    let server = Server::start(Arc::clone(&engine), Arc::new(query), settings, draw).await?;
    say_ready(&server);
    signals.stop(&server).await;
    tracing::info!("stopping");
    server.stop(config.drain_timeout).await;
    engine.stop().await
}

/// Prints the only line on standard output.
fn say_ready(server: &Server) {
    let (mysql, http) = (server.mysql_address(), server.http_address());
    // Fails if the starting process has closed the pipe; the server runs anyway.
    let _ = writeln!(std::io::stdout(), "freshet is ready: mysql {mysql}, http {http}");
    let _ = std::io::stdout().flush();
}

/// The real clock, files, threads and random numbers.
pub fn world(config: &Config, pool: Threads) -> World {
    let failpoints =
        Failpoints::parse(&config.failpoints).expect("the setting was checked when it was read");
    let on_fatal = |message: &str| {
        eprintln!("freshet: {message}");
        std::process::abort();
    };
    World { failpoints, ..World::real(pool, on_fatal, rand::random::<u64>) }
}

/// The engine's configuration, where the process may use `total` memory.
pub fn engine_config(config: &Config, total: ByteSize) -> EngineConfig {
    let write_memory = config.write_memory.of(total);
    let mut engine = EngineConfig::new(&config.data_dir, write_memory);
    if !config.wal_dirs.is_empty() {
        engine.wal_dirs.clone_from(&config.wal_dirs);
    }
    if let Some(bytes) = config.transaction_bytes_max {
        engine.transaction_bytes_max = bytes;
    }
    if let Some(memory) = config.transactions_memory {
        engine.transactions_memory_bytes = memory.of(total);
    }
    EngineConfig {
        wal_file_bytes: config.wal_file_bytes,
        wal_bytes_max: log_bytes_max(config, &engine.wal_dirs),
        wal_load_bytes_max: config.wal_load_bytes_max,
        snapshot_memory_bytes: config.snapshot_memory.of(total),
        footer_memory_bytes: config.footer_memory.of(total),
        key_memory_bytes: config.key_memory.of(total),
        flush_bytes: config.flush_bytes,
        flush_bytes_min: config.flush_bytes_min,
        transaction_file_bytes_max: config.transaction_file_bytes_max,
        load_patience: config.load_patience,
        compaction: config.compaction,
        orphan_grace: config.orphan_grace,
        recycle_bin_keep: config.recycle_bin_keep,
        deleted_rows_keep: config.deleted_rows_keep,
        labels: LabelLimits {
            keep: config.label_keep,
            keep_streaming: config.label_keep_streaming,
            finished_max: config.labels_max,
            running_max: config.labels_running_max,
        },
        ..engine
    }
}

fn log(level: &str) -> Result<()> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Error::new(ErrorCode::WrongArguments, format!("log_level: '{level}': {error}"))
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}

async fn reload_keys(server: &Server) {
    let Some(tls) = &server.shared().tls else { return };
    match tls.reload().await {
        Ok(()) => tracing::info!("keys of TLS were read again"),
        Err(error) => tracing::error!(%error, "keys of TLS stay what they were"),
    }
}

/// The signals that a server obeys.
struct Signals {
    hangup: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let failed = |error| Error::io("listen for signals", error);
        Ok(Self {
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    /// Waits for a signal to stop; SIGHUP reads the keys of TLS again.
    async fn stop(&mut self, server: &Server) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reload_keys(server).await,
            }
        }
    }
}

/// The size of all log files, within what their directories may fill of their disks.
fn log_bytes_max(config: &Config, dirs: &[PathBuf]) -> ByteSize {
    let Some(limit) = config.wal_disk_limit else { return config.wal_bytes_max };
    let fits = dirs.iter().map(|dir| limit.of(ByteSize(disk_bytes(dir))).bytes()).sum::<u64>();
    let least = 4 * config.wal_file_bytes.bytes();
    ByteSize(fits.clamp(least, config.wal_bytes_max.bytes()))
}

/// What is free on the disk of a directory of log files, or theirs.
fn disk_bytes(dir: &Path) -> u64 {
    let there = dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(dir);
    let free = RealFs.available_bytes(there).unwrap_or(0);
    let files = RealFs.list(dir).unwrap_or_default();
    free + files.iter().map(|file| file.len_bytes).sum::<u64>()
}
