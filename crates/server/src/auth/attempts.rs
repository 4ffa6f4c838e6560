//! Locks accounts whose password was wrong too often in a row (FAILED_LOGIN_ATTEMPTS,
//! PASSWORD_LOCK_TIME). As in MySQL, failures are forgotten at a start and by ALTER USER.

use std::collections::HashMap;

use freshet_base::{Error, Result, err};
use freshet_meta::{Account, FailedLogins, LockTime, User};
use parking_lot::Mutex;

const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// The failures of accounts that are guarded so.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<Account, Attempt>>);

#[derive(Clone, Copy, Default)]
struct Attempt {
    failures: u16,
    /// Since when it is locked, in microseconds since 1970.
    locked_micros: Option<i64>,
}

impl Attempts {
    /// Notes that a password was right or wrong.
    ///
    /// # Errors
    /// 3955 while the account is locked, whether the password was right or not.
    pub fn note(&self, user: &User, accepted: bool, now_micros: i64) -> Result<()> {
        let rules = user.options.failed_logins;
        if !rules.is_guarded() {
            return Ok(());
        }
        let mut all = self.0.lock();
        let mut attempt = all.get(&user.account).copied().unwrap_or_default();
        if let Some(since) = attempt.locked_micros {
            match Left::of(rules.lock, since, now_micros) {
                Left::None => attempt = Attempt::default(),
                left => return Err(blocked(&user.account, rules, left)),
            }
        }
        if accepted {
            all.remove(&user.account);
            return Ok(());
        }
        attempt.failures += 1;
        attempt.locked_micros = (attempt.failures >= rules.max).then_some(now_micros);
        all.insert(user.account.clone(), attempt);
        match attempt.locked_micros {
            Some(since) => {
                Err(blocked(&user.account, rules, Left::of(rules.lock, since, now_micros)))
            }
            None => Ok(()),
        }
    }

    /// Forgets the failures of an account.
    pub fn forget(&self, account: &Account) {
        self.0.lock().remove(account);
    }
}

/// How long an account stays locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    None,
    Days(i64),
    Unbounded,
}

impl Left {
    fn of(lock: LockTime, since_micros: i64, now_micros: i64) -> Self {
        let LockTime::Days(days) = lock else { return Self::Unbounded };
        let end = since_micros.saturating_add(i64::from(days) * DAY_MICROS);
        match end.saturating_sub(now_micros) {
            left if left <= 0 => Self::None,
            left => Self::Days((left - 1) / DAY_MICROS + 1),
        }
    }
}

fn blocked(account: &Account, rules: FailedLogins, left: Left) -> Error {
    let (all, left) = match (rules.lock, left) {
        (LockTime::Days(days), Left::Days(left)) => (days.to_string(), left.to_string()),
        _ => ("unlimited".to_owned(), "unlimited".to_owned()),
    };
    err!(
        AccountBlocked,
        "Access denied for user {account}. Account is blocked for {all} day(s) ({left} day(s) \
         remaining) due to {} consecutive failed logins.",
        rules.max
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_meta::{AuthData, UserOption};

    fn user(max: u16, lock: LockTime) -> User {
        let mut user = User::new(Account::anywhere("u"), AuthData::default());
        let options = [UserOption::FailedLogins(max), UserOption::LockTime(lock)];
        user.options = options.into_iter().fold(user.options, |all, option| all.with(option));
        user
    }

    fn errno(result: Result<()>) -> u16 {
        result.map_or_else(|error| error.code().errno(), |()| 0)
    }

    #[test]
    fn failures_in_a_row_lock_the_account_for_its_days() {
        let (attempts, user) = (Attempts::default(), user(2, LockTime::Days(3)));
        assert_eq!(errno(attempts.note(&user, false, 0)), 0);
        assert_eq!(errno(attempts.note(&user, true, 0)), 0);
        assert_eq!(errno(attempts.note(&user, false, 0)), 0);
        let locked = attempts.note(&user, false, 0).unwrap_err();
        assert!(locked.message().contains("for 3 day(s) (3 day(s) remaining)"), "{locked}");
        let later = attempts.note(&user, true, 2 * DAY_MICROS + 1).unwrap_err();
        assert!(later.message().contains("(1 day(s) remaining)"), "{later}");
        assert_eq!(errno(attempts.note(&user, false, 3 * DAY_MICROS)), 0, "counted anew");
        assert_eq!(errno(attempts.note(&user, true, 3 * DAY_MICROS)), 0);
    }

    #[test]
    fn an_unbounded_lock_ends_when_it_is_forgotten() {
        let (attempts, user) = (Attempts::default(), user(1, LockTime::Unbounded));
        let locked = attempts.note(&user, false, 0).unwrap_err();
        assert!(locked.message().contains("unlimited day(s)"), "{locked}");
        assert_eq!(errno(attempts.note(&user, true, i64::MAX)), 3955);
        attempts.forget(&user.account);
        assert_eq!(errno(attempts.note(&user, true, 0)), 0);
    }

    #[test]
    fn one_option_alone_locks_nobody() {
        let attempts = Attempts::default();
        for user in [user(1, LockTime::Days(0)), user(0, LockTime::Unbounded)] {
            assert_eq!(errno(attempts.note(&user, false, 0)), 0);
            assert_eq!(errno(attempts.note(&user, false, 0)), 0);
        }
    }
}
