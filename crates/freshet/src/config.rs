//! The settings of a server: defaults, overridden by a file, the environment and flags, in this
//! order. `docs/configuration.md` is generated from the registry, and a test compares the two.

mod parse;
mod registry;

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freshet_base::ByteSize;

pub use registry::{SETTINGS, Setting};

/// The prefix of settings in the environment, followed by the name in upper case.
pub const ENVIRONMENT_PREFIX: &str = "FRESHET_";

/// An amount of memory, absolute or relative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// A percentage of the memory that the process may use.
    Percent(u64),
    Bytes(ByteSize),
}

impl Memory {
    /// In bytes, where the process may use `total`.
    pub fn of(self, total: ByteSize) -> ByteSize {
        match self {
            Self::Percent(percent) => ByteSize(total.bytes() / 100 * percent),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The settings of a server; `registry.rs` documents each of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    pub data_dir: PathBuf,
    pub mysql_listen: SocketAddr,
    pub http_listen: SocketAddr,
    pub wal_dirs: Vec<PathBuf>,
    pub wal_disk_limit: Option<Memory>,
    pub filter_ratio_rows: usize,
    pub wal_file_bytes: ByteSize,
    pub wal_bytes_max: ByteSize,
    pub wal_load_bytes_max: ByteSize,
    pub write_memory: Memory,
    pub query_memory: Memory,
    pub snapshot_memory: Memory,
    pub footer_memory: Memory,
    pub key_memory: Memory,
    pub client_memory: Memory,
    pub account_memory: Option<ByteSize>,
    pub account_receive_memory: Option<ByteSize>,
    pub spill_dir: Option<PathBuf>,
    pub secure_file_priv: Option<PathBuf>,
    pub flush_bytes: ByteSize,
    pub flush_bytes_min: ByteSize,
    pub transaction_bytes_max: Option<ByteSize>,
    pub transaction_file_bytes_max: ByteSize,
    pub transactions_memory: Option<Memory>,
    pub load_patience: Duration,
    pub compaction: bool,
    pub orphan_grace: Duration,
    pub streaming_load_mib_max: usize,
    pub streaming_load_json_mib_max: usize,
    pub precommit_seconds: usize,
    pub load_error_log_keep: Duration,
    pub load_error_log_bytes_max: ByteSize,
    pub recycle_bin_keep: Duration,
    pub deleted_rows_keep: Duration,
    pub label_keep: Duration,
    pub label_keep_streaming: Duration,
    pub labels_max: usize,
    pub labels_running_max: usize,
    pub io_threads: usize,
    pub query_threads: usize,
    pub plan_threads: usize,
    pub job_threads: usize,
    pub connections_max: usize,
    pub user_connections_max: Option<usize>,
    pub address_connections_max: Option<usize>,
    pub connect_timeout: Duration,
    pub http_connections_max: usize,
    pub http_header_timeout: Duration,
    pub loads_max: usize,
    pub account_loads_max: Option<usize>,
    pub packet_bytes_max: ByteSize,
    pub version: String,
    pub collation_server: &'static str,
    pub drain_timeout: Duration,
    pub tls: bool,
    pub tls_cert_file: Option<PathBuf>,
    pub tls_key_file: Option<PathBuf>,
    pub tls_ca_file: Option<PathBuf>,
    pub require_secure_transport: bool,
    pub password_policy: String,
    pub log_level: String,
    pub failpoints: String,
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        for setting in SETTINGS {
            (setting.set)(&mut config, setting.default).expect("a default fits its setting");
        }
        config
    }
}

impl Config {
    /// Placeholder values, before the defaults are set.
    fn blank() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            data_dir: PathBuf::new(),
            mysql_listen: nowhere,
            http_listen: nowhere,
            wal_dirs: Vec::new(),
            wal_disk_limit: None,
            filter_ratio_rows: 0,
            wal_file_bytes: ByteSize(0),
            wal_bytes_max: ByteSize(0),
            wal_load_bytes_max: ByteSize(0),
            write_memory: Memory::Percent(0),
            query_memory: Memory::Percent(0),
            snapshot_memory: Memory::Percent(0),
            footer_memory: Memory::Percent(0),
            key_memory: Memory::Percent(0),
            client_memory: Memory::Percent(0),
            account_memory: None,
            account_receive_memory: None,
            spill_dir: None,
            secure_file_priv: None,
            flush_bytes: ByteSize(0),
            flush_bytes_min: ByteSize(0),
            transaction_bytes_max: None,
            transaction_file_bytes_max: ByteSize(0),
            transactions_memory: None,
            load_patience: Duration::ZERO,
            compaction: false,
            orphan_grace: Duration::ZERO,
            streaming_load_mib_max: 0,
            streaming_load_json_mib_max: 0,
            precommit_seconds: 0,
            load_error_log_keep: Duration::ZERO,
            load_error_log_bytes_max: ByteSize(0),
            recycle_bin_keep: Duration::ZERO,
            deleted_rows_keep: Duration::ZERO,
            label_keep: Duration::ZERO,
            label_keep_streaming: Duration::ZERO,
            labels_max: 0,
            labels_running_max: 0,
            io_threads: 0,
            query_threads: 0,
            plan_threads: 0,
            job_threads: 0,
            connections_max: 0,
            user_connections_max: None,
            address_connections_max: None,
            connect_timeout: Duration::ZERO,
            http_connections_max: 0,
            http_header_timeout: Duration::ZERO,
            loads_max: 0,
            account_loads_max: None,
            packet_bytes_max: ByteSize(0),
            version: String::new(),
            collation_server: "",
            drain_timeout: Duration::ZERO,
            tls: false,
            tls_cert_file: None,
            tls_key_file: None,
            tls_ca_file: None,
            require_secure_transport: false,
            password_policy: String::new(),
            log_level: String::new(),
            failpoints: String::new(),
        }
    }

    /// Reads the settings from these sources. Also returns warnings about environment variables
    /// that have the prefix of settings but are none, with the setting that may have been meant.
    ///
    /// # Errors
    /// All problems, one message each.
    pub fn load(sources: &Sources<'_>) -> Result<(Self, Vec<String>), Vec<String>> {
        let mut config = Self::default();
        let (mut problems, mut passed_over) = (Vec::new(), Vec::new());
        if let Some((path, text)) = &sources.file {
            apply_file(&mut config, path, text, &mut problems);
        }
        for (name, value) in sources.environment {
            let Some(setting) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            let setting = setting.to_ascii_lowercase();
            match find(&setting) {
                Some(_) => apply(&mut config, name, &setting, value, &mut problems),
                None => passed_over.push(unknown(name, &setting)),
            }
        }
        for (name, value) in sources.flags {
            let place = format!("--{}", name.replace('_', "-"));
            apply(&mut config, &place, name, value, &mut problems);
        }
        config.check(&mut problems);
        if problems.is_empty() { Ok((config, passed_over)) } else { Err(problems) }
    }

    /// Checks that involve several settings.
    fn check(&self, problems: &mut Vec<String>) {
        let (file, all) = (self.wal_file_bytes, self.wal_bytes_max);
        if all.bytes() < 4 * file.bytes() {
            problems.push(format!(
                "wal_bytes_max: {all} is less than four files of wal_file_bytes ({file})"
            ));
        }
        let parts = [
            self.write_memory,
            self.query_memory,
            self.snapshot_memory,
            self.footer_memory,
            self.key_memory,
            self.client_memory,
        ];
        let percent = |part: Memory| if let Memory::Percent(percent) = part { percent } else { 0 };
        let [writes, queries, snapshots, footers, keys, clients] = parts.map(percent);
        if writes + queries + snapshots + footers + keys + clients > 97 {
            problems.push(format!(
                "write_memory ({writes}%), query_memory ({queries}%), snapshot_memory \
                 ({snapshots}%), footer_memory ({footers}%), key_memory ({keys}%) and \
                 client_memory ({clients}%) leave less than 3% of the memory to everything else"
            ));
        }
        if self.tls_cert_file.is_some() != self.tls_key_file.is_some() {
            problems.push(
                "tls_cert_file and tls_key_file belong together: give both or none".to_owned(),
            );
        }
        if self.require_secure_transport && !self.tls {
            problems.push("require_secure_transport: tls is switched off".to_owned());
        }
        if self.mysql_listen == self.http_listen && self.mysql_listen.port() != 0 {
            problems.push(format!(
                "mysql_listen and http_listen are the same address ({})",
                self.mysql_listen
            ));
        }
    }
}

/// The sources of settings.
#[derive(Default)]
pub struct Sources<'a> {
    /// Path and content of the configuration file.
    pub file: Option<(&'a Path, &'a str)>,
    pub environment: &'a [(String, String)],
    /// Names and values of flags.
    pub flags: &'a [(String, String)],
}

fn apply_file(config: &mut Config, path: &Path, text: &str, problems: &mut Vec<String>) {
    let table = match text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => {
            problems.push(format!("{}: {}", path.display(), error.message()));
            return;
        }
    };
    for (name, value) in table {
        let place = path.display().to_string();
        match parse::toml_text(&value) {
            Some(text) => apply(config, &place, &name, &text, problems),
            None => problems
                .push(format!("{place}: {name}: a {} is no value of a setting", value.type_str())),
        }
    }
}

fn apply(config: &mut Config, place: &str, name: &str, value: &str, problems: &mut Vec<String>) {
    let Some(setting) = find(name) else {
        problems.push(unknown(place, name));
        return;
    };
    if let Err(problem) = (setting.set)(config, value) {
        problems.push(format!("{place}: {name}: {problem}"));
    }
}

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

fn unknown(place: &str, name: &str) -> String {
    format!("{place}: there is no setting '{name}'{}", did_you_mean(name))
}

/// A hint with a setting of a similar name.
fn did_you_mean(name: &str) -> String {
    let same = |setting: &&Setting| {
        let (a, b) = (name.bytes(), setting.name.bytes());
        let front = a.clone().zip(b.clone()).take_while(|(a, b)| a == b).count();
        front + a.rev().zip(b.rev()).take_while(|(a, b)| a == b).count()
    };
    let alike = |setting: &&Setting| {
        setting.name.contains(name) || name.contains(setting.name) || same(setting) >= 6
    };
    let nearness =
        |setting: &&Setting| (same(setting), Reverse(setting.name.len().abs_diff(name.len())));
    match SETTINGS.iter().filter(alike).max_by_key(nearness) {
        Some(setting) => format!("; did you mean '{}'?", setting.name),
        None => String::new(),
    }
}

/// Generates `docs/configuration.md`.
pub fn document() -> String {
    let mut page = "# Settings of the server\n\n\
        Generated from `crates/freshet/src/config/registry.rs` by `make docs`; a test compares the \
        two.\n\n\
        A setting is a line `name = value` of the TOML file that `--config` names, a variable of \
        the environment (`FRESHET_` and the name in upper case), or a flag (`--set name=value`; \
        `--data-dir`, `--mysql-listen`, `--http-listen` and `--log` are flags of their own). \
        Flags override the environment, which overrides the file; what `SET PERSIST` has kept \
        overrides all three. \
        Unknown names are errors, and all problems are reported at once; a variable of the \
        environment that is no setting is reported and ignored.\n\n\
        Sizes are written `64MiB` or `4096`, times `10s`, `500ms`, `5m`, `12h`, `3d`.\n\n\
        | setting | default | what it does |\n| --- | --- | --- |\n"
        .to_owned();
    for setting in SETTINGS {
        let default = if setting.default.is_empty() { "empty" } else { setting.default };
        page += &format!("| `{}` | `{default}` | {} |\n", setting.name, setting.about);
    }
    page
}

#[cfg(test)]
mod tests;
