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
        "The address of the MySQL protocol.",
        mysql_listen: parse::address;
    http_listen = "127.0.0.1:8030",
        "The address of stream loads, health and metrics.",
        http_listen: parse::address;
    group_commit_wal_path = "",
        "Directories of log files, absolute, with `;` between them; empty means `wal` in the data \
         directory. Each new file goes to the directory with the most free space. A directory \
         belongs to one store. The directories may change at any start; existing files are still \
         read from the old ones.",
        wal_dirs: parse::directories;
    group_commit_wal_max_disk_limit = "",
        "How much of the disk of each directory of log files they may fill, as a size or a \
         percentage of what is free or theirs when the server starts; empty means no limit but \
         `wal_bytes_max`. It is at least four files.",
        wal_disk_limit: parse::optional_memory;
    group_commit_memory_rows_for_max_filter_ratio = "10000",
        "Accepted: `max_filter_ratio` counts however many rows a load has.",
        filter_ratio_rows: |text| parse::count(text, 0, usize::MAX);
    wal_file_bytes = "64MiB",
        "Size of one log file; a record is at most a quarter of it. It may change at any \
         start: existing files are read, and deleted once their records are flushed.",
        wal_file_bytes: |text| parse::size_within(text, ByteSize::mib(1), ByteSize::gib(1));
    wal_bytes_max = "4GiB",
        "Size of all log files; it also bounds the recovery time.",
        wal_bytes_max: parse::size;
    wal_load_bytes_max = "16MiB",
        "Larger loads write their rows to files directly, with one small log record; so do loads \
         that exceed a quarter of a log file.",
        wal_load_bytes_max: |text| parse::size_within(text, ByteSize::kib(64), ByteSize::mib(256));
    write_memory = "40%",
        "Memory of all writes, as a size or a percentage of the memory that the process may use: \
         receive buffers, open transactions, rows not yet in files, flushes, replay.",
        write_memory: parse::memory;
    query_memory = "40%",
        "Memory of all queries; queries that need more spill to disk.",
        query_memory: parse::memory;
    snapshot_memory = "7%",
        "Memory of flushed rows that only open snapshots keep alive: those of REPEATABLE READ \
         transactions and of long queries. Above it the oldest snapshot is closed (`snapshot too \
         old`).",
        snapshot_memory: parse::memory;
    footer_memory = "2%",
        "Memory of segment footers, which say what each part of a file contains and are read when \
         first needed. Above it the least recently used are dropped.",
        footer_memory: parse::memory;
    key_memory = "3%",
        "Memory of the filters of keys in files, which say where a key may be, and for a quarter \
         of blocks of keys that are read often. What does not fit is read when it is needed.",
        key_memory: parse::memory;
    client_memory = "5%",
        "Memory of session state kept between commands: prepared statements, parameters sent in \
         pieces, rows of cursors, user variables.",
        client_memory: parse::memory;
    account_memory = "",
        "Session memory of one account; empty means three quarters of `client_memory`.",
        account_memory: parse::optional_size;
    account_receive_memory = "",
        "Memory of incomplete requests of one account, a part of `write_memory`; empty means half \
         of it.",
        account_receive_memory: parse::optional_size;
    spill_dir = "",
        "The directory for spill files of queries; empty means `spill` in the data directory.",
        spill_dir: parse::optional_path;
    secure_file_priv = "",
        "The directory of files that LOAD DATA INFILE and SELECT ... INTO OUTFILE read and write \
         on the server; empty: they are refused.",
        secure_file_priv: parse::optional_path;
    flush_bytes = "64MiB",
        "The size of a table's rows in memory at which they are flushed to files.",
        flush_bytes: parse::size;
    flush_bytes_min = "1MiB",
        "A table with fewer bytes does not keep a log file alive: its rows go to the side file.",
        flush_bytes_min: parse::size;
    transaction_bytes_max = "",
        "How many bytes of a transaction's rows are in memory; more go to a file, and changes of \
         stored rows are refused. Empty means a quarter of `write_memory`.",
        transaction_bytes_max: parse::optional_size;
    transaction_file_bytes_max = "64GiB",
        "How many bytes of a transaction's rows may be in files; a statement with more is refused, \
         and the transaction goes on.",
        transaction_file_bytes_max: parse::size;
    transactions_memory = "",
        "The maximum size of the rows of all open transactions, as a size or a percentage of the \
         memory that the process may use; empty means half of `write_memory`. Statements that \
         need more wait for `load_patience` and are then refused, so that idle transactions \
         leave memory to other writers.",
        transactions_memory: parse::optional_memory;
    load_patience = "30s",
        "How long a load waits for memory, log space, and look-ups of the keys of earlier rows \
         before it is refused.",
        load_patience: parse::duration;
    compaction = "true",
        "Whether small rowsets are merged in the background.",
        compaction: parse::switch;
    orphan_grace = "10m",
        "How long unreferenced files are kept.",
        orphan_grace: parse::duration;
    streaming_load_max_mb = "10240",
        "The largest body of a stream load, in MiB.",
        streaming_load_mib_max: |text| parse::count(text, 1, 1 << 30);
    streaming_load_json_max_mb = "100",
        "The same for JSON that is not read by line; with `json_root` it is held in memory.",
        streaming_load_json_mib_max: |text| parse::count(text, 1, 1 << 20);
    stream_load_default_precommit_timeout_second = "3600",
        "After how many seconds a load of two phases is aborted that nobody has committed, unless \
         its header `timeout` says it.",
        precommit_seconds: |text| parse::count(text, 1, 259_200);
    load_error_log_keep = "48h",
        "How long the reasons of rejected rows are available at the ErrorURL of their load.",
        load_error_log_keep: parse::duration;
    load_error_log_bytes_max = "200MiB",
        "The maximum size of all of them; the oldest are deleted first.",
        load_error_log_bytes_max: parse::size;
    recycle_bin_keep = "1d",
        "How long a table or database that was dropped without FORCE can be recovered; 0 keeps \
         none. While the disk is full none is kept.",
        recycle_bin_keep: parse::duration;
    deleted_rows_keep = "1d",
        "How long a row that deletes is kept at least in a table with a sequence column, so that \
         an older row does not bring its key back; 0 keeps it until TRUNCATE.",
        deleted_rows_keep: parse::duration;
    label_keep = "3d",
        "How long the labels of INSERT and of transactions are remembered, while the server runs.",
        label_keep: parse::duration;
    label_keep_streaming = "12h",
        "How long the labels of stream loads are remembered, while the server runs.",
        label_keep_streaming: parse::duration;
    labels_max = "200000",
        "The maximum number of remembered labels per database, of about 300 bytes each. Labels \
         are not forgotten early: at the limit new ones are refused (1041).",
        labels_max: |text| parse::count(text, 1, 1_000_000);
    labels_running_max = "1000",
        "The maximum number of concurrent labelled loads per database.",
        labels_running_max: |text| parse::count(text, 1, 1_000_000);
    io_threads = "0",
        "Threads that serve sockets; 0 means one for each core.",
        io_threads: |text| parse::count(text, 0, THREADS_MAX);
    query_threads = "0",
        "Threads that run queries; 0 means one for each core.",
        query_threads: |text| parse::count(text, 0, THREADS_MAX);
    plan_threads = "0",
        "Threads that plan large statements, at low priority; 0 means one for each core.",
        plan_threads: |text| parse::count(text, 0, THREADS_MAX);
    job_threads = "0",
        "Threads that flush, and as many for foreground jobs; 0 means one more than cores.",
        job_threads: |text| parse::count(text, 0, THREADS_MAX);
    max_connections = "4096",
        "The maximum number of connections of the MySQL protocol.",
        connections_max: |text| parse::count(text, 1, 100_000);
    max_user_connections = "",
        "The maximum number of connections of the MySQL protocol per account (1203), 0 for no \
         limit; empty means three quarters of `max_connections`. Accounts with SUPER are exempt, \
         and have four slots above `max_connections`.",
        user_connections_max: |text| parse::optional_count(text, 0, 100_000);
    max_address_connections = "",
        "The maximum number of connections per address (for IPv6, per /64 network) and protocol; \
         empty means three quarters of all.",
        address_connections_max: |text| parse::optional_count(text, 1, 100_000);
    connect_timeout = "10s",
        "The timeout of a login with the MySQL protocol.",
        connect_timeout: parse::duration;
    http_max_connections = "4096",
        "The maximum number of HTTP connections, of which one account may have three quarters. At \
         the limit a new connection evicts the oldest unauthenticated one.",
        http_connections_max: |text| parse::count(text, 1, 100_000);
    http_header_timeout = "10s",
        "The timeout of a request's head, and the idle timeout of unauthenticated clients; \
         enforced between once and twice this time.",
        http_header_timeout: parse::duration;
    stream_loads_max = "1024",
        "The maximum number of concurrent stream loads.",
        loads_max: |text| parse::count(text, 1, 100_000);
    account_stream_loads_max = "",
        "The maximum number of concurrent stream loads per account; empty means half of all.",
        account_loads_max: |text| parse::optional_count(text, 1, 100_000);
    max_allowed_packet = "64MiB",
        "The largest packet of the MySQL protocol.",
        packet_bytes_max: |text| parse::size_within(text, ByteSize::kib(16), ByteSize::gib(1));
    version = "8.0.36",
        "The version that MySQL clients see; some choose statements by it.",
        version: parse::text;
    collation_server = "utf8mb4_0900_ai_ci",
        "The collation of new databases that name none, and so of their tables in the syntax of \
         MySQL: the value that the variable of this name has when the server starts. \
         `utf8mb4_bin` compares texts by bytes.",
        collation_server: parse::collation;
    drain_timeout = "30s",
        "How long a shutdown waits for running requests.",
        drain_timeout: parse::duration;
    tls = "true",
        "Whether clients of both protocols may encrypt their connection, each on its own port.",
        tls: parse::switch;
    tls_cert_file = "",
        "The certificate chain of the server, in PEM; read again at SIGHUP and `ALTER INSTANCE \
         RELOAD TLS`. Empty means that a certificate, its key, and the authority that signed it \
         (for clients to trust) are generated in `tls` in the data directory.",
        tls_cert_file: parse::optional_path;
    tls_key_file = "",
        "The private key of `tls_cert_file`, in PEM.",
        tls_key_file: parse::optional_path;
    tls_ca_file = "",
        "The authorities that certificates of clients must come from, in PEM; for accounts with \
         `REQUIRE X509`. Empty means that clients are not asked for one.",
        tls_ca_file: parse::optional_path;
    require_secure_transport = "false",
        "Whether connections that are not encrypted are refused (3159), those of this machine too; \
         a global variable as well.",
        require_secure_transport: parse::switch;
    password_policy = "none",
        "What new passwords of accounts must be: `none`, anything; `low`, eight characters; \
         `medium`, with letters of both cases, a digit and a special character among them (1819). \
         It is the global variable `validate_password.policy`; others beside it have the numbers.",
        password_policy: parse::password_policy;
    log_level = "warn",
        "The log level: `error`, `warn`, `info`, `debug`, `trace`, or `target=level`, separated by \
         commas.",
        log_level: parse::text;
    failpoints = "",
        "Failpoints, for tests of the server.",
        failpoints: |text| Failpoints::parse(text).map(|_| text.to_owned());
}
