//! PASSWORD REQUIRE CURRENT: who changes the own password says the old one.

use freshet_base::{Result, bail};
use freshet_meta::{AuthData, Object, Privilege, User};

use super::reuse::is_of;
use crate::session::Session;

/// Checks that a statement which sets the password of `user` may do so with what it says of the
/// one before. Who may CREATE USER need not say it, as in MySQL.
///
/// # Errors
/// 3890 where it is that of another account, 3891 for a wrong one, 3892 for none where the account
/// or the server asks for it.
pub fn check(session: &Session, user: &User, replaces: Option<&str>) -> Result<()> {
    let is_own = user.account == session.client.account;
    let Some(replaced) = replaces else {
        let of_server = || session.shared.globals.is_on("password_require_current");
        let is_required = user.options.requires_current.unwrap_or_else(of_server);
        let may_create = || session.authorize(Privilege::CreateUser, Object::Server).is_ok();
        if is_own && is_required && !may_create() {
            bail!(
                CurrentPasswordMissing,
                "Current password needs to be specified in the REPLACE clause in order to change \
                 it."
            );
        }
        return Ok(());
    };
    if !is_own {
        bail!(
            CurrentPasswordOfOther,
            "Do not specify the current password while changing it for other users."
        );
    }
    if !has_password(&user.auth, replaced) {
        bail!(
            CurrentPasswordWrong,
            "Incorrect current password. Specify the correct password which has to be replaced."
        );
    }
    Ok(())
}

fn has_password(stored: &AuthData, password: &str) -> bool {
    match stored.is_empty_password() {
        true => password.is_empty(),
        false => is_of(stored, password.as_bytes()),
    }
}
