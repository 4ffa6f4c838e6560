//! Options of users.

use prost::Message;

use super::{OnDisk, Unreadable};
use crate::user_options::{FailedLogins, LockTime, PasswordReuse, UserLimits, UserOptions};

#[derive(Clone, PartialEq, Message)]
pub struct UserOptionsForm {
    #[prost(bool, tag = "1")]
    is_locked: bool,
    #[prost(uint32, tag = "2")]
    queries_per_hour: u32,
    #[prost(uint32, tag = "3")]
    updates_per_hour: u32,
    #[prost(uint32, tag = "4")]
    connections_per_hour: u32,
    #[prost(uint32, tag = "5")]
    connections: u32,
    #[prost(uint32, tag = "6")]
    failed_logins_max: u32,
    #[prost(uint32, tag = "7")]
    lock_days: u32,
    /// Until ACCOUNT UNLOCK, whatever `lock_days` says.
    #[prost(bool, tag = "8")]
    is_lock_unbounded: bool,
    #[prost(bool, tag = "9")]
    is_expired: bool,
    #[prost(uint32, tag = "10")]
    lifetime_days: u32,
    #[prost(uint32, optional, tag = "11")]
    password_history: Option<u32>,
    #[prost(uint32, optional, tag = "12")]
    password_reuse_days: Option<u32>,
    #[prost(bool, optional, tag = "13")]
    requires_current: Option<bool>,
}

impl OnDisk for UserOptions {
    type Form = UserOptionsForm;

    fn form(&self) -> UserOptionsForm {
        let (lock_days, is_lock_unbounded) = match self.failed_logins.lock {
            LockTime::Days(days) => (days.into(), false),
            LockTime::Unbounded => (0, true),
        };
        UserOptionsForm {
            is_locked: self.is_locked,
            queries_per_hour: self.limits.queries_per_hour,
            updates_per_hour: self.limits.updates_per_hour,
            connections_per_hour: self.limits.connections_per_hour,
            connections: self.limits.connections,
            failed_logins_max: self.failed_logins.max.into(),
            lock_days,
            is_lock_unbounded,
            is_expired: self.is_expired,
            lifetime_days: self.lifetime_days.into(),
            password_history: self.reuse.history.map(Into::into),
            password_reuse_days: self.reuse.days.map(Into::into),
            requires_current: self.requires_current,
        }
    }

    fn from_form(form: UserOptionsForm) -> Result<Self, Unreadable> {
        let small = |number: u32| {
            u16::try_from(number).map_err(|_| Unreadable("an option of a user is too large".into()))
        };
        let lock = match form.is_lock_unbounded {
            true => LockTime::Unbounded,
            false => LockTime::Days(small(form.lock_days)?),
        };
        Ok(Self {
            is_locked: form.is_locked,
            limits: UserLimits {
                queries_per_hour: form.queries_per_hour,
                updates_per_hour: form.updates_per_hour,
                connections_per_hour: form.connections_per_hour,
                connections: form.connections,
            },
            failed_logins: FailedLogins { max: small(form.failed_logins_max)?, lock },
            is_expired: form.is_expired,
            lifetime_days: small(form.lifetime_days)?,
            reuse: PasswordReuse {
                history: form.password_history.map(small).transpose()?,
                days: form.password_reuse_days.map(small).transpose()?,
            },
            requires_current: form.requires_current,
        })
    }
}
