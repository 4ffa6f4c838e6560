//! HTTP Basic authentication.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use freshet_base::{Result, bail, err};
use freshet_meta::{Account, User};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use super::Http;
use super::client::Client;
use crate::accounts::Hourly;

/// The account that sends a request.
///
/// # Errors
/// `AccessDenied` without credentials, with malformed ones, or with wrong ones; 3159 where the
/// connection must be encrypted.
pub(super) async fn authenticate(
    http: &Http,
    client: &Client,
    headers: &HeaderMap,
) -> Result<Account> {
    http.passwords.check_transport(client.transport())?;
    let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let (user, password) =
        value.and_then(basic).ok_or_else(|| err!(AccessDenied, "no valid Basic authorization"))?;
    let (peer, transport) = (client.address.ip(), client.transport());
    let account = http.passwords.check(&http.engine, &user, &password, peer, transport).await?;
    check_options(http, &account)?;
    Ok(account)
}

/// Refuses a request that the options of its account do not allow.
fn check_options(http: &Http, account: &Account) -> Result<()> {
    let catalog = http.engine.catalog();
    let Some(user) = catalog.user(account) else { return Ok(()) };
    if user.is_expired(crate::session::seconds(&**http.clock())) {
        bail!(
            MustChangePassword,
            "You must reset your password using ALTER USER statement before executing this \
             statement; connect by the MySQL protocol for it"
        );
    }
    count(http, user, Hourly::Queries)
}

/// Counts a request of an account that changes something. Statements count themselves.
///
/// # Errors
/// 1226 at the limit.
pub(super) fn count_update(http: &Http, account: &Account) -> Result<()> {
    let catalog = http.engine.catalog();
    catalog.user(account).map_or(Ok(()), |user| count(http, user, Hourly::Updates))
}

fn count(http: &Http, user: &User, what: Hourly) -> Result<()> {
    let (limits, now) = (&user.options.limits, http.clock().now());
    match limits.is_hourly() {
        true => http.accounts.of(&user.account, now).count(limits, what, now),
        false => Ok(()),
    }
}

/// The user name and password of `Basic <base64 of user:password>`.
fn basic(value: &[u8]) -> Option<(String, String)> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// For fuzzing: parses arbitrary bytes as credentials; must not panic.
pub(super) fn fuzz(data: &[u8]) {
    if let Some((user, _)) = basic(data) {
        assert!(!user.contains(':'), "the first colon ends the user");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read() {
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(basic(b"Basic cm9vdDo="), pair("root", ""));
        assert_eq!(basic(b"basic  YTpiOmM="), pair("a", "b:c"));
        assert_eq!(basic(b"Bearer cm9vdDo="), None);
        assert_eq!(basic(b"Basic ???"), None);
        assert_eq!(basic(b"Basic cm9vdA=="), None);
        assert_eq!(basic(b""), None);
    }
}
