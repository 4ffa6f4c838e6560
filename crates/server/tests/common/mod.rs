//! A server in this process on free ports, and a blocking client.
#![allow(dead_code, reason = "each file of tests uses a part")]

pub mod client;
pub mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use client::*;
use freshet_base::ByteSize;
use freshet_base::task::Threads;
use freshet_ingest::{Engine, EngineConfig, World};
use freshet_query::STACK_BYTES;
use freshet_query::engine::{QueryConfig, QueryEngine};
use freshet_server::{Server, Settings};
use freshet_testkit::until_closed;
use tokio::runtime::Runtime;

/// A running server, stopped on drop.
pub struct TestServer {
    runtime: Option<Runtime>,
    server: Option<Server>,
    pub engine: Arc<Engine>,
    pub address: SocketAddr,
    dir: Option<tempfile::TempDir>,
}

impl TestServer {
    /// A server on an empty store.
    pub fn start() -> Self {
        Self::with(Settings::local())
    }

    /// A server on an empty store with these settings.
    pub fn with(settings: Settings) -> Self {
        Self::on(tempfile::tempdir().unwrap(), settings, |_| {}, |_| {})
    }

    /// A server on an empty store, with changes to the engine's configuration.
    pub fn sized(size: impl FnOnce(&mut EngineConfig)) -> Self {
        Self::on(tempfile::tempdir().unwrap(), Settings::local(), size, |_| {})
    }

    /// A server on an empty store, with changes to the engine's configuration and its environment.
    pub fn in_world(size: impl FnOnce(&mut EngineConfig), shape: impl FnOnce(&mut World)) -> Self {
        Self::on(tempfile::tempdir().unwrap(), Settings::local(), size, shape)
    }

    pub fn on(
        dir: tempfile::TempDir,
        settings: Settings,
        size: impl FnOnce(&mut EngineConfig),
        shape: impl FnOnce(&mut World),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .unwrap();
        let threads = Threads::start(2).unwrap();
        let mut world = World::real(threads, |message| panic!("{message}"), rand::random::<u64>);
        shape(&mut world);
        let mut config = EngineConfig::new(dir.path(), ByteSize::mib(256));
        config.wal_file_bytes = ByteSize::mib(4);
        config.wal_bytes_max = ByteSize::mib(64);
        size(&mut config);
        let (engine, server) = runtime.block_on(async {
            let engine = Engine::open(config, world).await.unwrap();
            let spill_dir = dir.path().join("spill");
            std::fs::create_dir_all(&spill_dir).unwrap();
            let memory_bytes = 256 << 20;
            let query = QueryConfig { memory_bytes, spill_dir, threads: 2, plan_threads: 2 };
            let query = Arc::new(QueryEngine::new(&query).unwrap());
            let draw = Arc::new(rand::random::<u64>);
            let server = Server::start(Arc::clone(&engine), query, settings, draw).await.unwrap();
            (engine, server)
        });
        let address = server.mysql_address();
        Self { runtime: Some(runtime), server: Some(server), engine, address, dir: Some(dir) }
    }

    /// Restarts the server on the same store.
    pub fn restart(self) -> Self {
        self.restart_with(Settings::local())
    }

    /// Restarts the server on the same store with these settings.
    pub fn restart_with(mut self, settings: Settings) -> Self {
        self.stop();
        let dir = self.dir.take().unwrap();
        drop(self);
        until_closed(dir.path());
        Self::on(dir, settings, |_| {}, |_| {})
    }

    fn stop(&mut self) {
        let (Some(runtime), Some(server)) = (self.runtime.take(), self.server.take()) else {
            return;
        };
        runtime.block_on(async {
            server.stop(Duration::from_secs(5)).await;
            self.engine.stop().await.unwrap();
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
    }

    /// A connection as root, without a database.
    pub fn connect(&self) -> Client {
        Client::connect(self.address, "root", "", None).unwrap()
    }

    pub fn http_address(&self) -> SocketAddr {
        self.server.as_ref().expect("the server runs").http_address()
    }

    /// A connection as root with a new database of its own.
    pub fn database(&self, name: &str) -> Client {
        let mut client = self.connect();
        client.run(&format!("CREATE DATABASE IF NOT EXISTS {name}"));
        client.run(&format!("USE {name}"));
        client
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}
