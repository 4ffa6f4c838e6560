//! The tables of `performance_schema` that clients read. Of statements and waits nothing
//! is gathered, so that the tables about them are empty.

mod others;
mod statements;
mod waits;

use super::ServerTable;
use super::shape::{Kind, Rows, SystemTable, column_list, table};

/// All of them.
pub fn all() -> impl Iterator<Item = &'static SystemTable> {
    TABLES.iter().chain(statements::TABLES).chain(waits::TABLES).chain(others::TABLES)
}

const TABLES: &[SystemTable] = &[
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
    table!(
        "performance_schema",
        "persisted_variables",
        Rows::Server(ServerTable::PersistedVariables),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!("performance_schema", "processlist", Rows::Server(ServerTable::PerformanceProcesslist),
        #ID, USER, HOST, DB, COMMAND, #TIME, STATE, INFO, EXECUTION_ENGINE),
    table!("performance_schema", "threads", Rows::Server(ServerTable::Threads), #THREAD_ID, NAME,
        TYPE, #PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB,
        PROCESSLIST_COMMAND, #PROCESSLIST_TIME, PROCESSLIST_STATE, PROCESSLIST_INFO,
        #PARENT_THREAD_ID, ROLE, INSTRUMENTED, HISTORY, CONNECTION_TYPE, #THREAD_OS_ID,
        RESOURCE_GROUP, EXECUTION_ENGINE, #CONTROLLED_MEMORY, #MAX_CONTROLLED_MEMORY, #TOTAL_MEMORY,
        #MAX_TOTAL_MEMORY, TELEMETRY_ACTIVE),
    table!("performance_schema", "session_connect_attrs",
        Rows::Server(ServerTable::ConnectAttributes), #PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE,
        #ORDINAL_POSITION),
    table!("performance_schema", "session_account_connect_attrs",
        Rows::Server(ServerTable::OwnConnectAttributes), #PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE,
        #ORDINAL_POSITION),
];
