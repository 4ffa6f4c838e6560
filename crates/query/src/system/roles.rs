//! Rows of system tables about the roles of the user.

use std::collections::BTreeSet;

use freshet_meta::{Account, GrantObject, GrantedRole, Privilege, Privileges, User};

use super::accounts::{each, yes_or_no};
use super::catalog::CATALOG;
use super::{Cell, SystemTables};

fn user<'a>(system: &'a SystemTables, account: &Account) -> Option<&'a User> {
    system.snapshot.catalog.user(account).map(AsRef::as_ref)
}

/// Which roles were granted to which accounts and roles, from the user on; each grant once.
fn granted(system: &SystemTables) -> Vec<(&User, &GrantedRole)> {
    let (mut seen, mut all) = (BTreeSet::new(), Vec::new());
    let mut holders = vec![system.source.account()];
    while let Some(account) = holders.pop() {
        let Some(holder) = user(system, account).filter(|_| seen.insert(account)) else { continue };
        for role in &holder.roles {
            all.push((holder, role));
            holders.push(&role.role);
        }
    }
    all
}

/// The roles that are active, and those that were granted to them.
fn active(system: &SystemTables) -> BTreeSet<&Account> {
    let held = user(system, system.source.account());
    let is_held = |role: &&Account| held.is_some_and(|user| user.holds(role));
    let mut roles = system.source.roles().iter().filter(is_held).collect::<Vec<_>>();
    let mut all = BTreeSet::new();
    while let Some(role) = roles.pop() {
        let Some(user) = user(system, role).filter(|_| all.insert(role)) else { continue };
        roles.extend(user.roles.iter().map(|granted| &granted.role));
    }
    all
}

fn is_default(system: &SystemTables, role: &Account) -> bool {
    let user = user(system, system.source.account());
    user.is_some_and(|user| user.default_roles.contains(role))
}

fn role_rows(system: &SystemTables, is_meant: fn(&GrantedRole) -> bool) -> Vec<Vec<Cell>> {
    let own = system.source.account();
    let granted = granted(system).into_iter().filter(|(_, role)| is_meant(role));
    let row = |(holder, granted): (&User, &GrantedRole)| {
        vec![
            own.name.as_str().into(),
            own.host.as_str().into(),
            holder.account.name.as_str().into(),
            holder.account.host.as_str().into(),
            granted.role.name.as_str().into(),
            granted.role.host.as_str().into(),
            yes_or_no(granted.admin),
            yes_or_no(is_default(system, &granted.role)),
            "NO".into(),
        ]
    };
    granted.map(row).collect()
}

pub fn applicable(system: &SystemTables) -> Vec<Vec<Cell>> {
    role_rows(system, |_| true)
}

pub fn administrable(system: &SystemTables) -> Vec<Vec<Cell>> {
    role_rows(system, |granted| granted.admin)
}

pub fn enabled(system: &SystemTables) -> Vec<Vec<Cell>> {
    let row = |role: &Account| {
        vec![
            role.name.as_str().into(),
            role.host.as_str().into(),
            yes_or_no(is_default(system, role)),
            "NO".into(),
        ]
    };
    active(system).into_iter().map(row).collect()
}

/// The first cells of a grant; who granted it is not known.
fn grant_row(role: &User) -> Vec<Cell> {
    let grantee = [role.account.name.as_str().into(), role.account.host.as_str().into()];
    let grantor = [Cell::Null, Cell::Null];
    grantor.into_iter().chain(grantee).chain([CATALOG.into()]).collect()
}

/// Privileges on tables of active roles.
pub fn table_grants(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for role in active(system).into_iter().filter_map(|role| user(system, role)) {
        for grant in &role.grants {
            let GrantObject::Table(database, table) = &grant.object else { continue };
            let granted = grant.privileges.within(Privileges::of_tables());
            let names = each(granted).map(Privilege::name).collect::<Vec<_>>();
            let mut row = grant_row(role);
            row.extend([
                database.as_str().into(),
                table.as_str().into(),
                names.join(",").into(),
                yes_or_no(grant.privileges.has(Privilege::GrantOption)),
            ]);
            rows.push(row);
        }
    }
    rows
}

/// Privileges on columns of active roles.
pub fn column_grants(system: &SystemTables) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for role in active(system).into_iter().filter_map(|role| user(system, role)) {
        for grant in &role.grants {
            let GrantObject::Column(database, table, column) = &grant.object else { continue };
            let of_table = GrantObject::Table(database.clone(), table.clone());
            let granted = grant.privileges.within(Privileges::of_tables());
            let names = each(granted).map(Privilege::name).collect::<Vec<_>>();
            let mut row = grant_row(role);
            row.extend([
                database.as_str().into(),
                table.as_str().into(),
                column.as_str().into(),
                names.join(",").into(),
                yes_or_no(role.granted(&of_table).has(Privilege::GrantOption)),
            ]);
            rows.push(row);
        }
    }
    rows
}
