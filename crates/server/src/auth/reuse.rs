//! PASSWORD HISTORY and PASSWORD REUSE INTERVAL: passwords that an account must not have again.

use freshet_base::{Result, bail};
use freshet_meta::{Account, AuthData, Catalog, Remembered, UserOption};
use freshet_wire::auth::{Credential, SlowHash};

use crate::variables::Globals;

const DAY_SECONDS: u64 = 24 * 3600;

/// The passwords that an account remembers behind a statement with these options; none of one that
/// does not exist.
pub fn remembered(
    (globals, catalog): (&Globals, &Catalog),
    account: &Account,
    options: &[UserOption],
    now_seconds: u64,
) -> Remembered {
    let Some(user) = catalog.user(account) else { return Remembered::default() };
    let reuse = options.iter().fold(user.options, |all, one| all.with(*one)).reuse;
    let of_server = |name: &str| u32::try_from(globals.number(name)).unwrap_or(u32::MAX);
    let days = reuse.days.map_or_else(|| of_server("password_reuse_interval"), u32::from);
    let young = now_seconds.saturating_sub(u64::from(days) * DAY_SECONDS);
    Remembered {
        count: reuse.history.map_or_else(|| of_server("password_history"), u32::from),
        since_seconds: (days > 0).then_some(young),
    }
}

/// Checks that a password is none of those that its account remembers.
///
/// # Errors
/// 3638.
pub fn check(
    catalog: &Catalog,
    account: &Account,
    remembered: Remembered,
    password: &str,
) -> Result<()> {
    let Some(user) = catalog.user(account).filter(|_| !password.is_empty()) else { return Ok(()) };
    if user.remembered(remembered).any(|past| is_of(past, password.as_bytes())) {
        bail!(
            PasswordReused,
            "Cannot use these credentials for '{}@{}' because they contradict the password history \
             policy",
            account.name,
            account.host
        );
    }
    Ok(())
}

/// Whether what is stored is of this password.
pub(super) fn is_of(stored: &AuthData, password: &[u8]) -> bool {
    if let Some(hash) = stored.native {
        return Credential::Native(hash).accepts_password(password);
    }
    let slow = stored.sha2_slow.as_deref().and_then(|hash| SlowHash::from_bytes(hash.as_bytes()));
    slow.is_some_and(|slow| slow.accepts(password))
}
