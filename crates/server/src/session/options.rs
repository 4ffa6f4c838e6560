//! What the options of its account ask of a session: limits by the hour, an expired password.

use freshet_base::clock::Clock;
use freshet_base::{Result, bail};
use freshet_query::parser::Statement;

use super::Session;
use crate::accounts::Hourly;

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

    /// Counts a command of the client, or a further statement of a text.
    ///
    /// # Errors
    /// 1226 at the limit.
    pub fn count_query(&self) -> Result<()> {
        self.count(Hourly::Queries)
    }

    /// Counts a statement that changes something.
    ///
    /// # Errors
    /// 1226 at the limit.
    pub fn count_update(&self) -> Result<()> {
        self.count(Hourly::Updates)
    }

    fn count(&self, what: Hourly) -> Result<()> {
        match self.limits.is_hourly() {
            true => self.usage.count(&self.limits, what, self.shared.engine.clock().now()),
            false => Ok(()),
        }
    }

    /// Checks what the options of the account say of a statement that is about to run, and counts
    /// it if it changes something.
    ///
    /// # Errors
    /// 1820 while the password has to be changed first, 1226 at a limit.
    pub fn check_statement(&self, statement: &Statement) -> Result<()> {
        if !statement.may_change_password() {
            self.require_password()?;
        }
        match statement.changes_data() {
            true => self.count_update(),
            false => Ok(()),
        }
    }

    /// Refuses everything else while the password has to be changed.
    ///
    /// # Errors
    /// 1820.
    pub fn require_password(&self) -> Result<()> {
        if self.must_change_password {
            bail!(
                MustChangePassword,
                "You must reset your password using ALTER USER statement before executing this \
                 statement."
            );
        }
        Ok(())
    }
}
