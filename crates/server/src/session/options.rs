//! What the options of its account ask of a session: limits by the hour, an expired password.

use freshet_base::clock::Clock;
use freshet_base::{Result, bail};

use super::Session;
use crate::accounts::Hourly;

/// Statements that MAX_UPDATES_PER_HOUR counts, by their first words.
const UPDATES: [&str; 12] = [
    "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "TRUNCATE", "CREATE", "ALTER", "DROP",
    "RENAME", "GRANT", "REVOKE",
];

/// The time in seconds since 1970.
pub fn seconds(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.wall_micros() / 1_000_000).unwrap_or_default()
}

impl Session {
    /// Takes over the options of its account, as they are at the login.
    pub(super) fn adopt_options(&mut self) {
        let catalog = self.shared.engine.catalog();
        let user = catalog.user(&self.client.account);
        self.limits = user.map(|user| user.options.limits).unwrap_or_default();
        let now = seconds(&**self.shared.engine.clock());
        self.must_change_password = user.is_some_and(|user| user.is_expired(now));
    }

    /// Whether commands have to be checked at all.
    pub fn is_restricted(&self) -> bool {
        self.must_change_password || self.limits.is_hourly()
    }

    /// Counts a statement, before it runs.
    ///
    /// # Errors
    /// 1820 while the password has to be changed, 1226 at a limit.
    pub fn check_options(&self, sql: &[u8]) -> Result<()> {
        if self.must_change_password && !changes_password(sql) {
            bail!(
                MustChangePassword,
                "You must reset your password using ALTER USER statement before executing this \
                 statement."
            );
        }
        let now = self.shared.engine.clock().now();
        self.usage.count(&self.limits, Hourly::Queries, now)?;
        let word = first_word(sql);
        match UPDATES.iter().any(|update| word.eq_ignore_ascii_case(update.as_bytes())) {
            true => self.usage.count(&self.limits, Hourly::Updates, now),
            false => Ok(()),
        }
    }
}

/// Whether a text is one statement that may change the password of its session.
fn changes_password(sql: &[u8]) -> bool {
    let sql = sql.trim_ascii();
    let sql = sql.strip_suffix(b";").unwrap_or(sql);
    let first = first_word(sql);
    let second = first_word(sql[first.len()..].trim_ascii_start());
    let is = |word: &[u8], wanted: &str| word.eq_ignore_ascii_case(wanted.as_bytes());
    let alters = is(first, "ALTER") && is(second, "USER");
    let sets = is(first, "SET") && is(second, "PASSWORD");
    (alters || sets) && !sql.contains(&b';')
}

fn first_word(sql: &[u8]) -> &[u8] {
    let sql = sql.trim_ascii_start();
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = sql.iter().position(|byte| !in_word(byte)).unwrap_or(sql.len());
    &sql[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_password_comes_first() {
        assert!(changes_password(b" alter user u identified by 'x';"));
        assert!(changes_password(b"SET PASSWORD = 'x'"));
        assert!(!changes_password(b"ALTER USER u IDENTIFIED BY 'x'; SELECT 1"));
        assert!(!changes_password(b"SET password_x = 1"));
        assert!(!changes_password(b"ALTER TABLE t ADD a INT"));
        assert!(!changes_password(b""));
    }
}
