//! The one place that says whether a user may do something.

use freshet_base::{Result, bail};

use crate::catalog::{Catalog, INFORMATION_SCHEMA, is_reserved_database};
use crate::user::{Account, GrantObject, Privileges};

macro_rules! privileges {
    ($($(#[$doc:meta])* $name:ident = $text:literal $doris:literal;)*) => {
        /// What a user may be allowed to do.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Privilege {
            $($(#[$doc])* $name,)*
        }

        impl Privilege {
            /// Every privilege, in the order MySQL lists them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in GRANT.
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
    /// Reading rows.
    Select = "SELECT" "SELECT_PRIV";
    /// Adding rows, by INSERT or a load.
    Insert = "INSERT" "LOAD_PRIV";
    /// Changing rows.
    Update = "UPDATE" "UPDATE_PRIV";
    /// Removing rows.
    Delete = "DELETE" "DELETE_PRIV";
    /// CREATE DATABASE and CREATE TABLE.
    Create = "CREATE" "CREATE_PRIV";
    /// DROP and TRUNCATE.
    Drop = "DROP" "DROP_PRIV";
    /// FLUSH and the like.
    Reload = "RELOAD" "NODE_PRIV";
    /// Seeing and ending what others run.
    Process = "PROCESS" "PROCESS_PRIV";
    /// ALTER TABLE.
    Alter = "ALTER" "ALTER_PRIV";
    /// SHOW DATABASES of those one has no privilege on.
    ShowDatabases = "SHOW DATABASES" "SHOW_PRIV";
    /// SET GLOBAL, KILL, server settings.
    Super = "SUPER" "ADMIN_PRIV";
    /// Views.
    CreateView = "CREATE VIEW" "CREATE_VIEW_PRIV";
    /// SHOW CREATE VIEW.
    ShowView = "SHOW VIEW" "SHOW_VIEW_PRIV";
    /// CREATE USER, DROP USER and the like.
    CreateUser = "CREATE USER" "CREATE_USER_PRIV";
    /// CREATE INDEX and DROP INDEX.
    Index = "INDEX" "INDEX_PRIV";
    /// Granting to others what one has.
    GrantOption = "GRANT OPTION" "GRANT_PRIV";
}

impl Privilege {
    /// The privileges that a name in GRANT stands for, MySQL's or Doris's, whatever its case;
    /// `None` for a name nobody knows.
    pub fn parse(name: &str) -> Option<Privileges> {
        let name = name.trim().to_ascii_uppercase();
        match name.as_str() {
            "ALL" | "ALL PRIVILEGES" => return Some(Privileges::all()),
            "USAGE" | "USAGE_PRIV" => return Some(Privileges::NONE),
            // Doris's administrator may do everything; who loads may also change and remove.
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

/// What somebody wants to do something to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object<'a> {
    /// The server.
    Server,
    /// A database; for [`Privilege::ShowDatabases`] also one with any privilege inside.
    Database(&'a str),
    /// A table: database and name.
    Table(&'a str, &'a str),
}

/// Whether `account` may do this. A grant on the server counts for every database, one on a
/// database for each of its tables; `information_schema` is open to all.
///
/// # Errors
/// 1227, 1044 or 1142 where not; an account that was dropped may do nothing.
pub fn authorize(
    catalog: &Catalog,
    account: &Account,
    privilege: Privilege,
    object: Object<'_>,
) -> Result<()> {
    if is_open_to_all(privilege, object) {
        return Ok(());
    }
    match catalog.user(account).is_some_and(|user| {
        user.grants
            .iter()
            .any(|grant| grant.privileges.has(privilege) && covers(&grant.object, object))
    }) {
        true => Ok(()),
        false => refuse(account, privilege, object),
    }
}

/// Whether `by` may alter, drop or rename the account `target`, or make an account that stands
/// before it: who makes users must have every privilege on the server that `target` has there.
/// Otherwise CREATE USER alone would be enough to give `root` a password, and so to be `root`;
/// MySQL keeps SYSTEM_USER for this.
///
/// # Errors
/// 1227.
pub(crate) fn authorize_over(catalog: &Catalog, by: &Account, target: &Account) -> Result<()> {
    authorize(catalog, by, Privilege::CreateUser, Object::Server)?;
    require_rank(catalog, by, target)
}

/// Whether `by` has every privilege on the server that `target` has there.
///
/// # Errors
/// 1227, with a privilege that is missing.
pub(crate) fn require_rank(catalog: &Catalog, by: &Account, target: &Account) -> Result<()> {
    let on_server = |account| {
        let user = catalog.user(account);
        user.map_or(Privileges::NONE, |user| user.granted(&GrantObject::Server))
    };
    match on_server(target).without(on_server(by)).iter().next() {
        None => Ok(()),
        Some(missing) => bail!(
            PrivilegeMissing,
            "Access denied; you need the {} privilege on *.* for this operation, because \
             {target} has it",
            missing.name()
        ),
    }
}

/// Whether the account has any privilege on the database or inside it: who has none does not
/// see it, and cannot make it the current one.
pub fn may_see_database(catalog: &Catalog, account: &Account, database: &str) -> bool {
    is_reserved_database(database)
        || catalog.user(account).is_some_and(|user| {
            user.grants.iter().any(|grant| match &grant.object {
                GrantObject::Server => !grant.privileges.is_empty(),
                GrantObject::Database(name) | GrantObject::Table(name, _) => name == database,
            })
        })
}

/// Refuses accounts that may not see the database, in the same words whether or not it exists.
///
/// # Errors
/// 1044.
pub fn require_visible(catalog: &Catalog, account: &Account, database: &str) -> Result<()> {
    match may_see_database(catalog, account, database) {
        true => Ok(()),
        false => {
            bail!(AccessDeniedDatabase, "Access denied for user {account} to database '{database}'")
        }
    }
}

/// Whether the account has any privilege on the table: who has none does not see it listed.
pub fn may_see_table(catalog: &Catalog, account: &Account, database: &str, table: &str) -> bool {
    catalog.user(account).is_some_and(|user| {
        user.grants.iter().any(|grant| {
            !grant.privileges.is_empty() && covers(&grant.object, Object::Table(database, table))
        })
    })
}

fn is_open_to_all(privilege: Privilege, object: Object<'_>) -> bool {
    match object {
        Object::Server => false,
        Object::Database(database) | Object::Table(database, _) => {
            privilege == Privilege::Select && database.eq_ignore_ascii_case(INFORMATION_SCHEMA)
        }
    }
}

fn covers(granted: &GrantObject, wanted: Object<'_>) -> bool {
    match (granted, wanted) {
        (GrantObject::Server, _) => true,
        (GrantObject::Database(name), Object::Database(database) | Object::Table(database, _)) => {
            name == database
        }
        (GrantObject::Table(database, name), Object::Table(in_database, table)) => {
            database == in_database && name == table
        }
        _ => false,
    }
}

fn refuse(account: &Account, privilege: Privilege, object: Object<'_>) -> Result<()> {
    let name = privilege.name();
    match object {
        Object::Server => bail!(
            PrivilegeMissing,
            "Access denied; you need (at least one of) the {name} privilege(s) for this operation"
        ),
        Object::Database(database) => bail!(
            AccessDeniedDatabase,
            "Access denied for user {account} to database '{database}': {name} is not granted"
        ),
        Object::Table(database, table) => bail!(
            TableAccessDenied,
            "{name} command denied to user {account} for table '{database}'.'{table}'"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::{AuthData, User};

    fn catalog(grants: &[(GrantObject, Privilege)]) -> Catalog {
        let user = User::new(Account::anywhere("app"), AuthData::default());
        let user = grants.iter().fold(user, |user, (object, privilege)| {
            let privileges = user.granted(object).with(*privilege);
            user.with_grant(object.clone(), privileges)
        });
        let mut catalog = Catalog::default();
        catalog.put_user(user);
        catalog
    }

    fn errno(catalog: &Catalog, privilege: Privilege, object: Object<'_>) -> u16 {
        let app = Account::anywhere("app");
        authorize(catalog, &app, privilege, object).map_or_else(|e| e.code().errno(), |()| 0)
    }

    #[test]
    fn a_grant_covers_what_is_below_it_and_nothing_else() {
        let catalog = catalog(&[
            (GrantObject::Database("d".to_owned()), Privilege::Select),
            (GrantObject::Table("e".to_owned(), "t".to_owned()), Privilege::Insert),
        ]);
        let select = |object| errno(&catalog, Privilege::Select, object);
        assert_eq!(select(Object::Table("d", "any")), 0);
        assert_eq!(select(Object::Database("d")), 0);
        assert_eq!(select(Object::Table("e", "t")), 1142);
        assert_eq!(select(Object::Database("e")), 1044);
        assert_eq!(select(Object::Server), 1227);
        assert_eq!(errno(&catalog, Privilege::Insert, Object::Table("e", "t")), 0);
        assert_eq!(errno(&catalog, Privilege::Insert, Object::Table("e", "u")), 1142);
        assert_eq!(errno(&catalog, Privilege::Drop, Object::Table("d", "t")), 1142);
        let app = Account::anywhere("app");
        assert!(may_see_database(&catalog, &app, "e"));
        assert!(!may_see_database(&catalog, &app, "f"));
        let sees = |database, table| may_see_table(&catalog, &app, database, table);
        assert!(sees("d", "any") && sees("e", "t"));
        assert!(!sees("e", "u") && !sees("f", "t"));
    }

    #[test]
    fn everybody_reads_the_information_schema_and_nobody_writes_it() {
        let catalog = catalog(&[]);
        let tables = Object::Table("information_schema", "TABLES");
        assert_eq!(errno(&catalog, Privilege::Select, tables), 0);
        assert_eq!(errno(&catalog, Privilege::Insert, tables), 1142);
    }

    #[test]
    fn a_dropped_account_may_nothing() {
        let catalog = catalog(&[(GrantObject::Server, Privilege::Select)]);
        let gone = Account::anywhere("gone");
        assert!(authorize(&catalog, &gone, Privilege::Select, Object::Database("d")).is_err());
    }

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
