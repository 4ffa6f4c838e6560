//! Privileges, and the sets of them that are granted.

macro_rules! privileges {
    ($($(#[$doc:meta])* $name:ident = $text:literal $doris:literal;)*) => {
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

            const fn doris_name(self) -> &'static str {
                match self { $(Self::$name => $doris,)* }
            }
        }
    };
}

privileges! {
    /// Read rows.
    Select = "SELECT" "SELECT_PRIV";
    /// Insert rows, with INSERT or a load.
    Insert = "INSERT" "LOAD_PRIV";
    /// Change rows.
    Update = "UPDATE" "UPDATE_PRIV";
    /// Delete rows.
    Delete = "DELETE" "DELETE_PRIV";
    /// CREATE DATABASE and CREATE TABLE.
    Create = "CREATE" "CREATE_PRIV";
    /// DROP and TRUNCATE.
    Drop = "DROP" "DROP_PRIV";
    /// FLUSH and similar statements.
    Reload = "RELOAD" "NODE_PRIV";
    /// See and kill sessions of other users.
    Process = "PROCESS" "PROCESS_PRIV";
    /// Read and write files of the server, with LOAD DATA INFILE and INTO OUTFILE.
    File = "FILE" "FILE_PRIV";
    /// ALTER TABLE.
    Alter = "ALTER" "ALTER_PRIV";
    /// SHOW DATABASES also lists databases without other privileges.
    ShowDatabases = "SHOW DATABASES" "SHOW_PRIV";
    /// SET GLOBAL, KILL and server settings.
    Super = "SUPER" "ADMIN_PRIV";
    /// Create views.
    CreateView = "CREATE VIEW" "CREATE_VIEW_PRIV";
    /// SHOW CREATE VIEW.
    ShowView = "SHOW VIEW" "SHOW_VIEW_PRIV";
    /// CREATE USER, DROP USER and similar statements.
    CreateUser = "CREATE USER" "CREATE_USER_PRIV";
    /// CREATE INDEX and DROP INDEX.
    Index = "INDEX" "INDEX_PRIV";
    /// Grant one's own privileges to others.
    GrantOption = "GRANT OPTION" "GRANT_PRIV";
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

    /// Whether it contains a privilege that tables can have; what only the server has, such as
    /// PROCESS and CREATE USER, tells of none.
    pub fn has_any_of_tables(self) -> bool {
        use Privilege::{
            Alter, Create, CreateView, Delete, Drop, GrantOption, Index, Insert, Select, ShowView,
            Update,
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
            GrantOption,
        ];
        of_tables.into_iter().any(|privilege| self.has(privilege))
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
