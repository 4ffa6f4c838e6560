//! RETAIN CURRENT PASSWORD: what becomes of the second password of an account.

use freshet_base::{Result, bail};
use freshet_meta::{AuthData, SecondPassword, User};
use freshet_wire::auth::AuthPlugin;

use super::stored_of;

/// What becomes of it behind a change of the first to `new`, by a statement that may name a plugin
/// and may retain the current one. As in MySQL it goes where the plugin is another one then.
///
/// # Errors
/// 3894 where the current one is to be retained behind a change of the plugin.
pub fn behind(
    user: &User,
    new: &AuthData,
    plugin: Option<AuthPlugin>,
    retains: bool,
) -> Result<SecondPassword> {
    let had = stored_of(&user.auth).map(|(plugin, _)| plugin);
    let is_named = plugin.is_some_and(|named| had.is_some_and(|had| had != named));
    let is_known = !user.auth.is_empty_password() && !new.is_empty_password();
    let is_other = is_known && (is_named || !share_a_plugin(&user.auth, new));
    let is_reached = user.second.as_ref().is_none_or(|second| share_a_plugin(second, new));
    match (is_other, retains) {
        (true, true) => bail!(
            PasswordOfOtherPlugin,
            "Current password can not be retained for user '{}'@'{}' because authentication plugin \
             is being changed.",
            user.account.name,
            user.account.host
        ),
        (true, false) => Ok(SecondPassword::Discarded),
        (false, true) => Ok(SecondPassword::Replaced),
        // The first one says which plugin a client is asked for.
        (false, false) if !is_reached => Ok(SecondPassword::Discarded),
        (false, false) => Ok(SecondPassword::Kept),
    }
}

fn share_a_plugin(one: &AuthData, other: &AuthData) -> bool {
    let native = one.native.is_some() && other.native.is_some();
    native || one.sha2_slow.is_some() && other.sha2_slow.is_some()
}
