//! Rows of system tables about accounts, their roles and privileges: those of accounts that the
//! user may see.

use freshet_meta::{Account, GrantObject, Privilege, Privileges, TlsRequirement, User};

use super::catalog::CATALOG;
use super::{Cell, SystemTables};

fn users(system: &SystemTables) -> impl Iterator<Item = &User> {
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

/// Those that have a row of their own in `information_schema`.
pub fn each(privileges: Privileges) -> impl Iterator<Item = Privilege> {
    privileges.iter().filter(|one| *one != Privilege::GrantOption)
}

/// Rows of `information_schema` about what an account may do with a thing of this name: a database,
/// its table and a column of that, or the server, which has none.
fn rows<'a>(
    account: &'a Account,
    thing: &'a [&str],
    privileges: Privileges,
    is_grantable: bool,
) -> impl Iterator<Item = Vec<Cell>> + use<'a> {
    // Of ALL on a database or a table, what such a thing can have.
    let privileges = match thing.len() {
        0 => privileges,
        1 => privileges.without(Privileges::of_server_alone()),
        _ => privileges.within(Privileges::of_tables()),
    };
    each(privileges).map(move |privilege| {
        let mut row = vec![account.to_string().into(), CATALOG.into()];
        row.extend(thing.iter().map(|name| Cell::from(*name)));
        row.extend([privilege.name().into(), yes_or_no(is_grantable)]);
        row
    })
}

/// The same of somebody who may hand on with the right itself.
fn rows_of(user: &User, thing: &[&str], granted: Privileges) -> Vec<Vec<Cell>> {
    rows(&user.account, thing, granted, granted.has(Privilege::GrantOption)).collect()
}

pub fn user_privileges(system: &SystemTables) -> Vec<Vec<Cell>> {
    users(system).flat_map(|user| rows_of(user, &[], user.granted(&GrantObject::Server))).collect()
}

pub fn schema_privileges(system: &SystemTables) -> Vec<Vec<Cell>> {
    of_databases(system)
        .flat_map(|(user, database, granted)| rows_of(user, &[database], granted))
        .collect()
}

pub fn table_privileges(system: &SystemTables) -> Vec<Vec<Cell>> {
    of_tables(system)
        .flat_map(|(user, database, table, granted)| rows_of(user, &[database, table], granted))
        .collect()
}

pub fn column_privileges(system: &SystemTables) -> Vec<Vec<Cell>> {
    let all = |(account, column, granted, is_grantable): (&Account, [&str; 3], _, _)| {
        rows(account, &column, granted, is_grantable).collect::<Vec<_>>()
    };
    of_columns(system).flat_map(all).collect()
}

fn of_databases(system: &SystemTables) -> impl Iterator<Item = (&User, &str, Privileges)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(move |grant| {
            let GrantObject::Database(database) = &grant.object else { return None };
            Some((user, database.as_str(), grant.privileges))
        })
    })
}

fn of_tables(system: &SystemTables) -> impl Iterator<Item = (&User, &str, &str, Privileges)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(move |grant| {
            let GrantObject::Table(database, table) = &grant.object else { return None };
            Some((user, database.as_str(), table.as_str(), grant.privileges))
        })
    })
}

/// `mysql.db`, which has these columns.
pub fn db(system: &SystemTables, columns: &[&str]) -> Vec<Vec<Cell>> {
    let row = |(user, database, privileges): (&User, &str, Privileges)| {
        let Account { name, host } = &user.account;
        let account = [host.as_str().into(), database.into(), name.as_str().into()];
        account.into_iter().chain(flags(columns, privileges)).collect()
    };
    of_databases(system).map(row).collect()
}

/// Y or N for each of the columns that is named after a privilege, as `Select_priv` is.
fn flags(columns: &[&str], granted: Privileges) -> impl Iterator<Item = Cell> {
    let names = columns.iter().filter_map(|column| column.strip_suffix("_priv"));
    names.map(move |name| y_or_n(named(name).is_some_and(|one| granted.has(one))))
}

/// The privilege that a column of flags is named after; `None` for what nobody can have here.
fn named(flag: &str) -> Option<Privilege> {
    match flag {
        "Grant" => Some(Privilege::GrantOption),
        "Show_db" => Some(Privilege::ShowDatabases),
        "Create_tmp_table" => Some(Privilege::CreateTemporaryTables),
        "Repl_slave" => Some(Privilege::ReplicationSlave),
        "Repl_client" => Some(Privilege::ReplicationClient),
        _ => {
            let name = flag.replace('_', " ").to_uppercase();
            Privilege::ALL.iter().find(|one| one.name() == name).copied()
        }
    }
}

/// `mysql.tables_priv`.
pub fn tables_priv(system: &SystemTables) -> Vec<Vec<Cell>> {
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
fn of_columns(
    system: &SystemTables,
) -> impl Iterator<Item = (&Account, [&str; 3], Privileges, bool)> {
    users(system).flat_map(|user| {
        user.grants.iter().filter_map(|grant| {
            let GrantObject::Column(database, table, column) = &grant.object else { return None };
            let of_table = GrantObject::Table(database.clone(), table.clone());
            let is_grantable = user.granted(&of_table).has(Privilege::GrantOption);
            Some((&user.account, [&**database, table, column], grant.privileges, is_grantable))
        })
    })
}

/// `mysql.columns_priv`.
pub fn columns_priv(system: &SystemTables) -> Vec<Vec<Cell>> {
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
pub fn role_edges(system: &SystemTables) -> Vec<Vec<Cell>> {
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
pub fn default_roles(system: &SystemTables) -> Vec<Vec<Cell>> {
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

/// `user_attributes`: what COMMENT and ATTRIBUTE say of accounts.
pub fn attributes(system: &SystemTables) -> Vec<Vec<Cell>> {
    let row = |user: &User| {
        let attributes = user.attributes.as_deref();
        vec![
            user.account.name.as_str().into(),
            user.account.host.as_str().into(),
            attributes.into(),
        ]
    };
    users(system).map(row).collect()
}

/// An instant in seconds since 1970.
fn instant(seconds: u64) -> Cell {
    Cell::Time(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
}

fn number(number: Option<u16>) -> Cell {
    number.map_or(Cell::Null, |number| Cell::Int(number.into()))
}

/// `mysql.password_history`: when the passwords were set that accounts remember.
pub fn password_history(system: &SystemTables) -> Vec<Vec<Cell>> {
    let rows = users(system).flat_map(|user| {
        user.past.iter().map(|past| {
            vec![
                user.account.host.as_str().into(),
                user.account.name.as_str().into(),
                instant(past.changed_seconds),
                // Password hashes are never displayed.
                "".into(),
            ]
        })
    });
    rows.collect()
}

/// What `mysql.user` has of COMMENT and ATTRIBUTE, and whether there is a second password.
fn shown_attributes(user: &User) -> Option<String> {
    let metadata = user.attributes.as_ref().map(|text| format!("\"metadata\": {text}"));
    // As of the first password, its hash is not displayed.
    let second = user.second.as_ref().map(|_| "\"additional_password\": \"\"".to_owned());
    let shown = metadata.into_iter().chain(second).collect::<Vec<_>>();
    (!shown.is_empty()).then(|| format!("{{{}}}", shown.join(", ")))
}

/// `mysql.user`, which has these columns.
pub fn user(system: &SystemTables, columns: &[&str]) -> Vec<Vec<Cell>> {
    // Behind the columns of TLS and limits are flags of privileges that came later.
    let of_tls = columns.iter().position(|name| *name == "ssl_type");
    let row = |user: &User| {
        let (account, options) = (&user.account, &user.options);
        let mut row = vec![account.host.as_str().into(), account.name.as_str().into()];
        let granted = user.granted(&GrantObject::Server);
        let (first, later) = columns.split_at(of_tls.unwrap_or(columns.len()));
        row.extend(flags(first, granted));
        row.extend([
            match user.auth.tls {
                TlsRequirement::None => "",
                TlsRequirement::Ssl => "ANY",
                TlsRequirement::X509 => "X509",
            }
            .into(),
            "".into(),
            "".into(),
            "".into(),
            Cell::Int(options.limits.queries_per_hour.into()),
            Cell::Int(options.limits.updates_per_hour.into()),
            Cell::Int(options.limits.connections_per_hour.into()),
            Cell::Int(options.limits.connections.into()),
            "caching_sha2_password".into(),
            // Password hashes are never displayed.
            "".into(),
            y_or_n(options.is_expired),
            match user.auth.changed_seconds {
                0 => Cell::Null,
                seconds => instant(seconds),
            },
            match options.lifetime_days {
                0 => Cell::Null,
                days => Cell::Int(days.into()),
            },
            y_or_n(user.locked || options.is_locked),
        ]);
        row.extend(flags(later, granted));
        row.extend([
            number(options.reuse.history),
            number(options.reuse.days),
            options.requires_current.map_or(Cell::Null, y_or_n),
            shown_attributes(user).into(),
        ]);
        row
    };
    users(system).map(row).collect()
}
