//! The real server, on free ports and a temporary data directory.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running `freshet server`.
pub struct Server {
    process: Child,
    pub address: String,
    _data: TempDir,
}

impl Server {
    /// Starts the binary and waits until it is ready.
    pub fn start() -> Self {
        let data = TempDir::new().expect("a temporary directory");
        let mut process = Command::new(env!("CARGO_BIN_EXE_freshet"))
            .args(["server", "--mysql-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
            .env("TZ", "UTC")
            .arg("--data-dir")
            .arg(data.path().join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut ready = String::new();
        let output = process.stdout.take().expect("stdout is piped");
        BufReader::new(output).read_line(&mut ready).expect("a line when it is ready");
        let address = ready.split_whitespace().find_map(|word| {
            let at = word.find("127.0.0.1:")?;
            let address = &word[at..];
            let end = address.rfind(|c: char| c.is_ascii_digit())? + 1;
            Some(address[..end].to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("no address in {ready:?}"));
        Self { process, address, _data: data }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
