//! Rows of system tables about accounts, their roles and privileges: those of accounts that the
//! user may see.

use freshet_meta::{Account, GrantObject, Privilege, Privileges, User};

use super::catalog::CATALOG;
use super::{Cell, SystemTables};

/// The columns of privileges of `mysql.user`, in its order; `None` for what nobody can have here.
const OF_SERVER: [Option<Privilege>; 29] = [
    Some(Privilege::Select),
    Some(Privilege::Insert),
    Some(Privilege::Update),
    Some(Privilege::Delete),
    Some(Privilege::Create),
    Some(Privilege::Drop),
    Some(Privilege::Reload),
    None,
    Some(Privilege::Process),
    Some(Privilege::File),
    Some(Privilege::GrantOption),
    None,
    Some(Privilege::Index),
    Some(Privilege::Alter),
    Some(Privilege::ShowDatabases),
    Some(Privilege::Super),
    None,
    None,
    None,
    None,
    None,
    Some(Privilege::CreateView),
    Some(Privilege::ShowView),
    None,
    None,
    Some(Privilege::CreateUser),
    None,
    None,
    None,
];

/// The same of `mysql.db`.
const OF_DATABASE: [Option<Privilege>; 19] = [
    Some(Privilege::Select),
    Some(Privilege::Insert),
    Some(Privilege::Update),
    Some(Privilege::Delete),
    Some(Privilege::Create),
    Some(Privilege::Drop),
    Some(Privilege::GrantOption),
    None,
    Some(Privilege::Index),
    Some(Privilege::Alter),
    None,
    None,
    Some(Privilege::CreateView),
    Some(Privilege::ShowView),
    None,
    None,
    None,
    None,
    None,
];

fn users<'a>(system: &'a SystemTables<'_>) -> impl Iterator<Item = &'a User> {
    let users = system.snapshot.catalog.users();
    users.filter(|user| system.source.may_see_account(&user.account)).map(AsRef::as_ref)
}

fn y_or_n(has: bool) -> Cell {
    (if has { "Y" } else { "N" }).into()
}

pub fn yes_or_no(yes: bool) -> Cell {
    (if yes { "YES" } else { "NO" }).into()
}

/// A set of privileges as the system tables of MySQL have it: `Select,Insert`.
fn set_of(privileges: Privileges) -> Cell {
    let names = privileges.iter().map(|one| match one {
        Privilege::GrantOption => "Grant".to_owned(),
        _ => {
            let (first, rest) = one.name().split_at(1);
            first.to_owned() + &rest.to_lowercase()
        }
    });
    names.collect::<Vec<_>>().join(",").as_str().into()
}

pub fn user_privileges(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for user in users(system) {
        let granted = user.granted(&GrantObject::Server);
        rows.extend(each(granted).map(|privilege| {
            vec![
                user.account.to_string().into(),
                CATALOG.into(),
                privilege.name().into(),
                yes_or_no(granted.has(Privilege::GrantOption)),
            ]
        }));
    }
    rows
}

/// Those that have a row of their own in `information_schema`.
pub fn each(privileges: Privileges) -> impl Iterator<Item = Privilege> {
    privileges.iter().filter(|one| *one != Privilege::GrantOption)
}

pub fn schema_privileges(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (user, database, privileges) in of_databases(system) {
        rows.extend(each(privileges).map(|privilege| {
            vec![
                user.account.to_string().into(),
                CATALOG.into(),
                database.into(),
                privilege.name().into(),
                yes_or_no(privileges.has(Privilege::GrantOption)),
            ]
        }));
    }
    rows
}

pub fn table_privileges(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (user, database, table, privileges) in of_tables(system) {
        rows.extend(each(privileges).map(|privilege| {
            vec![
                user.account.to_string().into(),
                CATALOG.into(),
                database.into(),
                table.into(),
                privilege.name().into(),
                yes_or_no(privileges.has(Privilege::GrantOption)),
            ]
        }));
    }
    rows
}

fn of_databases<'a>(
    system: &'a SystemTables<'_>,
) -> impl Iterator<Item = (&'a User, &'a str, Privileges)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(move |grant| {
            let GrantObject::Database(database) = &grant.object else { return None };
            Some((user, database.as_str(), grant.privileges))
        })
    })
}

fn of_tables<'a>(
    system: &'a SystemTables<'_>,
) -> impl Iterator<Item = (&'a User, &'a str, &'a str, Privileges)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(move |grant| {
            let GrantObject::Table(database, table) = &grant.object else { return None };
            Some((user, database.as_str(), table.as_str(), grant.privileges))
        })
    })
}

/// `mysql.db`.
pub fn db(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let row = |(user, database, privileges): (&User, &str, Privileges)| {
        let Account { name, host } = &user.account;
        let account = [host.as_str().into(), database.into(), name.as_str().into()];
        account.into_iter().chain(flags(&OF_DATABASE, privileges)).collect()
    };
    of_databases(system).map(row).collect()
}

fn flags(columns: &[Option<Privilege>], granted: Privileges) -> impl Iterator<Item = Cell> {
    let has = move |column: &Option<Privilege>| column.is_some_and(|one| granted.has(one));
    columns.iter().map(move |column| y_or_n(has(column)))
}

/// `mysql.tables_priv`.
pub fn tables_priv(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let row = |(user, database, table, privileges): (&User, &str, &str, Privileges)| {
        let Account { name, host } = &user.account;
        vec![
            host.as_str().into(),
            database.into(),
            name.as_str().into(),
            table.into(),
            "".into(),
            Cell::Null,
            set_of(privileges),
            "".into(),
        ]
    };
    of_tables(system).map(row).collect()
}

/// Privileges on columns, of accounts that the user may see.
fn of_columns<'a>(
    system: &'a SystemTables<'_>,
) -> impl Iterator<Item = (&'a Account, [&'a str; 3], Privileges, bool)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(|grant| {
            let GrantObject::Column(database, table, column) = &grant.object else { return None };
            let of_table = GrantObject::Table(database.clone(), table.clone());
            let is_grantable = user.granted(&of_table).has(Privilege::GrantOption);
            Some((&user.account, [&**database, table, column], grant.privileges, is_grantable))
        })
    })
}

pub fn column_privileges(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (account, [database, table, column], privileges, is_grantable) in of_columns(system) {
        for privilege in privileges.iter() {
            rows.push(vec![
                account.to_string().into(),
                CATALOG.into(),
                database.into(),
                table.into(),
                column.into(),
                privilege.name().into(),
                yes_or_no(is_grantable),
            ]);
        }
    }
    rows
}

/// `mysql.columns_priv`.
pub fn columns_priv(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let row = |(account, [database, table, column], privileges, _): (
        &Account,
        [&str; 3],
        Privileges,
        bool,
    )| {
        vec![
            account.host.as_str().into(),
            database.into(),
            account.name.as_str().into(),
            table.into(),
            column.into(),
            Cell::Null,
            set_of(privileges),
        ]
    };
    of_columns(system).map(row).collect()
}

/// `mysql.role_edges`: which roles were granted to which accounts.
pub fn role_edges(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let users = system.snapshot.catalog.users();
    users
        .flat_map(|user| {
            user.roles.iter().map(|granted| {
                vec![
                    granted.role.host.as_str().into(),
                    granted.role.name.as_str().into(),
                    user.account.host.as_str().into(),
                    user.account.name.as_str().into(),
                    y_or_n(granted.admin),
                ]
            })
        })
        .collect()
}

/// `mysql.default_roles`.
pub fn default_roles(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let users = system.snapshot.catalog.users();
    users
        .flat_map(|user| {
            user.default_roles.iter().map(|role| {
                vec![
                    user.account.host.as_str().into(),
                    user.account.name.as_str().into(),
                    role.host.as_str().into(),
                    role.name.as_str().into(),
                ]
            })
        })
        .collect()
}

/// Accounts; they have no comments or attributes.
pub fn attributes(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let row = |user: &User| {
        vec![user.account.name.as_str().into(), user.account.host.as_str().into(), Cell::Null]
    };
    users(system).map(row).collect()
}

/// `mysql.user`.
pub fn user(system: &SystemTables<'_>) -> Vec<Vec<Cell>> {
    let row = |user: &User| {
        let (account, options) = (&user.account, &user.options);
        let mut row = vec![account.host.as_str().into(), account.name.as_str().into()];
        row.extend(flags(&OF_SERVER, user.granted(&GrantObject::Server)));
        row.extend([
            Cell::Int(options.limits.queries_per_hour.into()),
            Cell::Int(options.limits.updates_per_hour.into()),
            Cell::Int(options.limits.connections_per_hour.into()),
            Cell::Int(options.limits.connections.into()),
            "caching_sha2_password".into(),
            // Password hashes are never displayed.
            "".into(),
            y_or_n(options.is_expired),
            match options.lifetime_days {
                0 => Cell::Null,
                days => Cell::Int(days.into()),
            },
            y_or_n(user.locked || options.is_locked),
        ]);
        row
    };
    users(system).map(row).collect()
}
