//! The server's part of `information_schema`.

use std::sync::Arc;

use freshet_base::{Result, TableId};
use freshet_meta::{
    Account, ColumnRights, Object, Privilege, authorize, is_restricted, may_see_database,
    may_see_table, seen_columns,
};
use freshet_query::system::{Cell, ServerTable, SystemSource};
use freshet_schema::{Collation, Table};

use super::listing::Listing;
use super::server;
use crate::Shared;
use crate::process::Process;
use crate::session::{self, Client, Session};
use crate::variables::Values;

/// The server's state as one session may see it.
pub struct ServerView {
    pub(super) shared: Arc<Shared>,
    variables: Values,
    pub(super) client: Client,
    pub(super) processes: Vec<Arc<Process>>,
}

impl ServerView {
    pub fn new(session: &Session) -> Self {
        Self {
            shared: Arc::clone(&session.shared),
            variables: session.variables.clone(),
            client: session.client.clone(),
            processes: server::visible(session),
        }
    }

    pub(super) fn authorize(&self, privilege: Privilege, object: Object<'_>) -> Result<()> {
        authorize(&self.shared.engine.catalog(), self.client.actor(), privilege, object)
    }

    fn processlist(&self) -> Vec<Vec<Cell>> {
        let now = self.shared.engine.clock().now();
        let row = |process: &Arc<Process>| {
            let details = process.details();
            let database = details.database.map(|name| name.to_string());
            let info = Some(details.info).filter(|info| !info.is_empty());
            vec![
                i64::from(process.id).into(),
                details.user.into(),
                process.peer.clone().into(),
                database.into(),
                process.activity().name().into(),
                process.seconds(now).into(),
                details.state.into(),
                info.into(),
            ]
        };
        self.processes.iter().map(row).collect()
    }

    /// The threads that serve connections: each has one.
    fn threads(&self) -> Vec<Vec<Cell>> {
        let with_thread = |connection: Vec<Cell>| {
            let [name, kind] = ["thread/sql/one_connection".into(), "FOREGROUND".into()];
            let mut row = vec![connection[0].clone(), name, kind];
            row.extend(connection);
            row.extend([Cell::Null, Cell::Null, "NO".into(), "NO".into(), "TCP/IP".into()]);
            // Of its thread of the operating system, its group and its memory nothing is told.
            row.extend([Cell::Null, Cell::Null, "PRIMARY".into()]);
            row.extend([const { Cell::Null }; 4]);
            row.push("NO".into());
            row
        };
        self.processlist().into_iter().map(with_thread).collect()
    }

    /// `innodb_trx`: the transactions of connections. What locks and rows they have is not told.
    fn transactions(&self) -> Vec<Vec<Cell>> {
        let row = |process: &Arc<Process>| {
            let open = process.transaction()?;
            let details = process.details();
            let or_null = |text: String| Cell::from(Some(text).filter(|text| !text.is_empty()));
            let isolation = if open.repeatable_read { "REPEATABLE READ" } else { "READ COMMITTED" };
            let mut row = vec![Cell::Null; 25];
            row[0] = process.id.to_string().into();
            row[1] = "RUNNING".into();
            row[2] = Cell::Time(open.began_micros);
            row[6] = i64::from(process.id).into();
            row[7] = or_null(details.info);
            row[8] = or_null(details.state);
            row[16] = isolation.into();
            row[22] = i64::from(open.read_only).into();
            row[23] = 0_i64.into();
            Some(row)
        };
        self.processes.iter().filter_map(row).collect()
    }

    /// What clients told of themselves.
    fn attributes(&self, own: bool) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for process in &self.processes {
            let details = process.details();
            if own && details.account.as_ref() != Some(&self.client.account) {
                continue;
            }
            for (at, (name, value)) in (0_u64..).zip(details.attributes) {
                let id = i64::from(process.id).into();
                rows.push(vec![id, name.into(), value.into(), at.into()]);
            }
        }
        rows
    }

    /// The digests of all statements, for who may see those that run.
    fn digests(&self) -> Vec<Vec<Cell>> {
        match self.authorize(Privilege::Process, Object::Server) {
            Ok(()) => self.shared.digests.rows(&**self.shared.engine.clock()),
            Err(_) => Vec::new(),
        }
    }

    fn wal(&self) -> Vec<Vec<Cell>> {
        let engine = &self.shared.engine;
        let stats = engine.log_stats();
        let (recycled, side_file) = engine.recycled();
        let pair = |name: &str, value: String| vec![name.into(), value.into()];
        vec![
            pair("next_lsn", stats.next_lsn.to_string()),
            pair("durable_lsn", stats.durable_lsn.to_string()),
            pair("recycled_to_lsn", recycled.to_string()),
            pair("live_files", stats.live_files.len().to_string()),
            pair("ready_files", stats.ready_files.to_string()),
            pair("files_max", stats.files_max.to_string()),
            pair("live_bytes", stats.live_bytes.to_string()),
            pair("free_bytes", stats.free_bytes.to_string()),
            pair("room_waiters", stats.room_waiters.to_string()),
            pair("side_file", side_file.unwrap_or_default()),
        ]
    }
}

fn cells(listing: Listing) -> Vec<Vec<Cell>> {
    listing.rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect()
}

impl SystemSource for ServerView {
    fn rows(&self, table: ServerTable) -> Result<Vec<Vec<Cell>>> {
        Ok(match table {
            ServerTable::Processlist => self.processlist(),
            ServerTable::PerformanceProcesslist => {
                let mut rows = self.processlist();
                rows.iter_mut().for_each(|row| row.push("PRIMARY".into()));
                rows
            }
            ServerTable::Threads => self.threads(),
            ServerTable::Transactions => self.transactions(),
            ServerTable::ConnectAttributes => self.attributes(false),
            ServerTable::OwnConnectAttributes => self.attributes(true),
            ServerTable::StatementDigests => self.digests(),
            ServerTable::LockWaits => self.lock_waits(),
            ServerTable::GroupCommits => self.group_commits(),
            ServerTable::Flushes => self.flushes(),
            ServerTable::LoadRejects => self.load_rejects(),
            ServerTable::Wal => {
                self.authorize(Privilege::Process, Object::Server)?;
                self.wal()
            }
            ServerTable::WorkloadGroups => super::workload::rows(&self.shared, self.client.actor()),
            ServerTable::GlobalVariables => {
                let globals = self.shared.globals.load();
                cells(server::variable_rows(&globals, &globals))
            }
            ServerTable::PersistedVariables => {
                cells(server::persisted_rows(&self.shared.persisted.load()))
            }
            ServerTable::SessionVariables => {
                cells(server::variable_rows(&self.variables, &self.shared.globals.load()))
            }
            ServerTable::GlobalStatus => cells(super::status::rows(&self.shared, &self.client)),
        })
    }

    fn account(&self) -> &Account {
        &self.client.account
    }

    fn roles(&self) -> &[Account] {
        &self.client.roles
    }

    fn next_id(&self, table: TableId) -> Option<u64> {
        self.shared.engine.next_id(table)
    }

    fn may_see_account(&self, account: &Account) -> bool {
        let accounts = Object::Table("mysql", "user");
        *account == self.client.account || self.authorize(Privilege::Select, accounts).is_ok()
    }

    fn may_see(&self, database: &str) -> bool {
        may_see_database(&self.shared.engine.catalog(), self.client.actor(), database)
    }

    fn collation_of(&self, database: &str) -> Collation {
        session::collation_of(database, &self.shared.engine.catalog(), &self.variables)
    }

    fn may_show_view(&self, database: &str, view: &str) -> bool {
        self.authorize(Privilege::ShowView, Object::Table(database, view)).is_ok()
    }

    fn may_see_table(&self, database: &str, table: &str) -> bool {
        may_see_table(&self.shared.engine.catalog(), self.client.actor(), database, table)
    }

    fn hides_rows_of(&self, table: &Table) -> bool {
        let catalog = self.shared.engine.catalog();
        !table.policies.is_empty() && is_restricted(&catalog, self.client.actor(), table)
    }

    fn column_rights(&self, database: &str, table: &str) -> Option<ColumnRights> {
        seen_columns(&self.shared.engine.catalog(), self.client.actor(), (database, table))
    }
}
