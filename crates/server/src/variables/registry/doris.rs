//! Variables: what clients of Doris set.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both};

pub const ALL: &[Variable] = &[
    both("batch_size", Kind::Int { min: 1, max: 65535 }, "4064", NO_EFFECT),
    both("delete_without_partition", Kind::Flag, "1", NO_EFFECT),
    both("enable_fallback_to_original_planner", Kind::Flag, "1", NO_EFFECT),
    both("enable_memtable_on_sink_node", Kind::Flag, "1", NO_EFFECT),
    both("enable_nereids_dml", Kind::Flag, "1", NO_EFFECT),
    both("enable_nereids_planner", Kind::Flag, "1", NO_EFFECT),
    both("enable_pipeline_engine", Kind::Flag, "1", NO_EFFECT),
    both(
        "enable_prepared_stmt_audit_log",
        Kind::Flag,
        "0",
        "Whether prepared inserts are logged, if `log_level` includes `audit=info`.",
    ),
    both("enable_profile", Kind::Flag, "0", NO_EFFECT),
    both(
        "enable_server_side_prepared_statement",
        Kind::Flag,
        "1",
        "Accepted: statements are always prepared by the server.",
    ),
    both("enable_sql_cache", Kind::Flag, "0", NO_EFFECT),
    both("enable_strict_consistency_dml", Kind::Flag, "1", NO_EFFECT),
    both("enable_vectorized_engine", Kind::Flag, "1", NO_EFFECT),
    both(
        "exec_mem_limit",
        Kind::Int { min: 0, max: i64::MAX },
        "2147483648",
        "Accepted: memory is shared by all queries.",
    ),
    both("experimental_enable_single_replica_insert", Kind::Flag, "0", NO_EFFECT),
    both("forward_to_master", Kind::Flag, "1", NO_EFFECT),
    both(
        "parallel_fragment_exec_instance_num",
        Kind::Int { min: 0, max: 1024 },
        "0",
        "As `parallel_pipeline_task_num`; the smaller one counts.",
    ),
    both(
        "parallel_pipeline_task_num",
        Kind::Int { min: 0, max: 1024 },
        "0",
        "The parallel parts of a query; 0, and at most, as many as there are query threads.",
    ),
    both(
        "show_hidden_columns",
        Kind::Flag,
        "0",
        "Whether DESC and queries show the hidden columns of tables with a sequence column.",
    ),
    both(
        "workload_group",
        Kind::Text,
        "",
        "The workload group of the session's queries; empty means that of its account.",
    ),
];
