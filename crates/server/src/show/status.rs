//! SHOW STATUS.

use std::sync::Arc;

use freshet_query::parser::CommandKind;
use freshet_wire::Capabilities;

use super::listing::{Listing, instant};
use crate::Shared;
use crate::process::{Activity, Process};
use crate::session::Client;

/// The labels of the counters of statements.
const STATEMENT_KINDS: [&str; 7] =
    ["query", "insert", "change", "show", "set", "transaction", "other"];

/// The statements that were begun.
pub fn questions(shared: &Shared) -> u64 {
    let statements = &shared.metrics().statements;
    STATEMENT_KINDS.iter().map(|kind| statements.with_label_values(&[kind]).get()).sum()
}

/// All of them by name, as this client may see them.
pub fn rows(shared: &Shared, connection: &Client) -> Listing {
    let own = own(shared).into_iter().chain(of_clients(shared)).chain(of_client(connection));
    let numbers = own.map(|(name, value)| (name.to_owned(), value));
    let commands = CommandKind::ALL.iter();
    let commands = commands.map(|kind| (format!("Com_{}", kind.name()), shared.counters.of(*kind)));
    let never = NEVER.iter().map(|name| ((*name).to_owned(), "0".to_owned()));
    let mut all = numbers
        .chain(commands.map(|(name, count)| (name, count.to_string())))
        .chain(never)
        .chain(FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
        .collect::<Vec<_>>();
    all.sort();
    let mut listing = Listing::new(&["Variable_name", "Value"]);
    for (name, value) in &all {
        listing.add([name, value]);
    }
    listing
}

/// What the store does.
fn own(shared: &Shared) -> Vec<(&'static str, String)> {
    let (metrics, engine) = (shared.metrics(), &shared.engine);
    let wal = engine.log_stats();
    let horizon = engine.horizon().get().to_string();
    let (rows, syncs) = (metrics.rows.get().to_string(), metrics.wal_syncs.get().to_string());
    vec![
        ("Delta_bytes", metrics.delta_bytes.get().to_string()),
        ("Groups_open", engine.open_groups().to_string()),
        ("Innodb_os_log_fsyncs", syncs.clone()),
        ("Innodb_redo_log_current_lsn", horizon.clone()),
        ("Innodb_rows_inserted", rows.clone()),
        ("Loads", metrics.loads.get().to_string()),
        ("Log_horizon", horizon),
        ("Log_bytes_free", wal.free_bytes.to_string()),
        ("Log_bytes_live", wal.live_bytes.to_string()),
        ("Log_syncs", syncs),
        ("Open_table_definitions", engine.catalog().tables().count().to_string()),
        ("Open_tables", engine.catalog().tables().count().to_string()),
        ("Queries_memory_bytes", shared.query.memory_bytes().to_string()),
        ("Rows_loaded", rows),
        ("Rows_rejected", metrics.rows_rejected.get().to_string()),
        ("Snapshots", engine.views().pins().count().to_string()),
        ("Snapshot_memory_bytes", engine.views().pins().memory().used_bytes().to_string()),
        ("Write_memory_bytes", engine.memory().used_bytes().to_string()),
    ]
}

/// What clients do.
fn of_clients(shared: &Shared) -> Vec<(&'static str, String)> {
    let counters = &shared.counters;
    let uptime = shared.engine.clock().now().saturating_sub(shared.started).as_secs();
    let processes = shared.processes.list();
    let is_running = |process: &&Arc<Process>| process.activity() == Activity::Query;
    let (most, at_seconds) = counters.most_connections();
    let questions = questions(shared).to_string();
    let tls = counters.tls.get().to_string();
    vec![
        ("Aborted_clients", counters.aborted.get().to_string()),
        ("Aborted_connects", counters.refused.get().to_string()),
        ("Bytes_received", counters.received_bytes.get().to_string()),
        ("Bytes_sent", counters.sent_bytes.get().to_string()),
        ("Connection_errors_max_connections", counters.turned_away.get().to_string()),
        ("Connections", counters.connections.get().to_string()),
        ("Max_used_connections", most.to_string()),
        ("Max_used_connections_time", instant(at_seconds as i64 * 1_000_000)),
        ("Performance_schema_digest_lost", shared.digests.lost.get().to_string()),
        ("Queries", questions.clone()),
        ("Questions", questions),
        ("Ssl_accepts", tls.clone()),
        ("Ssl_finished_accepts", tls),
        ("Threads_connected", processes.len().to_string()),
        ("Threads_created", counters.connections.get().to_string()),
        ("Threads_running", processes.iter().filter(is_running).count().to_string()),
        ("Uptime", uptime.to_string()),
        ("Uptime_since_flush_status", uptime.to_string()),
    ]
}

/// What is only of the connection that asks.
fn of_client(connection: &Client) -> Vec<(&'static str, String)> {
    let tls = connection.tls.as_ref();
    let compressed = connection.capabilities.contains(Capabilities::COMPRESS);
    let (on, by) = if compressed { ("ON", "zlib") } else { ("OFF", "") };
    vec![
        ("Compression", on.to_owned()),
        ("Compression_algorithm", by.to_owned()),
        ("Ssl_cipher", tls.map_or_else(String::new, |tls| tls.cipher.clone())),
        ("Ssl_version", tls.map_or_else(String::new, |tls| tls.version.to_owned())),
    ]
}

/// What has a value of its own for what is not here.
const FIXED: &[(&str, &str)] = &[
    ("Innodb_buffer_pool_dump_status", ""),
    ("Innodb_buffer_pool_load_status", ""),
    ("Innodb_buffer_pool_resize_status", ""),
    ("Innodb_page_size", "16384"),
    ("Innodb_redo_log_enabled", "ON"),
    ("Resource_group_supported", "OFF"),
    ("Telemetry_traces_supported", "OFF"),
    ("Tls_library_version", "rustls"),
];

/// What MySQL counts, and monitors read, of what is not here: there are no pages, handlers, stored
/// programs, binary logs and slow logs.
const NEVER: &[&str] = &[
    "Binlog_cache_disk_use",
    "Binlog_cache_use",
    "Binlog_stmt_cache_disk_use",
    "Binlog_stmt_cache_use",
    "Com_alter_event",
    "Com_alter_function",
    "Com_alter_procedure",
    "Com_alter_server",
    "Com_assign_to_keycache",
    "Com_binlog",
    "Com_call_procedure",
    "Com_change_master",
    "Com_change_repl_filter",
    "Com_change_replication_source",
    "Com_clone",
    "Com_create_event",
    "Com_create_function",
    "Com_create_procedure",
    "Com_create_server",
    "Com_create_trigger",
    "Com_create_udf",
    "Com_drop_event",
    "Com_drop_function",
    "Com_drop_procedure",
    "Com_drop_server",
    "Com_drop_trigger",
    "Com_explain_other",
    "Com_ha_close",
    "Com_ha_open",
    "Com_ha_read",
    "Com_install_plugin",
    "Com_preload_keys",
    "Com_resignal",
    "Com_restart",
    "Com_show_engine_logs",
    "Com_shutdown",
    "Com_slave_start",
    "Com_slave_stop",
    "Com_uninstall_plugin",
    "Com_xa_commit",
    "Com_xa_end",
    "Com_xa_prepare",
    "Com_xa_recover",
    "Com_xa_rollback",
    "Com_xa_start",
    "Connection_errors_tcpwrap",
    "Created_tmp_disk_tables",
    "Created_tmp_files",
    "Created_tmp_tables",
    "Delayed_errors",
    "Delayed_insert_threads",
    "Delayed_writes",
    "Handler_commit",
    "Handler_delete",
    "Handler_discover",
    "Handler_external_lock",
    "Handler_mrr_init",
    "Handler_prepare",
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
    "Handler_rollback",
    "Handler_savepoint",
    "Handler_savepoint_rollback",
    "Handler_update",
    "Handler_write",
    "Innodb_buffer_pool_bytes_data",
    "Innodb_buffer_pool_bytes_dirty",
    "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_pages_dirty",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_misc",
    "Innodb_buffer_pool_pages_total",
    "Innodb_buffer_pool_read_ahead",
    "Innodb_buffer_pool_read_ahead_evicted",
    "Innodb_buffer_pool_read_ahead_rnd",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_buffer_pool_write_requests",
    "Innodb_dblwr_pages_written",
    "Innodb_dblwr_writes",
    "Innodb_pages_created",
    "Innodb_pages_read",
    "Innodb_pages_written",
    "Innodb_undo_tablespaces_active",
    "Innodb_undo_tablespaces_total",
    "Key_blocks_not_flushed",
    "Key_blocks_unused",
    "Key_blocks_used",
    "Key_read_requests",
    "Key_reads",
    "Key_write_requests",
    "Key_writes",
    "Not_flushed_delayed_rows",
    "Performance_schema_accounts_lost",
    "Replica_open_temp_tables",
    "Secondary_engine_execution_count",
    "Slave_open_temp_tables",
    "Slow_queries",
    "Ssl_client_connects",
    "Ssl_connect_renegotiates",
    "Ssl_finished_connects",
    "Table_locks_immediate",
    "Table_locks_waited",
    "Tc_log_max_pages_used",
    "Tc_log_page_size",
    "Tc_log_page_waits",
    "Threads_cached",
];
