//! Parses the options of CREATE USER and ALTER USER behind REQUIRE.

use freshet_base::Result;
use freshet_meta::{LockTime, UserOption};

use super::cursor::Cursor;

/// What an account has only for people, and for programs other than this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AboutUser {
    /// COMMENT.
    Comment(String),
    /// ATTRIBUTE, the text of a JSON object.
    Attribute(String),
}

/// Parses them, in any order, and what stands behind them about the account.
pub fn options(cursor: &mut Cursor<'_>) -> Result<(Vec<UserOption>, Option<AboutUser>)> {
    let mut options = Vec::new();
    if cursor.words("WITH") {
        while let Some(limit) = limit(cursor)? {
            options.push(limit);
        }
        if options.is_empty() {
            return Err(cursor.error());
        }
    }
    loop {
        if cursor.words("ACCOUNT") {
            match cursor.one_of(&["LOCK", "UNLOCK"]) {
                Some(word) => options.push(UserOption::Locked(word == "LOCK")),
                None => return Err(cursor.error()),
            }
        } else if cursor.words("FAILED_LOGIN_ATTEMPTS") {
            options.push(UserOption::FailedLogins(small(cursor)?));
        } else if cursor.words("PASSWORD_LOCK_TIME") {
            let lock = match cursor.words("UNBOUNDED") {
                true => LockTime::Unbounded,
                false => LockTime::Days(small(cursor)?),
            };
            options.push(UserOption::LockTime(lock));
        } else if cursor.words("PASSWORD") {
            options.push(password(cursor)?);
        } else if cursor.words("COMMENT") {
            return Ok((options, Some(AboutUser::Comment(cursor.text()?))));
        } else if cursor.words("ATTRIBUTE") {
            return Ok((options, Some(AboutUser::Attribute(cursor.text()?))));
        } else {
            return Ok((options, None));
        }
    }
}

fn limit(cursor: &mut Cursor<'_>) -> Result<Option<UserOption>> {
    const LIMITS: [&str; 4] = [
        "MAX_QUERIES_PER_HOUR",
        "MAX_UPDATES_PER_HOUR",
        "MAX_CONNECTIONS_PER_HOUR",
        "MAX_USER_CONNECTIONS",
    ];
    let Some(name) = cursor.one_of(&LIMITS) else { return Ok(None) };
    // MySQL takes larger numbers for no limit; so many are never reached.
    let max = u32::try_from(cursor.number()?).unwrap_or(u32::MAX);
    Ok(Some(match name {
        "MAX_QUERIES_PER_HOUR" => UserOption::QueriesPerHour(max),
        "MAX_UPDATES_PER_HOUR" => UserOption::UpdatesPerHour(max),
        "MAX_CONNECTIONS_PER_HOUR" => UserOption::ConnectionsPerHour(max),
        _ => UserOption::Connections(max),
    }))
}

fn small(cursor: &mut Cursor<'_>) -> Result<u16> {
    let error = cursor.error();
    const MAX: u16 = 32_767;
    u16::try_from(cursor.number()?).ok().filter(|number| *number <= MAX).ok_or(error)
}

/// Parses what follows PASSWORD.
fn password(cursor: &mut Cursor<'_>) -> Result<UserOption> {
    if cursor.words("EXPIRE") {
        if cursor.words("INTERVAL") {
            let error = cursor.error();
            let days = small(cursor)?;
            cursor.expect_words("DAY")?;
            return if days > 0 { Ok(UserOption::LifetimeDays(days)) } else { Err(error) };
        }
        let is_never = cursor.one_of(&["NEVER", "DEFAULT"]).is_some();
        return Ok(if is_never { UserOption::LifetimeDays(0) } else { UserOption::Expired });
    }
    if cursor.words("HISTORY") {
        let count = if cursor.words("DEFAULT") { None } else { Some(small(cursor)?) };
        return Ok(UserOption::PasswordHistory(count));
    }
    if cursor.words("REUSE INTERVAL") {
        let days = if cursor.words("DEFAULT") { None } else { Some(small(cursor)?) };
        if days.is_some() {
            cursor.expect_words("DAY")?;
        }
        return Ok(UserOption::PasswordReuseDays(days));
    }
    if !cursor.words("REQUIRE CURRENT") {
        return Err(cursor.error());
    }
    Ok(UserOption::RequiresCurrent(match cursor.one_of(&["DEFAULT", "OPTIONAL"]) {
        None => Some(true),
        Some("OPTIONAL") => Some(false),
        Some(_) => None,
    }))
}
