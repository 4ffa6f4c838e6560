//! The registry of settings.

use std::path::PathBuf;

use freshet_base::ByteSize;
use freshet_base::fail::Failpoints;

use super::{Config, parse};

pub struct Setting {
    /// The name in the file; for the environment, in upper case after `FRESHET_`.
    pub name: &'static str,
    /// In the form that `set` parses.
    pub default: &'static str,
    /// The description in the documentation.
    pub about: &'static str,
    /// Parses a value and stores it.
    pub set: fn(&mut Config, &str) -> Result<(), String>,
}

macro_rules! settings {
    ($($name:ident = $default:literal, $about:literal, $field:ident: $parse:expr;)*) => {
        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            default: $default,
            about: $about,
            set: |config, text| {
                let parse: fn(&str) -> Result<_, String> = $parse;
                config.$field = parse(text)?;
                Ok(())
            },
        },)*];
    };
}

/// The maximum number of threads of one kind.
const THREADS_MAX: usize = 1024;

settings! {
    data_dir = "./freshet-data",
        "The directory of metadata, segments and, unless said otherwise, the log.",
        data_dir: |text| parse::text(text).map(PathBuf::from);
    mysql_listen = "127.0.0.1:9030",
        "Where the MySQL protocol is spoken.",
        mysql_listen: parse::address;
    http_listen = "127.0.0.1:8030",
        "Where stream loads, health and metrics are served.",
        http_listen: parse::address;
    group_commit_wal_path = "",
        "Directories of log files, absolute, with `;` between them; empty means `wal` in the data \
         directory. Each new file goes where most room is. A directory is of one store; it may be \
         another at any start, and what stands where the log was is read from there.",
        wal_dirs: parse::directories;
    wal_file_bytes = "64MiB",
        "Size of one log file; a record is at most a quarter of it. It may be another at any \
         start: files of before are read, and go when their records are in files of tables.",
        wal_file_bytes: |text| parse::size_within(text, ByteSize::mib(1), ByteSize::gib(1));
    wal_bytes_max = "4GiB",
        "Size of all log files; it also bounds the time of recovery.",
        wal_bytes_max: parse::size;
    wal_load_bytes_max = "16MiB",
        "Loads with more bytes of rows write files of their own, which one small record of the log \
         names; what a quarter of a log file cannot hold does so anyway.",
        wal_load_bytes_max: |text| parse::size_within(text, ByteSize::kib(64), ByteSize::mib(256));
    write_memory = "40%",
        "Memory of all writes, in bytes or of the memory that the process may use: receive \
         buffers, open transactions, rows that are not in files, flushes, replay.",
        write_memory: parse::memory;
    query_memory = "40%",
        "Memory of all queries together; what needs more spills to disk.",
        query_memory: parse::memory;
    snapshot_memory = "10%",
        "Memory of rows that are in files already and that only open snapshots keep: of \
         transactions that read one state until their end, and of long queries. Above it the \
         oldest snapshot is closed (`snapshot too old`).",
        snapshot_memory: parse::memory;
    client_memory = "5%",
        "Memory of what is kept for clients from one command to the next: prepared statements, \
         parameters that come in pieces, rows of cursors, user variables.",
        client_memory: parse::memory;
    account_memory = "",
        "The same for the clients of one account, in bytes; empty means three quarters of \
         `client_memory`.",
        account_memory: parse::optional_size;
    account_receive_memory = "",
        "Requests of one account that have not come in whole, in bytes; they are a part of \
         `write_memory`, and empty means half of it.",
        account_receive_memory: parse::optional_size;
    spill_dir = "",
        "Where queries spill to; empty means `spill` in the data directory.",
        spill_dir: |text| Ok((!text.is_empty()).then(|| PathBuf::from(text)));
    flush_bytes = "64MiB",
        "Rows of a table go to files when so many bytes of them are in memory.",
        flush_bytes: parse::size;
    flush_bytes_min = "1MiB",
        "A table with fewer bytes holds no log file back: its rows go to the side file instead.",
        flush_bytes_min: parse::size;
    transaction_bytes_max = "",
        "Rows of one transaction at most, in bytes; empty means a quarter of `write_memory`.",
        transaction_bytes_max: parse::optional_size;
    transactions_memory = "",
        "Rows of all open transactions together, in bytes or of the memory that the process may \
         use; empty means half of `write_memory`. What needs more waits for `load_patience` and \
         is refused, so that idle transactions leave the rest to other writers.",
        transactions_memory: parse::optional_memory;
    load_patience = "30s",
        "How long a load waits for memory and for room in the log before it is refused.",
        load_patience: parse::duration;
    compaction = "true",
        "Whether small rowsets are merged in the background.",
        compaction: parse::switch;
    orphan_grace = "10m",
        "How long a file that nothing names is kept.",
        orphan_grace: parse::duration;
    streaming_load_max_mb = "10240",
        "Largest body of a stream load, in MiB.",
        streaming_load_mib_max: |text| parse::count(text, 1, 1 << 30);
    streaming_load_json_max_mb = "100",
        "The same for JSON that is not read by line; with `json_root` it is held in memory.",
        streaming_load_json_mib_max: |text| parse::count(text, 1, 1 << 20);
    load_error_log_keep = "48h",
        "How long the reasons of rejected rows can be read at the ErrorURL of their load.",
        load_error_log_keep: parse::duration;
    load_error_log_bytes_max = "200MiB",
        "Bytes of all of them at most; the oldest go first.",
        load_error_log_bytes_max: parse::size;
    label_keep = "3d",
        "How long the labels of INSERT and of transactions are remembered, while the server runs.",
        label_keep: parse::duration;
    label_keep_streaming = "12h",
        "How long the labels of stream loads are remembered, while the server runs.",
        label_keep_streaming: parse::duration;
    labels_max = "200000",
        "Labels of a database that are remembered at most, with some 300 bytes of memory each. \
         None is forgotten before its time: above it new labels are refused (1041).",
        labels_max: |text| parse::count(text, 1, 1_000_000);
    labels_running_max = "1000",
        "Loads with labels that may run at once in a database.",
        labels_running_max: |text| parse::count(text, 1, 1_000_000);
    io_threads = "0",
        "Threads that serve sockets; 0 means one for each core.",
        io_threads: |text| parse::count(text, 0, THREADS_MAX);
    query_threads = "0",
        "Threads that run queries; 0 means one for each core.",
        query_threads: |text| parse::count(text, 0, THREADS_MAX);
    plan_threads = "0",
        "Threads that plan large statements, behind all others; 0 means one for each core.",
        plan_threads: |text| parse::count(text, 0, THREADS_MAX);
    job_threads = "0",
        "Threads that flush, and as many for what is waited for; 0 means cores and one.",
        job_threads: |text| parse::count(text, 0, THREADS_MAX);
    max_connections = "4096",
        "Connections of the MySQL protocol at most.",
        connections_max: |text| parse::count(text, 1, 100_000);
    max_user_connections = "",
        "Connections of the MySQL protocol of one account at most (1203), 0 for any number; empty \
         means three quarters of `max_connections`. Accounts with SUPER have more, and four places \
         above `max_connections`.",
        user_connections_max: |text| parse::optional_count(text, 0, 100_000);
    max_address_connections = "",
        "Connections from one address (of IPv6: one network of 64 bits) at most, for each of the \
         two protocols; empty means three quarters of all.",
        address_connections_max: |text| parse::optional_count(text, 1, 100_000);
    connect_timeout = "10s",
        "How long a login of the MySQL protocol may take.",
        connect_timeout: parse::duration;
    http_max_connections = "4096",
        "Connections of HTTP at most; one account has three quarters of them. Who comes in when \
         all are taken replaces the oldest one that has not shown who it is.",
        http_connections_max: |text| parse::count(text, 1, 100_000);
    http_header_timeout = "10s",
        "How long the head of a request may take, and how long a client may be silent before it \
         has shown who it is; up to twice this.",
        http_header_timeout: parse::duration;
    stream_loads_max = "1024",
        "Stream loads at the same time.",
        loads_max: |text| parse::count(text, 1, 100_000);
    account_stream_loads_max = "",
        "Stream loads of one account at the same time; empty means half of `stream_loads_max`.",
        account_loads_max: |text| parse::optional_count(text, 1, 100_000);
    max_allowed_packet = "64MiB",
        "Size of a packet of the MySQL protocol at most.",
        packet_bytes_max: |text| parse::size_within(text, ByteSize::kib(16), ByteSize::gib(1));
    version = "8.0.36",
        "The version that MySQL clients are told; they choose statements by it.",
        version: parse::text;
    drain_timeout = "30s",
        "How long a stop waits for what is in flight.",
        drain_timeout: parse::duration;
    log_level = "warn",
        "What is logged: `error`, `warn`, `info`, `debug`, `trace`, or `target=level` with commas \
         between.",
        log_level: parse::text;
    failpoints = "",
        "Places where the server is made to fail; for tests of the server.",
        failpoints: |text| Failpoints::parse(text).map(|_| text.to_owned());
}
