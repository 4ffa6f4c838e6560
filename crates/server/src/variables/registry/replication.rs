//! Variables: replication, of which there is none.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    global("binlog_checksum", Kind::OneOf(&["NONE", "CRC32"]), "CRC32", "There is no binary log."),
    global(
        "binlog_expire_logs_seconds",
        Kind::Int { min: 0, max: 4294967295 },
        "2592000",
        "There is no binary log.",
    ),
    both(
        "binlog_format",
        Kind::OneOf(&["MIXED", "STATEMENT", "ROW"]),
        "ROW",
        "There is no binary log.",
    ),
    both(
        "binlog_row_image",
        Kind::OneOf(&["MINIMAL", "NOBLOB", "FULL"]),
        "FULL",
        "There is no binary log.",
    ),
    both("binlog_rows_query_log_events", Kind::Bool, "0", "There is no binary log."),
    fixed(
        "enforce_gtid_consistency",
        Kind::OneOf(&["OFF", "ON", "WARN"]),
        "OFF",
        "There is no binary log.",
    ),
    fixed("gtid_executed", Kind::Text, "", "There is no binary log."),
    fixed(
        "gtid_mode",
        Kind::OneOf(&["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]),
        "OFF",
        "There is no binary log.",
    ),
    both("gtid_next", Kind::OneOf(&["AUTOMATIC"]), "AUTOMATIC", "There is no binary log."),
    global("gtid_purged", Kind::Text, "", "Accepted, as dumps have it: there is no binary log."),
    fixed("log_bin", Kind::Bool, "0", "There is no binary log."),
    global("log_bin_trust_function_creators", Kind::Bool, "0", "There is no binary log."),
    fixed("log_replica_updates", Kind::Bool, "0", "There is no binary log."),
    fixed("log_slave_updates", Kind::Bool, "0", "There is no binary log."),
    global(
        "max_binlog_size",
        Kind::Int { min: 4096, max: 1073741824 },
        "1073741824",
        "There is no binary log.",
    ),
    fixed("relay_log", Kind::Text, "", "There is no replication."),
    fixed("server_id", Kind::Int { min: 0, max: 4294967295 }, "1", "The id of the server."),
    fixed(
        "server_uuid",
        Kind::Text,
        "",
        "A UUID made of `datadir` and `port`: the same after each start.",
    ),
    both("sql_log_bin", Kind::Bool, "1", NO_EFFECT),
    global(
        "sync_binlog",
        Kind::Int { min: 0, max: 4294967295 },
        "1",
        "There is no binary log; each commit is durable.",
    ),
];
