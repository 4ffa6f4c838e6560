//! Authorization: checks whether a user may perform an action.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};

use crate::catalog::{Catalog, INFORMATION_SCHEMA, PERFORMANCE_SCHEMA, is_reserved_database};
use crate::privilege::{Privilege, Privileges};
use crate::user::{Account, Grant, GrantObject, User};
use crate::workload::NORMAL_GROUP;

/// The object of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object<'a> {
    Server,
    /// A database; for [`Privilege::ShowDatabases`] a privilege on any object in it suffices.
    Database(&'a str),
    /// The names of the database and the table.
    Table(&'a str, &'a str),
}

/// Who does something: an account, by its own rights and those of roles.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    pub account: &'a Account,
    pub roles: ActiveRoles<'a>,
}

/// The roles whose rights an account has. One that is not granted to it any more gives none.
#[derive(Clone, Copy, Debug)]
pub enum ActiveRoles<'a> {
    /// Its default roles, as behind a login.
    Default,
    /// All that are granted to it.
    All,
    These(&'a [Account]),
}

impl<'a> From<&'a Account> for Actor<'a> {
    fn from(account: &'a Account) -> Self {
        Self { account, roles: ActiveRoles::Default }
    }
}

impl Actor<'_> {
    /// Whether one of its grants passes `test`: of the account, of its active roles, or of roles
    /// that were granted to these.
    fn has_grant(self, catalog: &Catalog, test: impl Fn(&Grant) -> bool) -> bool {
        // A dropped account has no rights.
        let Some(user) = catalog.user(self.account) else { return false };
        user.grants.iter().any(&test)
            || self.active(user).any(|role| {
                with_granted(catalog, role).iter().any(|role| role.grants.iter().any(&test))
            })
    }

    /// Whether it may run queries in a workload group: everybody may in the normal one, others
    /// are granted, and who has SUPER may in all.
    pub fn may_use_group(self, catalog: &Catalog, group: &str) -> bool {
        if group == NORMAL_GROUP {
            return true;
        }
        let Some(user) = catalog.user(self.account) else { return false };
        user.is_granted_group(group)
            || self.active(user).any(|role| {
                with_granted(catalog, role).iter().any(|role| role.is_granted_group(group))
            })
            || authorize(catalog, self, Privilege::Super, Object::Server).is_ok()
    }

    fn active(self, user: &User) -> impl Iterator<Item = &Account> {
        let is_active = move |role: &&Account| match self.roles {
            ActiveRoles::Default => user.default_roles.contains(role),
            ActiveRoles::All => true,
            ActiveRoles::These(roles) => roles.contains(role),
        };
        user.roles.iter().map(|granted| &granted.role).filter(is_active)
    }

    /// Its privileges on the server.
    fn on_server(self, catalog: &Catalog) -> Privileges {
        let Some(user) = catalog.user(self.account) else { return Privileges::NONE };
        let of = |user: &Arc<User>| user.granted(&GrantObject::Server);
        let roles = self.active(user).flat_map(|role| with_granted(catalog, role));
        roles.fold(of(user), |all, role| all.and(of(&role)))
    }
}

/// A role, and all that were granted to it, directly or by way of others.
pub(crate) fn with_granted(catalog: &Catalog, role: &Account) -> Vec<Arc<User>> {
    let mut all: Vec<Arc<User>> = catalog.user(role).into_iter().cloned().collect();
    let mut at = 0;
    while let Some(user) = all.get(at).cloned() {
        for granted in &user.roles {
            if !all.iter().any(|known| known.account == granted.role) {
                all.extend(catalog.user(&granted.role).cloned());
            }
        }
        at += 1;
    }
    all
}

/// Checks that `actor` may do this. A grant on the server applies to all databases, one on a
/// database to all its tables; `information_schema` and `performance_schema`, which show each
/// account what it may see, are readable by everybody.
///
/// # Errors
/// 1227, 1044 or 1142 if not.
pub fn authorize<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    privilege: Privilege,
    object: Object<'_>,
) -> Result<()> {
    if is_open_to_all(privilege, object) {
        return Ok(());
    }
    let actor = actor.into();
    let allows = |grant: &Grant| grant.privileges.has(privilege) && covers(&grant.object, object);
    match actor.has_grant(catalog, allows) {
        true => Ok(()),
        false => refuse(actor.account, privilege, object),
    }
}

/// Checks that `by` may alter, drop or rename the account `target`, or create an account that takes
/// precedence over it: besides CREATE USER, `by` needs all privileges on the server that `target`
/// has there. Otherwise CREATE USER would suffice to set the password of `root`, and so to become
/// `root`; MySQL has SYSTEM_USER for this.
///
/// # Errors
/// 1227.
pub(crate) fn authorize_over(catalog: &Catalog, by: Actor<'_>, target: &Account) -> Result<()> {
    authorize(catalog, by, Privilege::CreateUser, Object::Server)?;
    require_rank(catalog, by, target)
}

/// Checks that `by` has all privileges on the server that `target` has there, by any of its roles.
///
/// # Errors
/// 1227, with a missing privilege.
pub(crate) fn require_rank(catalog: &Catalog, by: Actor<'_>, target: &Account) -> Result<()> {
    let over = Actor { account: target, roles: ActiveRoles::All };
    match over.on_server(catalog).without(by.on_server(catalog)).iter().next() {
        None => Ok(()),
        Some(missing) => bail!(
            PrivilegeMissing,
            "Access denied; you need the {} privilege on *.* for this operation, because \
             {target} has it",
            missing.name()
        ),
    }
}

/// Whether the actor has any privilege on the database or an object in it, or SHOW DATABASES. Who
/// has only others on the server, such as PROCESS, has none. Otherwise the database is invisible to
/// it and cannot be its current one.
pub fn may_see_database<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    database: &str,
) -> bool {
    is_reserved_database(database)
        || actor.into().has_grant(catalog, |grant| match &grant.object {
            GrantObject::Server => {
                grant.privileges.has(Privilege::ShowDatabases)
                    || grant.privileges.has_any_of_tables()
            }
            GrantObject::Database(name)
            | GrantObject::Table(name, _)
            | GrantObject::Column(name, ..) => name == database,
        })
}

/// Rejects actors that cannot see the database, with the same error whether or not it exists.
///
/// # Errors
/// 1044.
pub fn require_visible<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    database: &str,
) -> Result<()> {
    let actor = actor.into();
    match may_see_database(catalog, actor, database) {
        true => Ok(()),
        false => bail!(
            AccessDeniedDatabase,
            "Access denied for user {} to database '{database}'",
            actor.account
        ),
    }
}

/// Whether the actor has any privilege on the table; otherwise the table is not listed for it.
pub fn may_see_table<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    database: &str,
    table: &str,
) -> bool {
    actor.into().has_grant(catalog, |grant| {
        let is_of = covers(&grant.object, Object::Table(database, table))
            || grant.object.is_column_of(database, table);
        grant.privileges.has_any_of_tables() && is_of
    })
}

/// On which columns of a table somebody has a privilege.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnRights {
    All,
    /// On these, in lower case; at least one.
    These(BTreeSet<String>),
}

impl ColumnRights {
    pub fn has(&self, column: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(columns) => columns.contains(&column.to_lowercase()),
        }
    }
}

/// The columns of a table on which the actor has any privilege; others are not listed for it.
/// `None` if there are none.
pub fn seen_columns<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    (database, table): (&str, &str),
) -> Option<ColumnRights> {
    // CREATE or DROP of a table tells nothing of its columns.
    const TELL: [Privilege; 5] = [
        Privilege::Select,
        Privilege::Insert,
        Privilege::Update,
        Privilege::Delete,
        Privilege::Alter,
    ];
    let columns = RefCell::new(BTreeSet::new());
    let sees_all = actor.into().has_grant(catalog, |grant| {
        if let GrantObject::Column(_, _, column) = &grant.object
            && grant.object.is_column_of(database, table)
            && !grant.privileges.is_empty()
        {
            columns.borrow_mut().insert(column.to_lowercase());
        }
        let tells = TELL.iter().any(|privilege| grant.privileges.has(*privilege));
        tells && covers(&grant.object, Object::Table(database, table))
    });
    if sees_all {
        return Some(ColumnRights::All);
    }
    let columns = columns.into_inner();
    (!columns.is_empty()).then_some(ColumnRights::These(columns))
}

/// On which columns of a table `actor` has a privilege.
///
/// # Errors
/// Those of [`authorize`] where it has it on none.
pub fn authorize_columns<'a>(
    catalog: &Catalog,
    actor: impl Into<Actor<'a>>,
    privilege: Privilege,
    (database, table): (&str, &str),
) -> Result<ColumnRights> {
    let actor = actor.into();
    let refused = match authorize(catalog, actor, privilege, Object::Table(database, table)) {
        Ok(()) => return Ok(ColumnRights::All),
        Err(refused) => refused,
    };
    let columns = RefCell::new(BTreeSet::new());
    actor.has_grant(catalog, |grant| {
        if let GrantObject::Column(_, _, column) = &grant.object
            && grant.object.is_column_of(database, table)
            && grant.privileges.has(privilege)
        {
            columns.borrow_mut().insert(column.to_lowercase());
        }
        false
    });
    let columns = columns.into_inner();
    if columns.is_empty() { Err(refused) } else { Ok(ColumnRights::These(columns)) }
}

/// 1143 in MySQL's words.
pub fn column_denied(account: &Account, privilege: Privilege, column: &str, table: &str) -> Error {
    err!(
        ColumnAccessDenied,
        "{} command denied to user {account} for column '{column}' in table '{table}'",
        privilege.name()
    )
}

fn is_open_to_all(privilege: Privilege, object: Object<'_>) -> bool {
    match object {
        Object::Server => false,
        Object::Database(database) | Object::Table(database, _) => {
            let open = [INFORMATION_SCHEMA, PERFORMANCE_SCHEMA];
            privilege == Privilege::Select && open.iter().any(|o| o.eq_ignore_ascii_case(database))
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
    use crate::user::{AuthData, GrantedRole};

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
    fn active_roles_give_their_rights_while_they_are_granted() {
        let mut catalog = catalog(&[]);
        let (reader, writer) = (Account::anywhere("reader"), Account::anywhere("writer"));
        let role = |account: &Account, privilege| {
            let privileges = Privileges::NONE.with(privilege);
            let user = User::new(account.clone(), AuthData::default());
            user.with_grant(GrantObject::Database("d".to_owned()), privileges)
        };
        let granted = |role: &Account| GrantedRole { role: role.clone(), admin: false };
        let mut writing = role(&writer, Privilege::Insert);
        writing.roles = vec![granted(&reader)];
        catalog.put_user(writing);
        // A circle of roles, which DDL refuses, ends here too.
        let mut reading = role(&reader, Privilege::Select);
        reading.roles = vec![granted(&writer)];
        catalog.put_user(reading);
        let app = Account::anywhere("app");
        let may = |catalog: &Catalog, roles, privilege| {
            let actor = Actor { account: &app, roles };
            authorize(catalog, actor, privilege, Object::Table("d", "t")).is_ok()
        };
        let active = [writer.clone()];
        assert!(!may(&catalog, ActiveRoles::These(&active), Privilege::Select));
        let mut user = catalog.user(&app).unwrap().as_ref().clone();
        user.roles = vec![granted(&writer)];
        catalog.put_user(user.clone());
        assert!(may(&catalog, ActiveRoles::These(&active), Privilege::Select));
        assert!(may(&catalog, ActiveRoles::All, Privilege::Insert));
        assert!(!may(&catalog, ActiveRoles::All, Privilege::Delete));
        assert!(!may(&catalog, ActiveRoles::These(&[]), Privilege::Insert));
        assert!(!may(&catalog, ActiveRoles::Default, Privilege::Insert));
        user.default_roles = vec![writer.clone()];
        catalog.put_user(user.clone());
        assert!(may(&catalog, ActiveRoles::Default, Privilege::Insert));
        user.roles.clear();
        catalog.put_user(user);
        assert!(!may(&catalog, ActiveRoles::Default, Privilege::Insert));
    }
}
