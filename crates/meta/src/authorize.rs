//! Authorization: checks whether a user may perform an action.

use freshet_base::{Result, bail};

use crate::catalog::{Catalog, INFORMATION_SCHEMA, is_reserved_database};
use crate::privilege::{Privilege, Privileges};
use crate::user::{Account, GrantObject};

/// The object of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object<'a> {
    Server,
    /// A database; for [`Privilege::ShowDatabases`] a privilege on any object in it suffices.
    Database(&'a str),
    /// The names of the database and the table.
    Table(&'a str, &'a str),
}

/// Checks that `account` may do this. A grant on the server applies to all databases, one on a
/// database to all its tables; `information_schema` is readable by everybody.
///
/// # Errors
/// 1227, 1044 or 1142 if not. A dropped account has no privileges.
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

/// Checks that `by` may alter, drop or rename the account `target`, or create an account that takes
/// precedence over it: besides CREATE USER, `by` needs all privileges on the server that `target`
/// has there. Otherwise CREATE USER would suffice to set the password of `root`, and so to become
/// `root`; MySQL has SYSTEM_USER for this.
///
/// # Errors
/// 1227.
pub(crate) fn authorize_over(catalog: &Catalog, by: &Account, target: &Account) -> Result<()> {
    authorize(catalog, by, Privilege::CreateUser, Object::Server)?;
    require_rank(catalog, by, target)
}

/// Checks that `by` has all privileges on the server that `target` has there.
///
/// # Errors
/// 1227, with a missing privilege.
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

/// Whether the account has any privilege on the database or an object in it. Otherwise the database
/// is invisible to it and cannot be its current one.
pub fn may_see_database(catalog: &Catalog, account: &Account, database: &str) -> bool {
    is_reserved_database(database)
        || catalog.user(account).is_some_and(|user| {
            user.grants.iter().any(|grant| match &grant.object {
                GrantObject::Server => !grant.privileges.is_empty(),
                GrantObject::Database(name) | GrantObject::Table(name, _) => name == database,
            })
        })
}

/// Rejects accounts that cannot see the database, with the same error whether or not it exists.
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

/// Whether the account has any privilege on the table; otherwise the table is not listed for it.
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
}
