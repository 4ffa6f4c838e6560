//! The system tables: their columns, and where their rows come from.

use super::shape::{Kind, Rows, SystemTable, column_list, table};
use super::{
    Cell, ServerTable, accounts, catalog, constraints, fixed, innodb, keywords, nothing,
    partitions, performance, roles, sys, usage,
};

/// All system tables.
pub fn all() -> impl Iterator<Item = &'static SystemTable> {
    let others = innodb::TABLES.iter().chain(nothing::TABLES).chain(performance::all());
    TABLES.iter().chain(others).chain(sys::TABLES)
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
    table!("tables", Rows::Places(catalog::tables), TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME,
        TABLE_TYPE, ENGINE, #VERSION, ROW_FORMAT, #TABLE_ROWS, #AVG_ROW_LENGTH, #DATA_LENGTH,
        #MAX_DATA_LENGTH, #INDEX_LENGTH, #DATA_FREE, #AUTO_INCREMENT, @CREATE_TIME, @UPDATE_TIME,
        @CHECK_TIME, TABLE_COLLATION, #CHECKSUM, CREATE_OPTIONS, TABLE_COMMENT),
    table!("columns", Rows::Places(catalog::columns), TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME,
        COLUMN_NAME, #ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, DATA_TYPE,
        #CHARACTER_MAXIMUM_LENGTH, #CHARACTER_OCTET_LENGTH, #NUMERIC_PRECISION, #NUMERIC_SCALE,
        #DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_TYPE, COLUMN_KEY, EXTRA,
        PRIVILEGES, COLUMN_COMMENT, GENERATION_EXPRESSION, #SRS_ID),
    table!("partitions", Rows::Places(partitions::partitions), TABLE_CATALOG, TABLE_SCHEMA,
        TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, #PARTITION_ORDINAL_POSITION,
        #SUBPARTITION_ORDINAL_POSITION, PARTITION_METHOD, SUBPARTITION_METHOD,
        PARTITION_EXPRESSION, SUBPARTITION_EXPRESSION, PARTITION_DESCRIPTION, #TABLE_ROWS,
        #AVG_ROW_LENGTH, #DATA_LENGTH, #MAX_DATA_LENGTH, #INDEX_LENGTH, #DATA_FREE, @CREATE_TIME,
        @UPDATE_TIME, @CHECK_TIME, #CHECKSUM, PARTITION_COMMENT, NODEGROUP, TABLESPACE_NAME),
    table!("statistics", Rows::Places(catalog::statistics), TABLE_CATALOG, TABLE_SCHEMA,
        TABLE_NAME, #NON_UNIQUE, INDEX_SCHEMA, INDEX_NAME, #SEQ_IN_INDEX, COLUMN_NAME, COLLATION,
        #CARDINALITY, #SUB_PART, PACKED, NULLABLE, INDEX_TYPE, COMMENT, INDEX_COMMENT,
        IS_VISIBLE, EXPRESSION),
    table!("key_column_usage", Rows::Places(constraints::key_columns), CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME,
        #ORDINAL_POSITION, #POSITION_IN_UNIQUE_CONSTRAINT, REFERENCED_TABLE_SCHEMA,
        REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME),
    table!(
        "table_constraints",
        Rows::Places(constraints::constraints),
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
    table!("keywords", Rows::Fixed(keywords::rows), WORD, #RESERVED),
    table!(
        "plugins",
        Rows::Fixed(fixed::plugins),
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
        Rows::Catalog(constraints::references),
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
        Rows::Catalog(constraints::checks),
        CONSTRAINT_CATALOG,
        CONSTRAINT_SCHEMA,
        CONSTRAINT_NAME,
        CHECK_CLAUSE
    ),
    table!(
        "views",
        Rows::Places(catalog::views),
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
    table!("mysql", "time_zone_name", Rows::Fixed(fixed::time_zones), Name, #Time_zone_id),
];

/// What `tables` or `columns` have of the system tables themselves.
pub fn own_rows(of: &str) -> Vec<Vec<Cell>> {
    match of {
        "tables" => own_tables(),
        "columns" => own_columns(),
        other => unreachable!("{other} has no rows about system tables"),
    }
}

fn own_tables() -> Vec<Vec<Cell>> {
    let row = |table: &SystemTable| {
        let mut row = vec![Cell::Null; 21];
        row[0] = catalog::CATALOG.into();
        row[1] = table.database.into();
        row[2] = table.shown_name().into();
        row[3] = "SYSTEM VIEW".into();
        row[20] = "".into();
        row
    };
    all().map(row).collect()
}

fn own_columns() -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
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
