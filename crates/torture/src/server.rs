//! The server as a child process.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The timeout of a start, including recovery.
const START_TIME_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The server chooses free ports and prints them: a free port chosen here could be taken by another
/// process before the server binds it.
const ANY_PORT: &str = "127.0.0.1:0";
/// How much of a server's output error messages include.
const LOG_BYTES_SHOWN: usize = 3000;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server binary.
    pub program: PathBuf,
    pub data_dir: PathBuf,
    /// The file for its output.
    pub log: PathBuf,
    /// Settings by name, which override the small sizes below.
    pub settings: Vec<(String, String)>,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// A wrapper command with arguments, for example a shell with `ulimit`; empty for none.
    pub wrapper: Vec<String>,
}

/// Small sizes, with which seconds of load cause flushes, log recycling, merges and spills.
const SMALL: [(&str, &str); 12] = [
    ("wal_file_bytes", "1MiB"),
    ("wal_bytes_max", "8MiB"),
    ("flush_bytes", "256KiB"),
    ("flush_bytes_min", "32KiB"),
    ("write_memory", "64MiB"),
    ("query_memory", "256MiB"),
    ("orphan_grace", "1s"),
    ("labels_max", "100000"),
    ("io_threads", "2"),
    ("query_threads", "2"),
    ("job_threads", "2"),
    ("drain_timeout", "10s"),
];

impl Setup {
    /// A server with data and log below `dir` and small sizes.
    pub fn new(program: &Path, dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            data_dir: dir.join("data"),
            log: dir.join("server.log"),
            settings: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    /// Sets a setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    /// Returns freed memory to the system within `decay`, so that the size of the process is what
    /// it uses.
    #[must_use]
    pub fn returning_memory_within(mut self, decay: Duration) -> Self {
        let decay = format!("dirty_decay_ms:{}", decay.as_millis());
        self.environment.push(("_RJEM_MALLOC_CONF".to_owned(), decay));
        self
    }

    /// A command of the program with all settings in its environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.wrapper.iter().map(String::as_str).collect::<Vec<_>>();
        let program = self.program.display().to_string();
        words.push(&program);
        words.extend(arguments);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let data_dir = self.data_dir.display().to_string();
        let settings = SMALL.into_iter().chain([("data_dir", data_dir.as_str())]);
        for (name, value) in settings {
            command.env(format!("FRESHET_{}", name.to_uppercase()), value);
        }
        for (name, value) in &self.settings {
            command.env(format!("FRESHET_{}", name.to_uppercase()), value);
        }
        command.envs(self.environment.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Runs a command of the program that ends by itself, such as `check`; returns its exit status
    /// and output.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Result<(ExitStatus, String), String> {
        let output = self.command(arguments).output().map_err(|e| self.failed(&e))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Runs `freshet check`, which must find nothing.
    ///
    /// # Errors
    /// What it found.
    pub fn check_files(&self) -> Result<(), String> {
        match self.run(&["check"])? {
            (status, _) if status.success() => Ok(()),
            (status, said) => Err(format!("freshet check: {status}: {said}")),
        }
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.program.display())
    }

    /// Starts the server without waiting.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self) -> Result<Server, String> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.map_err(|e| format!("{}: {e}", self.log.display()))?;
        let log_from = log.metadata().map_or(0, |metadata| metadata.len());
        let mut command = self.command(&["server"]);
        command.env("FRESHET_MYSQL_LISTEN", ANY_PORT).env("FRESHET_HTTP_LISTEN", ANY_PORT);
        command.stdout(log.try_clone().map_err(|e| self.failed(&e))?).stderr(log);
        let child = command.spawn().map_err(|e| self.failed(&e))?;
        let log = self.log.clone();
        Ok(Server { child, mysql_port: 0, http_port: 0, log, log_from })
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// When it exits or takes too long; includes the end of its output.
    pub fn start(&self) -> Result<Server, String> {
        let mut server = self.spawn()?;
        server.wait_ready()?;
        Ok(server)
    }
}

/// A running server, killed on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The port of the MySQL protocol; 0 until the server is ready.
    pub mysql_port: u16,
    /// The HTTP port; 0 until the server is ready.
    pub http_port: u16,
    log: PathBuf,
    log_from: u64,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of its output since this start.
    pub fn said(&self) -> String {
        let said = self.output();
        let from = said.len().saturating_sub(LOG_BYTES_SHOWN);
        String::from_utf8_lossy(&said[from..]).into_owned()
    }

    fn output(&self) -> Vec<u8> {
        let mut all = fs::read(&self.log).unwrap_or_default();
        all.split_off(all.len().min(self.log_from as usize))
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the server prints that it is ready, with its ports.
    ///
    /// # Errors
    /// When it exits or takes too long.
    pub fn wait_ready(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            if let Some((mysql_port, http_port)) = ports_of(&self.output()) {
                (self.mysql_port, self.http_port) = (mysql_port, http_port);
                return Ok(());
            }
            if let Some(status) = self.ended() {
                return Err(format!("server ended at start: {status}\n{}", self.said()));
            }
            if began.elapsed() > START_TIME_MAX {
                return Err(format!("no start in {START_TIME_MAX:?}\n{}", self.said()));
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Waits until it ends by itself; `None` if it has not after `patience`.
    pub fn wait_end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < patience {
            match self.ended() {
                Some(status) => return Some(status),
                None => sleep(POLL_INTERVAL),
            }
        }
        None
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Fails if the process has ended, which callers intend anyway.
            let _ = kill_process(pid, signal);
        }
    }

    /// `kill -9`; waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it with SIGTERM.
    ///
    /// # Errors
    /// When it does not stop, or not with success.
    pub fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM);
        match self.wait_end(START_TIME_MAX) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("stop: {}\n{}", describe(status), self.said())),
            None => Err(format!("no stop in {START_TIME_MAX:?}\n{}", self.said())),
        }
    }

    /// The number of open file descriptors; 0 once it has ended.
    pub fn open_files(&self) -> u64 {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        files.map_or(0, |files| files.count() as u64)
    }

    /// Resident memory; 0 once it has ended.
    pub fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// The most resident memory that it has had; 0 once it has ended.
    pub fn peak_bytes(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.unwrap_or_default();
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = value.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The ports for MySQL and HTTP in the line by which a server reports that it is ready.
fn ports_of(output: &[u8]) -> Option<(u16, u16)> {
    let output = String::from_utf8_lossy(output);
    let lines = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let mut places = lines.filter_map(|line| line.strip_prefix("freshet is ready: mysql "));
    let (mysql, http) = places.next_back()?.split_once(", http ")?;
    let port = |place: &str| Some(place.parse::<SocketAddr>().ok()?.port());
    Some((port(mysql)?, port(http)?))
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_stand_in_the_whole_line() {
        let line =
            b"2026 WARN something\nfreshet is ready: mysql 127.0.0.1:3306, http [::1]:8030\n";
        assert_eq!(ports_of(line), Some((3306, 8030)));
        assert_eq!(ports_of(&line[..line.len() - 1]), None, "half a line");
    }
}
