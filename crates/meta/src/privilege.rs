//! Privileges, and the sets of them that are granted.

macro_rules! privileges {
    ($($(#[$doc:meta])* $name:ident = $text:literal $doris:literal $comment:literal;)*) => {
        /// A privilege that can be granted.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Privilege {
            $($(#[$doc])* $name,)*
        }

        impl Privilege {
            /// All privileges, in the order in which MySQL lists them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it is for, in a few words.
            pub const fn comment(self) -> &'static str {
                match self { $(Self::$name => $comment,)* }
            }

            const fn doris_name(self) -> &'static str {
                match self { $(Self::$name => $doris,)* }
            }
        }
    };
}

privileges! {
    /// Read rows.
    Select = "SELECT" "SELECT_PRIV" "To retrieve rows from table";
    /// Insert rows, with INSERT or a load.
    Insert = "INSERT" "LOAD_PRIV" "To insert data into tables";
    /// Change rows.
    Update = "UPDATE" "UPDATE_PRIV" "To update existing rows";
    /// Delete rows.
    Delete = "DELETE" "DELETE_PRIV" "To delete existing rows";
    /// CREATE DATABASE and CREATE TABLE.
    Create = "CREATE" "CREATE_PRIV" "To create new databases and tables";
    /// DROP and TRUNCATE.
    Drop = "DROP" "DROP_PRIV" "To drop databases, tables, and views";
    /// FLUSH and similar statements.
    Reload = "RELOAD" "NODE_PRIV" "To reload or refresh tables, logs and privileges";
    /// Nothing here: the server is stopped by who started it.
    Shutdown = "SHUTDOWN" "SHUTDOWN" "Without effect: the server is stopped by who started it";
    /// See and kill sessions of other users.
    Process = "PROCESS" "PROCESS_PRIV" "To view the plain text of currently executing queries";
    /// Read and write files of the server, with LOAD DATA INFILE and INTO OUTFILE.
    File = "FILE" "FILE_PRIV" "To read and write files on the server";
    /// Nothing here: references are not checked.
    References = "REFERENCES" "REFERENCES" "Without effect: references are not checked";
    /// CREATE INDEX and DROP INDEX.
    Index = "INDEX" "INDEX_PRIV" "To create or drop indexes";
    /// ALTER TABLE.
    Alter = "ALTER" "ALTER_PRIV" "To alter the table";
    /// SHOW DATABASES also lists databases without other privileges.
    ShowDatabases = "SHOW DATABASES" "SHOW_PRIV" "To see all databases with SHOW DATABASES";
    /// SET GLOBAL, KILL and server settings.
    Super = "SUPER" "ADMIN_PRIV" "To use KILL thread, SET GLOBAL, etc.";
    /// Nothing here: who may CREATE makes temporary tables.
    CreateTemporaryTables = "CREATE TEMPORARY TABLES" "CREATE TEMPORARY TABLES"
        "Without effect: CREATE makes temporary tables";
    /// Nothing here: LOCK TABLES locks nothing.
    LockTables = "LOCK TABLES" "LOCK TABLES" "Without effect: LOCK TABLES locks nothing";
    /// Nothing here, as all about stored programs.
    Execute = "EXECUTE" "EXECUTE" "Without effect: there are no stored routines";
    /// Nothing here, as all about replication.
    ReplicationSlave = "REPLICATION SLAVE" "REPLICATION SLAVE"
        "Without effect: there is no replication";
    ReplicationClient = "REPLICATION CLIENT" "REPLICATION CLIENT"
        "Without effect: there is no replication";
    /// Create views.
    CreateView = "CREATE VIEW" "CREATE_VIEW_PRIV" "To create new views";
    /// SHOW CREATE VIEW.
    ShowView = "SHOW VIEW" "SHOW_VIEW_PRIV" "To see views with SHOW CREATE VIEW";
    CreateRoutine = "CREATE ROUTINE" "CREATE ROUTINE"
        "Without effect: there are no stored routines";
    AlterRoutine = "ALTER ROUTINE" "ALTER ROUTINE" "Without effect: there are no stored routines";
    /// CREATE USER, DROP USER and similar statements.
    CreateUser = "CREATE USER" "CREATE_USER_PRIV" "To create new users and roles";
    Event = "EVENT" "EVENT" "Without effect: there are no events";
    Trigger = "TRIGGER" "TRIGGER" "Without effect: there are no triggers";
    /// Nothing here: there are no tablespaces.
    CreateTablespace = "CREATE TABLESPACE" "CREATE TABLESPACE"
        "Without effect: there are no tablespaces";
    /// Nothing here: CREATE ROLE and DROP ROLE take CREATE USER.
    CreateRole = "CREATE ROLE" "CREATE ROLE" "Without effect: CREATE USER creates roles";
    DropRole = "DROP ROLE" "DROP ROLE" "Without effect: CREATE USER drops roles";
    /// Grant one's own privileges to others.
    GrantOption = "GRANT OPTION" "GRANT_PRIV" "To give to other users those privileges you possess";
}

impl Privilege {
    /// The privileges for a name in GRANT, of MySQL or Doris, case-insensitive; `None` for an
    /// unknown name.
    pub fn parse(name: &str) -> Option<Privileges> {
        let name = name.trim().to_ascii_uppercase();
        match name.as_str() {
            "ALL" | "ALL PRIVILEGES" => return Some(Privileges::all()),
            "USAGE" | "USAGE_PRIV" => return Some(Privileges::NONE),
            // Doris's administrator has all privileges; LOAD_PRIV includes changing and deleting
            // rows.
            "ADMIN_PRIV" => return Some(Privileges::all().with(Self::GrantOption)),
            "LOAD_PRIV" => {
                return Some([Self::Insert, Self::Update, Self::Delete].into_iter().collect());
            }
            _ => {}
        }
        let found = Self::ALL.iter().find(|p| p.name() == name || p.doris_name() == name);
        found.map(|&privilege| Privileges::NONE.with(privilege))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Privileges(u32);

impl Privileges {
    pub const NONE: Self = Self(0);

    /// All privileges except GRANT OPTION, as ALL means in MySQL.
    pub fn all() -> Self {
        let listed = Privilege::ALL.iter().filter(|one| **one != Privilege::GrantOption);
        listed.fold(Self::NONE, |set, &privilege| set.with(privilege))
    }

    /// What ALL was before there were privileges without effect here.
    pub(crate) fn first() -> Self {
        use Privilege::{
            Alter, Create, CreateUser, CreateView, Delete, Drop, File, Index, Insert, Process,
            Reload, Select, ShowDatabases, ShowView, Super, Update,
        };
        let first = [
            Select,
            Insert,
            Update,
            Delete,
            Create,
            Drop,
            Reload,
            Process,
            File,
            Index,
            Alter,
            ShowDatabases,
            Super,
            CreateView,
            ShowView,
            CreateUser,
        ];
        first.into_iter().collect()
    }

    /// Those that the server alone can have, and no database or table.
    pub fn of_server_alone() -> Self {
        use Privilege::{
            CreateRole, CreateTablespace, CreateUser, DropRole, File, Process, Reload,
            ReplicationClient, ReplicationSlave, ShowDatabases, Shutdown, Super,
        };
        let alone = [
            Reload,
            Shutdown,
            Process,
            File,
            ShowDatabases,
            Super,
            ReplicationSlave,
            ReplicationClient,
            CreateUser,
            CreateTablespace,
            CreateRole,
            DropRole,
        ];
        alone.into_iter().collect()
    }

    /// Adds a privilege.
    #[must_use]
    pub const fn with(self, privilege: Privilege) -> Self {
        Self(self.0 | 1 << privilege as u32)
    }

    /// The union.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The intersection.
    #[must_use]
    pub const fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// The difference.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether it contains `privilege`.
    pub const fn has(self, privilege: Privilege) -> bool {
        self.0 & (1 << privilege as u32) != 0
    }

    /// Whether it contains all of `others`.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Those that tables can have.
    pub fn of_tables() -> Self {
        use Privilege::{
            Alter, Create, CreateView, Delete, Drop, GrantOption, Index, Insert, References,
            Select, ShowView, Trigger, Update,
        };
        let of_tables = [
            Select,
            Insert,
            Update,
            Delete,
            Create,
            Drop,
            Alter,
            CreateView,
            ShowView,
            Index,
            References,
            Trigger,
            GrantOption,
        ];
        of_tables.into_iter().collect()
    }

    /// Whether it contains a privilege that tables can have; what only the server has, such as
    /// PROCESS and CREATE USER, tells of none.
    pub fn has_any_of_tables(self) -> bool {
        !self.within(Self::of_tables()).is_empty()
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The privileges in the order in which MySQL lists them.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.iter().copied().filter(move |&privilege| self.has(privilege))
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Self {
        privileges.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_doris_stand_for_the_same() {
        let select = Privileges::NONE.with(Privilege::Select);
        assert_eq!(Privilege::parse("select_priv"), Some(select));
        assert_eq!(Privilege::parse("Select"), Some(select));
        assert!(Privilege::parse("LOAD_PRIV").unwrap().has(Privilege::Insert));
        assert!(Privilege::parse("ADMIN_PRIV").unwrap().has(Privilege::GrantOption));
        assert!(!Privilege::parse("ALL").unwrap().has(Privilege::GrantOption));
        assert_eq!(Privilege::parse("FLY"), None);
    }
}
