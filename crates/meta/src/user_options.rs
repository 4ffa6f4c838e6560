//! What CREATE USER and ALTER USER say of an account besides its password and its encryption.

/// The options of an account; the default is what CREATE USER without any gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserOptions {
    /// ACCOUNT LOCK: nobody can log in.
    pub is_locked: bool,
    pub limits: UserLimits,
    pub failed_logins: FailedLogins,
    /// PASSWORD EXPIRE: the password must be changed before anything else.
    pub is_expired: bool,
    /// PASSWORD EXPIRE INTERVAL, in days behind the change of the password; 0: it never expires.
    pub lifetime_days: u16,
    pub reuse: PasswordReuse,
    /// PASSWORD REQUIRE CURRENT: whether who changes the own password says the old one; `None` is
    /// DEFAULT, what the server says.
    pub requires_current: Option<bool>,
}

/// PASSWORD HISTORY and PASSWORD REUSE INTERVAL: which passwords an account must not have again.
/// `None` is DEFAULT, what the server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PasswordReuse {
    /// The last so many.
    pub history: Option<u16>,
    /// Those that were set in the last so many days.
    pub days: Option<u16>,
}

/// WITH MAX_..; 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    pub queries_per_hour: u32,
    pub updates_per_hour: u32,
    pub connections_per_hour: u32,
    /// MAX_USER_CONNECTIONS.
    pub connections: u32,
}

/// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME: wrong passwords in a row lock the account for a
/// while. They do so if both are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FailedLogins {
    pub max: u16,
    pub lock: LockTime,
}

/// How long failed logins lock an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockTime {
    /// 0: they do not.
    Days(u16),
    /// Until ACCOUNT UNLOCK.
    Unbounded,
}

impl Default for LockTime {
    fn default() -> Self {
        Self::Days(0)
    }
}

/// One option that a statement sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserOption {
    Locked(bool),
    QueriesPerHour(u32),
    UpdatesPerHour(u32),
    ConnectionsPerHour(u32),
    Connections(u32),
    FailedLogins(u16),
    LockTime(LockTime),
    /// PASSWORD EXPIRE.
    Expired,
    /// PASSWORD EXPIRE INTERVAL; 0 for NEVER and DEFAULT.
    LifetimeDays(u16),
    /// PASSWORD HISTORY; `None` for DEFAULT.
    PasswordHistory(Option<u16>),
    /// PASSWORD REUSE INTERVAL; `None` for DEFAULT.
    PasswordReuseDays(Option<u16>),
    /// PASSWORD REQUIRE CURRENT: false for OPTIONAL, `None` for DEFAULT.
    RequiresCurrent(Option<bool>),
}

impl UserOptions {
    /// Sets one of them.
    #[must_use]
    pub fn with(mut self, option: UserOption) -> Self {
        match option {
            UserOption::Locked(is_locked) => self.is_locked = is_locked,
            UserOption::QueriesPerHour(max) => self.limits.queries_per_hour = max,
            UserOption::UpdatesPerHour(max) => self.limits.updates_per_hour = max,
            UserOption::ConnectionsPerHour(max) => self.limits.connections_per_hour = max,
            UserOption::Connections(max) => self.limits.connections = max,
            UserOption::FailedLogins(max) => self.failed_logins.max = max,
            UserOption::LockTime(lock) => self.failed_logins.lock = lock,
            UserOption::Expired => self.is_expired = true,
            // What has expired stays so until the password is changed, as in MySQL.
            UserOption::LifetimeDays(days) => self.lifetime_days = days,
            UserOption::PasswordHistory(count) => self.reuse.history = count,
            UserOption::PasswordReuseDays(days) => self.reuse.days = days,
            UserOption::RequiresCurrent(requires) => self.requires_current = requires,
        }
        self
    }
}

impl UserLimits {
    /// Whether there is a limit of what is counted by the hour.
    pub fn is_hourly(&self) -> bool {
        self.queries_per_hour > 0 || self.updates_per_hour > 0 || self.connections_per_hour > 0
    }
}

impl FailedLogins {
    /// Whether failures lock the account at all.
    pub fn is_guarded(&self) -> bool {
        self.max > 0 && self.lock != LockTime::Days(0)
    }
}
