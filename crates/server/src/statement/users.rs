//! CREATE, ALTER and DROP USER, GRANT and REVOKE.

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_meta::{Account, AuthData, GrantObject, Object, Privilege, Privileges, UserAdmin};
use freshet_query::parser::{Authentication, GrantStatement, GrantTarget, Statement};
use freshet_wire::auth::{AuthPlugin, Scramble};

use crate::auth;
use crate::reply::Reply;
use crate::session::Session;

/// Runs a statement about users or privileges.
///
/// # Errors
/// Missing privileges, existing or missing users.
pub async fn change(session: &mut Session, statement: &Statement) -> Result<Reply> {
    let by = session.client.clone();
    match statement {
        Statement::CreateUser { users, tls, if_not_exists } => {
            session.authorize(Privilege::CreateUser, Object::Server)?;
            let (users, if_not_exists) = (identified(session, users)?, *if_not_exists);
            let tls = tls.unwrap_or_default();
            let existed = run(session, move |admin| {
                let mut existed = Vec::new();
                for (account, auth) in users {
                    let auth = AuthData { tls, ..auth };
                    if admin.create_user(by.actor(), &account, auth, if_not_exists)? {
                        existed.push(account);
                    }
                }
                Ok(existed)
            })
            .await?;
            for account in existed {
                let note = format!("Authorization ID {account} already exists.");
                session.diagnostics.push("Note", 3163, note);
            }
        }
        Statement::AlterUser { users, tls } => {
            let own = &session.client.account;
            if tls.is_some() || users.iter().any(|(account, _)| account != own) {
                session.authorize(Privilege::CreateUser, Object::Server)?;
            }
            if let Some(tls) = *tls {
                let accounts = users.iter().map(|(account, _)| account.clone());
                let (accounts, by) = (accounts.collect::<Vec<_>>(), by.clone());
                run(session, move |admin| {
                    accounts
                        .iter()
                        .try_for_each(|account| admin.require_tls(by.actor(), account, tls))
                })
                .await?;
            }
            // Without IDENTIFIED it only sets options, which have no effect.
            let changed = users.iter().filter(|(_, how)| *how != Authentication::default());
            let users = identified(session, changed)?;
            run(session, move |admin| {
                users
                    .into_iter()
                    .try_for_each(|(account, auth)| admin.set_auth(by.actor(), &account, auth))
            })
            .await?;
        }
        Statement::DropUser { users, if_exists } => {
            let (users, if_exists) = (users.clone(), *if_exists);
            run(session, move |admin| {
                users.iter().try_for_each(|account| {
                    admin.drop_user(by.actor(), account, if_exists).map(drop)
                })
            })
            .await?;
        }
        Statement::Grant(granting) => grant(session, granting, true).await?,
        Statement::Revoke(granting) => grant(session, granting, false).await?,
        _ => bail!(NotSupported, "this is no statement about users"),
    }
    Ok(Reply::done())
}

pub(super) async fn run<T: Send + 'static>(
    session: &Session,
    change: impl FnOnce(&UserAdmin<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let engine = Arc::clone(&session.shared.engine);
    super::shield(session, async move { engine.ddl().change_users(change).await }).await
}

fn identified<'a>(
    session: &Session,
    users: impl IntoIterator<Item = &'a (Account, Authentication)>,
) -> Result<Vec<(Account, AuthData)>> {
    let identified = |(account, how): &(Account, Authentication)| {
        Ok((account.clone(), auth_data(how, session.shared.scramble())?))
    };
    users.into_iter().map(identified).collect()
}

fn auth_data(how: &Authentication, salt: Scramble) -> Result<AuthData> {
    let plugin = match &how.plugin {
        Some(name) => Some(AuthPlugin::from_name(name).ok_or_else(|| {
            err!(
                NotSupported,
                "Plugin '{name}' is not loaded; there are mysql_native_password and \
                 caching_sha2_password"
            )
        })?),
        None => None,
    };
    if let Some(hash) = &how.hash {
        return auth::auth_data_of_hash(hash, plugin);
    }
    let password = how.password.as_deref().unwrap_or_default();
    auth::auth_data(password.as_bytes(), plugin, salt)
}

async fn grant(session: &mut Session, granting: &GrantStatement, give: bool) -> Result<()> {
    let object = match &granting.object {
        GrantTarget::Object(object) => object.clone(),
        GrantTarget::SelectedDatabase => {
            GrantObject::Database(session.database_of(None)?.to_owned())
        }
        GrantTarget::SelectedTable(table) => {
            GrantObject::Table(session.database_of(None)?.to_owned(), table.clone())
        }
    };
    check_may_grant(session, granting.privileges, &object)?;
    let (accounts, privileges) = (granting.accounts.clone(), granting.privileges);
    let by = session.client.clone();
    run(session, move |admin| {
        accounts.iter().try_for_each(|account| match give {
            true => admin.grant(account, privileges, &object),
            false => admin.revoke(by.actor(), account, privileges, &object),
        })
    })
    .await
}

/// Checks that the granting user has the privileges granted, and GRANT OPTION.
fn check_may_grant(session: &Session, privileges: Privileges, object: &GrantObject) -> Result<()> {
    let on = match object {
        GrantObject::Server => Object::Server,
        GrantObject::Database(database) => Object::Database(database),
        GrantObject::Table(database, table) => Object::Table(database, table),
    };
    session.authorize(Privilege::GrantOption, on)?;
    privileges.iter().try_for_each(|privilege| session.authorize(privilege, on))
}
