//! Variables: what clients read of InnoDB.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    global("innodb_adaptive_hash_index", Kind::Bool, "0", NO_EFFECT),
    fixed(
        "innodb_autoinc_lock_mode",
        Kind::Int { min: 0, max: 2 },
        "2",
        "Generated ids are not held for a whole statement.",
    ),
    fixed("innodb_buffer_pool_instances", Kind::Int { min: 1, max: 64 }, "1", NO_EFFECT),
    global(
        "innodb_buffer_pool_size",
        Kind::Int { min: 5242880, max: i64::MAX },
        "134217728",
        "Accepted: memory is in the settings.",
    ),
    global("innodb_deadlock_detect", Kind::Bool, "1", NO_EFFECT),
    global(
        "innodb_default_row_format",
        Kind::OneOf(&["redundant", "compact", "dynamic"]),
        "dynamic",
        NO_EFFECT,
    ),
    global("innodb_file_per_table", Kind::Bool, "1", NO_EFFECT),
    global(
        "innodb_flush_log_at_trx_commit",
        Kind::Int { min: 0, max: 2 },
        "1",
        "Accepted: each commit is durable.",
    ),
    fixed("innodb_flush_method", Kind::Text, "fsync", "Each commit is durable."),
    global("innodb_io_capacity", Kind::Int { min: 100, max: i64::MAX }, "200", NO_EFFECT),
    global(
        "innodb_log_buffer_size",
        Kind::Int { min: 262144, max: 4294967295 },
        "16777216",
        NO_EFFECT,
    ),
    fixed("innodb_log_file_size", Kind::Int { min: 0, max: i64::MAX }, "50331648", NO_EFFECT),
    fixed("innodb_page_size", Kind::Int { min: 0, max: 65536 }, "16384", NO_EFFECT),
    global("innodb_print_all_deadlocks", Kind::Bool, "0", NO_EFFECT),
    fixed("innodb_read_io_threads", Kind::Int { min: 1, max: 64 }, "4", NO_EFFECT),
    fixed("innodb_read_only", Kind::Bool, "0", NO_EFFECT),
    fixed(
        "innodb_rollback_on_timeout",
        Kind::Bool,
        "0",
        "A statement that waited too long undoes itself alone.",
    ),
    global("innodb_stats_on_metadata", Kind::Bool, "0", NO_EFFECT),
    global("innodb_stats_persistent", Kind::Bool, "1", NO_EFFECT),
    both("innodb_strict_mode", Kind::Bool, "1", NO_EFFECT),
    both("innodb_table_locks", Kind::Bool, "1", NO_EFFECT),
    global("innodb_thread_concurrency", Kind::Int { min: 0, max: 1000 }, "0", NO_EFFECT),
    fixed("innodb_version", Kind::Text, "", "That of the server."),
    fixed("innodb_write_io_threads", Kind::Int { min: 1, max: 64 }, "4", NO_EFFECT),
];
