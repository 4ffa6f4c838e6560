//! Starting and stopping the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, Result, bail};
use freshet_ingest::Engine;
use freshet_query::engine::QueryEngine;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::{self, Http, HttpConfig};
use crate::io::{IoThreads, listen};
use crate::load_book::LoadBook;
use crate::mysql::{listener, login};
use crate::shared::{Draw, Settings, Shared};
use crate::tls::Tls;
use crate::variables::PERSISTED_FILE;

/// How often idle timeouts of sessions are checked.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub struct Server {
    shared: Arc<Shared>,
    mysql: SocketAddr,
    http: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    _threads: Arc<IoThreads>,
}

impl Server {
    /// Must be called inside the Tokio runtime for statements.
    ///
    /// # Errors
    /// When an address is not available, or not allowed while `root` has no password; when keys
    /// for TLS cannot be read, or what SET PERSIST has kept.
    pub async fn start(
        engine: Arc<Engine>,
        query: Arc<QueryEngine>,
        settings: Settings,
        draw: Draw,
    ) -> Result<Self> {
        let addresses = [settings.mysql_listen, settings.http_listen];
        let tls = Tls::open(&settings.tls, &engine, &addresses).await?;
        let book = LoadBook::open(&engine, settings.loads.error_logs(), Arc::clone(&draw))?;
        let shared = Shared::new(engine, query, book, settings, tls, Arc::clone(&draw));
        shared.persisted.begin(&shared.globals).await?;
        if shared.globals.is_on("require_secure_transport") && shared.tls.is_none() {
            bail!(
                NoSecureTransport,
                "require_secure_transport needs TLS, which is switched off: set tls to true, or \
                 take the variable out of {} if SET PERSIST has put it there",
                PERSISTED_FILE
            );
        }
        login::check_listen(&shared, shared.settings.mysql_listen.ip())?;
        login::check_listen(&shared, shared.settings.http_listen.ip())?;
        let mysql = listen(shared.settings.mysql_listen)?;
        let web = listen(shared.settings.http_listen)?;
        let (mysql_address, http_address) = (address(&mysql)?, address(&web)?);
        let threads =
            Arc::new(IoThreads::start(shared.settings.io_threads, shared.engine.horizon())?);
        let (stop, _) = watch::channel(false);
        let http = http_of(&shared, mysql_address, draw);
        let accept = listener::accept(
            mysql,
            Arc::clone(&shared),
            Arc::clone(&threads),
            stopped(stop.subscribe()),
        );
        let mut tasks = vec![tokio::spawn(accept)];
        let io = Arc::clone(&threads);
        let ended = stopped(stop.subscribe());
        tasks.push(tokio::spawn(async move {
            if let Err(error) = http::serve(web, http, io, ended).await {
                tracing::error!(%error, "HTTP ended");
            }
        }));
        tasks.push(tokio::spawn(enforce_idle_timeouts(
            Arc::clone(&shared),
            stopped(stop.subscribe()),
        )));
        Ok(Self {
            shared,
            mysql: mysql_address,
            http: http_address,
            stop,
            tasks,
            _threads: threads,
        })
    }

    /// The state shared by its sessions.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn mysql_address(&self) -> SocketAddr {
        self.mysql
    }

    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Stops accepting connections, waits up to `patience` for running statements, then aborts
    /// them. Stop the engine afterwards.
    pub async fn stop(self, patience: Duration) {
        // Fails only when no task listens any more.
        let _ = self.stop.send(true);
        let clock = self.shared.engine.clock();
        let deadline = clock.now() + patience;
        for process in self.shared.processes.list() {
            process.retire();
        }
        while self.shared.processes.count() > 0 && clock.now() < deadline {
            clock.sleep(Duration::from_millis(5)).await;
        }
        for process in self.shared.processes.list() {
            process.kill(true);
        }
        let killed = clock.now() + Duration::from_secs(2);
        while self.shared.processes.count() > 0 && clock.now() < killed {
            clock.sleep(Duration::from_millis(5)).await;
        }
        for task in self.tasks {
            // The time of running requests is over; a task that has not ended is abandoned.
            let left = deadline.saturating_sub(clock.now()) + Duration::from_millis(100);
            let _ = tokio::time::timeout(left, task).await;
        }
    }
}

fn http_of(shared: &Arc<Shared>, mysql: SocketAddr, draw: Draw) -> Arc<Http> {
    let config = HttpConfig {
        mysql_port: mysql.port(),
        version: shared.settings.version.clone(),
        loads: shared.settings.loads.clone(),
        connections_max: shared.settings.http_connections_max,
        address_connections_max: shared.settings.address_connections_max,
        header_max: shared.settings.http_header_timeout,
        drain_max: shared.settings.drain_timeout,
        tls: shared.tls.clone(),
        ..HttpConfig::default()
    };
    Http::new(Arc::clone(shared), config, draw)
}

fn address(listener: &tokio::net::TcpListener) -> Result<SocketAddr> {
    listener.local_addr().map_err(|error| Error::io("ask for the address of a listener", error))
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // A dropped sender also means stop.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Enforces the idle timeouts of sessions.
async fn enforce_idle_timeouts(shared: Arc<Shared>, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            () = shared.engine.clock().sleep(IDLE_CHECK_INTERVAL) => {}
        }
        let now = shared.engine.clock().now();
        for process in shared.processes.list() {
            process.check_idle_timeouts(now);
        }
    }
}
