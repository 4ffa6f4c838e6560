//! `processlist` and `session`: the connections that the user may see. Each is a thread, and there
//! are no others.

use super::super::{Cell, ServerTable, SystemTables};
use super::source::{Form, Source};
use super::statements::shortened;

const PICOS: i64 = 1_000_000_000_000;

pub fn shown(system: &SystemTables) -> Vec<Vec<Cell>> {
    rows(system, Form::Shown)
}

pub fn raw(system: &SystemTables) -> Vec<Vec<Cell>> {
    rows(system, Form::Raw)
}

fn rows(system: &SystemTables, form: Form) -> Vec<Vec<Cell>> {
    let threads = Source::of(system, ServerTable::Threads);
    let open = Source::of(system, ServerTable::Transactions);
    let attributes = Source::of(system, ServerTable::ConnectAttributes);
    let row = |thread: &Vec<Cell>| {
        let cell = |column: &str| threads.cell(thread, column);
        let id = cell("PROCESSLIST_ID");
        let is_open = open.rows.iter().any(|row| open.cell(row, "trx_mysql_thread_id") == id);
        let attribute = |name: &str| {
            let is_it = |row: &&Vec<Cell>| {
                attributes.cell(row, "PROCESSLIST_ID") == id
                    && attributes.cell(row, "ATTR_NAME") == Cell::from(name)
            };
            let found = attributes.rows.iter().find(is_it);
            found.map_or(Cell::Null, |row| attributes.cell(row, "ATTR_VALUE"))
        };
        of_thread(&cell, is_open, [attribute("_pid"), attribute("program_name")], form)
    };
    threads.rows.iter().map(row).collect()
}

fn of_thread(
    cell: &dyn Fn(&str) -> Cell,
    is_open: bool,
    [pid, program]: [Cell; 2],
    form: Form,
) -> Vec<Cell> {
    let user = match (cell("PROCESSLIST_USER"), cell("PROCESSLIST_HOST")) {
        (Cell::Text(user), Cell::Text(host)) => format!("{user}@{host}").into(),
        (user, _) => user,
    };
    let statement = match (cell("PROCESSLIST_INFO"), form) {
        (Cell::Text(text), Form::Shown) => shortened(&text).into(),
        (text, _) => text,
    };
    let latency = match (&statement, cell("PROCESSLIST_TIME")) {
        (Cell::Text(_), Cell::Int(seconds)) => form.time(Cell::Int(seconds.saturating_mul(PICOS))),
        _ => Cell::Null,
    };
    let mut row = vec![cell("THREAD_ID"), cell("PROCESSLIST_ID"), user];
    row.extend(["PROCESSLIST_DB", "PROCESSLIST_COMMAND", "PROCESSLIST_STATE"].map(cell));
    row.extend([cell("PROCESSLIST_TIME"), statement, cell("EXECUTION_ENGINE"), latency]);
    // From `progress` to `trx_latency` nothing is known of a connection.
    row.extend([const { Cell::Null }; 16]);
    let [state, autocommit] = match is_open {
        true => ["ACTIVE", "NO"].map(Cell::fixed),
        false => [const { Cell::Null }; 2],
    };
    row.extend([state, autocommit, pid, program]);
    row
}
