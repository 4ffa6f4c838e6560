//! The tables of `performance_schema` and `sys` that clients read. Of statements and waits nothing
//! is gathered, so that the tables about them are empty.

use super::shape::{Kind, Rows, SystemTable, column_list, table};
use super::{Cell, ServerTable, SystemTables};

/// The version of `sys` that MySQL 8.0 comes with.
const SYS_VERSION: &str = "2.1.2";

pub const TABLES: &[SystemTable] = &[
    table!(
        "performance_schema",
        "session_status",
        Rows::Server(ServerTable::GlobalStatus),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!(
        "performance_schema",
        "global_status",
        Rows::Server(ServerTable::GlobalStatus),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!(
        "performance_schema",
        "session_variables",
        Rows::Server(ServerTable::SessionVariables),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!(
        "performance_schema",
        "global_variables",
        Rows::Server(ServerTable::GlobalVariables),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!("performance_schema", "persisted_variables", Rows::None, VARIABLE_NAME, VARIABLE_VALUE),
    table!("performance_schema", "processlist", Rows::Server(ServerTable::Processlist), #ID, USER,
        HOST, DB, COMMAND, #TIME, STATE, INFO),
    table!("performance_schema", "threads", Rows::Server(ServerTable::Threads), #THREAD_ID, NAME,
        TYPE, #PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB,
        PROCESSLIST_COMMAND, #PROCESSLIST_TIME, PROCESSLIST_STATE, PROCESSLIST_INFO,
        CONNECTION_TYPE),
    table!("performance_schema", "session_connect_attrs",
        Rows::Server(ServerTable::ConnectAttributes), #PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE,
        #ORDINAL_POSITION),
    table!("performance_schema", "session_account_connect_attrs",
        Rows::Server(ServerTable::OwnConnectAttributes), #PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE,
        #ORDINAL_POSITION),
    table!("performance_schema", "events_statements_summary_by_digest", Rows::None, SCHEMA_NAME,
        DIGEST, DIGEST_TEXT, #COUNT_STAR, #SUM_TIMER_WAIT, #MIN_TIMER_WAIT, #AVG_TIMER_WAIT,
        #MAX_TIMER_WAIT, #SUM_LOCK_TIME, #SUM_ERRORS, #SUM_WARNINGS, #SUM_ROWS_AFFECTED,
        #SUM_ROWS_SENT, #SUM_ROWS_EXAMINED, #SUM_CREATED_TMP_DISK_TABLES, #SUM_CREATED_TMP_TABLES,
        #SUM_SORT_MERGE_PASSES, #SUM_SORT_ROWS, #SUM_NO_INDEX_USED, #SUM_NO_GOOD_INDEX_USED,
        @FIRST_SEEN, @LAST_SEEN, QUERY_SAMPLE_TEXT, @QUERY_SAMPLE_SEEN, #QUERY_SAMPLE_TIMER_WAIT),
    table!("performance_schema", "events_statements_current", Rows::None, #THREAD_ID, #EVENT_ID,
        #END_EVENT_ID, EVENT_NAME, SOURCE, #TIMER_START, #TIMER_END, #TIMER_WAIT, #LOCK_TIME,
        SQL_TEXT, DIGEST, DIGEST_TEXT, CURRENT_SCHEMA),
    table!("performance_schema", "events_statements_history", Rows::None, #THREAD_ID, #EVENT_ID,
        #END_EVENT_ID, EVENT_NAME, SOURCE, #TIMER_START, #TIMER_END, #TIMER_WAIT, #LOCK_TIME,
        SQL_TEXT, DIGEST, DIGEST_TEXT, CURRENT_SCHEMA),
    table!("performance_schema", "setup_consumers", Rows::None, NAME, ENABLED),
    table!("performance_schema", "setup_instruments", Rows::None, NAME, ENABLED, TIMED, PROPERTIES,
        FLAGS, #VOLATILITY, DOCUMENTATION),
    table!("performance_schema", "metadata_locks", Rows::None, OBJECT_TYPE, OBJECT_SCHEMA,
        OBJECT_NAME, COLUMN_NAME, #OBJECT_INSTANCE_BEGIN, LOCK_TYPE, LOCK_DURATION, LOCK_STATUS,
        SOURCE, #OWNER_THREAD_ID, #OWNER_EVENT_ID),
    table!("performance_schema", "replication_group_members", Rows::None, CHANNEL_NAME, MEMBER_ID,
        MEMBER_HOST, #MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE, MEMBER_VERSION,
        MEMBER_COMMUNICATION_STACK),
    table!("sys", "version", Rows::Catalog(version), sys_version, mysql_version),
];

fn version(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    vec![vec![SYS_VERSION.into(), system.version.into()]]
}
