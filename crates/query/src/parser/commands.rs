//! The kinds of statements as MySQL counts them: what stands behind `Com_` in SHOW STATUS.

use super::alter::AlterAction;
use super::insert::{Insert, InsertSource, OnDuplicate};
use super::show::ShowWhat;
use super::tending::Tending;
use super::{RoleStatement, Statement};
use crate::change::{Change, ChangeKind};

macro_rules! commands {
    ($($name:ident = $text:literal,)*) => {
        /// A kind of statement that MySQL counts by itself.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum CommandKind {
            $($name,)*
        }

        impl CommandKind {
            /// All of them, in the order of their names.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What stands behind `Com_`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

commands! {
    AdminCommands = "admin_commands",
    AlterDb = "alter_db",
    AlterInstance = "alter_instance",
    AlterTable = "alter_table",
    AlterUser = "alter_user",
    Analyze = "analyze",
    Begin = "begin",
    ChangeDb = "change_db",
    Check = "check",
    Checksum = "checksum",
    Commit = "commit",
    CreateDb = "create_db",
    CreateIndex = "create_index",
    CreateRole = "create_role",
    CreateTable = "create_table",
    CreateUser = "create_user",
    CreateView = "create_view",
    DeallocSql = "dealloc_sql",
    Delete = "delete",
    DeleteMulti = "delete_multi",
    Do = "do",
    DropDb = "drop_db",
    DropRole = "drop_role",
    DropTable = "drop_table",
    DropUser = "drop_user",
    DropView = "drop_view",
    ExecuteSql = "execute_sql",
    Flush = "flush",
    GetDiagnostics = "get_diagnostics",
    Grant = "grant",
    GrantRoles = "grant_roles",
    Insert = "insert",
    InsertSelect = "insert_select",
    Kill = "kill",
    Load = "load",
    Optimize = "optimize",
    PrepareSql = "prepare_sql",
    ReleaseSavepoint = "release_savepoint",
    RenameTable = "rename_table",
    RenameUser = "rename_user",
    Repair = "repair",
    Replace = "replace",
    ReplaceSelect = "replace_select",
    Revoke = "revoke",
    RevokeRoles = "revoke_roles",
    Rollback = "rollback",
    RollbackToSavepoint = "rollback_to_savepoint",
    Savepoint = "savepoint",
    Select = "select",
    SetOption = "set_option",
    SetRole = "set_role",
    ShowBinlogs = "show_binlogs",
    ShowCharsets = "show_charsets",
    ShowCollations = "show_collations",
    ShowCreateDb = "show_create_db",
    ShowCreateTable = "show_create_table",
    ShowCreateUser = "show_create_user",
    ShowDatabases = "show_databases",
    ShowEngineStatus = "show_engine_status",
    ShowErrors = "show_errors",
    ShowEvents = "show_events",
    ShowFields = "show_fields",
    ShowFunctionStatus = "show_function_status",
    ShowGrants = "show_grants",
    ShowKeys = "show_keys",
    ShowMasterStatus = "show_master_status",
    ShowOpenTables = "show_open_tables",
    ShowPlugins = "show_plugins",
    ShowPrivileges = "show_privileges",
    ShowProcedureStatus = "show_procedure_status",
    ShowProcesslist = "show_processlist",
    ShowProfiles = "show_profiles",
    ShowReplicaStatus = "show_replica_status",
    ShowSlaveStatus = "show_slave_status",
    ShowStatus = "show_status",
    ShowStorageEngines = "show_storage_engines",
    ShowTableStatus = "show_table_status",
    ShowTables = "show_tables",
    ShowTriggers = "show_triggers",
    ShowVariables = "show_variables",
    ShowWarnings = "show_warnings",
    Signal = "signal",
    StmtClose = "stmt_close",
    StmtExecute = "stmt_execute",
    StmtFetch = "stmt_fetch",
    StmtPrepare = "stmt_prepare",
    StmtReset = "stmt_reset",
    StmtSendLongData = "stmt_send_long_data",
    Truncate = "truncate",
    Update = "update",
    UpdateMulti = "update_multi",
}

impl Statement {
    /// What it is counted as; what only Freshet has, or Doris, is an administrative command.
    pub fn command(&self) -> CommandKind {
        match self {
            Self::Query(_)
            | Self::SelectInto { .. }
            | Self::Assigning(_)
            | Self::SideEffects(_)
            | Self::Explain { .. } => CommandKind::Select,
            Self::Describe(..) => CommandKind::ShowFields,
            Self::Insert(insert) => of_insert(insert),
            Self::LoadData(_) => CommandKind::Load,
            Self::Change(change) => of_change(change),
            Self::ChangeSeveral(changes) if changes.is_delete() => CommandKind::DeleteMulti,
            Self::ChangeSeveral(_) => CommandKind::UpdateMulti,
            Self::CreateDatabase { .. } => CommandKind::CreateDb,
            Self::AlterDatabase(..) => CommandKind::AlterDb,
            Self::DropDatabase { .. } => CommandKind::DropDb,
            Self::CreateTable(_) => CommandKind::CreateTable,
            Self::DropTable { .. } => CommandKind::DropTable,
            Self::CreateView(_) => CommandKind::CreateView,
            Self::DropViews { .. } => CommandKind::DropView,
            Self::Truncate { .. } => CommandKind::Truncate,
            Self::AlterTable(_, AlterAction::Index { .. }) => CommandKind::CreateIndex,
            Self::AlterTable(..) => CommandKind::AlterTable,
            Self::RenameTables(_) => CommandKind::RenameTable,
            Self::Use(_) => CommandKind::ChangeDb,
            Self::Set(_) => CommandKind::SetOption,
            Self::Show(show) => of_show(&show.what),
            Self::Kill { .. } => CommandKind::Kill,
            Self::Prepare { .. } => CommandKind::PrepareSql,
            Self::Execute { .. } => CommandKind::ExecuteSql,
            Self::Deallocate(_) => CommandKind::DeallocSql,
            Self::ReloadTls => CommandKind::AlterInstance,
            Self::FlushTables(_) => CommandKind::Flush,
            Self::Tend(tending, _) => of_tending(tending),
            Self::Signal(_) => CommandKind::Signal,
            Self::GetDiagnostics(_) => CommandKind::GetDiagnostics,
            Self::Do(_) => CommandKind::Do,
            other => of_session(other).unwrap_or(CommandKind::AdminCommands),
        }
    }
}

/// Statements about transactions and accounts.
fn of_session(statement: &Statement) -> Option<CommandKind> {
    Some(match statement {
        Statement::Begin { .. } => CommandKind::Begin,
        Statement::Commit { .. } => CommandKind::Commit,
        Statement::Rollback { .. } => CommandKind::Rollback,
        Statement::Savepoint(_) => CommandKind::Savepoint,
        Statement::RollbackTo(_) => CommandKind::RollbackToSavepoint,
        Statement::ReleaseSavepoint(_) => CommandKind::ReleaseSavepoint,
        Statement::CreateUser { .. } => CommandKind::CreateUser,
        Statement::AlterUser { .. } => CommandKind::AlterUser,
        Statement::DropUser { .. } => CommandKind::DropUser,
        Statement::RenameUsers(_) => CommandKind::RenameUser,
        Statement::Grant(_) => CommandKind::Grant,
        Statement::Revoke(_) => CommandKind::Revoke,
        Statement::Role(role) => match **role {
            RoleStatement::Create { .. } => CommandKind::CreateRole,
            RoleStatement::Drop { .. } => CommandKind::DropRole,
            RoleStatement::Grant { .. } => CommandKind::GrantRoles,
            RoleStatement::Revoke { .. } => CommandKind::RevokeRoles,
            RoleStatement::SetDefault { .. } | RoleStatement::Set(_) => CommandKind::SetRole,
        },
        _ => return None,
    })
}

fn of_insert(insert: &Insert) -> CommandKind {
    match (&insert.on_duplicate, &insert.source) {
        (OnDuplicate::Replace, InsertSource::Values(_)) => CommandKind::Replace,
        (OnDuplicate::Replace, InsertSource::Query(_)) => CommandKind::ReplaceSelect,
        (_, InsertSource::Values(_)) => CommandKind::Insert,
        (_, InsertSource::Query(_)) => CommandKind::InsertSelect,
    }
}

fn of_change(change: &Change) -> CommandKind {
    match change.kind {
        ChangeKind::Update { .. } => CommandKind::Update,
        ChangeKind::Delete => CommandKind::Delete,
        ChangeKind::Lock { .. } => CommandKind::Select,
    }
}

fn of_tending(tending: &Tending) -> CommandKind {
    match tending {
        Tending::Analyze => CommandKind::Analyze,
        Tending::Check => CommandKind::Check,
        Tending::Checksum { .. } => CommandKind::Checksum,
        Tending::Optimize => CommandKind::Optimize,
        Tending::Repair => CommandKind::Repair,
    }
}

fn of_show(what: &ShowWhat) -> CommandKind {
    match what {
        ShowWhat::Databases => CommandKind::ShowDatabases,
        ShowWhat::Tables { .. } => CommandKind::ShowTables,
        ShowWhat::TableStatus { .. } => CommandKind::ShowTableStatus,
        ShowWhat::Columns { .. } => CommandKind::ShowFields,
        ShowWhat::Index(_) => CommandKind::ShowKeys,
        ShowWhat::CreateTable(_) | ShowWhat::CreateView(_) | ShowWhat::CreateSequence(_) => {
            CommandKind::ShowCreateTable
        }
        ShowWhat::CreateDatabase(_) => CommandKind::ShowCreateDb,
        ShowWhat::CreateUser(_) => CommandKind::ShowCreateUser,
        ShowWhat::Variables(_) => CommandKind::ShowVariables,
        ShowWhat::Status(_) => CommandKind::ShowStatus,
        ShowWhat::Warnings { errors_only: true, .. } => CommandKind::ShowErrors,
        ShowWhat::Warnings { .. } => CommandKind::ShowWarnings,
        ShowWhat::Processlist { .. } => CommandKind::ShowProcesslist,
        ShowWhat::Grants { .. } => CommandKind::ShowGrants,
        ShowWhat::Engine(_) => CommandKind::ShowEngineStatus,
        ShowWhat::Plain(name) | ShowWhat::Within { what: name, .. } => of_list(name),
        _ => CommandKind::AdminCommands,
    }
}

fn of_list(name: &str) -> CommandKind {
    match name {
        "ENGINES" | "STORAGE ENGINES" => CommandKind::ShowStorageEngines,
        "PLUGINS" => CommandKind::ShowPlugins,
        "COLLATION" => CommandKind::ShowCollations,
        "CHARACTER SET" | "CHARSET" => CommandKind::ShowCharsets,
        "PRIVILEGES" => CommandKind::ShowPrivileges,
        "PROCEDURE STATUS" => CommandKind::ShowProcedureStatus,
        "FUNCTION STATUS" => CommandKind::ShowFunctionStatus,
        "OPEN TABLES" => CommandKind::ShowOpenTables,
        "TRIGGERS" => CommandKind::ShowTriggers,
        "EVENTS" => CommandKind::ShowEvents,
        "MASTER STATUS" | "BINARY LOG STATUS" => CommandKind::ShowMasterStatus,
        "BINARY LOGS" | "MASTER LOGS" => CommandKind::ShowBinlogs,
        "SLAVE STATUS" => CommandKind::ShowSlaveStatus,
        "REPLICA STATUS" => CommandKind::ShowReplicaStatus,
        "PROFILES" => CommandKind::ShowProfiles,
        _ => CommandKind::AdminCommands,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::CommandKind;
    use crate::session::SqlMode;

    #[test]
    fn statements_are_counted_as_mysql_does() {
        for (sql, command) in [
            ("SELECT 1", CommandKind::Select),
            ("INSERT INTO t VALUES (1)", CommandKind::Insert),
            ("INSERT INTO t SELECT 1", CommandKind::InsertSelect),
            ("REPLACE INTO t VALUES (1)", CommandKind::Replace),
            ("UPDATE t SET a = 1", CommandKind::Update),
            ("DELETE a FROM t a JOIN u b ON a.id = b.id", CommandKind::DeleteMulti),
            ("UPDATE t a JOIN u b ON a.id = b.id SET a.x = 1", CommandKind::UpdateMulti),
            ("COMMIT", CommandKind::Commit),
            ("SHOW SLAVE STATUS", CommandKind::ShowSlaveStatus),
            ("SHOW FULL COLUMNS FROM t", CommandKind::ShowFields),
            ("CHECKSUM TABLE t", CommandKind::Checksum),
            ("GRANT r TO u", CommandKind::GrantRoles),
            ("SHOW BACKENDS", CommandKind::AdminCommands),
        ] {
            let parsed = parse(sql, SqlMode::default()).unwrap();
            assert_eq!(parsed[0].statement.command(), command, "{sql}");
        }
        assert!(CommandKind::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name()));
    }
}
