//! The registry of system variables.

use super::kind::{Kind, Reach, Variable};

const fn both(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Both, read_only: false, default, about }
}

const fn begin(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Begin, read_only: false, default, about }
}

const fn global(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Global, read_only: false, default, about }
}

const fn fixed(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Variable {
    Variable { name, kind, reach: Reach::Global, read_only: true, default, about }
}

/// All variables, ordered by name.
pub const ALL: &[Variable] = &[
    global(
        "activate_all_roles_on_login",
        Kind::Bool,
        "0",
        "Whether a login makes all roles of the account active, and not only its default roles.",
    ),
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
    both("autocommit", Kind::Bool, "1", "Whether each statement is a transaction of its own."),
    global("automatic_sp_privileges", Kind::Bool, "1", "Accepted; there are no stored programs."),
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
    both("big_tables", Kind::Bool, "0", "Accepted, without effect."),
    both(
        "character_set_client",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of statements.",
    ),
    both(
        "character_set_connection",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of literals.",
    ),
    both(
        "character_set_database",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of the current database.",
    ),
    both(
        "character_set_filesystem",
        Kind::Charset { nullable: false },
        "binary",
        "The character set of file names.",
    ),
    both(
        "character_set_results",
        Kind::Charset { nullable: true },
        "utf8mb4",
        "The character set of results; always UTF-8.",
    ),
    both(
        "character_set_server",
        Kind::Charset { nullable: false },
        "utf8mb4",
        "The character set of new databases.",
    ),
    fixed("character_set_system", Kind::Text, "utf8mb3", "The character set of identifiers."),
    both(
        "collation_connection",
        Kind::Collation,
        "utf8mb4_0900_ai_ci",
        "The collation of literals.",
    ),
    both(
        "collation_database",
        Kind::Collation,
        "utf8mb4_0900_ai_ci",
        "The collation of the current database, set by USE.",
    ),
    both("collation_server", Kind::Collation, "utf8mb4_0900_ai_ci", "That of new databases."),
    global(
        "connect_timeout",
        Kind::Int { min: 2, max: 31536000 },
        "10",
        "The timeout of a login in seconds.",
    ),
    global(
        "connection_control_failed_connections_threshold",
        Kind::Int { min: 0, max: 2147483647 },
        "3",
        "Failed logins in a row, per user name and address, after which further ones are delayed; \
         ten times as many per address. 0 switches delays off.",
    ),
    global(
        "connection_control_max_connection_delay",
        Kind::Int { min: 1000, max: 2147483647 },
        "5000",
        "The maximum delay of a login in milliseconds; limited to half of `connect_timeout`.",
    ),
    global(
        "connection_control_min_connection_delay",
        Kind::Int { min: 1000, max: 2147483647 },
        "1000",
        "The minimum delay of a delayed login in milliseconds.",
    ),
    both(
        "cte_max_recursion_depth",
        Kind::Int { min: 0, max: 4294967295 },
        "1000",
        "The maximum number of iterations of a recursive CTE.",
    ),
    both(
        "default_storage_engine",
        Kind::Text,
        "OLAP",
        "The engine of tables created without ENGINE.",
    ),
    both("default_tmp_storage_engine", Kind::Text, "OLAP", "Accepted, without effect."),
    both("delete_without_partition", Kind::Flag, "1", "Accepted, without effect."),
    both(
        "div_precision_increment",
        Kind::Int { min: 0, max: 30 },
        "4",
        "The fraction digits that a division adds.",
    ),
    both("enable_fallback_to_original_planner", Kind::Flag, "1", "Accepted, without effect."),
    both(
        "enable_insert_strict",
        Kind::Flag,
        "1",
        "Whether an invalid value fails an INSERT into an OLAP table; else it becomes NULL or is \
         truncated, and a row for which neither is possible is filtered out.",
    ),
    both("enable_nereids_dml", Kind::Flag, "1", "Accepted, without effect."),
    both("enable_nereids_planner", Kind::Flag, "1", "Accepted, without effect."),
    both("enable_pipeline_engine", Kind::Flag, "1", "Accepted, without effect."),
    both(
        "enable_prepared_stmt_audit_log",
        Kind::Flag,
        "0",
        "Whether prepared inserts are logged, if `log_level` includes `audit=info`.",
    ),
    both("enable_profile", Kind::Flag, "0", "Accepted, without effect."),
    both(
        "enable_server_side_prepared_statement",
        Kind::Flag,
        "1",
        "Accepted: statements are always prepared by the server.",
    ),
    both("enable_sql_cache", Kind::Flag, "0", "Accepted, without effect."),
    both(
        "enable_unique_key_partial_update",
        Kind::Flag,
        "0",
        "With it, an INSERT of some columns into a UNIQUE KEY table keeps the others as stored.",
    ),
    both(
        "exec_mem_limit",
        Kind::Int { min: 0, max: i64::MAX },
        "2147483648",
        "Accepted: memory is shared by all queries.",
    ),
    both("experimental_enable_single_replica_insert", Kind::Flag, "0", "Accepted, without effect."),
    both(
        "explicit_defaults_for_timestamp",
        Kind::Bool,
        "1",
        "Accepted: TIMESTAMP columns have no default of their own.",
    ),
    both("foreign_key_checks", Kind::Bool, "1", "Accepted, without effect."),
    both(
        "group_commit",
        Kind::OneOf(&["off_mode", "sync_mode", "async_mode"]),
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
        "group_concat_max_len",
        Kind::Int { min: 4, max: i64::MAX },
        "1048576",
        "The maximum bytes of a GROUP_CONCAT; longer results are truncated with a warning.",
    ),
    fixed("have_openssl", Kind::Text, "DISABLED", "Whether connections may be encrypted."),
    fixed("have_query_cache", Kind::Text, "NO", "There is no query cache."),
    fixed("have_ssl", Kind::Text, "DISABLED", "Whether connections may be encrypted."),
    fixed("hostname", Kind::Text, "localhost", "The name of the machine."),
    both(
        "idle_transaction_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "600",
        "Seconds after which an idle transaction is rolled back; its next use fails with 1205.",
    ),
    global("init_connect", Kind::Text, "", "Accepted, without effect."),
    both(
        "innodb_lock_wait_timeout",
        Kind::Int { min: 1, max: 1073741824 },
        "50",
        "How long a statement waits for rows that another transaction holds, in seconds.",
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
    both(
        "interactive_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "28800",
        "The idle timeout of interactive clients in seconds.",
    ),
    fixed("language", Kind::Text, "/usr/share/mysql/english/", "Accepted, without effect."),
    fixed("license", Kind::Text, "Apache-2.0", "The licence of the server."),
    global("local_infile", Kind::Bool, "1", "Whether LOAD DATA LOCAL works."),
    both(
        "lock_wait_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "31536000",
        "Accepted, without effect.",
    ),
    fixed("log_bin", Kind::Bool, "0", "There is no binary log."),
    fixed("lower_case_file_system", Kind::Bool, "0", "Whether file names are case-insensitive."),
    fixed(
        "lower_case_table_names",
        Kind::Int { min: 0, max: 2 },
        "0",
        "Names of databases and tables are case-sensitive.",
    ),
    global(
        "max_address_connections",
        Kind::Int { min: 1, max: 100000 },
        "3072",
        "The maximum number of connections per address.",
    ),
    begin(
        "max_allowed_packet",
        Kind::Int { min: 1024, max: 1073741824 },
        "67108864",
        "The largest packet in bytes, for sessions that begin afterwards.",
    ),
    both(
        "max_batch_insert_sql_length",
        Kind::Int { min: 0, max: 1048576 },
        "256",
        "The length in KiB from which `batch_insert_policy` reads an INSERT in pieces.",
    ),
    global(
        "max_connections",
        Kind::Int { min: 1, max: 100000 },
        "4096",
        "The maximum number of connections.",
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
    fixed(
        "max_prepared_stmt_count",
        Kind::Int { min: 0, max: 4194304 },
        "16382",
        "The maximum number of prepared statements per connection, by the protocol and by PREPARE.",
    ),
    global(
        "max_select_columns",
        Kind::Int { min: 16, max: 65535 },
        "4096",
        "The maximum number of items of a SELECT.",
    ),
    global(
        "max_statement_tables",
        Kind::Int { min: 2, max: 100000 },
        "500",
        "The maximum number of tables and selects of a query; a common table expression counts \
         as often as it is read.",
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
    begin(
        "max_user_connections",
        Kind::Int { min: 0, max: 4294967295 },
        "3072",
        "The maximum number of connections per account (1203), 0 for no limit; SUPER is exempt.",
    ),
    both(
        "net_buffer_length",
        Kind::Int { min: 1024, max: 1048576 },
        "16384",
        "Accepted, without effect.",
    ),
    both(
        "net_read_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "30",
        "The timeout for the rest of a packet in seconds.",
    ),
    both(
        "net_write_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "60",
        "The timeout for a client to accept a piece of a result, in seconds.",
    ),
    both(
        "parallel_fragment_exec_instance_num",
        Kind::Int { min: 0, max: 1024 },
        "0",
        "Accepted, without effect.",
    ),
    both(
        "parallel_pipeline_task_num",
        Kind::Int { min: 0, max: 1024 },
        "0",
        "Accepted, without effect.",
    ),
    fixed("performance_schema", Kind::Bool, "0", "There is no performance schema."),
    fixed("port", Kind::Int { min: 0, max: 65535 }, "9030", "The port of the MySQL protocol."),
    both("profiling", Kind::Bool, "0", "Accepted, without effect."),
    fixed(
        "protocol_version",
        Kind::Int { min: 0, max: 255 },
        "10",
        "The version of the MySQL protocol.",
    ),
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
    both(
        "read_freshness",
        Kind::OneOf(&["committed", "published"]),
        "committed",
        "What a SELECT sees: every acknowledged row, or only rows of committed groups.",
    ),
    fixed("read_only", Kind::Bool, "0", "Whether the server refuses writes."),
    global(
        "require_secure_transport",
        Kind::Bool,
        "0",
        "Whether connections that are not encrypted are refused, those of this machine too.",
    ),
    fixed(
        "secure_file_priv",
        Kind::Text,
        "",
        "The directory of LOAD DATA INFILE and INTO OUTFILE, which a setting names; NULL: none.",
    ),
    fixed("server_id", Kind::Int { min: 0, max: 4294967295 }, "1", "The id of the server."),
    both("session_track_gtids", Kind::Text, "OFF", "Accepted, without effect."),
    both("session_track_schema", Kind::Bool, "1", "Whether replies report a new current database."),
    both("session_track_state_change", Kind::Bool, "0", "Accepted, without effect."),
    both(
        "session_track_system_variables",
        Kind::Text,
        "time_zone,autocommit,character_set_client,character_set_results,character_set_connection",
        "Accepted, without effect.",
    ),
    both("session_track_transaction_info", Kind::Text, "OFF", "Accepted, without effect."),
    both("show_hidden_columns", Kind::Flag, "0", "Accepted: there are no hidden columns."),
    fixed("skip_networking", Kind::Bool, "0", "Clients connect by TCP."),
    fixed("socket", Kind::Text, "", "There is no Unix socket."),
    both("sql_auto_is_null", Kind::Bool, "0", "Accepted, without effect."),
    both("sql_big_selects", Kind::Bool, "1", "Accepted, without effect."),
    both("sql_log_bin", Kind::Bool, "1", "Accepted, without effect."),
    both(
        "sql_mode",
        Kind::SqlMode,
        "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,\
         ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES",
        "How statements are parsed and values are stored.",
    ),
    both("sql_notes", Kind::Bool, "1", "Accepted, without effect."),
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
    both("sql_warnings", Kind::Bool, "0", "Accepted, without effect."),
    fixed("ssl_ca", Kind::Text, "", "The authorities of certificates of clients."),
    fixed("ssl_capath", Kind::Text, "", "Empty: authorities are in one file."),
    fixed("ssl_cert", Kind::Text, "", "The certificate of the server."),
    fixed("ssl_cipher", Kind::Text, "", "Empty: the ciphers of TLS 1.2 and 1.3 that are safe."),
    fixed("ssl_crl", Kind::Text, "", "Empty: no lists of revoked certificates are read."),
    fixed("ssl_key", Kind::Text, "", "The private key of the server."),
    fixed("system_time_zone", Kind::Text, "UTC", "The time zone of the server."),
    fixed(
        "thread_pool_size",
        Kind::Int { min: 0, max: i64::MAX },
        "0",
        "Accepted, without effect.",
    ),
    both(
        "time_zone",
        Kind::Zone,
        "SYSTEM",
        "The time zone in which TIMESTAMP values are read and shown.",
    ),
    fixed("tls_version", Kind::Text, "TLSv1.2,TLSv1.3", "The versions of TLS."),
    fixed("tmpdir", Kind::Text, "", "Accepted, without effect."),
    both(
        "transaction_isolation",
        Kind::OneOf(&["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]),
        "READ-COMMITTED",
        "READ-COMMITTED, or REPEATABLE-READ: one snapshot per transaction.",
    ),
    both("transaction_read_only", Kind::Bool, "0", "Whether transactions are read-only."),
    both("unique_checks", Kind::Bool, "1", "Accepted, without effect."),
    global(
        "validate_password.check_user_name",
        Kind::Bool,
        "1",
        "Whether a password must not be the name of its account, or of who sets it, forwards or \
         backwards; behind `validate_password.policy`.",
    ),
    global(
        "validate_password.length",
        Kind::Int { min: 0, max: 1024 },
        "8",
        "The characters that a password has at least; other names of these variables have `_` in \
         place of the period.",
    ),
    global(
        "validate_password.mixed_case_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The lower case letters, and the upper case ones, that MEDIUM asks for.",
    ),
    global(
        "validate_password.number_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The digits that MEDIUM asks for.",
    ),
    global(
        "validate_password.policy",
        Kind::OneOf(&["LOW", "MEDIUM", "STRONG", "NONE"]),
        "NONE",
        "What CREATE USER, ALTER USER and SET PASSWORD ask of passwords (1819): LOW the length, \
         MEDIUM and STRONG what they contain too. A start takes it from the setting \
         `password_policy`.",
    ),
    global(
        "validate_password.special_char_count",
        Kind::Int { min: 0, max: 1024 },
        "1",
        "The characters other than letters and digits that MEDIUM asks for.",
    ),
    fixed("version", Kind::Text, "", "The version of the server, as in the greeting."),
    fixed("version_comment", Kind::Text, "Freshet", "The name of the server."),
    fixed("version_compile_machine", Kind::Text, "", "What the server was built for."),
    fixed("version_compile_os", Kind::Text, "Linux", "What the server was built for."),
    both(
        "wait_timeout",
        Kind::Int { min: 1, max: 31536000 },
        "28800",
        "The idle timeout of clients in seconds.",
    ),
];
