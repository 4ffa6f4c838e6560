//! `innodb_lock_waits` of `sys`: which connections wait for keys that others hold.

use std::sync::Arc;

use freshet_ingest::LockWait;
use freshet_meta::{Catalog, Object, Privilege};
use freshet_query::system::Cell;
use freshet_schema::Table;

use super::system::ServerView;
use crate::process::Process;

impl ServerView {
    /// For who may see the statements of others.
    pub(super) fn lock_waits(&self) -> Vec<Vec<Cell>> {
        if self.authorize(Privilege::Process, Object::Server).is_err() {
            return Vec::new();
        }
        let engine = &self.shared.engine;
        let catalog = engine.catalog();
        let row = |wait: LockWait| {
            let table = catalog.table_by_id(wait.table)?;
            Some(self.lock_wait(&catalog, table, wait))
        };
        engine.lock_waits().into_iter().filter_map(row).collect()
    }

    fn lock_wait(&self, catalog: &Catalog, table: &Table, wait: LockWait) -> Vec<Cell> {
        let clock = self.shared.engine.clock();
        let (now, wall_micros) = (clock.now(), clock.wall_micros());
        let process = |id: u32| self.processes.iter().find(|process| process.id == id);
        let (waiting, blocking) = (process(wait.waiting), process(wait.blocking));
        // A statement may have done other things before: of that nothing is kept.
        let waited = waiting.map_or(0, |process| process.seconds(now));
        let waited_micros = i64::try_from(waited).unwrap_or(0).saturating_mul(1_000_000);
        let database = catalog.database_by_id(table.db).map_or("", |database| &database.name);
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let mut row = vec![
            Cell::Time(wall_micros - waited_micros),
            age(waited).into(),
            waited.into(),
            format!("{}.{}", quoted(database), quoted(&table.name)).into(),
            database.into(),
            table.name.as_str().into(),
            Cell::Null,
            Cell::Null,
            index(table, wait.key).into(),
            (if wait.key > table.declared_keys.len() { "TABLE" } else { "RECORD" }).into(),
        ];
        row.extend(transaction(waiting, wall_micros));
        row.extend([Cell::Null, Cell::Null]);
        row.extend(statement(waiting));
        row.extend([Cell::Null, mode(wait.shares), id(blocking)]);
        row.extend(statement(blocking));
        row.extend([Cell::Null, mode(wait.is_shared)]);
        row.extend(transaction(blocking, wall_micros).into_iter().skip(1));
        row.extend([Cell::Null, Cell::Null]);
        let kill = |what: &str| blocking.map(|process| format!("KILL {what}{}", process.id));
        row.extend([kill("QUERY ").into(), kill("").into()]);
        row
    }
}

/// The name of the key with this number.
fn index(table: &Table, number: usize) -> Option<String> {
    let name = match number.checked_sub(1) {
        None => "PRIMARY",
        Some(at) => &table.unique_keys().nth(at)?.name,
    };
    Some(name.to_owned())
}

fn mode(is_shared: bool) -> Cell {
    (if is_shared { "S,REC_NOT_GAP" } else { "X,REC_NOT_GAP" }).into()
}

/// The number of its transaction, as `innodb_trx` has it.
fn id(process: Option<&Arc<Process>>) -> Cell {
    process.map(|process| process.id.to_string()).into()
}

/// The number of its transaction, when that began, and for how long it has been open.
fn transaction(process: Option<&Arc<Process>>, wall_micros: i64) -> [Cell; 3] {
    let open = process.and_then(|process| process.transaction());
    let Some(open) = open else { return [id(process), Cell::Null, Cell::Null] };
    let seconds = wall_micros.saturating_sub(open.began_micros) / 1_000_000;
    let age = age(u64::try_from(seconds).unwrap_or(0));
    [id(process), Cell::Time(open.began_micros), age.into()]
}

/// Its connection, and the statement that it runs.
fn statement(process: Option<&Arc<Process>>) -> [Cell; 2] {
    let text = process.map(|process| process.details().info).filter(|text| !text.is_empty());
    [process.map(|process| i64::from(process.id)).into(), text.into()]
}

/// A time as `00:01:07`.
fn age(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
