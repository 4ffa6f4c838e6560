//! SHOW GRANTS and SHOW CREATE USER.

use freshet_base::{Result, err};
use freshet_meta::{
    Account, FailedLogins, LockTime, Object, Privilege, TlsRequirement, UserOptions,
};

use super::listing::Listing;
use crate::auth;
use crate::session::Session;

/// SHOW GRANTS.
pub fn grants(session: &Session, account: Option<&Account>, using: &[Account]) -> Result<Listing> {
    let account = shown_account(session, account)?;
    let catalog = session.shared.engine.catalog();
    let Some(user) = catalog.user(account) else {
        let Account { name, host } = account;
        return Err(err!(
            NoSuchGrant,
            "There is no such grant defined for user '{name}' on host '{host}'"
        ));
    };
    let Account { name, host } = account;
    let mut listing = Listing::new(&[&format!("Grants for {name}@{host}")]);
    using.iter().try_for_each(|role| user.require_role(role))?;
    for grant in user.with_roles(&catalog, using).show_grants() {
        listing.add([&grant]);
    }
    Ok(listing)
}

/// SHOW CREATE USER: a statement that creates the user with the same password elsewhere.
pub fn create_user(session: &Session, account: Option<&Account>) -> Result<Listing> {
    let account = shown_account(session, account)?;
    let catalog = session.shared.engine.catalog();
    let Some(user) = catalog.user(account) else {
        return Err(err!(CannotUser, "Operation SHOW CREATE USER failed for {account}"));
    };
    let (plugin, hash) = auth::stored_of(&user.auth).ok_or_else(|| {
        err!(CannotUser, "the password of {account} is kept in an old form; set it anew first")
    })?;
    let hash = match std::str::from_utf8(&hash) {
        _ if hash.is_empty() => String::new(),
        Ok(text) if !text.contains(|c: char| c.is_control() || "'\\".contains(c)) => {
            format!(" AS '{text}'")
        }
        _ => hash.iter().fold(" AS 0x".to_owned(), |hex, byte| format!("{hex}{byte:02X}")),
    };
    let Account { name, host } = account;
    let roles = user.default_roles.iter().map(Account::quoted).collect::<Vec<_>>().join(",");
    let roles = if roles.is_empty() { roles } else { format!(" DEFAULT ROLE {roles}") };
    let required = match user.auth.tls {
        TlsRequirement::None => "NONE",
        TlsRequirement::Ssl => "SSL",
        TlsRequirement::X509 => "X509",
    };
    let options = options_text(&user.options);
    let attributes = user.attributes.as_ref().map_or_else(String::new, |text| {
        format!(" ATTRIBUTE '{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    });
    let quoted = |text: &str| text.replace('`', "``");
    let mut listing = Listing::new(&[&format!("CREATE USER for {name}@{host}")]);
    listing.add([&format!(
        "CREATE USER `{}`@`{}` IDENTIFIED WITH '{}'{hash}{roles} REQUIRE {required}{options}\
         {attributes}",
        quoted(name),
        quoted(host),
        plugin.name()
    )]);
    Ok(listing)
}

/// What stands behind REQUIRE, as MySQL writes it.
fn options_text(options: &UserOptions) -> String {
    let UserOptions { limits, failed_logins, .. } = options;
    let mut text = String::new();
    let counts = [
        ("MAX_QUERIES_PER_HOUR", limits.queries_per_hour),
        ("MAX_UPDATES_PER_HOUR", limits.updates_per_hour),
        ("MAX_CONNECTIONS_PER_HOUR", limits.connections_per_hour),
        ("MAX_USER_CONNECTIONS", limits.connections),
    ];
    for (name, max) in counts.iter().filter(|(_, max)| *max > 0) {
        text += if text.is_empty() { " WITH" } else { "" };
        text += &format!(" {name} {max}");
    }
    text += &match (options.is_expired, options.lifetime_days) {
        (true, _) => " PASSWORD EXPIRE".to_owned(),
        (false, 0) => " PASSWORD EXPIRE DEFAULT".to_owned(),
        (false, days) => format!(" PASSWORD EXPIRE INTERVAL {days} DAY"),
    };
    text += if options.is_locked { " ACCOUNT LOCK" } else { " ACCOUNT UNLOCK" };
    let or_default = |number: Option<u16>, unit: &str| {
        number.map_or_else(|| "DEFAULT".to_owned(), |number| format!("{number}{unit}"))
    };
    text += &format!(
        " PASSWORD HISTORY {} PASSWORD REUSE INTERVAL {} PASSWORD REQUIRE CURRENT{}",
        or_default(options.reuse.history, ""),
        or_default(options.reuse.days, " DAY"),
        match options.requires_current {
            None => " DEFAULT",
            Some(false) => " OPTIONAL",
            Some(true) => "",
        },
    );
    if *failed_logins != FailedLogins::default() {
        let lock = match failed_logins.lock {
            LockTime::Days(days) => days.to_string(),
            LockTime::Unbounded => "UNBOUNDED".to_owned(),
        };
        text += &format!(" FAILED_LOGIN_ATTEMPTS {} PASSWORD_LOCK_TIME {lock}", failed_logins.max);
    }
    text
}

/// The requested account; for another account than the own one CREATE USER is required.
///
/// # Errors
/// 1227.
pub fn shown_account<'a>(
    session: &'a Session,
    account: Option<&'a Account>,
) -> Result<&'a Account> {
    let own = &session.client.account;
    let account = account.unwrap_or(own);
    if account != own {
        session.authorize(Privilege::CreateUser, Object::Server)?;
    }
    Ok(account)
}
