//! The second password of an account, which opens it while its clients learn the new one.

use freshet_base::{Result, bail};

use crate::authorize::{Actor, authorize_over};
use crate::user::{Account, AuthData, SecondPassword, TlsRequirement, User};
use crate::user_admin::UserAdmin;

impl UserAdmin {
    /// ALTER USER .. DISCARD OLD PASSWORD by `by`, which may do so for itself.
    ///
    /// # Errors
    /// 1227 if `by` may not change it, 1396 if it does not exist.
    pub fn discard_second<'a>(
        &mut self,
        by: impl Into<Actor<'a>>,
        account: &Account,
    ) -> Result<()> {
        let by = by.into();
        self.change_user(account, "ALTER USER", |catalog, mut user| {
            if by.account != account {
                authorize_over(catalog, by, account)?;
            }
            user.second = None;
            Ok(user)
        })
    }
}

/// The second password of an account behind a change of its first to `new`.
pub(crate) fn second_behind(
    user: &User,
    new: &AuthData,
    how: SecondPassword,
) -> Result<Option<AuthData>> {
    let Account { name, host } = &user.account;
    match how {
        SecondPassword::Replaced if user.auth.is_empty_password() => bail!(
            SecondPasswordEmpty,
            "Empty password can not be retained as second password for user '{name}'@'{host}'."
        ),
        SecondPassword::Replaced if new.is_empty_password() => bail!(
            PasswordNotRetained,
            "Current password can not be retained for user '{name}'@'{host}' because new password \
             is empty."
        ),
        SecondPassword::Replaced => {
            Ok(Some(AuthData { tls: TlsRequirement::None, ..user.auth.clone() }))
        }
        // Otherwise it would be the only one of an account that is to have none.
        SecondPassword::Kept if new.is_empty_password() => Ok(None),
        SecondPassword::Kept => Ok(user.second.clone()),
        SecondPassword::Discarded => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(byte: u8) -> AuthData {
        AuthData { native: Some([byte; 20]), ..AuthData::default() }
    }

    #[test]
    fn a_password_stays_behind_the_next_where_it_is_to() {
        use SecondPassword::{Discarded, Kept, Replaced};
        let of = |auth, second| User { second, ..User::new(Account::anywhere("u"), auth) };
        let behind = |user: &User, new, how| {
            second_behind(user, &new, how).map_err(|error| error.code().errno())
        };
        let tls = TlsRequirement::Ssl;
        let one = of(AuthData { tls, ..native(1) }, None);
        assert_eq!(behind(&one, native(2), Kept), Ok(None));
        assert_eq!(behind(&one, native(2), Replaced), Ok(Some(native(1))));
        let two = of(native(2), Some(native(1)));
        assert_eq!(behind(&two, native(3), Kept), Ok(Some(native(1))));
        assert_eq!(behind(&two, native(3), Replaced), Ok(Some(native(2))));
        assert_eq!(behind(&two, native(3), Discarded), Ok(None));
        assert_eq!(behind(&two, AuthData::default(), Kept), Ok(None));
        assert_eq!(behind(&two, AuthData::default(), Replaced), Err(3895));
        let empty = of(AuthData::default(), None);
        assert_eq!(behind(&empty, native(1), Replaced), Err(3878));
    }
}
