//! Variables: INSERT, loads and the definition of tables.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed, global};

pub const ALL: &[Variable] = &[
    both(
        "auto_increment_increment",
        Kind::Int { min: 1, max: 65535 },
        "1",
        "The distance of generated ids of a statement.",
    ),
    both(
        "auto_increment_offset",
        Kind::Int { min: 1, max: 65535 },
        "1",
        "Generated ids are this plus multiples of auto_increment_increment.",
    ),
    both(
        "batch_insert_chunk_size",
        Kind::Int { min: 1, max: 1000000 },
        "200",
        "The rows of a piece, where `batch_insert_policy` reads an INSERT in pieces; another name \
         is `batch_insert_chunk_size_default`.",
    ),
    both(
        "batch_insert_policy",
        Kind::NameOf(&["SPLIT", "NONE"]),
        "SPLIT",
        "SPLIT reads a large INSERT of literals in pieces, between which its thread serves other \
         connections; NONE reads it in one go. It is one atomic statement either way.",
    ),
    both(
        "default_storage_engine",
        Kind::Text,
        "InnoDB",
        "Without effect: what a table is follows from what its CREATE TABLE says.",
    ),
    both("default_tmp_storage_engine", Kind::Text, "InnoDB", NO_EFFECT),
    both(
        "enable_insert_strict",
        Kind::Flag,
        "1",
        "Whether an invalid value fails an INSERT into an OLAP table; else it becomes NULL or is \
         truncated, and a row for which neither is possible is filtered out.",
    ),
    both(
        "enable_unique_key_partial_update",
        Kind::Flag,
        "0",
        "With it, an INSERT of some columns into a UNIQUE KEY table keeps the others as stored.",
    ),
    both(
        "explicit_defaults_for_timestamp",
        Kind::Bool,
        "1",
        "Accepted: TIMESTAMP columns have no default of their own.",
    ),
    both(
        "group_commit",
        Kind::NameOf(&["off_mode", "sync_mode", "async_mode"]),
        "off_mode",
        "Which loads share a label, a transaction and a version; unless a session sets it, the \
         property `group_commit_mode` of a table counts before `off_mode`.",
    ),
    both(
        "group_commit_labels",
        Kind::Flag,
        "0",
        "Whether an INSERT of literals WITH LABEL may share a group, with its own label.",
    ),
    both(
        "information_schema_stats_expiry",
        Kind::Int { min: 0, max: 31536000 },
        "86400",
        "Accepted: statistics are computed when they are read.",
    ),
    both(
        "insert_max_filter_ratio",
        Kind::Ratio,
        "1",
        "The fraction of an INSERT's rows that may be filtered out when it is not strict.",
    ),
    both(
        "insert_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "14400",
        "The timeout of an INSERT in seconds.",
    ),
    both(
        "insert_visible_timeout_ms",
        Kind::Int { min: 0, max: i64::MAX },
        "60000",
        "Accepted: rows are visible when the reply is sent.",
    ),
    global("local_infile", Kind::Bool, "1", "Whether LOAD DATA LOCAL works."),
    both("low_priority_updates", Kind::Bool, "0", NO_EFFECT),
    both(
        "max_batch_insert_sql_length",
        Kind::Int { min: 0, max: 1048576 },
        "256",
        "The length in KiB from which `batch_insert_policy` reads an INSERT in pieces.",
    ),
    both("old_alter_table", Kind::Bool, "0", NO_EFFECT),
    both(
        "partial_update_new_key_behavior",
        Kind::OneOf(&["APPEND", "ERROR"]),
        "APPEND",
        "What an INSERT by `enable_unique_key_partial_update` does with a new key: a row with \
         defaults, or it fails.",
    ),
    fixed(
        "secure_file_priv",
        Kind::Text,
        "",
        "The directory of LOAD DATA INFILE and INTO OUTFILE, which a setting names; NULL: none.",
    ),
    both("show_create_table_verbosity", Kind::Bool, "0", NO_EFFECT),
    both("show_old_temporals", Kind::Bool, "0", NO_EFFECT),
    both(
        "sql_generate_invisible_primary_key",
        Kind::Off,
        "0",
        "Off: tables have the keys that they are created with.",
    ),
    both("sql_require_primary_key", Kind::Off, "0", "Off: tables need no primary key."),
];
