//! Variables: transactions and locks.

use super::super::kind::{Kind, Variable};
use super::{NO_EFFECT, both, fixed};

pub const ALL: &[Variable] = &[
    both("autocommit", Kind::Bool, "1", "Whether each statement is a transaction of its own."),
    both(
        "completion_type",
        Kind::OneOf(&["NO_CHAIN"]),
        "NO_CHAIN",
        "What follows COMMIT and ROLLBACK: nothing.",
    ),
    both("foreign_key_checks", Kind::Bool, "1", NO_EFFECT),
    both(
        "innodb_lock_wait_timeout",
        Kind::Int { min: 1, max: 1073741824 },
        "50",
        "How long a statement waits for rows that another transaction holds, in seconds.",
    ),
    both("lock_wait_timeout", Kind::Int { min: 1, max: 31536000 }, "31536000", NO_EFFECT),
    fixed("offline_mode", Kind::Bool, "0", "Whether only administrators may connect."),
    both(
        "read_freshness",
        Kind::OneOf(&["committed", "published"]),
        "committed",
        "What a SELECT sees: every acknowledged row, or only rows of committed groups.",
    ),
    fixed("read_only", Kind::Bool, "0", "Whether the server refuses writes."),
    fixed(
        "super_read_only",
        Kind::Bool,
        "0",
        "Whether the server refuses writes of administrators.",
    ),
    both(
        "transaction_isolation",
        Kind::OneOf(&["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]),
        "READ-COMMITTED",
        "READ-COMMITTED, or REPEATABLE-READ: one snapshot per transaction.",
    ),
    both("transaction_read_only", Kind::Bool, "0", "Whether transactions are read-only."),
    both("unique_checks", Kind::Bool, "1", NO_EFFECT),
];
