//! Variables: queries and how they are parsed.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, global};

pub const ALL: &[Variable] = &[
    both("big_tables", Kind::Bool, "0", NO_EFFECT),
    both(
        "block_encryption_mode",
        Kind::OneOf(&[
            "aes-128-ecb",
            "aes-192-ecb",
            "aes-256-ecb",
            "aes-128-cbc",
            "aes-192-cbc",
            "aes-256-cbc",
        ]),
        "aes-128-ecb",
        "The mode of AES_ENCRYPT and AES_DECRYPT.",
    ),
    both(
        "cte_max_recursion_depth",
        Kind::Int { min: 0, max: 4294967295 },
        "1000",
        "The maximum number of iterations of a recursive CTE.",
    ),
    both(
        "default_week_format",
        Kind::Int { min: 0, max: 7 },
        "0",
        "The mode of WEEK without a second argument.",
    ),
    both(
        "div_precision_increment",
        Kind::Only(4),
        "4",
        "The fraction digits that a division adds; no others.",
    ),
    both("end_markers_in_json", Kind::Bool, "0", NO_EFFECT),
    both("eq_range_index_dive_limit", Kind::Int { min: 0, max: 4294967295 }, "200", NO_EFFECT),
    both(
        "group_concat_max_len",
        Kind::Int { min: 4, max: i64::MAX },
        "1048576",
        "The maximum bytes of a GROUP_CONCAT; longer results are truncated with a warning.",
    ),
    both("long_query_time", Kind::Seconds, "10", "Accepted: there is no log of slow queries."),
    both(
        "max_error_count",
        Kind::Int { min: 0, max: 1024 },
        "1024",
        "The warnings and errors of a statement that SHOW WARNINGS lists; all are counted.",
    ),
    both(
        "max_execution_time",
        Kind::Int { min: 0, max: i64::MAX },
        "0",
        "The timeout of a SELECT in milliseconds; 0 means `query_timeout`.",
    ),
    global(
        "max_expression_depth",
        Kind::Int { min: 16, max: 2000 },
        "350",
        "The maximum nesting depth of expressions; AND, OR and XOR do not count.",
    ),
    global(
        "max_function_arguments",
        Kind::Int { min: 16, max: 1000000 },
        "4096",
        "The maximum number of arguments of a function call.",
    ),
    global(
        "max_join_tables",
        Kind::Int { min: 2, max: 1000 },
        "61",
        "The maximum number of tables of a FROM.",
    ),
    global(
        "max_select_columns",
        Kind::Int { min: 16, max: 65535 },
        "4096",
        "The maximum number of items of a SELECT.",
    ),
    both(
        "max_sort_length",
        Kind::Int { min: 4, max: 8388608 },
        "1024",
        "Accepted: all bytes count.",
    ),
    global(
        "max_statement_tables",
        Kind::Int { min: 2, max: 100000 },
        "500",
        "The maximum number of tables and selects of a query; a common table expression counts \
         as often as it is read. Also of the tables that a query reads by its views.",
    ),
    global(
        "max_statement_terms",
        Kind::Int { min: 100, max: 10000000 },
        "20000",
        "The maximum number of expressions of a query, without literals; a common table \
         expression counts as often as it is read.",
    ),
    global(
        "max_statement_tokens",
        Kind::Int { min: 1000, max: 1000000000 },
        "5000000",
        "The maximum number of tokens of a text; INSERT of literals is exempt.",
    ),
    both("optimizer_prune_level", Kind::Int { min: 0, max: 1 }, "1", NO_EFFECT),
    both("optimizer_search_depth", Kind::Int { min: 0, max: 62 }, "62", NO_EFFECT),
    both(
        "optimizer_switch",
        Kind::Text,
        "index_merge=on,derived_merge=on,materialization=on,semijoin=on",
        NO_EFFECT,
    ),
    both("optimizer_trace", Kind::Text, "enabled=off,one_line=off", NO_EFFECT),
    both("profiling", Kind::Bool, "0", NO_EFFECT),
    both("profiling_history_size", Kind::Int { min: 0, max: 100 }, "15", NO_EFFECT),
    global(
        "query_cache_size",
        Kind::Int { min: 0, max: i64::MAX },
        "0",
        "There is no query cache.",
    ),
    both(
        "query_cache_type",
        Kind::OneOf(&["OFF", "ON", "DEMAND"]),
        "OFF",
        "There is no query cache.",
    ),
    both(
        "query_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "900",
        "The timeout of a query in seconds.",
    ),
    both("range_optimizer_max_mem_size", Kind::Int { min: 0, max: i64::MAX }, "8388608", NO_EFFECT),
    both("sql_auto_is_null", Kind::Bool, "0", NO_EFFECT),
    both("sql_big_selects", Kind::Bool, "1", NO_EFFECT),
    both("sql_buffer_result", Kind::Bool, "0", NO_EFFECT),
    both(
        "sql_mode",
        Kind::SqlMode,
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
         ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
        "How statements are parsed and values are stored.",
    ),
    both("sql_notes", Kind::Bool, "1", "Whether statements have notes; warnings they have anyhow."),
    both("sql_quote_show_create", Kind::Bool, "1", "Accepted: names are quoted."),
    both(
        "sql_safe_updates",
        Kind::Bool,
        "0",
        "UPDATE and DELETE without LIMIT have to name a key in their WHERE (1175).",
    ),
    both(
        "sql_select_limit",
        Kind::Int { min: 0, max: i64::MAX },
        "9223372036854775807",
        "The maximum number of rows of a SELECT without LIMIT.",
    ),
    both("sql_warnings", Kind::Bool, "0", NO_EFFECT),
    both(
        "time_zone",
        Kind::Zone,
        "SYSTEM",
        "The time zone in which TIMESTAMP values are read and shown.",
    ),
    both(
        "updatable_views_with_limit",
        Kind::OneOf(&["NO", "YES"]),
        "YES",
        "Accepted: a view without the key of its table is changed through, too.",
    ),
    both("use_secondary_engine", Kind::OneOf(&["OFF", "ON", "FORCED"]), "ON", NO_EFFECT),
    both("windowing_use_high_precision", Kind::Bool, "1", NO_EFFECT),
];
