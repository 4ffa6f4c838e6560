//! The system tables: their columns, and where their rows come from.

use super::shape::{Kind, Rows, SystemTable, column_list, table};
use super::{Cell, ServerTable, SystemTables, accounts, catalog, fixed, performance, roles, usage};

/// All system tables.
pub fn all() -> impl Iterator<Item = &'static SystemTable> {
    TABLES.iter().chain(performance::TABLES)
}

const TABLES: &[SystemTable] = &[
    table!(
        "schemata",
        Rows::Catalog(catalog::schemata),
        CATALOG_NAME,
        SCHEMA_NAME,
        DEFAULT_CHARACTER_SET_NAME,
        DEFAULT_COLLATION_NAME,
        SQL_PATH,
        DEFAULT_ENCRYPTION
    ),
    table!("tables", Rows::Catalog(tables), TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME,
        TABLE_TYPE, ENGINE, #VERSION, ROW_FORMAT, #TABLE_ROWS, #AVG_ROW_LENGTH, #DATA_LENGTH,
        #MAX_DATA_LENGTH, #INDEX_LENGTH, #DATA_FREE, #AUTO_INCREMENT, @CREATE_TIME, @UPDATE_TIME,
        @CHECK_TIME, TABLE_COLLATION, #CHECKSUM, CREATE_OPTIONS, TABLE_COMMENT),
    table!("columns", Rows::Catalog(columns), TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME,
        COLUMN_NAME, #ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, DATA_TYPE,
        #CHARACTER_MAXIMUM_LENGTH, #CHARACTER_OCTET_LENGTH, #NUMERIC_PRECISION, #NUMERIC_SCALE,
        #DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_TYPE, COLUMN_KEY, EXTRA,
        PRIVILEGES, COLUMN_COMMENT, GENERATION_EXPRESSION, #SRS_ID),
    table!("partitions", Rows::Catalog(catalog::partitions), TABLE_CATALOG, TABLE_SCHEMA,
        TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, #PARTITION_ORDINAL_POSITION,
        #SUBPARTITION_ORDINAL_POSITION, PARTITION_METHOD, SUBPARTITION_METHOD,
        PARTITION_EXPRESSION, SUBPARTITION_EXPRESSION, PARTITION_DESCRIPTION, #TABLE_ROWS,
        #AVG_ROW_LENGTH, #DATA_LENGTH, #MAX_DATA_LENGTH, #INDEX_LENGTH, #DATA_FREE, @CREATE_TIME,
        @UPDATE_TIME, @CHECK_TIME, #CHECKSUM, PARTITION_COMMENT, NODEGROUP, TABLESPACE_NAME),
    table!("statistics", Rows::Catalog(catalog::statistics), TABLE_CATALOG, TABLE_SCHEMA,
        TABLE_NAME, #NON_UNIQUE, INDEX_SCHEMA, INDEX_NAME, #SEQ_IN_INDEX, COLUMN_NAME, COLLATION,
        #CARDINALITY, #SUB_PART, PACKED, NULLABLE, INDEX_TYPE, COMMENT, INDEX_COMMENT,
        IS_VISIBLE, EXPRESSION),
    table!("key_column_usage", Rows::Catalog(catalog::key_columns), CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME,
        #ORDINAL_POSITION, #POSITION_IN_UNIQUE_CONSTRAINT, REFERENCED_TABLE_SCHEMA,
        REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME),
    table!(
        "table_constraints",
        Rows::Catalog(catalog::constraints),
        CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA,
        CONSTRAINT_NAME,
        TABLE_SCHEMA,
        TABLE_NAME,
        CONSTRAINT_TYPE,
        ENFORCED
    ),
    table!("sequences", Rows::Catalog(catalog::sequences), SCHEMA_NAME, NAME, #VALUE,
        #INCREMENT_BY, #START_WITH, #MAX_VALUE, CYCLE, TYPE, @CREATED),
    table!("processlist", Rows::Server(ServerTable::Processlist), #ID, USER, HOST, DB, COMMAND,
        #TIME, STATE, INFO),
    table!("group_commits", Rows::Server(ServerTable::GroupCommits), LABEL, TABLE_SCHEMA,
        TABLE_NAME, #TXN_ID, #LOADS, #ROWS, #BYTES, @OPENED, @ENDED, REASON, #VERSION, #WAIT_MS,
        #FLUSH_MS, #PUBLISH_MS),
    table!("flushes", Rows::Server(ServerTable::Flushes), TABLE_SCHEMA, TABLE_NAME, REASON, STATE,
        @BEGUN, #ROWS, #ROWSETS, #SEGMENTS, #BYTES, #VERSION, #LSN, #TOOK_US, #WAIT_US, #WRITE_US,
        #MARK_US, #PUBLISH_US, MESSAGE),
    table!("load_rejects", Rows::Server(ServerTable::LoadRejects), LABEL, #TXN_ID, TABLE_SCHEMA,
        TABLE_NAME, @ENDED, STATUS, USER, CLIENT, #ROW_NUMBER, COLUMN_NAME, REASON, LINE,
        ERROR_URL),
    table!("wal", Rows::Server(ServerTable::Wal), NAME, VALUE),
    table!("workload_groups", Rows::Server(ServerTable::WorkloadGroups), #ID, NAME, #CPU_SHARE,
        MIN_CPU_PERCENT, MAX_CPU_PERCENT, MEMORY_LIMIT, #MAX_CONCURRENCY, #MAX_QUEUE_SIZE,
        #QUEUE_TIMEOUT, #SCAN_THREAD_NUM, #RUNNING_QUERY_NUM, #WAITING_QUERY_NUM, #MEMORY_BYTES,
        #THREAD_MS),
    table!(
        "global_variables",
        Rows::Server(ServerTable::GlobalVariables),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!(
        "session_variables",
        Rows::Server(ServerTable::SessionVariables),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!("global_status", Rows::Server(ServerTable::GlobalStatus), VARIABLE_NAME, VARIABLE_VALUE),
    table!(
        "session_status",
        Rows::Server(ServerTable::GlobalStatus),
        VARIABLE_NAME,
        VARIABLE_VALUE
    ),
    table!(
        "engines",
        Rows::Fixed(fixed::engines),
        ENGINE,
        SUPPORT,
        COMMENT,
        TRANSACTIONS,
        XA,
        SAVEPOINTS
    ),
    table!("character_sets", Rows::Fixed(fixed::character_sets), CHARACTER_SET_NAME,
        DEFAULT_COLLATE_NAME, DESCRIPTION, #MAXLEN),
    table!("collations", Rows::Fixed(fixed::collations), COLLATION_NAME, CHARACTER_SET_NAME, #ID,
        IS_DEFAULT, IS_COMPILED, #SORTLEN, PAD_ATTRIBUTE),
    table!(
        "collation_character_set_applicability",
        Rows::Fixed(fixed::applicability),
        COLLATION_NAME,
        CHARACTER_SET_NAME
    ),
    table!("keywords", Rows::Fixed(fixed::keywords), WORD, #RESERVED),
    table!(
        "plugins",
        Rows::None,
        PLUGIN_NAME,
        PLUGIN_VERSION,
        PLUGIN_STATUS,
        PLUGIN_TYPE,
        PLUGIN_TYPE_VERSION,
        PLUGIN_LIBRARY,
        PLUGIN_LIBRARY_VERSION,
        PLUGIN_AUTHOR,
        PLUGIN_DESCRIPTION,
        PLUGIN_LICENSE,
        LOAD_OPTION
    ),
    table!(
        "referential_constraints",
        Rows::None,
        CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA,
        CONSTRAINT_NAME,
        UNIQUE_CONSTRAINT_CATALOG,
        UNIQUE_CONSTRAINT_SCHEMA,
        UNIQUE_CONSTRAINT_NAME,
        MATCH_OPTION,
        UPDATE_RULE,
        DELETE_RULE,
        TABLE_NAME,
        REFERENCED_TABLE_NAME
    ),
    table!(
        "check_constraints",
        Rows::Catalog(catalog::checks),
        CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA,
        CONSTRAINT_NAME,
        CHECK_CLAUSE
    ),
    table!(
        "views",
        Rows::Catalog(catalog::views),
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        VIEW_DEFINITION,
        CHECK_OPTION,
        IS_UPDATABLE,
        DEFINER,
        SECURITY_TYPE,
        CHARACTER_SET_CLIENT,
        COLLATION_CONNECTION
    ),
    table!("routines", Rows::None, SPECIFIC_NAME, ROUTINE_CATALOG, ROUTINE_SCHEMA, ROUTINE_NAME,
        ROUTINE_TYPE, DATA_TYPE, #CHARACTER_MAXIMUM_LENGTH, #CHARACTER_OCTET_LENGTH,
        #NUMERIC_PRECISION, #NUMERIC_SCALE, #DATETIME_PRECISION, CHARACTER_SET_NAME,
        COLLATION_NAME, DTD_IDENTIFIER, ROUTINE_BODY, ROUTINE_DEFINITION, EXTERNAL_NAME,
        EXTERNAL_LANGUAGE, PARAMETER_STYLE, IS_DETERMINISTIC, SQL_DATA_ACCESS, SQL_PATH,
        SECURITY_TYPE, @CREATED, @LAST_ALTERED, SQL_MODE, ROUTINE_COMMENT, DEFINER,
        CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION),
    table!("parameters", Rows::None, SPECIFIC_CATALOG, SPECIFIC_SCHEMA, SPECIFIC_NAME,
        #ORDINAL_POSITION, PARAMETER_MODE, PARAMETER_NAME, DATA_TYPE, #CHARACTER_MAXIMUM_LENGTH,
        #CHARACTER_OCTET_LENGTH, #NUMERIC_PRECISION, #NUMERIC_SCALE, #DATETIME_PRECISION,
        CHARACTER_SET_NAME, COLLATION_NAME, DTD_IDENTIFIER, ROUTINE_TYPE),
    table!("triggers", Rows::None, TRIGGER_CATALOG, TRIGGER_SCHEMA, TRIGGER_NAME,
        EVENT_MANIPULATION, EVENT_OBJECT_CATALOG, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE,
        #ACTION_ORDER, ACTION_CONDITION, ACTION_STATEMENT, ACTION_ORIENTATION, ACTION_TIMING,
        @CREATED, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION,
        DATABASE_COLLATION),
    table!("events", Rows::None, EVENT_CATALOG, EVENT_SCHEMA, EVENT_NAME, DEFINER, TIME_ZONE,
        EVENT_BODY, EVENT_DEFINITION, EVENT_TYPE, @EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD,
        SQL_MODE, @STARTS, @ENDS, STATUS, ON_COMPLETION, @CREATED, @LAST_ALTERED, EVENT_COMMENT),
    table!(
        "user_privileges",
        Rows::Catalog(accounts::user_privileges),
        GRANTEE,
        TABLE_CATALOG,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "schema_privileges",
        Rows::Catalog(accounts::schema_privileges),
        GRANTEE,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "table_privileges",
        Rows::Catalog(accounts::table_privileges),
        GRANTEE,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "column_privileges",
        Rows::Catalog(accounts::column_privileges),
        GRANTEE,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        COLUMN_NAME,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "applicable_roles",
        Rows::Catalog(roles::applicable),
        USER,
        HOST,
        GRANTEE,
        GRANTEE_HOST,
        ROLE_NAME,
        ROLE_HOST,
        IS_GRANTABLE,
        IS_DEFAULT,
        IS_MANDATORY
    ),
    table!(
        "administrable_role_authorizations",
        Rows::Catalog(roles::administrable),
        USER,
        HOST,
        GRANTEE,
        GRANTEE_HOST,
        ROLE_NAME,
        ROLE_HOST,
        IS_GRANTABLE,
        IS_DEFAULT,
        IS_MANDATORY
    ),
    table!(
        "enabled_roles",
        Rows::Catalog(roles::enabled),
        ROLE_NAME,
        ROLE_HOST,
        IS_DEFAULT,
        IS_MANDATORY
    ),
    table!(
        "role_table_grants",
        Rows::Catalog(roles::table_grants),
        GRANTOR,
        GRANTOR_HOST,
        GRANTEE,
        GRANTEE_HOST,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "role_column_grants",
        Rows::Catalog(roles::column_grants),
        GRANTOR,
        GRANTOR_HOST,
        GRANTEE,
        GRANTEE_HOST,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        COLUMN_NAME,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!(
        "role_routine_grants",
        Rows::None,
        GRANTOR,
        GRANTOR_HOST,
        GRANTEE,
        GRANTEE_HOST,
        SPECIFIC_CATALOG,
        SPECIFIC_SCHEMA,
        SPECIFIC_NAME,
        ROUTINE_CATALOG,
        ROUTINE_SCHEMA,
        ROUTINE_NAME,
        PRIVILEGE_TYPE,
        IS_GRANTABLE
    ),
    table!("user_attributes", Rows::Catalog(accounts::attributes), USER, HOST, ATTRIBUTE),
    table!(
        "view_table_usage",
        Rows::Catalog(usage::of_views),
        VIEW_CATALOG,
        VIEW_SCHEMA,
        VIEW_NAME,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME
    ),
    table!(
        "view_routine_usage",
        Rows::None,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        SPECIFIC_CATALOG,
        SPECIFIC_SCHEMA,
        SPECIFIC_NAME
    ),
    table!("innodb_trx", Rows::None, trx_id, trx_state, @trx_started, trx_requested_lock_id,
        @trx_wait_started, #trx_weight, #trx_mysql_thread_id, trx_query, trx_operation_state,
        #trx_tables_in_use, #trx_tables_locked, #trx_lock_structs, #trx_lock_memory_bytes,
        #trx_rows_locked, #trx_rows_modified, #trx_concurrency_tickets, trx_isolation_level,
        #trx_unique_checks, #trx_foreign_key_checks, trx_last_foreign_key_error,
        #trx_adaptive_hash_latched, #trx_adaptive_hash_timeout, #trx_is_read_only,
        #trx_autocommit_non_locking, #trx_schedule_weight),
    table!("innodb_metrics", Rows::None, NAME, SUBSYSTEM, #COUNT, #MAX_COUNT, #MIN_COUNT, AVG_COUNT,
        #COUNT_RESET, #MAX_COUNT_RESET, #MIN_COUNT_RESET, AVG_COUNT_RESET, @TIME_ENABLED,
        @TIME_DISABLED, #TIME_ELAPSED, @TIME_RESET, STATUS, TYPE, COMMENT),
    table!("innodb_tablespaces", Rows::None, #SPACE, NAME, #FLAG, ROW_FORMAT, #PAGE_SIZE,
        #ZIP_PAGE_SIZE, SPACE_TYPE, #FS_BLOCK_SIZE, #FILE_SIZE, #ALLOCATED_SIZE, #AUTOEXTEND_SIZE,
        SERVER_VERSION, #SPACE_VERSION, ENCRYPTION, STATE),
    table!("innodb_tablestats", Rows::None, #TABLE_ID, NAME, STATS_INITIALIZED, #NUM_ROWS,
        #CLUST_INDEX_SIZE, #OTHER_INDEX_SIZE, #MODIFIED_COUNTER, #AUTOINC, #REF_COUNT),
    table!("innodb_cmp", Rows::None, #page_size, #compress_ops, #compress_ops_ok, #compress_time,
        #uncompress_ops, #uncompress_time),
    table!("innodb_cmpmem", Rows::None, #page_size, #buffer_pool_instance, #pages_used,
        #pages_free, #relocation_ops, #relocation_time),
    table!(
        "tables_extensions",
        Rows::None,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        ENGINE_ATTRIBUTE,
        SECONDARY_ENGINE_ATTRIBUTE
    ),
    table!(
        "columns_extensions",
        Rows::None,
        TABLE_CATALOG,
        TABLE_SCHEMA,
        TABLE_NAME,
        COLUMN_NAME,
        ENGINE_ATTRIBUTE,
        SECONDARY_ENGINE_ATTRIBUTE
    ),
    table!("resource_groups", Rows::None, RESOURCE_GROUP_NAME, RESOURCE_GROUP_TYPE,
        #RESOURCE_GROUP_ENABLED, VCPU_IDS, #THREAD_PRIORITY),
    table!("optimizer_trace", Rows::None, QUERY, TRACE, #MISSING_BYTES_BEYOND_MAX_MEM_SIZE,
        #INSUFFICIENT_PRIVILEGES),
    table!("tablespaces", Rows::None, TABLESPACE_NAME, ENGINE, TABLESPACE_TYPE, LOGFILE_GROUP_NAME,
        #EXTENT_SIZE, #AUTOEXTEND_SIZE, #MAXIMUM_SIZE, #NODEGROUP_ID, TABLESPACE_COMMENT),
    table!("profiling", Rows::None, #QUERY_ID, #SEQ, STATE, DURATION),
    table!("st_geometry_columns", Rows::None, TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME,
        SRS_NAME, #SRS_ID, GEOMETRY_TYPE_NAME),
    table!("column_statistics", Rows::None, SCHEMA_NAME, TABLE_NAME, COLUMN_NAME, HISTOGRAM),
    table!("files", Rows::None, #FILE_ID, FILE_NAME, FILE_TYPE, TABLESPACE_NAME, TABLE_CATALOG,
        TABLE_SCHEMA, TABLE_NAME, LOGFILE_GROUP_NAME, #LOGFILE_GROUP_NUMBER, ENGINE, FULLTEXT_KEYS,
        #DELETED_ROWS, #UPDATE_COUNT, #FREE_EXTENTS, #TOTAL_EXTENTS, #EXTENT_SIZE, #INITIAL_SIZE,
        #MAXIMUM_SIZE, #AUTOEXTEND_SIZE, #VERSION, ROW_FORMAT, #TABLE_ROWS, #DATA_LENGTH, STATUS,
        EXTRA),
    table!("mysql", "user", Rows::Named(accounts::user), Host, User, Select_priv, Insert_priv,
        Update_priv, Delete_priv, Create_priv, Drop_priv, Reload_priv, Shutdown_priv, Process_priv,
        File_priv, Grant_priv, References_priv, Index_priv, Alter_priv, Show_db_priv, Super_priv,
        Create_tmp_table_priv, Lock_tables_priv, Execute_priv, Repl_slave_priv, Repl_client_priv,
        Create_view_priv, Show_view_priv, Create_routine_priv, Alter_routine_priv,
        Create_user_priv, Event_priv, Trigger_priv, Create_tablespace_priv, ssl_type,
        ssl_cipher, x509_issuer, x509_subject, #max_questions, #max_updates, #max_connections,
        #max_user_connections, plugin, authentication_string, password_expired,
        @password_last_changed, #password_lifetime, account_locked, Create_role_priv,
        Drop_role_priv, #Password_reuse_history, #Password_reuse_time, Password_require_current,
        User_attributes),
    table!(
        "mysql",
        "db",
        Rows::Named(accounts::db),
        Host,
        Db,
        User,
        Select_priv,
        Insert_priv,
        Update_priv,
        Delete_priv,
        Create_priv,
        Drop_priv,
        Grant_priv,
        References_priv,
        Index_priv,
        Alter_priv,
        Create_tmp_table_priv,
        Lock_tables_priv,
        Create_view_priv,
        Show_view_priv,
        Create_routine_priv,
        Alter_routine_priv,
        Execute_priv,
        Event_priv,
        Trigger_priv
    ),
    table!("mysql", "tables_priv", Rows::Catalog(accounts::tables_priv), Host, Db, User,
        Table_name, Grantor, @Timestamp, Table_priv, Column_priv),
    table!(
        "mysql",
        "columns_priv",
        Rows::Catalog(accounts::columns_priv),
        Host,
        Db,
        User,
        Table_name,
        Column_name,
        @Timestamp,
        Column_priv
    ),
    table!(
        "mysql",
        "role_edges",
        Rows::Catalog(accounts::role_edges),
        FROM_HOST,
        FROM_USER,
        TO_HOST,
        TO_USER,
        WITH_ADMIN_OPTION
    ),
    table!(
        "mysql",
        "default_roles",
        Rows::Catalog(accounts::default_roles),
        HOST,
        USER,
        DEFAULT_ROLE_HOST,
        DEFAULT_ROLE_USER
    ),
    table!("mysql", "password_history", Rows::Catalog(accounts::password_history), Host, User,
        @Password_timestamp, Password),
    table!("mysql", "procs_priv", Rows::None, Host, Db, User, Routine_name, Routine_type, Grantor,
        Proc_priv, @Timestamp),
    table!("mysql", "help_topic", Rows::None, #help_topic_id, name, #help_category_id, description,
        example, url),
    table!("mysql", "time_zone_name", Rows::None, Name, #Time_zone_id),
    table!("mysql", "proc", Rows::None, db, name, type, comment, body),
    table!("mysql", "func", Rows::None, name, #ret, dl, type),
];

/// The tables in the catalog, and the system tables themselves.
fn tables(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = catalog::tables(system);
    rows.extend(all().map(|table| {
        let mut row = vec![Cell::Null; 21];
        row[0] = catalog::CATALOG.into();
        row[1] = table.database.into();
        row[2] = table.shown_name().into();
        row[3] = "SYSTEM VIEW".into();
        row[20] = "".into();
        row
    }));
    rows
}

/// The columns of the tables in the catalog, and those of the system tables themselves.
fn columns(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = catalog::columns(system);
    for table in all() {
        for (at, (name, kind)) in table.columns.iter().enumerate() {
            let ty = match kind {
                Kind::Text => "varchar",
                Kind::Int => "bigint",
                Kind::Time => "datetime",
            };
            let mut row = vec![Cell::Null; 22];
            row[0] = catalog::CATALOG.into();
            row[1] = table.database.into();
            row[2] = table.shown_name().into();
            row[3] = (*name).into();
            row[4] = (at as u64 + 1).into();
            row[6] = "YES".into();
            row[7] = ty.into();
            row[15] = (if ty == "varchar" { "varchar(512)" } else { ty }).into();
            row[16..21].fill("".into());
            rows.push(row);
        }
    }
    rows
}
