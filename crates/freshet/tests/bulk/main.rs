//! `freshet load` against a real server: exactly once through kills of both, formats, bad rows,
//! exit codes.
// Tests write files for the tool and kill processes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod dumps;
mod formats;
mod kills;
mod moves;
mod parquet;
mod rejects;
mod secure;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use freshet_torture::client::Client;
use freshet_torture::server::{Server, Setup};

const FRESHET: &str = env!("CARGO_BIN_EXE_freshet");

struct World {
    dir: tempfile::TempDir,
    setup: Setup,
    server: Server,
    client: Client,
}

impl World {
    /// A server with a table `bulk.t`, which has no key: a row that is loaded twice is there twice.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::new(Path::new(FRESHET), dir.path());
        let server = setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        client.query("CREATE DATABASE bulk").unwrap();
        client
            .query(
                "CREATE TABLE bulk.t (id BIGINT NOT NULL, name VARCHAR(100), at DATETIME) \
                 DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 2",
            )
            .unwrap();
        Self { dir, setup, server, client }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The tool with where the server is.
    fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(FRESHET);
        command.arg(arguments[0]);
        command.args(["--port", &self.server.mysql_port.to_string()]);
        command.args(["--http-port", &self.server.http_port.to_string()]);
        command.args(["-D", "bulk"]).args(&arguments[1..]);
        command.env("XDG_STATE_HOME", self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> String {
        ended(&self.tool(arguments).output().unwrap(), code)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.tool(arguments).spawn().unwrap()
    }

    /// The rows of the table, in order.
    fn rows(&mut self) -> Vec<Vec<String>> {
        self.client.query("SELECT id, name, at FROM bulk.t ORDER BY id, name").unwrap()
    }

    fn clear(&mut self) {
        self.client.query("TRUNCATE TABLE bulk.t").unwrap();
    }
}

/// What it said; it must have exited with `code`.
#[track_caller]
fn ended(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}
