//! Statements about roles.

use freshet_base::{Result, err};
use freshet_meta::{Account, Object, Privilege};
use freshet_query::parser::{RoleChoice, RoleStatement};

use super::{commit_first, users};
use crate::reply::Reply;
use crate::session::Session;

/// Runs a statement about roles.
///
/// # Errors
/// Missing privileges; roles and accounts that exist or do not; roles that are not granted.
pub async fn run(session: &mut Session, statement: &RoleStatement) -> Result<Reply> {
    if let RoleStatement::Set(choice) = statement {
        session.activate(chosen(session, choice)?);
        return Ok(Reply::done());
    }
    commit_first(session).await?;
    let (by, statement) = (session.client.clone(), statement.clone());
    if let RoleStatement::Create { .. } | RoleStatement::Drop { .. } = statement {
        session.authorize(Privilege::CreateUser, Object::Server)?;
    }
    let dropped = match &statement {
        RoleStatement::Drop { roles, .. } => roles.clone(),
        _ => Vec::new(),
    };
    let notes = users::run(session, move |admin| {
        let mut notes = Vec::new();
        let pairs = |roles: &[Account], accounts: &[Account]| {
            let with = |role: &Account| {
                accounts.iter().map(|account| (role.clone(), account.clone())).collect::<Vec<_>>()
            };
            roles.iter().flat_map(with).collect::<Vec<_>>()
        };
        match &statement {
            RoleStatement::Create { roles, if_not_exists } => {
                for role in roles {
                    if admin.create_role(by.actor(), role, *if_not_exists)? {
                        notes.push((3163, format!("Authorization ID {role} already exists.")));
                    }
                }
            }
            RoleStatement::Drop { roles, if_exists } => {
                for role in roles {
                    if !admin.drop_role(by.actor(), role, *if_exists)? {
                        notes.push((3162, format!("Authorization ID {role} does not exist.")));
                    }
                }
            }
            RoleStatement::Grant { roles, accounts, admin: option } => {
                for (role, account) in pairs(roles, accounts) {
                    admin.grant_role(by.actor(), &role, &account, *option)?;
                }
            }
            RoleStatement::Revoke { roles, accounts } => {
                for (role, account) in pairs(roles, accounts) {
                    admin.revoke_role(by.actor(), &role, &account)?;
                }
            }
            RoleStatement::SetDefault { roles, accounts } => {
                for account in accounts {
                    admin.set_default_roles(by.actor(), account, roles)?;
                }
            }
            RoleStatement::Set(_) => {}
        }
        Ok(notes)
    })
    .await?;
    users::forget(session, &dropped);
    for (errno, note) in notes {
        session.diagnostics.push("Note", errno, note);
    }
    Ok(Reply::done())
}

/// The roles that SET ROLE makes active.
fn chosen(session: &Session, choice: &RoleChoice) -> Result<Vec<Account>> {
    let catalog = session.shared.engine.catalog();
    let account = &session.client.account;
    let user = catalog.user(account).ok_or_else(|| {
        err!(UnknownAuthorizationId, "Unknown authorization ID {}", account.quoted())
    })?;
    let require = |roles: &[Account]| roles.iter().try_for_each(|role| user.require_role(role));
    Ok(match choice {
        RoleChoice::Default => user.login_roles(false),
        RoleChoice::None => Vec::new(),
        RoleChoice::AllExcept(roles) => {
            require(roles)?;
            user.login_roles(true).into_iter().filter(|role| !roles.contains(role)).collect()
        }
        RoleChoice::These(roles) => {
            require(roles)?;
            let named = |role: &Account| roles.contains(role);
            user.login_roles(true).into_iter().filter(named).collect()
        }
    })
}
