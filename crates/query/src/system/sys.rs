//! The views of `sys` that dashboards and people type. They are made of other system tables, whose
//! rows are those that the user may see; what is counted nowhere is NULL. A name with `x$` has
//! numbers where the other one has amounts for people.

mod indexes;
mod sessions;
mod source;
mod statements;

use super::catalog::stored;
use super::shape::{Kind, Rows, SystemTable, column_list, table};
use super::wanted::Wanted;
use super::{Cell, ServerTable, SystemTables};

/// The version of `sys` that MySQL 8.0 comes with.
const SYS_VERSION: &str = "2.1.2";

/// Sessions, for people.
macro_rules! sessions {
    ($name:literal) => {
        table!("sys", $name, Rows::Catalog(sessions::shown),
            #thd_id, #conn_id, user, db, command, state, #time, current_statement,
            execution_engine, statement_latency, progress, lock_latency, cpu_latency,
            #rows_examined, #rows_sent, #rows_affected, #tmp_tables, #tmp_disk_tables, full_scan,
            last_statement, last_statement_latency, current_memory, last_wait, last_wait_latency,
            source, trx_latency, trx_state, trx_autocommit, pid, program_name)
    };
}

/// Sessions, in numbers.
macro_rules! raw_sessions {
    ($name:literal) => {
        table!("sys", $name, Rows::Catalog(sessions::raw),
            #thd_id, #conn_id, user, db, command, state, #time, current_statement,
            execution_engine, #statement_latency, progress, #lock_latency, #cpu_latency,
            #rows_examined, #rows_sent, #rows_affected, #tmp_tables, #tmp_disk_tables, full_scan,
            last_statement, #last_statement_latency, #current_memory, last_wait,
            #last_wait_latency, source, #trx_latency, trx_state, trx_autocommit, pid,
            program_name)
    };
}

/// Who waits for whom.
macro_rules! lock_waits {
    ($name:literal) => {
        table!("sys", $name, Rows::Server(ServerTable::LockWaits), @wait_started,
            wait_age, #wait_age_secs, locked_table, locked_table_schema, locked_table_name,
            locked_table_partition, locked_table_subpartition, locked_index, locked_type,
            waiting_trx_id, @waiting_trx_started, waiting_trx_age, #waiting_trx_rows_locked,
            #waiting_trx_rows_modified, #waiting_pid, waiting_query, waiting_lock_id,
            waiting_lock_mode, blocking_trx_id, #blocking_pid, blocking_query, blocking_lock_id,
            blocking_lock_mode, @blocking_trx_started, blocking_trx_age, #blocking_trx_rows_locked,
            #blocking_trx_rows_modified, sql_kill_blocking_query, sql_kill_blocking_connection)
    };
}

pub const TABLES: &[SystemTable] = &[
    table!("sys", "version", Rows::Catalog(version), sys_version, mysql_version),
    sessions!("processlist"),
    sessions!("session"),
    raw_sessions!("x$processlist"),
    raw_sessions!("x$session"),
    table!("sys", "statement_analysis", Rows::Catalog(statements::shown), query, db, full_scan,
        #exec_count, #err_count, #warn_count, total_latency, max_latency, avg_latency,
        lock_latency, cpu_latency, #rows_sent, #rows_sent_avg, #rows_examined,
        #rows_examined_avg, #rows_affected, #rows_affected_avg, #tmp_tables, #tmp_disk_tables,
        #rows_sorted, #sort_merge_passes, max_controlled_memory, max_total_memory, digest,
        @first_seen, @last_seen),
    table!("sys", "x$statement_analysis", Rows::Catalog(statements::raw), query, db, full_scan,
        #exec_count, #err_count, #warn_count, #total_latency, #max_latency, #avg_latency,
        #lock_latency, #cpu_latency, #rows_sent, #rows_sent_avg, #rows_examined,
        #rows_examined_avg, #rows_affected, #rows_affected_avg, #tmp_tables, #tmp_disk_tables,
        #rows_sorted, #sort_merge_passes, #max_controlled_memory, #max_total_memory, digest,
        @first_seen, @last_seen),
    table!("sys", "schema_table_statistics", Rows::Catalog(table_statistics), table_schema,
        table_name, total_latency, #rows_fetched, fetch_latency, #rows_inserted, insert_latency,
        #rows_updated, update_latency, #rows_deleted, delete_latency, #io_read_requests, io_read,
        io_read_latency, #io_write_requests, io_write, io_write_latency, #io_misc_requests,
        io_misc_latency),
    table!("sys", "x$schema_table_statistics", Rows::Catalog(table_statistics), table_schema,
        table_name, #total_latency, #rows_fetched, #fetch_latency, #rows_inserted,
        #insert_latency, #rows_updated, #update_latency, #rows_deleted, #delete_latency,
        #io_read_requests, #io_read, #io_read_latency, #io_write_requests, #io_write,
        #io_write_latency, #io_misc_requests, #io_misc_latency),
    table!("sys", "schema_redundant_indexes", Rows::Catalog(indexes::redundant), table_schema,
        table_name, redundant_index_name, redundant_index_columns, #redundant_index_non_unique,
        dominant_index_name, dominant_index_columns, #dominant_index_non_unique,
        #subpart_exists, sql_drop_index),
    table!("sys", "schema_auto_increment_columns", Rows::Catalog(indexes::auto_increment),
        table_schema, table_name, column_name, data_type, column_type, #is_signed, #is_unsigned,
        max_value, #auto_increment, auto_increment_ratio),
    lock_waits!("innodb_lock_waits"),
    lock_waits!("x$innodb_lock_waits"),
];

fn version(system: &SystemTables) -> Vec<Vec<Cell>> {
    vec![vec![SYS_VERSION.into(), system.version.as_str().into()]]
}

/// Nothing is counted by tables: only their names are there.
fn table_statistics(system: &SystemTables) -> Vec<Vec<Cell>> {
    let row = |(database, table): (&str, &str)| {
        let mut row = vec![Cell::Null; 19];
        (row[0], row[1]) = (database.into(), table.into());
        row
    };
    let names = stored(system, &Wanted::ALL)
        .map(|(database, table)| (database.name.as_str(), table.name.as_str()));
    names.map(row).collect()
}
