//! Attacks on the real binary by unauthenticated clients and accounts with few privileges: nobody
//! gains privileges, and nobody blocks others. Load is bounded and stays on this machine.
// Tests use clocks, sockets and the server's process directly.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../../../server/tests/common/client.rs"]
mod client;
mod depth;
mod held;
mod hostile;
mod http;
mod planning;
mod policies;
mod rights;
mod slots;
#[path = "../../../server/tests/http/client.rs"]
mod web;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use client::{Client, Failure, failure};
use freshet_torture::server::{Server, Setup};
use web::Answer;

/// The timeout of [`eventually`].
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running server on an empty store.
struct TestServer {
    process: Server,
    address: SocketAddr,
    http_address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl TestServer {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
        let setup = settings.iter().fold(setup, |setup, (name, value)| setup.with(name, *value));
        Self::of(&setup, dir)
    }

    fn of(setup: &Setup, dir: tempfile::TempDir) -> Self {
        let process = setup.start().unwrap();
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (address, http_address) = (at(process.mysql_port), at(process.http_port));
        Self { process, address, http_address, _dir: dir }
    }

    /// A connection as root, without a database.
    fn connect(&self) -> Client {
        self.log_in("root").unwrap()
    }

    /// A connection as an account without a password.
    fn log_in(&self, user: &str) -> Result<Client, Failure> {
        Client::connect(self.address, user, "", None)
    }

    /// A connection as root with a database of its own.
    fn database(&self, name: &str) -> Client {
        let mut client = self.connect();
        client.run(&format!("CREATE DATABASE IF NOT EXISTS {name}"));
        client.run(&format!("USE {name}"));
        client
    }

    /// A connection of HTTP.
    fn web(&self) -> web::Client {
        web::Client::to(self.http_address)
    }

    /// Sends a GET request, as an account without a password unless `user` is empty.
    fn get(&self, path: &str, user: &str) -> Answer {
        let authorization = web::authorization(user, "");
        let headers = [authorization.as_str()];
        self.web().request("GET", path, &headers[..usize::from(!user.is_empty())], b"")
    }

    /// CPU time that the server has used.
    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>());
        Duration::from_millis(10 * ticks.map(Result::unwrap).sum::<u64>())
    }

    /// The value of a metric.
    fn gauge(&self, name: &str) -> u64 {
        let all = self.get("/metrics", "").body;
        let mut values = all.lines().filter_map(|line| line.strip_prefix(name));
        let value = values.find_map(|value| value.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} among {all}"))
    }
}
