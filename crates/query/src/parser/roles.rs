//! Parses statements about roles.

use freshet_base::Result;
use freshet_meta::DefaultRoles;

use super::cursor::Cursor;
use super::users::{Account, account, default_roles};

/// A statement about roles.
#[derive(Clone, PartialEq, Debug)]
pub enum RoleStatement {
    Create { roles: Vec<Account>, if_not_exists: bool },
    Drop { roles: Vec<Account>, if_exists: bool },
    Grant { roles: Vec<Account>, accounts: Vec<Account>, admin: bool },
    Revoke { roles: Vec<Account>, accounts: Vec<Account> },
    SetDefault { roles: DefaultRoles, accounts: Vec<Account> },
    Set(RoleChoice),
}

/// The roles that SET ROLE makes active.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleChoice {
    /// The default roles of the account.
    Default,
    None,
    /// All but these.
    AllExcept(Vec<Account>),
    These(Vec<Account>),
}

/// Parses the part after CREATE ROLE.
pub fn create(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    let if_not_exists = cursor.words("IF NOT EXISTS");
    Ok(RoleStatement::Create { roles: cursor.list(account)?, if_not_exists })
}

/// Parses the part after DROP ROLE.
pub fn drop(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    let if_exists = cursor.words("IF EXISTS");
    Ok(RoleStatement::Drop { roles: cursor.list(account)?, if_exists })
}

/// Whether GRANT or REVOKE is of roles, rather than of privileges ON something.
pub fn follow(cursor: &Cursor<'_>) -> bool {
    !cursor.word_follows("ON")
}

/// Parses `role, .. TO account, .. [WITH ADMIN OPTION]` after GRANT.
pub fn grant(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    let roles = cursor.list(account)?;
    cursor.expect_words("TO")?;
    let accounts = cursor.list(account)?;
    let admin = cursor.words("WITH ADMIN OPTION");
    Ok(RoleStatement::Grant { roles, accounts, admin })
}

/// Parses `role, .. FROM account, ..` after REVOKE.
pub fn revoke(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    // One that is not granted is revoked without an error anyhow.
    cursor.words("IF EXISTS");
    let roles = cursor.list(account)?;
    cursor.expect_words("FROM")?;
    Ok(RoleStatement::Revoke { roles, accounts: cursor.list(account)? })
}

/// Parses what follows SET ROLE.
pub fn set(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    let choice = match cursor.one_of(&["DEFAULT", "NONE", "ALL EXCEPT", "ALL"]) {
        Some("DEFAULT") => RoleChoice::Default,
        Some("NONE") => RoleChoice::None,
        Some("ALL EXCEPT") => RoleChoice::AllExcept(cursor.list(account)?),
        Some(_) => RoleChoice::AllExcept(Vec::new()),
        None => RoleChoice::These(cursor.list(account)?),
    };
    Ok(RoleStatement::Set(choice))
}

/// Parses what follows SET DEFAULT ROLE.
pub fn set_default(cursor: &mut Cursor<'_>) -> Result<RoleStatement> {
    let roles = default_roles(cursor)?;
    cursor.expect_words("TO")?;
    Ok(RoleStatement::SetDefault { roles, accounts: cursor.list(account)? })
}
