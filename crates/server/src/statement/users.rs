//! CREATE, ALTER, RENAME and DROP USER, GRANT and REVOKE.

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_meta::{
    Account, AuthData, DefaultRoles, GrantObject, Object, Privilege, Privileges, Remembered,
    SecondPassword, User, UserAdmin, UserOption, UserOptions, column_denied,
};
use freshet_query::parser::{
    Authentication, GrantStatement, GrantTarget, Statement, UserClauses, own_account,
};
use freshet_wire::auth::{AuthPlugin, Scramble};

use crate::auth;
use crate::reply::Reply;
use crate::session::{Session, seconds};
use crate::show::answer_rows;
use crate::show::listing::Listing;

/// Runs a statement about users or privileges.
///
/// # Errors
/// Missing privileges, existing or missing users.
pub async fn change(session: &mut Session, statement: &Statement) -> Result<Reply> {
    let by = session.client.clone();
    match statement {
        Statement::CreateUser { clauses, if_not_exists } => {
            let (clauses, made) = with_random(session, clauses);
            let existed = create(session, &clauses, *if_not_exists).await?;
            return Ok(telling(made.into_iter().filter(|(account, _)| !existed.contains(account))));
        }
        Statement::AlterUser { clauses, if_exists } => {
            let clauses = named(session, clauses, *if_exists)?;
            let (clauses, made) = with_random(session, &clauses);
            if !clauses.users.is_empty() {
                alter(session, &clauses).await?;
            }
            return Ok(telling(made.into_iter()));
        }
        Statement::DropUser { users, if_exists } => {
            let (dropped, if_exists) = (users.clone(), *if_exists);
            let missing = run(session, move |admin| {
                let mut missing = Vec::new();
                for account in dropped {
                    if !admin.drop_user(by.actor(), &account, if_exists)? {
                        missing.push(account);
                    }
                }
                Ok(missing)
            })
            .await?;
            forget(session, users);
            for account in missing {
                let note = format!("Authorization ID {account} does not exist.");
                session.diagnostics.push("Note", 3162, note);
            }
        }
        Statement::RenameUsers(pairs) => {
            let renamed = pairs.clone();
            run(session, move |admin| {
                renamed.iter().try_for_each(|(from, to)| admin.rename_user(by.actor(), from, to))
            })
            .await?;
            for (from, to) in pairs {
                forget(session, &[from.clone(), to.clone()]);
            }
        }
        Statement::Grant(granting) => grant(session, granting, true).await?,
        Statement::Revoke(granting) => grant(session, granting, false).await?,
        _ => bail!(NotSupported, "this is no statement about users"),
    }
    Ok(Reply::done())
}

/// The clauses with passwords for those that ask for one, and these.
fn with_random(session: &Session, clauses: &UserClauses) -> (UserClauses, Vec<(Account, String)>) {
    let (mut clauses, mut made) = (clauses.clone(), Vec::new());
    for (account, how) in clauses.users.iter_mut().filter(|(_, how)| how.random) {
        let password = session.shared.random_password();
        made.push((account.clone(), password.clone()));
        how.password = Some(password);
    }
    (clauses, made)
}

/// The answer that tells the passwords that were made; without any it is none.
fn telling(made: impl Iterator<Item = (Account, String)>) -> Reply {
    let mut listing = Listing::new(&["user", "host", "generated password", "#auth_factor"]);
    for (Account { name, host }, password) in made {
        listing.add([&*name, &*host, &*password, "1"]);
    }
    match listing.rows.is_empty() {
        true => Reply::done(),
        false => answer_rows(listing),
    }
}

/// CREATE USER; the accounts that existed.
async fn create(
    session: &mut Session,
    clauses: &UserClauses,
    if_not_exists: bool,
) -> Result<Vec<Account>> {
    session.authorize(Privilege::CreateUser, Object::Server)?;
    let by = session.client.clone();
    let users = identified(session, &clauses.users, None)?;
    let tls = clauses.tls.unwrap_or_default();
    let options = clauses.options.iter();
    let options = options.fold(UserOptions::default(), |all, one| all.with(*one));
    let (about, roles) = (clauses.about.clone(), clauses.roles.clone());
    let existed = run(session, move |admin| {
        let mut existed = Vec::new();
        for NewPassword { account, auth, .. } in users {
            let auth = AuthData { tls, ..auth };
            let mut user = User { options, ..User::new(account.clone(), auth) };
            if let Some(about) = &about {
                user.attributes = auth::attributes::changed(&user, about)?;
            }
            if admin.create_with_options(by.actor(), user, if_not_exists)? {
                existed.push(account);
                continue;
            }
            // As in MySQL, the account gets the roles that are active behind its login.
            if let Some(roles @ DefaultRoles::These(named)) = &roles {
                for role in named {
                    admin.grant_role(by.actor(), role, &account, false)?;
                }
                admin.set_default_roles(by.actor(), &account, roles)?;
            }
        }
        Ok(existed)
    })
    .await?;
    for account in &existed {
        let note = format!("Authorization ID {account} already exists.");
        session.diagnostics.push("Note", 3163, note);
    }
    Ok(existed)
}

/// The clauses of ALTER USER with the accounts that they mean: that of the session where it says
/// so, and with IF EXISTS those that exist, with a note of others.
///
/// # Errors
/// 1227: who may not change others is not told which there are.
fn named(session: &mut Session, clauses: &UserClauses, if_exists: bool) -> Result<UserClauses> {
    let mut clauses = clauses.clone();
    let own = &session.client.account;
    for (account, _) in clauses.users.iter_mut().filter(|(account, _)| *account == own_account()) {
        account.clone_from(own);
    }
    if if_exists && clauses.users.iter().any(|(account, _)| account != own) {
        session.require_password()?;
        session.authorize(Privilege::CreateUser, Object::Server)?;
        let catalog = session.shared.engine.catalog();
        clauses.users.retain(|(account, _)| {
            let exists = catalog.user(account).is_some();
            if !exists {
                let note = format!("Authorization ID {account} does not exist.");
                session.diagnostics.push("Note", 3162, note);
            }
            exists
        });
    }
    Ok(clauses)
}

/// ALTER USER.
async fn alter(session: &mut Session, clauses: &UserClauses) -> Result<()> {
    let UserClauses { users, tls, options, about, .. } = clauses;
    let (tls, by) = (*tls, session.client.clone());
    let own = &session.client.account;
    let only_own = users.iter().all(|(account, _)| account == own);
    let changed = users.iter().filter(|(_, how)| how.sets_password());
    let discarding = users.iter().filter(|(_, how)| how.discards);
    let discarding = discarding.map(|(account, _)| account.clone()).collect::<Vec<_>>();
    // Otherwise who may CREATE USER would have its password never expire, and keep it.
    if !only_own || changed.clone().next().is_none() {
        session.require_password()?;
    }
    if tls.is_some() || !options.is_empty() || about.is_some() || !only_own {
        session.authorize(Privilege::CreateUser, Object::Server)?;
    }
    let accounts = users.iter().map(|(account, _)| account.clone()).collect::<Vec<_>>();
    let is_twice = |at: usize| accounts[..at].contains(&accounts[at]);
    if let Some(at) = (0..accounts.len()).find(|&at| is_twice(at)) {
        bail!(CannotUser, "Operation ALTER USER failed for {}: named twice", accounts[at]);
    }
    let catalog = session.shared.engine.catalog();
    for (account, how) in changed.clone() {
        if let Some(user) = catalog.user(account) {
            auth::current::check(session, user, how.replaces.as_deref())?;
        }
    }
    let passwords = identified(session, changed, Some(options.as_slice()))?;
    let changes_password = !passwords.is_empty();
    let (of, options, about) = (accounts.clone(), options.clone(), about.clone());
    let sets_options = !options.is_empty();
    run(session, move |admin| {
        for account in tls.iter().flat_map(|_| &of) {
            admin.require_tls(by.actor(), account, tls.unwrap_or_default())?;
        }
        for NewPassword { account, auth, remembered, second } in passwords {
            admin.set_password(by.actor(), &account, auth, remembered, second)?;
        }
        for account in &discarding {
            admin.discard_second(by.actor(), account)?;
        }
        for account in &of {
            if !options.is_empty() {
                admin.set_options(by.actor(), account, &options)?;
            }
            if let Some(about) = &about {
                let change = |user: &User| auth::attributes::changed(user, about);
                admin.set_attributes(by.actor(), account, change)?;
            }
        }
        Ok(())
    })
    .await?;
    if sets_options {
        // Those that were locked by wrong passwords are not any more.
        accounts.iter().for_each(|account| session.shared.passwords.forget_failures(account));
    }
    if only_own && changes_password {
        session.must_change_password = false;
    }
    Ok(())
}

/// Forgets what is known of accounts that were dropped: new ones of their names begin anew.
pub(super) fn forget(session: &Session, accounts: &[Account]) {
    for account in accounts {
        session.shared.passwords.forget_failures(account);
        session.shared.accounts.forget_hour(account);
    }
}

/// Makes all changes of a statement, or none of them.
pub(super) async fn run<T: Send + 'static>(
    session: &Session,
    change: impl FnOnce(&mut UserAdmin) -> Result<T> + Send + 'static,
) -> Result<T> {
    let engine = Arc::clone(&session.shared.engine);
    super::shield(session, async move { engine.ddl().change_users(change).await }).await
}

/// What is to be stored of a password.
struct NewPassword {
    account: Account,
    auth: AuthData,
    /// Which of its old ones are remembered.
    remembered: Remembered,
    second: SecondPassword,
}

/// What is stored of the passwords of these accounts, and which of their old ones are remembered.
/// New accounts have no `options` by which old passwords are looked for.
///
/// # Errors
/// 1819 and 3638 for a password that the policies refuse; those of plugins and hashes.
fn identified<'a>(
    session: &Session,
    users: impl IntoIterator<Item = &'a (Account, Authentication)>,
    options: Option<&[UserOption]>,
) -> Result<Vec<NewPassword>> {
    let changed_seconds = seconds(&**session.shared.engine.clock());
    let catalog = session.shared.engine.catalog();
    let (globals, by) = (&session.shared.globals, &session.client.account);
    let identified = |(account, how): &(Account, Authentication)| {
        let of = (&**globals, &*catalog);
        let by_options = options.unwrap_or_default();
        let remembered = auth::reuse::remembered(of, account, by_options, changed_seconds);
        if how.hash.is_none() {
            let password = how.password.as_deref().unwrap_or_default();
            auth::strength::check(globals, account, by, password)?;
            if options.is_some() {
                auth::reuse::check(&catalog, account, remembered, password)?;
            }
        }
        let plugin = plugin(how)?;
        let auth = auth_data(how, plugin, session.shared.scramble())?;
        let auth = AuthData { changed_seconds, ..auth };
        if how.retains {
            // Nobody keeps a password that has expired.
            session.require_password()?;
        }
        let second = match catalog.user(account) {
            Some(user) => auth::second::behind(user, &auth, plugin, how.retains)?,
            None => SecondPassword::Kept,
        };
        Ok(NewPassword { account: account.clone(), auth, remembered, second })
    };
    users.into_iter().map(identified).collect()
}

fn plugin(how: &Authentication) -> Result<Option<AuthPlugin>> {
    let known = |name: &String| {
        AuthPlugin::from_name(name).ok_or_else(|| {
            err!(
                NotSupported,
                "Plugin '{name}' is not loaded; there are mysql_native_password and \
                 caching_sha2_password"
            )
        })
    };
    how.plugin.as_ref().map(known).transpose()
}

fn auth_data(how: &Authentication, plugin: Option<AuthPlugin>, salt: Scramble) -> Result<AuthData> {
    if let Some(hash) = &how.hash {
        return auth::auth_data_of_hash(hash, plugin);
    }
    let password = how.password.as_deref().unwrap_or_default();
    auth::auth_data(password.as_bytes(), plugin, salt)
}

async fn grant(session: &mut Session, granting: &GrantStatement, give: bool) -> Result<()> {
    let object = match &granting.object {
        GrantTarget::WorkloadGroup(group) => {
            return grant_group(session, group, granting.accounts.clone(), give).await;
        }
        GrantTarget::Everything => return revoke_all(session, granting).await,
        GrantTarget::Object(object) => object.clone(),
        GrantTarget::SelectedDatabase => {
            GrantObject::Database(session.database_of(None)?.to_owned())
        }
        GrantTarget::SelectedTable(table) => {
            GrantObject::Table(session.database_of(None)?.to_owned(), table.clone())
        }
    };
    check_may_grant(session, granting.privileges, &object)?;
    check_dynamic(session, &granting.dynamic, &object)?;
    if give {
        check_level(granting.privileges, &object)?;
    }
    let mut objects = of_columns(session, &granting.columns, &object, give)?;
    if objects.is_empty() || !granting.privileges.is_empty() {
        objects.push((object, granting.privileges));
    }
    let accounts = known_of(session, granting);
    let by = session.client.clone();
    run(session, move |admin| {
        for account in &accounts {
            for (object, privileges) in &objects {
                match give {
                    true => admin.grant(account, *privileges, object)?,
                    false => admin.revoke(by.actor(), account, *privileges, object)?,
                }
            }
        }
        Ok(())
    })
    .await
}

/// The accounts of a statement; with IGNORE UNKNOWN USER those that exist, and a warning of others.
/// Who may not run it must not be told which there are.
fn known_of(session: &mut Session, granting: &GrantStatement) -> Vec<Account> {
    let mut accounts = granting.accounts.clone();
    if granting.ignores_unknown {
        let catalog = session.shared.engine.catalog();
        accounts.retain(|account| catalog.user(account).is_some());
        for unknown in granting.accounts.iter().filter(|account| !accounts.contains(account)) {
            let warning = format!("Authorization ID {unknown} does not exist.");
            session.diagnostics.push("Warning", 3162, warning);
        }
    }
    accounts
}

/// REVOKE ALL PRIVILEGES, GRANT OPTION.
async fn revoke_all(session: &mut Session, granting: &GrantStatement) -> Result<()> {
    session.authorize(Privilege::CreateUser, Object::Server)?;
    let accounts = known_of(session, granting);
    let by = session.client.clone();
    run(session, move |admin| {
        accounts.iter().try_for_each(|account| admin.revoke_all(by.actor(), account))
    })
    .await
}

/// Warns that dynamic privileges are not kept: what they allow takes other privileges here.
fn check_dynamic(session: &mut Session, dynamic: &[String], object: &GrantObject) -> Result<()> {
    for name in dynamic {
        if *object != GrantObject::Server {
            bail!(PrivilegeLevel, "Illegal privilege level specified for {name}");
        }
        let warning = format!(
            "The dynamic privilege {name} is not kept: SUPER, CREATE USER, PROCESS and RELOAD \
             stand for all of them here"
        );
        session.diagnostics.push("Warning", 1235, warning);
    }
    Ok(())
}

/// Refuses what only the server can have on something else; ALL is what the thing can have.
fn check_level(privileges: Privileges, object: &GrantObject) -> Result<()> {
    let alone = privileges.within(Privileges::of_server_alone());
    if *object == GrantObject::Server || alone.is_empty() || privileges.contains(Privileges::all())
    {
        return Ok(());
    }
    match object {
        GrantObject::Server | GrantObject::Database(_) => {
            bail!(WrongUsage, "Incorrect usage of DB GRANT and GLOBAL PRIVILEGES")
        }
        GrantObject::Table(..) | GrantObject::Column(..) => bail!(
            IllegalGrant,
            "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can \
             be used"
        ),
    }
}

/// GRANT and REVOKE USAGE_PRIV ON WORKLOAD GROUP.
async fn grant_group(
    session: &Session,
    group: &str,
    accounts: Vec<Account>,
    give: bool,
) -> Result<()> {
    let (by, group) = (session.client.clone(), group.to_owned());
    run(session, move |admin| {
        let mut accounts = accounts.iter();
        accounts.try_for_each(|account| admin.grant_group(by.actor(), account, &group, give))
    })
    .await
}

/// Privileges on columns, which the granting user may grant.
fn of_columns(
    session: &Session,
    columns: &[(Privilege, Vec<String>)],
    object: &GrantObject,
    give: bool,
) -> Result<Vec<(GrantObject, Privileges)>> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let GrantObject::Table(database, table) = object else {
        bail!(
            IllegalGrant,
            "Illegal GRANT/REVOKE command; columns are those of one table, and {object} is none"
        );
    };
    let catalog = session.shared.engine.catalog();
    let schema = Arc::clone(catalog.require_table(database, table)?.schema());
    let mut objects = Vec::new();
    for (privilege, names) in columns {
        let rights = session.authorize_columns(*privilege, database, table)?;
        for name in names {
            let known = schema.position(name).map(|at| schema.columns[at].name.as_str());
            if known.is_none() && give {
                bail!(UnknownColumn, "Unknown column '{name}' in '{table}'");
            }
            let name = known.unwrap_or(name);
            if !rights.has(name) {
                return Err(column_denied(&session.client.account, *privilege, name, table));
            }
            let column = GrantObject::Column(database.clone(), table.clone(), name.to_owned());
            objects.push((column, Privileges::NONE.with(*privilege)));
        }
    }
    Ok(objects)
}

/// Checks that the granting user has the privileges granted, and GRANT OPTION.
fn check_may_grant(session: &Session, privileges: Privileges, object: &GrantObject) -> Result<()> {
    let on = match object {
        GrantObject::Server => Object::Server,
        GrantObject::Database(database) => Object::Database(database),
        GrantObject::Table(database, table) | GrantObject::Column(database, table, _) => {
            Object::Table(database, table)
        }
    };
    session.authorize(Privilege::GrantOption, on)?;
    privileges.iter().try_for_each(|privilege| session.authorize(privilege, on))
}
